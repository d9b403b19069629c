import Foundation

// Values within definitions: SQLite keeps a definition as text and binds no parameters in it.

extension SQL {
    /// The text with its values written as SQL literals, in place of its parameters.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` when parameters and values do not correspond; the message names
    ///   no value.
    package func definition(_ db: Database) throws -> String {
        try written(db).spelled { try $0.encodedLiteral() }.text
    }

    /// The text with a question mark for each parameter, and the values in their order.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` when parameters and values do not correspond; the message names
    ///   no value.
    func positional() throws -> (text: String, values: [DatabaseValue]) { try spelled { _ in "?" } }

    /// The text with something written in place of its parameters, and their values.
    private func spelled(_ spelling: (DatabaseValue) throws -> String) throws -> (text: String, values: [DatabaseValue])
    {
        if arguments.isEmpty && !text.utf8.contains(where: Self.mayBeginParameter) { return (text, []) }
        let pieces = try spelledPieces(spelling)
        return (pieces.map(\.text).joined(), pieces.flatMap(\.values))
    }

    /// The texts between the insertions, one more than these, with question marks for their parameters and the values
    /// in their order. Names and numbers of parameters hold for all of them.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` when parameters and values do not correspond; the message names
    ///   no value.
    package func positionalPieces() throws -> [(text: String, values: [DatabaseValue])] {
        try spelledPieces { _ in "?" }
    }

    private func spelledPieces(
        _ spelling: (DatabaseValue) throws -> String
    ) throws -> [(text: String, values: [DatabaseValue])] {
        let bytes = Array(text.utf8)
        let bounds = [0] + insertions.map(\.textOffset) + [bytes.count]
        var parameters = ParameterValues(arguments)
        let pieces = try zip(bounds, bounds.dropFirst()).map { start, end in
            try Self.spelled(String(decoding: bytes[start..<end], as: UTF8.self), &parameters, spelling)
        }
        if pieces.contains(where: { $0 == nil }) || !parameters.areAllUsed { throw mismatch() }
        return pieces.compactMap { $0 }
    }

    /// nil where a parameter has no value.
    private static func spelled(
        _ text: String, _ parameters: inout ParameterValues, _ spelling: (DatabaseValue) throws -> String
    ) throws -> (text: String, values: [DatabaseValue])? {
        let bytes = Array(text.utf8)
        var values: [DatabaseValue] = []
        var written: [UInt8] = []
        var position = 0
        for token in SQLToken.tokens(of: text) where token.kind == .parameter {
            written += bytes[position..<token.bytes.lowerBound]
            guard let value = parameters.value(of: token.text) else { return nil }
            let literal = try spelling(value)
            values.append(value)
            // A minus sign before a negative number would begin a comment.
            if literal.hasPrefix("-"), written.last == UInt8(ascii: "-") { written.append(UInt8(ascii: " ")) }
            written += literal.utf8
            position = token.bytes.upperBound
        }
        written += bytes[position...]
        return (String(decoding: written, as: UTF8.self), values)
    }

    /// Whether a parameter may have a name or a number: its value is then not found by its place in the text alone.
    package var mayNameParameters: Bool {
        if !arguments.namedValues.isEmpty { return true }
        var isNumber = false
        for byte in text.utf8 {
            if ":@$".utf8.contains(byte) { return true }
            if isNumber, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { return true }
            isNumber = byte == UInt8(ascii: "?")
        }
        return false
    }

    private static func mayBeginParameter(_ byte: UInt8) -> Bool { "?:@$".utf8.contains(byte) }

    private func mismatch() -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE, message: "wrong number of statement arguments", sql: text.trimmingSQL())
    }
}

/// Finds the value of each parameter as SQLite numbers them.
/// - SeeAlso: <https://www.sqlite.org/c3ref/bind_blob.html>
private struct ParameterValues {
    private let arguments: StatementArguments
    private var numbers: [String: Int] = [:]
    private var lastNumber = 0
    /// The values of named parameters that used one by position.
    private var taken: [Int: DatabaseValue] = [:]
    private var usedNames: Set<String> = []
    private var usedPositions = 0

    init(_ arguments: StatementArguments) { self.arguments = arguments }

    /// Whether every value by position was used, and a name if there are any.
    var areAllUsed: Bool {
        usedPositions >= arguments.values.count && (arguments.namedValues.isEmpty || !usedNames.isEmpty)
    }

    mutating func value(of parameter: String) -> DatabaseValue? {
        let number = number(of: parameter)
        let name = String(parameter.dropFirst())
        if !parameter.hasPrefix("?"), let value = arguments.namedValues[name] {
            usedNames.insert(name)
            return value
        }
        if let value = taken[number] { return value }
        // Named parameters that have a value by name use no position.
        let position = parameter.hasPrefix("?") && parameter.utf8.count > 1 ? number - 1 : usedPositions
        guard arguments.values.indices.contains(position) else { return nil }
        usedPositions = max(usedPositions, position + 1)
        taken[number] = arguments.values[position]
        return arguments.values[position]
    }

    private mutating func number(of parameter: String) -> Int {
        if let known = numbers[parameter] { return known }
        if parameter == "?" {
            lastNumber += 1
            return lastNumber
        }
        let number = parameter.hasPrefix("?") ? Int(parameter.dropFirst()) ?? 0 : lastNumber + 1
        numbers[parameter] = number
        lastNumber = max(lastNumber, number)
        return number
    }
}

extension DatabaseValue {
    /// The value as an SQL literal, for definitions.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISMATCH` for a value that could not be encoded.
    package func encodedLiteral() throws -> String {
        if isUnencodable { throw DatabaseError.unencodable(sql: nil) }
        return literal
    }

    /// The value as an SQL literal.
    package var literal: String {
        switch storage {
        case .null: "NULL"
        case .int64(let value): String(value)
        case .double(let value) where value.isNaN: "NULL"
        case .double(let value) where value.isInfinite: value < 0 ? "-9e999" : "9e999"
        case .double(let value): String(value)
        // SQL text ends at a NUL.
        case .string(let value) where value.utf8.contains(0): "(CAST(\(Self.literal(Data(value.utf8))) AS TEXT))"
        case .string(let value): "'" + value.replacingOccurrences(of: "'", with: "''") + "'"
        case .blob(let value): Self.literal(value)
        }
    }

    /// A blob as SQL writes it: `X'0A'`.
    package static func literal(_ data: Data) -> String {
        "X'" + data.map { String(format: "%02X", $0) }.joined() + "'"
    }
}
