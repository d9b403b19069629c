import CipherStore
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// The valid content of the WAL of a store, and signs that more was in it.
package struct WALContent {
    package let bytes: Int
    /// nil where SQLite would not use the header of the WAL.
    let scan: WALScan?

    /// - Throws: `SystemError`.
    package init(of path: String) throws {
        let wal = StorePaths(path).wal
        guard let bytes = try Files.byteCount(wal), bytes > 0 else {
            (self.bytes, scan) = (0, nil)
            return
        }
        let file = try RawFile(wal: wal)
        self.bytes = bytes
        scan = try WALScan.scan(fileBytes: bytes) { try file.read(at: $0, into: $1) }
    }

    /// The pages in its committed frames; nil where it has no commit.
    package var committedPages: Set<UInt32>? {
        guard let scan, scan.committedFrames > 0 else { return nil }
        return Set(scan.lastFrames.keys)
    }

    /// Whether it has bytes, but no frame that was ever written completely.
    private var hasNothing: Bool { bytes > 0 && (scan.map { $0.committedFrames + $0.uncommittedFrames } ?? 0) == 0 }

    /// Pages at the last commit.
    ///
    /// - Parameter first: The first bytes of the database file.
    func pages(_ first: [UInt8]) -> Int {
        let inLog = Int(scan?.databasePages ?? 0)
        return inLog > 0 ? inLog : Int(DatabaseHeader(first)?.pageCount ?? 0)
    }

    /// Pages of the database that are neither in the file nor in the WAL, and bytes of the file that no header and no
    /// commit explains.
    ///
    /// - Parameter pageBytes: nil where it is unknown: then nothing is reported.
    static func lengthFaults(of path: String, pageBytes: Int?) throws -> (missing: Int, excess: Int?) {
        guard let pageBytes else { return (0, nil) }
        var faults: (missing: Int, excess: Int?) = (0, nil)
        _ = try recheck {
            faults = (0, nil)
            let first = try RawFile(path).bytes(at: 0, count: DatabaseHeader.headerBytes)
            let log = try WALContent(of: path)
            let length = DatabaseLength(fileBytes: try Files.byteCount(path) ?? 0, pageBytes: pageBytes)
            let pages = log.pages(first)
            // An empty file, and one without a header, are reported as such.
            switch length.verdict(pages: pages, committed: { log.committedPages }) {
            case .pagesMissing(let count) where length.fileBytes > 0: faults.missing = count
            case .pageCountLowered where DatabaseHeader(first) != nil:
                faults.excess = length.fileBytes - pages * pageBytes
            default: return false
            }
            return true
        }
        return faults
    }

    /// Whether a condition holds repeatedly, because a writer or a checkpoint may be active.
    package static func recheck(_ isSo: () throws -> Bool) throws -> Bool {
        let deadline = ContinuousClock.now + Limits.recheckTime
        while try isSo() {
            if ContinuousClock.now >= deadline { return true }
            Pause.sleep(for: Limits.recheckPause)
        }
        return false
    }
}

extension WALContent {
    /// Commits of a WAL that do not count any more.
    package enum Loss: Hashable, Sendable {
        /// The WAL has bytes but no valid frame.
        case allContent
        /// Commits follow a frame that is damaged, and SQLite ends the WAL before it.
        case afterFrame(UInt32)

        /// The text of a note.
        package var note: String {
            switch self {
            case .allContent:
                "the WAL has bytes none of which counts: commits that were in it and not yet in the database file are "
                    + "lost if it was damaged"
            case .afterFrame(let frame):
                "the WAL has commits after frame \(frame), which is damaged or was written in part: they do not count, "
                    + "and what of them is not yet in the database file is lost"
            }
        }
    }

    /// What a WAL lost, if it says so repeatedly: a writer may be active.
    ///
    /// - Parameter key: The key of the pages, if it is known: it shows whether a frame is damaged or was left by a
    ///   process that was killed in a commit.
    /// - Throws: `SystemError`.
    static func loss(of path: String, _ key: PageKey?) throws -> Loss? {
        var loss: Loss?
        _ = try recheck {
            loss = try WALContent(of: path).loss(of: path, key)
            return loss != nil
        }
        return loss
    }

    /// What the WAL that was read lost. It may have changed since.
    func loss(of path: String, _ key: PageKey?) throws -> Loss? {
        if hasNothing { return .allContent }
        // The last process to close a database may remove its WAL.
        guard let scan, let file = try? RawFile(wal: StorePaths(path).wal) else { return nil }
        let broken = scan.committedFrames + scan.uncommittedFrames + 1
        guard try hasCommit(from: broken, scan.header, file) else { return nil }
        if let key, try isLeftover(broken, scan.header, file, key) { return nil }
        return .afterFrame(broken)
    }

    /// Whether a frame, or one after it, ends a transaction of this run of the WAL.
    ///
    /// A rollback leaves frames with the salts of the run, too, but none that ends a transaction.
    private func hasCommit(from broken: UInt32, _ header: WALHeader, _ file: RawFile) throws -> Bool {
        var frame = broken
        var before: WALFrameHeader?
        while let found = try frameHeader(frame, header, file) {
            if found.salts == header.salts, found.endsTransaction {
                guard let former = before else { return true }
                if try follows(frame, former, header, file) { return true }
            }
            before = found
            frame += 1
        }
        return false
    }

    /// Whether a broken frame is intact, and follows another one than that before it: then it is the rest of a commit
    /// that never happened, because its process was killed, and a later one has overwritten its beginning.
    private func isLeftover(_ frame: UInt32, _ header: WALHeader, _ file: RawFile, _ key: PageKey) throws -> Bool {
        guard key.settings.pageBytes == header.pageBytes, let found = try frameHeader(frame, header, file),
            found.salts == header.salts, found.pageNumber > 0
        else { return false }
        let page = try file.bytes(at: header.pageOffset(ofFrame: frame), count: header.pageBytes)
        var codec = try PageCodec(keys: PageKeys(key))
        guard page.withUnsafeBytes({ codec.verify($0, number: found.pageNumber) }) else { return false }
        guard try frameHeader(frame + 1, header, file) != nil else { return true }
        return try follows(frame + 1, found, header, file)
    }

    private func frameHeader(_ frame: UInt32, _ header: WALHeader, _ file: RawFile) throws -> WALFrameHeader? {
        guard header.frameOffset(frame) + header.frameStrideBytes <= bytes else { return nil }
        let found = try file.bytes(at: header.frameOffset(frame), count: WALFrameHeader.headerBytes)
        return found.withUnsafeBytes { WALFrameHeader($0) }
    }

    /// Whether the checksum of a frame continues that of the frame before it.
    private func follows(
        _ frame: UInt32, _ before: WALFrameHeader, _ header: WALHeader, _ file: RawFile
    ) throws -> Bool {
        let bytes = try file.bytes(at: header.frameOffset(frame), count: header.frameStrideBytes)
        guard bytes.count == header.frameStrideBytes else { return false }
        var checksum = before.checksum
        return bytes.withUnsafeBytes { bytes in
            checksum.add(frame: bytes, bigEndian: header.checksumsAreBigEndian)
            return WALFrameHeader(bytes)?.checksum == checksum
        }
    }
}
