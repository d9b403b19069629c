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

extension Cell {
    /// Appends a value that is still in SQLite's memory.
    static func append(_ value: LentValue, to bytes: inout [UInt8]) {
        switch value {
        case .null: bytes.append(null)
        case .integer(let value): append(integer: value, to: &bytes)
        case .real(let value): append(real: value, to: &bytes)
        case .text(let content): append(text: content, to: &bytes)
        case .blob(let content): append(blob: content, to: &bytes)
        }
    }
}

extension RecordWriter {
    /// Appends a value that is still in SQLite's memory.
    mutating func append(_ value: LentValue) { appendCell { Cell.append(value, to: &$0) } }
}

extension RowKey {
    /// The value of a key of one column, where it is an integer.
    var integer: Int64? {
        guard cells.count == Cell.numberBytes, cells.first == Cell.integer else { return nil }
        return cells.withUnsafeBytes { Int64(bigEndian: $0.loadUnaligned(fromByteOffset: 1, as: Int64.self)) }
    }

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

/// Reads the rows of keys in their order, as they are now. Inside a transaction.
///
/// Where the key is an integer that has no index, rows with consecutive keys are read by one statement: finding each of
/// them takes longer than reading it.
struct PresentRows {
    private let tracked: TrackedTable
    private let db: Database
    private let range: Statement?

    init(_ tracked: TrackedTable, in db: Database) throws {
        (self.tracked, self.db) = (tracked, db)
        range = try tracked.rowsOfKeys.map(db.cachedStatement)
    }

    /// - Parameter body: Called for each key in turn, with its place and the row as it is stored; nil where there is none.
    ///   The key of the row may differ from the one asked for: see ``RowLookup/row(like:)``.
    func forEach(_ keys: [RowKey], _ body: (Int, DeltaRecord?) throws -> Void) throws {
        var start = 0
        var lookup: RowLookup?
        while start < keys.count {
            var end = start + 1
            if let range, let first = keys[start].integer {
                // The sum overflows only after the greatest key, which the least one follows in their order.
                while end < keys.count, keys[end].integer == first &+ Int64(end - start),
                    first &+ Int64(end - start) > first
                {
                    end += 1
                }
                try read(start..<end, from: first, range, body)
            } else {
                let known = try lookup ?? RowLookup(tracked, in: db)
                lookup = known
                try body(start, known.row(like: keys[start]))
            }
            start = end
        }
    }

    /// Reads the rows with the keys from `first` on, one for each place.
    private func read(
        _ places: Range<Int>, from first: Int64, _ statement: Statement, _ body: (Int, DeltaRecord?) throws -> Void
    ) throws {
        let keyColumn = tracked.table.keyColumns[0]
        var next = places.lowerBound
        var batch = RecordBatch(columnCount: tracked.table.columns.count)
        func pass(_ place: Int, _ record: DeltaRecord) throws {
            while next < place {
                try body(next, nil)
                next += 1
            }
            try body(place, record)
            next = place + 1
        }
        try statement.setExactArguments([.integer(first), .integer(first + Int64(places.count - 1))])
        try statement.forEachLentRow { row in
            guard case .integer(let key) = row[keyColumn] else { return }
            batch.append(row, at: places.lowerBound + Int(key - first))
            if batch.isFull { try batch.empty(pass) }
        }
        try batch.empty(pass)
        while next < places.upperBound {
            try body(next, nil)
            next += 1
        }
    }
}

/// Rows whose records share their memory: an allocation for each takes longer than the row.
private struct RecordBatch {
    private static let fullBytes = 64 << 10

    let columnCount: Int
    private var bytes: [UInt8] = []
    private var rows: [(place: Int, end: Int)] = []

    init(columnCount: Int) { self.columnCount = columnCount }

    var isFull: Bool { bytes.count >= Self.fullBytes }

    mutating func append(_ row: LentRow, at place: Int) {
        for column in 0..<columnCount { Cell.append(row[column], to: &bytes) }
        rows.append((place, bytes.count))
    }

    /// Passes the records in their order, and begins another batch.
    mutating func empty(_ pass: (_ place: Int, DeltaRecord) throws -> Void) throws {
        var start = 0
        for (place, end) in rows {
            try pass(place, DeltaRecord(valid: bytes[start..<end], columnCount: columnCount))
            start = end
        }
        let byteCount = bytes.count
        bytes = []
        if byteCount >= Self.fullBytes { bytes.reserveCapacity(byteCount + byteCount / 8) }
        rows.removeAll(keepingCapacity: true)
    }
}

extension TrackedTable {
    /// The row with exactly this key.
    func row(_ key: RowKey, in db: Database) throws -> DeltaRecord? { try RowLookup(self, in: db).row(key) }

    /// The changes from other rows to those that the table has.
    func changes(from others: [RowKey: DeltaRecord], in db: Database) throws -> TableDelta {
        var (others, changes) = (others, [RowChange]())
        try db.makeStatement(sql: "SELECT \(columnList) FROM \(qualifiedName)").forEachRecord { row in
            let other = others.removeValue(forKey: table.key(of: row))
            if let change = try table.change(from: other, to: row) { changes.append(change) }
        }
        for row in others.values { changes.append(.delete(row)) }
        return try TableDelta(table: table, changes: changes)
    }
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
