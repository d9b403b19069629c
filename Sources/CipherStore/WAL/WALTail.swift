import KeyCustody
import PageFormat
import StoreCrypto
import StoreSharing

/// The bytes after the last frame of a WAL that SQLite accepts.
///
/// Much of it is what nobody misses: frames of a former run, which a reset leaves; frames of a transaction that was
/// rolled back; the rest of a commit whose process was killed, and whose beginning a later commit has overwritten.
/// Anything else was damaged.
struct WALTail {
    private let header: WALHeader
    private let frames: WALFrames
    /// The first frame that SQLite does not accept.
    private let broken: UInt32
    /// The checksum of the frame before it.
    private let before: WALChecksum

    /// - Throws: `SystemError`, `PageFormatError`.
    init(_ scan: WALScan, _ file: RawFile, bytes: Int, _ key: PageKey?) throws {
        header = scan.header
        frames = try WALFrames(scan.header, file, bytes: bytes, key)
        let valid = scan.committedFrames + scan.uncommittedFrames
        broken = valid + 1
        before = valid > 0 ? try frames.frameHeader(valid)?.checksum ?? scan.checksum : scan.checksum
    }

    /// The loss of the WAL; nil for none.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func loss() throws -> WALContent.Loss? {
        guard let found = try frameHeader(broken) else { return nil }
        if let original = try frames.original(of: broken, found, after: before) {
            if try hasCommit(from: broken + 1, isKnown: false) { return .afterFrame(broken) }
            guard original.endsTransaction else { return nil }
            return try isProved(found) ? .afterFrame(broken) : .lastCommit(broken)
        }
        if try hasCommit(from: broken, isKnown: true), try !isLeftover(broken) {
            return try hasCommit(from: broken + 1, isKnown: true) ? .afterFrame(broken) : .lastCommit(broken)
        }
        let first = try firstForeign(from: broken)
        return try isNoFrame(from: first) ? .fromFrame(first) : nil
    }

    /// Whether the first frame that SQLite does not accept ends a transaction and was changed.
    ///
    /// SQLite writes the header of a frame first and its page after it. A kill between the two leaves the header before
    /// the page of a former frame of the same place.
    ///
    /// | the page | means |
    /// |---|---|
    /// | is authentic, and the frame would fit with another value of one word | a changed frame |
    /// | is authentic under any number | a kill |
    /// | has zeros only | a power cut |
    /// | is page 1 with clear bytes that SQLite did not write; is none of these | a changed frame |
    ///
    /// A kill in the middle of the page looks like a changed frame: the kernel ends the write of a killed process between two
    /// pages of the system, and a page in a WAL is in two of them.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func hasChangedEnd() throws -> Bool {
        guard let found = try frameHeader(broken), frames.isOfRun(found) else { return false }
        if let original = try frames.original(of: broken, found, after: before) {
            return try original.endsTransaction && isProved(found)
        }
        guard found.salts == header.salts, found.endsTransaction else { return false }
        return try !frames.isWrittenPage(broken)
    }

    /// Whether the first frame that SQLite does not accept was written as a whole, by its header: one that was written in part
    /// has salts of two runs, and no checksum proves the page.
    private func isProved(_ found: WALFrameHeader) throws -> Bool {
        try found.salts == header.salts || frames.follows(broken, before)
    }

    // MARK: Commits

    /// Whether a frame, or one after it, ends a transaction of this run of the WAL.
    ///
    /// A rollback leaves frames with the salts of the run, too, but none that ends a transaction.
    ///
    /// - Parameter isKnown: Whether the frame itself counts without another one before it.
    private func hasCommit(from first: UInt32, isKnown: Bool) throws -> Bool {
        var frame = first
        var before: WALFrameHeader?
        while let found = try frameHeader(frame) {
            if found.salts == header.salts, found.endsTransaction {
                if before == nil, isKnown { return true }
                if let before, try follows(frame, before) { return true }
                // A commit that never happened is authentic as well.
                if let isIntact = try frames.isIntact(frame, found), !isIntact { return true }
            }
            before = found
            frame = try frames.next(after: frame)
        }
        return false
    }

    /// Whether a broken frame is intact, with the checksum of another predecessor. Such a frame is the rest of a commit
    /// that never happened: its process was killed, and a later commit has overwritten its beginning.
    private func isLeftover(_ frame: UInt32) throws -> Bool {
        guard let found = try frameHeader(frame), found.salts == header.salts, found.pageNumber > 0,
            try frames.isIntact(frame, found) == true, try hasCountOfCommit(frame, found)
        else { return false }
        guard try frameHeader(frame + 1) != nil else { return true }
        return try follows(frame + 1, found)
    }

    /// Whether a frame of page 1 counts the pages that the end of its transaction counts. No code covers either count.
    private func hasCountOfCommit(_ first: UInt32, _ found: WALFrameHeader) throws -> Bool {
        guard found.pageNumber == 1, let counted = try frames.countedPages(of: first) else { return true }
        var (frame, header) = (first, found)
        while !header.endsTransaction {
            guard let next = try frameHeader(frame + 1), try follows(frame + 1, header) else { return true }
            (frame, header) = (frame + 1, next)
        }
        return header.databasePages == counted
    }

    // MARK: Other frames

    /// The first frame without the salts of this run. The first damaged one can have them still.
    private func firstForeign(from first: UInt32) throws -> UInt32 {
        var frame = first
        while try frameHeader(frame)?.salts == header.salts { frame += 1 }
        return frame
    }

    /// Whether no frame of any run is there, up to the end of the WAL. Without a key only zeros show that.
    private func isNoFrame(from first: UInt32) throws -> Bool {
        var frame = first
        var before: WALFrameHeader?
        while let found = try frameHeader(frame) {
            // A reset adds 1 to the first salt, or takes other ones.
            let resets = header.salts.first &- found.salts.first
            if frames.isOfRun(found) || resets < Self.formerRuns { return false }
            if !frames.knowsKey, found.pageNumber > 0 { return false }
            if let before, before.pageNumber > 0, try follows(frame, before) { return false }
            if try frames.isAuthentic(frame, found) == true { return false }
            before = found
            frame = try frames.next(after: frame)
        }
        return frame > first
    }

    /// The number of former runs whose frames are known by their first salt.
    private static let formerRuns: UInt32 = 1 << 20

    // MARK: Frames

    private func frameHeader(_ frame: UInt32) throws -> WALFrameHeader? { try frames.frameHeader(frame) }

    /// Whether the checksum of a frame continues that of the frame before it.
    private func follows(_ frame: UInt32, _ before: WALFrameHeader) throws -> Bool {
        try frames.follows(frame, before.checksum)
    }
}
