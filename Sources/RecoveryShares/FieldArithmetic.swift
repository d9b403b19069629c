/// The field of 256 elements with the polynomial x^8 + x^4 + x^3 + x + 1: that of AES and of SLIP-39.
///
/// A sum is `^`. Each operation takes the same steps for all operands: nothing branches on a secret, and no table is
/// indexed by one.
/// - SeeAlso: FIPS 197, section 4; <https://github.com/satoshilabs/slips/blob/master/slip-0039.md>
enum FieldArithmetic {
    /// The polynomial without its highest term.
    private static let reduction = UInt8(0x1b)

    static func product(_ one: UInt8, _ other: UInt8) -> UInt8 {
        var (term, factor, sum) = (one, other, UInt8(0))
        for _ in 0..<UInt8.bitWidth {
            sum ^= term & mask(factor & 1)
            term = term << 1 ^ reduction & mask(term >> 7)
            factor >>= 1
        }
        return sum
    }

    /// The inverse of an element, and 0 of 0: its power 254, because the power 255 of each other element is 1.
    static func inverse(_ element: UInt8) -> UInt8 {
        var (square, result) = (element, UInt8(1))
        // 254 is 2 + 4 + ... + 128.
        for _ in 1..<UInt8.bitWidth {
            square = product(square, square)
            result = product(result, square)
        }
        return result
    }

    /// All bits for 1, none for 0.
    private static func mask(_ bit: UInt8) -> UInt8 { 0 &- bit }
}
