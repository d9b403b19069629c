// Arguments that are bound directly: integers, and the values of a literal. They become ``StatementArguments`` only on
// demand, as for errors.

/// The values of a statement's parameters, as the program passed them.
enum BoundArguments {
    case arguments(StatementArguments)
    /// A single one, as keys mostly are: it needs no array.
    case integer(Int64)
    /// A single one.
    case value(DatabaseValue)
    /// Several, which the statement has copied.
    case integers
    case values([(any DatabaseValueConvertible)?])
    /// Their number and names are not checked: a parameter without one is NULL.
    case unchecked(StatementArguments)
    /// Values that were bound without arguments.
    case elsewhere

    /// The same as arguments; without integers that the statement has.
    var statementArguments: StatementArguments {
        switch self {
        case .arguments(let arguments): arguments
        case .integer(let number): StatementArguments([number])
        case .value(let value): StatementArguments(plain: [value])
        case .values(let values): StatementArguments(values)
        case .unchecked(let arguments): arguments
        case .integers, .elsewhere: StatementArguments()
        }
    }
}

extension Statement {
    /// Sets integers as all arguments, by position. As `setArguments(_:)` of ``StatementArguments``, but faster: row
    /// ids and numbers are the most frequent arguments.
    @inlinable
    public func setArguments<Number: FixedWidthInteger & StatementBinding>(_ numbers: [Number]) throws {
        // The number of elements and the types are compared at compile time.
        if numbers.count == 1 {
            try setInteger(Int64(numbers[0]))
        } else if Number.self == Int.self, let numbers = numbers as? [Int] {
            try numbers.withUnsafeBufferPointer { try setIntegers($0) }
        } else if Number.self == Int64.self, let numbers = numbers as? [Int64] {
            try numbers.withUnsafeBufferPointer { try setIntegers($0) }
        } else {
            try numbers.map { Int64($0) }.withUnsafeBufferPointer { try setIntegers($0) }
        }
    }

    /// Sets the values as all arguments, by position; nil is NULL.
    public func setArguments(_ values: [(any DatabaseValueConvertible)?]) throws {
        try bindAll(.values(values), count: values.count) {
            for index in values.indices {
                let parameter = CInt(index + 1)
                let code = values[index]?.bind(to: handle.pointer, at: parameter) ?? handle.bindNull(at: parameter)
                if code != 0 { throw bindingFailure(code) }
            }
        }
    }

    /// Sets the only argument.
    package func setArgument(_ value: DatabaseValue) throws {
        if case .int64(let number) = value.storage { return try setInteger(number) }
        try bindAll(.value(value), count: 1) {
            let code = value.bind(to: handle.pointer, at: 1)
            if code != 0 { throw bindingFailure(code) }
        }
    }

    @usableFromInline
    func setInteger(_ number: Int64) throws {
        try bindAll(.integer(number), count: 1) {
            let code = handle.bind(number, at: 1)
            if code != 0 { throw failure(code) }
        }
    }

    // The bytes and not the array: an array that nobody keeps needs no memory of its own in the program.

    @usableFromInline
    func setIntegers(_ numbers: UnsafeBufferPointer<Int>) throws { try bindIntegers(numbers) }

    @usableFromInline
    func setIntegers(_ numbers: UnsafeBufferPointer<Int64>) throws { try bindIntegers(numbers) }

    /// Runs the statement to its end with integers as its arguments.
    @inlinable
    public func execute<Number: FixedWidthInteger & StatementBinding>(arguments: [Number]) throws {
        try setArguments(arguments)
        try runToEnd()
    }

    /// Runs the statement to its end with the values as its arguments; nil is NULL.
    public func execute(arguments: [(any DatabaseValueConvertible)?]) throws {
        try setArguments(arguments)
        try runToEnd()
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible {
    /// The first value of a statement's first column, with integers as the statement's arguments; nil when there is no
    /// row, and for NULL.
    @inlinable
    public static func fetchOne<Number: FixedWidthInteger & StatementBinding>(
        _ statement: Statement, arguments: [Number]
    ) throws -> Self? {
        try statement.setArguments(arguments)
        return try fetchOne(statement)
    }
}

extension Row {
    /// The first row of a statement, with integers as the statement's arguments; nil when there is none.
    @inlinable
    public static func fetchOne<Number: FixedWidthInteger & StatementBinding>(
        _ statement: Statement, arguments: [Number]
    ) throws -> Row? {
        try statement.setArguments(arguments)
        return try fetchOne(statement)
    }
}
