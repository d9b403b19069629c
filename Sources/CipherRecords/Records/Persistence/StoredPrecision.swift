import CipherDatabase
import Foundation

// A column stores another number than the given one in these cases:
//
// | type | value | stored |
// |---|---|---|
// | INTEGER, NUMERIC | a text that is a number | an integer of 64 bits, or else a double |
// | REAL | a text that is a number, an integer | a double |
// | TEXT | a double | a text of 15 significant digits |
//
// A double has 15 to 17 significant digits. Blobs are stored as they are, by every type, and everything is by a column
// without a type.
extension TypeAffinity {
    /// Whether the column may store another number: a first look, which needs no copy of the value.
    @inline(__always)
    func mayRound(_ value: DatabaseValue) -> Bool {
        switch value.storage {
        case .int64: self == .real
        case .string: self == .real || self == .numeric
        case .double: self == .text
        case .null, .blob: false
        }
    }

    /// Whether the column stores another number.
    func rounds(_ value: DatabaseValue) -> Bool {
        switch (self, value.storage) {
        case (.real, .int64(let integer)): Int64(exactly: Double(integer)) != integer
        case (.numeric, .string(let text)): Self.isRounded(text) && Int64(Self.trimmed(text)) == nil
        case (.real, .string(let text)): Self.isRounded(text)
        case (.text, .double(let double)): Self.isRounded(double)
        default: false
        }
    }

    /// Whether 15 digits, which SQLite writes, are not all of a double.
    /// - SeeAlso: <https://www.sqlite.org/datatype3.html#type_affinity>
    private static func isRounded(_ double: Double) -> Bool {
        if double.isNaN { return false }
        guard let digits = DecimalDigits("\(double)".utf8) else { return true }
        return !digits.isExactInDouble && Double(String(format: "%.15g", double)) != double
    }

    private static func trimmed(_ text: String) -> String { text.filter { !$0.isWhitespace } }

    /// Whether a text is a number that no double stands for.
    private static func isRounded(_ text: String) -> Bool {
        guard let number = DecimalDigits(text.utf8) else { return false }
        if number.digits.isEmpty || number.isExactInDouble { return false }
        guard let double = Double(trimmed(text)), double.isFinite else { return true }
        return DecimalDigits("\(double)".utf8) != number
    }
}

/// The digits of a number in a text, as SQLite reads one: without zeros at the ends, and the place of the last one.
struct DecimalDigits: Equatable {
    private(set) var isNegative = false
    private(set) var digits: [UInt8] = []
    /// The power of ten of the last digit.
    private(set) var exponent = 0

    /// A double stands for each number of so many digits.
    /// https://en.wikipedia.org/wiki/Double-precision_floating-point_format
    private static let exactDigits = 15
    private static let exactExponents = -300...290

    var isExactInDouble: Bool { digits.count <= Self.exactDigits && Self.exactExponents.contains(exponent) }

    /// - Returns: nil for a text that is not a number with spaces around it.
    init?<Text: Collection<UInt8>>(_ text: Text) {
        var rest = text[...]
        func next() -> UInt8? { rest.first }
        func takeSpaces() { rest = rest.drop { $0 == UInt8(ascii: " ") || (9...13).contains($0) } }
        func takeSign() -> Bool {
            guard let sign = next(), sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") else { return false }
            rest = rest.dropFirst()
            return sign == UInt8(ascii: "-")
        }
        func takeDigits() -> Text.SubSequence {
            let end = rest.firstIndex { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ?? rest.endIndex
            defer { rest = rest[end...] }
            return rest[..<end]
        }
        takeSpaces()
        isNegative = takeSign()
        let whole = takeDigits()
        var fraction = rest.prefix(0)
        if next() == UInt8(ascii: ".") {
            rest = rest.dropFirst()
            fraction = takeDigits()
        }
        guard !whole.isEmpty || !fraction.isEmpty else { return nil }
        if let letter = next(), letter | 0x20 == UInt8(ascii: "e") {
            rest = rest.dropFirst()
            let isSmall = takeSign()
            let power = takeDigits()
            guard !power.isEmpty else { return nil }
            // A greater one is no number that a double stands for.
            let size = power.count > 6 ? 1_000_000 : power.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
            exponent = isSmall ? -size : size
        }
        takeSpaces()
        guard rest.isEmpty else { return nil }
        exponent -= fraction.count
        digits = Array((Array(whole) + Array(fraction)).drop { $0 == UInt8(ascii: "0") })
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            exponent += 1
        }
        if digits.isEmpty { (isNegative, exponent) = (false, 0) }
    }
}

extension RecordTable {
    /// The columns of a record that an insertion stores: all but those that the table computes.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISMATCH` for a number that a column would round; `.SQLITE_MISUSE` if the
    ///   table computes all of them.
    func inserted(_ container: PersistenceContainer) throws -> PersistenceContainer {
        let stored = withoutGenerated(container)
        if stored.values.isEmpty {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "table \(name) computes every column of the record: encode(to:) has to set another one")
        }
        try requirePrecision(of: stored, at: stored.values.indices)
        return stored
    }

    /// - Throws: ``DatabaseError`` `.SQLITE_MISMATCH` for a number that a column would round.
    func requirePrecision(
        of container: PersistenceContainer, at indexes: some Collection<Int>
    ) throws {
        if latestAffinities.names !== container.names || latestAffinities.list.count != container.values.count {
            let list = container.columns.map { affinities[$0.lowercased()] ?? TypeAffinity.none }
            latestAffinities = (container.names, list)
        }
        let list = latestAffinities.list
        let rounded = container.values.withUnsafeBufferPointer { values in
            indexes.first { list[$0].mayRound(values[$0]) && list[$0].rounds(values[$0]) }
        }
        if let rounded { throw DatabaseError.rounding(container.columns[rounded], of: name) }
    }
}

extension DatabaseError {
    /// The error of a number that a column would round. It has no value.
    fileprivate static func rounding(_ column: String, of table: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISMATCH,
            message:
                "the type of column \(column) of table \(table) would round the number of the record: a double has "
                + "15 to 17 digits, and a TEXT column keeps 15 of them. Declare the column TEXT for decimal numbers, REAL "
                + "for doubles, INTEGER for integers"
        )
    }
}
