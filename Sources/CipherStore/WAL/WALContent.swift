import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The valid content of the WAL of a store, and signs that more was in it.
package struct WALContent {
    package let bytes: Int
    /// nil where SQLite would not use the header of the WAL.
    package let scan: WALScan?
    /// The format version, when SQLite does not know it and opens no database with this WAL.
    private let unknownVersion: UInt32?
    /// The path of the WAL.
    private let wal: String

    /// - Throws: `SystemError`.
    package init(of path: String) throws { try self.init(file: StorePaths(path).wal) }

    /// - Parameter wal: The WAL itself.
    /// - Throws: `SystemError`.
    package init(file wal: String) throws {
        self.wal = wal
        // A folder or a pipe holds no frames.
        guard try Files.kind(wal) == .regular, let bytes = try Files.byteCount(wal), bytes > 0 else {
            (self.bytes, scan, unknownVersion) = (0, nil, nil)
            return
        }
        let file = try RawFile(wal: wal)
        self.bytes = bytes
        scan = try WALScan.scan(fileBytes: bytes) { try file.read(at: $0, into: $1) }
        unknownVersion = try file.bytes(at: 0, count: WALHeader.headerBytes).withUnsafeBytes(WALHeader.unknownVersion)
    }

    /// The pages in its committed frames; nil where it has no commit.
    var committedPages: Set<UInt32>? {
        guard let scan, scan.committedFrames > 0 else { return nil }
        return Set(scan.lastFrames.keys)
    }

    /// The findings in the header of a store. If that of the file is damaged and the WAL has page 1, the header in the
    /// WAL counts: a checkpoint was interrupted in the middle of the page.
    ///
    /// - Parameters:
    ///   - first: The first bytes of the database file.
    ///   - settings: Nil where they are not known.
    /// - Throws: `SystemError`.
    package static func verdict(
        of path: String, first: [UInt8], fileBytes: Int, settings: CipherSettings?
    ) throws -> HeaderVerdict {
        let verdict = DatabaseHeader.examine(first, fileBytes: fileBytes, settings: settings)
        if case .plaintextHeader = verdict { return verdict }
        guard let settings, settings.plaintextHeaderBytes > 0, fileBytes >= settings.pageBytes,
            BackupBundle(holding: path) == nil, let logged = try WALContent(of: path).firstPage(of: path)
        else { return verdict }
        let found = DatabaseHeader.examine(logged, fileBytes: fileBytes, settings: settings)
        if case .plaintextHeader = found { return found }
        return verdict
    }

    /// Page 1 of the last commit; nil where the WAL does not have it.
    private func firstPage(of path: String) throws -> [UInt8]? {
        guard let scan, let frame = scan.lastFrames[1] else { return nil }
        return try RawFile(wal: StorePaths(path).wal)
            .bytes(at: scan.pageOffset(ofFrame: frame), count: scan.header.pageBytes)
    }

    /// Pages at the last commit.
    ///
    /// - Parameter first: The first bytes of the database file.
    package func pages(_ first: [UInt8]) -> Int {
        let inWAL = Int(scan?.databasePages ?? 0)
        return inWAL > 0 ? inWAL : Int(DatabaseHeader(first)?.pageCount ?? 0)
    }

    /// The differences between file, header and WAL about the length of a database.
    package enum LengthFault: Hashable, Sendable {
        /// Of the pages that header or WAL count, so many are neither in the file nor in the WAL.
        case missing(pages: Int, of: Int)
        /// The file has more bytes than the pages that its header counts, and the WAL has no commit.
        case excess(pages: Int, bytes: Int)
        /// The last commit in the WAL counts other pages than the header of its page 1. SQLite reads as many as the one says,
        /// and a checkpoint gives the file the length of the other.
        case counts(log: Int, header: Int)

        /// Nil where both count alike, or the WAL has no commit.
        package init?(counts log: Int, _ header: Int) {
            guard log > 0, log != header else { return nil }
            self = .counts(log: log, header: header)
        }

        /// A sentence without its full stop.
        package var text: String {
            switch self {
            case .missing(let pages, let counted):
                CountText.text(pages, "page is", "pages are")
                    + " missing from the end of the file, and not in the WAL, of \(counted) that the header or the WAL counts"
            case .excess(let pages, let bytes):
                "bytes 28 to 31 of the header count \(CountText.text(pages, "page")), and the file has "
                    + "\(CountText.text(bytes, "byte")) more"
            case .counts(let log, let header):
                "the last commit in the WAL counts \(CountText.text(log, "page")), and bytes 28 to 31 of page 1 count "
                    + "\(header): one of them was changed"
            }
        }
    }

    /// The fault of the length of a database, if it is there repeatedly; nil for none. An empty file, and one without a
    /// header, are reported as such.
    ///
    /// - Parameter pageBytes: Bytes of a page.
    /// - Throws: `SystemError`.
    package static func lengthFault(of path: String, pageBytes: Int) throws -> LengthFault? {
        try lengthFault(of: path, pageBytes: pageBytes) { DatabaseHeader($0) }
    }

    /// The same where the key is known, so that an encrypted header can be read.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    package static func lengthFault(of path: String, _ key: PageKey) throws -> LengthFault? {
        var codec = try PageCodec(keys: PageKeys(key))
        return try lengthFault(of: path, pageBytes: key.settings.pageBytes) { try codec.header(ofFirstPage: $0) }
    }

    private static func lengthFault(
        of path: String, pageBytes: Int, reading header: ([UInt8]) throws -> DatabaseHeader?
    ) throws -> LengthFault? {
        var fault: LengthFault?
        _ = try Polling.holds {
            fault = try lengthFaultNow(of: path, pageBytes: pageBytes, header)
            return fault != nil
        }
        return fault
    }

    private static func lengthFaultNow(
        of path: String, pageBytes: Int, _ header: ([UInt8]) throws -> DatabaseHeader?
    ) throws -> LengthFault? {
        let first = try RawFile(path).bytes(at: 0, count: pageBytes)
        // A backup has no WAL.
        let log = try BackupBundle(holding: path) == nil ? WALContent(of: path) : nil
        let length = DatabaseLength(fileBytes: try Files.byteCount(path) ?? 0, pageBytes: pageBytes)
        let counted = try header(log?.firstPage(of: path) ?? first).map { Int($0.pageCount) }
        let inWAL = log?.committedPages == nil ? 0 : Int(log?.scan?.databasePages ?? 0)
        if let counted, let fault = LengthFault(counts: inWAL, counted) { return fault }
        let pages = inWAL > 0 ? inWAL : counted ?? 0
        return switch length.verdict(pages: pages, committed: { log?.committedPages }) {
        case .pagesMissing(let count) where length.fileBytes > 0: .missing(pages: count, of: pages)
        case .pageCountLowered where DatabaseHeader(first) != nil:
            .excess(pages: pages, bytes: length.fileBytes - pages * pageBytes)
        default: nil
        }
    }
}

