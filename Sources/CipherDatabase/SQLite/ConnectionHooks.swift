import CSQLCipher

/// The callbacks of one connection's hooks. SQLite keeps an unretained pointer to it: it lives as long as the
/// connection.
final class ConnectionHooks {
    /// Decides on each action while a statement is compiled.
    var authorize: ((AuthorizerRequest) -> AuthorizerDecision)?
    /// Whether one of the library's own statements is being compiled, which passes every check.
    var isInternal: (() -> Bool)?
    /// The gate, which says whether the database is suspended: then the program's own calls into SQLite must not write.
    var gate: ConnectionGate?
    /// Whether the statement that runs has waited for a lock.
    @exclusivity(unchecked) var hasWaited = false
    /// Whether the library is compiling a statement, and will check it before it runs.
    @exclusivity(unchecked) var isCompiling = false
    /// Whether a statement was denied because a suspension had begun, until the error is made.
    @exclusivity(unchecked) var isDeniedBySuspension = false
    /// Called while another connection holds a lock; returns whether to try again. The number counts earlier tries.
    var isBusy: ((Int) -> Bool)?
    /// Called after each commit of the main database in WAL mode; the number is the length of the WAL in frames.
    var didCommitToWAL: ((Int) -> Void)?
    /// The effects of the last compiled statement beyond reading and writing rows.
    var effects: StatementEffects = []
    /// The effect of the last compiled statement on savepoints.
    var savepoint: SavepointChange?
    /// The reads and changes of the compilation under way; nil while no one asks for them.
    @exclusivity(unchecked) var record: AccessRecord?
    /// The record of the statement that was compiled last.
    @exclusivity(unchecked) var compiledRecord: AccessRecord?
    /// The condition that ends statements; nil while there is none.
    var statementEnd: StatementEnd?
    /// Whether deletions from a table must be reported row by row.
    var reportsDeletions: ((_ table: String) -> Bool)?
    /// The tables for which a statement was compiled that may delete all rows without a report.
    var plainDeletions: Set<String> = []
    /// How often `PRAGMA recursive_triggers` was compiled with a value that may turn it off: SQLite does so then.
    @exclusivity(unchecked) var recursiveTriggersEnds = 0
    /// Whether the library is changing the store's own tables.
    var mayChangeStoreTables = false
    /// Whether the library is writing rows of the history or of a repository.
    @exclusivity(unchecked) var writesOwnRows = false
    /// Whether the program may not end the transaction that is under way: it would commit what no sync knows.
    @exclusivity(unchecked) var refusesCommits = false
    /// Whether the authorizer was last asked about a change of the schema.
    @exclusivity(unchecked) fileprivate var isChangingSchema = false
    /// Called before each commit; returns false to make it fail.
    var willCommit: (() -> Bool)?
    /// Called when a transaction ends, with whether it commits.
    var noteTransactionEnd: ((Bool) -> Void)?
    /// The answer of the function that the triggers of the history call.
    let history = HistoryFeature()
    /// Called for each row that changes.
    var didChangeRow: ((UpdateHookChange) -> Void)?
    /// Called after each rollback of a whole transaction.
    var didRollback: (() -> Void)?
    /// Called for each statement as it starts. For what a trigger runs, the text is a comment that names the trigger,
    /// and the statement is the one that fired it.
    var willRun: ((SQLiteStatement, _ text: String) -> Void)?
    /// Whether a statement is one that the library runs beside those of the program.
    var isUnreported: ((SQLiteStatement) -> Bool)?
    /// Called for each statement when it has ended; the number is nanoseconds.
    var didRun: ((SQLiteStatement, Int64) -> Void)?
    /// SQLite's interface to FTS5, once it was asked for.
    var fullTextInterface: UnsafeMutablePointer<fts5_api>?
    /// The error of a tokenizer: FTS5 passes only its code on.
    var tokenizerFailure: DatabaseError?

    func takeTokenizerFailure() -> DatabaseError? {
        defer { tokenizerFailure = nil }
        return tokenizerFailure
    }
}

/// One action that SQLite passes to the authorizer while it compiles a statement.
/// - SeeAlso: <https://www.sqlite.org/c3ref/c_alter_table.html>
enum AuthorizerRequest {
    /// A pragma by its name; `value` is nil where it only reads.
    case pragma(name: String, value: String?)
    /// A file to attach; empty for the temporary database that VACUUM makes, nil where it is known only at run time.
    case attach(file: String?)
    /// One of the store's own tables is dropped or altered, or a row that protects the store is written.
    case storeTable(name: String)
    /// A row of the history or of a repository is written.
    case storeRow(table: String)
    /// Everything else.
    case other
}

