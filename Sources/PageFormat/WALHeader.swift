/// The first 32 bytes of a WAL.
///
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#walformat>
package struct WALHeader: Hashable, Sendable {
    /// Bytes of the header; the first frame follows.
    package static let headerBytes = 32
    /// The magic number with the lowest bit clear; the bit says in which byte order checksums are computed.
    package static let magic: UInt32 = 0x377f_0682
    /// The only format version.
    package static let formatVersion: UInt32 = 3_007_000

    /// Offsets of the fields; Docs/Formats/Pages.md tabulates them.
    package enum Offset {
        package static let magic = 0
        package static let formatVersion = 4
        static let pageBytes = 8
        static let checkpointSequence = 12
        static let salt1 = 16
        static let salt2 = 20
        static let checksum1 = 24
        static let checksum2 = 28
    }

    /// Whether checksums read their words in big-endian order.
    package var checksumsAreBigEndian: Bool
    /// Bytes of the page in each frame.
    package var pageBytes: Int
    /// Counts how often the WAL was reset.
    var checkpointSequence: UInt32
    /// Frames belong to this run of the WAL only while they have the same two salts; SQLite's, not the cipher's.
    package var salts: WALSalts
    /// The initial checksum, with which that of the first frame continues.
    package var checksum: WALChecksum

    /// Reads a header; nil when SQLite does not use it: it treats the WAL as empty then, or refuses to open the database
    /// (``unknownVersion(_:)``).
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard let (header, version) = WALHeader.read(bytes), version == WALHeader.formatVersion else { return nil }
        self = header
    }

    /// The format version of an intact header, when it is one that SQLite does not know: it opens no database with such a
    /// WAL (`SQLITE_CANTOPEN`). Nil for all other headers.
    ///
    /// - SeeAlso: `walIndexRecover` in <https://www.sqlite.org/src/file/src/wal.c>
    package static func unknownVersion(_ bytes: UnsafeRawBufferPointer) -> UInt32? {
        guard let (_, version) = read(bytes), version != formatVersion else { return nil }
        return version
    }

    /// A header of any version.
    private static func read(_ bytes: UnsafeRawBufferPointer) -> (WALHeader, version: UInt32)? {
        WALHeader(ofAnyVersion: bytes).map { ($0, bytes.bigEndian(at: Offset.formatVersion, as: UInt32.self)) }
    }

    private init?(ofAnyVersion bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= WALHeader.headerBytes else { return nil }
        let magic = bytes.bigEndian(at: Offset.magic, as: UInt32.self)
        guard magic & ~1 == WALHeader.magic else { return nil }
        checksumsAreBigEndian = magic & 1 == 1
        pageBytes = Int(bytes.bigEndian(at: Offset.pageBytes, as: UInt32.self))
        guard PageLayout.isPageSize(pageBytes) else { return nil }
        checkpointSequence = bytes.bigEndian(at: Offset.checkpointSequence, as: UInt32.self)
        salts = WALSalts(bytes, at: Offset.salt1)
        checksum = WALChecksum(bytes, at: Offset.checksum1)
        var computed = WALChecksum()
        computed.add(
            UnsafeRawBufferPointer(rebasing: bytes[..<Offset.checksum1]), bigEndian: checksumsAreBigEndian)
        guard computed == checksum else { return nil }
    }

    /// The header of a WAL whose own header is damaged: its frames have their places, and no checksum of them is known.
    ///
    /// - Parameters:
    ///   - pageBytes: Bytes of the page in each frame.
    ///   - salts: Those of the run to which the frames belong.
    package init(ofFramesWith salts: WALSalts, pageBytes: Int) {
        checksumsAreBigEndian = false
        self.pageBytes = pageBytes
        checkpointSequence = 0
        self.salts = salts
        checksum = WALChecksum()
    }

    /// Bytes from one frame to the next.
    package var frameStrideBytes: Int { WALFrameHeader.headerBytes + pageBytes }

    /// The offset of a frame in a WAL with pages of a size; frames count from 1.
    package static func offset(ofFrame frame: UInt32, pageBytes: Int) -> Int {
        headerBytes + (Int(frame) - 1) * (WALFrameHeader.headerBytes + pageBytes)
    }

    /// The offset of a frame; frames count from 1.
    package func frameOffset(_ frame: UInt32) -> Int {
        Self.offset(ofFrame: frame, pageBytes: pageBytes)
    }

    /// The offset of a frame's page; frames count from 1.
    package func pageOffset(ofFrame frame: UInt32) -> Int { frameOffset(frame) + WALFrameHeader.headerBytes }
}

/// The pair of numbers that ties frames to the present run of a WAL.
package struct WALSalts: Hashable, Sendable {
    package var first: UInt32
    package var second: UInt32

    init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        first = bytes.bigEndian(at: offset, as: UInt32.self)
        second = bytes.bigEndian(at: offset + 4, as: UInt32.self)
    }
}
