import CipherDatabase

/// The change of one row of a tracked table by a pull.
public struct SyncRowChange: Hashable, Sendable {
    public enum Kind: String, Sendable {
        case inserted
        case updated
        case deleted
    }

    /// The table, as the program calls it.
    public let table: String
    public let kind: Kind
    /// The values of the key, by column.
    public let key: [String: DatabaseValue]
    /// The former values: of a deletion all, of an update those that changed.
    public let old: [String: DatabaseValue]
    /// The new values: of an insertion all, of an update those that changed.
    public let new: [String: DatabaseValue]
}

extension SyncRowChange {
    /// - Returns: nil if nothing has changed.
    init?(_ table: TableDefinition, _ old: [CellValue]?, _ new: [CellValue]?) {
        guard let row = new ?? old else { return nil }
        func values(_ row: [CellValue]?, _ columns: some Sequence<Int>) -> [String: DatabaseValue] {
            guard let row else { return [:] }
            return Dictionary(
                columns.map { (table.columns[$0].name, row[$0].databaseValue) }, uniquingKeysWith: { $1 })
        }
        var columns = Array(table.columns.indices)
        if let old, let new { columns.removeAll { old[$0] == new[$0] } }
        if columns.isEmpty { return nil }
        self.table = table.name
        kind = old == nil ? .inserted : new == nil ? .deleted : .updated
        key = values(row, table.keyColumns)
        (self.old, self.new) = (values(old, columns), values(new, columns))
    }
}
