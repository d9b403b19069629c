import KeyCustody
import PageFormat

extension RollbackTable {
    /// The generation in the row, read from the pages of a database without a connection to it; nil when there is no
    /// row of this store.
    package static func generation(of store: StoreID, in tables: TableReader) throws -> UInt64? {
        guard let root = try tables.first(inTree: TableReader.schemaRoot, root) else { return nil }
        return try tables.first(inTree: root) { row in
            guard row.number == 1, row.values.count >= 3, row.values[1] == .blob(store.bytes),
                case .integer(let generation) = row.values[2], generations.contains(generation)
            else { return nil }
            return UInt64(generation)
        }
    }

    /// The first page of the table, if a row of the schema describes it.
    private static func root(_ row: TableReader.Row) -> UInt32? {
        guard row.values.count >= 4, case .text(let type) = row.values[0], case .text(let table) = row.values[1],
            ascii(type) == "table", isNamed(ascii(table)), case .integer(let page) = row.values[3]
        else { return nil }
        return UInt32(exactly: page)
    }

    /// A text of ASCII characters in any encoding that SQLite supports.
    private static func ascii(_ text: [UInt8]) -> String { String(decoding: text.filter { $0 != 0 }, as: UTF8.self) }
}
