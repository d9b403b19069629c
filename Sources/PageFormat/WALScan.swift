/// The committed content of a WAL, found by walking its frames as SQLite's recovery does.
///
/// A walk ends at the first frame that does not belong: other salts, a wrong checksum, page number 0, an incomplete
/// frame. Frames after the last commit do not count. A frame can also be complete without having been published: while
/// other processes are connected, bound the walk by the wal-index's mxFrame.
package struct WALScan: Sendable {
    /// Reads from the WAL at an offset into a buffer, and returns the number of bytes read.
    package typealias Reader = (_ offset: Int, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int

    /// How frames are checked.
    package enum Checking: Sendable {
        /// Salts and cumulative checksums, as SQLite does; reads the whole WAL.
        case checksums
        /// Salts only: reads only frame headers, and may accept stale or torn frames.
        case saltsOnly
    }

    /// The header of the WAL.
    package let header: WALHeader
    /// The number of frames up to the last commit; frames count from 1.
    package let committedFrames: UInt32
    /// Pages of the database at the last commit; 0 when nothing is committed.
    package let databasePages: UInt32
    /// The page number of each committed frame, beginning with frame 1.
    package let pageNumbers: [UInt32]
    /// The checksum at the last commit; the header's when nothing is committed.
    package let checksum: WALChecksum
    /// Valid frames after the last commit.
    package let uncommittedFrames: UInt32

    /// The last committed frame of each page, without pages beyond the end of the database.
    package let lastFrames: [UInt32: UInt32]

    /// Walks a WAL.
    ///
    /// - Parameters:
    ///   - fileBytes: Length of the WAL.
    ///   - maximumFrame: The last frame to consider, as the wal-index's mxFrame; nil for all.
    ///   - visit: Called for each committed frame in order, commit by commit, with the frame's number and header. When
    ///     it throws, the walk ends.
    /// - Returns: Nil when the WAL is empty or its header is not one that SQLite would use: it then contains nothing.
    /// - Throws: What `read` and `visit` throw.
    package static func scan(
        fileBytes: Int,
        maximumFrame: UInt32? = nil,
        checking: Checking = .checksums,
        read: Reader,
        visit: (_ frame: UInt32, _ header: WALFrameHeader) throws -> Void = { _, _ in }
    ) throws -> WALScan? {
        guard let header = try readHeader(fileBytes: fileBytes, read: read) else { return nil }
        let inFile = (fileBytes - WALHeader.headerBytes) / header.frameStrideBytes
        let limit = min(UInt32(clamping: inFile), maximumFrame ?? .max)
        var walk = WALWalk(header: header, checking: checking)
        try walk.run(limit: limit, read: read, visit: visit)
        return WALScan(walk)
    }

    /// The offset of a frame's page in the WAL.
    package func pageOffset(ofFrame frame: UInt32) -> Int { header.pageOffset(ofFrame: frame) }

    private static func readHeader(fileBytes: Int, read: Reader) throws -> WALHeader? {
        guard fileBytes >= WALHeader.headerBytes else { return nil }
        return try withUnsafeTemporaryAllocation(byteCount: WALHeader.headerBytes, alignment: 8) { buffer in
            let count = try read(0, buffer)
            return WALHeader(UnsafeRawBufferPointer(rebasing: buffer[..<min(max(count, 0), buffer.count)]))
        }
    }

    private init(_ walk: WALWalk) {
        header = walk.header
        committedFrames = UInt32(walk.committed.count)
        databasePages = walk.databasePages
        pageNumbers = walk.committed
        checksum = walk.committedChecksum
        uncommittedFrames = UInt32(walk.pending.count)
        var last: [UInt32: UInt32] = [:]
        for (index, page) in walk.committed.enumerated() where page <= walk.databasePages {
            last[page] = UInt32(index + 1)
        }
        lastFrames = last
    }
}
