/// The tables and indexes of a schema, for those who read the facts of many tables: SQLite goes through all of them to
/// find one.
struct TableDirectory {
    struct Entry {
        /// As it was created.
        let name: String
        let kind: String
        let hasRowID: Bool
        let isStrict: Bool
    }

    /// By their names in lower case.
    fileprivate let entries: [String: Entry]
    /// The definitions of indexes by their names.
    fileprivate let indexes: [String: String]

    /// - Throws: ``DatabaseError``.
    init(_ db: Database, schema: String = "main") throws {
        let tables = try Row.fetchAll(
            db, sql: "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = ?", arguments: [schema])
        entries = Dictionary(
            tables.map { row in
                let name: String = row[0]
                return (
                    name.lowercasedASCII, Entry(name: name, kind: row[1], hasRowID: !(row[2] as Bool), isStrict: row[3])
                )
            }, uniquingKeysWith: { first, _ in first })
        let definitions = try Row.fetchAll(
            db, sql: "SELECT name, sql FROM \(schema).sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        indexes = Dictionary(definitions.map { ($0[0], $0[1]) }, uniquingKeysWith: { first, _ in first })
    }
}

extension TableFacts {
    /// Reads what the triggers of a table depend on.
    ///
    /// - Parameters:
    ///   - schema: The schema of the table: `main` or `temp`.
    ///   - directory: The tables and indexes of this schema, where they were read.
    /// - Returns: Nil where the schema has no such table.
    /// - Throws: ``HistoryError`` `.unsuitableTable` for a table that cannot be recorded; ``DatabaseError``.
    init?(of table: String, in db: Database, schema: String = "main", _ directory: TableDirectory? = nil) throws {
        guard let entry = try Self.entry(of: table, in: db, schema, directory) else { return nil }
        guard entry.kind == "table" else {
            throw HistoryError.unsuitable(table, because: "it is a \(entry.kind) table")
        }
        name = entry.name
        let rows = try Row.fetchAll(
            db,
            sql:
                #"SELECT name, "notnull", dflt_value, pk, hidden, type FROM pragma_table_xinfo(?, ?) ORDER BY cid"#,
            arguments: [entry.name, schema])
        columns = rows.map { row in
            let isNotNull: Bool = row[1]
            return Column(name: row[0], isGenerated: (row[4] as Int) > 1, replacement: isNotNull ? row[2] : nil)
        }
        let declared = rows.filter { ($0[3] as Int) > 0 }.sorted { ($0[3] as Int) < ($1[3] as Int) }
        let indexes = try Row.fetchAll(
            db, sql: #"SELECT name, origin FROM pragma_index_list(?, ?) WHERE "unique" ORDER BY name"#,
            arguments: [entry.name, schema])
        rowIDName = entry.hasRowID ? RowIDName.visible(beside: columns.map(\.name)).first : nil
        // The primary key has an index of its own unless it is the rowid; without rowid the table is that index.
        isRowID = entry.hasRowID && (declared.isEmpty || !indexes.contains { ($0[1] as String) == "pk" })
        if declared.isEmpty {
            guard let rowIDName else {
                throw HistoryError.unsuitable(
                    table, because: "it has no primary key, and its columns hide every name of the rowid",
                    instead: "Give it a primary key, or rename one of its columns rowid, oid and _rowid_.")
            }
            key = [rowIDName]
        } else {
            key = declared.map { $0[0] }
        }
        hasCascade =
            try Bool.fetchOne(
                db,
                sql: "SELECT EXISTS (SELECT 1 FROM pragma_foreign_key_list(?, ?) WHERE on_delete = 'CASCADE')",
                arguments: [entry.name, schema]) ?? false
        // A type with an affinity converts numbers and texts to one storage class, so that equal values are the same.
        let isKeyTyped = declared.allSatisfy { TypeAffinity(type: $0[5], isStrict: entry.isStrict) != .none }
        uniqueIndexes = try indexes.compactMap { row in
            let index = try Self.uniqueIndex(named: row[0], columns: columns, in: db, schema, directory)
            let isKey = (row[1] as String) == "pk"
            return isKey && isKeyTyped && index.items.allSatisfy { $0.collation == "BINARY" } ? nil : index
        }
    }

