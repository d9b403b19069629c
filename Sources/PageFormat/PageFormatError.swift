import StoreCrypto

/// Why a page cannot be read or written; never its content.
package enum PageFormatError: Error, Hashable, Sendable {
    /// The cipher settings do not describe a page that SQLCipher could have written.
    case unusableSettings(reason: String)
    /// A buffer has another length than the format requires.
    case wrongLength(what: String, bytes: Int, expectedBytes: Int)
    /// Pages count from 1.
    case pageNumberZero
    /// A page of a table's tree violates the format.
    case damagedTree(page: UInt32)
    /// A tree names a page after the end of the database.
    case missingPage(UInt32)
    /// libcrypto failed.
    case cryptography(CryptoError)
}

extension PageFormatError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unusableSettings(let reason):
            "the cipher settings describe no SQLCipher page: \(reason)"
        case .wrongLength(let what, let bytes, let expectedBytes):
            "\(what) has \(bytes) bytes instead of \(expectedBytes)"
        case .pageNumberZero:
            "page number 0: pages count from 1"
        case .damagedTree(let page):
            "page \(page) does not belong to the tree of a table"
        case .missingPage(let page):
            "page \(page) is missing, because the database ends before it"
        case .cryptography(let error):
            error.description
        }
    }
}
