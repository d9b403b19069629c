import CipherDatabase
import Foundation

// The formats that print text lines.

/// One line for each row. Blobs are printed as text where they are UTF-8, as UUIDs where they have 16 bytes, else as
/// SQL.
///
/// The format may change between versions: it is for people, not for programs.
public struct DebugDumpFormat: DumpFormat, Sendable {
    /// Whether the first line holds the names of the columns.
    public var header: Bool
    /// The text between two values.
    public var separator: String
    /// The text for NULL.
    public var nullValue: String
    private var isFirstRow = true

    public init(header: Bool = false, separator: String = "|", nullValue: String = "") {
        self.header = header
        self.separator = separator
        self.nullValue = nullValue
    }

    public mutating func writeRow(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        let row = DumpedRow(statement)
        if isFirstRow && header { stream.writeLine(row.names.joined(separator: separator)) }
        isFirstRow = false
        stream.writeLine(row.values.map(text(of:)).joined(separator: separator))
    }

    public mutating func finalize(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        isFirstRow = true
    }

    private func text(of value: DatabaseValue) -> String {
        guard case .blob(let data) = value.storage else { return value.dumped(null: nullValue) }
        if let text = String(bytes: data, encoding: .utf8) { return text }
        return data.count == 16 ? UUID.fromDatabaseValue(value)?.uuidString ?? value.quoted : value.quoted
    }
}

/// One line for each row. Blobs are printed as text.
public struct ListDumpFormat: DumpFormat, Sendable {
    /// Whether the first line holds the names of the columns.
    public var header: Bool
    /// The text between two values.
    public var separator: String
    /// The text for NULL.
    public var nullValue: String
    private var isFirstRow = true

    public init(header: Bool = false, separator: String = "|", nullValue: String = "") {
        self.header = header
        self.separator = separator
        self.nullValue = nullValue
    }

    public mutating func writeRow(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        let row = DumpedRow(statement)
        if isFirstRow && header { stream.writeLine(row.names.joined(separator: separator)) }
        isFirstRow = false
        stream.writeLine(row.values.map { $0.dumped(null: nullValue) }.joined(separator: separator))
    }

    public mutating func finalize(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        isFirstRow = true
    }
}

/// One line for each value, with the name of its column. Blobs are printed as text.
public struct LineDumpFormat: DumpFormat, Sendable {
    /// The text for NULL.
    public var nullValue: String
    private var isFirstRow = true

    public init(nullValue: String = "") { self.nullValue = nullValue }

    public mutating func writeRow(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        let row = DumpedRow(statement)
        guard let width = row.names.map(\.count).max() else { return }
        if !isFirstRow { stream.write("\n") }
        isFirstRow = false
        for (name, value) in zip(row.names, row.values) {
            let margin = String(repeating: " ", count: width - name.count)
            stream.writeLine("\(margin)\(name) = \(value.dumped(null: nullValue))")
        }
    }

    public mutating func finalize(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        if !isFirstRow { stream.margin() }
        isFirstRow = true
    }
}

/// One line for each row, of SQL literals.
public struct QuoteDumpFormat: DumpFormat, Sendable {
    /// Whether the first line holds the names of the columns.
    public var header: Bool
    /// The text between two values.
    public var separator: String
    private var isFirstRow = true

    public init(header: Bool = false, separator: String = ",") {
        self.header = header
        self.separator = separator
    }

    public mutating func writeRow(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        let row = DumpedRow(statement)
        if isFirstRow && header {
            stream.writeLine(row.names.map { $0.databaseValue.quoted }.joined(separator: separator))
        }
        isFirstRow = false
        stream.writeLine(row.values.map(\.quoted).joined(separator: separator))
    }

    public mutating func finalize(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        isFirstRow = true
    }
}

extension DatabaseValue {
    /// The value as text; a blob by its bytes, whatever they are.
    fileprivate func dumped(null: String) -> String {
        switch storage {
        case .null: null
        case .int64(let value): String(value)
        case .double(let value): String(value)
        case .string(let value): value
        case .blob(let value): String(decoding: value, as: UTF8.self)
        }
    }

    /// The value as an SQL literal, blobs as `X'...'`.
    fileprivate var quoted: String {
        switch storage {
        case .null: "NULL"
        case .int64(let value): String(value)
        // As SQLite writes the values of parameters; SQL itself has no literal for infinity.
        case .double(let value) where value.isInfinite: value < 0 ? "-Inf" : "Inf"
        case .double(let value): String(value)
        case .string(let value): "'" + value.replacing("'", with: "''") + "'"
        case .blob(let value): DatabaseValue.literal(value)
        }
    }
}

extension DumpFormat where Self == DebugDumpFormat {
    /// One line for each row, for people.
    public static func debug(header: Bool = false, separator: String = "|", nullValue: String = "") -> Self {
        DebugDumpFormat(header: header, separator: separator, nullValue: nullValue)
    }
}

extension DumpFormat where Self == ListDumpFormat {
    /// One line for each row.
    public static func list(header: Bool = false, separator: String = "|", nullValue: String = "") -> Self {
        ListDumpFormat(header: header, separator: separator, nullValue: nullValue)
    }
}

extension DumpFormat where Self == LineDumpFormat {
    /// One line for each value.
    public static func line(nullValue: String = "") -> Self { LineDumpFormat(nullValue: nullValue) }
}

extension DumpFormat where Self == QuoteDumpFormat {
    /// One line for each row, of SQL literals.
    public static func quote(header: Bool = false, separator: String = ",") -> Self {
        QuoteDumpFormat(header: header, separator: separator)
    }
}
