import Foundation
import KeyCustody

/// The table in which a store remembers how far its sidecar has come: one row, with the store and the generation.
///
/// Only stores from which a key was taken away have it; elsewhere a former sidecar opens nothing that the present one does
/// not. The row tells of one store by its identifier: copied into another one it says nothing.
package enum RollbackTable {
    package static let name = "cipherstore_custody"
    /// No sidecar comes so far. Whoever can write pages can write any number here; one that no sidecar could be above would
    /// keep the store from being opened for ever.
    package static let generations = 1...Int64(1) << 50

    /// Whether a table is this one, which is no content of the store.
    package static func isNamed(_ table: String) -> Bool { table.lowercased() == name }

    /// The generation that the row has; nil where there is none of this store, or no generation.
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

    /// Remembers a generation unless the row has a higher one of this store; inside a transaction.
    package static func raise(to generation: UInt64, of store: StoreID, in db: Database) throws {
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
                    OR typeof(generation) <> 'integer'
                """,
            arguments: [Data(store.bytes), Int64(clamping: generation), generations.upperBound])
    }
}
