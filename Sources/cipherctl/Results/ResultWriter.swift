import CipherStore
import KeyCustody

/// The form in which rows are printed.
enum ResultMode: String, CaseIterable {
    case table
    case csv
    case json

    func makeWriter() -> any ResultWriter {
        switch self {
        case .table: TableWriter()
        case .csv: CSVWriter()
        case .json: JSONWriter()
        }
    }
}

/// Prints the rows of one statement.
protocol ResultWriter {
    mutating func begin(_ columns: [String], to output: Output) throws
    mutating func add(_ row: [DatabaseValue], to output: Output) throws
    mutating func end(to output: Output) throws
}

extension DatabaseValue {
    /// The value as tables and CSV show it; nil for NULL. Blobs are SQL literals: `X'00FF'`.
    var shownText: String? {
        switch storage {
        case .null: nil
        case .int64(let value): String(value)
        case .double(let value): String(value)
        case .string(let value): value
        case .blob(let value): "X'\(Hex.text(Array(value)).uppercased())'"
        }
    }

    /// The value in JSON; a blob is an object with its bytes in hexadecimal, so that it is told from a text.
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
