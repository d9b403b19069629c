import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreTools

/// The form in which rows are printed.
enum ResultMode: String, CaseIterable {
    case table
    case csv
    case json
    case jsonl
    case markdown
    case html
    case line
    case list
    case insert

    /// The names of all modes, as help shows them.
    static let names = allCases.map(\.rawValue).joined(separator: "|")

    /// A remedy that lists the modes.
    static let hint = "The modes are \(CountText.list(allCases.map(\.rawValue)))."
}

/// The form of results, and what else decides how they look.
struct ResultFormat {
    var mode = ResultMode.table
    /// Whether the names of columns are printed, where the mode has a place for them alone.
    var hasHeaders = true
    /// The table of the statements that `insert` prints.
    var table = "result"
    /// Whether the output is a terminal, which values must not control.
    var isTerminal = Terminal.isTerminal(1)

    func makeWriter() -> any ResultWriter {
        switch mode {
        case .table: TableWriter(hasHeaders: hasHeaders)
        case .csv: CSVWriter(isTerminal: isTerminal, hasHeaders: hasHeaders)
        case .json: JSONWriter()
        case .jsonl: JSONLinesWriter()
        case .markdown: MarkdownWriter()
        case .html: HTMLWriter(hasHeaders: hasHeaders)
        case .line: LineWriter()
        case .list: ListWriter(isTerminal: isTerminal, hasHeaders: hasHeaders)
        case .insert: InsertWriter(table: table, isTerminal: isTerminal, hasHeaders: hasHeaders)
        }
    }
}

/// Prints the rows of one statement.
protocol ResultWriter {
    mutating func begin(_ columns: [String], to output: Output) throws
    mutating func add(_ row: [ResultValue], to output: Output) throws
    mutating func end(to output: Output) throws
}

/// A value of a result: as SQLite stores it, or a text that is not UTF-8 and has no other form than its bytes.
enum ResultValue {
    case value(DatabaseValue)
    case undecodable(Data)

    /// The values of the present row of a cursor.
    static func all(of row: Row) -> [ResultValue] {
        (0..<row.count).map { index in
            row.undecodableText(at: index).map { .undecodable($0) } ?? .value(row.databaseValue(at: index))
        }
    }

    /// The value in tables and CSV; nil for NULL. Bytes that are not UTF-8 are an SQL expression: `CAST(X'FF' AS
    /// TEXT)`.
    var shownText: String? {
        switch self {
        case .value(let value): value.shownText
        case .undecodable(let bytes): "CAST(X'\(Hex.text(Array(bytes)).uppercased())' AS TEXT)"
        }
    }

    /// The value in JSON; what is not UTF-8 is an object with its bytes in hexadecimal.
    var json: JSON {
        switch self {
        case .value(let value): value.json
        case .undecodable(let bytes): .object(["text": .string(Hex.text(Array(bytes)).uppercased())])
        }
    }

    /// The value as an SQL expression.
    ///
    /// - Parameter escapesControls: Whether texts that would control a terminal are written as their bytes.
    func literal(escapesControls: Bool) -> String {
        switch self {
        case .value(let value): SQLLiteral.text(value, escapesControls: escapesControls)
        case .undecodable(let bytes): SQLLiteral.cast(Array(bytes))
        }
    }

    fileprivate var isNumberOrNull: Bool {
        switch self {
        case .value(let value): value.isNumberOrNull
        case .undecodable: false
        }
    }
}

extension DatabaseValue {
    /// Whether it is a text with U+FFFD, which also stands for bytes that are not UTF-8.
    var hasReplacements: Bool {
        if case .string(let text) = storage { text.unicodeScalars.contains("\u{fffd}") } else { false }
    }

    /// The value in tables and CSV; nil for NULL. Blobs are SQL literals: `X'00FF'`.
    var shownText: String? {
        switch storage {
        case .null: nil
        case .int64(let value): String(value)
        case .double(let value): String(value)
        case .string(let value): value
        case .blob(let value): "X'\(Hex.text(Array(value)).uppercased())'"
        }
    }

    /// The value in JSON; a blob is an object with its bytes in hexadecimal, which distinguishes it from a text.
    var json: JSON {
        switch storage {
        case .null: .null
        case .int64(let value): .integer(value)
        case .double(let value): .real(value)
        case .string(let value): .string(value)
        case .blob(let value): .object(["blob": .string(Hex.text(Array(value)).uppercased())])
        }
    }
}

