import CipherDatabase
import CipherStore
import StorePlatform

/// The checks of a table that SQLite's `integrity_check` refuses because the table or one of its indexes needs parts of
/// the program: all of it can be read, and each index has an entry for each row.
///
/// The order of entries and the results of functions are not checked.
struct UncheckedTable {
    /// The problems, as `integrity_check` would word them.
    private(set) var problems: [String] = []

    private let name: String
    private var table: String { "main.\(name.quotedIdentifier)" }

    /// - Parameter missing: What the table and its indexes need.
    /// - Throws: `DatabaseError` where SQLite cannot read the table.
    init(_ name: String, _ missing: MissingParts, in db: Database) throws {
        self.name = name
        let shape = try TableShape(name, in: db)
        let indexes = try Row.fetchAll(
            db, sql: "SELECT name, partial FROM pragma_index_list(?) ORDER BY seq", arguments: [name])
        let hasRowID = shape.rowIDName != nil
        try StandInCollations.with(missing.collations, on: db) {
            let rows = try Int64.fetchOne(db, sql: "SELECT ifnull(sum(1), 0) FROM \(table) NOT INDEXED") ?? 0
            try readValues(shape, db)
            // The rows of a partial index are those of a condition, which may need a function.
            for index in indexes where !(index[1] as Bool) {
                let isItself = try !hasRowID && Self.isPrimaryKey(index[0], of: name, db)
                if !isItself { try check(index[0], rows: rows, shape, db) }
            }
        }
    }

    private static func isPrimaryKey(_ index: String, of table: String, _ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT origin = 'pk' FROM pragma_index_list(?) WHERE name = ?", arguments: [table, index])
            ?? false
    }

    /// Reads each stored value, also those on overflow pages.
    private func readValues(_ shape: TableShape, _ db: Database) throws {
        let columns = shape.storedColumns.prefix(ToolLimits.resultColumns).map(\.quotedIdentifier)
        try db.makeStatement(sql: "SELECT \(columns.joined(separator: ", ")) FROM \(table) NOT INDEXED")
            .forEachLentRow { row in for index in 0..<columns.count { _ = row[index] } }
    }

    private mutating func check(_ index: String, rows: Int64, _ shape: TableShape, _ db: Database) throws {
        let access = "\(table) AS i INDEXED BY \(index.quotedIdentifier)"
        guard let entries = try countIfPossible("SELECT ifnull(sum(1), 0) FROM \(access)", db) else { return }
        guard entries == rows else {
            problems.append("wrong # of entries in index \(index): \(entries) for \(CountText.text(Int(rows), "row"))")
            return
        }
        guard let rowID = shape.rowIDName else { return }
        let columns = try Row.fetchAll(
            db, sql: "SELECT name FROM pragma_index_xinfo(?) WHERE key = 1", arguments: [index]
        ).compactMap { $0[0] as String? }.filter { shape.storedColumns.contains($0) && $0 != shape.rowIDColumn }
        let equal = columns.map { "i.\($0.quotedIdentifier) IS t.\($0.quotedIdentifier) COLLATE BINARY" }
        // The index has each column, so SQLite takes its values from there.
        let matching = try countIfPossible(
            """
            SELECT ifnull(sum(1), 0) FROM \(access) CROSS JOIN \(table) AS t NOT INDEXED ON t.\(rowID) = i.\(rowID)
            WHERE \((equal + ["1"]).joinedAsExpression(by: " AND "))
            """, db)
        if let matching, matching != rows {
            let lacking = CountText.text(Int(rows - matching), "row")
            problems.append("\(lacking) of table \(name) missing from index \(index)")
        }
    }

    /// Nil where SQLite would need the function.
    private func countIfPossible(_ sql: String, _ db: Database) throws -> Int64? {
        do {
            return try Int64.fetchOne(db, sql: sql)
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            return nil
        }
    }
}
