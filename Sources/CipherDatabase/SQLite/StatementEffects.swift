import CSQLCipher

/// The effects of a statement beyond reading and writing rows, as SQLite reports them while it compiles the statement.
package struct StatementEffects: OptionSet {
    package let rawValue: UInt16

    /// It creates, changes or drops tables, views, indexes or triggers, or attaches a database.
    static let schema = StatementEffects(rawValue: 1)
    /// It begins, ends or rolls back a transaction or a savepoint.
    static let transaction = StatementEffects(rawValue: 2)
    /// It begins a transaction, other than by a savepoint.
    static let begin = StatementEffects(rawValue: 4)
    /// It changes rows of temporary tables.
    static let temporaryRows = StatementEffects(rawValue: 8)
    /// It changes rows of other tables.
    static let rows = StatementEffects(rawValue: 16)
    /// It sets the journal mode.
    static let journalMode = StatementEffects(rawValue: 32)
    /// It is a pragma that may write.
    static let pragma = StatementEffects(rawValue: 64)
    /// It writes by statements that it compiles while it runs, so SQLite reports it as a statement that reads.
    static let hiddenWrites = StatementEffects(rawValue: 128)
    /// It sets SQLite's busy timeout, which replaces the busy handler.
    static let busyTimeout = StatementEffects(rawValue: 256)
    /// It rebuilds the database, and may give rows other rowids.
    static let vacuum = StatementEffects(rawValue: 512)
    /// It changes the schema of a database file, not the temporary one.
    static let storedSchema = StatementEffects(rawValue: 1024)
    /// It creates or renames a temporary table or view, which hides one of the same name; not one of the library's own.
    static let temporaryTables = StatementEffects(rawValue: 2048)
    /// It attaches a database.
    static let attachment = StatementEffects(rawValue: 4096)
    /// It creates or drops an index, or alters a table.
    static let indexes = StatementEffects(rawValue: 8192)
    /// It creates or drops a view.
    static let views = StatementEffects(rawValue: 16384)
    /// The effects that only the write turn uses.
    static let changes: StatementEffects = [.temporaryRows, .rows]

    /// Whether the statement changes only temporary tables, so that it needs no lock.
    var writesTemporaryTablesOnly: Bool { intersection(.changes) == .temporaryRows }

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// - Parameters:
    ///   - action: The authorizer's action code.
    ///   - operation: Its first argument.
    ///   - detail: Its second argument.
    ///   - schema: The name of the database: `main`, `temp` or an attached one.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/c_alter_table.html>
    init(
        action: CInt, operation: UnsafePointer<CChar>?, detail: UnsafePointer<CChar>?, schema: UnsafePointer<CChar>?
    ) {
        switch action {
        case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE:
            self = schema?.pointee == CChar(UInt8(ascii: "t")) ? .temporaryRows : .rows
        case SQLITE_TRANSACTION:
            // "BEGIN", "COMMIT" or "ROLLBACK".
            self = operation?.pointee == CChar(UInt8(ascii: "B")) ? [.transaction, .begin] : .transaction
        case SQLITE_SAVEPOINT:
            self = .transaction
        case SQLITE_PRAGMA:
            let name = operation.map { String(cString: $0) }?.lowercased()
            self = Self.writingPragmas.contains(name ?? "") || detail != nil ? .pragma : []
            if name == "journal_mode" && detail != nil { insert(.journalMode) }
            if name == "busy_timeout" && detail != nil { insert(.busyTimeout) }
            if Self.hiddenWriters.contains(name ?? "") { formUnion([.hiddenWrites, .schema]) }
        case SQLITE_FUNCTION:
            self = Self.isHiddenWriter(detail) ? [.hiddenWrites, .schema] : []
        case SQLITE_READ:
            // A pragma as a table: it is compiled when the table is read.
            self = Self.isHiddenWriter(operation) ? [.hiddenWrites, .schema] : []
        case SQLITE_CREATE_INDEX, SQLITE_CREATE_TABLE, SQLITE_CREATE_TRIGGER, SQLITE_CREATE_VIEW, SQLITE_CREATE_VTABLE,
            SQLITE_DROP_INDEX, SQLITE_DROP_TABLE, SQLITE_DROP_TRIGGER, SQLITE_DROP_VIEW, SQLITE_DROP_VTABLE,
            SQLITE_ALTER_TABLE:
            self = [.schema, .storedSchema]
            // The first name that ALTER TABLE reports is that of the schema.
            let owner = action == SQLITE_ALTER_TABLE ? operation : schema
            if let owner, sqlite3_stricmp(owner, "temp") == 0 { insert(.temporaryTables) }
            // ALTER TABLE may add a CHECK, and gives other names to columns.
            if [SQLITE_CREATE_INDEX, SQLITE_DROP_INDEX, SQLITE_ALTER_TABLE].contains(action) { insert(.indexes) }
            if [SQLITE_CREATE_VIEW, SQLITE_DROP_VIEW].contains(action) { insert(.views) }
        case SQLITE_CREATE_TEMP_TABLE, SQLITE_CREATE_TEMP_VIEW:
            self = operation.map(ConnectionHandle.isInternal) == true ? .schema : [.schema, .temporaryTables]
            if action == SQLITE_CREATE_TEMP_VIEW { insert(.views) }
        case SQLITE_ATTACH:
            // VACUUM attaches a database without a name.
            self = operation?.pointee == 0 ? .schema : [.schema, .attachment]
        case SQLITE_CREATE_TEMP_INDEX, SQLITE_DROP_TEMP_INDEX:
            self = [.schema, .indexes]
        case SQLITE_CREATE_TEMP_TRIGGER, SQLITE_DROP_TEMP_TABLE, SQLITE_DROP_TEMP_TRIGGER, SQLITE_DETACH:
            self = .schema
        case SQLITE_DROP_TEMP_VIEW:
            self = [.schema, .views]
        default:
            self = []
        }
    }

    /// Pragmas, and pragmas as tables, that write by statements that they compile.
    private static let hiddenWriters: Set<String> = ["optimize", "pragma_optimize", "incremental_vacuum"]

    private static func isHiddenWriter(_ name: UnsafePointer<CChar>?) -> Bool {
        // Called for each column that a statement reads: most names return here.
        guard let name, UInt8(bitPattern: name.pointee) | 0x20 == UInt8(ascii: "p") else { return false }
        return hiddenWriters.contains(String(cString: name).lowercased())
    }

    /// Pragmas that write without a value.
    private static let writingPragmas: Set<String> = ["optimize", "incremental_vacuum", "wal_checkpoint"]

    /// Whether a statement with these effects may take the write lock.
    var mayWrite: Bool { !isDisjoint(with: [.schema, .begin, .pragma]) }

    /// Whether an action writes rows or statistics.
    static func changesRows(_ action: CInt) -> Bool {
        [SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE, SQLITE_ANALYZE, SQLITE_REINDEX].contains(action)
    }
}

