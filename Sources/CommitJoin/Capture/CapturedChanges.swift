import CipherDatabase

/// The rows of tracked tables that a block of the program has changed: each once, as it was and as it is.
struct CapturedChanges {
    /// In the order of tables and keys.
    private(set) var rows: [ProgramChange] = []

    fileprivate mutating func append(_ old: [UInt8]?, _ new: [UInt8]?, of table: TableDefinition) {
        if let old, let new, ByteOrder.areEqual(old[...], new[...]) { return }
        if old == nil && new == nil { return }
        func values(_ row: [UInt8]) -> [CellValue] { Cells(valid: row[...], count: table.columns.count).values }
        rows.append(ProgramChange(table: table.name, old: old.map(values), new: new.map(values)))
    }
}

extension Capture {
    /// Compares the rows that were touched with those that are there. Inside the transaction of the commit.
    ///
    /// - Throws: ``EngineError`` `.nullKey`, `.inexactText`
    func changes(_ db: Database) throws -> CapturedChanges {
        var changes = CapturedChanges()
        let isUTF16 = try db.storesTextsInUTF16()
        for entry in touched.values.sorted(by: { $0.table.n < $1.table.n }) {
            if entry.hasNullKey { try entry.definition.requireKeys(in: db) }
            if entry.former.isEmpty { continue }
            let reader = try PresentRows(entry.definition, db, isUTF16: isUTF16)
            for range in entry.former.inserted {
                try reader.forEach(in: range) { changes.append(nil, $0, of: entry.definition) }
            }
            try append(entry, reader, to: &changes)
        }
        return changes
    }

    private func append(_ entry: Touched, _ reader: PresentRows, to changes: inout CapturedChanges) throws {
        let table = entry.definition
        var unexpected: Set<RowKey> = []
        for (key, old) in entry.former.others.sorted(by: { $0.key < $1.key }) {
            let present = try reader.row(like: key)
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

extension FormerRows {
    var isEmpty: Bool { inserted.isEmpty && others.isEmpty }
}

/// Reads rows of a table as their encoded cells. Inside a transaction.
private struct PresentRows {
    private let table: TableDefinition
    private let db: Database
    private let isUTF16: Bool
    private let byKey: Statement

    init(_ table: TableDefinition, _ db: Database, isUTF16: Bool) throws {
        (self.table, self.db, self.isUTF16) = (table, db, isUTF16)
        byKey = try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(table.keyCondition()) LIMIT 2")
    }

    /// The rows with keys of a range, ascending.
    func forEach(in range: ClosedRange<Int64>, _ body: ([UInt8]) throws -> Void) throws {
        let key = table.quoted(table.keyColumns[0])
        let statement = try db.cachedStatement(
            sql: """
                SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(key) BETWEEN ? AND ? ORDER BY \(key)
                """)
        try statement.setExactArguments([.integer(range.lowerBound), .integer(range.upperBound)])
        try statement.forEachLentRow { try body(cells($0)) }
    }

    /// The row with a key. Its key may differ from the one asked for, where the collation holds both equal.
    func row(like key: RowKey) throws -> [UInt8]? {
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

    private func cells(_ row: LentRow) throws -> [UInt8] {
        var bytes: [UInt8] = []
        for column in table.columns.indices {
            if isUTF16, !row.isExactInUTF8(column) { throw EngineError(.inexactText, table.name) }
            bytes.append(cell: row[column])
        }
        return bytes
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
