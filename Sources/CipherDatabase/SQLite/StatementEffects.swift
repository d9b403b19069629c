import CSQLCipher

/// What a statement does beyond reading and writing rows, as SQLite tells while it compiles the statement.
struct StatementEffects: OptionSet {
    let rawValue: UInt8

    /// It makes, changes or drops tables, views, indexes or triggers, or attaches a database.
    static let schema = StatementEffects(rawValue: 1)
    /// It begins, ends or rolls back a transaction or a savepoint.
    static let transaction = StatementEffects(rawValue: 2)
    /// It begins a transaction, other than by a savepoint.
    static let begin = StatementEffects(rawValue: 4)

    init(rawValue: UInt8) { self.rawValue = rawValue }

    /// - Parameters:
    ///   - action: What SQLite asks the authorizer about.
    ///   - operation: Its first argument.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/c_alter_table.html>
    init(action: CInt, operation: UnsafePointer<CChar>?) {
        switch action {
        case SQLITE_TRANSACTION:
            // "BEGIN", "COMMIT" or "ROLLBACK".
            self = operation?.pointee == CChar(UInt8(ascii: "B")) ? [.transaction, .begin] : .transaction
        case SQLITE_SAVEPOINT:
            self = .transaction
        case SQLITE_CREATE_INDEX, SQLITE_CREATE_TABLE, SQLITE_CREATE_TRIGGER, SQLITE_CREATE_VIEW,
            SQLITE_CREATE_TEMP_INDEX, SQLITE_CREATE_TEMP_TABLE, SQLITE_CREATE_TEMP_TRIGGER, SQLITE_CREATE_TEMP_VIEW,
            SQLITE_CREATE_VTABLE, SQLITE_DROP_INDEX, SQLITE_DROP_TABLE, SQLITE_DROP_TRIGGER, SQLITE_DROP_VIEW,
            SQLITE_DROP_TEMP_INDEX, SQLITE_DROP_TEMP_TABLE, SQLITE_DROP_TEMP_TRIGGER, SQLITE_DROP_TEMP_VIEW,
            SQLITE_DROP_VTABLE, SQLITE_ALTER_TABLE, SQLITE_ATTACH, SQLITE_DETACH:
            self = .schema
        default:
            self = []
        }
    }
}

extension ConnectionHandle {
    /// Reports commits and rollbacks to `hooks`; nil ends the reports.
    // Not a part of opening: while nobody asks, transactions run without these calls.
    func installTransactionHooks(_ hooks: ConnectionHooks?) {
        let context = hooks.map(context(of:))
        _ = sqlite3_commit_hook(pointer, hooks == nil ? nil : commitCallback, context)
        _ = sqlite3_rollback_hook(pointer, hooks == nil ? nil : rollbackCallback, context)
    }

    /// Whether the connection holds the write lock of a transaction, in any of its databases.
    var isWriting: Bool { sqlite3_txn_state(pointer, nil) == SQLITE_TXN_WRITE }

    /// The most parameters that one statement may have.
    var parameterLimit: Int { Int(sqlite3_limit(pointer, SQLITE_LIMIT_VARIABLE_NUMBER, -1)) }
}

// MARK: - Called by SQLite

private func commitCallback(context: UnsafeMutableRawPointer?) -> CInt {
    hooks(at: context)?.willCommit?()
    return 0
}

private func rollbackCallback(context: UnsafeMutableRawPointer?) { hooks(at: context)?.didRollback?() }
