import StorePlatform

/// A text that may be a recovery key: its symbols, in memory that is wiped, and the lengths of its lines.
///
/// Blanks, hyphens and dashes of any kind, byte order marks, and a number with `.`, `)` or `:` at the start of a line
/// are skipped. None of these can be meant as a symbol.
struct RecoveryKeyText: ~Copyable {
    /// The value of a character that is not a symbol.
    private static let stranger = UInt8.max
    /// Room for one extra line, and for one extra character in each line.
    private static let most = (RecoveryKey.lineCount + 1) * (RecoveryKey.lineCharacters + 1)

    private var symbols = WipedBuffer(capacity: most)
    /// The number of symbols, including those for which there is no room.
    private var count = 0
    /// The number of symbols in each line that has any.
    private var lines: [Int] = []
    private var isLineOpen = false

    init(_ text: UnsafeRawBufferPointer) {
        var bytes = text.makeIterator()
        var decoder = UTF8()
        reading: while true {
            switch decoder.decode(&bytes) {
            case .scalarValue(let character): take(character)
            case .error: add(Self.stranger)
            case .emptyInput: break reading
            }
        }
        if lines.last == 0 { lines.removeLast() }
    }

    /// Whether it is a recovery key without faults.
    var isWhole: Bool {
        count == RecoveryKey.lineCount * RecoveryKey.lineCharacters
            && (0..<RecoveryKey.lineCount).allSatisfy {
                data(ofLine: $0 + 1, at: $0 * RecoveryKey.lineCharacters) != nil
            }
    }

    /// The data in the symbols from a position, read as a line, numbered from 1; nil when the check does not match.
    func data(ofLine line: Int, at position: Int) -> UInt64? {
        guard position >= 0, position + RecoveryKey.lineCharacters <= symbols.count else { return nil }
        return symbols.withBytes { RecoveryKey.read($0[position..<position + RecoveryKey.lineCharacters], line: line) }
    }

    // MARK: Reading

    private mutating func take(_ character: Unicode.Scalar) {
        switch character {
        case "\n", "\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}":
            if lines.last == 0 { lines.removeLast() }
            isLineOpen = false
        case ".", ")", ":": if !dropNumber() { add(Self.stranger) }
        default: if !Self.isPassedOver(character) { add(Self.symbol(character)) }
        }
    }

    private mutating func add(_ symbol: UInt8) {
        if !isLineOpen { lines.append(0) }
        isLineOpen = true
        lines[lines.count - 1] += 1
        count += 1
        symbols.append(symbol)
    }

    /// Removes the number of a line, if the line contains nothing else so far.
    private mutating func dropNumber() -> Bool {
        let isNumber = symbols.withBytes { ($0.last.map { (1...4).contains($0) }) ?? false }
        guard isLineOpen, lines.last == 1, symbols.count == count, isNumber else { return false }
        symbols.removeLast(1)
        count -= 1
        lines[lines.count - 1] = 0
        return true
    }

    private static func isPassedOver(_ character: Unicode.Scalar) -> Bool {
        switch character {
        case " ", "\t", "-", "\u{a0}", "\u{ad}": true
        // Blanks and joiners of all widths, hyphens and dashes, the minus sign, byte order marks.
        case "\u{2000}"..."\u{200d}", "\u{2010}"..."\u{2015}", "\u{202f}", "\u{205f}", "\u{2060}", "\u{2212}",
            "\u{3000}",
            "\u{fe58}", "\u{fe63}", "\u{feff}", "\u{ff0d}":
            true
        default: false
        }
    }

    private static func symbol(_ character: Unicode.Scalar) -> UInt8 {
        guard let ascii = UInt8(exactly: character.value) else { return stranger }
        let isSmall = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(ascii)
        switch isSmall ? ascii - 0x20 : ascii {
        case UInt8(ascii: "I"), UInt8(ascii: "L"): return 1
        case UInt8(ascii: "O"): return 0
        case let capital: return RecoveryKey.alphabet.firstIndex(of: capital).map { UInt8($0) } ?? stranger
        }
    }
}

// The diagnosis of a faulty text. A line whose check matches identifies itself, whatever the other lines are.
extension RecoveryKeyText {
    borrowing func fault() -> RecoveryKey.ReadingError {
        lines.count > 2 ? faultOfLines() : faultOfRun()
    }

    /// The fault of a text with lines. It resembles a recovery key when half of its lines have the form.
    private borrowing func faultOfLines() -> RecoveryKey.ReadingError {
        let right = RecoveryKey.lineCount
        guard (right - 1...right + 1).contains(lines.count) else { return .otherText }
        let positions = lines.indices.map { lines[..<$0].reduce(0, +) }
        let formed = lines.indices.filter { isFormed(lines[$0], at: positions[$0]) }
        guard formed.count * 2 >= lines.count else { return .otherText }
        let numbers = lines.indices.map { formed.contains($0) ? number(at: positions[$0]) : nil }
        let wrong = lines.indices.first { numbers[$0] != $0 + 1 } ?? lines.count
        if lines.count < right {
            let isNext = wrong == lines.count || numbers[wrong] == wrong + 2
            return isNext ? .missing(line: wrong + 1) : .lineCount(found: lines.count)
        }
        if lines.count > right {
            guard let number = numbers[wrong], number <= wrong else { return .lineCount(found: lines.count) }
            return .doubled(line: number)
        }
        if formed.contains(wrong) { return .check(line: wrong + 1) }
        if hasStranger(lines[wrong], at: positions[wrong]) { return .character(line: wrong + 1) }
        return .lineLength(line: wrong + 1, found: lines[wrong])
    }

    /// The fault of a text of one or two lines. It resembles a recovery key when parts of it match their checks. Other
    /// keys also have this form, for example 64 hexadecimal digits.
    private borrowing func faultOfRun() -> RecoveryKey.ReadingError {
        let (lineCount, length) = (RecoveryKey.lineCount, RecoveryKey.lineCharacters)
        guard symbols.count == count else { return .otherText }
        if count == lineCount * length {
            let wrong = (0..<lineCount).filter { data(ofLine: $0 + 1, at: $0 * length) == nil }
            guard let first = wrong.first, wrong.count < lineCount else { return .otherText }
            return hasStranger(length, at: first * length) ? .character(line: first + 1) : .check(line: first + 1)
        }
        // The number of lines that match before the fault, and the number that match after it.
        let before = (0..<lineCount).first { data(ofLine: $0 + 1, at: $0 * length) == nil } ?? lineCount
        let behind =
            (0..<lineCount).first { data(ofLine: lineCount - $0, at: count - ($0 + 1) * length) == nil } ?? lineCount
        guard before + behind >= 2 else { return .otherText }
        if before + behind < lineCount - 1 { return .length(found: count) }
        switch count {
        case (lineCount - 1) * length: return .missing(line: before + 1)
        case (lineCount + 1) * length: return .doubled(line: before)
        default:
            return .lineLength(line: min(before + 1, lineCount), found: count - (lineCount - 1) * length)
        }
    }

    private borrowing func isFormed(_ count: Int, at position: Int) -> Bool {
        count == RecoveryKey.lineCharacters && position + count <= symbols.count && !hasStranger(count, at: position)
    }

    private borrowing func hasStranger(_ count: Int, at position: Int) -> Bool {
        symbols.withBytes { $0[min(position, $0.count)..<min(position + count, $0.count)].contains(Self.stranger) }
    }

    /// The number of the line that begins at a position.
    private borrowing func number(at position: Int) -> Int? {
        (1...RecoveryKey.lineCount).first { data(ofLine: $0, at: position) != nil }
    }
}
