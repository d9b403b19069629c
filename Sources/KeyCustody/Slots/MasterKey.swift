import StoreCrypto
import StorePlatform

/// The random key that every slot of a store wraps and that wraps its data keys, in locked memory.
///
/// It is never used directly: each purpose has a key of its own, derived by HKDF with a label and the store's
/// identifier.
package struct MasterKey: Sendable {
    static let byteCount = 32
    static let dataKeyWrappingLabel = "cipherstore data key wrapping v2"
    static let macLabel = "cipherstore slots mac v2"
    static let keyCheckLabel = "cipherstore slots key check v2"

    let secret: SecretBytes

    init(_ secret: SecretBytes) { self.secret = secret }

    static func random() throws(CryptoError) -> MasterKey { MasterKey(try .random(count: byteCount)) }

    /// The key of one purpose.
    func derived(_ label: String, _ storeID: StoreID, keyBytes: Int = 32) throws(CryptoError) -> SecretBytes {
        try KeyDerivation.hkdf(key: secret, salt: storeID.bytes, label: label, keyBytes: keyBytes)
    }

    /// Whether two keys are equal, in constant time.
    func isEqual(to other: MasterKey) -> Bool { secret.isEqual(to: other.secret) }
}

extension MasterKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "MasterKey(32 bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
