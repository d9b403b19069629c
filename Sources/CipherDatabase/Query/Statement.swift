/// A compiled SQL statement of one connection.
///
/// Make it with ``Database/makeStatement(sql:)``, or with ``Database/cachedStatement(sql:)`` when the same SQL runs
/// repeatedly. Use it only inside the access that provided the ``Database``.
public final class Statement {
    @usableFromInline let handle: StatementHandle
    @usableFromInline let database: Database
    /// The SQL text of this one statement.
    public let sql: String
    /// The statement for SQLite's C functions. As with ``Database/sqliteConnection``, the library does not see what
    /// these do.
    public var sqliteStatement: SQLiteStatement {
        database.noteRawUse()
        mayBeMidway = true
        isShared = true
        return handle.pointer
    }
    /// Whether the statement does not change the database file. False for `BEGIN IMMEDIATE`, which acquires a lock, and
    /// for `PRAGMA optimize`, which SQLite calls read-only.
    public let isReadonly: Bool
    let parameterCount: Int
    /// The effects of the statement beyond reading and writing rows.
    let effects: StatementEffects
    /// The moments of the connection that come before it runs.
    let moments: FeatureMoments
    /// Its effect on savepoints.
    let savepoint: SavepointChange?
    /// Whether it changes only temporary tables, so that it needs no lock.
    let writesTemporaryTablesOnly: Bool
    /// How the connection's gate treats it.
    let call: GatedCall
    /// Whether its steps pass the gate even while nothing is written.
    @usableFromInline let isGatedAlways: Bool
    /// Whether it may be between rows: asking SQLite, and resetting what is reset, costs as much as a column.
    @exclusivity(unchecked) private var mayBeMidway = false
    /// Whether the program has SQLite's pointer to it, and may step it directly.
    @exclusivity(unchecked) private var isShared = false
    /// Keeps the transaction of a read outside of transactions open until the statement is reset.
    @exclusivity(unchecked) private var hold: ReadHold
    /// Whether it runs inside a bracketed call.
    @exclusivity(unchecked) private var isInCall = false
    // Unchecked, as those below: used with each run, by the one thread of the access.
    @exclusivity(unchecked) private var bound = BoundArguments.arguments(StatementArguments())
    /// The integers that `bound` stands for, in memory that is used again.
    @exclusivity(unchecked) private var integers: [Int64] = []
    /// Whether the parameters have the values of `bound`. Otherwise the next run binds them first.
    @exclusivity(unchecked) private var isBound: Bool
    private lazy var parameterNames: [String?] = (1...max(1, parameterCount)).prefix(parameterCount).map {
        handle.parameterName(at: CInt($0)).map { String($0.dropFirst()) }
    }
    @exclusivity(unchecked) private var cachedColumns: RowColumns?
    /// How often SQLite had compiled the statement again when it had them.
    @exclusivity(unchecked) private var cachedRecompilationCount: CInt = 0
    /// The layout of the adapter used last, for the columns that the statement had then.
    var keptLayout: (adapter: KeptRowAdapter, columns: RowColumns, layout: RowLayout)?
    /// Counts the uses, so that the cursor of an earlier one does not step or end a later one.
    // Unchecked: read with each row, by the one thread of the access.
    @exclusivity(unchecked) @usableFromInline var useCount = 0
    /// ``Database/suspensionRollbacks`` when the statement was started.
    @exclusivity(unchecked) private var formerRollbacks = 0
    /// The row that the last fetch of one record was read from, while nobody else refers to it.
    @exclusivity(unchecked) private var idleShownRow: Row?
    /// The row that the last fetch of one row returned.
    @exclusivity(unchecked) private var latestKeptRow: Row?
    /// How many rows the last fetch of all rows returned.
    @exclusivity(unchecked) @usableFromInline package var latestRowCount = 0
    /// Whether the connection keeps the statement for later accesses. It has the values of none of them.
    @exclusivity(unchecked) private(set) var isKept = false
    /// The position among the statements that the access has used; -1 for one that it has not.
    @exclusivity(unchecked) var usedIndex = -1
    /// Whether the end of a run keeps what SQLite counted.
    @exclusivity(unchecked) package var keepsOutcome = false
    /// The counters of SQLite when a run ended; nil before, and if nobody has asked for them.
    @exclusivity(unchecked) private(set) var outcome: StatementOutcome?
    /// Its reads and changes, as far as somebody has asked.
    @exclusivity(unchecked) var access = StatementAccess()

