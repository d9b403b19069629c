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
    private let file: RawFile
    /// Length of the WAL.
    private let bytes: Int
    /// The first frame that SQLite does not accept.
    private let broken: UInt32
    /// The checksum of the frame before it.
    private let before: WALChecksum
    /// The key of the pages, if it is known.
    private let key: PageKey?

    /// - Throws: `SystemError`.
    init(_ scan: WALScan, _ file: RawFile, bytes: Int, _ key: PageKey?) throws {
        (header, self.file, self.bytes) = (scan.header, file, bytes)
        self.key = key?.settings.pageBytes == scan.header.pageBytes ? key : nil
        let valid = scan.committedFrames + scan.uncommittedFrames
        broken = valid + 1
        before = valid > 0 ? try Self.header(of: valid, scan.header, file)?.checksum ?? scan.checksum : scan.checksum
    }

    /// The loss of the WAL; nil for none.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func loss() throws -> WALContent.Loss? {
        guard let found = try frameHeader(broken) else { return nil }
        if let damage = try damage(of: broken, found) {
            let isLoss = try damage.endsTransaction || hasCommit(from: broken + 1, isKnown: false)
            return isLoss ? .afterFrame(broken) : nil
        }
        if try hasCommit(from: broken, isKnown: true), try !isLeftover(broken) { return .afterFrame(broken) }
        let first = try firstForeign(from: broken)
        return try isNoFrame(from: first) ? .fromFrame(first) : nil
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
                if let isAuthentic = try isAuthentic(frame, found), !isAuthentic { return true }
            }
            before = found
            frame = try next(after: frame)
        }
        return false
    }

    /// Whether a broken frame is intact, and follows another one than that before it: then it is the rest of a commit
    /// that never happened, because its process was killed, and a later one has overwritten its beginning.
    private func isLeftover(_ frame: UInt32) throws -> Bool {
        guard let found = try frameHeader(frame), found.salts == header.salts, found.pageNumber > 0,
            try isAuthentic(frame, found) == true
        else { return false }
        guard try frameHeader(frame + 1) != nil else { return true }
        return try follows(frame + 1, found)
    }

    // MARK: Damage

    /// A frame whose header was changed after it was written.
    private struct Damage {
        let endsTransaction: Bool
    }

    /// The damage of the header of a frame, where all else of it shows that it follows the frame before it; nil where
    /// nothing shows that.
    private func damage(of frame: UInt32, _ found: WALFrameHeader) throws -> Damage? {
        var stored = try file.bytes(at: header.frameOffset(frame), count: header.frameStrideBytes)
        guard stored.count == header.frameStrideBytes else { return nil }
        // A former run has other salts, both of them.
        let (one, other) = (found.salts.first == header.salts.first, found.salts.second == header.salts.second)
        if one != other { return Damage(endsTransaction: found.endsTransaction) }
        guard one else { return nil }
        let expected = checksum(stored)
        if (expected.first == found.checksum.first) != (expected.second == found.checksum.second) {
            return Damage(endsTransaction: found.endsTransaction)
        }
        if try original(WALFrameHeader.Offset.pageNumber, &stored, found.checksum) != nil {
            return Damage(endsTransaction: found.endsTransaction)
        }
        return try original(WALFrameHeader.Offset.databasePages, &stored, found.checksum)
            .map { Damage(endsTransaction: $0 > 0) }
    }

    /// The value of one word of a frame with which its checksum would be right; nil where there is none. The bytes stay
    /// as they are.
    ///
    /// A checksum is linear in each word, so two of them give the third. A frame that follows another one than that
    /// before it has such a value once in 2^32 cases.
    private func original(_ offset: Int, _ stored: inout [UInt8], _ wanted: WALChecksum) throws -> UInt32? {
        let kept = Array(stored[offset..<offset + 4])
        defer { stored.replaceSubrange(offset..<offset + 4, with: kept) }
        func with(_ value: UInt32) -> WALChecksum {
            let word = header.checksumsAreBigEndian ? value.bigEndian : value.littleEndian
            stored.replaceSubrange(offset..<offset + 4, with: withUnsafeBytes(of: word) { Array($0) })
            return checksum(stored)
        }
        let (zero, one) = (with(0), with(1))
        // Of two neighbours in Fibonacci's sequence at least one is odd.
        let steps = (one.first &- zero.first, one.second &- zero.second)
        let missing = (wanted.first &- zero.first, wanted.second &- zero.second)
        let value =
            steps.0 % 2 == 1 ? missing.0 &* Self.inverse(of: steps.0) : missing.1 &* Self.inverse(of: steps.1)
        return with(value) == wanted ? value : nil
    }

    /// The number by which an odd one is multiplied to give 1, modulo 2^32.
    private static func inverse(of odd: UInt32) -> UInt32 {
        var inverse = odd
        // Each step doubles the number of right bits, of which there are three.
        for _ in 0..<4 { inverse = inverse &* (2 &- odd &* inverse) }
        return inverse
    }

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
            let isOwn = found.salts.first == header.salts.first || found.salts.second == header.salts.second
            // A reset adds 1 to the first salt, or takes other ones.
            let resets = header.salts.first &- found.salts.first
            if isOwn || resets < Self.formerRuns { return false }
            if key == nil, found.pageNumber > 0 { return false }
            if let before, before.pageNumber > 0, try follows(frame, before) { return false }
            if try isAuthentic(frame, found) == true { return false }
            before = found
            frame = try next(after: frame)
        }
        return frame > first
    }

    /// The number of former runs whose frames are known by their first salt.
    private static let formerRuns: UInt32 = 1 << 20

    // MARK: Frames

    private static func header(of frame: UInt32, _ header: WALHeader, _ file: RawFile) throws -> WALFrameHeader? {
        let found = try file.bytes(at: header.frameOffset(frame), count: WALFrameHeader.headerBytes)
        return found.withUnsafeBytes { WALFrameHeader($0) }
    }

    /// The header of a frame that is there as a whole.
    private func frameHeader(_ frame: UInt32) throws -> WALFrameHeader? {
        guard header.frameOffset(frame) + header.frameStrideBytes <= bytes else { return nil }
        return try Self.header(of: frame, header, file)
    }

    /// The frame to read after one. Of the frames in a hole of the file all but the last are left out: they are zeros like
    /// the one before, and a sparse WAL may have millions.
    private func next(after frame: UInt32) throws -> UInt32 {
        let offset = header.frameOffset(frame)
        guard let data = try file.nextData(from: offset) else {
            // Only zeros follow: the last frame stands for all of them.
            let last = UInt32(clamping: (bytes - WALHeader.headerBytes) / header.frameStrideBytes)
            return max(frame + 1, last)
        }
        // The frame before that with data begins in the hole; the one after `frame` follows where there is none.
        let skipped = (data - offset) / header.frameStrideBytes
        return frame + UInt32(clamping: max(1, skipped - 1))
    }

    /// Whether the page of a frame is authentic; nil where the key is not known.
    private func isAuthentic(_ frame: UInt32, _ found: WALFrameHeader) throws -> Bool? {
        guard let key else { return nil }
        let page = try file.bytes(at: header.pageOffset(ofFrame: frame), count: header.pageBytes)
        var codec = try PageCodec(keys: PageKeys(key))
        return page.count == header.pageBytes && page.withUnsafeBytes { codec.verify($0, number: found.pageNumber) }
    }

    /// The checksum of a frame that follows the last valid one.
    private func checksum(_ stored: [UInt8]) -> WALChecksum {
        var checksum = before
        stored.withUnsafeBytes { checksum.add(frame: $0, bigEndian: header.checksumsAreBigEndian) }
        return checksum
    }

    /// Whether the checksum of a frame continues that of the frame before it.
    private func follows(_ frame: UInt32, _ before: WALFrameHeader) throws -> Bool {
        let bytes = try file.bytes(at: header.frameOffset(frame), count: header.frameStrideBytes)
        guard bytes.count == header.frameStrideBytes else { return false }
        var checksum = before.checksum
        return bytes.withUnsafeBytes { bytes in
            checksum.add(frame: bytes, bigEndian: header.checksumsAreBigEndian)
            return WALFrameHeader(bytes)?.checksum == checksum
        }
    }
}
