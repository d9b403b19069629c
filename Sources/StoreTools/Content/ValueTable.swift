import CipherDatabase
import CipherStore

/// A table whose rows are copied as values: SQLite evaluates nothing of its definition, neither defaults nor checks nor
/// generated columns.
///
/// The copy is created with the same columns and keys and nothing else, filled, and then given the text of its
/// definition. So it needs no function that only the program has. A record of such a table has the values that a record
/// of the defined table has: generated columns that are not stored have no place in it, and a column that stands for the
/// row id is NULL.
///
/// Only the program can order a key with a collation of its own. The index of the source has that order already: its
/// entries are inserted one after the other, each behind all others. A key of generated columns that are not stored is
/// filled in the same way, as the copy has no such columns.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#representation_of_sql_tables>
struct ValueTable {
    /// A key that SQLite keeps as an index of its own.
    struct Key {
        struct Column {
            let name: String
            let collation: String
            let isDescending: Bool
        }

        let index: String
        let isPrimary: Bool
        let columns: [Column]
        /// Whether only the program knows its order.
        let isForeign: Bool
        /// Whether a column of it is generated and not stored.
        let isComputed: Bool

        /// Whether it is filled as the index of another table.
        var needsHelper: Bool { isForeign || isComputed }

        /// The columns, with their collations in the source.
        var list: String { terms { $0.collation } }

        /// The columns, for entries that are inserted in the order of the source.
        func appendingList(_ missing: Set<String>) -> String {
            terms { column in
                guard missing.contains(column.collation.lowercasedASCII) else { return column.collation }
                return (column.isDescending ? DatabaseCollation.beforeAll : .afterAll).name
            }
        }

        private func terms(_ collation: (Column) -> String) -> String {
            columns.map { column in
                "\(column.name.quotedIdentifier) COLLATE \(collation(column).quotedIdentifier)"
                    + (column.isDescending ? " DESC" : "")
            }.joined(separator: ", ")
        }

        /// The number in the name of the index, such as `sqlite_autoindex_doc_1`.
        var number: Int { index.split(separator: "_").last.flatMap { Int($0) } ?? 0 }
    }

    let shape: TableShape
    /// The column that stands for the row id; nil for none.
    let alias: String?
    /// The keys, in the order of the names of their indexes.
    let keys: [Key]
    private let isWithoutRowID: Bool
    /// The collations that the source does not have, as the schema writes them.
    let missingCollations: Set<String>
    private let missing: Set<String>
    /// Why the copy cannot be made without the program, as the end of a sentence; nil where it can.
    let obstacle: String?

    /// Nil for a table whose rows SQLite can copy by its definition.
    ///
    /// - Parameter computesNothing: Whether a table with generated columns that are not stored is copied in this way, too,
    ///   if that is possible: SQLite computes them for each row that it inserts, and a definition of a few bytes has values
    ///   of a gigabyte.
    /// - Throws: `DatabaseError`.
    init?(_ shape: TableShape, in db: Database, computesNothing: Bool = false) throws {
        // A row id is one column more.
        let isWide = shape.rowIDName != nil && shape.storedColumns.count >= ToolLimits.resultColumns
        let parts = try MissingParts(of: db, table: shape.name)
        let isComputed = computesNothing && shape.storedColumns.count < shape.columns.count
        guard isWide || !parts.isEmpty || isComputed else { return nil }
        isWithoutRowID =
            try Bool.fetchOne(
                db, sql: "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", arguments: [shape.name])
            ?? false
        self.shape = shape
        missingCollations = parts.collations
        let missing = Set(parts.collations.map(\.lowercasedASCII))
        self.missing = missing
        let indexes = try Row.fetchAll(
            db, sql: "SELECT name, origin FROM pragma_index_list(?) WHERE origin IN ('u', 'pk')",
            arguments: [shape.name])
        keys = try indexes.map { index -> Key in
            let columns = try Row.fetchAll(
                db, sql: "SELECT name, coll, \"desc\" FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno",
                arguments: [index[0] as String]
            ).map { Key.Column(name: $0[0], collation: $0[1], isDescending: $0[2]) }
            return Key(
                index: index[0], isPrimary: (index[1] as String) == "pk", columns: columns,
                isForeign: columns.contains { missing.contains($0.collation.lowercasedASCII) },
                isComputed: columns.contains { !shape.storedColumns.contains($0.name) })
        }.sorted { $0.number < $1.number }
        alias = isWithoutRowID || keys.contains(where: \.isPrimary) ? nil : shape.rowIDColumn
        obstacle = try Self.obstacle(shape, keys, isWithoutRowID: isWithoutRowID, in: db)
        if obstacle != nil, !isWide, parts.isEmpty { return nil }
    }

