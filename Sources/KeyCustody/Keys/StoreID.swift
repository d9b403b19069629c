import StoreCrypto
import StorePlatform

/// The identifier of a store. It never changes, whatever the name of its file and however often its key changes.
public struct StoreID: Hashable, Sendable {
    /// Number of bytes of every identifier.
    public static let byteCount = 16

    /// The bytes.
    public let bytes: [UInt8]

    /// Makes an identifier of 16 bytes; nil when there are more or fewer.
    public init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = bytes
    }

    private init(random bytes: [UInt8]) { self.bytes = bytes }

    /// Makes a new identifier with the system's random generator.
    static func random() throws(CryptoError) -> StoreID {
        StoreID(random: try SystemRandom.bytes(byteCount))
    }
}

extension StoreID: CustomStringConvertible {
    /// The bytes as 32 lower-case hexadecimal digits.
    public var description: String { Hex.text(bytes) }
}
