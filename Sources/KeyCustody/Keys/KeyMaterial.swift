import StoreCrypto
import StorePlatform

/// What a key source gives: a passphrase or a raw key.
package enum KeyMaterial: ~Copyable, Sendable {
    case passphrase(Passphrase)
    case rawKey(RawKey)

    /// Makes the data key of a store: derives it from a passphrase (about 100 ms with SQLCipher 4's settings), or
    /// takes the raw key.
    package borrowing func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        switch self {
        case .passphrase(let passphrase):
            return try DataKey(
                passphrase.secret.withBytes { bytes throws(CryptoError) in
                    try settings.deriveDataKey(passphrase: bytes, salt: salt.bytes)
                })
        case .rawKey(let key):
            return try DataKey(key.secret.copy())
        }
    }

    /// Whether making a data key takes a derivation.
    package var isPassphrase: Bool {
        switch self {
        case .passphrase: true
        case .rawKey: false
        }
    }
}
