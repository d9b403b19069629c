import CipherDatabase

/// Triggers and views with texts in double quotes, as in `WHEN new.k = "n"`, which a connection takes for names of
/// columns unless `Configuration.acceptsDoubleQuotedStringLiterals` is set.
///
/// Checks, defaults, generated columns and expressions of indexes are no such objects: SQLite reads them with the
/// schema, where it accepts these texts on every connection.
/// - SeeAlso: <https://www.sqlite.org/quirks.html#double_quoted_string_literals_are_accepted>
package struct DoubleQuotedStrings {
    /// The type and the name of each, such as `trigger "t_ai"`, in the order of the schema.
    package private(set) var objects: [String] = []

    /// Compiles statements that use the triggers and views of the main database; none is executed.
    ///
    /// - Throws: `DatabaseError`.
    package init(in db: Database) throws {
        let rows = try Row.fetchAll(
            db, sql: "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE type IN ('trigger', 'view')")
        for row in rows {
            let (type, name, table, sql): (String, String, String, String?) = (row[0], row[1], row[2], row[3])
            let tokens = SQLToken.tokens(of: sql ?? "")
            guard tokens.contains(where: { $0.kind == .quotedName }) else { continue }
            let uses =
                type == "view"
                ? ["SELECT * FROM main.\(name.quotedDatabaseIdentifier)"] : try Self.uses(of: tokens, on: table, db)
            let needsStrings = uses.contains { use in
                !Self.compiles(use, db) && db.acceptingDoubleQuotedStrings { Self.compiles(use, db) }
            }
            if needsStrings { objects.append("\(type) \"\(name)\"") }
        }
    }

    /// Statements that fire a trigger; empty where its definition is not understood.
    private static func uses(of tokens: [SQLToken], on table: String, _ db: Database) throws -> [String] {
        let name = "main.\(table.quotedDatabaseIdentifier)"
        let event = tokens.dropFirst(3).first { token in ["delete", "insert", "update"].contains(where: token.isWord) }
        guard let event else { return [] }
        if event.isWord("delete") { return ["DELETE FROM \(name)"] }
        if event.isWord("insert") { return ["INSERT INTO \(name) DEFAULT VALUES"] }
        let columns = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", arguments: [table]
        ).map(\.quotedDatabaseIdentifier)
        let changes = columns.map { "\($0) = \($0)" }
        // SQLite compiles no update of a column to which a foreign key refers that does not fit.
        return ([changes.joined(separator: ", ")] + changes).map { "UPDATE \(name) SET \($0)" }
    }

    private static func compiles(_ sql: String, _ db: Database) -> Bool {
        (try? db.makeStatement(sql: "EXPLAIN \(sql)")) != nil
    }
}