    init(database: Database, sqliteStatement: SQLiteStatement) {
        self.database = database
        let noted = database.hooks.effects
        let isVacuum = noted.isEmpty && Self.isVacuum(StatementHandle(sqliteStatement))
        effects = isVacuum ? .vacuum : noted.subtracting(.changes)
        moments = FeatureMoments(before: effects)
        writesTemporaryTablesOnly = noted.writesTemporaryTablesOnly
        database.hooks.effects = []
        savepoint = effects.contains(.transaction) ? database.hooks.savepoint : nil
        if savepoint != nil { database.hooks.savepoint = nil }
        handle = StatementHandle(sqliteStatement)
        sql = handle.sql.trimmingSQL()
        isReadonly = handle.isReadonly && !effects.contains(.hiddenWrites)
        hold = ReadHold(
            isPossible: isReadonly && effects.isEmpty && handle.columnCount > 0
                && CipherPragma.leadingPragma(of: sql) == nil)
        call =
            if effects.contains(.transaction) && !effects.contains(.begin) {
                .ending
            } else {
                isReadonly || Self.asksForJournalMode(sql) ? .read : .write
            }
        isGatedAlways = database.gating.usesGate && (!isReadonly || database.gating.gatesReads)
        parameterCount = handle.parameterCount
        isBound = parameterCount == 0
        if database.hooks.compiledRecord != nil {
            access.record = database.hooks.compiledRecord
            database.hooks.compiledRecord = nil
        }
    }

    deinit {
        if usedIndex >= 0 { database.kept.usedStatements.remove(at: usedIndex) }
        database.gated {
            handle.finalize()
            if hold.isActive { hold.end(database.pageReads) }
        }
    }

    /// Whether it writes rows, and nothing else, with values of the program.
    var isReusable: Bool { parameterCount > 0 && !isReadonly && effects.isEmpty }

    /// How many columns its rows have; 0 for statements without rows.
    public var columnCount: Int { Int(handle.columnCount) }

    /// The names of the columns, from left to right.
    public var columnNames: [String] { columns.names }

    /// The columns, as of the last step: the first step after a schema change may find others.
    var columns: RowColumns {
        let recompilationCount = handle.recompilationCount
        if let cachedColumns, cachedRecompilationCount == recompilationCount { return cachedColumns }
        let indexes = 0..<handle.columnCount
        let columns = RowColumns(
            names: indexes.map { handle.columnName(at: $0) },
            declaredTypes: indexes.map { handle.declaredType(at: $0) })
        (cachedColumns, cachedRecompilationCount) = (columns, recompilationCount)
        return columns
    }

    /// Whether this is the pragma that reads the journal mode; SQLite counts it as one that writes.
    private(set) lazy var asksForJournalMode = parameterCount == 0 && Self.asksForJournalMode(sql)

    // MARK: Arguments

    /// The arguments set last. Setting some that do not fit traps: `setArguments(_:)` throws instead.
    public var arguments: StatementArguments {
        get { arguments(of: bound) }
        set {
            do {
                try setArguments(newValue)
            } catch {
                ProgrammerError.trap("\(error)")
            }
        }
    }

    /// Sets all arguments. The former ones stay when it throws.
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

    /// Sets all arguments. The former ones stay when it throws.
    ///
    /// - Parameters:
    ///   - arguments: The arguments as the program passed them.
    ///   - count: How many there are.
    ///   - bind: Binds each of them.
    func bindAll(_ arguments: BoundArguments, count: Int, _ bind: () throws -> Void) throws {
        database.requireAccess()
        rewind()
        if count != parameterCount { throw wrongArgumentCount(count) }
        noteUse()
        let former = bound
        // For the error of a value that SQLite rejects.
        bound = arguments
        isBound = false
        do {
            try bind()
        } catch {
            bound = former
            throw error
        }
        isBound = true
    }

