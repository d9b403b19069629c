import CipherDatabase
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The state of the files of an interrupted rotation, read without SQLite: the copy, the WAL, and page 1 of the
/// database.
struct RotationEvidence {
    private let paths: StorePaths

    init(_ paths: StorePaths) { self.paths = paths }

    /// The kind of the file that has the copy's name; nil without one. A symbolic link is not followed.
    func copyKind() throws(SystemError) -> FileKind? { try Files.kindOfName(paths.rotationCopy) }

    /// The findings for which neither the whole copy nor the whole WAL is read.
    func findings(_ rotation: PendingRotation) throws -> RecoveryFindings {
        let copy: RecoveryFindings.Copy =
            switch try copyKind() {
            case nil: .absent
            case .regular: .unchecked
            case .directory, .other: .planted
            }
        return RecoveryFindings(
            stage: rotation.sidecar.state == .switching ? .switching : .rotating,
            hasPresentKey: rotation.present != nil, hasNextKey: rotation.next != nil, copy: copy,
            database: try databaseKey(rotation))
    }

    // MARK: The copy

    /// The file with the copy's name, if it has the length in the sidecar, and each of its pages has the next key.
    ///
    /// A page of zeros, which SQLCipher leaves in databases with auto-vacuum, must be one in the database as well.
    func wholeCopy(_ rotation: PendingRotation) throws -> FileIdentity? {
        let copy = try OpenFile(FileDescriptor(opening: paths.rotationCopy, .readOnly, followsLinks: false))
        return try isWhole(copy, rotation) ? copy.status().identity : nil
    }

    private func isWhole(_ copy: OpenFile, _ rotation: PendingRotation) throws -> Bool {
        guard let pending = rotation.sidecar.pending, let dataKey = try rotation.nextDataKey else { return false }
        let settings = rotation.sidecar.settings
        guard try copy.status().kind == .regular,
            DatabaseLength(fileBytes: try copy.status().byteCount, pageBytes: settings.pageBytes)
                .isExactly(pages: Int(pending.pages))
        else { return false }
        let keys = try dataKey.withSecret { try PageKeys(dataKey: $0, salt: pending.salt.bytes, settings: settings) }
        let report: PageScan.Report
        do {
            report = try PageScan.verifyPages(
                keys: keys, pageCount: pending.pages, workers: ProcessInfo.processInfo.activeProcessorCount,
                read: { try copy.read(at: $0, into: $1) })
        } catch let error as SystemError where error.isInputOutput {
            // A block that cannot be read is damage.
            return false
        }
        guard report.damaged.isEmpty, report.missing.isEmpty, !report.zero.isEmpty else { return report.isClean }
        let database = try LiveFiles.descriptor(of: paths.database)
        return try report.zero.allSatisfy { number in
            let page = try database.bytes(at: Int(number - 1) * settings.pageBytes, count: settings.pageBytes)
            return page.withUnsafeBytes { PageCodec.isZero($0) }
        }
    }

    // MARK: The WAL

    /// Whether the WAL has every frame that it had when the switch was announced.
    ///
    /// A rotation announces the switch only when the WAL has a frame and ends where the copy does. An empty file
    /// replaces it before the copy gets the database's name, and no other process writes meanwhile. So a WAL that still
    /// has its frames was not replaced, and database and WAL together have every commit that the copy has.
    ///
    /// Salts, checksums and authentication show that the frames found are intact. The number of pages shows that the
    /// last commit found is the last one made. The wal-index, where it survived, shows how many frames existed.
    func wal(_ rotation: PendingRotation) throws -> RecoveryFindings.WAL {
        guard let pending = rotation.sidecar.pending, let key = try rotation.present?.dataKey(of: rotation.sidecar)
        else { return .unfit }
        guard let kind = try Files.kindOfName(paths.wal) else { return .emptied }
        guard kind == .regular else { return .unfit }
        // SQLite places no locks on the WAL file itself, so closing another descriptor of it releases none.
        let wal = try OpenFile(FileDescriptor(opening: paths.wal, .readOnly, followsLinks: false))
        let size = try wal.status().byteCount
        if size == 0 { return .emptied }
        let settings = rotation.sidecar.settings
        let scan = try WALScan.scan(fileBytes: size, read: { try wal.read(at: $0, into: $1) })
        guard let scan, scan.header.pageBytes == settings.pageBytes, scan.committedFrames > 0,
            scan.databasePages == pending.pages, try hasAllFrames(scan, wal)
        else { return .unfit }
        let keys = try key.withSecret {
            try PageKeys(dataKey: $0, salt: rotation.sidecar.salt.bytes, settings: settings)
        }
        let report = try PageScan.verifyFrames(
            keys: keys, of: scan, workers: ProcessInfo.processInfo.activeProcessorCount,
            read: { try wal.read(at: $0, into: $1) })
        return report.isClean ? .whole : .unfit
    }

    /// Whether no frame was lost at the end.
    ///
    /// The wal-index is shared memory: after a kill it is exact, after a power failure it may be an older one. Without
    /// an exact index, a frame with the WAL's salts after the last valid frame may be a damaged commit.
    private func hasAllFrames(_ scan: WALScan, _ wal: OpenFile) throws -> Bool {
        if let index = try index(), index.salts == scan.header.salts {
            if index.frames == scan.committedFrames { return true }
            if index.frames > scan.committedFrames { return false }
        }
        let next = scan.header.frameOffset(scan.committedFrames + scan.uncommittedFrames + 1)
        let rest = try wal.read(at: next, byteCount: WALFrameHeader.headerBytes)
        guard rest.count == WALFrameHeader.headerBytes else { return rest.isEmpty }
        return rest.withUnsafeBytes { WALFrameHeader($0) }?.salts != scan.header.salts
    }

    private func index() throws -> WALIndex? {
        guard try Files.kindOfName(paths.sharedMemory) == .regular else { return nil }
        let head = try FileDescriptor(opening: paths.sharedMemory, .readOnly, followsLinks: false)
            .read(at: 0, byteCount: WALIndex.headerBytes)
        return head.withUnsafeBytes { WALIndex($0) }
    }

    // MARK: The database

    /// The key of page 1 of the database.
    private func databaseKey(_ rotation: PendingRotation) throws -> RecoveryFindings.DatabaseKey {
        let settings = rotation.sidecar.settings
        let page = try LiveFiles.descriptor(of: paths.database).bytes(at: 0, count: settings.pageBytes)
        func has(_ key: DataKey?, _ salt: Salt?) throws -> Bool {
            guard let key, let salt else { return false }
            var codec = try key.withSecret { try PageCodec(dataKey: $0, salt: salt.bytes, settings: settings) }
            return page.withUnsafeBytes { codec.verify($0, number: 1) }
        }
        if try has(rotation.nextDataKey, rotation.sidecar.pending?.salt) { return .next }
        let present = try rotation.present?.dataKey(of: rotation.sidecar)
        return try has(present, rotation.sidecar.salt) ? .present : .unknown
    }
}

extension LiveFile {
    /// The bytes at an offset, at most `count` of them.
    fileprivate func bytes(at offset: Int, count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let filled = try bytes.withUnsafeMutableBytes { try read(at: offset, into: $0) }
        bytes.removeLast(count - filled)
        return bytes
    }
}
