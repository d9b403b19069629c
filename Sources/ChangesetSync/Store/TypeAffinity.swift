import CipherDatabase

/// The conversion by SQLite when it stores a value in a column of a type, or compares it with one. A value of a commit is
/// one that the column of its author has stored, so where the types are the same it stays as it is.
///
/// - SeeAlso: <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>
enum TypeAffinity: Sendable {
    /// Every value stays as it is.
    case none
    case text
    /// INTEGER and NUMERIC: they store the same.
    case numeric
    case real

    /// - Parameters:
    ///   - type: The type in the definition of the table, in upper case.
    ///   - isStrict: Whether the table is STRICT, where ANY admits all values.
    init(type: String, isStrict: Bool) {
        if type.contains("INT") {
            self = .numeric
        } else if ["CHAR", "CLOB", "TEXT"].contains(where: type.contains) {
            self = .text
        } else if type.isEmpty || type.contains("BLOB") || isStrict && type == "ANY" {
            self = .none
        } else if ["REAL", "FLOA", "DOUB"].contains(where: type.contains) {
            self = .real
        } else {
            self = .numeric
        }
    }

    /// Whether the column would store something else.
    func converts(_ value: CellValue) -> Bool {
        switch (self, value) {
        case (.none, _), (_, .null), (_, .blob), (.text, .text), (.numeric, .integer): false
        // It stores whole numbers as integers, which have no negative zero.
        case (.real, .real(let number)): number == 0 && number.sign == .minus
        case (.text, .integer), (.text, .real), (.real, .integer): true
        case (.numeric, .real(let number)): Int64(exactly: number).map { $0 > .min } ?? false
        case (.numeric, .text(let bytes)), (.real, .text(let bytes)): Self.isNumber(bytes)
        }
    }

    /// A whole number as the column stores it.
    func stored(_ number: Int64) -> CellValue {
        switch self {
        case .none, .numeric: .integer(number)
        case .text: .string(String(number))
        case .real: .real(Double(number))
        }
    }

    /// Whether a text is that of a number, with spaces around it.
    static func isNumber(_ text: some Collection<UInt8>) -> Bool {
        var rest = Substring(decoding: text, as: UTF8.self).drop(while: isSpace)
        while let last = rest.last, isSpace(last) { rest.removeLast() }
        if let first = rest.first, "+-".contains(first) { rest.removeFirst() }
        func takeDigits() -> Bool {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest[digits.endIndex...]
            return !digits.isEmpty
        }
        let hasWhole = takeDigits()
        var hasFraction = false
        if rest.first == "." {
            rest.removeFirst()
            hasFraction = takeDigits()
        }
        guard hasWhole || hasFraction else { return false }
        if let exponent = rest.first, "eE".contains(exponent) {
            rest.removeFirst()
            if let sign = rest.first, "+-".contains(sign) { rest.removeFirst() }
            if !takeDigits() { return false }
        }
        return rest.isEmpty
    }

    private static func isSpace(_ character: Character) -> Bool {
        [" ", "\t", "\n", "\u{B}", "\u{C}", "\r", "\r\n"].contains(character)
    }
}
