import StoreSharing

/// The head of a wal-index, the file `<database>-shm`: what all connections agree that the log holds, how much of it is
/// in the database file already, and up to where readers use it.
///
/// SQLite keeps it in shared memory, in the byte order of the machine.
/// - SeeAlso: <https://www.sqlite.org/walformat.html#the_wal_index_file_format>
package struct WALIndex: Hashable, Sendable {
    /// Bytes of the head; page numbers and hash tables follow.
    package static let headerBytes = 136
    /// The only version there is.
    package static let formatVersion: UInt32 = 3_007_000
    /// Readers share this many marks.
    package static let readMarkCount = 5
    /// The value of a mark that nobody uses.
    static let unusedMark: UInt32 = .max

    /// Offsets of the fields; Docs/Formats/Pages.md tabulates them.
    package enum Offset {
        package static let formatVersion = 0
        package static let isInitialized = 12
        package static let frames = 16
        package static let databasePages = 20
        package static let checksum1 = 24
        package static let checksum2 = 28
        package static let salt1 = 32
        package static let salt2 = 36
        package static let headerChecksum1 = 40
        package static let headerChecksum2 = 44
        package static let copy = 48
        package static let checkpointedFrames = 96
        package static let readMarks = 100
        /// The first of the bytes that SQLite locks: writing, checkpointing, recovering, then one for each read mark.
        package static let locks = Int(WALLockByte.all.lowerBound)
    }

    /// Frames of the log that were committed: SQLite's mxFrame. What follows them in the file never happened.
    package var frames: UInt32
    /// Pages of the database at the last commit.
    package var databasePages: UInt32
    /// The salts of the log that these frames belong to.
    package var salts: WALSalts
    /// Frames that are in the database file already.
    package var checkpointedFrames: UInt32
    /// The last frame that the readers of each mark may see; nil for marks that nobody uses. Those of the first read
    /// the database file alone. A mark counts only while its byte is locked.
    package var readMarks: [UInt32?]

    /// Reads a head; nil while it is being written, and when it is of another version.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= WALIndex.headerBytes else { return nil }
        func number(_ offset: Int) -> UInt32 { bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
        // It is written twice, one copy after the other, so that a reader notices that it comes in between.
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
        databasePages = number(Offset.databasePages)
        salts = WALSalts(bytes, at: Offset.salt1)
        checkpointedFrames = number(Offset.checkpointedFrames)
        readMarks = (0..<WALIndex.readMarkCount).map { index in
            let mark = number(Offset.readMarks + 4 * index)
            return mark == WALIndex.unusedMark ? nil : mark
        }
    }

    /// Whether readers of a mark keep frames of the log from being copied into the database file.
    package func blocksCheckpoints(readMark index: Int) -> Bool {
        // Readers of the first use no log: they read the file, which must stay as it is.
        if index == 0 { return checkpointedFrames < frames }
        guard let mark = readMarks[index] else { return false }
        return mark < frames
    }
}
