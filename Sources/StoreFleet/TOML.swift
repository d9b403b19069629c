/// A place in a file, from 1. A column counts characters.
package struct TextPosition: Hashable, Sendable, CustomStringConvertible {
    package let line: Int
    package let column: Int

    package var description: String { "line \(line), column \(column)" }
}

/// A text that is not of the subset, or an entry that does not belong into the file.
package struct TOMLError: Error, Hashable, Sendable {
    package let position: TextPosition
    /// The mistake, as a sentence. It never contains a value of the file.
    package let sentence: String
}

/// A document in a subset of TOML 1.0.
///
/// Read are comments, tables `[name]`, arrays of tables `[[name]]`, bare keys, basic strings `"..."` with all escapes,
/// literal strings `'...'`, decimal integers, booleans, and arrays, over several lines too. Everything else is an error:
/// dotted and quoted keys, inline tables, strings of several lines, floating-point numbers, other bases, dates.
/// - SeeAlso: <https://toml.io/en/v1.0.0>
package struct TOMLDocument: Hashable, Sendable {
    package indirect enum Value: Hashable, Sendable {
        case string(String)
        case integer(Int)
        case boolean(Bool)
        case array([Value])

        /// Its kind, for errors.
        package var kind: String {
            switch self {
            case .string: "a string"
            case .integer: "an integer"
            case .boolean: "a boolean"
            case .array: "an array"
            }
        }
    }

    package struct Entry: Hashable, Sendable {
        package let key: String
        package let position: TextPosition
        package let value: Value
        package let valuePosition: TextPosition
    }

    package struct Table: Hashable, Sendable {
        /// Empty for the entries before the first table.
        package let name: String
        /// Whether it is an element of an array of tables.
        package let isElement: Bool
        package let position: TextPosition
        package fileprivate(set) var entries: [Entry] = []
    }

    /// The first one has the entries before all tables.
    package let tables: [Table]

    /// - Throws: ``TOMLError``.
    package init(_ text: String) throws(TOMLError) {
        var parser = TOMLParser(text)
        tables = try parser.document()
    }
}

/// Reads a document from its beginning to its end.
private struct TOMLParser {
    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var line = 1
    private var lineStart = 0
    private static let deepestArray = 4

    init(_ text: String) { scalars = Array(text.unicodeScalars) }

    private var position: TextPosition { TextPosition(line: line, column: index - lineStart + 1) }
    private var current: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private func error(_ sentence: String, at place: TextPosition? = nil) -> TOMLError {
        TOMLError(position: place ?? position, sentence: sentence)
    }

    /// The present character, for errors. A character of a value is not repeated.
    private var found: String {
        switch current {
        case nil: "the end of the file"
        case "\n", "\r": "the end of the line"
        default: "another character"
        }
    }

    mutating func document() throws(TOMLError) -> [TOMLDocument.Table] {
        var tables = [TOMLDocument.Table(name: "", isElement: false, position: position)]
        // A mark of the byte order, which some editors write.
        if current == "\u{feff}" { (index, lineStart) = (1, 1) }
        while true {
            try skipBlankLines()
            guard current != nil else { return tables }
            if current == "[" {
                let table = try header()
                if let former = tables.first(where: { $0.name == table.name && !(table.isElement && $0.isElement) }) {
                    throw error(
                        "The table \"\(table.name)\" is there twice, first in line \(former.position.line).",
                        at: table.position)
                }
                tables.append(table)
            } else {
                let entry = try self.entry()
                let last = tables.count - 1
                if let former = tables[last].entries.first(where: { $0.key == entry.key }) {
                    throw error(
                        "The key \"\(entry.key)\" is there twice, first in line \(former.position.line).",
                        at: entry.position)
                }
                tables[last].entries.append(entry)
            }
            try endLine()
        }
    }

    // MARK: Lines

    private mutating func skipBlanks() { while current == " " || current == "\t" { index += 1 } }

