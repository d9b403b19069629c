import CipherDatabase
import Foundation

// The parts of a row that a record reads beside columns by name: columns as expressions of a request have them, and the
// records within the row, which are those of its scopes and those that were prefetched for it.

extension Row {
    // MARK: Columns

    // Values of a known type are disfavored where nothing says which: `row[column] == nil` compares the stored value.

    /// The value of a column. Traps when there is no such column, or the value does not fit; for an optional type a
    /// missing column and NULL are nil.
    @inlinable @_disfavoredOverload
    public subscript<Value: DatabaseValueConvertible & StatementColumnConvertible>(
        _ column: some ColumnExpression
    ) -> Value { self[column.name] }

    /// The value of a column. Traps when there is no such column, or the value does not fit; for an optional type a
    /// missing column and NULL are nil.
    @inlinable @_disfavoredOverload
    public subscript<Value: DatabaseValueConvertible>(_ column: some ColumnExpression) -> Value { self[column.name] }

    /// The stored value of a column as a Swift value; nil for NULL and for no such column.
    public subscript(_ column: some ColumnExpression) -> (any DatabaseValueConvertible)? { self[column.name] }

    /// Whether there is a column.
    public func hasColumn(_ column: some ColumnExpression) -> Bool { hasColumn(column.name) }

    /// The value of a column.
    ///
    /// - Throws: `RowDecodingError` for NULL, for values that do not fit, and where there is no such column.
    public func decode<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, forColumn column: some ColumnExpression
    ) throws -> Value {
        try decode(type, forColumn: column.name)
    }

    /// The value of a column; nil for NULL and where there is no such column.
    ///
    /// - Throws: `RowDecodingError` for values that do not fit.
    public func decodeIfPresent<Value: DatabaseValueConvertible>(
        _ type: Value.Type = Value.self, forColumn column: some ColumnExpression
    ) throws -> Value? {
        try decodeIfPresent(type, forColumn: column.name)
    }

    /// The first value that is not NULL among columns; columns that the row does not have count as NULL.
    /// Traps when that value does not fit.
    @_disfavoredOverload
    public func coalesce<Value: DatabaseValueConvertible>(_ columns: some Collection<any ColumnExpression>) -> Value? {
        coalesce(columns.map(\.name))
    }

    /// The first value that is not NULL among columns; columns that the row does not have count as NULL.
    /// Traps when that value does not fit.
    public func coalesce<Value: DatabaseValueConvertible>(_ columns: some Collection<some ColumnExpression>) -> Value? {
        coalesce(columns.map(\.name))
    }

    /// Calls `body` with the bytes of a column without copying them; nil for NULL and where there is no such column.
    ///
    /// The bytes are valid only inside `body`. Traps when the column holds a number.
    public func withUnsafeData<Result>(
        at column: some ColumnExpression, _ body: (Data?) throws -> Result
    ) rethrows -> Result {
        try withUnsafeData(named: column.name, body)
    }

    /// The bytes of a column without copying them; nil for NULL and where there is no such column.
    public func dataNoCopy(_ column: some ColumnExpression) -> Data? { dataNoCopy(named: column.name) }
}

extension Row {
    // MARK: Scopes

    /// The record of the nearest scope of a name. Traps when there is none, or its row does not fit:
    /// ``decode(_:forKey:)`` throws.
    public subscript<Record: FetchableRecord>(_ key: String) -> Record {
        trapping { try decode(Record.self, forKey: key) }
    }

    /// The record of the nearest scope of a name; nil when there is none, or all of its columns are NULL. Traps when its
    /// row does not fit: ``decodeIfPresent(_:forKey:)`` throws.
    public subscript<Record: FetchableRecord>(_ key: String) -> Record? {
        trapping { try decodeIfPresent(Record.self, forKey: key) }
    }

    /// The record of the nearest scope of a name.
    ///
    /// - Throws: `RowDecodingError` when there is no such scope, and what the record throws.
    public func decode<Record: FetchableRecord>(_ type: Record.Type = Record.self, forKey key: String) throws -> Record
    {
        guard let scope = scopesTree[key], scope.containsNonNullValue else {
            throw decodingError(column: key, at: nil, wanted: type, table: nil)
        }
        return try Record(row: scope)
    }

    /// The record of the nearest scope of a name; nil when there is none, or all of its columns are NULL.
    ///
    /// - Throws: What the record throws.
    public func decodeIfPresent<Record: FetchableRecord>(
        _ type: Record.Type = Record.self, forKey key: String
    ) throws -> Record? {
        guard let scope = scopesTree[key], scope.containsNonNullValue else { return nil }
        return try Record(row: scope)
    }

    // MARK: Prefetched rows

    /// The records of prefetched rows. Traps when there are none of this key: ``decode(_:forKey:)`` throws.
    @inlinable
    public subscript<Records: RangeReplaceableCollection>(_ key: String) -> Records
    where Records.Element: FetchableRecord {
        trapping { try decode(Records.self, forKey: key) }
    }

    /// The different records of prefetched rows. Traps when there are none of this key: ``decode(_:forKey:)`` throws.
    public subscript<Record: FetchableRecord & Hashable>(_ key: String) -> Set<Record> {
        trapping { try decode(Set<Record>.self, forKey: key) }
    }

    /// The records of prefetched rows.
    ///
    /// - Throws: `RowDecodingError` when no rows of this key were asked for, and what a record throws.
    @inlinable
    public func decode<Records: RangeReplaceableCollection>(
        _ type: Records.Type = Records.self, forKey key: String
    ) throws -> Records where Records.Element: FetchableRecord {
        var records = Records()
        // Only the loop is here, for the compiler to specialize it.
        try forEachPrefetchedRow(type, key, reserve: { records.reserveCapacity($0) }) { row in
            records.append(try Records.Element(row: row))
        }
        return records
    }

    /// The different records of prefetched rows.
    ///
    /// - Throws: `RowDecodingError` when no rows of this key were asked for, and what a record throws.
    public func decode<Record: FetchableRecord & Hashable>(
        _ type: Set<Record>.Type = Set<Record>.self, forKey key: String
    ) throws -> Set<Record> {
        var records = Set<Record>()
        try forEachPrefetchedRow(type, key, reserve: { records.reserveCapacity($0) }) { row in
            records.insert(try Record(row: row))
        }
        return records
    }

    @usableFromInline
    func forEachPrefetchedRow(
        _ type: Any.Type, _ key: String, reserve: (Int) -> Void, _ body: (Row) throws -> Void
    ) throws {
        guard let rows = prefetchedGroup(key) else {
            throw decodingError(column: key, at: nil, wanted: type, table: nil)
        }
        reserve(rows.count)
        try rows.forEachLentRow(body)
    }

    @usableFromInline
    func trapping<T>(_ body: () throws -> T) -> T {
        do {
            return try body()
        } catch {
            ProgrammerError.trap("\(error)")
        }
    }
}
