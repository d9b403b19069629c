import StoreCrypto

/// The two keys of an encrypted file, with the settings for their use.
///
/// Made once for a file; each thread makes its own ``PageCodec`` from it.
package struct PageKeys: ~Copyable, Sendable {
    /// Encrypts the pages.
    let dataKey: SecretBytes
    /// Authenticates the pages.
    let macKey: SecretBytes
    /// The salt of the file, 16 bytes.
    let salt: [UInt8]
    /// The settings under which the file was made.
    let settings: CipherSettings
    /// The layout of a page.
    package let layout: PageLayout

    /// Derives the MAC key from the data key (2 PBKDF2 rounds, microseconds).
    ///
    /// - Throws: ``PageFormatError`` when key, salt or settings have the wrong size.
    package init(dataKey: SecretBytes, salt: [UInt8], settings: CipherSettings) throws(PageFormatError) {
        let layout = try PageLayout(settings)
        try PageKeys.check("the data key", bytes: dataKey.count, expectedBytes: CipherSettings.keyBytes)
        try PageKeys.check("the salt", bytes: salt.count, expectedBytes: CipherSettings.saltBytes)
        let derived: SecretBytes
        do throws(CryptoError) {
            derived = try settings.deriveMacKey(dataKey: dataKey, salt: salt)
        } catch {
            throw .cryptography(error)
        }
        self.dataKey = dataKey
        self.macKey = derived
        self.salt = salt
        self.settings = settings
        self.layout = layout
    }

    borrowing func makeCipher() throws(PageFormatError) -> PageCipher {
        do throws(CryptoError) { return try PageCipher(key: dataKey) } catch { throw .cryptography(error) }
    }

    borrowing func makeAuthenticator() throws(PageFormatError) -> PageAuthenticator {
        do throws(CryptoError) {
            return try PageAuthenticator(hash: settings.hmacHash, key: macKey)
        } catch {
            throw .cryptography(error)
        }
    }

    private static func check(_ what: String, bytes: Int, expectedBytes: Int) throws(PageFormatError) {
        if bytes != expectedBytes { throw .wrongLength(what: what, bytes: bytes, expectedBytes: expectedBytes) }
    }
}
