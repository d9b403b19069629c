import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Determines the kind and the faults of a database file from its bytes.
///
/// SQLite's codes do not suffice: each version of SQLCipher reports a wrong key with another code, and with a damaged
/// header reads succeed and writes destroy pages. All bytes are read through the connection's own descriptor.
struct FileDiagnosis {
    let file: ConnectionHandle
    let path: String

    init(_ file: ConnectionHandle, path: String) {
        self.file = file
        self.path = path
    }

    // MARK: Without a sidecar

    /// The kinds of file without a sidecar.
    enum Kind {
        case new
        case standard(salt: Salt)
        case plaintextHeader
    }

    /// Determines the kind of a file without a sidecar.
    func kindWithoutSidecar() throws -> Kind {
        let (first, size) = try beginning()
        switch DatabaseHeader.examine(first, fileBytes: size, settings: nil) {
        case .empty: return .new
        case .plaintextHeader: return .plaintextHeader
        case .plainSQLite: throw notEncrypted(.plainSQLite)
        case .tooShort: throw notEncrypted(.noDatabase)
        case .damagedHeader(let damage): throw headerDamaged(damage)
        case .opaque(let traits):
            guard traits.looksRandom else { throw notEncrypted(.noDatabase) }
            return .standard(salt: try Salt(bytes: Array(first.prefix(16))))
        }
    }

    /// Whether the file resembles SQLCipher's standard form, with its salt in the first 16 bytes.
    func mayBeStandard() throws -> Bool {
        let (first, size) = try beginning()
        guard case .opaque(let traits) = DatabaseHeader.examine(first, fileBytes: size, settings: nil) else {
            return false
        }
        return traits.mayBeStandardSQLCipher
    }

    // MARK: With a key

    /// Refuses a file with a second name. SQLite would keep another WAL beside that name, and neither WAL includes the
    /// other's commits.
    /// - SeeAlso: <https://www.sqlite.org/howtocorrupt.html#_multiple_links_to_the_same_file>
    func requireOneName() throws {
        guard let status = try Files.status(of: path), status.linkCount > 1 else { return }
        throw hardLinked(names: status.linkCount)
    }

    /// Checks the fixed header bytes and the authentication of page 1.
    ///
    /// A page that a checkpoint is writing at this moment can look damaged, so a failed check is repeated for 100 ms. A
    /// page 1 that a rollback journal will restore is left to SQLite. If a checkpoint was interrupted in the middle of
    /// page 1, the page 1 in the WAL is verified instead.
    func verifyFirstPage(_ key: PageKey, sidecar: Sidecar?) throws {
        let settings = key.settings
        var codec = try PageCodec(dataKey: key.dataKey.secret, salt: key.salt.bytes, settings: settings)
        var polling = Polling.untilSettled()
        var problem: (any Error)?
        repeat {
            let (first, size) = try beginning(settings.pageBytes)
            if size == 0 { return }
            problem = judge(first, size: size, codec: &codec, key: key, sidecar: sidecar)
            if problem == nil { return }
            // An error in a file that was replaced does not apply to the store: its opener starts again with the new
            // file.
        } while !file.hasMoved && polling.sleep()
        guard let problem else { return }
        if try mayBePlayedBack() { return }
        // A power failure in the middle of the first page of a new store leaves the journal of an empty database.
        if sidecar?.state == .creating, try RollbackJournal(beside: path)?.beganEmpty == true, file.emptyFile() {
            return
        }
        if let logged = try firstPageInWAL(pageBytes: settings.pageBytes) {
            let size = file.fileBytes ?? 0
            if judge(logged, size: size, codec: &codec, key: key, sidecar: sidecar) == nil { return }
        }
        throw problem
    }

    private func judge(
        _ first: [UInt8], size: Int, codec: inout PageCodec, key: PageKey, sidecar: Sidecar?
    ) -> (any Error)? {
        let settings = key.settings
        if settings.plaintextHeaderBytes > 0 {
            switch DatabaseHeader.examine(first, fileBytes: size, settings: settings) {
            case .empty, .plaintextHeader: break
            case .damagedHeader(let damage): return headerDamaged(damage)
            case .plainSQLite: return notEncrypted(.plainSQLite)
            case .tooShort: return shorterThanPage(bytes: size, pageBytes: settings.pageBytes)
            case .opaque(let traits):
                if sidecar != nil, !key.isSaltInFront(of: first),
                    let error = lostBeginning(first, size: size, codec: &codec, settings: settings)
                {
                    return error
                }
                return traits.mayBeStandardSQLCipher ? foreignSidecar(sidecar) : notEncrypted(.noDatabase)
            }
        }
        guard size >= settings.pageBytes, first.count >= settings.pageBytes else {
            return shorterThanPage(bytes: size, pageBytes: settings.pageBytes)
        }
        let firstPage = first.prefix(settings.pageBytes)
        if firstPage.withUnsafeBytes({ codec.verify($0, number: 1) }) { return nil }
        guard sidecar != nil else { return wrongKey(first) }
        // The sidecar proves the key, so the page is damaged, or belongs to another store.
        return anyOtherPageVerifies(&codec, size: size, settings: settings) ? pageDamaged(1) : foreignSidecar(sidecar)
    }

