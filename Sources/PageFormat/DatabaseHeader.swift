/// The first 100 bytes of a database, as SQLite defines them.
///
/// Under a plaintext header the first 32 of them can be read in the file itself, and nothing authenticates them; the
/// rest is readable in a decrypted page 1.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#the_database_header>
package struct DatabaseHeader: Hashable, Sendable {
    /// Bytes of the header.
    package static let headerBytes = 100
    /// "SQLite format 3" and a zero byte.
    package static let magic: [UInt8] = Array("SQLite format 3\0".utf8)

    /// Offsets of the fields, and the values that SQLite fixes; Docs/Formats/Pages.md tabulates them.
    package enum Offset {
        static let magic = 0
        static let pageBytes = 16
        static let writeVersion = 18
        package static let readVersion = 19
        package static let reservedBytes = 20
        package static let maximumPayloadFraction = 21
        static let minimumPayloadFraction = 22
        static let leafPayloadFraction = 23
        package static let changeCounter = 24
        package static let pageCount = 28
        static let schemaCookie = 40
        static let schemaFormat = 44
        package static let largestRootPage = 52
        package static let textEncoding = 56
        package static let userVersion = 60
        package static let applicationID = 68
        static let expansion = 72
        package static let versionValidFor = 92
        static let libraryVersion = 96
    }

    /// Values of bytes 21 to 23 in every SQLite file.
    package static let payloadFractions: [UInt8] = [64, 32, 32]

    /// SQLite's journal mode, from bytes 18 and 19.
    package enum JournalMode: UInt8, Hashable, Sendable {
        case rollback = 1
        case writeAheadLog = 2
    }

    /// Bytes of a page.
    package var pageBytes: Int
    /// Nil when bytes 18 and 19 differ or hold a value that SQLite does not know.
    package var journalMode: JournalMode?
    /// Size of the reserve at the end of each page, in bytes.
    package var reservedBytes: Int
    /// Counts transactions in rollback mode.
    package var changeCounter: UInt32
    /// Pages of the database when page 1 was last written; frames in the WAL may say otherwise.
    package var pageCount: UInt32

    /// Reads the fields of the first 32 bytes; nil when there are fewer or they do not begin with the magic.
    ///
    /// Field values are not checked: ``examine(_:fileBytes:settings:)`` verifies them.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count >= 32, bytes.starts(with: DatabaseHeader.magic) else { return nil }
        pageBytes = DatabaseHeader.decodePageBytes(bytes.bigEndian(at: Offset.pageBytes, as: UInt16.self))
        let version = bytes[Offset.readVersion]
        journalMode = version == bytes[Offset.writeVersion] ? JournalMode(rawValue: version) : nil
        reservedBytes = Int(bytes[Offset.reservedBytes])
        changeCounter = bytes.bigEndian(at: Offset.changeCounter, as: UInt32.self)
        pageCount = bytes.bigEndian(at: Offset.pageCount, as: UInt32.self)
    }

    /// The page size of a field: 1 means 65,536, which does not fit in two bytes.
    package static func decodePageBytes(_ field: UInt16) -> Int { field == 1 ? 65_536 : Int(field) }

    /// The field for a page size.
    package static func encodePageBytes(_ bytes: Int) -> UInt16 { bytes == 65_536 ? 1 : UInt16(clamping: bytes) }
}
