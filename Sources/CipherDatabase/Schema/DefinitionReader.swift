/// Reads the tokens of a definition one after another.
package struct DefinitionReader {
    /// Thrown for a definition that is not understood; its tokens are compared as they are.
    package struct Unknown: Error {
        package init() {}
    }

    private var tokens: ArraySlice<SQLToken>

    package init(_ tokens: some Sequence<SQLToken>) { self.tokens = Array(tokens)[...] }

    package init(_ sql: String) { self.init(SQLToken.tokens(of: sql)) }

    package var isAtEnd: Bool { tokens.isEmpty }
    package var next: SQLToken? { tokens.first }

    package func isNext(_ words: String...) -> Bool {
        tokens.count >= words.count && zip(tokens, words).allSatisfy { $0.isWord($1) }
    }

    /// Skips the words, if they are next.
    package mutating func skip(_ words: String...) -> Bool {
        guard tokens.count >= words.count, zip(tokens, words).allSatisfy({ $0.isWord($1) }) else { return false }
        tokens.removeFirst(words.count)
        return true
    }

    package mutating func skip(symbol: String) -> Bool {
        guard let token = tokens.first, token.isSymbol(symbol) else { return false }
        tokens.removeFirst()
        return true
    }

    package mutating func require(_ words: String...) throws {
        for word in words where !skip(word) { throw Unknown() }
    }

    mutating func require(symbol: String) throws { if !skip(symbol: symbol) { throw Unknown() } }

    package mutating func take() throws -> SQLToken {
        guard let token = tokens.popFirst() else { throw Unknown() }
        return token
    }

    /// A name, in lower case.
    package mutating func takeName() throws -> String {
        guard let name = try take().name else { throw Unknown() }
        return name.lowercasedASCII
    }

    /// The last part of a name that may have the name of its schema before it.
    package mutating func takeQualifiedName() throws -> String {
        let name = try takeName()
        return skip(symbol: ".") ? try takeName() : name
    }

    /// The content of the parentheses that are next.
    package mutating func takeParentheses() throws -> [SQLToken] {
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
    package mutating func takeRest() -> [SQLToken] {
        defer { tokens = [] }
        return tokens.filter { !$0.isSymbol(";") || $0.bytes != tokens.last?.bytes }
    }
}

extension Collection where Element == SQLToken {
    /// The parts between the commas outside of parentheses.
    package func splitAtCommas() -> [[SQLToken]] {
        var parts: [[SQLToken]] = [[]]
        var depth = 0
        for token in self {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0 && token.isSymbol(",") { parts.append([]) } else { parts[parts.count - 1].append(token) }
        }
        return parts
    }

    /// The tokens of an expression of a table, with quoted names and strings as SQLite reads them: a name in double
    /// quotes is text where text is allowed and no column has that name, and a string is a name where only a name is
    /// allowed. Names of columns lose the table name before them, which `ALTER TABLE RENAME` writes in quotes.
    package func withNames(of columns: Set<String>) -> [SQLToken] {
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
}

extension SQLToken {
    /// The same text, read as another kind of token.
    package func `as`(_ kind: Kind) -> SQLToken { SQLToken(kind: kind, text: text, bytes: bytes) }
}
