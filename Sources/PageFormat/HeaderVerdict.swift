/// The properties that the beginning of a file shows without a key.
package enum HeaderVerdict: Hashable, Sendable {
    /// The file has no bytes. So has a store whose creation was interrupted; its sidecar shows which it is.
    case empty
    /// Too few bytes for the smallest database.
    case tooShort(fileBytes: Int, looksLikeText: Bool)
    /// SQLite without encryption.
    case plainSQLite
    /// 32 readable bytes, all valid, followed by random ones: an encrypted store.
    case plaintextHeader(DatabaseHeader)
    /// A plaintext header with wrong bytes in it.
    case damagedHeader(HeaderDamage)
    /// No SQLite header: SQLCipher with the salt in the first 16 bytes, or another kind of file.
    case opaque(OpaqueFile)
}

/// A byte of a plaintext header that holds a value SQLCipher never writes there.
package struct HeaderDamage: Hashable, Sendable {
    /// Offset of the first wrong byte.
    package var offset: Int
    /// The value of that byte.
    package var found: UInt8
    /// The valid value, as in `80 (reserved bytes of each page)`.
    package var expected: String
    /// The total number of wrong bytes in the header.
    package var wrongBytes: Int
}

/// Properties of a file without a SQLite header.
package struct OpaqueFile: Hashable, Sendable {
    /// The beginning is text.
    var looksLikeText: Bool
    /// The bytes are spread as evenly as those of encrypted or compressed files.
    package var looksRandom: Bool
    /// The beginning is all zeros.
    package var isZero: Bool
    /// The length is a multiple of the smallest page.
    package var isMultipleOf512: Bool
    /// The length is a multiple of the page size of the settings, and at least one page.
    var isWholePages: Bool

    /// Whether it can be SQLCipher's standard form, so that it makes sense to try a key.
    package var mayBeStandardSQLCipher: Bool { looksRandom && isMultipleOf512 }
}
