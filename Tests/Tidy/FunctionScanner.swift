/// Finds the functions of Swift code and measures them, from the keyword to the closing brace, by counting braces.
///
/// Its limits: closures are not measured by themselves, nor are the accessors of a property on their own (the whole
/// property is), and a property counts only when its brace opens on the line of its `var`.
struct FunctionScanner {
    struct Function: Equatable {
        let keyword: String
        /// Of the keyword, counted from 1.
        let line: Int
        let lineCount: Int
    }

    /// A declaration whose body is being read.
    private struct Open {
        let keyword: String
        let line: Int
        let depthBeforeBody: Int
    }

    /// The text before an open brace that continues behind the closing one.
    private struct Outer {
        let bracketDepth: Int
        /// Set only for a closure in the parameters of a declaration, whose own body is still to come.
        let waiting: Declaration?
    }

    private typealias Declaration = (keyword: String, line: Int)

    private var functions: [Function] = []
    private var open: [Open] = []
    /// A declaration whose body has not begun; a requirement of a protocol never gets one.
    private var waiting: Declaration?
    private var braceDepth = 0
    /// Of round and square brackets since the innermost brace.
    private var bracketDepth = 0
    private var outer: [Outer] = []

    /// - Parameter codeLines: Lines without comments and strings (``SwiftCode``).
    static func functions(in codeLines: [String]) -> [Function] {
        var scanner = FunctionScanner()
        for (index, line) in codeLines.enumerated() {
            scanner.read(line, number: index + 1)
        }
        return scanner.functions.sorted { $0.line < $1.line }
    }

    private mutating func read(_ line: String, number: Int) {
        let bytes = Array(line.utf8)
        var position = 0
        while position < bytes.count {
            let start = position
            while position < bytes.count, Self.isPartOfWord(bytes[position]) { position += 1 }
            if position > start {
                let before = start > 0 ? bytes[start - 1] : UInt8(ascii: " ")
                readWord(String(decoding: bytes[start..<position], as: UTF8.self), after: before, line: number)
            } else {
                readSign(bytes[position], line: number)
                position += 1
            }
        }
        if waiting?.keyword == "var" { waiting = nil }
    }

    private static let measured: Set<String> = ["func", "init", "deinit", "subscript", "var"]
    private static let otherDeclarations: Set<String> = [
        "let", "case", "struct", "enum", "class", "actor", "extension", "protocol", "import", "typealias",
    ]

    private mutating func readWord(_ word: String, after before: UInt8, line: Int) {
        // `.init(...)` is a call, and `init` in backticks a name.
        guard bracketDepth == 0, before != UInt8(ascii: "."), before != UInt8(ascii: "`") else { return }
        if Self.measured.contains(word) {
            waiting = (word, line)
        } else if Self.otherDeclarations.contains(word) {
            waiting = nil
        }
    }

    private mutating func readSign(_ sign: UInt8, line: Int) {
        switch sign {
        case UInt8(ascii: "("), UInt8(ascii: "["): bracketDepth += 1
        case UInt8(ascii: ")"), UInt8(ascii: "]"): bracketDepth -= 1
        case UInt8(ascii: "="): if waiting?.keyword == "var" { waiting = nil }
        case UInt8(ascii: "{"): openBrace()
        case UInt8(ascii: "}"): closeBrace(line: line)
        default: break
        }
    }

    private mutating func openBrace() {
        if bracketDepth == 0, let begun = waiting {
            open.append(Open(keyword: begun.keyword, line: begun.line, depthBeforeBody: braceDepth))
            waiting = nil
        }
        outer.append(Outer(bracketDepth: bracketDepth, waiting: waiting))
        waiting = nil
        bracketDepth = 0
        braceDepth += 1
    }

    private mutating func closeBrace(line: Int) {
        let before = outer.popLast()
        waiting = before?.waiting
        bracketDepth = before?.bracketDepth ?? 0
        braceDepth -= 1
        guard let last = open.last, last.depthBeforeBody == braceDepth else { return }
        open.removeLast()
        functions.append(Function(keyword: last.keyword, line: last.line, lineCount: line - last.line + 1))
    }

    private static func isPartOfWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...0xFF:
            return true
        default:
            return false
        }
    }
}
