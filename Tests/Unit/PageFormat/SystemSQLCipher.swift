import CSQLCipher
import Foundation

/// A connection of the system's SQLCipher library, as the other opinion on every file.
final class SystemSQLCipher {
    struct Failure: Error { var message: String }

    fileprivate var handle: OpaquePointer?

    /// - Parameter keyspec: A raw key with its salt, a passphrase, or nil for plain SQLite.
    init(_ file: URL, keyspec: String?, pragmas: [String] = []) throws {
        try check(sqlite3_open(file.path, &handle))
        if let keyspec { try check(sqlite3_key_v2(handle, "main", keyspec, Int32(keyspec.utf8.count))) }
        for pragma in pragmas { try run("PRAGMA \(pragma)") }
    }

    deinit { close() }

    func close() {
        sqlite3_close_v2(handle)
        handle = nil
    }

    /// Runs statements and drops their rows.
    func run(_ sql: String) throws { try check(sqlite3_exec(handle, sql, nil, nil, nil)) }

    /// The rows of a statement as text, null as "NULL".
    func rows(_ sql: String) throws -> [[String]] {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(handle, sql, -1, &statement, nil))
        defer { sqlite3_finalize(statement) }
        var rows: [[String]] = []
        var code = sqlite3_step(statement)
        while code == SQLITE_ROW {
            rows.append(
                (0..<sqlite3_column_count(statement)).map { column in
                    sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "NULL"
                })
            code = sqlite3_step(statement)
        }
        if code != SQLITE_DONE { try check(code) }
        return rows
    }

    /// The first value of the first row.
    func value(_ sql: String) throws -> String { try rows(sql).first?.first ?? "" }

    /// Schema and all rows of all tables.
    func dump() throws -> [[String]] {
        let schema = try rows("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
        let tables = schema.filter { $0[0] == "table" && !$0[1].hasPrefix("sqlite_") }.map { $0[1] }
        return try schema
            + tables.flatMap { table in
                let columns = try rows("SELECT name FROM pragma_table_info('\(table)')").map { "quote(\"\($0[0])\")" }
                return try rows("SELECT rowid, \(columns.joined(separator: ",")) FROM \"\(table)\" ORDER BY rowid")
            }
    }

    fileprivate func check(_ code: Int32) throws {
        if code != SQLITE_OK { throw Failure(message: "\(code): \(String(cString: sqlite3_errmsg(handle)))") }
    }
}

/// The main file and the log of a database at one moment.
struct DatabaseImage {
    var main: [UInt8]
    var log: [UInt8]

    /// Copies the files of a database, which may be open: nothing else in this process or another one relies on
    /// the locks that reading a live file by hand drops.
    init(of database: URL) throws {
        main = try [UInt8](contentsOf: database)
        let logFile = URL(filePath: database.path + "-wal")
        log = (try? [UInt8](contentsOf: logFile)) ?? []
    }

    /// Writes the image under a new name.
    func write(to database: URL) throws {
        try main.write(to: database)
        if !log.isEmpty { try log.write(to: URL(filePath: database.path + "-wal")) }
    }
}

extension SystemSQLCipher {
    /// Sets the reserve at the end of each page of a plain database.
    /// <https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>
    func reserve(bytes: Int) throws {
        var count = Int32(bytes)
        try check(sqlite3_file_control(handle, "main", SQLITE_FCNTL_RESERVE_BYTES, &count))
    }
}
