import CipherDatabase
import CipherStore

/// A table whose rows are copied as values: SQLite evaluates nothing of its definition, neither defaults nor checks nor
/// generated columns.
///
/// The copy is created with the same columns and keys and nothing else, filled, and then given the text of its
/// definition. So it needs no function that only the program has. A record of such a table has the values that a record
/// of the defined table has: generated columns that are not stored have no place in it, and a column that stands for the
/// row id is NULL.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#representation_of_sql_tables>
struct ValueTable {
    private let shape: TableShape
    /// The column that stands for the row id; nil for none.
    private let alias: String?
    /// The keys that SQLite keeps as indexes of its own, in the order of the names of these indexes.
    private let keys: [String]
    private let isWithoutRowID: Bool

    /// Nil for a table whose rows SQLite can copy by its definition, and for one that hides its row ids.
    ///
    /// - Throws: `DatabaseError`.
    init?(_ shape: TableShape, in db: Database) throws {
        // A row id is one column more.
        let isWide = shape.rowIDName != nil && shape.storedColumns.count >= Limits.resultColumns
        guard try isWide || !MissingParts(of: db, table: shape.name).isEmpty else { return nil }
        isWithoutRowID =
            try Bool.fetchOne(
                db, sql: "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", arguments: [shape.name])
            ?? false
        guard isWithoutRowID || shape.rowIDName != nil else { return nil }
        self.shape = shape
        let indexes = try Row.fetchAll(
            db, sql: "SELECT name, origin FROM pragma_index_list(?) WHERE origin IN ('u', 'pk')",
            arguments: [shape.name]
        ).map { (name: $0[0] as String, isPrimary: ($0[1] as String) == "pk") }
        let ordered = indexes.sorted { Self.number($0.name) < Self.number($1.name) }
        let without = isWithoutRowID
        keys = try ordered.map { index in
            let columns = try Row.fetchAll(
                db, sql: "SELECT name, coll, \"desc\" FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno",
                arguments: [index.name]
            ).map { row in
                "\((row[0] as String).quotedIdentifier) COLLATE \((row[1] as String).quotedIdentifier)"
                    + ((row[2] as Bool) ? " DESC" : "")
            }
            return (index.isPrimary && without ? "PRIMARY KEY" : "UNIQUE") + " (\(columns.joined(separator: ", ")))"
        }
        alias = isWithoutRowID || indexes.contains(where: \.isPrimary) ? nil : shape.rowIDColumn
    }

    /// The number in the name of an index that SQLite made, such as `sqlite_autoindex_doc_1`.
    private static func number(_ name: String) -> Int { name.split(separator: "_").last.flatMap { Int($0) } ?? 0 }

    private var table: String { "main.\(shape.name.quotedIdentifier)" }

    /// Creates the empty table.
    ///
    /// - Throws: `DatabaseError`, as where a key needs a collation that is missing: SQLite cannot order its index.
    func create(in db: Database) throws {
        let parts = shape.storedColumns.map(\.quotedIdentifier) + keys
        try db.makeStatement(
            sql: "CREATE TABLE \(table) (\(parts.joined(separator: ", ")))" + (isWithoutRowID ? " WITHOUT ROWID" : "")
        ).execute()
    }

    /// Copies the rows, in two parts where the columns are more than a statement can have.
    ///
    /// - Returns: How many rows were copied.
    /// - Throws: `DatabaseError`, or the error of `progress`.
    func copyRows(from source: Database, to target: Database, progress: () throws -> Void) throws -> Int {
        let rowID = isWithoutRowID ? nil : shape.rowIDName
        let bound = Limits.resultColumns - (rowID == nil ? 0 : 1)
        let first = Array(shape.storedColumns.prefix(bound))
        let wanted = (rowID.map { [$0] } ?? []) + first.map(\.quotedIdentifier)
        let read = (rowID.map { [$0] } ?? []) + first.map { $0 == alias ? "NULL" : $0.quotedIdentifier }
        let places = wanted.map { _ in "?" }.joined(separator: ", ")
        let rows = try source.makeStatement(
            sql: "SELECT \(read.joined(separator: ", ")) FROM \(table) \(shape.ordering)")
        let count = try target.makeStatement(
            sql: "INSERT INTO \(table) (\(wanted.joined(separator: ", "))) VALUES (\(places))"
        ).insertRows(of: rows, progress: progress)
        let rest = shape.storedColumns.dropFirst(bound)
        guard !rest.isEmpty, let rowID else { return count }
        let others = try source.makeStatement(
            sql:
                "SELECT \(rest.map(\.quotedIdentifier).joined(separator: ", ")), \(rowID) FROM \(table) \(shape.ordering)"
        )
        let changes = rest.map { "\($0.quotedIdentifier) = ?" }.joined(separator: ", ")
        _ = try target.makeStatement(sql: "UPDATE \(table) SET \(changes) WHERE \(rowID) = ?").insertRows(of: others)
        return count
    }
}
