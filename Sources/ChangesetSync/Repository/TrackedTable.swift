import CipherDatabase
import StoreCrypto

/// A tracked table as the schema defines it now.
struct TrackedTable: Sendable {
    struct Column: Hashable, Sendable {
        let name: String
        let type: String
        let affinity: TypeAffinity
        let isNotNull: Bool
        /// What a row has there that was inserted before the column was added.
        let defaultCell: [UInt8]
    }

    /// A key that allows no two equal rows, other than the primary key.
    struct UniqueKey: Hashable, Sendable {
        struct Part: Hashable, Sendable {
            /// The number of the column; nil for an expression.
            let column: Int?
            let collation: String
        }

        let parts: [Part]
        let isPartial: Bool
        /// The statement that created it; nil for a constraint of the table.
        let sql: String?

        /// The columns, where it is over columns and over all rows.
        var columns: [Int]? {
            let columns = parts.compactMap(\.column)
            return isPartial || columns.count != parts.count ? nil : columns
        }
    }

    /// A part of the primary key's index. A column may be in several, and has its own collation there.
    fileprivate struct KeyPart: Sendable {
        let column: Int
        let collation: String
    }

    struct ForeignKey: Hashable, Sendable {
        let columns: [Int]
        let parent: String
        /// The columns of the other table; empty for its primary key.
        let parentColumns: [String]
        let onDelete: String
        let onUpdate: String
    }

    /// Name, columns and key, without generated columns.
    let table: DeltaTable
    let columns: [Column]
    let uniqueKeys: [UniqueKey]
    let foreignKeys: [ForeignKey]

    /// The name in quotes, with its schema.
    let qualifiedName: String
    /// All columns, in quotes and separated by commas.
    let columnList: String
    /// Selects the rows from one key to another, where the key is an integer that is the rowid.
    let rowsOfKeys: String?
    fileprivate let keyParts: [KeyPart]

    var name: String { table.name }

    /// The primary key as a key that allows no two equal rows; nil where it is an integer that is the rowid.
    var primaryKey: UniqueKey? {
        if rowsOfKeys != nil { return nil }
        let parts = keyParts.map { UniqueKey.Part(column: $0.column, collation: $0.collation) }
        return UniqueKey(parts: parts, isPartial: false, sql: nil)
    }

    func quoted(_ column: Int) -> String { table.columns[column].quotedDatabaseIdentifier }

    /// The condition on the key's columns, with a parameter for each in the order of the columns.
    ///
    /// It compares as the primary key does, which admits one such row; by the collation of a column there may be more.
    ///
    /// - Parameter count: How many parameters come before.
    func keyCondition(after count: Int = 0) -> String {
        keyCondition("") { column in table.keyColumns.firstIndex(of: column).map { "?\(count + $0 + 1)" } ?? "NULL" }
    }

    /// Whether the primary key holds two rows equal, whose keys may differ in bytes.
    func keyEquals(_ left: String, _ right: String) -> String {
        keyCondition("\(left).") { "\(right).\(quoted($0))" }
    }

    private func keyCondition(_ row: String, _ value: (Int) -> String) -> String {
        keyParts.map { part in
            let collation = part.collation.quotedDatabaseIdentifier
            return "\(row)\(quoted(part.column)) COLLATE \(collation) = \(value(part.column))"
        }.joinedAsExpression(by: " AND ")
    }

    func index(ofColumn name: String) -> Int? { table.columns.firstIndex { DeltaTable.areSame($0, name) } }
}