    private func shorterThanPage(bytes: Int, pageBytes: Int) -> StoreError {
        let logged = (try? Self.pagesInWAL(of: path)) ?? 0
        return truncated(expectedPages: 1, bytes: bytes, pageBytes: pageBytes, pagesInWAL: logged)
    }

    /// The error of a file that is the store's, but has lost its header; nil where no page shows that it is. The code of
    /// page 1 leaves the plaintext header out.
    private func lostBeginning(
        _ first: [UInt8], size: Int, codec: inout PageCodec, settings: CipherSettings
    ) -> (any Error)? {
        let firstPage = first.prefix(settings.pageBytes)
        if firstPage.count == settings.pageBytes, firstPage.withUnsafeBytes({ codec.verify($0, number: 1) }) {
            return headerLost(bytes: settings.plaintextHeaderBytes)
        }
        return anyOtherPageVerifies(&codec, size: size, settings: settings) ? pageDamaged(1) : nil
    }

    private func anyOtherPageVerifies(_ codec: inout PageCodec, size: Int, settings: CipherSettings) -> Bool {
        let pages = DatabaseLength(fileBytes: size, pageBytes: settings.pageBytes).wholePages
        guard pages > 1 else { return false }
        for number in 2...min(pages, 9) {
            guard let page = file.readFile(settings.pageBytes, at: (number - 1) * settings.pageBytes),
                page.count == settings.pageBytes
            else { continue }
            if page.withUnsafeBytes({ codec.verify($0, number: UInt32(number)) }) { return true }
        }
        return false
    }

    // MARK: With a read transaction

    /// Checks the length of the file against the one that the header or the WAL states.
    ///
    /// Must be called inside a read transaction, during which neither changes.
    /// - Parameters:
    ///   - pages: The number of pages that SQLite sees.
    ///   - mayHaveTail: Whether bytes may follow the last page, as in a file that is allocated in chunks.
    ///     <https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlchunksize>
    func verifyLength(pages: Int, pageBytes: Int, mayHaveTail: Bool) throws {
        guard let size = file.fileBytes, pages > 0 else { return }
        if mayHaveTail, size > pages * pageBytes { return }
        let length = DatabaseLength(fileBytes: size, pageBytes: pageBytes)
        if let error = try wrongLength(length, pages: pages, committed: pagesInWAL) { throw error }
    }

    private func wrongLength(
        _ length: DatabaseLength, pages: Int, committed: () throws -> Set<UInt32>?
    ) rethrows -> StoreError? {
        let (size, pageBytes) = (length.fileBytes, length.pageBytes)
        return switch try length.verdict(pages: pages, committed: committed) {
        case .fits: nil
        case .pageCountLowered: pageCountLowered(pages: pages, bytes: size, pageBytes: pageBytes)
        case .pagesMissing: truncated(expectedPages: pages, bytes: size, pageBytes: pageBytes)
        }
    }

    /// The pages in the committed frames of the WAL; nil when there are none.
    private func pagesInWAL() throws -> Set<UInt32>? {
        try scanWAL(.saltsOnly) { scan, _ in Set(scan.lastFrames.keys) }
    }

    /// How many pages the committed frames of the WAL of a database have.
    static func pagesInWAL(of path: String) throws -> Int {
        try scanWAL(of: path, .checksums) { scan, _ in scan.lastFrames.count } ?? 0
    }

    /// How many pages of the database the committed frames of its WAL have, and how many the last commit counts; nil
    /// without a commit. SQLite uses no page of the lock bytes.
    static func pagesOfDatabaseInWAL(_ path: String) throws -> (there: Int, counted: Int)? {
        try scanWAL(of: path, .checksums) { scan, _ in
            let lockPage = UInt32(PageLayout.lockByteOffset / scan.header.pageBytes) + 1
            let counted = Int(scan.databasePages) - (scan.databasePages >= lockPage ? 1 : 0)
            return (scan.lastFrames.count, counted)
        }
    }

    /// The page size in the header of the WAL, which SQLite then takes for that of the database; nil without commits.
    private func pageBytesInWAL() throws -> Int? { try scanWAL(.saltsOnly) { scan, _ in scan.header.pageBytes } }

    /// The format version of the WAL, when it is one with which SQLite opens no database.
    private func unknownLogVersion() throws -> UInt32? {
        let wal = StorePaths(path).wal
        guard try Files.kind(wal) == .regular else { return nil }
        let log = try FileDescriptor(opening: wal, .readOnly, mustBeRegular: true)
        return try log.read(at: 0, byteCount: WALHeader.headerBytes).withUnsafeBytes(WALHeader.unknownVersion)
    }