    private mutating func skipComment() throws(TOMLError) {
        guard current == "#" else { return }
        while let scalar = current, scalar != "\n", scalar != "\r" {
            if scalar.value < 0x20 && scalar != "\t" || scalar.value == 0x7f {
                throw error("A comment has a control character.")
            }
            index += 1
        }
    }

    /// - Returns: Whether there was an end of a line.
    private mutating func skipNewline() throws(TOMLError) -> Bool {
        if current == "\r" {
            guard index + 1 < scalars.count, scalars[index + 1] == "\n" else {
                throw error("A carriage return without a line feed is no end of a line.")
            }
            index += 1
        }
        guard current == "\n" else { return false }
        index += 1
        line += 1
        lineStart = index
        return true
    }

    private mutating func skipBlankLines() throws(TOMLError) {
        repeat {
            skipBlanks()
            try skipComment()
        } while try skipNewline()
    }

    private mutating func endLine() throws(TOMLError) {
        skipBlanks()
        try skipComment()
        guard current == nil || current == "\r" || current == "\n" else {
            throw error("Expected the end of the line, and found \(found).")
        }
        _ = try skipNewline()
    }

    // MARK: Tables and keys

    private mutating func header() throws(TOMLError) -> TOMLDocument.Table {
        let place = position
        index += 1
        let isElement = current == "["
        if isElement { index += 1 }
        skipBlanks()
        let name = try bareKey("the name of a table")
        skipBlanks()
        for _ in 0..<(isElement ? 2 : 1) {
            guard current == "]" else { throw error("Expected \"]\" after the name of a table, and found \(found).") }
            index += 1
        }
        return TOMLDocument.Table(name: name, isElement: isElement, position: place)
    }

    private mutating func bareKey(_ noun: String) throws(TOMLError) -> String {
        let start = index
        while let scalar = current, scalar.isBareKey { index += 1 }
        guard index > start else {
            throw error("Expected \(noun): letters, digits, \"-\" and \"_\"; found \(found).")
        }
        if current == "." { throw error("Dotted keys are not read here: write a table [name].") }
        var name = ""
        name.unicodeScalars.append(contentsOf: scalars[start..<index])
        return name
    }

    private mutating func entry() throws(TOMLError) -> TOMLDocument.Entry {
        let place = position
        let key = try bareKey("a key")
        skipBlanks()
        guard current == "=" else { throw error("Expected \"=\" after the key \"\(key)\", and found \(found).") }
        index += 1
        skipBlanks()
        let valuePlace = position
        return TOMLDocument.Entry(key: key, position: place, value: try value(depth: 0), valuePosition: valuePlace)
    }

    // MARK: Values

    private mutating func value(depth: Int) throws(TOMLError) -> TOMLDocument.Value {
        switch current {
        case "\"": return .string(try basicString())
        case "'": return .string(try literalString())
        case "[": return .array(try array(depth: depth + 1))
        case "{": throw error("Inline tables are not read here: write a table [name].")
        case "t", "f": return .boolean(try boolean())
        case let scalar? where scalar.isDigit || scalar == "+" || scalar == "-": return .integer(try integer())
        default:
            throw error("Expected a value: a string in quotes, an integer, true, false or an array; found \(found).")
        }
    }

    private mutating func array(depth: Int) throws(TOMLError) -> [TOMLDocument.Value] {
        guard depth <= Self.deepestArray else { throw error("Arrays are nested too deeply.") }
        index += 1
        var values: [TOMLDocument.Value] = []
        while true {
            try skipBlankLines()
            if current == "]" { break }
            values.append(try value(depth: depth))
            try skipBlankLines()
            if current == "," {
                index += 1
            } else if current != "]" {
                throw error("Expected \",\" or \"]\" after a value of an array, and found \(found).")
            }
        }
        index += 1
        return values
    }

    private mutating func boolean() throws(TOMLError) -> Bool {
        for (word, value) in [("true", true), ("false", false)] {
            let end = index + word.unicodeScalars.count
            guard end <= scalars.count, scalars[index..<end].elementsEqual(word.unicodeScalars) else { continue }
            if end < scalars.count, scalars[end].isBareKey { break }
            index = end
            return value
        }
        throw error("Expected a value: true and false are written so, and a string stands in quotes.")
    }

