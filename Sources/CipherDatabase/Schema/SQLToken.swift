/// A token of SQL text, as SQLite's tokenizer reads it, without whitespace and comments.
/// - SeeAlso: <https://www.sqlite.org/lang_expr.html#literal_values_constants_>
package struct SQLToken {
    package enum Kind {
        /// A keyword, or a name without quotes.
        case word
        /// A name in `"double quotes"`, which SQLite may also read as text.
        case quotedName
        /// A name in `[brackets]` or backquotes.
        case bracketedName
        case string
        case blob
        case number
        /// `?`, `?1`, `:name`, `@name` or `$name`.
        case parameter
        /// An operator, a bracket, a comma, or a byte without meaning in SQL.
        case symbol
    }

    package let kind: Kind
    /// Names and strings without their quotes; the others as they are written.
    package let text: String
    /// Its position, in bytes of UTF-8.
    let bytes: Range<Int>

    /// Whether it is this keyword, ignoring case.
    package func isWord(_ word: String) -> Bool { kind == .word && text.lowercasedASCII == word }

    package func isSymbol(_ symbol: String) -> Bool { kind == .symbol && text == symbol }

    /// The name that the token stands for; nil when it cannot be one. SQLite takes a string for a name where it
    /// expects one.
    package var name: String? {
        switch kind {
        case .word, .quotedName, .bracketedName, .string: text
        default: nil
        }
    }

    /// All tokens of a text.
    package static func tokens(of sql: String) -> [SQLToken] {
        var scanner = SQLScanner(sql)
        var tokens: [SQLToken] = []
        while let token = scanner.next() { tokens.append(token) }
        return tokens
    }
}

/// Splits SQL text into tokens.
private struct SQLScanner {
    private let bytes: [UInt8]
    private var position = 0

    init(_ sql: String) { bytes = Array(sql.utf8) }

    mutating func next() -> SQLToken? {
        skipBlanks()
        guard position < bytes.count else { return nil }
        let byte = bytes[position]
        switch byte {
        case ascii("'"): return quoted(.string, until: byte)
        case ascii("\""): return quoted(.quotedName, until: byte)
        case ascii("`"): return quoted(.bracketedName, until: byte)
        case ascii("["): return bracketed()
        case ascii("x"), ascii("X"):
            return peek(1) == ascii("'") ? blob() : take(.word, Self.isNamePart)
        case ascii("0")...ascii("9"): return number()
        case ascii(".") where peek(1).map(Self.isDigit) == true: return number()
        case ascii("?"), ascii(":"), ascii("@"), ascii("$"): return parameter()
        default: return Self.isNamePart(byte) ? take(.word, Self.isNamePart) : symbol()
        }
    }

    // MARK: Kinds of tokens

    private mutating func skipBlanks() {
        while position < bytes.count {
            switch bytes[position] {
            case 9, 10, 12, 13, 32: position += 1
            case ascii("-") where peek(1) == ascii("-"):
                position = bytes[position...].firstIndex(of: 10) ?? bytes.count
            case ascii("/") where peek(1) == ascii("*"):
                position += 2
                while position < bytes.count, !bytes[position...].starts(with: "*/".utf8) { position += 1 }
                position = min(position + 2, bytes.count)
            default: return
            }
        }
    }

    /// Text between quotes, in which a doubled quote stands for one.
    private mutating func quoted(_ kind: SQLToken.Kind, until quote: UInt8) -> SQLToken {
        let start = position
        var content: [UInt8] = []
        position += 1
        while position < bytes.count {
            if bytes[position] == quote {
                guard peek(1) == quote else { break }
                position += 1
            }
            content.append(bytes[position])
            position += 1
        }
        position = min(position + 1, bytes.count)
        return SQLToken(kind: kind, text: String(decoding: content, as: UTF8.self), bytes: start..<position)
    }

    private mutating func bracketed() -> SQLToken {
        let start = position
        let end = bytes[position...].firstIndex(of: ascii("]")) ?? bytes.count
        position = min(end + 1, bytes.count)
        return SQLToken(
            kind: .bracketedName, text: String(decoding: bytes[(start + 1)..<end], as: UTF8.self),
            bytes: start..<position)
    }

    private mutating func blob() -> SQLToken {
        let start = position
        let end = bytes[(position + 2)...].firstIndex(of: ascii("'")) ?? bytes.count
        position = min(end + 1, bytes.count)
        return token(.blob, from: start)
    }

    private mutating func number() -> SQLToken {
        let start = position
        if bytes[position] == ascii("0"), peek(1).map({ $0 | 32 == ascii("x") }) == true {
            position += 2
            while let digit = peek(0), Self.isNamePart(digit) { position += 1 }
            return token(.number, from: start)
        }
        while let byte = peek(0) {
            let isSign = byte == ascii("+") || byte == ascii("-")
            if isSign {
                // Only after the letter of an exponent.
                guard position > start, bytes[position - 1] | 32 == ascii("e") else { break }
            } else if byte != ascii("."), !Self.isNamePart(byte) {
                break
            }
            position += 1
        }
        return token(.number, from: start)
    }

    private mutating func parameter() -> SQLToken {
        let start = position
        let isNumbered = bytes[position] == ascii("?")
        position += 1
        while let byte = peek(0), isNumbered ? Self.isDigit(byte) : Self.isNamePart(byte) { position += 1 }
        let isAlone = position == start + 1 && !isNumbered
        return token(isAlone ? .symbol : .parameter, from: start)
    }

    private mutating func symbol() -> SQLToken {
        let start = position
        for symbol in ["->>", "||", "->", "<=", "<>", "<<", ">=", ">>", "==", "!="]
        where bytes[position...].starts(with: symbol.utf8) {
            position += symbol.utf8.count
            return token(.symbol, from: start)
        }
        position += 1
        return token(.symbol, from: start)
    }

    private mutating func take(_ kind: SQLToken.Kind, _ isPart: (UInt8) -> Bool) -> SQLToken {
        let start = position
        while let byte = peek(0), isPart(byte) { position += 1 }
        return token(kind, from: start)
    }

    // MARK: Bytes

    private func token(_ kind: SQLToken.Kind, from start: Int) -> SQLToken {
        SQLToken(kind: kind, text: String(decoding: bytes[start..<position], as: UTF8.self), bytes: start..<position)
    }

    private func peek(_ offset: Int) -> UInt8? {
        position + offset < bytes.count ? bytes[position + offset] : nil
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }

    private static func isNamePart(_ byte: UInt8) -> Bool {
        isDigit(byte) || (65...90).contains(byte) || (97...122).contains(byte) || byte == ascii("_")
            || byte == ascii("$") || byte >= 0x80
    }
}

private func ascii(_ character: Unicode.Scalar) -> UInt8 { UInt8(ascii: character) }

extension String {
    /// Whether the definition of a table, which this is, has an AUTOINCREMENT.
    package var namesAutoincrement: Bool { SQLToken.tokens(of: self).contains { $0.isWord("autoincrement") } }
}
