import CipherStore

/// A virtual table: its entry in the schema is only its text, and its content is in ordinary tables, its shadow tables.
/// - SeeAlso: <https://www.sqlite.org/vtab.html#the_xshadowname_method>
struct VirtualTable {
    let name: String
    private let module: String
    /// What follows the name of the module, in lower case.
    private let arguments: String

    /// - Returns: Nil for an entry that is not one of a virtual table.
    init?(_ entry: SchemaEntry) {
        guard entry.type == "table", !entry.hasPages, let sql = entry.sql,
            let found = sql.firstMatch(of: Self.definition)
        else { return nil }
        name = entry.name
        module = found.1.lowercased()
        arguments = sql[found.range.upperBound...].lowercased()
    }

    // SQLite stores the statement without IF NOT EXISTS and without the name of the database.
    private static var definition: Regex<(Substring, Substring)> {
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

    /// An index of another table, or of none, has no table with the texts.
    private var ownContent: [String] { has("content") ? [] : ["content"] }

    private func has(_ option: String) -> Bool {
        arguments.split { ",(".contains($0) }.contains { argument in
            let words = argument.split(separator: "=", maxSplits: 1)
            return words.count == 2 && words[0].trimmingPrefix { $0.isWhitespace }.prefix { !$0.isWhitespace } == option
        }
    }

    /// Why SQLite cannot use it; nil where it can, and where only a program that brings its module or its tokenizer can.
    ///
    /// - Throws: What is no error of SQLite.
    func failure(in db: Database) throws -> String? {
        do {
            _ = try db.makeStatement(sql: "SELECT 1 FROM main.\(name.quotedIdentifier) LIMIT 0")
            return nil
        } catch let error as DatabaseError {
            let message = error.message ?? error.description
            return ["no such module", "no such tokenizer", "unknown tokenizer"].contains(where: message.contains)
                ? nil : message
        }
    }
}
