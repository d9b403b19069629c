import StoreSharing

/// The header of a wal-index, the file `<database>-shm`: what the WAL contains, how much of it is already in the
/// database file, and which part readers use. All connections share it.
///
/// SQLite keeps it in shared memory, in the byte order of the machine.
/// - SeeAlso: <https://www.sqlite.org/walformat.html#the_wal_index_file_format>
package struct WALIndex: Hashable, Sendable {
    /// Bytes of the header; page numbers and hash tables follow.
    package static let headerBytes = 136
    /// Bytes of the first region, and of each later one.
    package static let regionBytes = 32 * 1024
    /// The only version.
    package static let formatVersion: UInt32 = 3_007_000
    /// The number of read marks that readers share.
    package static let readMarkCount = 5
    /// The value of an unused read mark.
    static let unusedMark: UInt32 = .max

    /// Offsets of the fields; Docs/Formats/Pages.md tabulates them.
    enum Offset {
        static let formatVersion = 0
        static let isInitialized = 12
        static let pageBytes = 14
        static let frames = 16
        static let databasePages = 20
        static let checksum1 = 24
        static let checksum2 = 28
        static let salt1 = 32
        static let salt2 = 36
        static let headerChecksum1 = 40
        static let headerChecksum2 = 44
        static let copy = 48
        static let checkpointedFrames = 96
        static let readMarks = 100
        /// The first of the bytes that SQLite locks: write, checkpoint, recover, then one for each read mark.
        static let locks = Int(WALLockByte.all.lowerBound)
    }

    /// The committed frames of the WAL: SQLite's mxFrame. Later frames in the file were never committed.
    package var frames: UInt32
    /// The size of a page; frames have 24 bytes more.
    package var pageBytes: Int
    /// Pages of the database at the last commit.
    package var databasePages: UInt32
    /// The salts of the run of the WAL to which these frames belong.
    package var salts: WALSalts
    /// Frames that are already in the database file.
    package var checkpointedFrames: UInt32
    /// The last frame that the readers of each mark may see; nil for unused marks. Readers of the first mark read the
    /// database file alone. A mark counts only while its byte is locked.
    var readMarks: [UInt32?]

    /// Whether a file that begins with these bytes can be an index: each of the two headers has the version, or zeros, as
    /// before it is written for the first time. A file may be shorter.
    package static func canBegin(with head: [UInt8]) -> Bool {
        [Offset.formatVersion, Offset.copy + Offset.formatVersion].allSatisfy { offset in
            guard offset < head.count else { return true }
            var field = Array(head[offset..<min(offset + 4, head.count)])
            field += [UInt8](repeating: 0, count: 4 - field.count)
            return field.allSatisfy { $0 == 0 } || field == withUnsafeBytes(of: formatVersion, Array.init)
        }
    }

    /// Whether one of the two headers has the version.
    package static func hasVersion(_ head: [UInt8]) -> Bool {
        [Offset.formatVersion, Offset.copy + Offset.formatVersion].contains { offset in
            offset < head.count && head[offset..<min(offset + 4, head.count)].contains { $0 != 0 }
        }
    }

    /// Whether an index can have this length. SQLite cuts it to three bytes when nobody uses it, and extends it by pages
    /// of the system.
    package static func canHaveLength(_ byteCount: Int) -> Bool {
        byteCount <= emptyBytes || byteCount % smallestSystemPageBytes == 0
    }

    private static let emptyBytes = 3
    private static let smallestSystemPageBytes = 4096

    /// Whether a region can be one of an index, by its page numbers and its hash table, which has numbers of frames in the
    /// region. The region may be shorter.
    package static func canBeRegion(_ bytes: [UInt8], isFirst: Bool) -> Bool {
        bytes.withUnsafeBytes { bytes in
            let table = min(regionHashOffset, bytes.count)
            let numbers = stride(from: isFirst ? headerBytes : 0, to: table - table % 4, by: 4)
            let places = stride(from: regionHashOffset, to: bytes.count - 1, by: 2)
            return numbers.allSatisfy {
                bytes.loadUnaligned(fromByteOffset: $0, as: UInt32.self) < improbablePage
            } && places.allSatisfy { bytes.loadUnaligned(fromByteOffset: $0, as: UInt16.self) <= regionFrames }
        }
    }

    /// Frames of a region.
    private static let regionFrames = 4096
    /// Where the hash table of a region begins; page numbers precede it.
    private static let regionHashOffset = 4 * regionFrames
    /// A page number that no database is assumed to have: with pages of 4 KiB it is 2 TiB long. In a file of text each
    /// group of four bytes is above.
    private static let improbablePage: UInt32 = 1 << 29

    /// Reads a header; nil while it is being written, and when it has another version.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= WALIndex.headerBytes else { return nil }
        func number(_ offset: Int) -> UInt32 { bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
        // It is written twice, one copy after the other, so that a reader can detect an unfinished write.
        let first = UnsafeRawBufferPointer(rebasing: bytes[..<Offset.copy])
        let second = UnsafeRawBufferPointer(rebasing: bytes[Offset.copy..<2 * Offset.copy])
        guard first.elementsEqual(second), number(Offset.formatVersion) == WALIndex.formatVersion,
            bytes[Offset.isInitialized] != 0
        else { return nil }
        var computed = WALChecksum()
        computed.add(
            UnsafeRawBufferPointer(rebasing: bytes[..<Offset.headerChecksum1]), bigEndian: 1.bigEndian == 1)
        guard computed.first == number(Offset.headerChecksum1), computed.second == number(Offset.headerChecksum2)
        else { return nil }
        frames = number(Offset.frames)
        // 65,536 does not fit, and is 1.
        let size = Int(bytes.loadUnaligned(fromByteOffset: Offset.pageBytes, as: UInt16.self))
        pageBytes = size & 0xfe00 | (size & 1) << 16
        databasePages = number(Offset.databasePages)
        salts = WALSalts(bytes, at: Offset.salt1)
        checkpointedFrames = number(Offset.checkpointedFrames)
        readMarks = (0..<WALIndex.readMarkCount).map { index in
            let mark = number(Offset.readMarks + 4 * index)
            return mark == WALIndex.unusedMark ? nil : mark
        }
    }

    /// The bytes that the WAL has at least: its header and the committed frames.
    package var walBytes: Int { WALHeader.headerBytes + Int(frames) * (WALFrameHeader.headerBytes + pageBytes) }

    /// Whether readers of a mark keep frames of the WAL from being copied into the database file.
    package func blocksCheckpoints(readMark index: Int) -> Bool {
        // Readers of the first mark do not use the WAL: they read the file, which must not change.
        if index == 0 { return checkpointedFrames < frames }
        guard let mark = readMarks[index] else { return false }
        return mark < frames
    }
}
