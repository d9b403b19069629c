import PageFormat
import StorePlatform
import StoreSharing

/// The WAL of a database in use, read by a descriptor of its own: no process locks anything in that file.
///
/// Any thread may read.
final class WALFile: Sendable {
    private let file: FileDescriptor
    private let pageBytes: Int
    private let database: String

    init(_ paths: StorePaths, pageBytes: Int) throws(SystemError) {
        file = try FileDescriptor(opening: paths.wal, .readOnly, mustBeRegular: true)
        database = paths.database
        self.pageBytes = pageBytes
    }

    private func offset(ofFrame frame: UInt32) -> Int { WALHeader.offset(ofFrame: frame, pageBytes: pageBytes) }

    /// The length of the WAL up to and including a frame, in bytes.
    func bytes(through frame: UInt32) -> Int { frame == 0 ? 0 : offset(ofFrame: frame + 1) }

    /// Reads the page of a frame.
    func readPage(ofFrame frame: UInt32, into page: UnsafeMutableRawBufferPointer) throws {
        let count = try file.read(at: offset(ofFrame: frame) + WALFrameHeader.headerBytes, into: page)
        if count < page.count { throw exchanged("frame \(frame) is missing") }
    }

    /// The position that a wal-index describes, with the checksum of its last frame.
    func position(_ index: WALIndex) throws -> WALPosition {
        guard index.frames > 0 else { return WALPosition(salts: index.salts, frame: 0, checksum: WALChecksum()) }
        _ = try header(of: index.salts)
        let bytes = try file.read(at: offset(ofFrame: index.frames), byteCount: WALFrameHeader.headerBytes)
        guard let last = bytes.withUnsafeBytes({ WALFrameHeader($0) }), last.salts == index.salts,
            last.databasePages == index.databasePages
        else { throw exchanged("frame \(index.frames) does not commit a transaction of this WAL") }
        return WALPosition(salts: index.salts, frame: index.frames, checksum: last.checksum)
    }

    /// Walks the frames between two positions of a run, verifies salts and checksums, and returns the last frame of
    /// each page.
    ///
    /// - Parameters:
    ///   - start: The earlier position; one of another run stands for the beginning.
    ///   - index: The later position. Frames after its last frame were never committed.
    func frames(
        after start: WALPosition, through index: WALIndex
    ) throws -> (lastFrames: [UInt32: UInt32], position: WALPosition) {
        let isSameRun = start.salts == index.salts
        guard index.frames > 0, !isSameRun || start.frame < index.frames else {
            return ([:], isSameRun ? start : WALPosition(salts: index.salts, frame: 0, checksum: WALChecksum()))
        }
        let header = try header(of: index.salts)
        let first = isSameRun ? start.frame + 1 : 1
        var checksum = first > 1 ? start.checksum : header.checksum
        var lastFrames: [UInt32: UInt32] = [:]
        let end = try WALWalk.wholeFrames(first...index.frames, of: header) {
            try file.read(at: $0, into: $1)
        } visit: { number, frame in
            guard let found = WALFrameHeader(frame, continuing: &checksum, of: header) else {
                throw damaged(frame: number)
            }
            lastFrames[found.pageNumber] = number
            return true
        }
        if end <= index.frames { throw exchanged("the frames from \(end) on are missing") }
        lastFrames = lastFrames.filter { $0.key <= index.databasePages }
        return (lastFrames, WALPosition(salts: index.salts, frame: index.frames, checksum: checksum))
    }

    private func header(of salts: WALSalts) throws -> WALHeader {
        let bytes = try file.read(at: 0, byteCount: WALHeader.headerBytes)
        guard let header = bytes.withUnsafeBytes({ WALHeader($0) }), header.salts == salts,
            header.pageBytes == pageBytes
        else { throw exchanged("its header has other salts") }
        return header
    }

    // MARK: Errors

    private func damaged(frame: UInt32) -> StoreError {
        StoreError(
            .walDamaged, what: "The WAL of \"\(database)\" is damaged.",
            why: "Frame \(frame) was committed, but its checksum or its salts do not continue those of the frames "
                + "before it.",
            remedy: "Run cipherctl verify on the store. The last commits may have to be restored from a backup.")
    }

    private func exchanged(_ why: String) -> StoreError {
        StoreError(
            .walDamaged, what: "The WAL of \"\(database)\" does not match its index.",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).",
            remedy: "Try again. If the error persists, another program has changed the WAL: run cipherctl verify.")
    }
}

/// A position in a WAL: everything committed up to a frame.
package struct WALPosition: Hashable, Sendable {
    /// The run of the WAL; after a reset it has other salts.
    package let salts: WALSalts
    /// The last committed frame of the run, as the wal-index says (SQLite's mxFrame); 0 when the run has none yet.
    package let frame: UInt32
    /// The running checksum at that frame.
    let checksum: WALChecksum
}

/// The commits between two moments.
package struct WALDelta: Sendable {
    /// The last frame of each page that was written, in the order of pages, without pages beyond the end of the
    /// database.
    package let pages: [(page: UInt32, frame: UInt32)]
    /// The later of the two moments.
    package let position: WALPosition
    /// Pages of the database at that moment.
    package let databasePages: UInt32
    /// The length of the WAL file up to that moment, in bytes.
    package let walBytes: Int
}
