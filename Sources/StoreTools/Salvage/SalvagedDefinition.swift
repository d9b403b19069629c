import CipherDatabase
import CipherStore

/// The definition of a table that SQLite can read and cannot fill, because it needs what only the program has, or has
/// too many columns: its rows are inserted as values.
///
/// The definition is entered as text into a database in memory, which tells its columns and keys.
struct SalvagedDefinition {
    /// The table for the rows, without the definition.
    let values: ValueTable
    /// The columns of its records.
    let table: SalvagedTable
    /// The definition.
    let entry: SchemaEntry
    /// The things that it needs, such as `function uuid`.
    let needs: [String]

    /// - Parameters:
    ///   - db: The connection that writes the new store, with what the program has given to it.
    ///   - program: Its `prepareDatabase` has given that.
    /// - Returns: Nil for a table that SQLite can create and fill.
    /// - Throws: `DatabaseError` where SQLite cannot read the definition, or where only the program can make the table.
    init?(_ entry: SchemaEntry, in db: Database, program: Configuration) throws {
        guard let sql = entry.sql, !entry.name.lowercased().hasPrefix("sqlite_") else { return nil }
        let missing = try MissingParts(ofTable: sql, in: db)
        // A table with fewer commas has fewer columns.
        let mayBeWide = sql.utf8.count(where: { $0 == UInt8(ascii: ",") }) >= ToolLimits.resultColumns - 1
        guard !missing.isEmpty || mayBeWide else { return nil }
        let queue = DatabaseQueue(configuration: Self.configuration(program))
        defer { try? queue.close() }
        let found = try queue.inDatabase { memory -> (ValueTable, SalvagedTable)? in
            memory.mayChangeStoreTables = true
            try memory.execute(
                sql: "PRAGMA writable_schema = ON; CREATE TABLE main.\(entry.name.quotedIdentifier) (a)")
            try memory.execute(sql: "UPDATE main.sqlite_schema SET sql = ?", arguments: [sql])
            try memory.execute(sql: "PRAGMA writable_schema = RESET")
            guard let values = try ValueTable(TableShape(entry.name, in: memory), in: memory) else { return nil }
            return (values, try SalvagedTable(entry.name, in: memory, asValues: true))
        }
        guard let (values, table) = found else { return nil }
        if let obstacle = values.salvageObstacle {
            let names = missing.names.joined(separator: ", ")
            throw DatabaseError(
                message: "it needs \(names), which this program lacks, and \(obstacle), so its rows are listed")
        }
        self.values = values
        self.table = table
        self.entry = entry
        needs = missing.names
    }

    private static func configuration(_ program: Configuration) -> Configuration {
        var configuration = Configuration()
        configuration.label = "StoreTools.definition"
        configuration.trustsSchema = program.trustsSchemaOfOthers
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.prepareDatabase = program.prepareDatabase
        return configuration
    }
}

extension SalvagedTable {
    /// The values of columns that were added after a row was written, whose record ends before them.
    ///
    /// - Parameter columns: The names, types and defaults of the columns, as the definition writes them.
    /// - Throws: `DatabaseError`.
    static func defaults(of columns: [(type: String, value: String?)], in db: Database) throws -> [DatabaseValue] {
        try columns.map { type, value in
            guard let value else { return .null }
            do {
                try db.execute(
                    sql: "CREATE TEMP TABLE added (a \(type.isEmpty ? "" : type.quotedIdentifier) DEFAULT (\(value)))")
                defer { try? db.execute(sql: "DROP TABLE temp.added") }
                try db.execute(sql: "INSERT INTO temp.added DEFAULT VALUES")
                return try DatabaseValue.fetchOne(db, sql: "SELECT a FROM temp.added") ?? .null
            } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
                // A function of the program: SQLite adds no column with such a default, so no row lacks the value.
                return .null
            }
        }
    }
}
