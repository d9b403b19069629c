import Foundation
import KeyCustody
import StoreCrypto

// Giving the key of a database, in `Configuration.prepareDatabase`.

extension Database {
    /// Gives the passphrase of the database.
    ///
    /// Call it first in ``Configuration/prepareDatabase(_:)``. A key is derived once for all connections of a pool.
    ///
    /// - Parameter passphrase: Any text except the empty one and texts that begin with `x'`, which SQLCipher reads as
    ///   raw keys.
    /// - Throws: `StoreError` `.wrongKey` and the other errors of opening, ``DatabaseError`` `.SQLITE_MISUSE` outside a
    ///   preparing function.
    /// - SeeAlso: <https://www.zetetic.net/sqlcipher/sqlcipher-api/#key>
    public func usePassphrase(_ passphrase: String) throws {
        var passphrase = passphrase
        try passphrase.withUTF8 { try usePassphrase(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Gives the passphrase of the database as bytes.
    public func usePassphrase(_ passphrase: Data) throws {
        try passphrase.withUnsafeBytes { try usePassphrase(bytes: $0) }
    }

    private func usePassphrase(bytes: UnsafeRawBufferPointer) throws {
        try use(.passphrase(Passphrase(SecretBytes(copying: bytes))))
    }

    /// Gives the raw key of the database: 32 bytes, used without derivation.
    public func useRawKey(_ key: RawKey) throws { try use(.rawKey(key)) }

    /// Gives the raw key of the database as 32 bytes.
    public func useRawKey(_ key: Data) throws {
        try useRawKey(RawKey(key.withUnsafeBytes { SecretBytes(copying: $0) }))
    }

    /// Gives the key of the database without a copy of it outside of locked memory.
    package func use(_ secret: Secret) throws {
        requireAccess()
        if isClosed { throw closedError }
        try connectionKey.apply(secret, on: self)
    }

    /// Refused: changing the key in place loses data.
    ///
    /// SQLCipher's rekey reports success when it failed, and the next write then mixes keys.
    /// - Throws: Always; the error says what to do instead.
    public func changePassphrase(_ passphrase: String) throws {
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "a key is not changed in place, where a failure destroys the file: use `cipherctl key change` "
                + "(store.keys.change in a program) for a store with keyslots, and `cipherctl rotate` (KeyRotation in "
                + "a program) for a direct store")
    }

    /// Refused: changing the key in place loses data.
    public func changePassphrase(_ passphrase: Data) throws { try changePassphrase("") }
}
