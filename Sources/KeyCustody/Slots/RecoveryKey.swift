import StoreCrypto
import StorePlatform

/// A random key of 256 bits as text to print: four lines of sixteen characters, each with its own check.
///
/// A line holds 64 bits of the key and 16 bits that check them and the number of the line, in Crockford's base 32, as
/// in `0009-0014-R1MS-Q4VF` (`Docs/Formats/Sidecar.md`). Typed text may contain small letters, blanks, hyphens and line
/// numbers, and I, L and O for 1, 1 and 0.
package struct RecoveryKey: Sendable {
    static let lineCount = 4
    static let lineCharacters = 16
    static let groupCharacters = 4
    static let lineDataBytes = RawKey.byteCount / lineCount
    static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    let key: RawKey

    /// Makes a new recovery key.
    package static func random() throws -> RecoveryKey { RecoveryKey(try RawKey.random()) }

    init(_ key: RawKey) { self.key = key }

    /// The four lines in groups of four characters, each line ended by a line feed: ASCII in locked memory.
    package func text() -> SecretBytes {
        // Each group is followed by a hyphen or the end of the line.
        let lineBytes = Self.lineCharacters + Self.lineCharacters / Self.groupCharacters
        return key.bytes.withBytes { key in
            SecretBytes(count: Self.lineCount * lineBytes) { output in
                for line in 0..<Self.lineCount {
                    let bytes = key[line * Self.lineDataBytes..<(line + 1) * Self.lineDataBytes]
                    let data = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                    let check = Self.check(data, line: line + 1)
                    for position in 0..<Self.lineCharacters {
                        let offset = line * lineBytes + position + position / Self.groupCharacters
                        output[offset] = Self.alphabet[Self.symbol(position, data, check)]
                        output[offset + 1] = UInt8(ascii: "-")
                    }
                    output[(line + 1) * lineBytes - 1] = UInt8(ascii: "\n")
                }
            }
        }
    }

    /// The symbol at a position of a line. The first twelve are data; the next has the last four bits of data and the
    /// first bit of the check; the last three are the rest of the check.
    private static func symbol(_ position: Int, _ data: UInt64, _ check: UInt16) -> Int {
        switch position {
        case ..<12: Int(data >> UInt64(59 - 5 * position) & 31)
        case 12: Int(data & 15) << 1 | Int(check >> 15)
        default: Int(check >> UInt16(10 - 5 * (position - 13)) & 31)
        }
    }

    /// The 64 bits in the symbols of a line, numbered from 1; nil when the check does not match.
    static func read(_ symbols: Slice<UnsafeRawBufferPointer>, line: Int) -> UInt64? {
        guard symbols.count == lineCharacters, symbols.allSatisfy({ $0 < alphabet.count }) else { return nil }
        var data = UInt64(0)
        var found = UInt16(0)
        for (position, symbol) in symbols.enumerated() {
            switch position {
            case ..<12: data = data << 5 | UInt64(symbol)
            case 12:
                data = data << 4 | UInt64(symbol >> 1)
                found = UInt16(symbol & 1)
            default: found = found << 5 | UInt16(symbol)
            }
        }
        return check(data, line: line) == found ? data : nil
    }

    /// CRC-16 (polynomial 0x1021, initial value 0xFFFF) of the line's number and its data. It detects every single
    /// wrong character, every two adjacent characters in the wrong order, and every line in the wrong position.
    private static func check(_ data: UInt64, line: Int) -> UInt16 {
        var crc = UInt16(0xFFFF)
        func take(_ byte: UInt8) {
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 != 0 ? crc << 1 ^ 0x1021 : crc << 1 }
        }
        take(UInt8(line))
        for shift in stride(from: 56, through: 0, by: -8) { take(UInt8(truncatingIfNeeded: data >> UInt64(shift))) }
        return crc
    }
}

extension RecoveryKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "RecoveryKey(256 bits)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension RecoveryKey {
    /// Why a text is not a recovery key. It never contains what was typed.
    package enum ReadingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The text does not resemble one: it is another secret, or has faults in many places.
        case otherText
        /// There are more or fewer than 64 characters, and it is not known where.
        case length(found: Int)
        /// There are more or fewer than 4 lines, and it is not known which one is extra or missing.
        case lineCount(found: Int)
        /// A line, from 1 to 4, is missing.
        case missing(line: Int)
        /// A line occurs twice.
        case doubled(line: Int)
        /// A line has more or fewer than 16 characters.
        case lineLength(line: Int, found: Int)
        /// A line has a character that does not occur in recovery keys.
        case character(line: Int)
        /// A line does not match its check: a character is wrong, or it is another line.
        case check(line: Int)

        package var description: String {
            switch self {
            case .otherText: "it does not read like a recovery key"
            case .length(let found): "it has \(CountText.text(found, "character")) instead of 64"
            case .lineCount(let found): "it has \(CountText.text(found, "line")) instead of 4"
            case .missing(let line): "line \(line) is missing"
            case .doubled(let line): "line \(line) is there twice"
            case .lineLength(let line, let found):
                "line \(line) has \(CountText.text(found, "character")) instead of 16"
            case .character(let line): "line \(line) has a character that no recovery key has"
            case .check(let line): "line \(line) has a wrong character, or is not line \(line)"
            }
        }
    }

    /// Reads a recovery key as it was printed.
    package init(reading text: UnsafeRawBufferPointer) throws(ReadingError) {
        let typed = RecoveryKeyText(text)
        guard typed.isWhole else { throw typed.fault() }
        let secret = SecretBytes(count: RawKey.byteCount) { output in
            for line in 0..<Self.lineCount {
                let data = typed.data(ofLine: line + 1, at: line * Self.lineCharacters) ?? 0
                for byte in 0..<Self.lineDataBytes {
                    output[line * Self.lineDataBytes + byte] = UInt8(truncatingIfNeeded: data >> UInt64(56 - 8 * byte))
                }
            }
        }
        guard let key = try? RawKey(secret) else { throw .otherText }
        self.init(key)
    }

    /// Reads a recovery key as it was printed.
    init(reading text: String) throws(ReadingError) {
        let secret = SecretBytes(copying: text.utf8)
        self = try secret.withBytes { bytes throws(ReadingError) in try RecoveryKey(reading: bytes) }
    }
}
