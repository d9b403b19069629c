import StoreCrypto
import StorePlatform

/// A full-strength key of 32 bytes, used as it is and never stretched.
///
/// It lies in locked memory, cannot be copied by accident and is wiped when it goes away.
public struct RawKey: ~Copyable, Sendable {
    /// Number of bytes of every key.
    public static let byteCount = 32

    package let secret: SecretBytes

    /// Copies 32 bytes; wiping the array stays with the caller.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are more or fewer.
    public init(bytes: [UInt8]) throws(StoreError) { try self.init(SecretBytes(copying: bytes)) }

    /// Takes over a secret of 32 bytes.
    package init(_ secret: consuming SecretBytes) throws(StoreError) {
        let count = secret.count
        guard count == Self.byteCount else {
            throw StoreError(
                .invalidKey, what: "The raw key has the wrong length.",
                why: "It has \(count) bytes instead of \(Self.byteCount).",
                remedy: "Give exactly 32 random bytes, or use a passphrase.")
        }
        self.secret = secret
    }

    /// Makes a new key from the system's generator.
    public static func random() throws -> RawKey { try RawKey(SecretBytes.random(count: byteCount)) }

    /// What may be printed of a key.
    public borrowing func describe() -> String { "RawKey(32 bytes)" }
}
