/// Blanks out the comments and the contents of string literals of Swift source, keeping every line break, so that the
/// fences see code only.
///
/// Knows line comments, nested block comments, plain, raw and multi-line strings, and interpolations (whose code is
/// kept). It does not know regex literals: one that holds a quote blanks the rest of its line.
struct SwiftCode {
    private enum Mode {
        case code
        /// Inside `\( ... )` of a string; `openParentheses` counts those still to be closed.
        case interpolation(openParentheses: Int)
        case lineComment
        case blockComment(depth: Int)
        case string(isMultiline: Bool, hashes: Int)
    }

    private let input: [UInt8]
    private var output: [UInt8] = []
    private var position = 0
    private var modes: [Mode] = [.code]

    static func strip(_ text: String) -> String {
        var stripper = SwiftCode(input: Array(text.utf8))
        stripper.run()
        return String(decoding: stripper.output, as: UTF8.self)
    }

    private init(input: [UInt8]) {
        self.input = input
        output.reserveCapacity(input.count)
    }

    private mutating func run() {
        while position < input.count {
            switch modes.last ?? .code {
            case .code: stepThroughCode()
            case .interpolation(let open): stepThroughInterpolation(openParentheses: open)
            case .lineComment:
                // Its line break is code.
                blank(bytes { $0 == UInt8(ascii: "\n") })
                modes.removeLast()
            case .blockComment(let depth): stepThroughBlockComment(depth: depth)
            case .string(let isMultiline, let hashes): stepThroughString(isMultiline: isMultiline, hashes: hashes)
            }
        }
    }

    private mutating func stepThroughCode() {
        let plain = bytes { byte in
            byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "#")
                || byte == UInt8(ascii: "(") || byte == UInt8(ascii: ")")
        }
        if plain > 0 {
            keep(plain)
        } else if matches("//") {
            modes.append(.lineComment)
            blank(2)
        } else if matches("/*") {
            modes.append(.blockComment(depth: 1))
            blank(2)
        } else if let opening = openingQuote() {
            modes.append(.string(isMultiline: opening.isMultiline, hashes: opening.hashes))
            keep(opening.bytes)
        } else {
            keep(1)
        }
    }

    private mutating func stepThroughInterpolation(openParentheses: Int) {
        let byte = input[position]
        guard byte == UInt8(ascii: "(") || byte == UInt8(ascii: ")") else { return stepThroughCode() }
        modes.removeLast()
        let open = openParentheses + (byte == UInt8(ascii: "(") ? 1 : -1)
        if open > 0 { modes.append(.interpolation(openParentheses: open)) }
        keep(1)
    }

    private mutating func stepThroughBlockComment(depth: Int) {
        let plain = bytes { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "*") }
        guard plain == 0 else { return blank(plain) }
        let isOpening = matches("/*")
        guard isOpening || matches("*/") else { return blank(1) }
        modes.removeLast()
        let newDepth = depth + (isOpening ? 1 : -1)
        if newDepth > 0 { modes.append(.blockComment(depth: newDepth)) }
        blank(2)
    }

    private mutating func stepThroughString(isMultiline: Bool, hashes: Int) {
        let plain = bytes { byte in
            byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\n")
        }
        guard plain == 0 else { return blank(plain) }
        let pounds = String(repeating: "#", count: hashes)
        let closing = (isMultiline ? "\"\"\"" : "\"") + pounds
        let escape = "\\" + pounds
        if matches(closing) {
            modes.removeLast()
            keep(closing.utf8.count)
        } else if matches(escape + "(") {
            modes.append(.interpolation(openParentheses: 1))
            keep(escape.utf8.count + 1)
        } else if matches(escape) {
            blank(escape.utf8.count + 1)
        } else if !isMultiline, input[position] == UInt8(ascii: "\n") {
            modes.removeLast()
            keep(1)
        } else {
            blank(1)
        }
    }

    /// How many bytes from here on begin nothing: those before the first that `begins` takes for more.
    private func bytes(before begins: (UInt8) -> Bool) -> Int {
        var end = position
        while end < input.count, !begins(input[end]) { end += 1 }
        return end - position
    }

    /// The quote that opens a string here, with the `#` signs before it.
    private func openingQuote() -> (isMultiline: Bool, hashes: Int, bytes: Int)? {
        var end = position
        while end < input.count, input[end] == UInt8(ascii: "#") { end += 1 }
        guard end < input.count, input[end] == UInt8(ascii: "\"") else { return nil }
        let hashes = end - position
        let isMultiline = matches("\"\"\"", at: end)
        return (isMultiline, hashes, hashes + (isMultiline ? 3 : 1))
    }

    private func matches(_ text: String, at start: Int? = nil) -> Bool {
        let start = start ?? position
        let end = start + text.utf8.count
        return end <= input.count && input[start..<end].elementsEqual(text.utf8)
    }

    private mutating func keep(_ count: Int) {
        let end = min(position + count, input.count)
        output.append(contentsOf: input[position..<end])
        position = end
    }

    /// Line breaks stay, so that line numbers do.
    private mutating func blank(_ count: Int) {
        let end = min(position + count, input.count)
        while position < end {
            output.append(input[position] == UInt8(ascii: "\n") ? UInt8(ascii: "\n") : UInt8(ascii: " "))
            position += 1
        }
    }
}
