// SQL text reduced to its meaning: two spellings of one definition become the same.

/// Reads the tokens of a definition one after another.
struct DefinitionReader {
    /// Thrown for a definition that is not understood; its tokens are compared as they are.
    struct Unknown: Error {}

    private var tokens: ArraySlice<SQLToken>

    init(_ tokens: some Sequence<SQLToken>) { self.tokens = Array(tokens)[...] }

    init(_ sql: String) { self.init(SQLToken.tokens(of: sql)) }

    var isAtEnd: Bool { tokens.isEmpty }
    var next: SQLToken? { tokens.first }

    func isNext(_ words: String...) -> Bool {
        tokens.count >= words.count && zip(tokens, words).allSatisfy { $0.isWord($1) }
    }

    /// Skips the words, if they are next.
    mutating func skip(_ words: String...) -> Bool {
        guard tokens.count >= words.count, zip(tokens, words).allSatisfy({ $0.isWord($1) }) else { return false }
        tokens.removeFirst(words.count)
        return true
    }

    mutating func skip(symbol: String) -> Bool {
        guard let token = tokens.first, token.isSymbol(symbol) else { return false }
        tokens.removeFirst()
        return true
    }

    mutating func require(_ words: String...) throws {
        for word in words where !skip(word) { throw Unknown() }
    }

    mutating func require(symbol: String) throws { if !skip(symbol: symbol) { throw Unknown() } }

    mutating func take() throws -> SQLToken {
        guard let token = tokens.popFirst() else { throw Unknown() }
        return token
    }

    /// A name, in lower case.
    mutating func takeName() throws -> String {
        guard let name = try take().name else { throw Unknown() }
        return name.lowercasedASCII
    }

    /// The last part of a name that may have the name of its schema before it.
    mutating func takeQualifiedName() throws -> String {
        let name = try takeName()
        return skip(symbol: ".") ? try takeName() : name
    }

    /// The content of the parentheses that are next.
    mutating func takeParentheses() throws -> [SQLToken] {
        try require(symbol: "(")
        var depth = 1
        var taken: [SQLToken] = []
        while true {
            let token = try take()
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0 { return taken }
            taken.append(token)
        }
    }

    /// Everything up to the end, without a semicolon.
    mutating func takeRest() -> [SQLToken] {
        defer { tokens = [] }
        return tokens.filter { !$0.isSymbol(";") || $0.bytes != tokens.last?.bytes }
    }
}

extension Collection where Element == SQLToken {
    /// The parts between the commas outside of parentheses.
    func splitAtCommas() -> [[SQLToken]] {
        var parts: [[SQLToken]] = [[]]
        var depth = 0
        for token in self {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0 && token.isSymbol(",") { parts.append([]) } else { parts[parts.count - 1].append(token) }
        }
        return parts
    }

    /// The tokens as text that is the same for every spelling of an expression.
    ///
    /// - Parameter columns: The names of columns, in lower case, where the expression belongs to a table and sees no
    ///   others. Nil where every name in double quotes is taken for a name.
    func normalized(columns: Set<String>? = nil) -> String {
        var tokens = Array(self)
        while let inner = tokens.insideParentheses { tokens = inner }
        if let columns { tokens = tokens.withNames(of: columns) }
        return tokens.map(\.normalized).joined(separator: " ")
    }

    /// The tokens of an expression of a table, with quoted names and strings as SQLite reads them: a name in double
    /// quotes is text where text is allowed and no column has that name, and a string is a name where only a name is
    /// allowed. Names of columns lose the table name before them, which `ALTER TABLE RENAME` writes in quotes.
    func withNames(of columns: Set<String>) -> [SQLToken] {
        let tokens = Array(self)
        var read: [SQLToken] = []
        // Between the AS of a CAST and the next parenthesis; no other AS is allowed in these expressions.
        var isInType = false
        for (index, token) in tokens.enumerated() {
            let last = index > 0 ? tokens[index - 1] : nil
            let next = index + 1 < tokens.count ? tokens[index + 1] : nil
            if token.isSymbol("(") || token.isSymbol(")") { isInType = false }
            if token.isSymbol(".") || token.name != nil && next?.isSymbol(".") == true { continue }
            let isName =
                isInType || last?.isSymbol(".") == true || last?.isWord("collate") == true
                || next?.isSymbol("(") == true
            switch token.kind {
            case .string where isName: read.append(token.as(.bracketedName))
            case .quotedName where !isName && !columns.contains(token.text.lowercasedASCII):
                read.append(token.as(.string))
            default: read.append(token)
            }
            if token.isWord("as") { isInType = true }
        }
        return read
    }

    /// The content of the parentheses that enclose all tokens; nil where none do.
    private var insideParentheses: [SQLToken]? {
        guard count > 2, first?.isSymbol("(") == true else { return nil }
        var depth = 0
        for (offset, token) in enumerated() {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0 { return offset == count - 1 ? Array(dropFirst().dropLast()) : nil }
        }
        return nil
    }
}

extension SQLToken {
    /// The token as text that is the same for every spelling: names in lower case and in one kind of quotes, numbers by
    /// their value, operators by their first name.
    fileprivate var normalized: String {
        switch kind {
        case .word, .quotedName, .bracketedName: return "\"\(text.lowercasedASCII)\""
        case .string: return DatabaseValue(.string(text)).literal
        case .blob: return text.lowercasedASCII
        case .number: return normalizedNumber
        case .parameter: return text
        case .symbol:
            switch text {
            case "==": return "="
            case "!=": return "<>"
            default: return text
            }
        }
    }

    /// The same text, read as another kind of token.
    func `as`(_ kind: Kind) -> SQLToken { SQLToken(kind: kind, text: text, bytes: bytes) }

    private var normalizedNumber: String {
        let digits = text.filter { $0 != "_" }.lowercasedASCII
        if digits.hasPrefix("0x"), let value = UInt64(digits.dropFirst(2), radix: 16) {
            return String(Int64(bitPattern: value))
        }
        if let value = Int64(digits) { return String(value) }
        return Double(digits).map { "\($0)" } ?? digits
    }
}
