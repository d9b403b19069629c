import CipherDatabase

/// A table of the program as the schema defines it.
struct TableDefinition: Sendable {
    struct Column: Hashable, Sendable {
        let name: String
        let affinity: TypeAffinity
        let isNotNull: Bool
        /// The value in a row if nobody wrote the column.
        let defaultValue: CellValue
    }

    /// Columns of which no two rows have equal values.
    struct UniqueKey: Hashable, Sendable {
        /// Empty if a part is an expression.
        let columns: [Int]
        let comparison: KeyComparison
        /// The parts in SQL.
        let terms: [String]
        /// Which rows have the key, in SQL; nil for all.
        let condition: String?

        /// Whether the key is one of columns of all rows, so that a foreign key may refer to it.
        var isPlain: Bool { condition == nil && !columns.isEmpty }
    }

    struct ForeignKey: Hashable, Sendable {
        enum Action: Sendable { case restrict, cascade, setNull, setDefault }

        let columns: [Int]
        let parent: String
        /// The columns of the other table; empty for its primary key.
        let parentColumns: [String]
        let onDelete: Action
    }

    let name: String
    /// Without generated columns.
    let columns: [Column]
    /// Each one after those that it is computed from.
    let generated: [GeneratedColumn]
    /// The columns of the primary key, in its order.
    let keyColumns: [Int]
    /// Whether the key is an integer that is the row id.
    let isRowID: Bool
    /// The primary key, unless it is the row id, and then the others, also over expressions and over a part of the rows.
    let uniqueKeys: [UniqueKey]
    let foreignKeys: [ForeignKey]
    /// The sets of columns that share a CHECK, with more than one column each.
    let checks: [Set<Int>]
    /// The full-text tables that follow the table.
    let followers: [FullTextFollower]

    var qualifiedName: String { "main." + name.quotedDatabaseIdentifier }
    func quoted(_ column: Int) -> String { columns[column].name.quotedDatabaseIdentifier }
    var columnList: String { columns.indices.map(quoted).joined(separator: ", ") }
    var keyComparison: KeyComparison { isRowID ? .rowID : uniqueKeys[0].comparison }

    /// The condition on the columns of the key, as the key compares, with a parameter for each in the key's order.
    func keyCondition(after count: Int = 0) -> String {
        zip(keyColumns, keyComparison.parts).enumerated().map { place, part in
            "\(quoted(part.0)) COLLATE \(part.1.collation.quotedDatabaseIdentifier) = ?\(count + place + 1)"
        }.joinedAsExpression(by: " AND ")
    }

    func column(named name: String) -> Int? {
        columns.firstIndex { $0.name.lowercased() == name.lowercased() }
    }

    func key(of row: [CellValue]) -> RowKey { RowKey(keyColumns.map { row[$0] }) }

    /// Whether the table would store a row under another key. Then it cannot show the row.
    func convertsKey(of row: [CellValue]) -> Bool {
        keyColumns.contains { columns[$0].affinity.converts(row[$0]) }
    }

    /// The full-text tables whose words may depend on columns.
    func followers(ofColumns columns: [Int]) -> [FullTextFollower] {
        let names = columns.map { self.columns[$0].name }
        return followers.filter { $0.follows(names) }
    }

    /// The columns, and all that share a CHECK with one of them.
    func checkGroup(of columns: Set<Int>) -> Set<Int> {
        checks.reduce(columns) { $1.isDisjoint(with: columns) ? $0 : $0.union($1) }
    }
}

