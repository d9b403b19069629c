/// What the beginning of a file shows without any key.
package enum HeaderVerdict: Hashable, Sendable {
    /// The file has no bytes. A store whose creation was cut looks like this too; its sidecar tells.
    case empty
    /// Too few bytes for the smallest database.
    case tooShort(fileBytes: Int, looksLikeText: Bool)
    /// SQLite without encryption.
    case plainSQLite
    /// 32 readable bytes, all as they should be, and then noise: an encrypted store.
    case plaintextHeader(DatabaseHeader)
    /// A plaintext header with wrong bytes in it.
    case damagedHeader(HeaderDamage)
    /// No SQLite header: SQLCipher with the salt in the first 16 bytes, or something else entirely.
    case opaque(OpaqueFile)
}

/// A byte of a plaintext header that holds a value SQLCipher never writes there.
package struct HeaderDamage: Hashable, Sendable {
    /// Offset of the first wrong byte.
    package var offset: Int
    /// What that byte holds.
    package var found: UInt8
    /// What belongs there, as in `80 (reserved bytes of each page)`.
    package var expected: String
    /// How many bytes of the header are wrong in all.
    package var wrongBytes: Int
}

/// Traits of a file without a SQLite header.
package struct OpaqueFile: Hashable, Sendable {
    /// The beginning is text.
    package var looksLikeText: Bool
    /// The bytes are as evenly spread as those of encrypted or compressed files.
    package var looksRandom: Bool
    /// The beginning holds nothing but zeros.
    package var isZero: Bool
    /// The length is a multiple of the smallest page.
    package var isMultipleOf512: Bool
    /// The length is a multiple of the page size of the settings, and at least one page.
    package var isWholePages: Bool

    /// Whether it can be SQLCipher's standard form, so that trying a key makes sense.
    package var mayBeStandardSQLCipher: Bool { looksRandom && isMultipleOf512 }
}
