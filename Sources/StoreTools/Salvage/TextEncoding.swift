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

    /// A text; what is not valid in the encoding is replaced.
    func text(_ bytes: [UInt8]) -> String {
        if self == .utf8 { return String(decoding: bytes, as: UTF8.self) }
        let units = stride(from: 0, to: bytes.count - 1, by: 2).map { index in
            let (one, other) = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
            return self == .utf16LittleEndian ? other << 8 | one : one << 8 | other
        }
        return String(decoding: units, as: UTF16.self)
    }
}

/// What texts show of their encoding, where no header says it.
///
/// In UTF-16 every second byte is the upper half of a character: zero in Latin text, below 32 in that of most
/// alphabets, and in any text one of few.
struct TextEvidence {
    private var byteCount = 0
    /// How often each byte is at an even place, and at an odd one.
    private var even = [Int](repeating: 0, count: 256)
    private var odd = [Int](repeating: 0, count: 256)
    private var hasOddLength = false
    private var isValidUTF8 = true

    /// Bytes that are looked at.
    private static let sampleBytes = 1 << 20

    var isEnough: Bool { byteCount >= Self.sampleBytes || hasOddLength }

    mutating func add(_ bytes: [UInt8]) {
        byteCount += bytes.count
        if !bytes.count.isMultiple(of: 2) { hasOddLength = true }
        if isValidUTF8, String(validating: bytes, as: UTF8.self) == nil { isValidUTF8 = false }
        for (index, byte) in bytes.enumerated() {
            if index.isMultiple(of: 2) { even[Int(byte)] += 1 } else { odd[Int(byte)] += 1 }
        }
    }

    var encoding: TextEncoding {
        // UTF-16 has two bytes for each unit.
        if hasOddLength || byteCount == 0 { return .utf8 }
        let (evenLow, oddLow) = (even[..<32].reduce(0, +), odd[..<32].reduce(0, +))
        // A tenth of the bytes at its places; text in UTF-8 has ends of lines only.
        if max(evenLow, oddLow) * 20 > byteCount, evenLow != oddLow {
            return oddLow > evenLow ? .utf16LittleEndian : .utf16BigEndian
        }
        if isValidUTF8 { return .utf8 }
        let (evenKinds, oddKinds) = (even.count { $0 > 0 }, odd.count { $0 > 0 })
        return oddKinds < evenKinds ? .utf16LittleEndian : .utf16BigEndian
    }
}
