import Foundation
import KeyCustody
import PageFormat

/// The table in which a store records the newest generation of its sidecar: one row with the store identifier and the
/// generation.
///
/// Only stores from which a key was removed have it. In others a former sidecar opens nothing that the present one does
/// not. The row contains the identifier of its store: copied into another store, it has no effect.
package enum RollbackTable {
    package static let name = "cipherstore_custody"
    /// No sidecar reaches the upper bound. Pages may contain any number here. A number that no sidecar could exceed
    /// would keep the store from ever being opened.
    static let generations = 1...Int64(1) << 50

    /// Whether a table is this one, which is not content of the store.
    package static func isNamed(_ table: String) -> Bool { table.lowercased() == name }

    /// The generation in the row; nil when there is no row of this store, or no valid generation.
    package static func generation(of store: StoreID, in db: Database) throws -> UInt64? {
        try db.tableExists(name, in: "main") ? rowOfExistingTable(of: store, in: db) : nil
    }

    static func rowOfExistingTable(of store: StoreID, in db: Database) throws -> UInt64? {
        try Int64.fetchOne(
            db,
            sql: """
                SELECT generation FROM main.\(name)
                WHERE id = 1 AND store = ? AND typeof(generation) = 'integer' AND generation BETWEEN ? AND ?
                """,
            arguments: [Data(store.bytes), generations.lowerBound, generations.upperBound]
        ).map { UInt64($0) }
    }

    /// Whether the row exists, names this store, and has no valid generation: pages that this library did not write.
    static func isRowInvalid(of store: StoreID, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT NOT (typeof(generation) = 'integer' AND generation BETWEEN ? AND ?) FROM main.\(name)
                WHERE id = 1 AND store = ?
                """,
            arguments: [generations.lowerBound, generations.upperBound, Data(store.bytes)]) ?? false
    }

    /// Records a generation unless the row has a higher one of this store; inside a transaction.
    package static func raise(to generation: UInt64, of store: StoreID, in db: Database) throws {
        let outer = db.mayChangeStoreTables
        db.mayChangeStoreTables = true
        defer { db.mayChangeStoreTables = outer }
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS main.\(name) (
                    id INTEGER PRIMARY KEY CHECK (id = 1), store BLOB NOT NULL, generation INTEGER NOT NULL)
                """)
        try db.execute(
            sql: """
                INSERT INTO main.\(name) (id, store, generation) VALUES (1, ?, ?)
                ON CONFLICT (id) DO UPDATE SET store = excluded.store, generation = excluded.generation
                WHERE store <> excluded.store OR generation < excluded.generation OR generation > ?
                    OR generation < 1 OR typeof(generation) <> 'integer'
                """,
            arguments: [
                Data(store.bytes), min(Int64(clamping: generation), generations.upperBound), generations.upperBound,
            ])
    }
}

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
