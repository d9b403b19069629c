import CipherDatabase

// A value of a commit is one that the column of its author has stored, so where the types are the same it stays as it is.
extension TypeAffinity {
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
    static func isNumber(_ text: some Collection<UInt8>) -> Bool { DecimalDigits(text) != nil }
}
