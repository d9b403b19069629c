import StoreCrypto
import StorePlatform

/// The key, salt and settings with which a connection reads and writes the pages of a database. Nothing more is derived
/// or looked up.
package struct PageKey: Sendable {
    package let dataKey: DataKey
    package let salt: Salt
    package let settings: CipherSettings

    package init(_ dataKey: DataKey, salt: Salt, settings: CipherSettings) {
        self.dataKey = dataKey
        self.salt = salt
        self.settings = settings
    }

    /// A random key that is not kept, for a temporary file.
    package static func throwaway() throws -> PageKey {
        PageKey(try .random(), salt: try .random(), settings: .sqlCipher4)
    }

    /// Whether a file that begins so has its salt in front, as SQLCipher's standard form has.
    package func isSaltInFront(of first: [UInt8]) -> Bool { first.starts(with: salt.bytes) }

    /// Key and salt in the form that SQLCipher reads.
    package var keyspec: SecretBytes { dataKey.secret.keyspec(salt: salt) }
}