    private static func obstacle(
        _ shape: TableShape, _ keys: [Key], isWithoutRowID: Bool, in db: Database
    ) throws -> String? {
        if isWithoutRowID {
            if keys.contains(where: \.isComputed) { return "it is WITHOUT ROWID, with a key of a generated column" }
            return keys.count(where: \.isForeign) > 1 ? "it is WITHOUT ROWID, with several such keys" : nil
        }
        guard shape.rowIDName != nil else { return "its columns hide the row id" }
        let computed = Set(keys.filter(\.isComputed).flatMap { $0.columns.map(\.name) })
        return try computed.subtracting(shape.storedColumns).sorted().first { column in
            do {
                _ = try db.makeStatement(
                    sql: "SELECT \(column.quotedIdentifier) FROM main.\(shape.name.quotedIdentifier)")
                return false
            } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
                return true
            }
        }.map { "its key has the generated column \"\($0)\"" }
    }

    private var table: String { "main.\(shape.name.quotedIdentifier)" }
    /// Whether ``copyRows(from:to:_:progress:)`` has to fill keys.
    var hasHelpers: Bool { !isWithoutRowID && keys.contains(where: \.needsHelper) }

    /// Why a salvage cannot make the table. It takes keys from the entries of their indexes.
    var salvageObstacle: String? {
        if isWithoutRowID, let leading, !leading.isPrimary {
            return "it is WITHOUT ROWID, with a unique key besides the primary key"
        }
        return isWithoutRowID || shape.rowIDName == nil ? obstacle : nil
    }

    /// Whether the rows are inserted in the order of the source, which only the program knows.
    var isOrdered: Bool { leading != nil }

    /// The key in whose order the rows of a table WITHOUT ROWID are inserted; nil for any order.
    private var leading: Key? { isWithoutRowID ? keys.first(where: \.isForeign) : nil }

    /// Creates the empty table, where there is no ``obstacle``.
    ///
    /// - Throws: `DatabaseError`.
    func create(in db: Database) throws {
        if keys.contains(where: \.isForeign) {
            db.add(collation: .afterAll)
            db.add(collation: .beforeAll)
        }
        // The indexes of other tables are filled after their rows.
        let inner = hasHelpers ? [] : keys
        let parts =
            shape.storedColumns.map(\.quotedIdentifier)
            + inner.map { key in
                let list = key.index == leading?.index ? key.appendingList(missing) : key.list
                return (key.isPrimary && isWithoutRowID ? "PRIMARY KEY" : "UNIQUE") + " (\(list))"
            }
        try db.makeStatement(
            sql: "CREATE TABLE \(table) (\(parts.joined(separator: ", ")))" + (isWithoutRowID ? " WITHOUT ROWID" : "")
        ).execute()
    }

    /// The rows of the source, in the order in which they are inserted.
    private func rows(_ columns: [String]) -> String {
        let selection = "SELECT \(columns.joined(separator: ", ")) FROM \(table) "
        guard let leading else { return selection + (isWithoutRowID ? shape.binaryOrdering : shape.ordering) }
        let path = leading.isPrimary ? "NOT INDEXED" : "INDEXED BY \(leading.index.quotedIdentifier)"
        return selection + "\(path) ORDER BY \(leading.list)"
    }

    /// Copies the rows, in two parts where the columns are more than a statement can have, and fills the keys.
    ///
    /// - Returns: How many rows were copied.
    /// - Throws: `DatabaseError`, or the error of `progress`.
    func copyRows(
        from source: Database, to target: Database, _ bound: inout RowBound, progress: () throws -> Void
    ) throws -> Int {
        try StandInCollations.with(missingCollations, on: source) {
            let count = try copyValues(from: source, to: target, &bound, progress: progress)
            if hasHelpers {
                for key in keys { try fill(key, from: source, to: target, try RowBound(source)) }
            }
            return count
        }
    }

    private func copyValues(
        from source: Database, to target: Database, _ bound: inout RowBound, progress: () throws -> Void
    ) throws -> Int {
        let rowID = isWithoutRowID ? nil : shape.rowIDName
        let columns = ToolLimits.resultColumns - (rowID == nil ? 0 : 1)
        let first = Array(shape.storedColumns.prefix(columns))
        let wanted = (rowID.map { [$0] } ?? []) + first.map(\.quotedIdentifier)
        let read = (rowID.map { [$0] } ?? []) + first.map { $0 == alias ? "NULL" : $0.quotedIdentifier }
        let insertion = "INSERT INTO \(table) (\(wanted.joined(separator: ", ")))"
        let count = try target.insertRows(
            of: source.makeStatement(sql: rows(read)), by: { "\(insertion) VALUES (\($0.joined(separator: ", ")))" }
        ) { row in
            try bound.next(row)
            try progress()
        }
        let rest = shape.storedColumns.dropFirst(columns).map(\.quotedIdentifier)
        guard !rest.isEmpty, let rowID else { return count }
        let change = { (places: [String]) in
            let changes = zip(rest, places).map { "\($0) = \($1)" }.joined(separator: ", ")
            return "UPDATE \(table) SET \(changes) WHERE \(rowID) = ?"
        }
        try target.insertRows(of: source.makeStatement(sql: rows(rest + [rowID])), by: change) { try bound.add($0) }
        return count
    }

    // MARK: Keys that only the program can order

    private func helper(_ key: Key) -> String { "cipherstore_key_of_\(key.index)".quotedIdentifier }

    private func made(_ key: Key) -> String { "cipherstore_index_of_\(key.index)" }

    /// Builds the index of a key from the source, and gives it its place in the schema.
    private func fill(_ key: Key, from source: Database, to target: Database, _ bound: RowBound) throws {
        guard key.needsHelper, let rowID = shape.rowIDName else {
            try create(key, in: target)
            return try adopt(key, in: target)
        }
        let wanted = key.columns.map(\.name.quotedIdentifier) + [rowID]
        let entries = try source.makeStatement(
            sql: "SELECT \(wanted.joined(separator: ", ")) FROM \(table) "
                + "INDEXED BY \(key.index.quotedIdentifier) ORDER BY \(key.list)")
        try fill(key, in: target) { insertion in
            var bound = bound
            try target.insertRows(of: entries, by: { "\(insertion) VALUES (\($0.joined(separator: ", ")))" }) {
                try bound.next($0)
            }
        }
    }

    /// Builds the index of a key under a name of its own, and gives it its place in the schema.
    ///
    /// The entries of a key that only the program can order are those of an index of another table, with the same row
    /// ids. Their format does not depend on the table.
    ///
    /// - Parameter insert: Inserts the columns and the row ids of the entries, in their order, by the beginning of an
    ///   INSERT.
    /// - Throws: `DatabaseError`, or the error of `insert`.
    /// - SeeAlso: <https://www.sqlite.org/fileformat2.html#representation_of_sql_indices>
    func fill(_ key: Key, in target: Database, insert: (String) throws -> Void) throws {
        let numbered = Key(
            index: key.index, isPrimary: key.isPrimary,
            columns: key.columns.enumerated().map { number, column in
                Key.Column(name: "c\(number)", collation: column.collation, isDescending: column.isDescending)
            }, isForeign: key.isForeign, isComputed: false)
        let names = numbered.columns.map(\.name).joined(separator: ", ")
        try target.execute(
            sql: """
                CREATE TABLE main.\(helper(key)) (\(names));
                CREATE INDEX main.\(made(key).quotedIdentifier) ON \(helper(key)) (\(numbered.appendingList(missing)));
                """)
        try insert("INSERT INTO main.\(helper(key)) (\(names), rowid)")
        try adopt(key, in: target)
    }

    /// Builds the keys that need no helper before the rows: a salvage may find several rows with one key.
    ///
    /// - Throws: `DatabaseError`.
    func createKnownKeys(in target: Database) throws {
        guard hasHelpers else { return }
        for key in keys where !key.needsHelper { try create(key, in: target) }
    }

    private func create(_ key: Key, in target: Database) throws {
        try target.execute(
            sql: "CREATE UNIQUE INDEX main.\(made(key).quotedIdentifier) "
                + "ON \(shape.name.quotedIdentifier) (\(key.list))")
    }

    /// Gives the index of a key its name and its table.
    ///
    /// - Throws: `DatabaseError`.
    func adopt(_ key: Key, in target: Database) throws {
        try target.execute(
            sql: "UPDATE main.sqlite_schema SET name = ?, tbl_name = ?, sql = NULL WHERE type = 'index' AND name = ?",
            arguments: [key.index, shape.name, made(key)])
    }

    /// Removes what ``copyRows(from:to:_:progress:)`` has made beside the table, after SQLite has read the schema again.
    func removeHelpers(in target: Database) throws {
        guard hasHelpers else { return }
        for key in keys where key.needsHelper { try target.execute(sql: "DROP TABLE main.\(helper(key))") }
    }
}
