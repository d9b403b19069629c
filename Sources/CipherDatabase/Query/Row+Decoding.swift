// Reading values with errors where subscripts trap, and the slow paths of subscripts.

extension Row {
    // MARK: Throwing

    /// The value of a column, counted from 0.
    ///
    /// - Throws: ``RowDecodingError`` for NULL, for values that do not fit, and where there is no such column.
    public func decode<Value: DatabaseValueConvertible>(_ type: Value.Type = Value.self, atIndex index: Int) throws
        -> Value
    {
        guard indices(contain: index) else { throw missingColumn("\(index)", wanted: Value.self) }
        let stored = databaseValue(at: index)
        if let value = Value.fromDatabaseValue(stored) { return value }
        throw RowDecodingError(
            column: columnNames[index], index: index, found: stored, row: rowIndex, wanted: Value.self)
    }

    /// The value of a column, counted from 0; nil for NULL.
    ///
    /// - Throws: ``RowDecodingError`` for values that do not fit, and where there is no such column.
    public func decodeIfPresent<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, atIndex index: Int
    ) throws -> Value? {
        guard indices(contain: index) else { throw missingColumn("\(index)", wanted: Value.self) }
        return hasNull(atIndex: index) ? Value.fromDatabaseValue(.null) : try decode(Value.self, atIndex: index)
    }

    /// The value of the leftmost column of a name, ignoring case.
    ///
    /// - Throws: ``RowDecodingError`` for NULL, for values that do not fit, and where there is no such column.
    public func decode<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, forColumn name: String
    ) throws -> Value {
        if let index = columns.index(of: name) { return try decode(Value.self, atIndex: index) }
        guard let value = Value.fromMissingColumn() else { throw missingColumn(name, wanted: Value.self) }
        return value
    }

    /// The value of the leftmost column of a name, ignoring case; nil for NULL and where there is no such column.
    ///
    /// - Throws: ``RowDecodingError`` for values that do not fit.
    public func decodeIfPresent<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, forColumn name: String
    ) throws -> Value? {
        guard let index = columns.index(of: name) else { return Value.fromMissingColumn() }
        return try decodeIfPresent(Value.self, atIndex: index)
    }

    private func indices(contain index: Int) -> Bool { index >= 0 && index < count }

    // The position of the current row in its result.
    private var rowIndex: Int? { run.map { $0.steps.rowCount - 1 } }

    private func missingColumn(_ name: String, wanted: Any.Type) -> RowDecodingError {
        RowDecodingError(column: name, index: nil, found: nil, row: rowIndex, wanted: wanted)
    }

    // MARK: The first of several columns

    /// The first value that is not NULL among columns; columns that the row does not have count as NULL.
    /// Traps when that value does not fit.
    public func coalesce<Value: DatabaseValueConvertible>(_ names: some Collection<String>) -> Value? {
        for name in names {
            if let index = columns.index(of: name), !hasNull(atIndex: index) {
                let value: Value = slowValue(at: index)
                return value
            }
        }
        return nil
    }

    // MARK: The slow paths of subscripts

    @usableFromInline
    func slowValue<Value: DatabaseValueConvertible>(at index: Int) -> Value {
        do {
            return try decode(Value.self, atIndex: index)
        } catch {
            ProgrammerError.trap("\(error)")
        }
    }

    @usableFromInline
    func missingValue<Value: DatabaseValueConvertible>(_ name: String) -> Value {
        guard let value = Value.fromMissingColumn() else {
            let names = columnNames.joined(separator: ", ")
            ProgrammerError.trap("row has no column named \(name): its columns are \(names)")
        }
        return value
    }
}
