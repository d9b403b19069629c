import StoreCrypto
import StorePlatform

/// A passphrase, stretched by SQLCipher's own derivation before it is used.
///
/// It lies in locked memory, cannot be copied by accident and is wiped when it goes away.
public struct Passphrase: ~Copyable, Sendable {
    package let secret: SecretBytes

    /// Copies a text's UTF-8 bytes.
    ///
    /// - Throws: `StoreError` `invalidKey` when it is empty, begins with `x'`, or is longer than 64 KiB.
    public init(_ text: String) throws(StoreError) { try self.init(SecretBytes(copying: text.utf8)) }

    /// Copies bytes; wiping the array stays with the caller.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are none, when they begin with `x'`, or are more than 64 KiB.
    public init(bytes: [UInt8]) throws(StoreError) { try self.init(SecretBytes(copying: bytes)) }

    /// Takes over a secret.
    package init(_ secret: consuming SecretBytes) throws(StoreError) {
        if let reason = secret.withBytes({ Self.objection(to: $0) }) {
            throw StoreError(
                .invalidKey, what: "The passphrase cannot be used.", why: reason,
                remedy: "Choose another passphrase, or give a raw key as such.")
        }
        self.secret = secret
    }

    private static func objection(to bytes: UnsafeRawBufferPointer) -> String? {
        if bytes.isEmpty { return "It is empty." }
        if bytes.count > Limits.keySourceBytes { return "It is longer than 64 KiB." }
        // SQLCipher would take it for a raw key in hexadecimal, or silently for a mixture of both.
        let isKeyspec = bytes.count >= 2 && [0x78, 0x58].contains(bytes[0]) && bytes[1] == UInt8(ascii: "'")
        return isKeyspec ? "It begins with x', which SQLCipher takes for a raw key." : nil
    }

    /// What may be printed of a passphrase: not even its length.
    public borrowing func describe() -> String { "Passphrase(hidden)" }
}
