import KeyCustody
import PageFormat
import StoreCrypto

extension PageKeys {
    /// The keys of the pages of a database.
    ///
    /// - Throws: `PageFormatError`.
    package init(_ key: PageKey) throws {
        self = try key.dataKey.withSecret { secret in
            try PageKeys(dataKey: secret, salt: key.salt.bytes, settings: key.settings)
        }
    }
}
