/// The digits of a number in a text, as SQLite reads one: without zeros at the ends, and the place of the last one.
package struct DecimalDigits: Equatable, Sendable {
    package private(set) var isNegative = false
    package private(set) var digits: [UInt8] = []
    /// The power of ten of the last digit.
    package private(set) var exponent = 0

    /// A double stands for each number of so many digits.
    /// https://en.wikipedia.org/wiki/Double-precision_floating-point_format
    private static let exactDigits = 15
    private static let exactExponents = -300...290

    package var isExactInDouble: Bool { digits.count <= Self.exactDigits && Self.exactExponents.contains(exponent) }

    /// - Returns: nil for a text that is not a number with spaces around it.
    package init?<Text: Collection<UInt8>>(_ text: Text) {
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
