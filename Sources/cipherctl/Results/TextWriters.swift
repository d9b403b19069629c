import StorePlatform
import StoreTools

/// Rows as JSON objects, one on a line; https://jsonlines.org.
struct JSONLinesWriter: ResultWriter {
    private var names: [String] = []

    mutating func begin(_ columns: [String], to output: Output) throws { names = JSONWriter.distinct(columns) }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        try output.line(JSON.object(zip(names, row).map { JSON.Member(name: $0, value: $1.json) }).text)
    }

    mutating func end(to output: Output) throws {}
}

/// Rows as a table of GitHub's Markdown. Characters that have a meaning there are escaped.
/// - SeeAlso: <https://github.github.com/gfm/#tables-extension->
struct MarkdownWriter: ResultWriter {
    mutating func begin(_ columns: [String], to output: Output) throws {
        try output.line(Self.line(columns.map { Self.cell($0) }))
        try output.line(Self.line(columns.map { _ in "---" }))
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        try output.line(Self.line(row.map { $0.shownText.map { Self.cell($0) } ?? "NULL" }))
    }

    mutating func end(to output: Output) throws { try output.line("") }

    private static func line(_ cells: [String]) -> String { "| " + cells.joined(separator: " | ") + " |" }

    private static func cell(_ text: String) -> String {
        var result = ""
        for character in text.replacing("\r\n", with: "\n") {
            switch character {
            case "\n": result += "<br>"
            case "|", "\\", "`", "*", "_", "[", "]", "~": result += "\\\(character)"
            case "<": result += "&lt;"
            case "&": result += "&amp;"
            default: result.append(character)
            }
        }
        return result.withoutControls()
    }
}

/// Rows as an HTML table. NULL is an empty cell of the class `null`.
struct HTMLWriter: ResultWriter {
    let hasHeaders: Bool

    mutating func begin(_ columns: [String], to output: Output) throws {
        try output.line("<table>")
        guard hasHeaders else { return }
        try output.line("<tr>" + columns.map { "<th>\(Self.escaped($0))</th>" }.joined() + "</tr>")
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        let cells = row.map { $0.shownText.map { "<td>\(Self.escaped($0))</td>" } ?? "<td class=\"null\"></td>" }
        try output.line("<tr>" + cells.joined() + "</tr>")
    }

    mutating func end(to output: Output) throws { try output.line("</table>") }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;").withoutControls(keepsLines: true)
    }
}

/// Each value on a line of its own, after the name of its column, with an empty line between rows.
struct LineWriter: ResultWriter {
    private var names: [String] = []
    private var isFirst = true

    mutating func begin(_ columns: [String], to output: Output) throws {
        let columns = columns.map { $0.withoutControls() }
        let width = columns.map(\.count).max() ?? 0
        names = columns.map { String(repeating: " ", count: width - $0.count) + $0 }
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        if !isFirst { try output.line("") }
        isFirst = false
        for (name, value) in zip(names, row) {
            try output.line("\(name) = \(value.shownText?.withoutControls() ?? "NULL")")
        }
    }

    mutating func end(to output: Output) throws {}
}

/// Values as they are, with a bar between them, for programs that read simple values. NULL is empty.
struct ListWriter: ResultWriter {
    let isTerminal: Bool
    let hasHeaders: Bool

    mutating func begin(_ columns: [String], to output: Output) throws {
        if hasHeaders { try output.line(line(columns)) }
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        try output.line(line(row.map { $0.shownText ?? "" }))
    }

    mutating func end(to output: Output) throws {}

    private func line(_ values: [String]) -> String {
        let text = values.joined(separator: "|")
        return isTerminal ? text.withoutControls(keepsLines: true) : text
    }
}

/// Rows as INSERT statements.
struct InsertWriter: ResultWriter {
    let table: String
    let isTerminal: Bool
    let hasHeaders: Bool
    private var start = ""

    init(table: String, isTerminal: Bool, hasHeaders: Bool) {
        self.table = table
        self.isTerminal = isTerminal
        self.hasHeaders = hasHeaders
    }

    mutating func begin(_ columns: [String], to output: Output) throws {
        let list = columns.map { SQLLiteral.identifier($0) }.joined(separator: ",")
        start = "INSERT INTO \(SQLLiteral.identifier(table))\(hasHeaders ? "(\(list))" : "") VALUES("
        if isTerminal { start = start.withoutControls() }
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        let values = row.map { $0.literal(escapesControls: isTerminal) }
        try output.line(start + values.joined(separator: ",") + ");")
    }

    mutating func end(to output: Output) throws {}
}