    /// Binds integers as all arguments, and keeps a copy of them. The former ones stay when it throws.
    @inline(__always)
    func bindIntegers(_ numbers: UnsafeBufferPointer<some FixedWidthInteger>) throws {
        database.requireAccess()
        rewind()
        if numbers.count != parameterCount { throw wrongArgumentCount(numbers.count) }
        noteUse()
        isBound = false
        for index in numbers.indices {
            let code = handle.bind(Int64(numbers[index]), at: CInt(truncatingIfNeeded: index &+ 1))
            if code != 0 { throw failure(code, binding: numbers.map { Int64($0) }) }
        }
        if integers.count == numbers.count {
            for index in numbers.indices { integers[index] = Int64(numbers[index]) }
        } else {
            integers = numbers.map { Int64($0) }
        }
        if case .integers = bound {} else { bound = .integers }
        isBound = true
    }

    private func arguments(of bound: BoundArguments) -> StatementArguments {
        if case .integers = bound { StatementArguments(integers) } else { bound.statementArguments }
    }

    /// The error of integers that cannot be bound.
    private func failure(_ code: CInt, binding numbers: [Int64]) -> any Error {
        let former = bound
        defer { bound = former }
        bound = .arguments(StatementArguments(numbers))
        return failure(code)
    }

    /// Sets arguments without a check of their number and names: parameters without one are NULL, arguments without a
    /// parameter are ignored.
    public func setUncheckedArguments(_ arguments: StatementArguments) {
        database.requireAccess()
        noteUse()
        bound = .unchecked(arguments)
        rewind()
        // The next run tries again to bind a value that SQLite rejects, and throws.
        isBound = bindUnchecked(arguments) == ResultCode.SQLITE_OK.rawValue
    }

    /// - Returns: The code of the first value that SQLite rejects.
    private func bindUnchecked(_ arguments: StatementArguments) -> CInt {
        handle.clearBindings()
        var positional = arguments.values[...]
        for (index, name) in parameterNames.enumerated() {
            guard let value = name.flatMap({ arguments.namedValues[$0] }) ?? positional.popFirst() else { continue }
            let code = value.bind(to: handle.pointer, at: CInt(index + 1))
            if code != ResultCode.SQLITE_OK.rawValue { return code }
        }
        return ResultCode.SQLITE_OK.rawValue
    }

    /// Binds the parameters directly.
    func bindElsewhere(_ bind: () throws -> Void) throws {
        bound = .elsewhere
        isBound = false
        try bind()
        isBound = true
    }

    /// Binds the arguments set last, after others of which some may be bound.
    private func bindAgain() throws {
        switch bound {
        case .unchecked(let arguments):
            let code = bindUnchecked(arguments)
            if code != ResultCode.SQLITE_OK.rawValue { throw bindingFailure(code) }
            isBound = true
        default: try setArguments(arguments(of: bound))
        }
    }

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