extension WALContent {
    /// Commits of a WAL that have lost their effect.
    package enum Loss: Hashable, Sendable {
        /// No committed frame of the WAL is authentic: it is that of another database, or from before a rotation.
        case otherKey
        /// Page 1 shows that WAL and file are of different states of the database. Numbers are change counters.
        case otherState(log: ClosedRange<UInt32>, file: UInt32)
        /// The clear header of the last page 1, in a frame, was changed: no code covers it.
        case changedHeader(UInt32)
        /// The WAL has bytes after its header, but the header is not valid. SQLite makes it durable before the frames.
        case allContent
        /// A frame is damaged that is of a commit or has some after it, and SQLite ends the WAL before it.
        case afterFrame(UInt32)
        /// The frame that ends the last commit is damaged, or was written in part: a process that is killed in a commit
        /// leaves the same.
        case lastCommit(UInt32)
        /// From some frame on, no frame belongs to any commit.
        case fromFrame(UInt32)
        /// The WAL has another format version: SQLite refuses to open the database.
        case unknownVersion(UInt32)

        /// Whether nobody can open the database with this WAL.
        package var preventsOpening: Bool {
            switch self {
            case .unknownVersion, .otherKey, .otherState, .changedHeader: true
            case .allContent, .afterFrame, .lastCommit, .fromFrame: false
            }
        }

        /// Whether the WAL is not that of the database beside it.
        var isForeign: Bool {
            switch self {
            case .otherKey, .otherState, .changedHeader: true
            case .unknownVersion, .allContent, .afterFrame, .lastCommit, .fromFrame: false
            }
        }

        /// The frame before which SQLite ends the WAL; nil for another loss.
        var damagedFrame: UInt32? {
            switch self {
            case .afterFrame(let frame), .lastCommit(let frame): frame
            case .allContent, .fromFrame, .unknownVersion, .otherKey, .otherState, .changedHeader: nil
            }
        }

        private static let removal =
            "move it away: commits that are only in it are then missing, so compare with the last backup"

        /// The remedy for the loss.
        ///
        /// - Parameter path: The database.
        package func remedy(for path: String) -> String {
            switch self {
            case .unknownVersion, .otherKey, .changedHeader: Self.removal
            case .otherState:
                "put back database and WAL of one state; if the database is the right one, move the WAL away: its commits "
                    + "are then missing"
            case .fromFrame: "compare with the last backup"
            case .allContent, .afterFrame, .lastCommit:
                "copy what can be read of these commits into another store: `cipherctl salvage \(ShellWord.path(path)) "
                    + "NEW`; and compare with the last backup"
            }
        }

        /// Whether commits were there for certain. Bytes that are no frames may be what a power cut left.
        package var needsAttention: Bool { if case .fromFrame = self { false } else { true } }

        /// The text of a note.
        package var note: String {
            switch self {
            case .allContent:
                "the WAL has bytes none of which counts: commits that were in it and not yet in the database file are "
                    + "lost if it was damaged"
            case .afterFrame(let frame):
                "the WAL has commits that do not count, because frame \(frame) is damaged or was written in part: what "
                    + "of them is not yet in the database file is lost"
            case .lastCommit(let frame):
                "the last commit in the WAL does not count, because frame \(frame) is damaged or was written in part. If a "
                    + "process was killed while it wrote this commit, no caller was told of a success, and nothing is lost. "
                    + "Otherwise the pages of the commit that are not yet in the database file are lost"
            case .fromFrame(let frame):
                "the WAL has bytes from frame \(frame) on that are no frames: commits that were there and not yet in the "
                    + "database file are lost if they were damaged"
            case .otherKey:
                "the WAL is not that of this database: no page in it is authentic under the key. It belongs to another "
                    + "database, is from before a rotation, or each of its pages was changed"
            case .otherState(let log, let file):
                "the WAL and the database file are of two states of the database, such as before and after a restore: "
                    + "page 1 has change counter \(log.lowerBound)"
                    + (log.count > 1 ? " to \(log.upperBound)" : "") + " in the WAL, and \(file) in the file"
            case .changedHeader(let frame):
                "the header in frame \(frame) of the WAL was changed without the key: bytes 0 to 31 of page 1 are not those "
                    + "that were written with the page"
            case .unknownVersion(let version):
                "the WAL has format version \(version), with which SQLite opens no database (it knows "
                    + "\(WALHeader.formatVersion) only)"
            }
        }
    }

