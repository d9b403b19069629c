import CipherDatabase
import CipherStore
import StorePlatform

/// Copies the whole content of one database into an empty one, row by row, with the stored values unchanged.
///
/// SQLCipher's own `sqlcipher_export` assigns new row ids to rows of tables without an integer primary key, which
/// breaks external-content full-text indexes, and needs the source attached to a connection that may write to it. This
/// copy reads through a connection that cannot, keeps row ids, and can be interrupted.
struct DatabaseCopy {
    let source: Database
    let target: Database
    /// Called after each row; an error ends the copy.
    let progress: (_ table: String) throws -> Void
    /// The indexes that could not be built, because they need what only the program has.
    private(set) var leftOut: [LeftOutIndex] = []
    private var valueTables: [String: ValueTable] = [:]
    /// The definitions of all tables, by their names in lower case.
    private var tables: [String: String] = [:]

    init(source: Database, target: Database, progress: @escaping (_ table: String) throws -> Void) {
        self.source = source
        self.target = target
        self.progress = progress
    }

    /// Both connections are inside a transaction; the target's schema may be written (`writable_schema`).
    ///
    /// - Returns: How many rows were copied.
    /// - Throws: `DatabaseError`, ``ToolError`` `missingPart`, or the error of `progress`.
    mutating func run() throws -> Int {
        try FullTextStructure.requireSound(source)
        let schema = try SchemaEntry.all(source).filter { !$0.isOfRepository }
        let tables = schema.filter { $0.isStoredTable }
        self.tables = Dictionary(tables.map { ($0.name.lowercased(), $0.sql ?? "") }) { first, _ in first }
        let indexes = schema.filter { $0.type == "index" }
        let computed = try computedIndexes()
        // SQLite computes their values in any case.
        let computing = Set(
            indexes.filter { $0.sql != nil && computed.contains($0.name) }.map { $0.table.lowercased() })
        for table in tables where table.name != Self.sequenceTable {
            let shape = try TableShape(table.name, in: source)
            let computesNothing = !computing.contains(table.name.lowercased())
            if let values = try ValueTable(shape, in: source, computesNothing: computesNothing) {
                if let obstacle = values.obstacle {
                    let names = try MissingParts(of: source, table: table.name).names
                    throw ToolError.missingPart(table: table.name, names.joined(separator: ", "), because: obstacle)
                }
                try values.create(in: target)
                valueTables[table.name] = values
            } else {
                try createOrdinary(table)
            }
        }
        try createSequenceTableIfLeftBehind(tables)
        for index in indexes where computed.contains(index.name) && valueTables[index.table] == nil {
            try createIndex(index)
        }
        var rows = 0
        var bound = try RowBound(source)
        for table in tables where table.name != Self.sequenceTable {
            try refusingEqualKeys(table.name) { rows += try copyRows(of: table, &bound) }
        }
        if let sequence = tables.first(where: { $0.name == Self.sequenceTable }) {
            // Filled by the inserted rows; the source's content is kept, names of dropped tables included.
            try target.execute(sql: "DELETE FROM main.\(Self.sequenceTable)")
            rows += try copyRows(of: sequence, &bound)
        }
        try enterDefinitions(tables)
        let built = try Set(SchemaEntry.all(target).filter { $0.type == "index" }.map(\.name)).union(
            leftOut.map(\.name))
        for index in indexes where index.sql != nil && !built.contains(index.name) {
            try createIndex(index, isComputed: computed.contains(index.name))
        }
        try enterWithoutPages(schema)
        try copyVersions()
        return rows
    }

    private func copyVersions() throws {
        for pragma in ["user_version", "application_id"] {
            let value = try Int64.fetchOne(source, sql: "PRAGMA main.\(pragma)") ?? 0
            try target.execute(sql: "PRAGMA main.\(pragma) = \(value)")
        }
    }

    private static let sequenceTable = "sqlite_sequence"

