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
        return try schemaIDs(named: nil).contains { schemaID in
            try Bool.fetchOne(
                self,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM \(schemaID.schemaTable) WHERE sql LIKE '%replace%' AND (
                        (type = 'table' AND lower(name) = ?1) OR
                        (type = 'trigger' AND (?2 OR instr(lower(sql), ?1)))))
                    """,
                arguments: [name, isEscaped]) ?? true
        }
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
