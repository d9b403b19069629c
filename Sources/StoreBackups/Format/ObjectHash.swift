import CipherStore
import StoreCrypto

/// The SHA-256 of an object, which is its name.
public struct ObjectHash: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number of bytes.
    static let byteCount = 32
    /// 32 zeros, where there is no object.
    static let none = ObjectHash(unchecked: [UInt8](repeating: 0, count: byteCount))

    /// 32 bytes.
    public let bytes: [UInt8]

    init(unchecked bytes: [UInt8]) { self.bytes = bytes }

    /// The hash of an object's bytes.
    init(of bytes: [UInt8]) throws { self.init(unchecked: try ContentDigest.sha256(bytes)) }

    /// Reads 64 lower-case hexadecimal digits; nil for other text.
    init?(_ text: some StringProtocol) {
        guard text.utf8.count == 2 * Self.byteCount, text.utf8.allSatisfy({ !(0x41...0x46).contains($0) }),
            let bytes = Hex.bytes(Array(text.utf8))
        else { return nil }
        self.init(unchecked: bytes)
    }

    /// 64 lower-case hexadecimal digits.
    public var description: String { Hex.text(bytes) }

    public static func < (left: ObjectHash, right: ObjectHash) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}
