/// The inputs of the triggers of a recorded table.
package struct TableFacts: Equatable {
    struct Column: Equatable {
        let name: String
        var isGenerated = false
        /// The default value of a column that is NOT NULL, as SQL: `REPLACE` puts it in the place of NULL.
        var replacement: String?
    }

    /// An index that allows no two rows with the same values.
    struct UniqueIndex: Equatable {
        /// The indexed term, as SQL: the name of a column, in quotes, or an expression.
        struct Item: Equatable {
            let sql: String
            let isColumn: Bool
            let collation: String
        }

        let items: [Item]
        /// The condition of a partial index, as SQL.
        var condition: String?
        /// The columns on which it depends; nil for all.
        var columns: Set<String>?
    }

    let name: String
    let columns: [Column]
    /// The columns of the key; for a table without a primary key a name of its rowid.
    let key: [String]
    let isRowID: Bool
    /// A name of the rowid that no column has; nil where there is none, and for tables without rowid.
    var rowIDName: String?
    /// Unique indexes. That of the key only where it takes different values for equal, as 1 and 1.0 or `a` and `A`.
    var uniqueIndexes: [UniqueIndex] = []
    /// Whether a foreign key of the table deletes rows with those that they refer to.
    var hasCascade = false

    /// Whether the triggers contain quoted names and the library's own SQL alone, so that they compile on every
    /// connection: no expression of an index, no default value, no collation of the program.
    var hasPlainTriggers: Bool {
        let collations = ["BINARY", "NOCASE", "RTRIM"]
        let hasPlainIndexes = uniqueIndexes.allSatisfy { index in
            index.condition == nil && index.items.allSatisfy { $0.isColumn && collations.contains($0.collation) }
        }
        // With few of them no limit of SQLite is near.
        return hasPlainIndexes && uniqueIndexes.count <= 20 && columns.count <= 100
            && columns.allSatisfy { !$0.isGenerated && $0.replacement == nil }
    }
}

extension TableFacts {
    /// The rows that a `REPLACE` may remove from a table, as conditions on its present rows: `"name".column =
    /// NEW.column` and the like, one for each key that allows no two equal rows.
    ///
    /// - Parameter schema: The schema of the table: `main` or `temp`.
    /// - Throws: ``HistoryError`` `.unsuitableTable` for what is no table with rows of its own; ``DatabaseError``.
    package static func replacementConditions(
        of table: String, in db: Database, schema: String = "main"
    ) throws -> [String] {
        guard let facts = try TableFacts(of: table, in: db, schema: schema) else {
            throw DatabaseError.noSuchTable(table)
        }
        let definition = HistoryUpkeep.definition(facts, notesColumns: false, kept: facts.columns.prefix(1).map(\.name))
        return HistoryTriggers(id: 0, facts: facts, definition: definition).lookupConditions
    }
}
