// The facts that the text of a statement shows before it runs.

extension Statement {
    /// Whether a statement is VACUUM, of which SQLite reports nothing when it is compiled.
    static func isVacuum(_ handle: StatementHandle) -> Bool {
        !handle.isReadonly && SQLToken.tokens(of: handle.sql).first?.isWord("vacuum") == true
    }

    /// Whether a statement is the pragma that reads the journal mode.
    static func asksForJournalMode(_ sql: String) -> Bool {
        CipherPragma.leadingPragma(of: sql) == "journal_mode" && !sql.contains { $0 == "=" || $0 == "(" }
    }
}

extension String {
    /// The text without blanks, semicolons and comments' line ends around it.
    func trimmingSQL() -> String {
        let isEdge: (Character) -> Bool = { $0.isWhitespace || $0 == ";" }
        guard let first = firstIndex(where: { !isEdge($0) }), let last = lastIndex(where: { !isEdge($0) }) else {
            return ""
        }
        return first == startIndex && last == index(before: endIndex) ? self : String(self[first...last])
    }
}
