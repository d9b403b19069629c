/// A compiled SQL statement of one connection.
///
/// Make it with ``Database/makeStatement(sql:)``, or with ``Database/cachedStatement(sql:)`` when the same SQL runs
/// again and again. Use it only inside the access that gave the ``Database``.
public final class Statement {
    @usableFromInline let handle: StatementHandle
    let database: Database
    /// The SQL text of this one statement.
    public let sql: String
    /// The statement for SQLite's C functions.
    public let sqliteStatement: SQLiteStatement
    /// Whether the statement leaves the database file as it is. `BEGIN IMMEDIATE`, which takes a lock, does not.
    public let isReadonly: Bool
    let parameterCount: Int
    /// What the statement does beyond reading and writing rows.
    let effects: StatementEffects
    /// Whether it changes temporary tables and nothing else, so that it needs no lock.
    let writesTemporaryTablesOnly: Bool
    private var bound = BoundArguments.arguments(StatementArguments())
    /// Whether every parameter has a value of ``arguments``.
    private var argumentsAreComplete: Bool
    private lazy var parameterNames: [String?] = (1...max(1, parameterCount)).prefix(parameterCount).map {
        handle.parameterName(at: CInt($0)).map { String($0.dropFirst()) }
    }
    private var cachedColumns: (columns: RowColumns, recompilationCount: CInt)?
    /// Counts the uses, so that the cursor of an earlier one does not step or end a later one.
    // Unchecked: read with each row, by the one thread of the access.
    @exclusivity(unchecked) @usableFromInline var useCount = 0

    init(database: Database, sqliteStatement: SQLiteStatement) {
        self.database = database
        self.sqliteStatement = sqliteStatement
        effects = database.hooks.effects.subtracting(.changes)
        writesTemporaryTablesOnly = database.hooks.effects.writesTemporaryTablesOnly
        database.hooks.effects = []
        handle = StatementHandle(sqliteStatement)
        sql = handle.sql.trimmingSQL()
        isReadonly = handle.isReadonly
        parameterCount = handle.parameterCount
        argumentsAreComplete = parameterCount == 0
    }

    deinit { handle.finalize() }

    /// How many columns its rows have; 0 for statements without rows.
    public var columnCount: Int { Int(handle.columnCount) }

    /// The names of the columns, from left to right.
    public var columnNames: [String] { columns.names }

    /// The columns, as of the last step: the first step after a schema change may find others.
    var columns: RowColumns {
        let recompilationCount = handle.recompilationCount
        if let cachedColumns, cachedColumns.recompilationCount == recompilationCount { return cachedColumns.columns }
        let columns = RowColumns(names: (0..<handle.columnCount).map { handle.columnName(at: $0) })
        cachedColumns = (columns, recompilationCount)
        return columns
    }

    /// Whether this is the pragma that tells the journal mode; SQLite counts it as one that writes.
    private(set) lazy var asksForJournalMode =
        parameterCount == 0 && CipherPragma.leadingPragma(of: sql) == "journal_mode"
        && !sql.contains { $0 == "=" || $0 == "(" }

    // MARK: Arguments

    /// The arguments set last. Setting some that do not fit traps: `setArguments(_:)` throws instead.
    public var arguments: StatementArguments {
        get { bound.statementArguments }
        set {
            do {
                try setArguments(newValue)
            } catch {
                ProgrammerError.trap("\(error)")
            }
        }
    }

    /// Sets all arguments.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` when their number or names do not fit the statement,
    ///   `.SQLITE_TOOBIG` for a text or blob that is longer than SQLite takes.
    public func setArguments(_ arguments: StatementArguments) throws {
        let isPositional = arguments.namedValues.isEmpty
        try bindAll(.arguments(arguments), count: isPositional ? arguments.values.count : parameterCount) {
            guard isPositional else { return try bindByName(arguments) }
            for index in arguments.values.indices { try bind(arguments.values[index], at: index) }
        }
    }

    /// Sets all arguments.
    ///
    /// - Parameters:
    ///   - arguments: The arguments as they were given.
    ///   - count: How many there are.
    ///   - bind: Binds each of them.
    func bindAll(_ arguments: BoundArguments, count: Int, _ bind: () throws -> Void) throws {
        database.requireAccess()
        bound = arguments
        argumentsAreComplete = false
        rewind()
        if count != parameterCount { throw wrongArgumentCount(count) }
        try bind()
        argumentsAreComplete = true
    }

