/// The encoding of all texts of a database, with its number in the header.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#text_encoding>
enum TextEncoding: UInt32, CaseIterable {
    case utf8 = 1
    case utf16LittleEndian = 2
    case utf16BigEndian = 3

    /// Its name in `PRAGMA encoding`.
    var name: String {
        switch self {
        case .utf8: "UTF-8"
        case .utf16LittleEndian: "UTF-16le"
        case .utf16BigEndian: "UTF-16be"
        }
    }

    /// Whether a text of these bytes is stored as the same bytes.
    func isValid(_ bytes: [UInt8]) -> Bool {
        if self == .utf8 { return String(validating: bytes, as: UTF8.self) != nil }
        let units = units(bytes)
        // SQLite makes another character of U+FFFE and U+FFFF: https://www.sqlite.org/src/file/src/utf.c
        return bytes.count.isMultiple(of: 2) && !units.contains { $0 >= 0xFFFE }
            && String(validating: units, as: UTF16.self) != nil
    }

    private func units(_ bytes: [UInt8]) -> [UInt16] {
        stride(from: 0, to: bytes.count - 1, by: 2).map { index in
            let (one, other) = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
            return self == .utf16LittleEndian ? other << 8 | one : one << 8 | other
        }
    }

    /// A text; what is not valid in the encoding is replaced.
    func text(_ bytes: [UInt8]) -> String {
        if self == .utf8 { return String(decoding: bytes, as: UTF8.self) }
        return String(decoding: units(bytes), as: UTF16.self)
    }
}

/// The encoding that texts show, if no header names it.
///
/// In UTF-16 every second byte is the upper half of a character: zero in Latin text, below 32 in that of most alphabets;
/// and in the wrong order of bytes characters come about that do not exist.
struct TextEvidence {
    private var byteCount = 0
    /// How often each byte is at an even place, and at an odd one.
    private var even = [Int](repeating: 0, count: 256)
    private var odd = [Int](repeating: 0, count: 256)
    /// The first bytes.
    private var sample: [UInt8] = []
    private var hasOddLength = false
    private var isValidUTF8 = true

    /// Bytes that are looked at.
    private static let sampleBytes = 1 << 20
    /// Those that are decoded.
    private static let decodedBytes = 1 << 16

    var isEnough: Bool { byteCount >= Self.sampleBytes || hasOddLength }

    mutating func add(_ bytes: [UInt8]) {
        byteCount += bytes.count
        if sample.count < Self.decodedBytes { sample += bytes.prefix(Self.decodedBytes - sample.count) }
        if !bytes.count.isMultiple(of: 2) { hasOddLength = true }
        if isValidUTF8, String(validating: bytes, as: UTF8.self) == nil { isValidUTF8 = false }
        for (index, byte) in bytes.enumerated() {
            if index.isMultiple(of: 2) { even[Int(byte)] += 1 } else { odd[Int(byte)] += 1 }
        }
    }

    var encoding: TextEncoding {
        // UTF-16 has two bytes for each unit.
        if hasOddLength || byteCount == 0 { return .utf8 }
        // Spaces, digits and Latin letters: a twentieth of the bytes is zero, at the places of upper halves.
        if max(even[0], odd[0]) * 20 > byteCount, even[0] != odd[0] { return order(even[0], odd[0]) }
        if isValidUTF8 {
            // Control characters are the upper halves of other alphabets; a text has tabs and ends of lines only.
            let isControl = { (byte: Int) in byte < 32 && ![0x09, 0x0A, 0x0D].contains(byte) }
            let controls = (0..<32).filter(isControl).reduce(0) { $0 + even[$1] + odd[$1] }
            guard controls * 100 > byteCount else { return .utf8 }
            return order(even[..<32].reduce(0, +), odd[..<32].reduce(0, +))
        }
        return likelierUTF16
    }

    /// The byte order with fewer invalid characters; if equal, the order whose upper bytes differ less.
    private var likelierUTF16: TextEncoding {
        let (little, big) = (
            Self.impossible(TextEncoding.utf16LittleEndian.text(sample)),
            Self.impossible(TextEncoding.utf16BigEndian.text(sample))
        )
        if little != big { return little < big ? .utf16LittleEndian : .utf16BigEndian }
        return order(Self.spread(odd), Self.spread(even))
    }

    /// How many characters of a text do not exist, or have no meaning.
    private static func impossible(_ text: String) -> Int {
        text.unicodeScalars.count { scalar in
            let category = scalar.properties.generalCategory
            return scalar == "\u{FFFD}" || category == .unassigned || category == .privateUse
        }
    }

    /// The mean square of the distance of bytes from their mean.
    private static func spread(_ counts: [Int]) -> Double {
        let total = Double(max(1, counts.reduce(0, +)))
        let mean = counts.enumerated().reduce(0) { $0 + Double($1.offset * $1.element) } / total
        return counts.enumerated().reduce(0) { sum, entry in
            let distance = Double(entry.offset) - mean
            return sum + distance * distance * Double(entry.element)
        } / total
    }

    /// How much the bytes at even and at odd places look like upper halves.
    private func order<Measure: Comparable>(_ even: Measure, _ odd: Measure) -> TextEncoding {
        odd > even ? .utf16LittleEndian : .utf16BigEndian
    }
}