enum AuthorizerDecision {
    case allow
    /// The statement compiles and does nothing.
    case ignore
    case deny
}

/// The effect of a statement on a savepoint.
struct SavepointChange {
    enum Operation {
        case begin
        case release
        case rollback
    }

    let operation: Operation
    /// In lower case: SQLite ignores the case of these names.
    let name: String

    init(operation: UnsafePointer<CChar>?, name: UnsafePointer<CChar>?) {
        // "BEGIN", "RELEASE" or "ROLLBACK".
        self.operation =
            switch operation.map({ String(cString: $0) }) {
            case "BEGIN": .begin
            case "RELEASE": .release
            default: .rollback
            }
        self.name = name.map { String(cString: $0).lowercasedASCII } ?? ""
    }
}

/// The change of a row, valid during the call that reports it.
package struct UpdateHookChange {
    package let kind: DatabaseEvent.Kind
    package let databaseName: UnsafePointer<CChar>
    package let tableName: UnsafePointer<CChar>
    package let rowID: Int64
}

extension ConnectionHooks {
    /// Answers for a deletion from a table: with `SQLITE_IGNORE` the statement does not delete all rows at once, and so
    /// reports each of them.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/set_authorizer.html>
    fileprivate func authorizeDeletion(_ table: UnsafePointer<CChar>?) -> CInt {
        guard let table else { return SQLITE_OK }
        let name = String(cString: table)
        if name.hasPrefix("sqlite_") { return SQLITE_OK }
        if reportsDeletions?(name) == true { return SQLITE_IGNORE }
        plainDeletions.insert(name)
        return SQLITE_OK
    }
}

extension ConnectionHooks {
    /// Counts pragmas that may turn recursive triggers off.
    fileprivate func noteRecursiveTriggers(_ pragma: UnsafePointer<CChar>?, _ value: UnsafePointer<CChar>?) {
        if let pragma, let value, sqlite3_stricmp(pragma, "recursive_triggers") == 0,
            !["1", "on", "yes", "true"].contains(String(cString: value).lowercased())
        {
            recursiveTriggersEnds += 1
        }
    }

    /// The protecting table that an action writes, creates, or gives a trigger or an index; nil for any other action.
    ///
    /// VACUUM writes the table into a database of another name, which is allowed.
    fileprivate func protectedTable(
        _ action: CInt, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?,
        _ schema: UnsafePointer<CChar>?
    ) -> String? {
        if mayChangeStoreTables { return nil }
        let table: UnsafePointer<CChar>?
        switch action {
        case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE, SQLITE_CREATE_TABLE, SQLITE_CREATE_VIEW, SQLITE_CREATE_VTABLE:
            table = first
        case SQLITE_CREATE_TRIGGER, SQLITE_CREATE_TEMP_TRIGGER, SQLITE_CREATE_INDEX: table = second
        default: return nil
        }
        guard let table, let schema, sqlite3_stricmp(table, "cipherstore_custody") == 0,
            sqlite3_stricmp(schema, "main") == 0 || sqlite3_stricmp(schema, "temp") == 0
        else { return nil }
        return String(cString: table)
    }
}

extension ConnectionHooks {
    /// The request for an action on a table of the library's own that only the library makes; nil for any other action.
    fileprivate func ownRequest(
        _ action: CInt, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?,
        _ schema: UnsafePointer<CChar>?, by source: UnsafePointer<CChar>?
    ) -> AuthorizerRequest? {
        if let table = protectedTable(action, first, second, schema) { return .storeTable(name: table) }
        guard let table = ownTable(action, first, second, schema, by: source) else { return nil }
        return .storeRow(table: table)
    }

