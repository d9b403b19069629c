import StoreCrypto
import StorePlatform

extension RecoveryKey {
    /// Where a text stops being a recovery key. It never shows what was typed.
    package enum ReadingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// There are more or fewer than 64 characters, and lines do not tell where.
        case length(found: Int)
        /// A line, from 1 to 4, has more or fewer than 16 characters.
        case lineLength(line: Int, found: Int)
        /// A line has a character that no recovery key has.
        case character(line: Int)
        /// A line does not fit its check: a character is wrong, or it is not this line.
        case check(line: Int)

        package var description: String {
            switch self {
            case .length(let found): "a recovery key has 64 characters in 4 lines, and this text has \(found)"
            case .lineLength(let line, let found): "line \(line) has \(found) characters instead of 16"
            case .character(let line): "line \(line) has a character that no recovery key has"
            case .check(let line): "line \(line) has a wrong character, or is not line \(line)"
            }
        }
    }

    /// Reads what was printed.
    package init(reading text: UnsafeRawBufferPointer) throws(ReadingError) {
        var reader = SymbolReader()
        for character in text { reader.take(character) }
        try reader.finish()
        var wrongLine: Int?
        let secret = SecretBytes(count: RawKey.byteCount) { output in
            reader.symbols.withBytes { symbols in
                for line in (0..<Self.lineCount).reversed() {
                    let from = symbols[line * Self.lineCharacters..<(line + 1) * Self.lineCharacters]
                    let to = output[line * Self.lineDataBytes..<(line + 1) * Self.lineDataBytes]
                    if !Self.read(from, line: line + 1, into: to) { wrongLine = line + 1 }
                }
            }
        }
        if let wrongLine { throw .check(line: wrongLine) }
        guard let key = try? RawKey(secret) else { throw .length(found: reader.symbols.count) }
        self.init(key)
    }

    /// Reads what was printed from a text.
    package init(reading text: String) throws(ReadingError) {
        let secret = SecretBytes(copying: text.utf8)
        self = try secret.withBytes { bytes throws(ReadingError) in try RecoveryKey(reading: bytes) }
    }
}

/// The symbols of a typed recovery key, in memory that is wiped, and how many each line has.
private struct SymbolReader: ~Copyable {
    private static let most = RecoveryKey.lineCount * RecoveryKey.lineCharacters

    private(set) var symbols = WipedBuffer(capacity: most)
    private var count = 0
    /// Symbols of each line that has any.
    private var lines: [Int] = []
    private var isLineOpen = false
    private var strangeLine: Int?

    mutating func take(_ character: UInt8) {
        switch character {
        case UInt8(ascii: "\n"), UInt8(ascii: "\r"): isLineOpen = false
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "-"): break
        default:
            if !isLineOpen { lines.append(0) }
            isLineOpen = true
            lines[lines.count - 1] += 1
            count += 1
            if let symbol = Self.symbol(character) {
                symbols.append(symbol)
            } else {
                strangeLine = strangeLine ?? lines.count
            }
        }
    }

    borrowing func finish() throws(RecoveryKey.ReadingError) {
        let hasItsLines = lines.count == RecoveryKey.lineCount
        if let strangeLine, hasItsLines { throw .character(line: strangeLine) }
        if hasItsLines, let wrong = lines.firstIndex(where: { $0 != RecoveryKey.lineCharacters }) {
            throw .lineLength(line: wrong + 1, found: lines[wrong])
        }
        guard count == Self.most else { throw .length(found: count) }
        if strangeLine != nil { throw .character(line: symbols.count / RecoveryKey.lineCharacters + 1) }
    }

    private static func symbol(_ character: UInt8) -> UInt8? {
        let isSmall = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(character)
        switch isSmall ? character - 0x20 : character {
        case UInt8(ascii: "I"), UInt8(ascii: "L"): return 1
        case UInt8(ascii: "O"): return 0
        case let capital: return RecoveryKey.alphabet.firstIndex(of: capital).map { UInt8($0) }
        }
    }
}
