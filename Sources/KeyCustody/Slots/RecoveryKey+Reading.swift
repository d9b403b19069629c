import StoreCrypto
import StorePlatform

extension RecoveryKey {
    /// Why a text is no recovery key. It never shows what was typed.
    package enum ReadingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// It does not read like one: another secret, or one that was broken in many places.
        case otherText
        /// There are more or fewer than 64 characters, and nothing tells where.
        case length(found: Int)
        /// There are more or fewer than 4 lines, and nothing tells which is too many or missing.
        case lineCount(found: Int)
        /// A line, from 1 to 4, is not there.
        case missing(line: Int)
        /// A line is there twice.
        case doubled(line: Int)
        /// A line has more or fewer than 16 characters.
        case lineLength(line: Int, found: Int)
        /// A line has a character that no recovery key has.
        case character(line: Int)
        /// A line does not fit its check: a character is wrong, or it is not this line.
        case check(line: Int)

        package var description: String {
            switch self {
            case .otherText: "it does not read like a recovery key"
            case .length(let found): "it has \(found) characters instead of 64"
            case .lineCount(let found): "it has \(found) lines instead of 4"
            case .missing(let line): "line \(line) is missing"
            case .doubled(let line): "line \(line) is there twice"
            case .lineLength(let line, let found): "line \(line) has \(found) characters instead of 16"
            case .character(let line): "line \(line) has a character that no recovery key has"
            case .check(let line): "line \(line) has a wrong character, or is not line \(line)"
            }
        }
    }

    /// Reads what was printed.
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

    /// Reads what was printed from a text.
    package init(reading text: String) throws(ReadingError) {
        let secret = SecretBytes(copying: text.utf8)
        self = try secret.withBytes { bytes throws(ReadingError) in try RecoveryKey(reading: bytes) }
    }
}
