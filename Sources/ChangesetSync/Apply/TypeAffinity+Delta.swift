import CipherDatabase

// A value of a commit is one that the column of its author has stored, so where the types are the same it stays as it is.
extension TypeAffinity {
    /// Whether the column would store something else.
    func converts(_ value: DeltaValue) -> Bool {
        switch (self, value) {
        case (.none, _), (_, .undefined), (_, .null), (_, .blob), (.text, .text), (.numeric, .integer): false
        // It stores whole numbers as integers, which have no negative zero.
        case (.real, .real(let number)): number == 0 && number.sign == .minus
        case (.text, .integer), (.text, .real), (.real, .integer): true
        case (.numeric, .real(let number)): Int64(exactly: number).map { $0 > .min } ?? false
        case (.numeric, .text(let bytes)), (.real, .text(let bytes)): Self.isNumber(bytes)
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

extension TrackedTable {
    /// The first column that would store something else than a row has there; nil where all stay as they are.
    func firstConverting(_ row: DeltaRecord) -> Int? {
        for (column, value) in row.enumerated() where columns[column].affinity.converts(value) { return column }
        return nil
    }
}
