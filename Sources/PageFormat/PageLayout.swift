import StoreCrypto
import StoreSharing

/// The layout of an encrypted page.
///
/// A page is ciphertext, then the reserve: initialization vector, authentication code, and padding up to a multiple
/// of the cipher block. Page 1 begins with bytes that are not encrypted: the salt, or a part of SQLite's header.
/// Docs/Formats/Pages.md tabulates the offsets.
package struct PageLayout: Hashable, Sendable {
    /// The page sizes of SQLite.
    package static let smallestPageBytes = 512
    package static let largestPageBytes = 65_536
    /// Bytes at the start of page 1 that contain the salt where there is no plaintext header.
    static let saltHeaderBytes = CipherSettings.saltBytes
    /// SQLite keeps its byte locks here and never stores anything in the page that contains this offset.
    /// <https://www.sqlite.org/fileformat2.html#the_lock_byte_page>
    package static let lockByteOffset = Int(SQLiteLockByte.pending)

    /// Bytes of one page.
    package let pageBytes: Int
    /// Bytes at the end of each page for vector, code and padding. Byte 20 of SQLite's header may be larger.
    package let reservedBytes: Int
    /// Bytes at the start of page 1 that are not encrypted.
    package let firstPageClearBytes: Int
    /// Whether the clear bytes of page 1 belong to SQLite's header; otherwise they are the salt.
    package let hasPlaintextHeader: Bool
    /// Bytes of the authentication code.
    let codeBytes: Int

    /// - Throws: ``PageFormatError/unusableSettings(reason:)``.
    package init(_ settings: CipherSettings) throws(PageFormatError) {
        let page = settings.pageBytes
        guard PageLayout.isPageSize(page) else {
            throw .unusableSettings(reason: "a page of \(page) bytes; a power of two from 512 to 65536 is needed")
        }
        let header = settings.plaintextHeaderBytes
        guard header == 0 || (header % PageCipher.blockBytes == 0 && (16...96).contains(header)) else {
            throw .unusableSettings(reason: "a plaintext header of \(header) bytes; 0 or 32 is usual")
        }
        pageBytes = page
        reservedBytes = settings.reservedBytes
        hasPlaintextHeader = header > 0
        firstPageClearBytes = header > 0 ? header : PageLayout.saltHeaderBytes
        codeBytes = settings.hmacHash.digestBytes
    }

    /// The offset of a page in a database with pages of a size; pages count from 1.
    package static func offset(ofPage number: UInt32, pageBytes: Int) -> Int { (Int(number) - 1) * pageBytes }

    /// Whether SQLite supports pages of this size.
    package static func isPageSize(_ bytes: Int) -> Bool {
        (smallestPageBytes...largestPageBytes).contains(bytes) && bytes & (bytes - 1) == 0
    }

    /// Bytes of a page before the vector: the encrypted bytes, with the clear bytes of page 1.
    package var usableBytes: Int { pageBytes - reservedBytes }
    /// The offset of the initialization vector, where the ciphertext ends.
    package var vectorOffset: Int { usableBytes }
    /// The offset of the authentication code, where the authenticated bytes end.
    package var codeOffset: Int { vectorOffset + PageCipher.initializationVectorBytes }
    /// The offset of the padding; it ends with the page and may be empty.
    var paddingOffset: Int { codeOffset + codeBytes }

    /// Bytes at the start of a page that are neither encrypted nor authenticated.
    package func clearBytes(ofPage number: UInt32) -> Int { number == 1 ? firstPageClearBytes : 0 }

    /// The page that SQLite never writes because it contains the lock bytes.
    package var lockBytePage: UInt32 { UInt32(PageLayout.lockByteOffset / pageBytes) + 1 }
}
