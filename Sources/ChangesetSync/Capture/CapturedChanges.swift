import CipherDatabase

/// The rows of tracked tables that a block of the program has touched. Inside the transaction of the commit.
struct CapturedChanges {
    let db: Database
    /// In the order of the tables.
    let touched: [Capture.Touched]

    /// The table, if the block touched one table only, at ascending integer keys that no row had before; otherwise nil.
    var insertions: Capture.Touched? {
        guard touched.count == 1, let only = touched.first, only.former.others.isEmpty, !only.hasNullKey else {
            return nil
        }
        return only
    }

    /// The table, if the block touched one table only and noted no such key; otherwise nil.
    var updates: Capture.Touched? {
        guard touched.count == 1, let only = touched.first, only.former.inserted.isEmpty, !only.hasNullKey else {
            return nil
        }
        return only
    }

    /// The changed rows, each once, as it was and as it is: in the order of tables and keys.
    ///
    /// - Throws: ``EngineError`` `.nullKey`, `.inexactText`
    func rows() throws -> [ProgramChange] {
        var changes = ChangedRows()
        let isUTF16 = try db.storesTextsInUTF16()
        for entry in touched {
            if entry.hasNullKey { try entry.definition.requireKeys(in: db) }
            let reader = PresentRows(entry.definition, db, isUTF16: isUTF16)
            for range in entry.former.inserted {
                try reader.forEach(in: range) { changes.append(nil, try reader.cells($0), of: entry.definition) }
            }
            try append(entry, reader, to: &changes)
        }
        return changes.rows
    }

    private func append(_ entry: Capture.Touched, _ reader: PresentRows, to changes: inout ChangedRows) throws {
        let table = entry.definition
        if entry.former.others.isEmpty { return }
        let byKey = try reader.byKey()
        var unexpected: Set<RowKey> = []
        for (key, old) in entry.former.others.sorted(by: { $0.key < $1.key }) {
            let present = try reader.row(like: key, byKey)
            let presentKey = present.map { table.key(of: Cells(valid: $0[...], count: table.columns.count).values) }
            let isSame = presentKey == key
            changes.append(old, isSame ? present : nil, of: table)
            // SQLite has converted the key when it stored the row; or the keys are the same to it, as 0.0 and -0.0 are.
            if let presentKey, !isSame, !entry.former.contains(presentKey), unexpected.insert(presentKey).inserted {
                changes.append(nil, present, of: table)
            }
        }
    }
}

private struct ChangedRows {
    private(set) var rows: [ProgramChange] = []

    mutating func append(_ old: [UInt8]?, _ new: [UInt8]?, of table: TableDefinition) {
        if let old, let new, ByteOrder.areEqual(old[...], new[...]) { return }
        if old == nil && new == nil { return }
        func values(_ row: [UInt8]) -> [CellValue] { Cells(valid: row[...], count: table.columns.count).values }
        rows.append(ProgramChange(table: table.name, old: old.map(values), new: new.map(values)))
    }
}

extension Capture {
    func changes(_ db: Database) -> CapturedChanges {
        let found = touched.values.filter { $0.hasNullKey || !$0.former.isEmpty }
        return CapturedChanges(db: db, touched: found.sorted { $0.table.n < $1.table.n })
    }
}

extension FormerRows {
    var isEmpty: Bool { inserted.isEmpty && others.isEmpty }
}

/// Reads rows of a table as their encoded cells. Inside a transaction.
struct PresentRows {
    private let table: TableDefinition
    private let db: Database
    private let isUTF16: Bool

    init(_ table: TableDefinition, _ db: Database, isUTF16: Bool) {
        (self.table, self.db, self.isUTF16) = (table, db, isUTF16)
    }

    /// A query for ``row(like:_:)``, which many keys share.
    func byKey() throws -> Statement {
        try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(table.keyCondition()) LIMIT 2")
    }

    /// The rows whose keys are integers of a range, ascending. Between them a key without a type may be 2.5, or equal to
    /// one of them, as 2.0 is.
    func forEach(in range: ClosedRange<Int64>, _ body: (LentRow) throws -> Void) throws {
        let key = table.quoted(table.keyColumns[0])
        let condition = "\(key) BETWEEN ? AND ?" + (table.isRowID ? "" : " AND typeof(\(key)) = 'integer'")
        let statement = try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(condition) ORDER BY \(key)")
        try statement.setExactArguments([.integer(range.lowerBound), .integer(range.upperBound)])
        try statement.forEachLentRow(body)
    }

    /// The row with a key. Its key may differ from the one asked for, where the collation holds both equal.
    func row(like key: RowKey, _ byKey: Statement) throws -> [UInt8]? {
        let values = key.values
        try byKey.setExactArguments(values.map(\.exact))
        var (found, isExact) = ([UInt8]?.none, false)
        try byKey.forEachLentRow { row in
            if isExact { return }
            let cells = try cells(row)
            isExact = table.key(of: Cells(valid: cells[...], count: table.columns.count).values) == key
            if isExact || found == nil { found = cells }
        }
        if found == nil, isUTF16, values.contains(where: \.isText) { try requireExactTexts() }
        return found
    }

    func cells(_ row: LentRow) throws -> [UInt8] {
        var bytes: [UInt8] = []
        for column in table.columns.indices { try append(row, column, to: &bytes) }
        return bytes
    }

    /// Appends the cell of a column.
    ///
    /// - Throws: ``EngineError`` `.inexactText`
    func append(_ row: LentRow, _ column: Int, to bytes: inout [UInt8]) throws {
        if isUTF16, !row.isExactInUTF8(column) { throw EngineError(.inexactText, table.name) }
        bytes.append(cell: row[column])
    }

    /// A key with a text that is no UTF-8 is not found by it.
    private func requireExactTexts() throws {
        try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)").forEachLentRow {
            _ = try cells($0)
        }
    }
}

extension TableDefinition {
    /// - Throws: ``EngineError`` `.nullKey`
    func requireKeys(in db: Database) throws {
        let condition = keyColumns.map { "\(quoted($0)) IS NULL" }.joinedAsExpression(by: " OR ")
        let found = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM \(qualifiedName) WHERE \(condition))")
        if found == true { throw EngineError(.nullKey, name) }
    }
}

extension CellValue {
    fileprivate var isText: Bool { if case .text = self { true } else { false } }
}