    /// The indexes over values that are not stored in the rows. They are created before the rows: an index of a table with
    /// rows is sorted in memory, and a file of another person can define values of any length.
    private func computedIndexes() throws -> Set<String> {
        try Set(
            String.fetchAll(
                source,
                sql: """
                    SELECT DISTINCT i.name
                    FROM main.sqlite_schema t, pragma_index_list(t.name, 'main') i, pragma_index_xinfo(i.name, 'main') c
                    WHERE t.type = 'table' AND t.rootpage > 0 AND c.key AND (c.cid = -2
                        OR c.cid IN (SELECT cid FROM pragma_table_xinfo(t.name, 'main') WHERE hidden IN (2, 3)))
                    """))
    }

    /// Refuses an index over longer generated values than the file may have: the table has its rows, because it needs what
    /// only the program has, and SQLite sorts the values of such an index in memory.
    ///
    /// - Throws: `DatabaseError` `SQLITE_CORRUPT`.
    private func requireBoundedValues(of index: SchemaEntry) throws {
        let columns = try String.fetchAll(
            source, sql: "SELECT name FROM pragma_index_xinfo(?) WHERE key AND cid >= 0", arguments: [index.name])
        let list = columns.map(\.quotedIdentifier).joined(separator: ", ")
        guard !columns.isEmpty,
            let rows = try? target.makeStatement(sql: "SELECT \(list) FROM main.\(index.table.quotedIdentifier)")
        else { return }
        var bound = try RowBound(source)
        try rows.forEachLentRow { try bound.addComputed($0) }
    }

    // Compiled as one statement: a schema that was tampered with cannot add another.
    private func create(_ entry: SchemaEntry) throws {
        // Indexes without SQL belong to a UNIQUE or PRIMARY KEY and are created with their table.
        guard let sql = entry.sql else { return }
        try target.makeStatement(sql: sql).execute()
    }

    /// Creates a table by its definition.
    ///
    /// - Throws: ``ToolError`` `missingPart` where SQLite refuses the definition.
    private func createOrdinary(_ table: SchemaEntry) throws {
        do {
            try create(table)
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            throw ToolError.missingPart(
                table: table.name, nil, because: "SQLite says \"\(error.message ?? error.description)\"")
        }
    }

    /// Replaces the definitions of tables whose rows were copied as values by their own, as text.
    private func enterDefinitions(_ tables: [SchemaEntry]) throws {
        guard !valueTables.isEmpty else { return }
        for table in tables where valueTables[table.name] != nil {
            try target.execute(
                sql: "UPDATE main.sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?",
                arguments: [table.sql, table.name])
        }
        // SQLite reads the schema again.
        try target.execute(sql: "PRAGMA writable_schema = RESET; PRAGMA writable_schema = ON")
        for table in valueTables.values { try table.removeHelpers(in: target) }
    }

    /// Builds an index, unless it needs what only the program has: its entries would be in a wrong order.
    ///
    /// - Parameter isComputed: Whether SQLite sorts values in memory that are not stored in the rows.
    private mutating func createIndex(_ index: SchemaEntry, isComputed: Bool = false) throws {
        if isComputed { try requireBoundedValues(of: index) }
        do {
            try refusingEqualKeys(index.table) { try create(index) }
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            let missing = try MissingParts(
                ofIndex: index.sql ?? "", on: tables[index.table.lowercased()] ?? "", in: source)
            guard !missing.isEmpty else { throw error }
            leftOut.append(LeftOutIndex(name: index.name, table: index.table, needs: missing.names))
        }
    }