    /// The loss of a WAL, if it says so repeatedly: a writer may be active.
    ///
    /// - Parameter key: The key of the pages, if it is known: it shows whether a frame is damaged or was left by a
    ///   process that was killed in a commit.
    /// - Throws: `SystemError`.
    package static func loss(of path: String, _ key: PageKey?) throws -> Loss? {
        var loss: Loss?
        _ = try Polling.holds {
            loss = try WALContent(of: path).loss(of: path, key)
            return loss != nil
        }
        return loss
    }

    /// The loss of the WAL that was read. It may have changed since.
    package func loss(of path: String, _ key: PageKey?) throws -> Loss? {
        if let unknownVersion { return .unknownVersion(unknownVersion) }
        guard let scan else { return bytes > WALHeader.headerBytes ? .allContent : nil }
        if scan.committedFrames == 0, try isOfOtherPages(scan.header, than: path) { return .allContent }
        // The last process to close a database may remove its WAL.
        guard let file = try? RawFile(wal: wal) else { return nil }
        if let key, let foreign = try WALOrigin(scan, file, key)?.fault(of: path) { return foreign }
        return try WALTail(scan, file, bytes: bytes, key).loss()
    }

    /// The offset of the first byte that a commit would overwrite, if a frame from there on is authentic; nil if nothing of
    /// a loss can be read.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func readableLoss(of path: String, _ key: PageKey) throws -> Int? {
        let file = try RawFile(wal: wal)
        guard let header = try scan?.header ?? WALFrames.headerOfRun(file, key) else { return nil }
        let frames = try WALFrames(header, file, bytes: bytes, key)
        // A kill at the first write after a reset leaves such a header, and then the file has every page.
        guard let scan else { return try frames.hasOtherPages(than: path) ? 0 : nil }
        let first = scan.committedFrames + 1
        return try frames.hasAuthenticFrame(from: first) ? header.frameOffset(first) : nil
    }

    /// Whether the frame at which SQLite ends the WAL ends a transaction itself, and was changed rather than left by a
    /// kill.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func hasChangedEnd(_ key: PageKey) throws -> Bool {
        guard let scan else { return false }
        return try WALTail(scan, RawFile(wal: wal), bytes: bytes, key).hasChangedEnd()
    }

    /// Whether frames follow a header that names another page size than the database has: SQLite finds none of them.
    private func isOfOtherPages(_ header: WALHeader, than path: String) throws -> Bool {
        guard try Files.kind(path) != nil, bytes > WALHeader.headerBytes else { return false }
        let first = try RawFile(path).bytes(at: 0, count: DatabaseHeader.headerBytes)
        return DatabaseHeader(first).map { $0.pageBytes != header.pageBytes } ?? false
    }
}
