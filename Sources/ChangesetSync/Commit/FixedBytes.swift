/// A fixed number of bytes without an allocation, ordered by their bytes.
package struct FixedBytes<Words: SIMD & Sendable & Hashable>: Hashable, Sendable, Comparable
where Words.Scalar == UInt64 {
    static var byteCount: Int { Words.scalarCount * 8 }

    /// Big-endian: the first byte is the highest one of the first word.
    private var words: Words

    /// Zeros.
    package init() { words = Words(repeating: 0) }

    /// - Returns: nil unless there are ``byteCount`` bytes.
    init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init()
        for (index, byte) in bytes.enumerated() {
            words[index / 8] = words[index / 8] << 8 | UInt64(byte)
        }
    }

    /// - Parameter text: Lower-case hexadecimal digits, two a byte.
    init?(hexadecimal text: some StringProtocol) {
        let digits = text.utf8
        guard digits.count == 2 * Self.byteCount else { return nil }
        self.init()
        for (index, digit) in digits.enumerated() {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return nil
            }
            words[index / 16] = words[index / 16] << 4 | UInt64(value)
        }
    }

    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.byteCount)
        for index in 0..<Words.scalarCount { bytes.append(bigEndian: words[index]) }
        return bytes
    }

    /// The bytes as lower-case hexadecimal digits.
    package var text: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    package static func < (one: Self, other: Self) -> Bool {
        for index in 0..<Words.scalarCount where one.words[index] != other.words[index] {
            return one.words[index] < other.words[index]
        }
        return false
    }
}

/// An identifier of a fixed number of bytes, compared by its bytes.
package protocol FixedIdentifier: Hashable, Sendable, Comparable, CustomStringConvertible {
    associatedtype Words: SIMD & Sendable & Hashable where Words.Scalar == UInt64
    var content: FixedBytes<Words> { get }
    init(content: FixedBytes<Words>)
}

extension FixedIdentifier {
    /// The number of bytes of each identifier of this type.
    static var byteCount: Int { FixedBytes<Words>.byteCount }

    /// Zeros.
    package static var zero: Self { Self(content: FixedBytes()) }

    /// - Returns: nil unless there are ``byteCount`` bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<Words>(bytes) else { return nil }
        self.init(content: content)
    }

    /// - Parameter text: Lower-case hexadecimal digits, two a byte.
    init?(_ text: some StringProtocol) {
        guard let content = FixedBytes<Words>(hexadecimal: text) else { return nil }
        self.init(content: content)
    }

    package var bytes: [UInt8] { content.bytes }
    package var description: String { content.text }
    package static func < (one: Self, other: Self) -> Bool { one.content < other.content }
}
