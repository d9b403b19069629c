import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The frames of a WAL by their places, whether SQLite accepts them or not.
///
/// It is used by one thread at a time.
package final class WALFrames {
    package let header: WALHeader
    private let file: RawFile
    /// Length of the WAL.
    private let bytes: Int
    /// The key of the pages, if it is known.
    private let key: PageKey?
    private var codec: PageCodec?

    /// - Parameter key: Nil where it is not known. One of pages of another size proves nothing.
    /// - Throws: `PageFormatError`.
    package init(_ header: WALHeader, _ file: RawFile, bytes: Int, _ key: PageKey?) throws {
        (self.header, self.file, self.bytes) = (header, file, bytes)
        let key = key?.settings.pageBytes == header.pageBytes ? key : nil
        self.key = key
        codec = if let key { try PageCodec(keys: PageKeys(key)) } else { nil }
    }

    var knowsKey: Bool { key != nil }

    /// The bytes of page 1 that its code does not cover.
    var clearBytes: Int {
        guard let key, key.settings.plaintextHeaderBytes == 0 else {
            return CipherSettings.plaintextHeader.plaintextHeaderBytes
        }
        return Salt.byteCount
    }

    /// The header of a WAL whose own header is damaged, with the salts of its first authentic frame; nil without one.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    package static func headerOfRun(_ file: RawFile, _ key: PageKey) throws -> WALHeader? {
        guard
            let none = [UInt8](repeating: 0, count: WALFrameHeader.headerBytes).withUnsafeBytes({ WALFrameHeader($0) })
        else { return nil }
        let pageBytes = key.settings.pageBytes
        let unknown = WALHeader(ofFramesWith: none.salts, pageBytes: pageBytes)
        let frames = try WALFrames(unknown, file, bytes: file.byteCount, key)
        guard let first = try frames.firstAuthentic(from: 1, limit: .max) else { return nil }
        return try frames.frameHeader(first).map { WALHeader(ofFramesWith: $0.salts, pageBytes: pageBytes) }
    }

    // MARK: Reading

    /// The header of a frame that is there as a whole.
    package func frameHeader(_ frame: UInt32) throws -> WALFrameHeader? {
        guard header.frameOffset(frame) + header.frameStrideBytes <= bytes else { return nil }
        let found = try file.bytes(at: header.frameOffset(frame), count: WALFrameHeader.headerBytes)
        return found.withUnsafeBytes { WALFrameHeader($0) }
    }

    /// The header of a frame and its page.
    func stored(_ frame: UInt32) throws -> [UInt8] {
        try file.bytes(at: header.frameOffset(frame), count: header.frameStrideBytes)
    }

    private func page(_ frame: UInt32) throws -> [UInt8] {
        try file.bytes(at: header.pageOffset(ofFrame: frame), count: header.pageBytes)
    }

    /// The frame to read after one. Of the frames in a hole of the file all but the last are left out: they are zeros like
    /// the one before, and a sparse WAL may have millions.
    package func next(after frame: UInt32) throws -> UInt32 {
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

    /// Whether a frame has the salts of this run, or one of the two: a former run has other ones, both of them.
    package func isOfRun(_ found: WALFrameHeader) -> Bool {
        found.salts.first == header.salts.first || found.salts.second == header.salts.second
    }

    // MARK: Proofs

    /// Whether the page of a frame is authentic; nil where the key is not known.
    func isAuthentic(_ frame: UInt32, _ found: WALFrameHeader) throws -> Bool? {
        guard knowsKey else { return nil }
        return try verifies(page(frame), found.pageNumber)
    }

    /// Whether the page of a frame is authentic as one of a number; false where the key is not known.
    package func isAuthentic(_ frame: UInt32, pageNumber: UInt32) throws -> Bool {
        try knowsKey && verifies(page(frame), pageNumber)
    }

    /// Whether the page of a frame is authentic and, for page 1, its clear bytes are those that SQLite wrote, which no
    /// code covers; nil where the key is not known.
    package func isIntact(_ frame: UInt32, _ found: WALFrameHeader) throws -> Bool? {
        guard knowsKey else { return nil }
        let page = try page(frame)
        return try verifies(page, found.pageNumber) && (found.pageNumber != 1 || hasOwnClearBytes(page))
    }

    /// Whether the page of a frame is as SQLite wrote it, under any number up to a limit, or has zeros only.
    ///
    /// - Returns: True if the key is not known: nothing shows a change then.
    func isWrittenPage(_ frame: UInt32) throws -> Bool {
        let page = try page(frame)
        guard knowsKey, !page.allSatisfy({ $0 == 0 }) else { return true }
        let numbers = 1...UInt32(max(1, StoreLimits.triedBytes / header.pageBytes))
        guard let number = numbers.first(where: { verifies(page, $0) }) else { return false }
        return try number != 1 || hasOwnClearBytes(page)
    }

    private func verifies(_ page: [UInt8], _ number: UInt32) -> Bool {
        page.count == header.pageBytes && page.withUnsafeBytes { codec?.verify($0, number: number) ?? false }
    }

    /// Whether the clear bytes of an authentic page 1 are those that SQLite wrote with it.
    ///
    /// With each page 1 SQLite writes the change counter twice, once among the encrypted bytes.
    private func hasOwnClearBytes(_ page: [UInt8]) throws -> Bool {
        guard let key else { return false }
        guard key.settings.plaintextHeaderBytes > 0 else { return page.starts(with: key.salt.bytes) }
        let verdict = DatabaseHeader.examine(page, fileBytes: page.count, settings: key.settings)
        guard case .plaintextHeader(let header) = verdict else { return false }
        return try changeCounter(of: page) == header.changeCounter
    }

    /// The change counter of an authentic page 1, from its encrypted bytes.
    func changeCounter(of page: [UInt8]) throws -> UInt32? {
        var plain = [UInt8](repeating: 0, count: page.count)
        try page.withUnsafeBytes { page in
            try plain.withUnsafeMutableBytes { plain in _ = try codec?.decrypt(page, number: 1, into: plain) }
        }
        let field = plain.dropFirst(DatabaseHeader.Offset.versionValidFor).prefix(4)
        return field.count == 4 ? field.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } : nil
    }

    /// The change counter of page 1 in a frame; nil where it is not authentic.
    func changeCounter(of frame: UInt32) throws -> UInt32? {
        let page = try page(frame)
        return verifies(page, 1) ? try changeCounter(of: page) : nil
    }

    /// The change counter of page 1 of a database file; nil where it is not authentic.
    func changeCounter(ofFile path: String) throws -> UInt32? {
        guard try Files.kind(path) == .regular else { return nil }
        let page = try RawFile(path).bytes(at: 0, count: header.pageBytes)
        return verifies(page, 1) ? try changeCounter(of: page) : nil
    }

    /// Whether somebody without the key changed the clear bytes of an authentic page 1: they are not such as SQLite writes,
    /// or the database file has the same ciphertext with others. Each page that is written has a ciphertext of its own.
    func hasChangedHeader(_ frame: UInt32, ofFile path: String) throws -> Bool {
        let page = try page(frame)
        guard verifies(page, 1) else { return false }
        guard try hasOwnClearBytes(page) else { return true }
        guard try Files.kind(path) == .regular else { return false }
        let inFile = try RawFile(path).bytes(at: 0, count: header.pageBytes)
        return try inFile != page && inFile.dropFirst(clearBytes) == page.dropFirst(clearBytes)
            && hasOwnClearBytes(inFile)
    }

    /// The number of pages that page 1 in a frame counts; nil where it counts none that anybody can read.
    func countedPages(of frame: UInt32) throws -> UInt32? { DatabaseHeader(try page(frame))?.pageCount }

    /// The first authentic frame, of at most `limit` frames.
    func firstAuthentic(from first: UInt32, limit: UInt32) throws -> UInt32? {
        var (frame, left) = (first, limit)
        while left > 0, let found = try frameHeader(frame) {
            if try isAuthentic(frame, found) == true { return frame }
            frame = try next(after: frame)
            left -= 1
        }
        return nil
    }

    /// Whether a frame of this run, from one on, has an authentic page.
    func hasAuthenticFrame(from first: UInt32) throws -> Bool {
        var frame = first
        while let found = try frameHeader(frame) {
            if try isAuthentic(frame, found) == true {
                // All frames after one of a former run are of former runs too.
                return isOfRun(found)
            }
            frame = try next(after: frame)
        }
        return false
    }

    /// Whether the last authentic frame of a page in this run differs from the page in the database file.
    func hasOtherPages(than path: String) throws -> Bool {
        var last: [UInt32: UInt32] = [:]
        var frame: UInt32 = 1
        while let found = try frameHeader(frame) {
            if try isAuthentic(frame, found) == true {
                guard isOfRun(found) else { break }
                last[found.pageNumber] = frame
            }
            frame = try next(after: frame)
        }
        guard try Files.kind(path) == .regular else { return !last.isEmpty }
        let database = try RawFile(path)
        return try last.contains { number, frame in
            try database.bytes(
                at: PageLayout.offset(ofPage: number, pageBytes: header.pageBytes), count: header.pageBytes)
                != page(frame)
        }
    }

    /// Whether the checksum of a frame continues that of the frame before it.
    package func follows(_ frame: UInt32, _ before: WALChecksum) throws -> Bool {
        let bytes = try stored(frame)
        guard bytes.count == header.frameStrideBytes else { return false }
        var checksum = before
        return bytes.withUnsafeBytes { bytes in
            checksum.add(frame: bytes, bigEndian: header.checksumsAreBigEndian)
            return WALFrameHeader(bytes)?.checksum == checksum
        }
    }
}
