/// Finds the parts of an index and its condition in the text of its definition.
struct IndexScanner {
    /// The parts by their places, without the direction.
    private(set) var terms: [Int: String] = [:]
    /// The condition after WHERE; nil if all rows are in the index.
    private(set) var condition: String?

    /// - Parameter sql: A statement CREATE INDEX.
    init(_ sql: String) {
        var (depth, term, rest) = (0, "", Substring(sql))
        while !rest.isEmpty {
            let piece = Self.takePiece(&rest)
            switch piece {
            case ")" where depth == 1:
                add(term)
                condition = Self.condition(rest)
                return
            case "," where depth == 1:
                add(term)
                term = ""
                continue
            case "(": depth += 1
            case ")": depth -= 1
            default: break
            }
            // The parenthesis that begins the list is none of its first part.
            if depth > 1 || depth == 1 && !(piece == "(" && term.isEmpty && terms.isEmpty) { term += piece }
        }
    }

    private mutating func add(_ term: String) {
        var words = term.split(whereSeparator: \.isWhitespace)
        if let last = words.last?.lowercased(), ["asc", "desc"].contains(last) { words.removeLast() }
        // Spaces inside of quotes stay: the end is cut off, and nothing is put together again.
        let end = words.last?.endIndex ?? term.startIndex
        terms[terms.count] = String(term[..<end])
    }

    private static func condition(_ rest: Substring) -> String? {
        var rest = rest
        while !rest.isEmpty {
            let piece = takePiece(&rest)
            if piece.lowercased() == "where" { return String(rest) }
        }
        return nil
    }

    /// Takes a quoted text, a comment, a word, or one other character.
    static func takePiece(_ rest: inout Substring) -> String {
        let start = rest
        switch rest.first {
        case "'", "\"", "`": skip(&rest, to: rest.removeFirst())
        case "[":
            rest.removeFirst()
            skip(&rest, to: "]")
        case "-" where rest.hasPrefix("--"):
            rest = rest.drop { !$0.isNewline }
            return " "
        case "/" where rest.hasPrefix("/*"):
            rest = rest.dropFirst(2)
            while !rest.isEmpty, !rest.hasPrefix("*/") { rest.removeFirst() }
            rest = rest.dropFirst(2)
            return " "
        case let first? where first.isLetter || first == "_":
            rest = rest.drop { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "$" }
        default: rest.removeFirst()
        }
        return String(start[..<rest.startIndex])
    }

    private static func skip(_ rest: inout Substring, to end: Character) {
        rest = rest.drop { $0 != end }.dropFirst()
    }
}
