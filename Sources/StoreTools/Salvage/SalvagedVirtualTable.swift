import CipherStore

/// A virtual table: its entry in the schema is only its text, and its content is in ordinary tables, its shadow tables.
/// - SeeAlso: <https://www.sqlite.org/vtab.html#the_xshadowname_method>
struct VirtualTable {
    let name: String
    private let module: String
    private let definition: String
    /// The text after the name of the module, in lower case.
    private let arguments: String

    /// - Returns: Nil for an entry that is not one of a virtual table.
    init?(_ entry: SchemaEntry) {
        guard entry.type == "table", !entry.hasPages, let sql = entry.sql,
            let found = sql.firstMatch(of: Self.pattern)
        else { return nil }
        name = entry.name
        module = found.1.lowercased()
        definition = sql
        arguments = sql[found.range.upperBound...].lowercased()
    }

    // SQLite stores the statement without IF NOT EXISTS and without the name of the database.
    private static var pattern: Regex<(Substring, Substring)> {
        #/^CREATE VIRTUAL TABLE\s+(?:"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|'(?:[^']|'')*'|[^\s"`\[']+)\s+USING\s+["`\[]?(\w+)/#
            .ignoresCase()
    }

    /// The shadow tables without which it cannot be used; empty for a module that is not one of SQLite's own.
    var shadowTables: [String] {
        let endings: [String]
        switch module {
        case "fts5":
            endings = ["data", "idx", "config"] + ownContent + (has("columnsize") ? [] : ["docsize"])
        case "fts4": endings = ["segments", "segdir"] + ownContent + (has("matchinfo") ? [] : ["docsize"])
        case "fts3": endings = ["content", "segments", "segdir"]
        case "rtree", "rtree_i32", "geopoly": endings = ["node", "parent", "rowid"]
        default: endings = []
        }
        return endings.map { "\(name)_\($0)" }
    }

    /// The shadow table with the rows of a full-text table that keeps its texts; nil for any other virtual table.
    var contentTable: String? {
        ["fts3", "fts4", "fts5"].contains(module) && !has("content") ? "\(name)_content" : nil
    }

    /// An index of another table, or of none, has no table with the texts.
    private var ownContent: [String] { has("content") ? [] : ["content"] }

    private func has(_ option: String) -> Bool {
        arguments.split { ",(".contains($0) }.contains { argument in
            let words = argument.split(separator: "=", maxSplits: 1)
            return words.count == 2 && words[0].trimmingPrefix { $0.isWhitespace }.prefix { !$0.isWhitespace } == option
        }
    }

    /// SQLite's reason why nobody can use the table, for the report. Nil for a table that SQLite can use, and for one that
    /// a program can use: the program brings the module or the tokenizer.
    ///
    /// SQLite gives SQLITE_ERROR for each of these causes. So the module and the tokenizer are looked for one by one,
    /// and no cause is read from the text.
    ///
    /// - Throws: What is no error of SQLite.
    func failure(in db: Database) throws -> String? {
        do {
            _ = try db.makeStatement(sql: "SELECT 1 FROM main.\(name.quotedIdentifier) LIMIT 0")
            return nil
        } catch let error as DatabaseError {
            let modules = try String.fetchAll(db, sql: "SELECT name FROM pragma_module_list").map(\.lowercasedASCII)
            guard modules.contains(module.lowercasedASCII) else { return nil }
            if try FullTextIndex(name: name, definition: definition)?.lacksTokenizer(db) == true { return nil }
            return error.message ?? error.description
        }
    }
}
