import CipherDatabase

/// A column of the base. It may not be in the table of the program: not yet, or no longer.
struct BaseColumn: Hashable, Sendable {
    let n: Int64
    let id: ColumnID
    /// The place in the program's table.
    var place: Int?
    let isCounter: Bool
    /// The last commit of this store when the program had dropped the column; nil if it has not.
    var dropped: Int64?
    /// Whether the program has had the column.
    var wasHere = false
    /// A commit of a member that has dropped the column, or has made it again.
    var notice: DropNotice?
}

/// A table of the base. The program may not have it.
struct BaseTable: Sendable {
    let n: Int64
    /// The name in commits.
    let name: Name
    let deletionsWin: Bool
    /// The commit that has set ``deletionsWin``; nil if none has.
    let ruled: Int64?
    let local: TableDefinition?
    var columns: [Int64: BaseColumn]
    /// The columns of the base by their places in the program's table; nil for those of the key.
    let columnsOfPlaces: [BaseColumn?]
    /// The last commit of this store when the program had dropped the table, or had given it another key; nil if it has not.
    var dropped: Int64?
    /// A commit of a member that has dropped the table, or has made it again.
    var notice: DropNotice?
    /// The columns of other members that are of the key here. A row that has one was written under another key.
    var columnsOfKey: Set<Int64> = []

    /// Whether a row was written under a key of other columns than the program's table has.
    func hasOtherKey(_ row: BaseRow) -> Bool {
        !columnsOfKey.isEmpty && row.cells.keys.contains(where: columnsOfKey.contains)
    }

    var hasCounters: Bool { columns.values.contains(where: \.isCounter) }
}

/// The names of tables and columns by their numbers, and the tables of the program. Inside a transaction.
final class Catalog {
    private let db: Database
    private let definitions: DefinitionCache
    private var content = CatalogContent()
    /// Whether tables or columns differ from those that another transaction has read.
    private(set) var isChanged = false
    /// The version of the program's schema that was read.
    private var schema: Int32?

    var tables: [Int64: BaseTable] { content.tables }
    /// References of tables that are not tracked, by the number of the parent.
    var untrackedReferences: [Int64: [UntrackedReference]] { content.untracked }

    /// - Parameter version: The version of the tables of the engine that the catalog reads.
    init(_ db: Database, _ definitions: DefinitionCache, version: Int64) throws {
        (self.db, self.definitions) = (db, definitions)
        if let known = try definitions.catalog(db, version: version) {
            content = known
        } else {
            try read()
        }
        schema = definitions.schema
        isChanged = false
    }

    /// Keeps the content for the next transaction. A transaction that fails has to forget it (``DefinitionCache/forget()``).
    func keep(version: Int64) { definitions.keep(content, version: version, of: schema) }

    /// Reads the tables again, after the program has changed its schema.
    func read() throws {
        isChanged = true
        let shapes = (content.shapes, content.columnsOfShapes)
        content = CatalogContent()
        (content.shapes, content.columnsOfShapes) = shapes
        var rows: [StoredTable] = []
        try db.cachedStatement(
            sql: "SELECT n, name, local, deletions_win, ruled, dropped, noticed, gone FROM \(EngineTables.table)"
        ).forEach([]) {
            rows.append(
                StoredTable(
                    n: $0.integer(0), name: $0.text(1), local: $0.optionalText(2), deletionsWin: $0.integer(3) != 0,
                    ruled: $0.optionalInteger(4), dropped: $0.optionalInteger(5), notice: Self.notice($0, at: 6)))
        }
        for row in rows { try add(row) }
        content.untracked = try UntrackedReference.all(db, content.tables)
        schema = definitions.schema
    }

    private struct StoredTable {
        let n: Int64
        let name: String
        let local: String?
        let deletionsWin: Bool
        let ruled: Int64?
        let dropped: Int64?
        let notice: DropNotice?
    }

    private static func notice(_ row: EngineRow, at column: Int) -> DropNotice? {
        row.optionalInteger(column).map { DropNotice(commit: $0, isDropped: row.integer(column + 1) != 0) }
    }

