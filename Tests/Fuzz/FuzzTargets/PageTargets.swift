import CSQLCipher
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto

extension FuzzTarget {
    /// Whole files: what this package finds in them is compared with what the library of the system finds.
    ///
    /// The input changes single bytes of a database of eight pages, exchanges and repeats pages, and cuts the file.
    static let pages = FuzzTarget("pages") { bytes in
        guard let base = try EncryptedFile.base.get() else { return }
        var (input, file) = (FuzzInput(bytes), base)
        while !input.isAtEnd { EncryptedFile.edit(&file, &input) }
        guard file.count % EncryptedFile.pageBytes == 0, !file.isEmpty else { return }
        let own = try EncryptedFile.damagedPages(file)
        let others = try EncryptedFile.pagesThatSQLCipherRefuses(file)
        try check(own == others, "pages \(own) are damaged, for SQLCipher pages \(others)")
    }

    /// A WAL of plain pages, of which this package and SQLite must find the same commits.
    static let log = FuzzTarget("log") { bytes in
        let file = LogFile.made(from: bytes)
        let scan = try file.withUnsafeBytes { whole in
            try WALScan.scan(
                fileBytes: file.count,
                read: { offset, buffer in
                    let count = max(0, min(buffer.count, whole.count - offset))
                    guard count > 0 else { return 0 }
                    buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: whole[offset..<(offset + count)]))
                    return count
                })
        }
        // SQLite takes no WAL whose pages are of another size than those of the database.
        guard scan == nil || scan?.header.pageBytes == LogFile.pageBytes else { return }
        let own = (frames: scan?.committedFrames ?? 0, pages: scan?.databasePages ?? 0)
        let others = try LogFile.foundBySQLite(file)
        try check(own.frames == others.frames, "\(own.frames) frames are committed, for SQLite \(others.frames)")
        try check(own.frames == 0 || own.pages == others.pages, "\(own.pages) pages, for SQLite \(others.pages)")
    }

    /// Pages of a tree that can contain anything.
    static let tree = FuzzTarget("tree") { bytes in
        let size = 512
        let count = UInt32(max(1, bytes.count / size))
        var pagesRead: UInt32 = 0
        let reader = TableReader(pageCount: count, usableBytes: size) { number in
            pagesRead += 1
            let start = (Int(number) - 1) * size
            let page = bytes.dropFirst(start).prefix(size)
            return Array(page) + [UInt8](repeating: 0, count: size - page.count)
        }
        for root in 1...min(count, 3) {
            pagesRead = 0
            _ = try? reader.first(inTree: root) { _ in nil as Int? }
            try check(pagesRead <= count, "\(pagesRead) pages of \(count) are read")
        }
    }
}

/// A connection of the library alone, without anything of this package.
private struct PlainConnection: ~Copyable {
    private var handle: OpaquePointer?

    struct Failure: Error { let code: Int32 }

    init(_ path: String) throws {
        guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nil) == SQLITE_OK else {
            throw Failure(code: sqlite3_errcode(handle))
        }
    }

    deinit { sqlite3_close(handle) }

    func whileOpen<Value>(_ body: () -> Value) -> Value { body() }

    func key(_ keyspec: String) { sqlite3_key_v2(handle, "main", keyspec, Int32(keyspec.utf8.count)) }

    @discardableResult
    func rows(_ sql: String) throws -> [[String]] {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else {
            throw Failure(code: sqlite3_errcode(handle))
        }
        defer { sqlite3_finalize(statement) }
        var rows: [[String]] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                rows.append(
                    (0..<sqlite3_column_count(statement)).map { column in
                        sqlite3_column_text(statement, column).map { String(cString: $0) } ?? ""
                    })
            case SQLITE_DONE: return rows
            case let code: throw Failure(code: code)
            }
        }
    }
}

private enum EncryptedFile {
    static let pageBytes = 512
    static let settings = CipherSettings(pageBytes: pageBytes)
    static let salt = (0..<16).map { UInt8($0) }
    private static let keyspec: String = {
        let bytes = (0..<32).map { UInt8($0) } + salt
        return "x'" + bytes.map { String(format: "%02x", $0) }.joined() + "'"
    }()

    private static func open(_ path: String) throws -> PlainConnection {
        let connection = try PlainConnection(path)
        connection.key(keyspec)
        try connection.rows("PRAGMA cipher_page_size = \(pageBytes)")
        try connection.rows("PRAGMA cipher_log_level = NONE")
        return connection
    }

