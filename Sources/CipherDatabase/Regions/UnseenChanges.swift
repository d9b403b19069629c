// The changes that SQLite's update hook does not report: those of tables without rowid, the rows that a REPLACE
// removes, and changes of the schema. For each statement it is known before it runs whether it may cause them, so that
// a follower of a region can count them, if with less precision. https://www.sqlite.org/c3ref/update_hook.html

/// The facts in the schema about unreported changes of a table.
package struct UnseenChanges {
    /// Whether the changes of its rows are reported: not those of a table without rowid.
    package let reportsRows: Bool
    /// Whether its constraints, or a trigger, may remove rows by `REPLACE`. It is true too often rather than too rarely.
    package let replaces: Bool
}

/// The definition of a table or trigger that has the word `replace`.
struct ReplacingDefinition {
    let isTrigger: Bool
    /// In lower case.
    let name: String
    /// The definition of a trigger, in lower case.
    let sql: String
}

extension Database {
    /// Reads in the schema which changes of a table are not reported.
    package func unseenChanges(of table: String) -> UnseenChanges {
        withoutWatching {
            // Views and virtual tables have no key.
            let reportsRows = (try? primaryKey(table))?.tableHasRowID ?? true
            return UnseenChanges(reportsRows: reportsRows, replaces: (try? schemaNamesReplace(for: table)) ?? true)
        }
    }

    /// Whether the definition of a table, or of a trigger that names it, has the word `replace`.
    private func schemaNamesReplace(for table: String) throws -> Bool {
        let name = table.lowercasedASCII
        // A name with one of these is written with escapes.
        let isEscaped = name.contains { "\"'`[]".contains($0) }
        try compareSchema()
        return try schemaIDs(named: nil).contains { schemaID in
            try replacingDefinitions(of: schemaID).contains { definition in
                definition.isTrigger ? isEscaped || definition.sql.contains(name) : definition.name == name
            }
        }
    }

    /// The tables and triggers whose definitions have the word `replace`.
    private func replacingDefinitions(of schemaID: DatabaseSchemaID) throws -> [ReplacingDefinition] {
        if let known = schemaCache.replacing[schemaID] { return known }
        var found: [ReplacingDefinition] = []
        let rows = try Row.fetchCursor(
            self,
            sql: """
                SELECT type, name, sql FROM \(schemaID.schemaTable)
                WHERE type IN ('table', 'trigger') AND sql IS NOT NULL
                """)
        while let row = try rows.next() {
            let sql = (row[2] as String).lowercasedASCII
            if !sql.contains("replace") { continue }
            let isTrigger = (row[0] as String) == "trigger"
            found.append(
                ReplacingDefinition(
                    isTrigger: isTrigger, name: (row[1] as String).lowercasedASCII, sql: isTrigger ? sql : ""))
        }
        schemaCache.replacing[schemaID] = found
        return found
    }
}

extension Statement {
    /// Whether the text has the word `replace`, also as a function or in a text.
    package var namesReplace: Bool {
        if let known = access.namesReplace { return known }
        let found = sql.lowercasedASCII.contains("replace")
        access.namesReplace = found
        return found
    }

    /// The tables that the statement drops, renames or alters.
    package var redefinedTables: Set<String> { effects.contains(.schema) ? record(withReads: false).redefined : [] }

    /// Whether the statement creates or drops a view. A query that reads a view of that name may read other tables then.
    package var redefinesViews: Bool { effects.contains(.views) }
}
