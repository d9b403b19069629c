import CipherDatabase

/// A table, view, index or trigger of a database, as its schema table describes it.
struct SchemaObject: Hashable {
    /// `table`, `view`, `index` or `trigger`.
    let type: String
    let name: String
    let tableName: String
    /// The statement that created it; nil for indexes that SQLite created for a constraint.
    let sql: String?
    /// Whether it is a table in which a virtual table keeps its rows.
    let isShadow: Bool
    let isVirtual: Bool

    /// The objects of the main database that belong to its user: not SQLite's, the migrator's or the library's.
    ///
    /// - SeeAlso: <https://www.sqlite.org/schematab.html>
    static func ofUser(_ db: Database) throws -> [SchemaObject] {
        try all(db).filter { object in
            let name = object.name.lowercased()
            return !internalPrefixes.contains { name.hasPrefix($0) }
        }
    }

    /// The prefixes of the names of SQLite's, GRDB's and this library's own objects.
    private static let internalPrefixes = ["sqlite_", "grdb_", "cipherstore_"]

    private static func all(_ db: Database) throws -> [SchemaObject] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT object.type, object.name, object.tbl_name, object.sql,
                    ifnull(kind.type, '') = 'shadow', ifnull(kind.type, '') = 'virtual'
                FROM main.sqlite_schema object
                LEFT JOIN pragma_table_list kind
                    ON kind.schema = 'main' AND kind.name = object.name AND object.type = 'table'
                """
        ).map { row in
            SchemaObject(
                type: row[0], name: row[1], tableName: row[2], sql: row[3], isShadow: row[4], isVirtual: row[5])
        }
    }
}
