import KeyCustody
import StoreCrypto
import StorePlatform

/// A text that may be a share, or a line of one: its symbols, in memory that is wiped, and the lengths of its lines.
///
/// White space, dashes of any kind, invisible characters, a number with `.`, `)` or `:` at the start of a line, and lines
/// that begin with `#` are skipped. Small letters are capitals, I and L are 1, and O is 0.
struct RecoveryShareText: ~Copyable {
    /// The value of a character that is not a symbol.
    private static let stranger = UInt8.max
    /// Room for one extra line, and for one extra character in each line.
    private static let most = (RecoveryShare.lineCount + 1) * (ShareLine.characters + 1)

    private var symbols = WipedBuffer(capacity: most)
    /// The number of symbols, including those for which there is no room.
    private(set) var count = 0
    /// The number of symbols in each line that has any.
    private(set) var lines: [Int] = []

    init(_ text: UnsafeRawBufferPointer) {
        var bytes = text.makeIterator()
        var decoder = UTF8()
        var place = Place.lineStart
        reading: while true {
            switch decoder.decode(&bytes) {
            case .scalarValue(let character): place = take(character, at: place)
            case .error: place = add(Self.stranger, at: place)
            case .emptyInput: break reading
            }
        }
        lines.removeAll { $0 == 0 }
    }

    /// The data of a line whose symbols begin at a position; nil when the check does not match.
    func data(ofLine line: Int, at position: Int, header: UInt64?) -> UInt64? {
        guard position >= 0, position + ShareLine.characters <= symbols.count else { return nil }
        return symbols.withBytes {
            ShareLine.read($0[position..<position + ShareLine.characters], line: line, header: header)
        }
    }

    func hasStranger(_ count: Int, at position: Int) -> Bool {
        symbols.withBytes { $0[min(position, $0.count)..<min(position + count, $0.count)].contains(Self.stranger) }
    }

    // MARK: Reading

    private enum Place { case lineStart, line, comment }

    private mutating func take(_ character: Unicode.Scalar, at place: Place) -> Place {
        switch character {
        case "\n", "\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}": return .lineStart
        case _ where place == .comment: return .comment
        case "#" where place == .lineStart: return .comment
        case ".", ")", ":": return dropNumber(at: place) ? .lineStart : add(Self.stranger, at: place)
        default: return Self.isPassedOver(character) ? place : add(Self.symbol(character), at: place)
        }
    }

    private mutating func add(_ symbol: UInt8, at place: Place) -> Place {
        guard place != .comment else { return place }
        if place == .lineStart, lines.last != 0 { lines.append(0) }
        lines[lines.count - 1] += 1
        count += 1
        symbols.append(symbol)
        return .line
    }

    /// Removes the number of a line, if the line contains nothing else so far.
    private mutating func dropNumber(at place: Place) -> Bool {
        let isNumber = symbols.withBytes { $0.last.map { (1...RecoveryShare.lineCount).contains(Int($0)) } ?? false }
        guard place == .line, lines.last == 1, symbols.count == count, isNumber else { return false }
        symbols.removeLast(1)
        count -= 1
        lines[lines.count - 1] = 0
        return true
    }

    private static func isPassedOver(_ character: Unicode.Scalar) -> Bool {
        let properties = character.properties
        return properties.isWhitespace || character == "\u{2212}"
            || [.dashPunctuation, .format].contains(properties.generalCategory)
    }

    private static func symbol(_ character: Unicode.Scalar) -> UInt8 {
        guard let ascii = UInt8(exactly: character.value) else { return stranger }
        let isSmall = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(ascii)
        switch isSmall ? ascii - 0x20 : ascii {
        case UInt8(ascii: "I"), UInt8(ascii: "L"): return 1
        case UInt8(ascii: "O"): return 0
        case let capital: return ShareLine.alphabet.firstIndex(of: capital).map { UInt8($0) } ?? stranger
        }
    }
}

extension RecoveryShare {
    /// Why a text is not a share. It never contains what was typed.
    public enum ReadingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The text does not resemble one.
        case otherText
        /// It is a whole recovery key.
        case recoveryKey
        /// There are more or fewer than 6 lines.
        case lineCount(found: Int)
        /// A line has more or fewer than 16 characters.
        case lineLength(line: Int, found: Int)
        /// A line has a character that does not occur in shares.
        case character(line: Int)
        /// A line does not match its check: a character is wrong, or it is another line, or one of another share.
        case check(line: Int)
        /// The share has a later format.
        case version(UInt8)

        public var description: String {
            switch self {
            case .otherText: "it does not read like a share"
            case .recoveryKey: "it is a recovery key, which opens the store alone"
            case .lineCount(let found): "it has \(CountText.text(found, "line")) instead of \(RecoveryShare.lineCount)"
            case .lineLength(let line, let found):
                "line \(line) has \(CountText.text(found, "character")) instead of \(ShareLine.characters)"
            case .character(let line): "line \(line) has a character that no share has"
            case .check(1): "line 1 has a wrong character, or is not line 1"
            case .check(let line): "line \(line) has a wrong character, or belongs to another place or share"
            case .version(let version): "its format has the number \(version), which this version does not know"
            }
        }
    }

    /// Reads a share as it was printed.
    package init(reading text: UnsafeRawBufferPointer) throws(ReadingError) {
        let typed = RecoveryShareText(text)
        guard typed.count == Self.lineCount * ShareLine.characters else { throw typed.fault(text) }
        var entry = RecoveryShareEntry()
        for line in 1...Self.lineCount {
            try entry.take(typed, at: (line - 1) * ShareLine.characters)
        }
        guard let share = entry.share else { throw .otherText }
        self = share
    }
}

// The diagnosis of a text of the wrong length.
extension RecoveryShareText {
    fileprivate borrowing func fault(_ text: UnsafeRawBufferPointer) -> RecoveryShare.ReadingError {
        if (try? RecoveryKey(reading: text)) != nil { return .recoveryKey }
        let isShare = data(ofLine: 1, at: 0, header: nil) != nil
        let right = RecoveryShare.lineCount
        let formed = lines.count { $0 == ShareLine.characters }
        guard isShare || (right - 1...right + 1).contains(lines.count) && formed * 2 >= lines.count else {
            return .otherText
        }
        guard lines.count == right else { return .lineCount(found: lines.count) }
        let wrong = lines.firstIndex { $0 != ShareLine.characters } ?? 0
        return .lineLength(line: wrong + 1, found: lines[wrong])
    }
}