    /// Names a table of which two rows have one key here: the source has compared them in another way.
    private func refusingEqualKeys(_ table: String, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where isRepeatedRowID(error, table) {
            throw DatabaseError(
                resultCode: .SQLITE_CORRUPT, message: "two rows of table \"\(table)\" have one row id")
        } catch let error as DatabaseError
            where [.SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY].contains(error.extendedResultCode)
        {
            throw ToolError.missingPart(
                table: table, nil,
                because:
                    "two of its rows have one key by the functions and collations of this program, and the source has "
                    + "both. A program that replaces one of SQLite's, as lower or NOCASE, can copy it; without such a "
                    + "program the source is damaged (\(error.message ?? error.description))")
        }
    }

    /// Whether a table of the source has a row id twice, which no program and no collation explains.
    private func isRepeatedRowID(_ error: DatabaseError, _ table: String) -> Bool {
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_ROWID: true
        case .SQLITE_CONSTRAINT_PRIMARYKEY: (try? TableShape(table, in: source).isRowIDKey) == true
        default: false
        }
    }

    /// SQLite creates the table with the first AUTOINCREMENT; the source may have dropped the last of those.
    private func createSequenceTableIfLeftBehind(_ tables: [SchemaEntry]) throws {
        guard tables.contains(where: { $0.name == Self.sequenceTable }),
            try !SchemaEntry.all(target).contains(where: { $0.name == Self.sequenceTable })
        else { return }
        try target.execute(sql: "CREATE TABLE main.\(Self.sequenceTable)(name,seq)")
    }

    private func copyRows(of table: SchemaEntry, _ bound: inout RowBound) throws -> Int {
        let shape = try TableShape(table.name, in: source)
        try bound.require(shape, source)
        if let values = valueTables[table.name] {
            return try values.copyRows(from: source, to: target, &bound) {
                try progress(table.name)
            }
        }
        let rows = try source.makeStatement(sql: shape.select(shape.givenColumns))
        return try target.insertRows(of: rows, by: shape.insert) { row in
            try bound.next(row)
            try progress(table.name)
        }
    }

    /// Views, triggers and virtual tables consist only of their text; running it would create a virtual table's shadow
    /// tables a second time. Triggers come last, since they need the objects to which they belong.
    private func enterWithoutPages(_ schema: [SchemaEntry]) throws {
        let entries = schema.filter { !$0.hasPages }
        for entry in entries.filter({ $0.type != "trigger" }) + entries.filter({ $0.type == "trigger" }) {
            try target.execute(
                sql: "INSERT INTO main.sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)",
                arguments: [entry.type, entry.name, entry.table, entry.sql])
        }
    }
}

/// The settings of a new database that must be set before its first page exists.
struct DatabaseLayout: Sendable {
    let pageBytes: Int
    private let encoding: String
    private let autoVacuum: Int

    init(pageBytes: Int, encoding: String, autoVacuum: Int) {
        self.pageBytes = pageBytes
        self.encoding = encoding
        self.autoVacuum = autoVacuum
    }

    /// The layout of a database to copy.
    init(_ db: Database) throws {
        pageBytes = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4096
        encoding = try String.fetchOne(db, sql: "PRAGMA main.encoding") ?? "UTF-8"
        autoVacuum = try Int.fetchOne(db, sql: "PRAGMA main.auto_vacuum") ?? 0
    }

    /// A configuration for the connection that makes the copy.
    ///
    /// - Parameter setsPageSize: False for an encrypted database, whose pages have the size in its cipher settings.
    /// - Parameter program: Its `prepareDatabase` gives the connection what the schema needs.
    func configuration(label: String, setsPageSize: Bool, program: Configuration = Configuration()) -> Configuration {
        var configuration = Configuration()
        configuration.label = label
        configuration.trustsSchema = program.trustsSchemaOfOthers
        configuration.foreignKeysEnabled = false
        // Old schemas quote strings in this way; they are copied unchanged.
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.prepareDatabase { db in
            if setsPageSize { try db.execute(sql: "PRAGMA page_size = \(pageBytes)") }
            try db.execute(sql: "PRAGMA encoding = '\(encoding)'")
            try db.execute(sql: "PRAGMA auto_vacuum = \(autoVacuum)")
            // No other process sees the file, and a copy that fails is removed as a whole.
            try db.execute(sql: "PRAGMA journal_mode = OFF")
            try db.execute(sql: "PRAGMA synchronous = OFF")
            try db.execute(sql: "PRAGMA cache_size = -65536")
            try program.prepareDatabase?(db)
        }
        return configuration
    }
}

