import StoreCrypto
import StorePlatform

/// The 32-byte key of a store's pages, in locked memory that all copies share.
package struct DataKey: Sendable {
    package let secret: SecretBytes

    /// Uses 32 bytes that are in locked memory already.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are more or fewer.
    package init(_ secret: SecretBytes) throws(StoreError) {
        guard secret.count == CipherSettings.keyBytes else {
            throw StoreError(
                .invalidKey, what: "The data key has the wrong length.",
                why: "It has \(CountText.text(secret.count, "byte")) instead of \(CipherSettings.keyBytes).",
                remedy: "Give a key of 32 bytes.")
        }
        self.secret = secret
    }

    package static func random() throws -> DataKey {
        try DataKey(SecretBytes.random(count: CipherSettings.keyBytes))
    }

    /// Passes the key to `body`.
    package func withSecret<Result: ~Copyable, Failure: Error>(
        _ body: (SecretBytes) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(secret)
    }

    /// Passes the key's bytes to `body`; the pointer must not outlive the call.
    package func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try secret.withBytes(body)
    }

    /// Whether two keys are equal, in constant time.
    package func isEqual(to other: DataKey) -> Bool { secret.isEqual(to: other.secret) }
}

extension DataKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "DataKey(32 bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension SecretBytes {
    /// A key of 32 bytes in SQLCipher's form of raw keys: `x'<64 digits>'`, or `x'<64 digits><32 digits>'` with its
    /// salt.
    ///
    /// - SeeAlso: <https://www.zetetic.net/sqlcipher/sqlcipher-api/#key>
    package func keyspec(salt: Salt?) -> SecretBytes {
        withBytes { key in
            SecretBytes(count: 2 * (key.count + (salt?.bytes.count ?? 0)) + 3) { text in
                text[0] = UInt8(ascii: "x")
                text[1] = UInt8(ascii: "'")
                Self.writeHex(key, into: text, at: 2)
                salt?.bytes.withUnsafeBytes { Self.writeHex($0, into: text, at: 2 + 2 * key.count) }
                text[text.count - 1] = UInt8(ascii: "'")
            }
        }
    }

    // Written into locked memory byte by byte: a String of the digits would remain in ordinary memory.
    private static func writeHex(
        _ bytes: UnsafeRawBufferPointer, into text: UnsafeMutableRawBufferPointer, at start: Int
    ) {
        func digit(_ value: UInt8) -> UInt8 { value < 10 ? value + 48 : value + 87 }
        for (index, byte) in bytes.enumerated() {
            text[start + 2 * index] = digit(byte >> 4)
            text[start + 2 * index + 1] = digit(byte & 15)
        }
    }
}
