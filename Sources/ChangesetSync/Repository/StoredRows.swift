import CipherDatabase

extension DeltaValue {
    /// The value for a statement; nil where nothing is said of the column.
    var exact: ExactValue? {
        switch self {
        case .undefined: nil
        case .null: .null
        case .integer(let value): .integer(value)
        case .real(let value): .real(value)
        case .text(let bytes): .text(bytes)
        case .blob(let bytes): .blob(bytes)
        }
    }
}

extension RecordWriter {
    /// Appends a value that is still in SQLite's memory.
    mutating func append(_ value: LentValue) {
        switch value {
        case .null: append(DeltaValue.null)
        case .integer(let value): append(integer: value)
        case .real(let value): append(real: value)
        case .text(let bytes): append(text: bytes)
        case .blob(let bytes): append(blob: bytes)
        }
    }
}

extension RowKey {
    /// The values for a statement, in the order of the table's columns.
    var exactValues: [ExactValue] { values.compactMap(\.exact) }
}

extension Statement {
    /// The rows of the statement, each as a record of all its columns.
    func records() throws -> [DeltaRecord] {
        var records: [DeltaRecord] = []
        try forEachRecord { records.append($0) }
        return records
    }

    func forEachRecord(_ body: (DeltaRecord) throws -> Void) throws {
        let count = columnCount
        var writer = RecordWriter()
        try forEachLentRow { row in
            for column in 0..<count { writer.append(row[column]) }
            try body(writer.finish())
        }
    }
}

/// Reads rows of a table by their keys. Inside a transaction.
struct RowLookup {
    private let table: DeltaTable
    private let statement: Statement

    init(_ tracked: TrackedTable, in db: Database) throws {
        table = tracked.table
        statement = try db.cachedStatement(
            sql: "SELECT \(tracked.columnList) FROM \(tracked.qualifiedName) WHERE \(tracked.keyCondition()) LIMIT 2")
    }

    /// The row with exactly this key.
    func row(_ key: RowKey) throws -> DeltaRecord? {
        guard let row = try row(like: key), table.key(of: row) == key else { return nil }
        return row
    }

    /// The row with a key, as it is stored; nil where there is none. Its key may differ from the one asked for, where the
    /// collation holds both equal.
    func row(like key: RowKey) throws -> DeltaRecord? {
        try statement.setExactArguments(key.exactValues)
        var found: DeltaRecord?
        var isExact = false
        try statement.forEachRecord { record in
            if isExact { return }
            isExact = table.key(of: record) == key
            if isExact || found == nil { found = record }
        }
        return found
    }
}

extension TrackedTable {
    /// The row with exactly this key.
    func row(_ key: RowKey, in db: Database) throws -> DeltaRecord? { try RowLookup(self, in: db).row(key) }
}

extension Row {
    /// A column of one of the library's own tables, which a damaged store may have with any content.
    ///
    /// - Throws: ``SyncError`` `.damagedRepository`
    func stored<Value: DatabaseValueConvertible>(_ index: Int, as type: Value.Type = Value.self) throws -> Value {
        let value: DatabaseValue = self[index]
        guard !value.isNull, let result = Value.fromDatabaseValue(value) else {
            throw CommitStore.damaged("A column of its tables has no valid content.")
        }
        return result
    }

    /// The same for a column that may be NULL.
    func storedOrNil<Value: DatabaseValueConvertible>(_ index: Int, as type: Value.Type = Value.self) throws -> Value? {
        let value: DatabaseValue = self[index]
        return value.isNull ? nil : try stored(index)
    }
}