extension TableDefinition {
    /// Reads the definition of a table.
    ///
    /// - Returns: nil if there is no such table of the program with a primary key.
    /// - Throws: `DatabaseError`.
    init?(named given: String, in db: Database) throws {
        let entry = try Row.fetchOne(
            db,
            sql: """
                SELECT l.name, l.strict, s.sql FROM pragma_table_list(?) AS l
                JOIN main.sqlite_schema AS s ON s.type = 'table' AND s.name = l.name
                WHERE l.schema = 'main' AND l.type = 'table'
                """,
            arguments: [given])
        guard let entry, !Database.isStoreInternalObject(given) else { return nil }
        name = entry[0]
        let isStrict: Bool = entry[1]
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT name, type, "notnull", pk, dflt_value FROM pragma_table_xinfo(?, 'main')
                WHERE hidden = 0 ORDER BY cid
                """,
            arguments: [name])
        let names = rows.map { $0[0] as String }
        columns = try rows.map { row in
            let type = (row[1] as String).uppercased()
            return Column(
                name: row[0], affinity: TypeAffinity(type: type, isStrict: isStrict), isNotNull: row[2],
                defaultValue: try Self.value(ofDefault: row[4], type: type, isStrict: isStrict, in: db))
        }
        generated = try GeneratedColumn.all(of: name, isStrict: isStrict, entry[2], in: db)
        let ordinals = rows.map { $0[3] as Int }
        keyColumns = rows.indices.filter { ordinals[$0] > 0 }.sorted { ordinals[$0] < ordinals[$1] }
        if keyColumns.isEmpty { return nil }
        let keys = try Self.uniqueKeys(of: name, names, in: db)
        uniqueKeys = keys.primary.map { [$0] + keys.others } ?? keys.others
        isRowID = keys.primary == nil
        foreignKeys = try Self.foreignKeys(of: name, names, in: db)
        checks = CheckScanner(entry[2]).groups(of: names).filter { $0.count > 1 }
        followers = try FullTextFollower.all(of: name, in: db)
    }

    /// The value that SQLite gives a column that is added: a text of a number keeps its digits, a name in double quotes is a text.
    private static func value(
        ofDefault sql: String?, type: String, isStrict: Bool, in db: Database
    ) throws -> CellValue {
        guard let sql, sql.uppercased() != "NULL" else { return .null }
        let added = try DatabaseQueue().write { db -> CellValue? in
            try db.execute(sql: "CREATE TABLE t (id INT) \(isStrict ? "STRICT" : ""); INSERT INTO t VALUES (1)")
            do {
                try db.execute(sql: "ALTER TABLE t ADD COLUMN added \(type) DEFAULT \(sql)")
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                return nil
            }
            return try db.makeStatement(sql: "SELECT added FROM t").first([]) { $0.value(0) }
        }
        return try added ?? db.makeStatement(sql: "SELECT (\(sql))").first([]) { $0.value(0) } ?? .null
    }

    private static func uniqueKeys(
        of name: String, _ columns: [String], in db: Database
    ) throws -> (primary: UniqueKey?, others: [UniqueKey]) {
        var (primary, others) = (UniqueKey?.none, [UniqueKey]())
        let indexes = try Row.fetchAll(
            db,
            sql: """
                SELECT l.name, l.origin, s.sql FROM pragma_index_list(?, 'main') AS l
                LEFT JOIN main.sqlite_schema AS s ON s.type = 'index' AND s.name = l.name
                WHERE l."unique" ORDER BY l.name
                """,
            arguments: [name])
        for index in indexes {
            let parts = try Row.fetchAll(
                db, sql: "SELECT name, coll FROM pragma_index_xinfo(?, 'main') WHERE key ORDER BY seqno",
                arguments: [index[0] as String])
            let places = parts.map { part in (part[0] as String?).flatMap { columns.firstIndex(of: $0) } }
            let scanned = (index[2] as String?).map(IndexScanner.init)
            var terms: [String] = []
            for (number, part) in parts.enumerated() {
                // A generated column has a name and no place.
                let name = (part[0] as String?)?.quotedDatabaseIdentifier
                if let term = name ?? scanned?.terms[number] { terms.append(term) }
            }
            guard terms.count == parts.count else { continue }
            let comparison = KeyComparison(parts.map { KeyComparison.Part(collation: $0[1] as String? ?? "BINARY") })
            let whole = places.compactMap { $0 }
            let key = UniqueKey(
                columns: whole.count == parts.count ? whole : [], comparison: comparison, terms: terms,
                condition: scanned?.condition)
            if index[1] as String == "pk" { primary = key } else { others.append(key) }
        }
        return (primary, others)
    }

    private static func foreignKeys(
        of name: String, _ columns: [String], in db: Database
    ) throws -> [ForeignKey] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, "table", "from", "to", on_delete FROM pragma_foreign_key_list(?, 'main') ORDER BY id, seq
                """,
            arguments: [name])
        let keys = Dictionary(grouping: rows) { $0[0] as Int }.compactMap { _, rows -> ForeignKey? in
            let own = rows.compactMap { row in columns.firstIndex { $0.lowercased() == (row[2] as String).lowercased() }
            }
            guard let first = rows.first, own.count == rows.count else { return nil }
            let others = rows.compactMap { $0[3] as String? }
            let action: ForeignKey.Action =
                switch (first[4] as String).uppercased() {
                case "CASCADE": .cascade
                case "SET NULL": .setNull
                case "SET DEFAULT": .setDefault
                default: .restrict
                }
            return ForeignKey(
                columns: own, parent: first[1], parentColumns: others.count == rows.count ? others : [],
                onDelete: action)
        }
        return keys.sorted { $0.columns.lexicographicallyPrecedes($1.columns) }
    }
}
