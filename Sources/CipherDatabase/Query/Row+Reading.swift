// Reading typed values out of a row, by position and by name.

extension Row {
    // MARK: By position

    /// The value of a column, counted from 0. Traps when the value does not fit; only optional types accept NULL.
    @inlinable
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ index: Int) -> Value {
        // A call for each column would take as many instructions as the column.
        @inline(__always)
        get {
            requireColumn(index)
            if let statement {
                if let value = Value(column: statementColumn(index), of: statement) { return value }
                return slowValue(at: index)
            }
            return keptValue(at: index)
        }
    }

    @inlinable @inline(never)
    func keptValue<Value: DatabaseValueConvertible>(at index: Int) -> Value {
        Value(kept: StoredValue(in: address, at: index)) ?? slowValue(at: index)
    }

    /// The value of a column, counted from 0. Traps when the value does not fit; only optional types accept NULL.
    public subscript<Value: DatabaseValueConvertible>(_ index: Int) -> Value { slowValue(at: index) }

    /// The stored value of a column, counted from 0, as a Swift value; nil for NULL.
    public subscript(_ index: Int) -> (any DatabaseValueConvertible)? { databaseValue(at: index).storage.value }

    /// The value of a column, counted from 0; nil when it does not fit, and when there is no such column:
    /// ``decode(_:atIndex:)`` says why.
    @inlinable
    package func fittingValue<Value: DatabaseValueConvertible & StatementColumnConvertible>(
        _ type: Value.Type, at index: Int
    ) -> Value? {
        if index < 0 || index >= count { return nil }
        if let statement { return Value(column: statementColumn(index), of: statement) }
        return Value(kept: StoredValue(in: address, at: index))
    }

    /// The integer of a column, counted from 0; nil for every other stored value, and when there is no such column.
    @inlinable
    package func storedInteger(at index: Int) -> Int64? {
        if index < 0 || index >= count { return nil }
        if let statement { return statement.storedInteger(at: statementColumn(index)) }
        let kept = StoredValue(in: address, at: index)
        if kept.kind == .small { return Int64(kept.word) }
        if case .int64(let number) = DatabaseValue(kept: kept).storage { return number }
        return nil
    }

    /// The number of a column, counted from 0; nil for every other stored value, and when there is no such column.
    @inlinable
    package func storedNumber(at index: Int) -> Double? {
        if index < 0 || index >= count { return nil }
        if let statement { return statement.storedNumber(at: statementColumn(index)) }
        switch DatabaseValue(kept: StoredValue(in: address, at: index)).storage {
        case .double(let number): return number
        case .int64(let number): return Double(number)
        default: return nil
        }
    }

    // MARK: By name

    /// The value of the leftmost column of a name, ignoring case. Traps when there is no such column, or the value does
    /// not fit; for an optional type a missing column and NULL are nil.
    @inlinable
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ name: String) -> Value {
        guard let index = index(of: name) else { return missingValue(name) }
        return self[index]
    }

    /// The value of the leftmost column of a name, ignoring case. Traps when there is no such column, or the value does
    /// not fit; for an optional type a missing column and NULL are nil.
    public subscript<Value: DatabaseValueConvertible>(_ name: String) -> Value {
        guard let index = index(of: name) else { return missingValue(name) }
        return slowValue(at: index)
    }

    /// The stored value of the leftmost column of a name as a Swift value; nil for NULL and for no such column.
    public subscript(_ name: String) -> (any DatabaseValueConvertible)? {
        columns.index(of: name).flatMap { databaseValue(at: $0).storage.value }
    }
}

extension Row: RandomAccessCollection {
    public struct Index: Strideable, Sendable {
        let position: Int
        public func distance(to other: Index) -> Int { other.position - position }
        public func advanced(by distance: Int) -> Index { Index(position: position + distance) }
    }
    public var startIndex: Index { Index(position: 0) }
    public var endIndex: Index { Index(position: count) }
    public func index(after index: Index) -> Index { Index(position: index.position + 1) }
    public func index(before index: Index) -> Index { Index(position: index.position - 1) }
    public func distance(from start: Index, to end: Index) -> Int { end.position - start.position }
    public func index(_ index: Index, offsetBy distance: Int) -> Index { Index(position: index.position + distance) }

    /// Name and stored value of a column.
    public subscript(position: Index) -> (String, DatabaseValue) {
        (columnNames[position.position], databaseValue(at: position.position))
    }
}
