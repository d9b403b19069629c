import StoreCrypto
import StorePlatform

/// The salt of one file, 16 bytes. With it the data key is derived from a passphrase, and the MAC key from the data
/// key.
///
/// A file with a plaintext header does not contain its salt, so the sidecar keeps it. A salt is not a secret, but
/// without it a passphrase opens nothing. Descriptions do not contain it.
///
/// The salt of a new store is made when the store's first connection finds no sidecar and an empty file
/// (`FileKey.resolve`). `SidecarCache` writes it into both copies of the sidecar before the first page exists
/// (`create`, `record`), by `SidecarFiles`.
public struct Salt: Hashable, Sendable {
    /// Number of bytes of every salt.
    public static let byteCount = 16

    /// The bytes.
    public let bytes: [UInt8]

    /// Makes a salt of 16 bytes.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are more or fewer. SQLCipher itself ignores such a salt.
    public init(bytes: [UInt8]) throws(StoreError) {
        guard bytes.count == Self.byteCount else {
            throw Self.malformed("It has \(CountText.text(bytes.count, "byte")) instead of \(Self.byteCount).")
        }
        self.bytes = bytes
    }

    /// Reads 32 hexadecimal digits.
    ///
    /// - Throws: `StoreError` `invalidKey` for anything else. SQLCipher itself reads other characters as zeros.
    public init(hex: String) throws(StoreError) {
        guard let bytes = Hex.bytes(hex.utf8) else { throw Self.malformed("It is not hexadecimal text.") }
        try self.init(bytes: bytes)
    }

    /// Reads the form of SQLCipher's pragma, `x'` + 32 hexadecimal digits + `'`.
    ///
    /// - Throws: `StoreError` `invalidKey` for anything else.
    public init(sqlCipherLiteral literal: String) throws(StoreError) {
        let text = literal.utf8
        guard text.count >= 3, literal.hasPrefix("x'") || literal.hasPrefix("X'"), literal.hasSuffix("'") else {
            throw Self.malformed("It has not the form x'...'.")
        }
        guard let bytes = Hex.bytes(text.dropFirst(2).dropLast()) else {
            throw Self.malformed("What stands between the quotes is not hexadecimal text.")
        }
        try self.init(bytes: bytes)
    }

    /// Makes a new salt with the system's random generator.
    public static func random() throws -> Salt { try Salt(bytes: SystemRandom.bytes(byteCount)) }

    /// The bytes as 32 lower-case digits.
    package var hex: String { Hex.text(bytes) }

    private static func malformed(_ reason: String) -> StoreError {
        StoreError(
            .invalidKey, what: "The salt has the wrong form.", why: reason,
            remedy: "Give 16 bytes, or 32 hexadecimal digits as SQLCipher prints them.")
    }
}

extension Salt: CustomStringConvertible, CustomDebugStringConvertible {
    public var description: String { "Salt(16 bytes)" }
    public var debugDescription: String { description }
}

extension Salt: CustomReflectable {
    /// Empty, so that `dump` and failing tests print no bytes.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
