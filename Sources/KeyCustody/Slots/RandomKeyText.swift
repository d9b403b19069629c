/// Decides whether a text is a random key as tools print it, so that it needs no stretching.
///
/// The text must decode without remainder to 32 bytes or more, by hexadecimal digits of one case or by base 64, and its
/// characters must be distributed as those of random bytes are. Words with hyphens, repeated digits, numbers and
/// sequences are not. A random key fails by chance about four times in a thousand: it is stretched then, which costs
/// 0.3 s for each opening.
/// - SeeAlso: <https://www.rfc-editor.org/rfc/rfc4648>
enum RandomKeyText {
    /// The fewest bytes of a random key.
    private static let leastBytes = 32
    /// How many characters, and bytes, are examined: the shares below are those of short samples.
    private static let sample = 64

    static func isRandom(_ text: UnsafeRawBufferPointer) -> Bool { isHexadecimal(text) || isBase64(text) }

    // MARK: Hexadecimal digits

    private static func isHexadecimal(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.count >= 2 * leastBytes, text.count.isMultiple(of: 2) else { return false }
        let isUpper = text.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        let start = UInt8(ascii: isUpper ? "A" : "a")
        func digit(_ byte: UInt8) -> UInt8? {
            if (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { return byte - UInt8(ascii: "0") }
            return (start...(start + 5)).contains(byte) ? byte - start + 10 : nil
        }
        guard text.allSatisfy({ digit($0) != nil }) else { return false }
        let digits = Tally(text.prefix(sample)) { digit($0) ?? 0 }
        let bytes = Tally(text.indices.prefix(sample).filter { $0.isMultiple(of: 2) }) { index in
            (digit(text[index]) ?? 0) << 4 | (digit(text[index + 1]) ?? 0)
        }
        // 64 random digits have 16 different ones, four of each; no step from one to the next is frequent.
        return digits.different >= 12 && digits.most <= 14 && digits.mostSteps <= 14
            && bytes.different >= 24 && bytes.mostSteps <= 4
    }

    // MARK: Base 64

    private static func isBase64(_ text: UnsafeRawBufferPointer) -> Bool {
        let padding = text.suffix(2).count { $0 == UInt8(ascii: "=") }
        let body = text.dropLast(padding)
        guard body.count * 3 / 4 >= leastBytes, let last = body.last, isCanonical(last, count: body.count),
            padding == 0 || text.count.isMultiple(of: 4)
        else { return false }
        let kinds = body.map(CharacterKind.init)
        // The two alphabets do not mix.
        guard kinds.allSatisfy({ $0 != .other }), !(kinds.contains(.standard) && kinds.contains(.forNames)) else {
            return false
        }
        let examined = kinds.prefix(sample)
        for kind in [CharacterKind.upper, .lower, .digit] where !examined.contains(kind) { return false }
        // Two random characters are of one kind in 36 of 100 pairs; the letters of a word are in nearly all.
        let same = zip(examined, examined.dropFirst()).count { $0 == $1 }
        let characters = Tally(body.prefix(sample)) { $0 }
        return same * 100 <= (examined.count - 1) * 58 && likeness(body.prefix(sample)) <= 250
            && characters.different >= 24 && characters.most <= 6 && characters.mostSteps <= 6
    }

    /// How much more likely the letters are in words than among random ones, as 100 times its natural logarithm. Random
    /// keys of 32 bytes have -2,000 in the mean, and 250 once in a thousand; words that fill a key have 500 and more.
    private static func likeness(_ text: some Sequence<UInt8>) -> Int {
        text.reduce(0) { sum, byte in
            let letter = Int(byte | 0x20) - Int(UInt8(ascii: "a"))
            guard letterWeights.indices.contains(letter), byte >= UInt8(ascii: "A") else { return sum }
            return sum + letterWeights[letter]
        }
    }

    /// 100 times the natural logarithm of how often each letter is in English words, compared with 1 of 26.
    private static let letterWeights = [
        76, -94, -32, 11, 119, -56, -65, 46, 60, -296, -157, 4, -47, 55, 67, -71, -365, 44, 49, 86, -32, -135, -47,
        -296, -65, -365,
    ]

    /// Whether the bits of the last character that belong to no byte are zero.
    private static func isCanonical(_ last: UInt8, count: Int) -> Bool {
        let value: UInt8
        switch last {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = last - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): value = last - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): value = last - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"), UInt8(ascii: "-"): value = 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): value = 63
        default: return false
        }
        switch count % 4 {
        case 0: return true
        case 2: return value & 0x0f == 0
        case 3: return value & 0x03 == 0
        default: return false
        }
    }

    private enum CharacterKind {
        case upper
        case lower
        case digit
        /// Only in the standard alphabet.
        case standard
        /// Only in the alphabet for file names and addresses.
        case forNames
        case other

        init(_ byte: UInt8) {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): self = .upper
            case UInt8(ascii: "a")...UInt8(ascii: "z"): self = .lower
            case UInt8(ascii: "0")...UInt8(ascii: "9"): self = .digit
            case UInt8(ascii: "+"), UInt8(ascii: "/"): self = .standard
            case UInt8(ascii: "-"), UInt8(ascii: "_"): self = .forNames
            default: self = .other
            }
        }
    }

    // MARK: Counts

    /// How often values, and the differences of neighbours, occur.
    private struct Tally {
        /// How many different values there are.
        let different: Int
        /// How often the most frequent value occurs.
        let most: Int
        /// How often the most frequent difference of two neighbours occurs.
        let mostSteps: Int

        init<S: Sequence>(_ elements: S, _ value: (S.Element) -> UInt8) {
            var counts = [Int](repeating: 0, count: 256)
            var steps = counts
            var former: UInt8?
            for element in elements {
                let value = value(element)
                counts[Int(value)] += 1
                if let former { steps[Int(value &- former)] += 1 }
                former = value
            }
            different = counts.count { $0 > 0 }
            most = counts.max() ?? 0
            mostSteps = steps.max() ?? 0
        }
    }
}
