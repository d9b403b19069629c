import CipherDatabase

/// Checks the foreign keys of rows that were written while SQLite did not enforce them. Inside the transaction.
struct ForeignKeyCheck {
    private let db: Database
    private let tables: TrackedTables
    private var rows: [(table: TrackedTable, old: DeltaRecord?, new: DeltaRecord?)] = []

    init(_ db: Database, _ tables: TrackedTables) {
        (self.db, self.tables) = (db, tables)
    }

    mutating func note(_ table: TrackedTable, _ old: DeltaRecord?, _ new: DeltaRecord?) {
        rows.append((table, old, new))
    }

    /// - Throws: ``SyncError`` `.foreignKeyViolation`
    func run() throws {
        guard db.isConfiguredForForeignKeys, tables.all.contains(where: { !$0.foreignKeys.isEmpty }) else { return }
        if rows.count > Limits.foreignKeyLookups { return try checkWholeTables() }
        for (table, old, new) in rows {
            let (oldCells, newCells) = (old?.cells, new?.cells)
            if let newCells { try checkParents(of: table, newCells, old: oldCells) }
            if let oldCells { try checkChildren(of: table, oldCells, new: newCells) }
        }
    }

    private func checkWholeTables() throws {
        for table in tables.all where !table.foreignKeys.isEmpty {
            if try db.foreignKeyViolations(in: table.name, in: "main").next() != nil { throw violation(table) }
        }
    }

    private func checkParents(of table: TrackedTable, _ cells: [ArraySlice<UInt8>], old: [ArraySlice<UInt8>]?) throws {
        for key in table.foreignKeys {
            let isSame = old.map { old in key.columns.allSatisfy { ByteOrder.areEqual(old[$0], cells[$0]) } }
            guard isSame != true, let values = Self.values(key.columns, cells) else { continue }
            guard try exists(in: key.parent, try parentColumns(of: key), values) else { throw violation(table) }
        }
    }

    private func checkChildren(of parent: TrackedTable, _ cells: [ArraySlice<UInt8>], new: [ArraySlice<UInt8>]?) throws
    {
        for child in tables.all {
            for key in child.foreignKeys where DeltaTable.areSame(key.parent, parent.name) {
                let names = try parentColumns(of: key)
                let columns = names.compactMap(parent.index(ofColumn:))
                guard columns.count == names.count, let values = Self.values(columns, cells) else { continue }
                if let new, columns.allSatisfy({ ByteOrder.areEqual(new[$0], cells[$0]) }) { continue }
                guard try exists(in: child.name, key.columns.map { child.table.columns[$0] }, values) else { continue }
                guard try exists(in: parent.name, names, values) else { throw violation(child) }
            }
        }
    }

    /// The values of some columns; nil where one is NULL, which refers to nothing.
    private static func values(_ columns: [Int], _ cells: [ArraySlice<UInt8>]) -> [ExactValue]? {
        if columns.contains(where: { cells[$0].first == Cell.null }) { return nil }
        return columns.compactMap { Cell.value(of: cells[$0]).exact }
    }

    private func parentColumns(of key: TrackedTable.ForeignKey) throws -> [String] {
        key.parentColumns.isEmpty ? try db.primaryKey(key.parent).columns : key.parentColumns
    }

    private func exists(in table: String, _ columns: [String], _ values: [ExactValue]) throws -> Bool {
        let condition = columns.map { "\($0.quotedDatabaseIdentifier) = ?" }.joined(separator: " AND ")
        let statement = try db.cachedStatement(
            sql: "SELECT 1 FROM main.\(table.quotedDatabaseIdentifier) WHERE \(condition) LIMIT 1")
        try statement.setExactArguments(values)
        return try !statement.records().isEmpty
    }

    private func violation(_ table: TrackedTable) -> SyncError { SyncError(.foreignKeyViolation, table: table.name) }
}
