import CipherDatabase
import Foundation

/// A JSON array of objects, one for each row. Blobs are base64; columns keep their order, and their names even where
/// two are the same.
public struct JSONDumpFormat: DumpFormat, Sendable {
    /// A new encoder for values: blobs as base64, infinities as `"inf"` and `"-inf"`, slashes as they are.
    public static var defaultEncoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        encoder.dataEncodingStrategy = .base64
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        return encoder
    }

    /// Encodes names and values, each by itself. With `.prettyPrinted`, each value is on a line of its own.
    public var encoder: JSONEncoder
    private var isFirstRow = true
    private var isPretty: Bool { encoder.outputFormatting.contains(.prettyPrinted) }

    public init(encoder: JSONEncoder = JSONDumpFormat.defaultEncoder) { self.encoder = encoder }

    public mutating func writeRow(_ db: Database, statement: Statement, to stream: inout DumpStream) throws {
        let row = DumpedRow(statement)
        let members = try zip(row.names, row.values).map { try "\(json($0)):\(json($1))" }
        stream.write(isFirstRow ? (isPretty ? "[\n" : "[") : ",\n")
        isFirstRow = false
        let (opening, separator, closing) = isPretty ? ("  {\n    ", ",\n    ", "\n  }") : ("{", ",", "}")
        stream.write(opening + members.joined(separator: separator) + closing)
    }

    public mutating func finalize(_ db: Database, statement: Statement, to stream: inout DumpStream) {
        if !isFirstRow {
            stream.writeLine(isPretty ? "\n]" : "]")
        } else if statement.columnCount > 0 {
            stream.writeLine("[]")
        }
        isFirstRow = true
    }

    private func json(_ value: DatabaseValue) throws -> String {
        switch value.storage {
        case .null: "null"
        case .int64(let value): try json(value)
        case .double(let value): try json(value)
        case .string(let value): try json(value)
        case .blob(let value): try json(value)
        }
    }

    private func json(_ value: some Encodable) throws -> String {
        String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}

extension DumpFormat where Self == JSONDumpFormat {
    /// A JSON array of objects, one for each row.
    public static func json(encoder: JSONEncoder = JSONDumpFormat.defaultEncoder) -> Self {
        JSONDumpFormat(encoder: encoder)
    }
}