    /// Page 1 of the last commit in the WAL; nil when the WAL does not contain it.
    private func firstPageInWAL(pageBytes: Int) throws -> [UInt8]? {
        try scanWAL(.checksums) { scan, log in
            guard scan.header.pageBytes == pageBytes, let frame = scan.lastFrames[1] else { return nil }
            return try log.read(at: scan.pageOffset(ofFrame: frame), byteCount: pageBytes)
        }
    }

    private func scanWAL<T>(
        _ checking: WALScan.Checking, _ body: (WALScan, borrowing FileDescriptor) throws -> T?
    ) throws -> T? {
        try Self.scanWAL(of: path, checking, body)
    }

    /// Reads a WAL that contains commits; nil when it contains none.
    private static func scanWAL<T>(
        of path: String, _ checking: WALScan.Checking, _ body: (WALScan, borrowing FileDescriptor) throws -> T?
    ) throws -> T? {
        let wal = StorePaths(path).wal
        guard let size = try Files.byteCount(wal), size > 0 else { return nil }
        // The WAL has no locks, so opening and closing another descriptor of it releases none.
        let log = try FileDescriptor(opening: wal, .readOnly, mustBeRegular: true)
        let scan = try WALScan.scan(fileBytes: size, checking: checking) { offset, buffer in
            let bytes = try log.read(at: offset, byteCount: buffer.count)
            buffer.copyBytes(from: bytes)
            return bytes.count
        }
        guard let scan, scan.committedFrames > 0 else { return nil }
        return try body(scan, log)
    }

    // MARK: After SQLite failed

    /// Explains why SQLite failed to read a file.
    ///
    /// - Parameter settings: The settings of a key that was verified; nil when none is known.
    func explain(_ error: DatabaseError, settings: CipherSettings?) -> any Error {
        if error.resultCode == .SQLITE_PROTOCOL { return indexLocked() }
        // A lack of resources in the process says nothing about the files.
        if error.resultCode == .SQLITE_CANTOPEN, let shortage = error.shortage, !shortage.isReadOnlyFilesystem {
            return error
        }
        if error.resultCode == .SQLITE_CANTOPEN, let version = try? unknownLogVersion() {
            return walOfOtherVersion(version)
        }
        let unopened: [ResultCode] = [.SQLITE_CANTOPEN, .SQLITE_READONLY]
        if unopened.contains(error.resultCode), let reason = reasonLogNotOpened() { return reason }
        let unreadable: [ResultCode] = [.SQLITE_NOTADB, .SQLITE_CORRUPT, .SQLITE_ERROR, .SQLITE_NOMEM]
        guard unreadable.contains(error.resultCode), let (first, size) = try? beginning(), size > 0 else {
            return error
        }
        if let settings, let logged = try? pageBytesInWAL(), logged != settings.pageBytes {
            return walOfOtherDatabase(pageBytes: logged, expected: settings.pageBytes)
        }
        guard let settings else {
            // SQLCipher derived the key itself, or there was no key.
            let verdict = DatabaseHeader.examine(first, fileBytes: size, settings: nil)
            if case .plainSQLite = verdict { return notEncrypted(.plainSQLite) }
            return wrongKey(first)
        }
        guard settings.plaintextHeaderBytes > 0, let header = DatabaseHeader(first) else { return error }
        // The length in the WAL has precedence over the one in the header.
        guard (try? pagesInWAL()) == nil else { return error }
        let length = DatabaseLength(fileBytes: size, pageBytes: settings.pageBytes)
        return wrongLength(length, pages: Int(header.pageCount)) { nil } ?? error
    }

    private func beginning(_ byteCount: Int = 4096) throws -> (bytes: [UInt8], fileBytes: Int) {
        guard let size = file.fileBytes, let bytes = file.readFile(max(4096, byteCount), at: 0) else {
            throw SystemError.inputOutput("read", path)
        }
        // SQLite treats a file of one byte as a new database, and would overwrite it.
        if size == 0, try Files.byteCount(path) == 1 { return ([0], 1) }
        return (bytes, size)
    }

    /// Whether the header says that the database is in rollback mode. Standard files of SQLCipher do not show it.
    func isInRollbackMode() throws -> Bool {
        let (first, _) = try beginning()
        return DatabaseHeader(first)?.journalMode == .rollback
    }

    /// Whether the header says that the database is in WAL mode.
    ///
    /// - Parameter default: The answer for a file whose header does not show it, unless that is empty.
    func isInWALMode(otherwise default: Bool) throws -> Bool {
        let (first, fileBytes) = try beginning()
        guard fileBytes > 0 else { return false }
        return DatabaseHeader(first)?.journalMode.map { $0 == .writeAheadLog } ?? `default`
    }

    /// Whether SQLite will play a rollback journal back into the file.
    func mayBePlayedBack() throws -> Bool {
        try !file.hidesJournal && Files.byteCount(StorePaths(path).journal) ?? 0 > 0
    }

    /// Whether the file has no content at all, so that a database may be created in it.
    func isEmpty() throws -> Bool { try beginning().fileBytes == 0 }
}