    /// Sets arguments without a check of their number and names: parameters without one are NULL, arguments without a
    /// parameter are ignored.
    public func setUncheckedArguments(_ arguments: StatementArguments) {
        database.requireAccess()
        bound = .arguments(arguments)
        rewind()
        handle.clearBindings()
        var positional = arguments.values[...]
        for (index, name) in parameterNames.enumerated() {
            guard let value = name.flatMap({ arguments.namedValues[$0] }) ?? positional.popFirst() else { continue }
            _ = value.bind(to: sqliteStatement, at: CInt(index + 1))
        }
        argumentsAreComplete = true
    }

    /// Tells that the parameters were bound by other means.
    func didBindParameters() { argumentsAreComplete = true }

    /// Checks arguments without running anything.
    public func validateArguments(_ arguments: StatementArguments) throws {
        if arguments.namedValues.isEmpty {
            guard arguments.values.count == parameterCount else { throw wrongArgumentCount(arguments.values.count) }
        } else {
            _ = try valuesInOrder(arguments)
        }
    }

    /// Whether any parameter has a name.
    var hasNamedParameters: Bool { parameterNames.contains { $0 != nil } }

    /// How many parameters take their values by position where these names have values.
    func positionalParameterCount(beside namedValues: [String: DatabaseValue]) -> Int {
        if namedValues.isEmpty { return parameterCount }
        return parameterNames.count { name in name.map { namedValues[$0] == nil } ?? true }
    }

    private func bindByName(_ arguments: StatementArguments) throws {
        for (index, value) in try valuesInOrder(arguments).enumerated() { try bind(value, at: index) }
    }

    // Named parameters take the value of their name; the others take the positional values in turn. A dictionary may
    // hold more than the statement asks for: a row's values, say. One that holds nothing for it is a mistake.
    private func valuesInOrder(_ arguments: StatementArguments) throws -> [DatabaseValue] {
        var positional = arguments.values[...]
        let values = try parameterNames.map { name -> DatabaseValue in
            if let name, let value = arguments.namedValues[name] { return value }
            if let value = positional.popFirst() { return value }
            throw misuse(name.map { "missing statement argument: \($0)" } ?? wrongCountMessage(arguments.values.count))
        }
        guard positional.isEmpty else { throw wrongArgumentCount(arguments.values.count) }
        let names = arguments.namedValues
        guard names.isEmpty || parameterNames.contains(where: { $0.map { names[$0] != nil } ?? false }) else {
            throw arguments.unknownNames(sql: sql)
        }
        return values
    }

    private func bind(_ value: DatabaseValue, at index: Int) throws {
        let code = value.bind(to: sqliteStatement, at: CInt(index + 1))
        if code != 0 { throw failure(code) }
    }

    private func wrongArgumentCount(_ count: Int) -> DatabaseError { misuse(wrongCountMessage(count)) }

    private func wrongCountMessage(_ count: Int) -> String {
        "wrong number of statement arguments: \(count)"
    }

    private func misuse(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: message, sql: sql)
    }

    // MARK: Running

    /// Runs the statement to its end and drops its rows.
    ///
    /// - Parameter arguments: New arguments; nil keeps those set before.
    /// - Throws: ``DatabaseError``.
    public func execute(arguments: StatementArguments? = nil) throws {
        if let arguments { try setArguments(arguments) }
        try runToEnd()
    }

    @usableFromInline
    func runToEnd() throws {
        try start()
        var code: CInt
        repeat { code = handle.step() } while code == ResultCode.SQLITE_ROW.rawValue
        if code != ResultCode.SQLITE_DONE.rawValue { throw failure(code) }
        _ = handle.reset()
        database.didRun(self)
    }

    /// Makes the statement ready for its first step.
    @usableFromInline
    func start() throws {
        try database.willRun(self)
        if !argumentsAreComplete { try validateArguments(arguments) }
        // Only a run that a cursor has not ended is left to be reset.
        if handle.isBusy { _ = handle.reset() }
        useCount &+= 1
    }

    private func rewind() {
        _ = handle.reset()
        useCount &+= 1
    }

    /// The error of a failed step, after which the statement is reset: a statement left in the middle of a step would
    /// keep its locks.
    @usableFromInline
    func failure(_ code: CInt) -> any Error {
        let message = database.handle.lastMessage
        _ = handle.reset()
        let error = database.stepError(ResultCode(rawValue: code), message: message, sql: sql, arguments: arguments)
        database.didFail(self)
        return error
    }
}

extension Statement: CustomStringConvertible {
    public var description: String { "SQL: \(sql)" }
}

extension String {
    /// The text without blanks, semicolons and comments' line ends around it.
    func trimmingSQL() -> String {
        let isEdge: (Character) -> Bool = { $0.isWhitespace || $0 == ";" }
        guard let first = firstIndex(where: { !isEdge($0) }), let last = lastIndex(where: { !isEdge($0) }) else {
            return ""
        }
        return first == startIndex && last == index(before: endIndex) ? self : String(self[first...last])
    }
}
