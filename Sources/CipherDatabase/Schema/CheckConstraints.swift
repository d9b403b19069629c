/// The CHECK constraints of a table, as conditions on the new row of a trigger.
///
/// SQLite checks a row after the BEFORE triggers have run, and with `OR IGNORE` it skips the row and keeps what these
/// triggers have done. A BEFORE trigger that must not run for nothing evaluates the constraints itself.
///
/// - SeeAlso: <https://www.sqlite.org/lang_createtable.html#check_constraints>,
///   <https://www.sqlite.org/lang_conflict.html>
enum CheckConstraints {
    /// Conditions each of which is true if the row `new` breaks a constraint.
    ///
    /// - Parameters:
    ///   - definition: The `CREATE TABLE` statement.
    ///   - columns: The names of all columns.
    static func violations(of definition: String, columns: [String]) -> [String] {
        let names = columns + RowIDName.visible(beside: columns)
        let known = Set(names.map(\.lowercasedASCII))
        return expressions(in: definition).map { expression in
            let tokens = expression.withNames(of: known)
            let mentioned = Set(tokens.compactMap { $0.name?.lowercasedASCII })
            // A name of the expression is that of a column here too, with its affinity and collation.
            let values = names.filter { mentioned.contains($0.lowercasedASCII) }.map(\.quotedDatabaseIdentifier)
                .map { "new.\($0) AS \($0)" }
            let row = values.isEmpty ? "" : " FROM (SELECT \(values.joined(separator: ", ")))"
            return "EXISTS (SELECT 1\(row) WHERE NOT (\(tokens.map(\.sql).joined(separator: " "))))"
        }
    }

    /// The content of the parentheses after each CHECK.
    private static func expressions(in definition: String) -> [[SQLToken]] {
        let tokens = SQLToken.tokens(of: definition)
        var found: [[SQLToken]] = []
        var depth = 0
        for (index, token) in tokens.enumerated() {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            guard depth == 1, token.isWord("check") else { continue }
            var reader = DefinitionReader(tokens[(index + 1)...])
            if let expression = try? reader.takeParentheses() { found.append(expression) }
        }
        return found
    }
}

extension SQLToken {
    /// The token as SQL.
    fileprivate var sql: String {
        switch kind {
        case .quotedName, .bracketedName: text.quotedDatabaseIdentifier
        case .string: DatabaseValue(.string(text)).literal
        case .word, .blob, .number, .parameter, .symbol: text
        }
    }
}
