import KeyCustody
import StoreCrypto

/// The key of a store's pages, with the settings that any SQLCipher 4 needs to open the database.
///
/// It does not print itself. The key is in locked memory and is wiped at deinit.
public struct RevealedKey: ~Copyable, Sendable {
    /// The salt of the pages; it is no secret.
    public let salt: Salt
    /// Bytes of a page: `PRAGMA cipher_page_size`.
    public let pageBytes: Int
    /// Readable bytes at the beginning of the file: `PRAGMA cipher_plaintext_header_size`.
    public let plaintextHeaderBytes: Int
    /// The hash of the pages' authentication codes: `PRAGMA cipher_hmac_algorithm`.
    public let hmacHash: HashAlgorithm
    /// The hash with which the key of those codes is derived: `PRAGMA cipher_kdf_algorithm`.
    public let kdfHash: HashAlgorithm
    private let key: DataKey

    init(key: DataKey, sidecar: Sidecar) {
        self.key = key
        salt = sidecar.salt
        pageBytes = sidecar.settings.pageBytes
        plaintextHeaderBytes = sidecar.settings.plaintextHeaderBytes
        hmacHash = sidecar.settings.hmacHash
        kdfHash = sidecar.settings.kdfHash
    }

    /// Lends the 32 bytes of the key; they must not outlive the call.
    public borrowing func withKey<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try key.withBytes { (bytes: UnsafeRawBufferPointer) in try body(bytes) }
    }

    /// Lends the text `x'<64 digits of the key><32 digits of the salt>'` that `PRAGMA key` and `sqlite3_key` accept, in
    /// locked memory that is wiped afterwards.
    public borrowing func withKeyspec<Result>(
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result {
        let keyspec = key.withSecret { $0.keyspec(salt: salt) }
        return try keyspec.withBytes { (bytes: UnsafeRawBufferPointer) in try body(bytes) }
    }

    /// A description without the key.
    public borrowing func describe() -> String { "RevealedKey(32 bytes)" }
}