extension TrackedTable {
    /// Reads the definition of a table.
    ///
    /// - Parameter isTracked: Whether the repository tracks it already, so that it must be there.
    /// - Throws: ``SyncError`` `.unsuitableTable`, `.noPrimaryKey`; `.tableMissing` where it is tracked and gone;
    ///   `DatabaseError`.
    init(named given: String, in db: Database, isTracked: Bool = false) throws {
        guard !Database.isStoreInternalObject(given), !Database.isSQLiteInternalTable(given.lowercased()),
            let entry = try Row.fetchOne(
                db, sql: "SELECT name, type, strict FROM pragma_table_list(?) WHERE schema = 'main'", arguments: [given]
            )
        else {
            if isTracked { throw SyncError(.tableMissing, table: given) }
            throw SyncError(.unsuitableTable, table: given, "No table of the program has this name.")
        }
        let (name, kind, isStrict): (String, String, Bool) = (entry[0], entry[1], entry[2])
        guard kind == "table" else {
            throw SyncError(.unsuitableTable, table: name, "It is a \(kind == "view" ? "view" : kind + " table").")
        }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT name, type, "notnull", pk, dflt_value FROM pragma_table_xinfo(?, 'main') WHERE hidden = 0 ORDER BY cid
                """,
            arguments: [name])
        columns = try rows.map { row in
            let type = (row[1] as String).uppercased()
            let affinity = TypeAffinity(type: type, isStrict: isStrict)
            return Column(
                name: row[0], type: type, affinity: affinity, isNotNull: row[2],
                defaultCell: try Self.cell(ofDefault: row[4], type: type, isStrict: isStrict, in: db))
        }
        let ordinals = rows.map { UInt8(clamping: $0[3] as Int) }
        let keyCount = ordinals.count { $0 > 0 }
        if keyCount == 0 { throw SyncError(.noPrimaryKey, table: name) }
        guard keyCount <= Limits.keyColumns else {
            throw SyncError(
                .unsuitableTable, table: name,
                "Its primary key has \(keyCount) columns, and a commit has room for \(Limits.keyColumns).")
        }
        do {
            table = try DeltaTable(name: name, columns: columns.map(\.name), keyOrdinals: ordinals)
        } catch {
            throw SyncError(.unsuitableTable, table: name, "\(error)")
        }
        qualifiedName = "main." + name.quotedDatabaseIdentifier
        let quoted = table.columns.map(\.quotedDatabaseIdentifier)
        columnList = quoted.joined(separator: ", ")
        let indexed = try Self.keyParts(of: table, in: db)
        rowsOfKeys =
            indexed.isEmpty && table.keyColumns.count == 1
            ? Self.rowsOfKeys(columnList, of: qualifiedName, quoted[table.keyColumns[0]]) : nil
        keyParts = indexed.isEmpty ? table.keyColumns.map { KeyPart(column: $0, collation: "BINARY") } : indexed
        uniqueKeys = try Self.uniqueKeys(of: name, columns.map(\.name), in: db)
        foreignKeys = try Self.foreignKeys(of: name, columns.map(\.name), in: db)
    }

    /// What rows have in a column that is added later, as SQLite itself says: a text of a number keeps its digits, a name in
    /// double quotes is a text. Such defaults are constants; other ones are taken as they are computed.
    private static func cell(ofDefault sql: String?, type: String, isStrict: Bool, in db: Database) throws -> [UInt8] {
        guard let sql else { return [Cell.null] }
        let added = try DatabaseQueue().write { db -> DeltaRecord? in
            try db.execute(sql: "CREATE TABLE t (id INT) \(isStrict ? "STRICT" : ""); INSERT INTO t VALUES (1)")
            do {
                try db.execute(sql: "ALTER TABLE t ADD COLUMN added \(type) DEFAULT \(sql)")
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                return nil
            }
            return try db.makeStatement(sql: "SELECT added FROM t").records().first
        }
        if let added { return Array(added.bytes) }
        let computed = try? db.makeStatement(sql: "SELECT (\(sql))").records().first
        return computed.map { Array($0.bytes) } ?? [Cell.null]
    }

    private static func rowsOfKeys(_ columns: String, of table: String, _ key: String) -> String {
        "SELECT \(columns) FROM \(table) WHERE \(key) BETWEEN ? AND ? ORDER BY \(key)"
    }

    /// The parts of the primary key's index. An integer primary key has none: its values are equal where their bytes are.
    private static func keyParts(of table: DeltaTable, in db: Database) throws -> [KeyPart] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT x.name, x.coll FROM pragma_index_list(?1, 'main') AS i, pragma_index_xinfo(i.name, 'main') AS x
                WHERE i.origin = 'pk' AND x.key ORDER BY x.seqno
                """,
            arguments: [table.name]
        ).compactMap { row in
            table.columns.firstIndex { DeltaTable.areSame($0, row[0]) }.map { KeyPart(column: $0, collation: row[1]) }
        }
    }

    private static func uniqueKeys(of name: String, _ columns: [String], in db: Database) throws -> [UniqueKey] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT i.name, i.partial, s.sql FROM pragma_index_list(?, 'main') AS i
                LEFT JOIN main.sqlite_schema AS s ON s.type = 'index' AND s.name = i.name
                WHERE i."unique" AND i.origin <> 'pk' ORDER BY i.name
                """,
            arguments: [name]
        ).map { index in
            let parts = try Row.fetchAll(
                db, sql: "SELECT name, coll FROM pragma_index_xinfo(?, 'main') WHERE key ORDER BY seqno",
                arguments: [index[0] as String])
            return UniqueKey(
                parts: parts.map { part in
                    let column = (part[0] as String?).flatMap { name in
                        columns.firstIndex { DeltaTable.areSame($0, name) }
                    }
                    return UniqueKey.Part(column: column, collation: part[1] ?? "BINARY")
                },
                isPartial: index[1], sql: index[2])
        }
    }

    private static func foreignKeys(of name: String, _ columns: [String], in db: Database) throws -> [ForeignKey] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, "table", "from", "to", on_delete, on_update
                FROM pragma_foreign_key_list(?, 'main') ORDER BY id, seq
                """,
            arguments: [name])
        return Dictionary(grouping: rows) { $0[0] as Int }.sorted { $0.key < $1.key }.compactMap { _, rows in
            let own = rows.compactMap { row in columns.firstIndex { DeltaTable.areSame($0, row[2]) } }
            guard let first = rows.first, own.count == rows.count else { return nil }
            let others = rows.compactMap { $0[3] as String? }
            return ForeignKey(
                columns: own, parent: first[1], parentColumns: others.count == rows.count ? others : [],
                onDelete: (first[4] as String).uppercased(), onUpdate: (first[5] as String).uppercased())
        }
    }

    /// Throws when a row has no key.
    func requireKeys(in db: Database) throws {
        let isNull = table.keyColumns.map { "\(quoted($0)) IS NULL" }.joinedAsExpression(by: " OR ")
        let isMissing = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM \(qualifiedName) WHERE \(isNull))")
        if isMissing == true { throw SyncError(.nullKey, table: name) }
    }
}

