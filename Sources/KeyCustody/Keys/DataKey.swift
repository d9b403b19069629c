import StoreCrypto
import StorePlatform

/// The 32-byte key of a store's pages, shared by its connections in locked memory.
package final class DataKey: Sendable {
    private let secret: SecretBytes

    /// Takes over 32 bytes.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are more or fewer.
    package init(_ secret: consuming SecretBytes) throws(StoreError) {
        let count = secret.count
        guard count == CipherSettings.keyBytes else {
            throw StoreError(
                .invalidKey, what: "The data key has the wrong length.",
                why: "It has \(count) bytes instead of \(CipherSettings.keyBytes).",
                remedy: "Give a key of 32 bytes.")
        }
        self.secret = secret
    }

    /// Lends the key.
    package func withSecret<Result: ~Copyable, Failure: Error>(
        _ body: (borrowing SecretBytes) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(secret)
    }

    /// Lends the key's bytes.
    package func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try secret.withBytes(body)
    }

    /// Whether two keys are the same, in a time that does not depend on them.
    package func isEqual(to other: DataKey) -> Bool { secret.isEqual(to: other.secret) }
}

extension DataKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "DataKey(32 bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
