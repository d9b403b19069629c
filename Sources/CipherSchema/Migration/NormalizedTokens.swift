import CipherDatabase

// SQL text reduced to its meaning: two spellings of one definition become the same.

extension Collection where Element == SQLToken {
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

    private var normalizedNumber: String {
        let digits = text.filter { $0 != "_" }.lowercasedASCII
        if digits.hasPrefix("0x"), let value = UInt64(digits.dropFirst(2), radix: 16) {
            return String(Int64(bitPattern: value))
        }
        if let value = Int64(digits) { return String(value) }
        return Double(digits).map { "\($0)" } ?? digits
    }
}