    private static func entry(
        of table: String, in db: Database, _ schema: String, _ directory: TableDirectory?
    ) throws -> TableDirectory.Entry? {
        if Database.isStoreInternalObject(table) || table.lowercasedASCII.hasPrefix("sqlite_") {
            throw HistoryError.unsuitable(table, because: "it is an internal table")
        }
        guard let entry = try directory.map({ $0.entries[table.lowercasedASCII] }) ?? read(table, in: db, schema) else {
            return nil
        }
        if entry.kind == "view" { throw HistoryError.unsuitable(table, because: "it is a view") }
        return entry
    }

    private static func read(_ table: String, in db: Database, _ schema: String) throws -> TableDirectory.Entry? {
        try Row.fetchOne(
            db, sql: "SELECT name, type, wr, strict FROM pragma_table_list(?) WHERE schema = ?",
            arguments: [table, schema]
        ).map { TableDirectory.Entry(name: $0[0], kind: $0[1], hasRowID: !($0[2] as Bool), isStrict: $0[3]) }
    }

    private static func uniqueIndex(
        named name: String, columns: [Column], in db: Database, _ schema: String, _ directory: TableDirectory?
    ) throws -> UniqueIndex {
        let items = try Row.fetchAll(
            db, sql: "SELECT cid, name, coll FROM pragma_index_xinfo(?, ?) WHERE key ORDER BY seqno",
            arguments: [name, schema])
        let sql =
            if let directory { directory.indexes[name] } else {
                try String.fetchOne(
                    db, sql: "SELECT sql FROM \(schema).sqlite_schema WHERE type = 'index' AND name = ?",
                    arguments: [name])
            }
        let text = sql.flatMap { try? IndexText($0) }
        var mentioned: [SQLToken] = text?.condition?.tokens ?? []
        let parts = try items.enumerated().map { index, row in
            let collation: String = row[2] ?? "BINARY"
            if let column = row[1] as String? {
                mentioned += SQLToken.tokens(of: column.quotedDatabaseIdentifier)
                return UniqueIndex.Item(sql: column.quotedDatabaseIdentifier, isColumn: true, collation: collation)
            }
            guard let text, text.items.count == items.count else {
                throw DatabaseError(message: "the definition of index \(name) is not understood")
            }
            mentioned += text.items[index].tokens
            return UniqueIndex.Item(sql: text.items[index].sql, isColumn: false, collation: collation)
        }
        let names = Set(mentioned.compactMap { $0.name?.lowercasedASCII })
        // A generated column changes when others do.
        let depends = columns.contains { $0.isGenerated && names.contains($0.name.lowercasedASCII) }
        let used = Set(columns.map(\.name).filter { names.contains($0.lowercasedASCII) })
        return UniqueIndex(
            items: parts, condition: text?.condition?.sql, columns: depends ? nil : used)
    }
}

/// The parts of a `CREATE INDEX` statement, as they are written.
private struct IndexText {
    struct Part {
        let tokens: [SQLToken]
        let sql: String
    }

    let items: [Part]
    let condition: Part?

    init(_ sql: String) throws {
        let bytes = Array(sql.utf8)
        var reader = DefinitionReader(sql)
        try reader.require("create")
        _ = reader.skip("unique")
        try reader.require("index")
        _ = reader.skip("if", "not", "exists")
        _ = try reader.takeQualifiedName()
        try reader.require("on")
        _ = try reader.takeName()
        func part(_ tokens: [SQLToken]) throws -> Part {
            guard let first = tokens.first, let last = tokens.last else { throw DefinitionReader.Unknown() }
            let text = String(decoding: bytes[first.bytes.lowerBound..<last.bytes.upperBound], as: UTF8.self)
            return Part(tokens: tokens, sql: text)
        }
        items = try reader.takeParentheses().splitAtCommas().map { item in
            var item = item
            if let last = item.last, last.isWord("asc") || last.isWord("desc") { item.removeLast() }
            return try part(item)
        }
        condition = reader.skip("where") ? try part(reader.takeRest()) : nil
    }
}

extension Database {
    /// Why the changes of a table cannot be recorded; nil if they can be.
    package func obstacleToHistory(of table: String) throws -> String? {
        do {
            _ = try TableFacts(of: table, in: self)
            return nil
        } catch let error as HistoryError {
            return error.message
        }
    }
}