extension DatabaseCopy {
    /// Copies a database into an empty one, closes that, and hashes the source in the transaction in which it was read:
    /// another process may be writing to it.
    ///
    /// - Parameter queue: A connection to the empty database, which is closed in any case.
    /// - Returns: How many rows were copied, the hash of the source without what was left out, and that.
    /// - Throws: `DatabaseError`, `CancellationError`.
    static func copy(_ source: Database, into queue: DatabaseQueue, _ run: ToolRun) throws -> Copied {
        try source.endingStatements(when: { run.isCancelled }) { try copyWhileWatched(source, into: queue, run) }
    }

    private static func copyWhileWatched(
        _ source: Database, into queue: DatabaseQueue, _ run: ToolRun
    ) throws -> Copied {
        var counter = RowCounter(run, .copyingRows)
        let path = queue.path
        let rows: Int
        let leftOut: [LeftOutIndex]
        do {
            (rows, leftOut) = try queue.inDatabase { db in
                // The copy is nobody's store yet.
                db.mayChangeStoreTables = true
                try db.execute(sql: "PRAGMA writable_schema = ON; PRAGMA ignore_check_constraints = ON")
                try RowBound.limitPages(of: db, by: source)
                var copy = DatabaseCopy(source: source, target: db) { try counter.next(table: $0) }
                let rows = try db.endingStatements(when: { run.isCancelled }) { try copy.runInTransaction(path) }
                return (rows, copy.leftOut)
            }
            try queue.close()
        } catch {
            try? queue.close()
            throw error
        }
        let schema = try SchemaEntry.all(source)
        if schema.contains(where: \.isOfRepository) { run.notice(SchemaEntry.repositoryLeftOut) }
        SchemaEntry.noteReservedNames(schema, run)
        let damaged = try DamagedIndex.find(source, run)
        let hash = try ContentHash.of(source, run, .rereadingSource, leavingOut: Set(leftOut.map(\.name)))
        return Copied(rows: rows, hash: hash, leftOut: leftOut, damagedIndexes: damaged)
    }

    /// - Parameter path: The file of the copy.
    private mutating func runInTransaction(_ path: String) throws -> Int {
        var rows = 0
        do {
            try target.inTransaction(.immediate) {
                rows = try target.withoutHistoryUpkeep { try run() }
                return .commit
            }
        } catch let error as DatabaseError {
            throw RowBound.fullCopy(error, in: Files.directory(of: path)) ?? error
        }
        return rows
    }

    /// The result of a copy.
    struct Copied {
        let rows: Int
        /// The hash of the source, without the indexes that were left out.
        let hash: ContentHash
        let leftOut: [LeftOutIndex]
        /// The indexes of the source that do not fit their tables.
        let damagedIndexes: [DamagedIndex]
    }
}

/// An index that a copy does not have, because it uses a collation or function of the store's program that this program
/// lacks.
public struct LeftOutIndex: Hashable, Sendable {
    /// The index.
    public let name: String
    /// Its table.
    public let table: String
    /// All collations, functions and modules that this program lacks for the index and its table, such as `collation prog`.
    public let needs: [String]

    /// The content of a copy after it was verified, as the object of a sentence.
    package static func sameContentHash(_ leftOut: [LeftOutIndex]) -> String {
        leftOut.isEmpty
            ? "the same content hash"
            : "the content hash of the source without the indexes that were left out"
    }