    /// The table of the history or of a repository whose rows a statement of the program writes, or to which it gives a
    /// trigger or an index; nil for any other action. A trigger with a name of the library's own counts as such a table:
    /// it would be allowed what these triggers are.
    ///
    /// - Parameter source: The trigger that writes. Those of the history are the library's own.
    private func ownTable(
        _ action: CInt, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?,
        _ schema: UnsafePointer<CChar>?, by source: UnsafePointer<CChar>?
    ) -> String? {
        let name: String?
        switch action {
        case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE: name = Self.ownName(first)
        case SQLITE_CREATE_TRIGGER, SQLITE_CREATE_TEMP_TRIGGER: name = Self.ownName(second) ?? Self.ownName(first)
        case SQLITE_CREATE_INDEX: name = Self.ownName(second)
        default: return nil
        }
        guard let name, !mayChangeStoreTables, let schema else { return nil }
        let isTemporary = action == SQLITE_CREATE_TEMP_TRIGGER && sqlite3_stricmp(schema, "temp") == 0
        guard isTemporary || sqlite3_stricmp(schema, "main") == 0 else { return nil }
        // A trigger of the program may fire inside a statement of the library.
        let isOwn = source == nil ? writesOwnRows : Self.ownName(source) != nil
        return isOwn ? nil : name
    }

    private static func ownName(_ name: UnsafePointer<CChar>?) -> String? {
        guard let name, ConnectionHandle.isInternal(name) else { return nil }
        let text = String(cString: name)
        return StoreTables.protects(text) ? text : nil
    }
}

extension AccessRecord {
    /// - Parameter source: The trigger or view that the action belongs to.
    fileprivate func note(
        _ action: CInt, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?,
        by source: UnsafePointer<CChar>?
    ) {
        guard let first else { return }
        // Nobody observes the library's own tables.
        if action != SQLITE_READ && ConnectionHandle.isInternal(first) { return }
        switch action {
        case SQLITE_READ where includesReads:
            noteRead(String(cString: first), second.map { String(cString: $0) } ?? "", isIndirect: source != nil)
        case SQLITE_INSERT: noteChange(.insert(tableName: String(cString: first)))
        case SQLITE_DELETE: noteChange(.delete(tableName: String(cString: first)))
        case SQLITE_UPDATE:
            let columns: Set<String> = second.map { [String(cString: $0)] } ?? []
            noteChange(.update(tableName: String(cString: first), columnNames: columns))
        case SQLITE_DROP_TABLE, SQLITE_DROP_TEMP_TABLE, SQLITE_DROP_VTABLE:
            noteRedefinition(of: String(cString: first))
        // The first name is that of the schema.
        case SQLITE_ALTER_TABLE: if let second { noteRedefinition(of: String(cString: second)) }
        default: break
        }
    }
}

extension ConnectionHandle {
    // MARK: Installing

    // Installing an authorizer expires every compiled statement: this is done once, when the connection is new.
    func installAuthorizer(_ hooks: ConnectionHooks) {
        sqlite3_set_authorizer(pointer, authorizerCallback, context(of: hooks))
    }

    /// Makes every statement be compiled again before its next run; those between rows come to their end.
    func expireStatements(_ hooks: ConnectionHooks) { installAuthorizer(hooks) }

    /// Reports each row that changes to `hooks`; nil ends the reports.
    func installUpdateHook(_ hooks: ConnectionHooks?) {
        _ = sqlite3_update_hook(pointer, hooks == nil ? nil : updateCallback, hooks.map(context))
    }

    func installWALHook(_ hooks: ConnectionHooks) {
        _ = sqlite3_wal_hook(pointer, walCallback, context(of: hooks))
    }

    func installBusyHandler(_ hooks: ConnectionHooks?) {
        sqlite3_busy_handler(pointer, hooks == nil ? nil : busyCallback, hooks.map(context))
    }

    func installTrace(_ hooks: ConnectionHooks, statements: Bool, profiles: Bool) {
        var mask: UInt32 = 0
        if statements { mask |= UInt32(SQLITE_TRACE_STMT) }
        if profiles { mask |= UInt32(SQLITE_TRACE_PROFILE) }
        sqlite3_trace_v2(pointer, mask, mask == 0 ? nil : traceCallback, mask == 0 ? nil : context(of: hooks))
    }

    func context(of hooks: ConnectionHooks) -> UnsafeMutableRawPointer {
        Unmanaged.passUnretained(hooks).toOpaque()
    }
}

// MARK: - Called by SQLite

func hooks(at context: UnsafeMutableRawPointer?) -> ConnectionHooks? {
    context.map { Unmanaged<ConnectionHooks>.fromOpaque($0).takeUnretainedValue() }
}