    // Named parameters use the value of their name; the others use the positional values in order. A dictionary may
    // hold more than the statement needs, as a row's values do. One that holds nothing for it is an error.
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
        let code = value.bind(to: handle.pointer, at: CInt(index + 1))
        if code != 0 { throw bindingFailure(code) }
    }

    /// The error of a value that cannot be bound.
    func bindingFailure(_ code: CInt) -> any Error {
        guard code == ResultCode.SQLITE_MISMATCH.rawValue else { return failure(code) }
        return DatabaseError.unencodable(sql: sql)
    }

    private func wrongArgumentCount(_ count: Int) -> DatabaseError { misuse(wrongCountMessage(count)) }

    private func wrongCountMessage(_ count: Int) -> String {
        "wrong number of statement arguments: \(count)"
    }

    private func misuse(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: message, sql: sql)
    }

    // MARK: The end of an access

    /// Makes the statement one that the connection keeps for later accesses.
    func keep() {
        isKept = true
        noteUse()
    }

    /// Notes that the access has given a kept statement values.
    @inline(__always)
    private func noteUse() {
        if isKept && usedIndex < 0 { usedIndex = database.kept.usedStatements.add(self) }
    }

    /// Forgets arguments and rows, so that what an access has read or stored does not stay in memory.
    ///
    /// A statement that is between rows keeps its arguments: a cursor, or a row that the program has kept, still needs
    /// them.
    ///
    /// - Returns: Whether nothing is left to be forgotten.
    func clear() -> Bool {
        latestKeptRow = nil
        if handle.isBusy { return false }
        idleShownRow = nil
        guard parameterCount > 0 else { return true }
        handle.clearBindings()
        bound = .arguments(StatementArguments())
        isBound = false
        for index in integers.indices { integers[index] = 0 }
        return true
    }

    // MARK: One row

    /// A copy of the first row; nil when there is none.
    func firstRow(arguments: StatementArguments?) throws -> Row? {
        if let arguments { try setArguments(arguments) }
        try startSteps()
        guard !stepsPassGate else {
            var steps = StatementSteps(started: self)
            guard try steps.advance() else { return nil }
            let row = keepRow()
            try steps.finish()
            return row
        }
        // The same without what several steps need: it takes as long as finding the row.
        let code = firstStep()
        guard code == ResultCode.SQLITE_ROW.rawValue || code == ResultCode.SQLITE_DONE.rawValue else {
            throw failure(code)
        }
        let row = code == ResultCode.SQLITE_ROW.rawValue ? keepRow() : nil
        if passesGate {
            try endThroughGate()
        } else {
            resetHandle()
            try database.didRun(self)
        }
        return row
    }

    /// A copy of the current row for a fetch that returns one: the row of the last such fetch, filled again, if the
    /// program has dropped it. Making an object for each row takes as long as finding the row.
    func keepRow() -> Row {
        if isKnownUniquelyReferenced(&latestKeptRow), let row = latestKeptRow, row.refill(from: handle, columns) {
            return row
        }
        let row = Row.copy(of: handle, columns: columns)
        noteUse()
        latestKeptRow = row
        return row
    }

    /// Takes the row that shows the current row of this statement.
    @usableFromInline
    func takeShownRow() -> Row {
        if let row = idleShownRow.take(), row.source.columns === columns {
            row.likelyColumn = 0
            return row
        }
        return Row(showing: self)
    }

    /// Puts a row back that ``takeShownRow()`` returned, and ends the steps.
    ///
    /// A row that the program has kept shows its values until it is released: it takes over the steps of a statement
    /// that only reads, and has a copy of the values of one that writes.
    @usableFromInline
    func putBack(_ row: inout Row, _ steps: inout StatementSteps) throws {
        if isKnownUniquelyReferenced(&row) {
            idleShownRow = row
        } else if isReadonly {
            return row.takeOver(steps)
        } else {
            row.settle()
        }
        // A statement that changes rows has changed them all, and has to come to its end.
        if !isReadonly { while try steps.advance() {} }
        if !steps.isDone { try steps.finish() }
    }

    /// Ends the steps of a row that could not be read.
    @usableFromInline
    func discard(_ row: inout Row, _ steps: StatementSteps) {
        if isKnownUniquelyReferenced(&row) {
            steps.abandon()
        } else if isReadonly {
            row.takeOver(steps)
        } else {
            // The error of a program may have the row.
            row.settle()
            steps.abandon()
        }
    }

    // MARK: All rows

    /// The next capacity of an array that is full: that of the last fetch, which often has as many rows, from an eighth
    /// of these on. Growing by steps would copy all records, into memory that is used for the first time.
    @usableFromInline
    package func capacity(after count: Int) -> Int {
        latestRowCount > count && latestRowCount / 8 <= count ? latestRowCount + latestRowCount / 16 : count * 2
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
        var code = firstStep()
        while code == ResultCode.SQLITE_ROW.rawValue { code = nextStep() }
        if code != ResultCode.SQLITE_DONE.rawValue { throw failure(code) }
        resetHandle()
        try didEnd()
    }

    @inline(__always)
    func resetHandle() {
        _ = handle.reset()
        if hold.isActive { hold.end(database.pageReads) }
        if keepsOutcome && mayBeMidway { outcome = StatementOutcome(database) }
        mayBeMidway = isShared
    }

    /// Makes the statement ready for its first step, inside a bracketed call where the connection may write.
    private func start(needsWriteTurn: Bool = true) throws {
        if !isBound { try bindAgain() }
        isInCall = try database.willRun(self, needsWriteTurn: needsWriteTurn)
        formerRollbacks = database.suspensionRollbacks
        // Only a run that a cursor has not ended must be reset.
        if mayBeMidway && handle.isBusy { resetHandle() }
        mayBeMidway = true
        useCount &+= 1
        if hold.isPossible { hold.begin(database.pageReads, database.handle) }
    }

    private func rewind() {
        if access.narrowedRegion != nil { access.narrowedRegion = nil }
        if mayBeMidway {
            if database.isGated && handle.isBusy { reset() } else { resetHandle() }
        }
        useCount &+= 1
    }

    /// Resets the statement if it is between rows.
    func reset() { database.gated { resetHandle() } }

    // MARK: Step by step

    /// Makes the statement ready for the steps of a cursor, each of which is a call of its own.
    func startSteps() throws {
        // The first step acquires the write turn: a cursor that is never stepped blocks nobody.
        try start(needsWriteTurn: false)
        guard isInCall else { return }
        if leaveCall() { throw DatabaseError.suspended(sql: sql) }
    }

    /// Whether a step passes the gate of the connection: checked before each.
    @usableFromInline
    var stepsPassGate: Bool { database.isGated || isGatedAlways || wasInterruptedByRollback }

    /// Whether a suspension has rolled back since the statement was started: further rows would be read outside of the
    /// transaction.
    private var wasInterruptedByRollback: Bool { database.suspensionRollbacks != formerRollbacks }

    /// Takes one step as a bracketed call.
    ///
    /// - Returns: The code; nil when there are no more rows, and the statement has ended.
    @usableFromInline
    func stepThroughGate() throws -> CInt {
        // Another statement of the transaction was the first to detect it.
        if wasInterruptedByRollback { throw DatabaseError.suspended(sql: sql) }
        // Between rows it may hold locks, and only further steps release them.
        let begins = !handle.isBusy
        guard try database.enterCall(begins ? call : .ending, sql: sql) else {
            throw DatabaseError.suspended(sql: sql)
        }
        if begins && !isReadonly { try database.acquireWriteTurnInCall(for: self) }
        isInCall = true
        let code = begins ? firstStep() : nextStep()
        guard code == ResultCode.SQLITE_ROW.rawValue else { return code }
        isInCall = false
        if database.leaveCall(isMidway: !isReadonly) { throw DatabaseError.suspended(sql: sql) }
        return code
    }

    /// Whether the end of a run passes the gate of the connection.
    var passesGate: Bool { isInCall || database.isGated }

    /// Ends the run of a cursor on a connection that may write.
    func endThroughGate() throws {
        reset()
        try didEnd()
    }

    /// Ends a run that came to its end.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension has rolled it back meanwhile.
    @usableFromInline
    func didEnd() throws {
        let isUndone = leaveCall()
        try database.didRun(self)
        if isUndone { throw DatabaseError.suspended(sql: sql) }
    }

    private func leaveCall() -> Bool {
        guard isInCall else { return false }
        isInCall = false
        return database.leaveCall()
    }

    /// The error of a failed step, after which the statement is reset: a statement that stays in the middle of a step
    /// would keep its locks.
    @usableFromInline
    func failure(_ code: CInt) -> any Error {
        let message = database.pageReads.message(of: code, database.handle.lastMessage)
        let code = code == PageReads.refused ? ResultCode.SQLITE_CORRUPT.rawValue : code
        if isInCall {
            resetHandle()
            database.releaseWriteTurnIfDone()
        } else {
            reset()
        }
        let isSuspended = isInCall && database.gating.gate.isWanted
        let isUndone = leaveCall()
        let error = database.stepError(
            ResultCode(rawValue: code), message: message, sql: sql, arguments: arguments,
            isSuspended: isSuspended || isUndone)
        database.didFail(self)
        return error
    }
}

extension Statement: CustomStringConvertible {
    public var description: String { "SQL: \(sql)" }
}