    /// A database that SQLCipher has made.
    static let base: Result<[UInt8]?, any Error> = Result {
        let path = FuzzFolder.path + "/base.db"
        do {
            let connection = try open(path)
            try connection.rows("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
            for number in 1...12 { try connection.rows("INSERT INTO t VALUES (\(number), zeroblob(200))") }
        }
        return FuzzFolder.contents("base.db")
    }

    static func edit(_ file: inout [UInt8], _ input: inout FuzzInput) {
        let kind = input.byte() % 5
        let count = file.count / pageBytes
        guard count > 0 else { return }
        let (one, other) = (input.byte() % count, input.byte() % count)
        func range(_ page: Int) -> Range<Int> { page * pageBytes..<(page + 1) * pageBytes }
        switch kind {
        case 0: file[one * pageBytes + input.number() % pageBytes] ^= UInt8(input.byte())
        case 1: file.replaceSubrange(range(one), with: file[range(other)])
        case 2 where count < 16: file += file[range(one)]
        case 3: file.removeLast((input.number() % count) * pageBytes)
        default: file.replaceSubrange(range(one), with: [UInt8](repeating: 0, count: pageBytes))
        }
    }

    static func damagedPages(_ file: [UInt8]) throws -> [UInt32] {
        let keys = try PageKeys(dataKey: FuzzKeys.raw, salt: salt, settings: settings)
        var codec = try PageCodec(keys: keys)
        return file.withUnsafeBytes { whole in
            (0..<(file.count / pageBytes)).compactMap { index in
                let page = UnsafeRawBufferPointer(rebasing: whole[index * pageBytes..<(index + 1) * pageBytes])
                return codec.verify(page, number: UInt32(index + 1)) ? nil : UInt32(index + 1)
            }
        }
    }

    static func pagesThatSQLCipherRefuses(_ file: [UInt8]) throws -> [UInt32] {
        let connection = try open(FuzzFolder.write(file, to: "pages.db"))
        return try connection.rows("PRAGMA cipher_integrity_check").compactMap { row in
            row.first.flatMap { $0.split(separator: " ").compactMap { UInt32($0) }.last }
        }.sorted()
    }
}

private enum LogFile {
    static let pageBytes = 512

    /// A WAL as SQLite writes it, with some bytes changed: an input of random bytes would never get past a checksum.
    static func made(from bytes: [UInt8]) -> [UInt8] {
        var input = FuzzInput(bytes)
        let isBigEndian = input.byte() & 1 == 1
        let salts = (0..<8).map { _ in UInt8(input.byte()) }
        var file = bigEndian(WALHeader.magic | (isBigEndian ? 1 : 0)) + bigEndian(WALHeader.formatVersion)
        file += bigEndian(UInt32(pageBytes)) + bigEndian(UInt32(input.byte())) + salts
        var checksum = WALChecksum()
        func add(_ part: [UInt8]) -> [UInt8] {
            part.withUnsafeBytes { checksum.add($0, bigEndian: isBigEndian) }
            return bigEndian(checksum.first) + bigEndian(checksum.second)
        }
        file += add(file)
        let frames = input.byte() % 12
        for _ in 0..<frames {
            let number = UInt32(input.byte() % 10)
            let isCommit = input.byte() & 1 == 1
            let header = bigEndian(number) + bigEndian(isCommit ? UInt32(input.byte() % 10) : 0)
            let page = [UInt8](repeating: UInt8(input.byte()), count: pageBytes)
            file += header + salts + add(header + page) + page
        }
        while !input.isAtEnd {
            let kind = input.byte()
            let place = input.number() % max(1, file.count)
            if kind == 0 {
                file.removeLast(file.count - place)
            } else if !file.isEmpty {
                file[place] ^= UInt8(kind)
            }
        }
        return file
    }

    private static func bigEndian(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
    }

    /// A database of one page whose journal is a WAL.
    private static let base: [UInt8] = {
        let path = FuzzFolder.path + "/log-base.db"
        do {
            let connection = try PlainConnection(path)
            try connection.rows("PRAGMA page_size = \(pageBytes)")
            try connection.rows("PRAGMA journal_mode = WAL")
            try connection.rows("CREATE TABLE t (a)")
        } catch {}
        return FuzzFolder.contents("log-base.db") ?? []
    }()

    /// The findings of SQLite's recovery: the committed frames, and the pages of the database.
    static func foundBySQLite(_ log: [UInt8]) throws -> (frames: UInt32, pages: UInt32) {
        let path = FuzzFolder.write(base, to: "log.db")
        _ = FuzzFolder.write(log, to: "log.db-wal")
        FuzzFolder.remove("log.db-shm")
        let connection = try PlainConnection(path)
        try connection.rows("PRAGMA wal_autocheckpoint = 0")
        // Its pages are no database, so reading one may be an error; the recovery comes before that.
        _ = try? connection.rows("SELECT count(*) FROM sqlite_schema")
        return connection.whileOpen { walIndex }
    }

    /// From the wal-index: mxFrame and nPage of its header.
    /// - SeeAlso: <https://www.sqlite.org/walformat.html#the_wal_index_header>
    private static var walIndex: (frames: UInt32, pages: UInt32) {
        let index = FuzzFolder.contents("log.db-shm") ?? []
        guard index.count >= 48 else { return (0, 0) }
        func number(at offset: Int) -> UInt32 {
            index[offset..<(offset + 4)].reversed().reduce(0) { $0 << 8 | UInt32($1) }
        }
        return (number(at: 16), number(at: 20))
    }
}
