/// Finds the ends of SQL statements in a text that comes in pieces.
///
/// A semicolon ends a statement, except in quotes, in comments, and in the body of a trigger, which ends with `END;`. The
/// rules are those of `sqlite3_complete`, and each byte is read once.
/// - SeeAlso: <https://www.sqlite.org/c3ref/complete.html>
struct StatementEnd {
    private enum Place {
        case between
        case word
        case quote(UInt8)
        case dash
        case slash
        case lineComment
        case blockComment
        /// After an asterisk in a block comment.
        case asterisk
    }

    /// The statement that is read, as far as its end depends on it.
    private enum Kind {
        case nothing
        case ordinary
        /// After EXPLAIN, which may stand before CREATE.
        case explain
        /// After CREATE, and TEMP or TEMPORARY.
        case create
        case trigger
        /// After a semicolon in the body of a trigger.
        case triggerStatementEnd
        /// After END behind a semicolon.
        case triggerEnd
    }

    private var place = Place.between
    private var kind = Kind.nothing
    /// The first letters of a word, in lower case: no longer one counts.
    private var word: [UInt8] = []
    private static let longestWord = 10
    /// Whether a statement has ended since the last call that returned true. A comment after it may end in a later piece.
    private var hasEnded = false

    /// Whether nothing but blanks, comments and semicolons has come since the last end.
    var isBlank: Bool {
        guard case .nothing = kind else { return false }
        return switch place {
        case .between, .lineComment: true
        case .word, .quote, .dash, .slash, .blockComment, .asterisk: false
        }
    }

    /// Reads further bytes.
    ///
    /// - Returns: Whether a statement ends in them, and nothing but blanks and comments follows.
    mutating func read(_ bytes: some Sequence<UInt8>) -> Bool {
        for byte in bytes {
            if step(byte) {
                hasEnded = true
            } else if hasEnded, !isBlank {
                // A comment of a block has begun, or a statement.
                if case .nothing = kind { continue }
                hasEnded = false
            }
        }
        guard hasEnded, isBlank else { return false }
        hasEnded = false
        return true
    }

    /// - Returns: Whether the byte ends a statement.
    private mutating func step(_ byte: UInt8) -> Bool {
        switch place {
        case .quote(let end):
            if byte == end { place = .between }
            return false
        case .lineComment:
            if byte == UInt8(ascii: "\n") { place = .between }
            return false
        case .blockComment:
            if byte == UInt8(ascii: "*") { place = .asterisk }
            return false
        case .asterisk:
            place =
                byte == UInt8(ascii: "/") ? .between : byte == UInt8(ascii: "*") ? .asterisk : .blockComment
            return false
        case .dash where byte == UInt8(ascii: "-"):
            place = .lineComment
            return false
        case .slash where byte == UInt8(ascii: "*"):
            place = .blockComment
            return false
        case .dash, .slash:
            // It was an operator.
            other()
            place = .between
        case .word where Self.isLetter(byte):
            if word.count <= Self.longestWord { word.append(byte | 0x20) }
            return false
        case .word:
            endWord()
            place = .between
        case .between: break
        }
        return begin(byte)
    }

    private mutating func begin(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: ";"): return semicolon()
        case UInt8(ascii: " "), 9...13: break
        case UInt8(ascii: "-"): place = .dash
        case UInt8(ascii: "/"): place = .slash
        case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"):
            other()
            place = .quote(byte)
        case UInt8(ascii: "["):
            other()
            place = .quote(UInt8(ascii: "]"))
        case _ where Self.isLetter(byte):
            word = [byte | 0x20]
            place = .word
        default: other()
        }
        return false
    }

    private mutating func semicolon() -> Bool {
        switch kind {
        case .trigger, .triggerStatementEnd:
            kind = .triggerStatementEnd
            return false
        case .nothing: return false
        case .ordinary, .explain, .create, .triggerEnd:
            kind = .nothing
            return true
        }
    }

    /// A token without a meaning here.
    private mutating func other() {
        switch kind {
        case .nothing, .create, .ordinary: kind = .ordinary
        case .explain: break
        case .trigger, .triggerStatementEnd, .triggerEnd: kind = .trigger
        }
    }

    private mutating func endWord() {
        let text = String(decoding: word, as: UTF8.self)
        switch (kind, text) {
        case (.nothing, "explain"): kind = .explain
        case (.nothing, "create"), (.explain, "create"): kind = .create
        case (.create, "temp"), (.create, "temporary"): break
        case (.create, "trigger"): kind = .trigger
        case (.triggerStatementEnd, "end"): kind = .triggerEnd
        default: other()
        }
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...0xff:
            true
        default: false
        }
    }
}
