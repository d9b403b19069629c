import CipherDatabase

/// The collations, functions, modules and tokenizers that a schema names and a connection does not have, because only
/// the program that uses the database brings them.
///
/// Such a database is sound, but this connection cannot evaluate all of its SQL.
package struct MissingParts: Hashable, Sendable {
    /// Names of collations, as the schema writes them.
    package private(set) var collations: Set<String> = []
    /// Names of functions, as the schema writes them.
    private(set) var functions: Set<String> = []
    /// Names of the modules of virtual tables, as the schema writes them.
    package private(set) var modules: Set<String> = []
    /// Virtual tables whose module is there, and which SQLite still cannot use: their tokenizer or their settings are
    /// not known to this connection.
    private(set) var virtualTables: Set<String> = []

    /// Nothing.
    init() {}

    /// The parts that the schema of the main database lacks.
    ///
    /// - Parameter table: A table, to look only at it and at its indexes; nil for the whole schema.
    /// - Throws: `DatabaseError`.
    package init(of db: Database, table: String? = nil) throws {
        let known = try KnownParts(db)
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, sql, rootpage, tbl_name FROM main.sqlite_schema
                WHERE sql IS NOT NULL AND type IN ('table', 'index')
                """)
        let wanted = table?.lowercasedASCII
        for row in rows where wanted == nil || (row[4] as String).lowercasedASCII == wanted {
            let tokens = SQLToken.tokens(of: row[2])
            if (row[0] as String) == "table", (row[3] as Int?) ?? 0 == 0 {
                try addModule(of: tokens, table: row[1], known, db)
            } else {
                add(tokens, isIndex: (row[0] as String) == "index", known)
            }
        }
        collations = try collations.filter { try !Self.hasCollation($0, db) }
    }

    /// The parts that the definition of an ordinary table lacks.
    ///
    /// - Throws: `DatabaseError`.
    package init(ofTable sql: String, in db: Database) throws { try self.init([(sql, false)], db) }

    /// The parts that the definition of an index lacks.
    ///
    /// - Throws: `DatabaseError`.
    package init(ofIndex sql: String, in db: Database) throws { try self.init([(sql, true)], db) }

    /// The parts that the definition of an index and that of its table lack.
    ///
    /// - Throws: `DatabaseError`.
    package init(ofIndex sql: String, on table: String, in db: Database) throws {
        try self.init([(sql, true), (table, false)], db)
    }

    private init(_ definitions: [(sql: String, isIndex: Bool)], _ db: Database) throws {
        let known = try KnownParts(db)
        for (sql, isIndex) in definitions { add(SQLToken.tokens(of: sql), isIndex: isIndex, known) }
        collations = try collations.filter { try !Self.hasCollation($0, db) }
    }

    /// Whether nothing is missing.
    package var isEmpty: Bool {
        collations.isEmpty && functions.isEmpty && modules.isEmpty && virtualTables.isEmpty
    }

    /// Each part with its kind, in order, such as `collation prog`.
    package var names: [String] {
        collations.sorted().map { "collation \($0)" } + functions.sorted().map { "function \($0)" }
            + modules.sorted().map { "module \($0)" }
            + virtualTables.sorted().map { "tokenizer or settings of virtual table \($0)" }
    }

    private mutating func addModule(
        of tokens: [SQLToken], table: String, _ known: KnownParts, _ db: Database
    ) throws {
        guard let using = tokens.firstIndex(where: { $0.isWord("using") }), using + 1 < tokens.count,
            let module = tokens[using + 1].name
        else { return }
        guard known.modules.contains(module.lowercasedASCII) else {
            modules.insert(module)
            return
        }
        do {
            _ = try db.makeStatement(sql: "SELECT 1 FROM main.\(table.quotedDatabaseIdentifier) LIMIT 0")
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            virtualTables.insert(table)
        }
    }

    /// - Parameter isIndex: Whether the tokens are those of an index, whose expressions begin in its first brackets.
    private mutating func add(_ tokens: [SQLToken], isIndex: Bool, _ known: KnownParts) {
        // Before the first bracket are the names of table and index.
        guard let first = tokens.firstIndex(where: { $0.isSymbol("(") }) else { return }
        var depth = 0
        for index in first..<tokens.count {
            let token = tokens[index]
            if token.isSymbol("(") {
                depth += 1
            } else if token.isSymbol(")") {
                depth -= 1
            } else if index + 1 < tokens.count {
                let next = tokens[index + 1]
                if Self.isRegularExpression(at: index, tokens), !known.functions.contains("regexp") {
                    functions.insert("regexp")
                }
                if token.isWord("collate"), let name = next.name {
                    collations.insert(name)
                }
                // In the first brackets of a table are types such as VARCHAR(20), and no expressions.
                if next.isSymbol("("), depth != 1 || isIndex, let name = token.name, token.kind != .string,
                    !Self.isType(after: index, tokens), !known.isFunctionOrKeyword(name)
                {
                    functions.insert(name)
                }
            }
        }
    }

    /// Whether the word at a position is the operator REGEXP, which SQLite has no function for, and not a name.
    /// - SeeAlso: <https://www.sqlite.org/lang_expr.html#the_like_glob_regexp_match_and_extract_operators>
    private static func isRegularExpression(at index: Int, _ tokens: [SQLToken]) -> Bool {
        guard tokens[index].isWord("regexp"), index > 0 else { return false }
        let before = tokens[index - 1]
        switch before.kind {
        case .word: return before.isWord("not") || !KnownParts.keywords.contains(before.text.lowercasedASCII)
        case .symbol: return before.isSymbol(")")
        default: return true
        }
    }

    /// Whether the connection can use a collation. `PRAGMA collation_list` has names that a schema has only mentioned.
    private static func hasCollation(_ name: String, _ db: Database) throws -> Bool {
        do {
            _ = try db.makeStatement(sql: "SELECT 'a' < 'b' COLLATE \(name.quotedDatabaseIdentifier)")
            return true
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            return false
        }
    }

    /// Whether the word at a position is the type in `CAST(x AS VARCHAR(20))`, or the table in `REFERENCES parent(id)`.
    private static func isType(after index: Int, _ tokens: [SQLToken]) -> Bool {
        index > 0 && (tokens[index - 1].isWord("as") || tokens[index - 1].isWord("references"))
    }
}

/// The names that a connection knows, in lower case.
private struct KnownParts {
    let modules: Set<String>
    let functions: Set<String>

    /// Words before a bracket that are no functions.
    /// - SeeAlso: <https://www.sqlite.org/lang_keywords.html>
    static let keywords: Set<String> = [
        "all", "and", "as", "between", "by", "case", "cast", "check", "collate", "default", "distinct", "else",
        "except",
        "exists", "filter", "from", "glob", "having", "in", "intersect", "is", "isnull", "key", "like", "limit",
        "match", "not", "notnull", "null", "offset", "on", "or", "over", "raise", "regexp", "returning", "select",
        "set", "then", "union", "unique", "using", "values", "when", "where", "with",
    ]

    init(_ db: Database) throws {
        func names(_ pragma: String) throws -> Set<String> {
            Set(try String.fetchAll(db, sql: "SELECT name FROM pragma_\(pragma)").map(\.lowercasedASCII))
        }
        modules = try names("module_list")
        functions = try names("function_list")
    }

    func isFunctionOrKeyword(_ name: String) -> Bool {
        functions.contains(name.lowercasedASCII) || Self.keywords.contains(name.lowercasedASCII)
    }
}
