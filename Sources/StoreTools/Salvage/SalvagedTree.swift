import CipherStore
import PageFormat

/// An entry of the schema that has pages of its own, as it is salvaged.
struct SalvagedTree {
    let entry: SchemaEntry
    let root: UInt32
    /// Nil for an index, for a table that could not be created again, and before the tables are created.
    var table: SalvagedTable?
    /// Its pages with rows, in the order of the file. Interior pages of indexes have rows as well.
    var pages: [UInt32] = []
    /// Its pages that no authentic interior page names, but whose content fits no other table.
    var matchedPages: [UInt32] = []
    /// Its pages that are not authentic, as far as interior pages name them.
    var lost: [LostPage] = []

    /// Whether its pages are those of an index: entries, or the rows of a table WITHOUT ROWID.
    var isIndexTree = false
}

/// A page of a table that is lost.
public struct LostPage: Hashable, Sendable {
    /// The page, from 1.
    public let page: UInt32
    /// All row ids on it and below it are greater; nil where that is unknown.
    public let after: Int64?
    /// No row id on it and below it is greater; nil where that is unknown.
    public let upTo: Int64?
    /// Whether it had rows itself, not only pointers to other pages; nil where that is unknown.
    public let isLeaf: Bool?
}

/// The columns of a table, in the order of its records, from the table as it was created again.
struct SalvagedTable {
    struct Column {
        let name: String
        let affinity: TypeAffinity
        let isNotNull: Bool
        /// Whether it stands for the row id, and is NULL in the record.
        let isRowID: Bool
        /// Whether an INSERT gives its value; generated columns are computed again, unless rows are values.
        let isGiven: Bool
        /// Its value in rows that end before it; nil where SQLite knows it from the definition.
        var added: DatabaseValue?
    }

    let name: String
    let columns: [Column]
    let isWithoutRowID: Bool
    /// Whether rows are inserted as values into a table without the definition.
    let asValues: Bool
    /// A name by which SQL reaches the row id; nil where there is none.
    let rowIDName: String?

    /// - Parameter asValues: Whether rows are inserted as values into a table without the definition.
    /// - Throws: `DatabaseError`.
    init(_ name: String, in db: Database, asValues: Bool = false) throws {
        let shape = try TableShape(name, in: db)
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT name, type, \"notnull\", pk, hidden, dflt_value FROM pragma_table_xinfo(?) ORDER BY cid",
            arguments: [name])
        let flags = try Row.fetchOne(
            db, sql: "SELECT wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?", arguments: [name])
        let (withoutRowID, isStrict) = flags.map { ($0[0] as Bool, $0[1] as Bool) } ?? (false, false)
        // INTEGER PRIMARY KEY DESC has an index, and does not stand for the row id.
        let hasKeyIndex =
            try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM pragma_index_list(?) WHERE origin = 'pk')", arguments: [name])
            ?? false
        let rowIDColumn = withoutRowID || hasKeyIndex ? nil : shape.rowIDColumn
        let added =
            asValues
            ? try Self.defaults(of: rows.map { (type: ($0[1] as String?) ?? "", value: $0[5]) }, in: db) : []
        let all = rows.enumerated().map { index, row -> (Column, hidden: Int) in
            let hidden = row[4] as Int
            let column = Column(
                name: row[0], affinity: TypeAffinity(type: (row[1] as String?) ?? "", isStrict: isStrict),
                isNotNull: row[2], isRowID: row[0] == rowIDColumn, isGiven: hidden == 0 || asValues,
                added: asValues ? added[index] : nil)
            return (column, hidden)
        }
        self.asValues = asValues
        self.name = name
        isWithoutRowID = withoutRowID
        rowIDName = shape.rowIDName
        // 2 are generated columns that are not stored: https://www.sqlite.org/pragma.html#pragma_table_xinfo
        let stored = all.filter { $0.hidden != 2 }.map(\.0)
        columns = withoutRowID ? try Self.keyFirst(stored, name, db) : stored
    }

    /// The columns of a table WITHOUT ROWID as its records have them: the primary key first.
    private static func keyFirst(_ columns: [Column], _ name: String, _ db: Database) throws -> [Column] {
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT x.name FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
                WHERE l.origin = 'pk' AND x.name IS NOT NULL ORDER BY x.seqno
                """, arguments: [name])
        let first = names.compactMap { name in columns.first { $0.name == name } }
        return first + columns.filter { column in !names.contains(column.name) }
    }

    /// Whether values can be those of a row. Columns that were added later may be missing at the end.
    func fits(_ values: [TableReader.Value]) -> Bool {
        guard !values.isEmpty, values.count <= columns.count else { return false }
        return zip(values, columns).allSatisfy { value, column in
            if column.isRowID { return value == .null }
            switch value {
            case .null: return !column.isNotNull
            case .integer, .real: return column.affinity != .text
            case .text, .blob: return true
            }
        }
    }
}
