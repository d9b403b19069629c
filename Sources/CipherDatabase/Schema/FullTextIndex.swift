/// A full-text table of the main database, as its definition describes it.
///
/// - SeeAlso: <https://www.sqlite.org/fts5.html#external_content_and_contentless_tables>,
///   <https://www.sqlite.org/fts3.html#the_fts4_content_option>
package struct FullTextIndex: Equatable, Sendable {
    package enum Module: String, Sendable { case fts3, fts4, fts5 }

    /// Where the texts are.
    package enum Content: Equatable, Sendable {
        /// In a table of its own.
        case own
        /// Nowhere: only the index is stored.
        case none
        /// In a table or a view of the program.
        case table(String)
    }

    package let name: String
    package let module: Module
    package let content: Content
    /// The column by which the rows of the content are found; nil for the rowid.
    package let contentRowID: String?
    /// The column of FTS4 that holds the language of a row; nil without one.
    let languageID: String?
    /// The argument that names the tokenizer, as it is written; nil without one.
    private let tokenizer: String?
    /// The statement that creates it, as SQLite stores it: without `IF NOT EXISTS` and without a schema.
    let definition: String

    /// - Returns: Nil for what is no full-text table.
    package init?(name: String, definition: String) {
        var reader = DefinitionReader(definition)
        guard reader.skip("create", "virtual", "table"), (try? reader.takeName()) != nil, reader.skip("using"),
            let text = try? reader.takeName(), let module = Module(rawValue: text)
        else { return nil }
        let options = ((try? reader.takeParentheses()) ?? []).splitAtCommas()
        (self.name, self.module, self.definition) = (name, module, definition)
        tokenizer = options.first { $0.first?.isWord("tokenize") == true }.map { option in
            let bytes = Array(definition.utf8)
            let range = (option.first?.bytes.lowerBound ?? 0)..<(option.last?.bytes.upperBound ?? 0)
            return String(decoding: bytes[range], as: UTF8.self)
        }
        let content = module == .fts3 ? nil : Self.option("content", in: options)
        self.content = content.map { $0.isEmpty ? .none : .table($0) } ?? .own
        languageID = module == .fts4 ? Self.option("languageid", in: options) : nil
        contentRowID = module == .fts5 ? Self.option("content_rowid", in: options) : nil
    }

    /// The full-text tables of a schema, by their names.
    package static func all(in schema: String = "main", _ db: Database) throws -> [FullTextIndex] {
        let sql = """
            SELECT name, sql FROM \(schema).sqlite_schema
            WHERE type = 'table' AND rootpage = 0 AND sql IS NOT NULL ORDER BY name
            """
        return try Row.fetchAll(db.statement(forFetching: sql)).compactMap { row in
            FullTextIndex(name: row[0], definition: row[1])
        }
    }

    /// The value of `option=value`; empty without a value, nil without the option.
    private static func option(_ name: String, in options: [[SQLToken]]) -> String? {
        for tokens in options where tokens.count > 1 && tokens[0].isWord(name) && tokens[1].isSymbol("=") {
            return tokens.count > 2 ? tokens[2].text : ""
        }
        return nil
    }

    private var quotedName: String { name.quotedDatabaseIdentifier }

    /// The statement that creates the table in a schema.
    package func creation(in schema: String) -> String {
        // SQLite stores these words in this way.
        "CREATE VIRTUAL TABLE \(schema)." + definition.dropFirst("CREATE VIRTUAL TABLE ".count)
    }

    /// The statement that makes the index again from its texts; nil where the texts are not stored.
    package var rebuilding: String? {
        content == .none ? nil : "INSERT INTO \(quotedName)(\(quotedName)) VALUES('rebuild')"
    }

    /// The statement by which SQLite compares the index with the texts. It is a statement that writes, though it changes
    /// nothing.
    ///
    /// - Parameter schema: The schema of the table.
    package func checking(in schema: String = "main") -> String {
        let table = "\(schema).\(quotedName)"
        // Without the rank, FTS5 does not compare with texts that are elsewhere.
        return module == .fts5
            ? "INSERT INTO \(table)(\(quotedName), rank) VALUES('integrity-check', 1)"
            : "INSERT INTO \(table)(\(quotedName)) VALUES('integrity-check')"
    }

    /// Whether the index has the words of its texts, and no others.
    ///
    /// - Parameter schema: The schema of the table, which is written to for SQLite.
    /// - Throws: ``DatabaseError`` where it cannot be checked, as without its tokenizer.
    package func fits(in schema: String = "main", _ db: Database) throws -> Bool {
        do {
            try db.execute(sql: checking(in: schema))
            return true
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CORRUPT_VTAB {
            return false
        }
    }

    /// Whether this connection lacks the tokenizer of the table, which only the program brings.
    ///
    /// SQLite gives one code for every reason why it cannot use a virtual table. So the tokenizer alone is tried, by a
    /// temporary table that has nothing else.
    package func lacksTokenizer(_ db: Database) throws -> Bool {
        guard let tokenizer else { return false }
        let trial = "temp.cipherstore_tokenizer"
        return try db.withoutHistoryUpkeep {
            do {
                try db.execute(sql: "CREATE VIRTUAL TABLE \(trial) USING \(module.rawValue)(text, \(tokenizer))")
            } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
                return true
            }
            try db.execute(sql: "DROP TABLE \(trial)")
            return false
        }
    }

    /// Whether VACUUM may give other rowids to the rows of the content, since no column holds them.
    func losesRowsByVacuum(_ db: Database) throws -> Bool {
        guard case .table(let table) = content, try db.tableExists(table, in: "main") else { return false }
        let key = try db.primaryKey(table, in: "main")
        guard key.tableHasRowID, key.rowIDColumn == nil else { return false }
        let names = try db.columns(in: table, in: "main").map(\.name.lowercasedASCII)
        // A column of the program keeps its values.
        return !names.contains((contentRowID ?? "rowid").lowercasedASCII)
    }
}