/// Rows as an aligned table: numbers right-aligned, the others left-aligned; NULL is written as `NULL`.
///
/// The first rows determine the columns: they are kept until there are a thousand of them, or a mebibyte. The rows after
/// them are printed as they come, so that a result of any length needs little memory.
struct TableWriter: ResultWriter {
    private let hasHeaders: Bool
    private var columns: [String] = []
    private var rows: [[String]] = []
    private var isNumeric: [Bool] = []
    /// Bytes of the rows that are kept.
    private var keptBytes = 0
    /// The widths of the columns, once they are printed.
    private var widths: [Int]?

    static let keptRows = 1000
    private static let mostKeptBytes = 1 << 20

    init(hasHeaders: Bool = true) { self.hasHeaders = hasHeaders }

    mutating func begin(_ columns: [String], to output: Output) throws {
        // Control characters would break the table, or control the terminal.
        self.columns = columns.map { $0.withoutControls() }
        isNumeric = columns.map { _ in true }
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        let cells = row.map { $0.shownText?.withoutControls() ?? "NULL" }
        if let widths { return try output.line(line(cells, widths)) }
        for (index, value) in row.enumerated() where !value.isNumberOrNull { isNumeric[index] = false }
        rows.append(cells)
        keptBytes += cells.reduce(0) { $0 + $1.utf8.count }
        if rows.count >= Self.keptRows || keptBytes >= Self.mostKeptBytes { try printKept(to: output) }
    }

    mutating func end(to output: Output) throws {
        if widths == nil { try printKept(to: output) }
    }

    private mutating func printKept(to output: Output) throws {
        let widths = columns.indices.map { index in
            rows.reduce(hasHeaders ? columns[index].count : 0) { max($0, $1[index].count) }
        }
        self.widths = widths
        if hasHeaders {
            try output.line(line(columns, widths))
            try output.line(widths.map { String(repeating: "-", count: $0) }.joined(separator: "  "))
        }
        for row in rows { try output.line(line(row, widths)) }
        rows = []
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        var text = ""
        for (index, cell) in cells.enumerated() {
            let padding = String(repeating: " ", count: max(0, widths[index] - cell.count))
            if index > 0 { text += "  " }
            // Trailing blanks are useless.
            text += isNumeric[index] ? padding + cell : cell + (index == cells.count - 1 ? "" : padding)
        }
        return text
    }
}

extension DatabaseValue {
    fileprivate var isNumberOrNull: Bool {
        switch storage {
        case .null, .int64, .double: true
        case .string, .blob: false
        }
    }
}

/// Rows in the format of RFC 4180: lines end with CR LF, and values are quoted where necessary.
///
/// NULL is empty, the empty text a pair of quotes. At a terminal, control characters of values are written as escapes.
struct CSVWriter: ResultWriter {
    private let isTerminal: Bool
    private let hasHeaders: Bool

    init(isTerminal: Bool, hasHeaders: Bool = true) {
        self.isTerminal = isTerminal
        self.hasHeaders = hasHeaders
    }

    mutating func begin(_ columns: [String], to output: Output) throws {
        if hasHeaders { try output.write(Self.line(columns.map(field))) }
    }

    private func field(_ text: String) -> String {
        Self.field(isTerminal ? text.withoutControls(keepsLines: true) : text)
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        try output.write(Self.line(row.map { $0.shownText.map(field) ?? "" }))
    }

    mutating func end(to output: Output) throws {}

    static func field(_ text: String) -> String {
        let needsQuotes = text.isEmpty || text.utf8.contains { [0x22, 0x2c, 0x0a, 0x0d].contains($0) }
        return needsQuotes ? "\"" + text.replacing("\"", with: "\"\"") + "\"" : text
    }

    private static func line(_ fields: [String]) -> String { fields.joined(separator: ",") + "\r\n" }
}

/// Rows as an array of objects, one row on a line.
///
/// A duplicate column name gets the suffix `:1`, `:2` and so on, as SQLite itself does where names must differ.
struct JSONWriter: ResultWriter {
    private var names: [String] = []
    private var isFirst = true

    mutating func begin(_ columns: [String], to output: Output) throws {
        names = Self.distinct(columns)
        try output.write("[")
    }

    mutating func add(_ row: [ResultValue], to output: Output) throws {
        let members = zip(names, row).map { JSON.Member(name: $0, value: $1.json) }
        try output.write((isFirst ? "\n" : ",\n") + JSON.object(members).text)
        isFirst = false
    }

    mutating func end(to output: Output) throws { try output.line(isFirst ? "]" : "\n]") }

    static func distinct(_ columns: [String]) -> [String] {
        var taken = Set<String>()
        return columns.map { column in
            var name = column
            var number = 0
            while !taken.insert(name).inserted {
                number += 1
                name = "\(column):\(number)"
            }
            return name
        }
    }
}
