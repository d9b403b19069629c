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
    /// As ``operation``, but only beside `AND`, `OR`, `NOT`, comparisons and calculations: program text may be a part
    /// of another construct.
    case text

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
        if self == .text {
            return former.map { $0.isOperator(amongWords: ["and", "or", "not"]) } ?? false
                || next.map { $0.isOperator(amongWords: SQLToken.operatorWords) } ?? false
        }
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

extension SQLToken {
    /// The operators behind an expression that are words.
    fileprivate static let operatorWords: Set<String> = [
        "and", "between", "glob", "in", "is", "isnull", "like", "match", "not", "notnull", "or", "regexp",
    ]

    private static let operatorSymbols: Set<String> = [
        "=", "==", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "||", "<<", ">>", "->", "->>",
        "~",
    ]

    /// Words at which a text is no single expression: a clause, a part of one, or an operand with a suffix.
    private static let clauseWords: Set<String> = [
        "all", "as", "asc", "by", "check", "constraint", "cross", "default", "delete", "desc", "distinct", "else",
        "escape", "except", "from", "group", "having", "insert", "intersect", "into", "join", "limit", "offset", "on",
        "order", "references", "returning", "select", "set", "then", "union", "update", "using", "values",
        "when", "where", "window", "with",
    ]

    fileprivate func isOperator(amongWords words: Set<String>) -> Bool {
        kind == .word
            ? words.contains(text.lowercasedASCII) : kind == .symbol && Self.operatorSymbols.contains(text)
    }

    /// Whether tokens are one expression with an operator outside of brackets; false if they may be anything else.
    ///
    /// - Parameter tokens: nil stands for an operand.
    package static func isOperation(_ tokens: [SQLToken?]) -> Bool {
        guard let first = tokens.first, let last = tokens.last else { return false }
        let prefixes = ["+", "-", "~"]
        if let first, first.isOperator(amongWords: operatorWords.subtracting(["not"])) {
            guard prefixes.contains(where: first.isSymbol) else { return false }
        }
        // `NOT LIKE x` and `NOT NULL` are suffixes, and `x IS` may stand before NOT.
        if first?.isWord("not") == true { return false }
        if let last, last.isOperator(amongWords: operatorWords.subtracting(["isnull", "notnull"])) { return false }
        var (depth, ranges, hasOperator) = (0, 0, false)
        for (index, token) in tokens.enumerated() {
            guard let token else { continue }
            if token.isSymbol("(") || token.isWord("case") { depth += 1 }
            if token.isSymbol(")") || token.isWord("end") { depth -= 1 }
            if depth < 0 { return false }
            guard depth == 0 else { continue }
            if token.isSymbol(",") || token.isSymbol(";") { return false }
            if token.kind == .word, clauseWords.contains(token.text.lowercasedASCII) { return false }
            // The AND of a BETWEEN may be missing.
            if token.isWord("between") { ranges += 1 }
            if token.isWord("and") { ranges -= 1 }
            if index > 0, token.isOperator(amongWords: operatorWords) { hasOperator = true }
        }
        return depth == 0 && ranges <= 0 && hasOperator
    }
}
