import CipherDatabase
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// Whether a WAL is that of the database beside it. Salts and checksums tie a WAL to no database: SQLite applies any whose
/// checksums are right, and the next checkpoint copies it over the pages of the file.
///
/// The key shows a WAL of another database. One of the same database, of another time, has authentic pages; the change
/// counter in page 1 shows many of these. SQLite never lowers that counter, and it adds at most 1 from the file to the
/// first frame of a WAL. A WAL without page 1 shows nothing, nor does one of a file without a plaintext header: SQLite
/// reads the former counter from the bytes of the file as they are, and adds 1 to a ciphertext.
///
/// No code covers the clear bytes of page 1, as the page count. Changed ones show where they are such as SQLite never
/// writes, or where the file has the same page with others. Those of an earlier page 1 of the same run do not.
/// - SeeAlso: `pager_write_changecounter` in <https://www.sqlite.org/src/file/src/pager.c>
struct WALOrigin {
    private let scan: WALScan
    private let frames: WALFrames
    private let hasReadableCounter: Bool

    /// - Returns: Nil for a WAL without a commit, or of pages of another size.
    /// - Throws: `SystemError`, `PageFormatError`.
    init?(_ scan: WALScan, _ file: RawFile, _ key: PageKey) throws {
        guard scan.committedFrames > 0, scan.header.pageBytes == key.settings.pageBytes else { return nil }
        self.scan = scan
        hasReadableCounter = key.settings.plaintextHeaderBytes >= DatabaseHeader.Offset.changeCounter + 4
        frames = try WALFrames(scan.header, file, bytes: file.byteCount, key)
    }

    /// Whether a committed frame is authentic. Only the first frames are read if none is.
    var hasAuthenticFrame: Bool {
        get throws {
            let limit = min(scan.committedFrames, StoreLimits.originFrames)
            return try frames.firstAuthentic(from: 1, limit: limit).map { $0 <= scan.committedFrames } ?? false
        }
    }

    /// Why the WAL is not that of a database; nil where nothing shows that.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func fault(of path: String) throws -> WALContent.Loss? {
        guard try hasAuthenticFrame else { return .otherKey }
        if let frame = scan.lastFrames[1], try frames.hasChangedHeader(frame, ofFile: path) {
            return .changedHeader(frame)
        }
        guard hasReadableCounter else { return nil }
        let firstPages = scan.pageNumbers.indices.filter { scan.pageNumbers[$0] == 1 }.map { UInt32($0) + 1 }
        guard let first = firstPages.first, let last = firstPages.last,
            let begin = try frames.changeCounter(of: first), let end = try frames.changeCounter(of: last),
            begin <= end, let inFile = try frames.changeCounter(ofFile: path)
        else { return nil }
        return inFile > end || Int(inFile) < Int(begin) - 1 ? .otherState(log: begin...end, file: inFile) : nil
    }

    // MARK: Openings

    /// Whether the WAL of a store has content that no process with an open connection has examined.
    static func isUnexamined(_ path: String) -> Bool {
        let paths = StorePaths(path)
        guard ((try? Files.byteCount(paths.wal)) ?? nil) ?? 0 > WALHeader.headerBytes else { return false }
        return ((try? SystemLocks.posixLocks(on: paths.sharedMemory)) ?? nil)?.isEmpty ?? true
    }

    /// Refuses a store with a WAL that is not its own. Nothing may have been written since the first connection was opened.
    ///
    /// - Throws: ``StoreError`` `walDamaged`; `SystemError`.
    static func requireOwn(_ fileKey: FileKey) throws {
        guard let paths = fileKey.paths, let key = fileKey.pageKey else { return }
        if let error = try refusal(paths, key) { throw error }
    }

    /// The error of an opening that failed because of a WAL that is not the store's; nil for another reason.
    static func refusal(explaining error: any Error, _ fileKey: FileKey) -> StoreError? {
        guard let paths = fileKey.paths, let key = fileKey.pageKey, isOfPages(error) else { return nil }
        return (try? refusal(paths, key)) ?? nil
    }

    private static func refusal(_ paths: StorePaths, _ key: PageKey) throws -> StoreError? {
        if let loss = try WALContent.loss(of: paths.database, key), loss.isForeign { return refusal(loss, paths) }
        guard case .counts(let log, let header)? = try WALContent.lengthFault(of: paths.database, key) else {
            return nil
        }
        return StoreError.otherPageCount(paths.database, wal: log, header: header)
    }

    private static func isOfPages(_ error: any Error) -> Bool {
        switch error {
        case let error as DatabaseError:
            [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_NOMEM].contains(
                error.resultCode.primaryResultCode)
        case let error as StoreError:
            switch error.code {
            case .truncated, .pageDamaged, .headerDamaged, .wrongKey: true
            default: false
            }
        default: false
        }
    }

    private static func refusal(_ loss: WALContent.Loss, _ paths: StorePaths) -> StoreError {
        let (note, remedy) = (loss.note, loss.remedy(for: paths.database))
        return StoreError(
            .walDamaged, what: "\"\(paths.database)\" was not opened, because of its WAL.",
            why: note.prefix(1).uppercased() + note.dropFirst()
                + ". SQLite would mix its pages with those of the file.",
            remedy: "Put the WAL of this database back in the place of \"\(paths.wal)\". If there is none, "
                + "\(remedy). Nothing was changed.")
    }
}
