import CipherStore

/// A full-text index whose texts this connection cannot compute: a view, or a generated column, needs a function or a
/// module of the program.
struct NeedingIndex {
    let name: String
    /// Each part with its kind, such as `function prog`.
    let parts: [String]

    /// As in `full-text index "words", which needs function prog`.
    var text: String { "full-text index \"\(name)\", which needs \(parts.joined(separator: ", "))" }

    /// Nil where the connection can compute the texts.
    init?(_ index: FullTextIndex, _ db: Database) throws {
        guard case .table(let content) = index.content else { return nil }
        do {
            _ = try db.makeStatement(sql: "SELECT * FROM main.\(content.quotedIdentifier)")
            return nil
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            guard let first = Self.part(in: error.message ?? "") else { return nil }
            // SQLite names one part, also that of a view. A table may need several.
            let parts = try MissingParts(of: db, table: content).names
            (name, self.parts) = (index.name, parts.contains(first) ? parts : [first])
        }
    }

    /// The part that SQLite's message names.
    private static func part(in message: String) -> String? {
        let beginnings = [
            ("no such function: ", "function"), ("unknown function: ", "function"),
            ("no such collation sequence: ", "collation"), ("no such module: ", "module"),
        ]
        for (beginning, kind) in beginnings where message.hasPrefix(beginning) {
            let name = message.dropFirst(beginning.count)
            return "\(kind) \(name.hasSuffix("()") ? name.dropLast(2) : name)"
        }
        return nil
    }

    /// Takes SQLite's messages about such indexes out of those of a `quick_check`: they name no damage.
    ///
    /// - Returns: The other messages, `ok` alone without any, and the indexes.
    /// - Throws: `DatabaseError`.
    static func setAside(
        _ messages: [String], _ db: Database
    ) throws -> (messages: [String], indexes: [NeedingIndex]) {
        guard messages != ["ok"] else { return (messages, []) }
        var (rest, found) = (messages, [NeedingIndex]())
        for index in try FullTextIndex.all(db) {
            guard let needing = try NeedingIndex(index, db) else { continue }
            let own = try String.fetchAll(db, sql: "PRAGMA main.quick_check(\(index.name.quotedIdentifier))")
            rest.removeAll { own.contains($0) }
            found.append(needing)
        }
        return (rest.isEmpty ? ["ok"] : rest, found)
    }
}
