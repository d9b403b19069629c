import CipherDatabase

/// The keys that the base has, by the names of tables and by keys. Inside a transaction.
struct BaseKeys {
    let db: Database
    let catalog: Catalog
    let stored: StoredRows

    /// The next keys.
    ///
    /// - Parameter last: The key before them; nil from the beginning.
    func next(after last: (table: Name, key: RowKey)?, limit: Int) throws -> [RowPlace] {
        var places: [RowPlace] = []
        for table in catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            if let last, table.name < last.table { continue }
            let after = last.flatMap { $0.table == table.name ? $0.key : nil }
            places += try keys(of: table, after: after, limit: limit - places.count).map {
                RowPlace(table: table.n, key: $0)
            }
            if places.count >= limit { break }
        }
        return places
    }

    private func keys(of table: BaseTable, after key: RowKey?, limit: Int) throws -> [RowKey] {
        var keys: Set<RowKey> = []
        if table.local != nil { keys.formUnion(try stored.plainRows(table).keys(after: key, limit: limit)) }
        for name in [EngineTables.aside, EngineTables.dead] {
            try db.cachedStatement(
                sql: "SELECT DISTINCT key FROM \(name) WHERE tbl = ? AND key > ? ORDER BY key LIMIT ?"
            ).forEach([.integer(table.n), ExactValue(key?.stored ?? []), .integer(Int64(limit))]) {
                keys.insert(RowKey(stored: $0.bytes(0)))
            }
        }
        return Array(keys.sorted().prefix(limit))
    }
}
