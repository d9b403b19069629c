import CSQLCipher
import StoreCrypto
import StorePlatform
import StoreSharing

/// The C functions of a connection, one wrapper each. `Database` owns the connection.
struct ConnectionHandle {
    let pointer: SQLiteConnection

    // MARK: Opening and closing

    /// Opens a file, a database in memory, or a temporary one.
    ///
    /// The caller has checked the files beside it (``CompanionFiles``).
    ///
    /// The connection is in multi-thread mode: `SerialConnection` ensures that one thread at a time uses it.
    ///
    /// - Parameters:
    ///   - filtersJournal: Whether ``hideJournal()`` may be called.
    ///   - immutable: Whether the file cannot change while it is open: SQLite then acquires no lock, reads no
    ///     WAL and creates no file.
    static func open(
        _ path: String, readonly: Bool, filtersJournal: Bool = false, immutable: Bool = false
    ) throws(DatabaseError) -> ConnectionHandle {
        _ = SystemOpening.isInstalled
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        flags |= readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        if MemoryPath.isURI(path) || immutable { flags |= SQLITE_OPEN_URI }
        // A library may be built to take every path for a URI: then keys and locks would be looked for elsewhere.
        var name = path.hasPrefix("file:") && !MemoryPath.isURI(path) ? "./" + path : path
        if immutable { name = MemoryPath.immutable(name) }
        // SQLite opens by path, and resolves every link in it, `/proc/self/fd/N` too. Later checks prove which file it
        // is: `hasMoved`, the identities of LiveFiles and LeaseKeeper, and StagingDirectory's `requireOpened` for a file
        // that another user could have exchanged.
        var connection: SQLiteConnection?
        let code = sqlite3_open_v2(name, &connection, flags, filtersJournal ? JournalFilter.name : nil)
        guard code == SQLITE_OK, let connection else {
            let message = connection.map { String(cString: sqlite3_errmsg($0)) }
            let cause = connection.map { sqlite3_system_errno($0) } ?? 0
            sqlite3_close_v2(connection)
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: message).causedBySystem(cause)
        }
        let handle = ConnectionHandle(pointer: connection)
        handle.endUnsafeFunctions()
        return handle
    }

    /// Closes the connection; statements that are still alive keep its memory, but it cannot be used.
    func close() {
        showJournal()
        sqlite3_close_v2(pointer)
    }

    /// Closes the connection, or returns the code that says why it stays open, and logs the statements that keep it
    /// open.
    func closeStrictly() -> ResultCode {
        let hidden = hidesJournal
        showJournal()
        let code = ResultCode(rawValue: sqlite3_close(pointer))
        guard code == .SQLITE_OK else {
            if hidden { hideJournal() }
            logUnfinalizedStatements(code)
            return code
        }
        return code
    }

    // MARK: State

    /// The path of the main database with all links resolved, as they were when SQLite opened it; empty without a file.
    var resolvedPath: String { sqlite3_db_filename(pointer, "main").map { String(cString: $0) } ?? "" }
    var isInAutocommit: Bool { sqlite3_get_autocommit(pointer) != 0 }
    var changeCount: Int { Int(sqlite3_changes64(pointer)) }
    var totalChangeCount: Int { Int(sqlite3_total_changes64(pointer)) }
    var lastInsertedRowID: Int64 { sqlite3_last_insert_rowid(pointer) }
    /// Whether the main database has a table with this column, by the schema as it was last read.
    /// A failure counts as yes: reading its rows reports the error.
    func hasTable(_ table: String, column: String) -> Bool {
        sqlite3_table_column_metadata(pointer, "main", table, column, nil, nil, nil, nil, nil) != SQLITE_ERROR
    }

    /// The collation of a table's column; nil where the name is no column of a table.
    func collation(ofColumn column: String, in table: String) -> String? {
        var name: UnsafePointer<CChar>?
        let code = sqlite3_table_column_metadata(pointer, nil, table, column, nil, &name, nil, nil, nil)
        return code == SQLITE_OK ? name.map { String(cString: $0) } : nil
    }

    /// Whether a name is that of a column of a table, or of its rowid.
    func hasColumn(_ column: String, in table: String, _ schema: String) -> Bool {
        sqlite3_table_column_metadata(pointer, schema, table, column, nil, nil, nil, nil, nil) == SQLITE_OK
    }

    /// Whether a schema has a table of this name: no view.
    func isTable(_ name: String, in schema: String) -> Bool {
        sqlite3_table_column_metadata(pointer, schema, name, nil, nil, nil, nil, nil, nil) == SQLITE_OK
    }

    var lastMessage: String { String(cString: sqlite3_errmsg(pointer)) }
    /// The system's error number behind the last `SQLITE_CANTOPEN` or `SQLITE_IOERR`; 0 where there is none.
    var lastSystemErrorNumber: Int32 { sqlite3_system_errno(pointer) }
    var lastExtendedCode: ResultCode { ResultCode(rawValue: sqlite3_extended_errcode(pointer)) }
    var isInterrupted: Bool { sqlite3_is_interrupted(pointer) != 0 }
    func interrupt() { sqlite3_interrupt(pointer) }
    func releaseMemory() { sqlite3_db_release_memory(pointer) }

    /// Resets every statement of the connection that is between rows.
    func resetAllStatements() {
        var statement = sqlite3_next_stmt(pointer, nil)
        while let current = statement {
            sqlite3_reset(current)
            statement = sqlite3_next_stmt(pointer, current)
        }
    }

    // MARK: Settings that need no file access

    func setDoubleQuotedStrings(_ accepted: Bool) {
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_DQS_DML, accepted ? 1 : 0, nil)
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_DQS_DDL, accepted ? 1 : 0, nil)
    }

    /// Sets whether SQL is kept from making a file unreadable: from writing shadow tables of virtual tables, as those of a
    /// full-text index, and `sqlite_schema`, and from `PRAGMA journal_mode = OFF`. Statements of virtual tables and VACUUM
    /// are not affected.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/c_dbconfig_defensive.html>
    func setDefensive(_ defends: Bool) {
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_DEFENSIVE, defends ? 1 : 0, nil)
    }

    /// Sets whether triggers, views and definitions of tables may call functions that are not declared innocuous.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/c_dbconfig_defensive.html>
    func setTrustedSchema(_ isTrusted: Bool) {
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_TRUSTED_SCHEMA, isTrusted ? 1 : 0, nil)
    }

    func setForeignKeys(_ enforced: Bool) {
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_ENABLE_FKEY, enforced ? 1 : 0, nil)
    }

    /// Sets whether the triggers of the main database fire. Those of the temporary one do in any case.
    func setTriggers(_ fire: Bool) {
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_ENABLE_TRIGGER, fire ? 1 : 0, nil)
    }

    /// Disables SQLite's own checkpoints.
    // A commit that resets the WAL during another process's checkpoint can lose pages before SQLite 3.51.3.
    func disableAutomaticCheckpoints() { sqlite3_wal_autocheckpoint(pointer, 0) }

    /// Sets whether closing copies the WAL, or leaves it as it is.
    func setCheckpointOnClose(_ checkpoints: Bool) {
        _ = csqlcipher_db_config_flag(pointer, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, checkpoints ? 0 : 1, nil)
    }

    /// Keeps the -wal and -shm files after the last close, so that a reader without write permission can open.
    func setPersistentWAL(_ persistent: Bool) -> ResultCode {
        var flag: CInt = persistent ? 1 : 0
        return ResultCode(rawValue: sqlite3_file_control(pointer, "main", SQLITE_FCNTL_PERSIST_WAL, &flag))
    }

    // MARK: Keys

    /// Passes a passphrase, or a raw keyspec `x'<64 hex><32 hex>'`, to SQLCipher: never as SQL text, which traces
    /// print.
    func setKey(_ key: UnsafeRawBufferPointer) -> ResultCode {
        ResultCode(rawValue: sqlite3_key_v2(pointer, "main", key.baseAddress, CInt(key.count)))
    }

    // MARK: Checkpoints

    /// Copies committed frames into the database file without waiting.
    /// - Returns: The code, the length of the WAL in frames, and how many of them are in the database file.
    func checkpointPassively() -> (code: ResultCode, walFrames: Int, checkpointedFrames: Int) {
        var log: CInt = 0
        var done: CInt = 0
        let code = sqlite3_wal_checkpoint_v2(pointer, "main", SQLITE_CHECKPOINT_PASSIVE, &log, &done)
        return (ResultCode(rawValue: code), Int(log), Int(done))
    }

    // MARK: Compiling

    /// Compiles the first statement of `sql`.
    /// - Returns: The code, the statement (nil for blanks and comments), and how many bytes of `sql` it took.
    func prepare(
        _ sql: UnsafePointer<CChar>, persistent: Bool
    ) -> (code: ResultCode, statement: SQLiteStatement?, tail: UnsafePointer<CChar>?) {
        var statement: SQLiteStatement?
        var tail: UnsafePointer<CChar>?
        let flags = persistent ? UInt32(SQLITE_PREPARE_PERSISTENT) : 0
        var code = sqlite3_prepare_v3(pointer, sql, -1, flags, &statement, &tail)
        // SQLite finds no table in a schema that it has just dropped and not read again, where another connection has
        // changed the schema, a trigger of the statement writes a full-text table that is not connected (as after
        // VACUUM), and another trigger is compiled after it: "no such table". It does read it for the next statement.
        if code == SQLITE_ERROR { code = sqlite3_prepare_v3(pointer, sql, -1, flags, &statement, &tail) }
        return (ResultCode(rawValue: code), statement, tail)
    }
}
