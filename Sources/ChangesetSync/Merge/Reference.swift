import CipherDatabase

/// A foreign key from one tracked table to another. What it compares, and how, depends on the tables alone, and not on
/// whether a connection enforces foreign keys.
struct Reference {
    let child: TrackedTable
    let key: TrackedTable.ForeignKey
    let parent: TrackedTable
    let parentColumns: [Int]
    /// As the columns of the parent's key compare.
    let comparison: KeyComparison

    /// - Returns: nil where the other table is not tracked, or has no such columns.
    init?(_ child: TrackedTable, _ key: TrackedTable.ForeignKey, _ tables: TrackedTables, in db: Database) throws {
        guard let parent = tables[key.parent], let columns = Self.columns(key, parent) else { return nil }
        (self.child, self.key, self.parent, parentColumns) = (child, key, parent, columns)
        let collations = Self.collations(of: columns, parent)
        comparison = KeyComparison(
            columns.enumerated().map { index, column in
                KeyComparison.Part(parent.columns[column].affinity, collation: collations[index])
            })
    }

    private static func columns(_ key: TrackedTable.ForeignKey, _ parent: TrackedTable) -> [Int]? {
        if key.parentColumns.isEmpty {
            let columns = parent.table.columns.indices.filter { parent.table.keyOrdinals[$0] != 0 }
                .sorted { parent.table.keyOrdinals[$0] < parent.table.keyOrdinals[$1] }
            return columns.count == key.columns.count ? columns : nil
        }
        let columns = key.parentColumns.compactMap(parent.index(ofColumn:))
        return columns.count == key.columns.count ? columns : nil
    }

    /// The collations of the columns, by the unique index over them that SQLite demands. Without one it refuses the key.
    private static func collations(of columns: [Int], _ parent: TrackedTable) -> [String] {
        let keys =
            [parent.primaryKey].compactMap { $0 } + parent.uniqueKeys.filter { $0.sql == nil } + parent.uniqueKeys
        let found = keys.first { $0.columns.map(Set.init) == Set(columns) }
        return columns.map { column in found?.parts.first { $0.column == column }?.collation ?? "BINARY" }
    }

    /// Those of all tables, in the order of the tables.
    static func all(_ tables: TrackedTables, in db: Database) throws -> [Reference] {
        try tables.all.flatMap { child in
            try child.foreignKeys.compactMap { try Reference(child, $0, tables, in: db) }
        }
    }

    /// Whether a row that another one refers to cannot be deleted.
    var forbidsDeletion: Bool { key.onDelete == "RESTRICT" || key.onDelete == "NO ACTION" }
}
