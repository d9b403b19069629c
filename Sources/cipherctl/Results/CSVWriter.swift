import CipherStore

/// Rows as RFC 4180 has them: lines end with CR LF, and what needs quotes has them.
///
/// NULL is nothing at all, the empty text a pair of quotes.
struct CSVWriter: ResultWriter {
    mutating func begin(_ columns: [String], to output: Output) throws {
        try output.write(Self.line(columns.map(Self.field)))
    }

    mutating func add(_ row: [DatabaseValue], to output: Output) throws {
        try output.write(Self.line(row.map { $0.shownText.map(Self.field) ?? "" }))
    }

    mutating func end(to output: Output) throws {}

    static func field(_ text: String) -> String {
        let needsQuotes = text.isEmpty || text.utf8.contains { [0x22, 0x2c, 0x0a, 0x0d].contains($0) }
        return needsQuotes ? "\"" + text.replacing("\"", with: "\"\"") + "\"" : text
    }

    private static func line(_ fields: [String]) -> String { fields.joined(separator: ",") + "\r\n" }
}
