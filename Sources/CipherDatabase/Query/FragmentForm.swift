/// How a fragment holds together among the operators of a text.
package enum FragmentForm: Sendable {
    /// By itself: a column, a value, a call, or a part that is no expression.
    case single
    /// By parentheses.
    case operation
    /// As ``operation``, and beside `OR`. A collation behind it is that of what it compares.
    case comparison
    /// As ``comparison``. An escape character behind it is its own.
    case pattern
    /// As ``operation``, and beside `OR`.
    case conjunction

    /// Whether `OR`, and `AND` behind it, take all of it. Before it, `AND` may be that of a BETWEEN.
    private var isTighter: Bool { self == .comparison || self == .pattern || self == .conjunction }

    /// Whether the fragment needs parentheses between two texts.
    ///
    /// It needs none where only keywords, commas and brackets are next to it: `SELECT a + b FROM t WHERE a = 1`. An
    /// operator takes all of the fragment, and none of its parts: `(a OR b) AND c`.
    ///
    /// - Parameters:
    ///   - former: The text before the fragment; nil for none.
    ///   - next: The text behind it; nil for none.
    package func needsParentheses(between former: String?, and next: String?) -> Bool {
        if self == .single { return false }
        let next = next.flatMap { SQLToken.tokens(of: $0).first }
        if self == .comparison, next?.isWord("collate") == true { return false }
        if self == .pattern, next?.isWord("escape") == true { return false }
        let former = former.flatMap { SQLToken.tokens(of: $0).last }
        if let former, Self.isOperator(before: former), !(isTighter && former.isWord("or")) { return true }
        guard let next, Self.isOperator(behind: next) else { return false }
        return !(isTighter && (next.isWord("or") || next.isWord("and")))
    }

    private static func isOperator(before token: SQLToken) -> Bool {
        token.kind == .word
            ? !openings.contains(token.text.lowercasedASCII) : !token.isSymbol("(") && !token.isSymbol(",")
    }

    private static func isOperator(behind token: SQLToken) -> Bool {
        if token.kind == .word { return !endings.contains(token.text.lowercasedASCII) }
        return ![")", ",", ";"].contains(where: token.isSymbol)
    }

    /// Keywords behind which an expression begins.
    /// - SeeAlso: <https://www.sqlite.org/lang_select.html>
    private static let openings: Set<String> = [
        "all", "by", "case", "distinct", "else", "having", "limit", "offset", "on", "returning", "select", "then",
        "when",
        "where",
    ]

    /// Keywords before which an expression ends.
    private static let endings: Set<String> = [
        "as", "asc", "begin", "cross", "desc", "do", "else", "end", "except", "from", "full", "group", "groups",
        "having",
        "inner", "intersect", "join", "left", "limit", "natural", "nulls", "offset", "on", "order", "range",
        "returning",
        "right", "rows", "then", "union", "when", "where", "window",
    ]
}
