import CipherDatabase
import CipherStore
import PageFormat

/// The keys of a salvaged table whose order only the program knows, or whose values only it computes.
///
/// The index of such a key has its entries in their order. So the entries are read from the tree of the index, first to
/// last, and a row is inserted where each of these keys has an entry of it. Entries on lost pages are missing: their rows
/// are listed. Nothing is known of the order where a page is older than others, and then all rows are listed.
final class SalvagedKeys {
    private struct Entries {
        let key: ValueTable.Key
        /// A temporary table with the entries in their order: the columns of the key, then the row id.
        let table: String
        /// The positions and names of columns that the records of the table have, other than the row id.
        let stored: [(position: Int, name: String)]
    }

    private let values: ValueTable
    private let rowIDName: String
    private let db: Database
    private var all: [Entries] = []
    private var statements: [String: Statement] = [:]

    /// - Parameters:
    ///   - values: The table, with ``ValueTable/hasHelpers``.
    ///   - trees: All trees that were found.
    /// - Returns: Nil for a table without such keys.
    /// - Throws: `DatabaseError`; the errors of reading.
    init?(_ values: ValueTable, _ source: SalvageSource, _ trees: [SalvagedTree], in db: Database) throws {
        guard values.hasHelpers, let rowIDName = values.shape.rowIDName else { return nil }
        (self.values, self.rowIDName, self.db) = (values, rowIDName, db)
        let name = values.shape.name
        let own = trees.filter { $0.entry.table == name }
        let isOfOneMoment = !own.contains { source.hasOlderPages($0) }
        for key in values.keys where key.needsHelper {
            let stored = key.columns.enumerated().filter { _, column in
                values.shape.storedColumns.contains(column.name) && column.name != values.alias
            }.map { (position: $0.offset, name: $0.element.name) }
            let entries = Entries(
                key: key, table: "temp.\("cipherstore_entries_of_\(key.index)".quotedIdentifier)", stored: stored)
            let columns = key.columns.indices.map { "c\($0)" }.joined(separator: ", ")
            try db.execute(
                sql: "CREATE TABLE \(entries.table) (o INTEGER PRIMARY KEY, \(columns), r INTEGER UNIQUE)")
            all.append(entries)
            guard isOfOneMoment, let tree = own.first(where: { $0.entry.name == key.index }) else { continue }
            try source.forEachRowInOrder(of: tree) { _, row in
                if case .row(_, let values) = row { try add(values, source, to: entries, columns) }
            }
        }
    }

    private func add(
        _ values: [TableReader.Value], _ source: SalvageSource, to entries: Entries, _ columns: String
    ) throws {
        guard values.count == entries.key.columns.count + 1, case .integer = values[values.count - 1] else { return }
        let arguments = values.map(source.argument)
        let places = arguments.map(\.place).joined(separator: ", ")
        try statement("INSERT OR IGNORE INTO \(entries.table) (\(columns), r) VALUES (\(places))")
            .execute(arguments: StatementArguments(arguments.map(\.value)))
    }

    private func statement(_ sql: String) throws -> Statement {
        let statement = try statements[sql] ?? db.makeStatement(sql: sql)
        statements[sql] = statement
        return statement
    }

    /// Whether each key has an entry of a row.
    ///
    /// - Parameter row: The values by the names of their columns.
    /// - Throws: `DatabaseError`.
    func haveEntries(of row: [String: SalvagedValue], rowID: Int64) throws -> Bool {
        try all.allSatisfy { entries in
            let wanted = entries.stored.map { (position: $0.position, value: row[$0.name] ?? SalvagedValue(.null)) }
            let conditions = wanted.map { " AND c\($0.position) IS \($0.value.place)" }.joined()
            let found = try statement("SELECT EXISTS (SELECT 1 FROM \(entries.table) WHERE r = ?\(conditions))")
            return try Bool.fetchOne(
                found, arguments: StatementArguments([rowID.databaseValue] + wanted.map(\.value.value))) ?? false
        }
    }

    /// Fills the keys with the entries of the rows that were inserted.
    ///
    /// - Throws: `DatabaseError`.
    func fill() throws {
        statements = [:]
        for entries in all {
            let columns = entries.key.columns.indices.map { "e.c\($0)" }.joined(separator: ", ")
            let conditions = entries.stored.map { " AND e.c\($0.position) IS t.\($0.name.quotedIdentifier)" }.joined()
            // SQLite inserts in the order of the rows, and takes each text as it is.
            let rows = """
                SELECT \(columns), e.r FROM \(entries.table) AS e CROSS JOIN main.\(values.shape.name.quotedIdentifier) AS t
                WHERE t.\(rowIDName) = e.r\(conditions) ORDER BY e.o
                """
            try values.fill(entries.key, in: db) { try db.execute(sql: "\($0) \(rows)") }
        }
        for key in values.keys where !key.needsHelper { try values.adopt(key, in: db) }
        for entries in all { try db.execute(sql: "DROP TABLE \(entries.table)") }
    }
}
