import CipherDatabase
import Foundation
import PageFormat
import StorePlatform
import StoreSharing

/// The log of a database whose switch to the next key was announced, below SQLite.
///
/// A rotation announces the switch only when the log has a frame and ends where the copy does. Before the copy takes the
/// database's name it replaces the log by an empty file, durably, and nobody else writes meanwhile. So a log that still has
/// its frames was not replaced, and database and log together have every commit that the copy has.
struct RotationLog {
    private let paths: StorePaths

    init(_ paths: StorePaths) { self.paths = paths }

    /// Looks whether it has all of its frames.
    ///
    /// Salts, checksums and authentication tell that what is there is sound, the number of pages that the last
    /// commit is the last one, and the index of the log, where it survived, how many frames there were.
    ///
    /// - Parameters:
    ///   - keys: Those of the present epoch.
    ///   - databasePages: Pages of the database when the switch was announced.
    /// - Throws: ``SystemError``.
    func examine(keys: borrowing PageKeys, databasePages: UInt32) throws -> RecoveryFindings.Log {
        guard let kind = try Files.kindOfName(paths.wal) else { return .emptied }
        guard kind == .regular else { return .unfit }
        // The log holds no locks, so a descriptor of our own does no harm.
        let log = try OpenFile(FileDescriptor(opening: paths.wal, .readOnly, followsLinks: false))
        let size = try log.status().byteCount
        if size == 0 { return .emptied }
        let scan = try WALScan.scan(fileBytes: size, read: { try log.read(at: $0, into: $1) })
        guard let scan, scan.header.pageBytes == keys.layout.pageBytes, scan.committedFrames > 0,
            scan.databasePages == databasePages, try hasAllFrames(scan, log)
        else { return .unfit }
        let report = try PageScan.verifyFrames(
            keys: keys, of: scan, workers: ProcessInfo.processInfo.activeProcessorCount,
            read: { try log.read(at: $0, into: $1) })
        return report.isClean ? .whole : .unfit
    }

    /// Whether no frame was lost at the end.
    ///
    /// The index is shared memory: after a kill it is exact, after a power cut it may be an older one. Without an exact one
    /// a frame of this run that does not belong to its end may be a commit that was damaged.
    private func hasAllFrames(_ scan: WALScan, _ log: OpenFile) throws -> Bool {
        if let index = try index(), index.salts == scan.header.salts {
            if index.frames == scan.committedFrames { return true }
            if index.frames > scan.committedFrames { return false }
        }
        let next = scan.header.frameOffset(scan.committedFrames + scan.uncommittedFrames + 1)
        let rest = try log.read(at: next, byteCount: WALFrameHeader.headerBytes)
        guard rest.count == WALFrameHeader.headerBytes else { return rest.isEmpty }
        return rest.withUnsafeBytes { WALFrameHeader($0) }?.salts != scan.header.salts
    }

    private func index() throws -> WALIndex? {
        guard try Files.kindOfName(paths.sharedMemory) == .regular else { return nil }
        let head = try FileDescriptor(opening: paths.sharedMemory, .readOnly, followsLinks: false)
            .read(at: 0, byteCount: WALIndex.headerBytes)
        return head.withUnsafeBytes { WALIndex($0) }
    }
}
