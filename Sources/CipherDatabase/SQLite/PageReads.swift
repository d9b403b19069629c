import CSQLCipher

/// Finds out whether SQLCipher has refused a page that a step has read.
///
/// SQLCipher 4.6 reports a page whose authentication code is wrong too late: SQLite gets zeros in its place, and an error
/// with the next page of the transaction. Pages of trees that have only zeros are damage to SQLite. The pages that continue
/// a long value have no structure: where none is read after them, the zeros would be the value. So a step that has read
/// pages is followed by the read of one more.
@usableFromInline
final class PageReads {
    /// The code of a step that has read a refused page.
    static let refused = SQLITE_CORRUPT | 0x7F << 8

    @usableFromInline let connection: SQLiteConnection
    /// Whether pages are authenticated.
    @exclusivity(unchecked) @usableFromInline private(set) var isOn = false
    /// SQLite's counter of read pages when the last of them was known to be authentic.
    @exclusivity(unchecked) @usableFromInline private(set) var known: CInt = 0
    /// Reads page 1, which the connection has in memory.
    private var probe: StatementHandle?
    /// Keeps a transaction open while it is between rows.
    private var holder: StatementHandle?
    private var holds = 0

    init(_ handle: ConnectionHandle) { connection = handle.pointer }

    /// Begins to look, on a connection with a key that has read its schema.
    ///
    /// - Throws: ``DatabaseError``.
    func begin(_ handle: ConnectionHandle) throws(DatabaseError) {
        probe = try Self.compile("SELECT 1 FROM main.sqlite_schema LIMIT 1", handle)
        // It has one row, also where the schema is empty.
        holder = try Self.compile("SELECT (SELECT 1 FROM main.sqlite_schema LIMIT 1)", handle)
        isOn = true
    }

    private static func compile(_ sql: String, _ handle: ConnectionHandle) throws(DatabaseError) -> StatementHandle {
        let (code, compiled, _) = handle.prepare(sql, persistent: true)
        guard code == .SQLITE_OK, let compiled else {
            throw DatabaseError(resultCode: code, message: handle.lastMessage, sql: sql)
        }
        return StatementHandle(compiled)
    }

    func end() {
        isOn = false
        probe.take()?.finalize()
        holder.take()?.finalize()
    }

    /// Whether a statement is one of these, which no trace reports.
    func owns(_ statement: SQLiteStatement) -> Bool { statement == probe?.pointer || statement == holder?.pointer }

    // MARK: Steps

    /// SQLite's message for a failed step, or one that says that a page was refused.
    func message(of code: CInt, _ message: String) -> String {
        if code == Self.refused {
            return
                "a page of the database or of its WAL is not authentic: something other than SQLCipher has changed it"
        }
        // The read after the step has replaced it.
        return code == SQLITE_ERROR && message == Self.noMessage ? Self.generalMessage : message
    }

    private static let noMessage = String(cString: sqlite3_errstr(SQLITE_OK))

    /// The code of a step, or ``refused``.
    ///
    /// - Parameter code: The code that SQLite has returned. The transaction of the step is still open, or has changed rows:
    ///   SQLite does not commit after a refused page.
    @inlinable
    @inline(__always)
    func judge(_ code: CInt) -> CInt {
        if !isOn { return code }
        var (count, highest) = (CInt(0), CInt(0))
        sqlite3_db_status(connection, SQLITE_DBSTATUS_CACHE_MISS, &count, &highest, 0)
        return count == known && code != SQLITE_ERROR ? code : examine(code, count)
    }

    @usableFromInline
    func examine(_ code: CInt, _ count: CInt) -> CInt {
        switch code {
        case SQLITE_ERROR:
            // An error of the statement itself has a message of its own.
            guard sqlite3_errmsg(connection).map({ String(cString: $0) }) == Self.generalMessage else { return code }
            // SQLite has rolled back, and has no more to say.
            if holds == 0, sqlite3_get_autocommit(connection) != 0 { return count == known ? code : Self.refused }
        case SQLITE_ROW: break
        case SQLITE_DONE where holds > 0 || sqlite3_get_autocommit(connection) == 0: break
        case SQLITE_DONE:
            known = count
            return code
        default: return code
        }
        switch readAgain() {
        case SQLITE_ROW, SQLITE_DONE:
            known = count
            return code
        case SQLITE_ERROR: return Self.refused
        // An interruption, for example: the next step is asked.
        default: return code
        }
    }

    private static let generalMessage = String(cString: sqlite3_errstr(SQLITE_ERROR))

    /// Reads a page of each database in the transaction under way.
    private func readAgain() -> CInt {
        guard let probe else { return SQLITE_DONE }
        defer { _ = probe.reset() }
        let code = probe.step()
        guard code == SQLITE_ROW || code == SQLITE_DONE else { return code }
        // 0 is `main`, 1 is `temp`, which is in memory.
        var place: CInt = 2
        while let name = sqlite3_db_name(connection, place) {
            let code = read(String(cString: name))
            guard code == SQLITE_ROW || code == SQLITE_DONE else { return code }
            place += 1
        }
        return code
    }

    private func read(_ attached: String) -> CInt {
        var statement: SQLiteStatement?
        let sql = "SELECT 1 FROM \(attached.quotedDatabaseIdentifier).sqlite_schema LIMIT 1"
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK else { return SQLITE_DONE }
        defer { sqlite3_finalize(statement) }
        return sqlite3_step(statement)
    }

    // MARK: Statements outside of transactions

    /// Keeps the transaction of the next statement open beyond its last step, until ``release()``: its end forgets that a
    /// page was refused.
    func hold() {
        holds += 1
        if holds == 1 { _ = holder?.step() }
    }

    func release() {
        holds -= 1
        if holds == 0 { _ = holder?.reset() }
    }
}