    /// The finding, as a sentence without its full stop.
    public var text: String {
        "index \"\(name)\" of table \"\(table)\" was not built, because this program lacks "
            + "\(needs.joined(separator: ", ")): let the program that has \(needs.count == 1 ? "it" : "them") create "
            + "the index"
    }
}

/// The properties of a table that are needed to read all of its rows in a defined order.
struct TableShape {
    let name: String
    /// All columns, generated ones included, in their order.
    let columns: [String]
    /// The columns whose values are stored, not generated.
    let givenColumns: [String]
    /// A name by which SQL can read the row id; nil for tables that have none, or that hide all of its names.
    let rowIDName: String?
    private let order: [String]
    /// The columns whose values have a place in the records of the table: all but generated columns that are not stored.
    let storedColumns: [String]
    /// The column that stands for the row id, unless the table has an index for its primary key; nil for none.
    let rowIDColumn: String?
    /// Whether the primary key is the row id.
    var isRowIDKey: Bool { rowIDColumn != nil }

    /// - Throws: `DatabaseError`.
    init(_ name: String, in db: Database) throws {
        self.name = name
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, pk, hidden, type FROM pragma_table_xinfo(?) ORDER BY cid", arguments: [name])
        let columns = rows.map {
            (name: $0[0] as String, keyPosition: $0[1] as Int, hidden: $0[2] as Int, type: $0[3] as String?)
        }
        self.columns = columns.map(\.name)
        // 2 and 3 are generated columns: https://www.sqlite.org/pragma.html#pragma_table_xinfo
        givenColumns = columns.filter { $0.hidden == 0 }.map(\.name)
        rowIDName = Self.rowIDName(name, columns: columns.map(\.name), db)
        storedColumns = columns.filter { $0.hidden == 0 || $0.hidden == 3 }.map(\.name)
        let keyColumns = columns.filter { $0.keyPosition > 0 }
        rowIDColumn = keyColumns.count == 1 && keyColumns[0].type?.uppercased() == "INTEGER" ? keyColumns[0].name : nil
        let key = columns.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }.map(\.name)
        order = rowIDName.map { [$0] } ?? (key.isEmpty ? storedColumns : key).map(\.quotedIdentifier)
    }

    private static func rowIDName(_ table: String, columns: [String], _ db: Database) -> String? {
        // Tables WITHOUT ROWID refuse these names.
        RowIDName.visible(beside: columns).first { name in
            (try? db.makeStatement(sql: "SELECT \(name) FROM main.\(table.quotedIdentifier)")) != nil
        }
    }

    /// All rows in the defined order, the row id first where there is one.
    ///
    /// - Parameter isBinary: Whether a collation of the key is missing: keys are compared by their bytes.
    func select(_ columns: [String], isBinary: Bool = false) -> String {
        let wanted = (rowIDName.map { [$0] } ?? []) + columns.map(\.quotedIdentifier)
        return "SELECT \(wanted.joined(separator: ", ")) FROM main.\(name.quotedIdentifier) "
            + (isBinary ? binaryOrdering : ordering)
    }

    /// The clause for the defined order.
    var ordering: String { "ORDER BY \(order.joined(separator: ", "))" }

    /// The clause for an order that needs no collation.
    var binaryOrdering: String { "ORDER BY \(order.map { "\($0) COLLATE BINARY" }.joined(separator: ", "))" }

    /// The columns of one row, by its row id; nil for a table that has none.
    func rest(_ columns: [String]) -> String? {
        rowIDName.map {
            "SELECT \(columns.map(\.quotedIdentifier).joined(separator: ", ")) FROM main.\(name.quotedIdentifier) WHERE \($0) = ?"
        }
    }

    /// Inserts the rows that ``select(_:)`` of the given columns returns.
    func insert(_ places: [String]) -> String {
        let wanted = (rowIDName.map { [$0] } ?? []) + givenColumns.map(\.quotedIdentifier)
        return "INSERT INTO main.\(name.quotedIdentifier) (\(wanted.joined(separator: ", "))) "
            + "VALUES (\(places.joined(separator: ", ")))"
    }
}

