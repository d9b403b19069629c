// Reading typed values out of a row, by position and by name.

extension Row {
    // MARK: By position

    /// The value of a column, counted from 0. Traps when the column holds NULL or another type.
    @inlinable
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ index: Int) -> Value {
        requireColumn(index)
        if let statement {
            if let value = Value(sqliteStatement: statement.pointer, index: CInt(truncatingIfNeeded: index)) {
                return value
            }
        }
        return slowValue(at: index)
    }

    /// The value of a column, counted from 0; nil for NULL. Traps when the column holds another type.
    @inlinable
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ index: Int) -> Value? {
        requireColumn(index)
        if let statement {
            if let value = Value(sqliteStatement: statement.pointer, index: CInt(truncatingIfNeeded: index)) {
                return value
            }
        }
        return slowOptionalValue(at: index)
    }

    /// The value of a column, counted from 0. Traps when the column holds NULL or another type.
    public subscript<Value: DatabaseValueConvertible>(_ index: Int) -> Value { slowValue(at: index) }

    /// The value of a column, counted from 0; nil for NULL. Traps when the column holds another type.
    public subscript<Value: DatabaseValueConvertible>(_ index: Int) -> Value? { slowOptionalValue(at: index) }

    /// The stored value of a column, counted from 0, as a Swift value; nil for NULL.
    public subscript(_ index: Int) -> (any DatabaseValueConvertible)? { databaseValue(at: index).storage.value }

    // MARK: By name

    /// The value of the leftmost column of a name, in any case. Traps when there is no such column, or no such value.
    @inlinable
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ name: String) -> Value {
        guard let index = columns.index(of: name) else { return missingValue(name) }
        return self[index]
    }

    /// The value of the leftmost column of a name; nil for NULL and where there is no such column.
    @inlinable
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ name: String) -> Value? {
        guard let index = columns.index(of: name) else { return Value.fromMissingColumn() }
        return self[index]
    }

    /// The value of the leftmost column of a name, in any case. Traps when there is no such column, or no such value.
    public subscript<Value: DatabaseValueConvertible>(_ name: String) -> Value {
        guard let index = columns.index(of: name) else { return missingValue(name) }
        return slowValue(at: index)
    }

    /// The value of the leftmost column of a name; nil for NULL and where there is no such column.
    public subscript<Value: DatabaseValueConvertible>(_ name: String) -> Value? {
        guard let index = columns.index(of: name) else { return Value.fromMissingColumn() }
        return slowOptionalValue(at: index)
    }

    /// The stored value of the leftmost column of a name as a Swift value; nil for NULL and for no such column.
    public subscript(_ name: String) -> (any DatabaseValueConvertible)? {
        columns.index(of: name).flatMap { databaseValue(at: $0).storage.value }
    }

    // MARK: Throwing

    /// The value of a column, counted from 0.
    ///
    /// - Throws: ``RowDecodingError`` for NULL and for values of another type.
    public func decode<Value: DatabaseValueConvertible>(_ type: Value.Type = Value.self, atIndex index: Int) throws
        -> Value
    {
        let stored = databaseValue(at: index)
        if let value = Value.fromDatabaseValue(stored) { return value }
        throw RowDecodingError(column: columnNames[index], index: index, found: stored, wanted: Value.self)
    }

    // MARK: The rare ways

    @usableFromInline
    func slowValue<Value: DatabaseValueConvertible>(at index: Int) -> Value {
        do {
            return try decode(Value.self, atIndex: index)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    @usableFromInline
    func slowOptionalValue<Value: DatabaseValueConvertible>(at index: Int) -> Value? {
        hasNull(atIndex: index) ? Value.fromDatabaseValue(.null) : slowValue(at: index)
    }

    @usableFromInline
    func missingValue<Value: DatabaseValueConvertible>(_ name: String) -> Value {
        guard let value = Value.fromMissingColumn() else {
            preconditionFailure(
                "row has no column named \(name): its columns are \(columnNames.joined(separator: ", "))")
        }
        return value
    }
}

/// A column that cannot be read as the type asked for. Names column and types, never the value.
public struct RowDecodingError: Error, Sendable, CustomStringConvertible {
    /// The name of the column.
    public let columnName: String
    /// The position of the column, counted from 0.
    public let columnIndex: Int
    /// What the column holds.
    public let storageClass: StorageClass
    /// The type that was asked for.
    public let typeName: String

    init(column: String, index: Int, found: DatabaseValue, wanted: Any.Type) {
        columnName = column
        columnIndex = index
        storageClass = found.storageClass
        typeName = String(describing: wanted)
    }

    public var description: String {
        "could not read a value of type \(typeName) from column \(String(reflecting: columnName)) "
            + "(at index \(columnIndex)), which holds \(storageClass == .null ? "NULL" : "a value of class \(storageClass)")"
    }
}

extension DatabaseValue {
    /// The storage class of the value.
    public var storageClass: StorageClass {
        switch storage {
        case .null: .null
        case .int64: .integer
        case .double: .real
        case .string: .text
        case .blob: .blob
        }
    }
}