/// The effects of a transaction so far.
/// - SeeAlso: <https://www.sqlite.org/c3ref/txn_state.html>
enum TransactionState {
    /// Nothing, or there is none.
    case none
    /// It has read, and has a snapshot.
    case reading
    /// It holds the write lock.
    case writing
}

extension ConnectionHandle {
    /// Reports commits and rollbacks to `hooks`; nil ends the reports.
    // Not a part of opening: while no code needs them, transactions run without these calls.
    func installTransactionHooks(_ hooks: ConnectionHooks?) {
        let context = hooks.map(context(of:))
        _ = sqlite3_commit_hook(pointer, hooks == nil ? nil : commitCallback, context)
        _ = sqlite3_rollback_hook(pointer, hooks == nil ? nil : rollbackCallback, context)
    }

    /// Whether the connection holds the write lock of a transaction, in any of its databases.
    var isWriting: Bool { sqlite3_txn_state(pointer, nil) == SQLITE_TXN_WRITE }

    /// The effects of the main database's transaction so far.
    var mainTransactionState: TransactionState {
        switch sqlite3_txn_state(pointer, "main") {
        case SQLITE_TXN_WRITE: .writing
        case SQLITE_TXN_READ: .reading
        default: .none
        }
    }

    /// Whether it has databases besides the main and the temporary one.
    var hasAttachedDatabases: Bool { sqlite3_db_name(pointer, 2) != nil }

    /// The most parameters that one statement may have.
    var parameterLimit: Int { Int(sqlite3_limit(pointer, SQLITE_LIMIT_VARIABLE_NUMBER, -1)) }

    /// Bounds the length of each text, blob and row, also of those that an expression computes (`SQLITE_TOOBIG`).
    func limitLengths(toBytes limit: Int) { sqlite3_limit(pointer, SQLITE_LIMIT_LENGTH, CInt(clamping: limit)) }
}

// MARK: - Called by SQLite

private func commitCallback(context: UnsafeMutableRawPointer?) -> CInt {
    guard let hooks = hooks(at: context) else { return 0 }
    // While the triggers of the history pause, changes would be recorded by nobody.
    let commits = !hooks.history.isPaused && !hooks.refusesCommits && hooks.willCommit?() != false
    hooks.history.isPaused = false
    hooks.noteTransactionEnd?(commits)
    // Another value than 0 turns the commit into a rollback.
    return commits ? 0 : 1
}

private func rollbackCallback(context: UnsafeMutableRawPointer?) {
    guard let hooks = hooks(at: context) else { return }
    hooks.history.isPaused = false
    hooks.didRollback?()
    hooks.noteTransactionEnd?(false)
}
