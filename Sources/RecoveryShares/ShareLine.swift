/// One line of a printed share: 8 bytes and a check of 2 bytes in 16 characters of Crockford's base 32, in groups of
/// four. The form is that of a line of a recovery key; the check covers more (``check(_:line:header:)``).
enum ShareLine {
    static let dataBytes = 8
    static let characters = 16
    static let groupCharacters = 4
    /// The bytes of the text of a line: each group is followed by a hyphen or the end of the line.
    static let textBytes = characters + characters / groupCharacters
    static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    private static let bitsOfCharacter = 5
    /// Added to the number of a line in its check, so that no line is also one of a recovery key.
    private static let lineMark = UInt8(0x10)

    /// Writes the text of a line.
    ///
    /// - Parameters:
    ///   - line: The number of the line, from 1.
    ///   - header: The data of line 1; nil for that line itself.
    static func write(_ data: UInt64, line: Int, header: UInt64?, to output: UnsafeMutableRawBufferPointer) {
        let check = UInt64(check(data, line: line, header: header))
        for position in 0..<characters {
            // The bits of this character in the 80 bits of data and check.
            let shift = (characters - 1 - position) * bitsOfCharacter
            let bits = shift >= 16 ? data >> UInt64(shift - 16) : data << UInt64(16 - shift) | check >> UInt64(shift)
            let offset = position + position / groupCharacters
            output[offset] = alphabet[Int(bits & 31)]
            output[offset + 1] = UInt8(ascii: "-")
        }
        output[textBytes - 1] = UInt8(ascii: "\n")
    }

    /// The data in the symbols of a line; nil when the check does not match.
    static func read(_ symbols: Slice<UnsafeRawBufferPointer>, line: Int, header: UInt64?) -> UInt64? {
        guard symbols.count == characters, symbols.allSatisfy({ $0 < alphabet.count }) else { return nil }
        var (high, low) = (UInt64(0), UInt64(0))
        for symbol in symbols {
            high = high << UInt64(bitsOfCharacter) | low >> UInt64(64 - bitsOfCharacter)
            low = low << UInt64(bitsOfCharacter) | UInt64(symbol)
        }
        let data = high << 48 | low >> 16
        return check(data, line: line, header: header) == UInt16(truncatingIfNeeded: low) ? data : nil
    }

    /// CRC-16 (polynomial 0x1021, initial value 0xFFFF) of the line's number, the header and the data. It detects each
    /// wrong character, two adjacent characters in the wrong order, a line in the wrong position, and a line of another
    /// share.
    static func check(_ data: UInt64, line: Int, header: UInt64?) -> UInt16 {
        var crc = UInt16(0xFFFF)
        func take(_ byte: UInt8) {
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc << 1 ^ 0x1021 & (0 &- crc >> 15) }
        }
        take(lineMark + UInt8(line))
        for word in [header, data].compactMap(\.self) {
            for shift in stride(from: 56, through: 0, by: -8) { take(UInt8(truncatingIfNeeded: word >> UInt64(shift))) }
        }
        return crc
    }
}
