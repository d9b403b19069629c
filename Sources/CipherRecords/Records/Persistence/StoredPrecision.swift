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
//
// A number has no leading zeros, signs, spaces or final zeros. A text that has them is a code, as of a place or a version,
// and would come back as another one. A decimal number has none of them.
extension TypeAffinity {
    /// The part of a value that a column would lose.
    enum Loss {
        /// Digits of a number.
        case digits
        /// The notation of a text, which would become a number.
        case notation
    }

    /// Whether the column may store another number: a first look, which needs no copy of the value.
    @inline(__always)
    func mayChange(_ value: DatabaseValue) -> Bool {
        switch value.storage {
        case .int64: self == .real
        case .string: self == .real || self == .numeric
        case .double: self == .text
        case .null, .blob: false
        }
    }

    /// The part of a value that the column would lose; nil if it stores the value as it is, or in an equal form.
    func loss(of value: DatabaseValue) -> Loss? {
        switch (self, value.storage) {
        case (.real, .int64(let integer)): Int64(exactly: Double(integer)) == integer ? nil : .digits
        case (.numeric, .string(let text)):
            Self.isRounded(text) && Int64(Self.trimmed(text)) == nil ? .digits : Self.notationLoss(of: text)
        case (.real, .string(let text)): Self.isRounded(text) ? .digits : Self.notationLoss(of: text)
        case (.text, .double(let double)): Self.isRounded(double) ? .digits : nil
        default: nil
        }
    }

    /// The loss of a text that is a number in another notation than that of numbers.
    private static func notationLoss(of text: String) -> Loss? {
        if DecimalDigits(text.utf8) == nil { return nil }
        return isPlain(text.utf8) ? nil : .notation
    }

    /// Whether the text of a number has nothing that the number has not.
    private static func isPlain(_ text: String.UTF8View) -> Bool {
        let (minus, zero, point) = (UInt8(ascii: "-"), UInt8(ascii: "0"), UInt8(ascii: "."))
        let digits = text.first == minus ? text.dropFirst() : text[...]
        let whole = digits.prefix { $0 != point }
        guard let first = whole.first, whole.allSatisfy({ (zero...UInt8(ascii: "9")).contains($0) }),
            first != zero || whole.count == 1
        else { return false }
        let fraction = digits.dropFirst(whole.count)
        if fraction.isEmpty { return first != zero || text.count == 1 }
        return fraction.count > 1 && fraction.last != zero
            && fraction.dropFirst().allSatisfy { (zero...UInt8(ascii: "9")).contains($0) }
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

extension RecordTable {
    /// The columns of a record that an insertion stores: all but those that the table computes.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISMATCH` for a value that a column would change; `.SQLITE_MISUSE` if the
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

    /// - Throws: ``DatabaseError`` `.SQLITE_MISMATCH` for a value that a column would change.
    func requirePrecision(
        of container: PersistenceContainer, at indexes: some Collection<Int>
    ) throws {
        if latestAffinities.names !== container.names || latestAffinities.list.count != container.values.count {
            let list = container.columns.map { affinities[$0.lowercased()] ?? TypeAffinity.none }
            latestAffinities = (container.names, list)
        }
        let list = latestAffinities.list
        let changed = container.values.withUnsafeBufferPointer { values in
            indexes.first { list[$0].mayChange(values[$0]) && list[$0].loss(of: values[$0]) != nil }
        }
        guard let changed, let loss = list[changed].loss(of: container.values[changed]) else { return }
        throw DatabaseError.losing(loss, of: container.columns[changed], of: name)
    }
}

extension DatabaseError {
    /// The error of a value that a column would change. It has no value.
    fileprivate static func losing(
        _ loss: TypeAffinity.Loss, of column: String, of table: String
    ) -> DatabaseError {
        let message =
            switch loss {
            case .digits:
                "the type of column \(column) of table \(table) would round the number of the record: a double has 15 to 17 "
                    + "digits, and a TEXT column keeps 15 of them. Declare the column TEXT for decimal numbers, REAL for "
                    + "doubles, INTEGER for integers"
            case .notation:
                "the type of column \(column) of table \(table) would make a number of the text of the record, without its "
                    + "leading zeros, signs, spaces or final zeros. Declare the column TEXT"
            }
        return DatabaseError(resultCode: .SQLITE_MISMATCH, message: message)
    }
}
