import CipherDatabase

/// A foreign key between two tracked tables.
struct Reference: Hashable, Sendable {
    let child: Int64
    /// The columns of the child, in the order of the key that they refer to.
    let columns: [Int]
    let parent: Int64
    /// The columns of the parent.
    let parentColumns: [Int]
    /// Which unique key of the parent it refers to; ``rowID`` for its row id.
    let target: Int
    let onDelete: TableDefinition.ForeignKey.Action
    let comparison: KeyComparison

    static let rowID = -1

    /// Whether it refers to the primary key, so that values of the child name a row of the base.
    func isOfPrimaryKey(_ parent: TableDefinition) -> Bool { parentColumns == parent.keyColumns }
}

/// The foreign keys between tracked tables. One to a table that is not tracked is SQLite's alone.
struct References: Sendable {
    private(set) var ofChild: [Int64: [Reference]] = [:]
    private(set) var ofParent: [Int64: [Reference]] = [:]

    init(_ catalog: Catalog) {
        for table in catalog.tables.values {
            for key in table.local?.foreignKeys ?? [] {
                guard let parent = catalog.local(key.parent), let definition = parent.local,
                    let reference = Self.reference(of: table.n, key, to: parent.n, definition)
                else { continue }
                ofChild[table.n, default: []].append(reference)
                ofParent[parent.n, default: []].append(reference)
            }
        }
    }

    private static func reference(
        of child: Int64, _ key: TableDefinition.ForeignKey, to parent: Int64, _ definition: TableDefinition
    ) -> Reference? {
        let named =
            key.parentColumns.isEmpty ? definition.keyColumns : key.parentColumns.compactMap(definition.column(named:))
        guard named.count == key.columns.count else { return nil }
        func made(_ target: Int, _ order: [Int], _ collations: [String]) -> Reference? {
            let columns = order.compactMap { column in named.firstIndex(of: column).map { key.columns[$0] } }
            guard columns.count == order.count, order.count == named.count else { return nil }
            let parts = zip(order, collations).map {
                KeyComparison.Part(definition.columns[$0].affinity, collation: $1)
            }
            return Reference(
                child: child, columns: columns, parent: parent, parentColumns: order, target: target,
                onDelete: key.onDelete, comparison: KeyComparison(parts))
        }
        if definition.isRowID, named == definition.keyColumns {
            return made(Reference.rowID, definition.keyColumns, ["BINARY"])
        }
        for (target, unique) in definition.uniqueKeys.enumerated()
        where unique.isPlain && Set(unique.columns) == Set(named) {
            return made(target, unique.columns, unique.comparison.parts.map(\.collation))
        }
        return nil
    }
}