    private func add(_ table: StoredTable) throws {
        let (n, name) = (table.n, table.name)
        let definition = try table.local.flatMap { try definitions.definition(of: $0, db) }
        var columns: [Int64: BaseColumn] = [:]
        let sql =
            "SELECT n, name, reuse, local, counter, dropped, noticed, gone FROM \(EngineTables.column) WHERE tbl = ?"
        try db.cachedStatement(sql: sql)
            .forEach([.integer(n)]) { row in
                var place = row.optionalText(3).flatMap { definition?.column(named: $0) }
                if let known = place, definition?.keyColumns.contains(known) == true { place = nil }
                columns[row.integer(0)] = BaseColumn(
                    n: row.integer(0), id: ColumnID(Name(row.text(1)), reuse: UInt32(row.integer(2))), place: place,
                    isCounter: row.integer(4) != 0, dropped: row.optionalInteger(5), wasHere: !row.isNull(3),
                    notice: Self.notice(row, at: 6))
            }
        var places = [BaseColumn?](repeating: nil, count: definition?.columns.count ?? 0)
        for column in columns.values { if let place = column.place { places[place] = column } }
        content.tables[n] = BaseTable(
            n: n, name: Name(name), deletionsWin: table.deletionsWin, ruled: table.ruled, local: definition,
            columns: columns, columnsOfPlaces: places, dropped: table.dropped, notice: table.notice,
            columnsOfKey: Self.columnsOfKey(definition, columns))
        content.numbers[Name(name)] = n
        if let definition { content.locals[definition.name.lowercased()] = n }
        content.columnNumbers[n] = Dictionary(uniqueKeysWithValues: columns.values.map { ($0.id, $0.n) })
    }

    private static func columnsOfKey(_ table: TableDefinition?, _ columns: [Int64: BaseColumn]) -> Set<Int64> {
        guard let table else { return [] }
        let names = Set(table.keyColumns.map { table.columns[$0].name.lowercased() })
        return Set(columns.values.filter { $0.place == nil && names.contains($0.id.name.text.lowercased()) }.map(\.n))
    }

    func table(_ n: Int64) throws -> BaseTable {
        guard let table = content.tables[n] else { throw EngineError(.damagedStore) }
        return table
    }

    /// The table of the program with this name.
    func local(_ name: String) -> BaseTable? { content.locals[name.lowercased()].flatMap { content.tables[$0] } }

