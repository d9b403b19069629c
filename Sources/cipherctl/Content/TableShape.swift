import CipherStore

/// What must be known of a table to go through all of its rows in a defined order.
struct TableShape {
    let name: String
    /// All columns, generated ones included, in their order.
    let columns: [String]
    /// The columns whose values are stored because somebody gave them.
    let givenColumns: [String]
    /// A name under which SQL can reach the row id; nil for tables that have none, or that hide all of its names.
    let rowIDName: String?
    private let order: [String]

    /// - Throws: `DatabaseError`.
    init(_ name: String, in db: Database) throws {
        self.name = name
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid", arguments: [name])
        let columns = rows.map { (name: $0[0] as String, keyPosition: $0[1] as Int, hidden: $0[2] as Int) }
        self.columns = columns.map(\.name)
        // 2 and 3 are generated columns: https://www.sqlite.org/pragma.html#pragma_table_xinfo
        givenColumns = columns.filter { $0.hidden == 0 }.map(\.name)
        rowIDName = Self.rowIDName(name, taken: Set(columns.map { $0.name.lowercased() }), db)
        let key = columns.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }.map(\.name)
        order = rowIDName.map { [$0] } ?? (key.isEmpty ? self.columns : key).map(\.quotedIdentifier)
    }

    private static func rowIDName(_ table: String, taken: Set<String>, _ db: Database) -> String? {
        // Tables WITHOUT ROWID refuse these names.
        ["_rowid_", "rowid", "oid"].first { name in
            !taken.contains(name)
                && (try? db.makeStatement(sql: "SELECT \(name) FROM main.\(table.quotedIdentifier)")) != nil
        }
    }

    /// All rows in the defined order, the row id first where there is one.
    func select(_ columns: [String]) -> String {
        let wanted = (rowIDName.map { [$0] } ?? []) + columns.map(\.quotedIdentifier)
        return "SELECT \(wanted.joined(separator: ", ")) FROM main.\(name.quotedIdentifier) "
            + "ORDER BY \(order.joined(separator: ", "))"
    }

    /// Takes what ``select(_:)`` of the given columns returns.
    var insert: String {
        let wanted = (rowIDName.map { [$0] } ?? []) + givenColumns.map(\.quotedIdentifier)
        let places = wanted.map { _ in "?" }.joined(separator: ", ")
        return "INSERT INTO main.\(name.quotedIdentifier) (\(wanted.joined(separator: ", "))) VALUES (\(places))"
    }
}

extension String {
    /// The name as SQL takes it whatever it holds.
    var quotedIdentifier: String { "\"" + replacing("\"", with: "\"\"") + "\"" }
}

/// One entry of a database's schema.
struct SchemaEntry {
    let type: String
    let name: String
    let table: String
    /// Whether it has pages of its own: tables and indexes do; views, triggers and virtual tables do not.
    let hasPages: Bool
    let sql: String?

    /// The whole schema, in the order in which it is stored, without what a store keeps there for itself.
    static func all(_ db: Database) throws -> [SchemaEntry] {
        try Row.fetchAll(
            db, sql: "SELECT type, name, tbl_name, ifnull(rootpage, 0), sql FROM main.sqlite_schema ORDER BY rowid"
        ).map { SchemaEntry(type: $0[0], name: $0[1], table: $0[2], hasPages: ($0[3] as Int) > 0, sql: $0[4]) }
            .filter { !CustodyTable.isNamed($0.table) }
    }

    /// Whether it is a table whose rows are stored in pages of the database: shadow tables too, virtual ones not.
    var isStoredTable: Bool { type == "table" && hasPages }

    /// Notes of the query planner, which ANALYZE makes anew; they are no content.
    var isStatistics: Bool { name.lowercased().hasPrefix("sqlite_stat") }
}