private func authorizerCallback(
    context: UnsafeMutableRawPointer?, action: CInt,
    first: UnsafePointer<CChar>?, second: UnsafePointer<CChar>?, schema: UnsafePointer<CChar>?,
    source: UnsafePointer<CChar>?
) -> CInt {
    guard let hooks = hooks(at: context), let authorize = hooks.authorize else { return SQLITE_OK }
    let effects = StatementEffects(action: action, operation: first, detail: second, schema: schema)
    hooks.effects.formUnion(effects.subtracting(.pragma))
    hooks.record?.note(action, first, second, by: source)
    let followsSchemaChange = hooks.isChangingSchema
    hooks.isChangingSchema = effects.contains(.schema)
    if let gate = hooks.gate, gate.isSuspended, !hooks.isCompiling, !gate.isInCall, hooks.isInternal?() != true,
        effects.mayWrite || StatementEffects.changesRows(action)
    {
        hooks.isDeniedBySuspension = true
        return SQLITE_DENY
    }
    if let own = hooks.ownRequest(action, first, second, schema, by: source), authorize(own) != .allow {
        return SQLITE_DENY
    }
    let request: AuthorizerRequest
    switch action {
    case SQLITE_PRAGMA:
        // The tools that copy a schema write it as rows.
        if hooks.mayChangeStoreTables, let first, sqlite3_stricmp(first, "writable_schema") == 0 { return SQLITE_OK }
        hooks.noteRecursiveTriggers(first, second)
        request = .pragma(name: first.map { String(cString: $0) } ?? "", value: second.map { String(cString: $0) })
    case SQLITE_ATTACH:
        request = .attach(file: first.map { String(cString: $0) })
    case SQLITE_DELETE:
        // After DROP TABLE it is the table itself that is deleted.
        return followsSchemaChange ? SQLITE_OK : hooks.authorizeDeletion(first)
    case SQLITE_DROP_TABLE, SQLITE_ALTER_TABLE:
        // Of the second action, the first name is that of the schema.
        guard let table = action == SQLITE_DROP_TABLE ? first : second, ConnectionHandle.isInternal(table),
            !hooks.mayChangeStoreTables
        else { return SQLITE_OK }
        request = .storeTable(name: String(cString: table))
    case SQLITE_SAVEPOINT:
        hooks.savepoint = SavepointChange(operation: first, name: second)
        return SQLITE_OK
    default:
        return SQLITE_OK
    }
    return switch authorize(request) {
    case .allow: SQLITE_OK
    case .ignore: SQLITE_IGNORE
    case .deny: SQLITE_DENY
    }
}

private func busyCallback(context: UnsafeMutableRawPointer?, tries: CInt) -> CInt {
    guard let hooks = hooks(at: context) else { return 0 }
    hooks.hasWaited = true
    return hooks.isBusy?(Int(tries)) == true ? 1 : 0
}

private func updateCallback(
    context: UnsafeMutableRawPointer?, operation: CInt, database: UnsafePointer<CChar>?,
    table: UnsafePointer<CChar>?, rowID: sqlite3_int64
) {
    guard let hooks = hooks(at: context), let kind = DatabaseEvent.Kind(rawValue: operation), let database, let table,
        !ConnectionHandle.isInternal(table)
    else { return }
    hooks.didChangeRow?(UpdateHookChange(kind: kind, databaseName: database, tableName: table, rowID: rowID))
}

private func walCallback(
    context: UnsafeMutableRawPointer?, _: OpaquePointer?, schema: UnsafePointer<CChar>?, frames: CInt
) -> CInt {
    // Attached databases have logs of their own.
    if let schema, sqlite3_stricmp(schema, "main") == 0 { hooks(at: context)?.didCommitToWAL?(Int(frames)) }
    return SQLITE_OK
}

private func traceCallback(
    event: UInt32, context: UnsafeMutableRawPointer?, statement: UnsafeMutableRawPointer?,
    detail: UnsafeMutableRawPointer?
) -> CInt {
    guard let hooks = hooks(at: context), let statement, hooks.isUnreported?(SQLiteStatement(statement)) != true else {
        return 0
    }
    if event == UInt32(SQLITE_TRACE_STMT), let detail {
        hooks.willRun?(SQLiteStatement(statement), String(cString: detail.assumingMemoryBound(to: CChar.self)))
    } else if event == UInt32(SQLITE_TRACE_PROFILE), let detail {
        hooks.didRun?(SQLiteStatement(statement), detail.load(as: Int64.self))
    }
    return 0
}