    /// The table with a name in commits, which becomes known here.
    func number(of name: Name) throws -> Int64 {
        if let known = content.numbers[name] { return known }
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.table) (name) VALUES (?)")
            .execute(exact: [ExactValue(text: name.text)])
        let n = db.lastInsertedRowID
        isChanged = true
        content.numbers[name] = n
        content.columnNumbers[n] = [:]
        content.tables[n] = BaseTable(
            n: n, name: name, deletionsWin: false, ruled: nil, local: nil, columns: [:], columnsOfPlaces: [])
        return n
    }

    /// The column with an identity, which becomes known here.
    func column(_ id: ColumnID, of table: Int64) throws -> Int64 {
        if let known = content.columnNumbers[table]?[id] { return known }
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.column) (tbl, name, reuse) VALUES (?, ?, ?)")
            .execute(exact: [.integer(table), ExactValue(text: id.name.text), .integer(Int64(id.reuse))])
        let n = db.lastInsertedRowID
        isChanged = true
        content.columnNumbers[table, default: [:]][id] = n
        content.tables[table]?.columns[n] = BaseColumn(n: n, id: id, isCounter: false)
        if let known = content.tables[table] {
            content.tables[table]?.columnsOfKey = Self.columnsOfKey(known.local, known.columns)
        }
        return n
    }

    /// Adopts the policy of a table. Counters stay counters; of two settings the one with the greater stamp counts.
    ///
    /// - Parameter n: The commit that has set whether deletions win; nil if none has.
    func apply(_ policy: TablePolicy, of n: Int64?, _ index: CommitIndex) throws {
        let number = try number(of: policy.table)
        if let n, try table(number).ruled.map({ try index.isEarlier($0, than: n) }) ?? true {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.table) SET deletions_win = ?, ruled = ? WHERE n = ?")
                .execute(exact: [.integer(policy.deletionsWin ? 1 : 0), .integer(n), .integer(number)])
        }
        for id in policy.counters {
            let column = try column(id, of: number)
            try db.cachedStatement(sql: "UPDATE \(EngineTables.column) SET counter = 1 WHERE n = ?")
                .execute(exact: [.integer(column)])
        }
        try read()
    }

    // MARK: Retries

    /// The rows that the next opening of the repository shows again.
    enum Retry: Int64 {
        /// Rows aside.
        case hiddenRows = 2
        /// Deleted rows that the program's table still has.
        case deletedRows = 4
    }

    func noteRetry(_ retry: Retry, of table: Int64) throws {
        try db.cachedStatement(
            sql: "UPDATE \(EngineTables.table) SET adopting = adopting | ?1 WHERE n = ?2 AND NOT adopting & ?1"
        )
        .execute(exact: [.integer(retry.rawValue), .integer(table)])
    }

    // MARK: Shapes

    /// The number of a set of columns.
    func shape(_ columns: [Int64]) throws -> Int64 {
        if let known = content.shapes[columns] { return known }
        var writer = LocalWriter()
        writer.append(columns)
        let bytes = ExactValue(writer.bytes)
        let found = try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.shape) WHERE columns = ?")
            .first([bytes]) { $0.integer(0) }
        if found == nil {
            try db.cachedStatement(sql: "INSERT INTO \(EngineTables.shape) (columns) VALUES (?)").execute(exact: [bytes]
            )
        }
        let n = found ?? db.lastInsertedRowID
        content.shapes[columns] = n
        content.columnsOfShapes[n] = columns
        return n
    }

    func columns(ofShape n: Int64) throws -> [Int64] {
        if let known = content.columnsOfShapes[n] { return known }
        let found = try db.cachedStatement(sql: "SELECT columns FROM \(EngineTables.shape) WHERE n = ?")
            .first([.integer(n)]) { row in
                var reader = LocalReader(row.bytes(0)[...])
                return try reader.numbers()
            }
        guard let found else { throw EngineError(.damagedStore) }
        content.columnsOfShapes[n] = found
        return found
    }
}

/// The tables, columns and shapes that a ``Catalog`` has read.
struct CatalogContent {
    var tables: [Int64: BaseTable] = [:]
    var numbers: [Name: Int64] = [:]
    var locals: [String: Int64] = [:]
    var columnNumbers: [Int64: [ColumnID: Int64]] = [:]
    var shapes: [[Int64]: Int64] = [:]
    var columnsOfShapes: [Int64: [Int64]] = [:]
    /// References of tables that are not tracked, by the number of the parent.
    var untracked: [Int64: [UntrackedReference]] = [:]
}

/// The definitions of the program's tables and what the catalog makes of them, as long as the schema stays. One for each
/// connection.
final class DefinitionCache {
    /// The version of the program's schema.
    private(set) var schema: Int32?
    private var definitions: [String: TableDefinition?] = [:]
    private var catalog: (version: Int64, content: CatalogContent)?

    init() {}

    /// The catalog of the last transaction, if the schema and the tables of the engine are the same.
    func catalog(_ db: Database, version: Int64) throws -> CatalogContent? {
        try examineSchema(db)
        return catalog?.version == version ? catalog?.content : nil
    }

    /// Keeps a catalog, unless the program has changed its schema since it was read.
    func keep(_ content: CatalogContent, version: Int64, of schema: Int32?) {
        catalog = schema == self.schema ? (version, content) : nil
    }

    /// A transaction has failed: rows that it inserted are not there.
    func forget() { (schema, catalog) = (nil, nil) }

    private func examineSchema(_ db: Database) throws {
        let version = try db.schemaVersion()
        if schema != version { (schema, definitions, catalog) = (version, [:], nil) }
    }

    func definition(of name: String, _ db: Database) throws -> TableDefinition? {
        try examineSchema(db)
        if let known = definitions[name] { return known }
        let definition = try TableDefinition(named: name, in: db)
        definitions[name] = definition
        return definition
    }
}