/// The tracked tables of a store, and the identifier of their definitions.
struct TrackedTables: Sendable {
    /// In the order of the bytes of their names.
    let all: [TrackedTable]
    let schema: SchemaID
    private let places: [DeltaTable.FoldedName: Int]

    init(_ tables: [TrackedTable]) throws {
        all = tables.sorted { DeltaTable.precedes($0.table, $1.table) }
        places = Dictionary(
            all.enumerated().map { (DeltaTable.FoldedName($1.name), $0) }, uniquingKeysWith: { first, _ in first })
        schema = try Self.identifier(of: all)
    }

    subscript(name: String) -> TrackedTable? { places[DeltaTable.FoldedName(name)].map { all[$0] } }

    /// A digest over everything on which rows and merges depend.
    private static func identifier(of tables: [TrackedTable]) throws -> SchemaID {
        var text = "cipherstore sync schema v1"
        func add(_ parts: String...) { for part in parts { text += "\n\(part.utf8.count):\(part)" } }
        for table in tables {
            add("table", table.name)
            for (column, ordinal) in zip(table.columns, table.table.keyOrdinals) {
                add("column", column.name, column.type, column.isNotNull ? "1" : "0", String(ordinal))
            }
            for part in table.keyParts where part.collation.uppercased() != "BINARY" {
                add("key", String(part.column), part.collation.uppercased())
            }
            for key in table.uniqueKeys {
                add("unique", key.sql ?? "", key.isPartial ? "1" : "0")
                for part in key.parts { add(part.column.map { String($0) } ?? "-", part.collation) }
            }
            for key in table.foreignKeys {
                add("reference", key.parent, key.onDelete, key.onUpdate, key.parentColumns.joined(separator: "\u{1F}"))
                add(key.columns.map { String($0) }.joined(separator: ","))
            }
        }
        var digest = try ContentDigest()
        Array(text.utf8).withUnsafeBytes { digest.update($0) }
        guard let id = SchemaID(bytes: try digest.finish().prefix(SchemaID.byteCount)) else {
            throw SyncError(.damagedRepository)
        }
        return id
    }
}