    private mutating func integer() throws(TOMLError) -> Int {
        let place = position
        var text = ""
        if current == "+" || current == "-" {
            if current == "-" { text = "-" }
            index += 1
        }
        let start = index
        while let scalar = current, scalar.isDigit || scalar == "_" {
            if scalar == "_" {
                let isBetween = index > start && scalars[index - 1].isDigit && index + 1 < scalars.count
                guard isBetween, scalars[index + 1].isDigit else { throw error("A \"_\" stands between two digits.") }
            } else {
                text.unicodeScalars.append(scalar)
            }
            index += 1
        }
        if let scalar = current, scalar.isBareKey || scalar == "." || scalar == ":" {
            throw error(
                "Expected a decimal integer: a duration, a size, a date or another number stands in quotes.", at: place)
        }
        let digits = index - start
        guard digits > 0, let number = Int(text) else {
            throw error("The integer has no digits, or too many.", at: place)
        }
        guard digits == 1 || scalars[start] != "0" else { throw error("An integer has no leading zero.", at: place) }
        return number
    }

    private mutating func literalString() throws(TOMLError) -> String {
        let place = position
        try refuseLongString("'")
        index += 1
        var text = ""
        while let scalar = current, scalar != "'" {
            try requireText(scalar, place)
            text.unicodeScalars.append(scalar)
            index += 1
        }
        guard current != nil else { throw error("The string is not closed.", at: place) }
        index += 1
        return text
    }

    private mutating func basicString() throws(TOMLError) -> String {
        let place = position
        try refuseLongString("\"")
        index += 1
        var text = ""
        while let scalar = current, scalar != "\"" {
            try requireText(scalar, place)
            index += 1
            text.unicodeScalars.append(scalar == "\\" ? try escape() : scalar)
        }
        guard current != nil else { throw error("The string is not closed.", at: place) }
        index += 1
        return text
    }

    private func refuseLongString(_ quote: Unicode.Scalar) throws(TOMLError) {
        guard index + 2 < scalars.count, scalars[index + 1] == quote, scalars[index + 2] == quote else { return }
        throw error("Strings of several lines are not read here.")
    }

    private func requireText(_ scalar: Unicode.Scalar, _ start: TextPosition) throws(TOMLError) {
        if scalar == "\n" || scalar == "\r" { throw error("The string is not closed in its line.", at: start) }
        if scalar.value < 0x20 && scalar != "\t" || scalar.value == 0x7f {
            throw error("A string has a control character: write it as an escape, such as \\u001b.")
        }
    }

    private mutating func escape() throws(TOMLError) -> Unicode.Scalar {
        let simple: [Unicode.Scalar: Unicode.Scalar] = [
            "b": "\u{8}", "t": "\t", "n": "\n", "f": "\u{c}", "r": "\r", "\"": "\"", "\\": "\\",
        ]
        guard let letter = current else { throw error("The string is not closed.") }
        index += 1
        if let scalar = simple[letter] { return scalar }
        let count = letter == "u" ? 4 : letter == "U" ? 8 : 0
        guard count > 0, index + count <= scalars.count else {
            throw error("There is no such escape in a string; a backslash is written as \\\\.")
        }
        var digits = ""
        digits.unicodeScalars.append(contentsOf: scalars[index..<(index + count)])
        guard digits.allSatisfy({ $0.isASCII && $0.isHexDigit }), let value = UInt32(digits, radix: 16),
            let scalar = Unicode.Scalar(value)
        else { throw error("The escape is no character of Unicode.") }
        index += count
        return scalar
    }
}

extension Unicode.Scalar {
    fileprivate var isDigit: Bool { ("0"..."9").contains(self) }

    fileprivate var isBareKey: Bool {
        isDigit || ("a"..."z").contains(self) || ("A"..."Z").contains(self) || self == "-" || self == "_"
    }
}