extension String {
    /// The name as a quoted SQL identifier.
    var quotedIdentifier: String { "\"" + replacing("\"", with: "\"\"") + "\"" }
}

/// One entry of a database's schema.
struct SchemaEntry {
    let type: String
    let name: String
    let table: String
    /// Whether it has its own pages: tables and indexes do; views, triggers and virtual tables do not.
    let hasPages: Bool
    let sql: String?

    /// The whole schema, in the order in which it is stored, without the store's own record of its sidecar, and with
    /// the history of changes: its tables, and the triggers that write them.
    static func all(_ db: Database) throws -> [SchemaEntry] {
        try Row.fetchAll(
            db, sql: "SELECT type, name, tbl_name, ifnull(rootpage, 0), sql FROM main.sqlite_schema ORDER BY rowid"
        ).map { SchemaEntry(type: $0[0], name: $0[1], table: $0[2], hasPages: ($0[3] as Int) > 0, sql: $0[4]) }
            .filter { !RollbackTable.isNamed($0.table) }
    }

    /// Whether it is one of the library's own objects, which are not content.
    var isInternal: Bool { Database.isStoreInternalObject(name) || Database.isStoreInternalObject(table) }

    /// Whether the library makes it in a store: the history of changes, the triggers of full-text tables, and the marks
    /// that VACUUM leaves. Other internal names are those of tables of the program.
    var isOfLibrary: Bool {
        [name, table].map { $0.lowercased() }.contains { name in
            Self.libraryNames.contains(name) || Self.libraryPrefixes.contains(where: name.hasPrefix)
        }
    }

    static let libraryNames = ["cipherstore_history", "cipherstore_vacuum"]
    static let libraryPrefixes = ["cipherstore_history_", "cipherstore_displaced_"]
    static let repositoryPrefixes = ["cipherstore_repository_", "cipherstore_sync_"]

    /// Whether it belongs to a repository of ChangesetSync: the identity of a member with its signing key, the secrets, and
    /// the remotes. They belong to one store, and no copy that is another database has them.
    var isOfRepository: Bool {
        [name, table].map { $0.lowercased() }.contains { name in
            Self.repositoryPrefixes.contains(where: name.hasPrefix)
        }
    }

    /// The notice of a copy without them.
    static let repositoryLeftOut =
        "the source has the tables of a sync repository, with keys and remotes: they were left out, and the copy belongs to "
        + "no repository"

    /// Notes tables of a program whose names are the library's: they are no content, as the content hash sees it.
    static func noteReservedNames(_ schema: [SchemaEntry], _ run: ToolRun) {
        let names = schema.filter { $0.type == "table" && $0.isInternal && !$0.isOfRepository && !$0.isOfLibrary }
            .map { "\"\($0.name)\"" }
        guard !names.isEmpty else { return }
        run.notice(
            "names that begin with cipherstore_ belong to the library: lists and content hashes leave out "
                + names.prefix(ToolLimits.namedFrames).joined(separator: ", ")
                + (names.count > ToolLimits.namedFrames ? " and others" : "") + ". Rename them in the source")
    }

    /// Whether it is a table WITHOUT ROWID: its pages are those of an index.
    var isWithoutRowID: Bool {
        let options = SQLToken.tokens(of: sql ?? "").reversed().prefix { !$0.isSymbol(")") }.reversed()
        return zip(options, options.dropFirst()).contains { $0.isWord("without") && $1.isWord("rowid") }
    }

    /// Whether it is a table whose rows are stored in pages of the database: shadow tables too, virtual ones not.
    var isStoredTable: Bool { type == "table" && hasPages }

    /// Statistics of the query planner, which ANALYZE creates again; they are not content.
    var isStatistics: Bool { name.lowercased().hasPrefix("sqlite_stat") }
}
