import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The pages of a database, decrypted, below SQLite: each from its last committed frame in the WAL, else from the main
/// file. Only authentic images count.
///
/// It is used by one thread at a time.
package final class AuthenticPages {
    /// Where the image of a page comes from.
    package struct Origin: Hashable, Sendable {
        /// The frame of the WAL; 0 for the main file.
        let frame: UInt32
        /// Whether the newest image is not authentic, so that this one is older.
        let isOlder: Bool
    }

    /// Pages of file and WAL: those that can be read at all.
    let pageCount: UInt32
    /// Pages that the database should have, as far as WAL and header say so.
    let claimedPageCount: UInt32
    /// The difference between the page counts of WAL and header, if the pages that are there settled it; nil for none.
    let settledFault: WALContent.LengthFault?
    /// Bytes of a page that SQLite uses for itself.
    package let usableBytes: Int
    let layout: PageLayout
    /// Pages that page 1 counts, or the last commit in the WAL; nil where neither says so.
    private let countedPages: UInt32?
    /// Nil where only the WAL is there.
    private let file: RawFile?
    private let log: RawFile?
    /// The frame of each page that counts.
    private let frames: WALRuns?
    /// Whether file and WAL may be of different moments, so that no row has pages of both.
    private let isMixed: Bool
    private var codec: PageCodec
    private var buffer: [UInt8]

    /// - Parameters:
    ///   - moment: The moment whose pages are read, while a transaction keeps it; nil for the last commit.
    ///   - readsPastDamage: Whether frames after a damaged one of the WAL count, which SQLite ignores; and pages after the
    ///     last one that the last commit counts, where page 1 counts others.
    /// - Throws: `SystemError`, `PageFormatError`.
    package convenience init(
        path: String, file: RawFile, key: PageKey, at moment: CommitPosition? = nil, readsPastDamage: Bool = false
    ) throws {
        // The WAL may be reset, and its frames replaced, while the file has everything.
        let log = moment?.isInFile == true ? nil : try Self.openWAL(of: path)
        try self.init(file: file, log: log, key: key, at: moment, readsPastDamage: readsPastDamage)
    }

    /// - Parameters:
    ///   - file: Nil where only the WAL is there.
    ///   - log: The WAL; nil for none.
    ///   - isMixed: Whether file and WAL may be of different moments.
    ///   - trustsCount: Whether the pages of the file after the last one that the WAL counts are no pages of the database.
    /// - Throws: `SystemError`, `PageFormatError`.
    init(
        file: RawFile?, log: RawFile?, key: PageKey, at moment: CommitPosition? = nil, readsPastDamage: Bool,
        isMixed: Bool = false, trustsCount: Bool = true
    ) throws {
        self.file = file
        self.isMixed = isMixed
        var codec = try PageCodec(keys: PageKeys(key))
        layout = codec.layout
        var frames = try log.flatMap { try WALRuns($0, key, at: moment, readsPastDamage: readsPastDamage) }
        let length = DatabaseLength(fileBytes: try file?.byteCount ?? 0, pageBytes: layout.pageBytes)
        let inFile = UInt32(clamping: length.wholePages)
        settledFault = try readsPastDamage ? frames?.settleCount(log, file, &codec, inFile: inFile) : nil
        (self.log, self.frames) = (frames == nil ? nil : log, frames)
        self.codec = codec
        let header = DatabaseHeader(try file?.bytes(at: 0, count: DatabaseHeader.headerBytes) ?? [])
        let inWAL = try frames?.highestPage(log, &self.codec, inFile: inFile) ?? 0
        let byLog = frames?.databasePages ?? 0
        // After a commit that removed pages the file is longer until a checkpoint truncates it.
        pageCount = byLog > 0 && trustsCount ? max(min(inFile, byLog), inWAL) : max(inFile, inWAL)
        countedPages = byLog > 0 ? byLog : header?.pageCount
        claimedPageCount = max(countedPages ?? 0, pageCount)
        // Byte 20 is not authenticated, and no reserve is smaller than what the page's own code needs.
        let reserved = header.map(\.reservedBytes) ?? layout.reservedBytes
        let isPlausible = layout.hasPlaintextHeader && (layout.reservedBytes...80).contains(reserved)
        usableBytes = layout.pageBytes - (isPlausible ? reserved : layout.reservedBytes)
        buffer = [UInt8](repeating: 0, count: layout.pageBytes)
    }

    static func openWAL(of path: String) throws -> RawFile? {
        let wal = StorePaths(path).wal
        guard BackupBundle(holding: path) == nil, try Files.kind(wal) == .regular, try Files.byteCount(wal) ?? 0 > 0
        else { return nil }
        return try RawFile(wal: wal)
    }

    /// A page as SQLite sees it; nil when no image of it is authentic.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    package func page(_ number: UInt32) throws -> (bytes: [UInt8], origin: Origin)? {
        guard number > 0, number <= pageCount, number != layout.lockBytePage else { return nil }
        let frame = frames?.last[number]
        if let frame, let log, let header = frames?.header,
            try readAuthentic(number, { try log.read(at: header.pageOffset(ofFrame: frame), into: $0) })
        {
            let isOlder = frames?.isPassed(number, after: frame) ?? false
            return (try decrypted(number), Origin(frame: frame, isOlder: isOlder))
        }
        let offset = PageLayout.offset(ofPage: number, pageBytes: layout.pageBytes)
        guard let file, try readAuthentic(number, { try file.read(at: offset, into: $0) }) else { return nil }
        let isOlder = frame != nil || frames?.isPassed(number, after: 0) == true
        return (try decrypted(number), Origin(frame: 0, isOlder: isOlder))
    }

    /// Whether a page has zeros only, in the file, and the WAL has no image of the page.
    ///
    /// - Throws: `SystemError`.
    func isZero(_ number: UInt32) throws -> Bool {
        guard let file, frames?.last[number] == nil else { return false }
        let bytes = try file.bytes(
            at: PageLayout.offset(ofPage: number, pageBytes: layout.pageBytes), count: layout.pageBytes)
        return bytes.allSatisfy { $0 == 0 }
    }

    /// Whether a page of zeros follows the pages that the database counts, as where the file was allocated in advance.
    ///
    /// - Throws: `SystemError`.
    func isUnusedTail(_ number: UInt32) throws -> Bool {
        guard let countedPages, countedPages > 0, number > countedPages else { return false }
        return try isZero(number)
    }

    /// The frames that were read behind the damage of a WAL; nil where none were.
    var readingPastDamage: PassedDamage? { frames?.passedDamage }

    /// Whether it is certain that images were pages of the database at one moment.
    ///
    /// Images of the main file were: the last checkpoint wrote them. The newest images of all are those of the last
    /// commit. An image that is older than a damaged frame is known to be neither, beside one that the WAL replaced.
    func areOfOneMoment(_ origins: [Origin]) -> Bool {
        if isMixed, origins.contains(where: { $0.frame > 0 }), origins.contains(where: { $0.frame == 0 }) {
            return false
        }
        // A page that the WAL does not have is the same at every moment.
        let changed = origins.filter { $0.frame > 0 || $0.isOlder }
        if changed.count > 1, changed.contains(where: \.isOlder), changed.contains(where: { $0.frame > 0 }) {
            return false
        }
        let numbers = origins.map(\.frame)
        guard let first = numbers.min(), let last = numbers.max() else { return true }
        return frames?.isUnknown(between: first, last) != true
    }

    private func readAuthentic(
        _ number: UInt32, _ read: (UnsafeMutableRawBufferPointer) throws -> Int
    ) throws -> Bool {
        let count = try buffer.withUnsafeMutableBytes { try read($0) }
        guard count == buffer.count else { return false }
        return buffer.withUnsafeBytes { codec.verify($0, number: number) }
    }

    private func decrypted(_ number: UInt32) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: buffer.count) { plain, count in
            try buffer.withUnsafeBytes {
                try codec.decrypt($0, number: number, into: UnsafeMutableRawBufferPointer(plain))
            }
            count = plain.count
        }
    }
}

extension WALScan {
    /// Walks a WAL up to a moment, or where that is nil, to its last commit.
    ///
    /// - Returns: Nil when it contains nothing that the moment needs: after a reset all of that is in the main file.
    /// - Throws: `SystemError`.
    static func scan(_ log: RawFile, at moment: CommitPosition?) throws -> WALScan? {
        let found = try scan(fileBytes: log.byteCount, maximumFrame: moment?.frame) {
            try log.read(at: $0, into: $1)
        }
        guard let found, moment?.isOf(found.header) ?? true else { return nil }
        return found
    }
}

/// A set of pages, with one bit for each page of a database.
package struct PageSet: Sendable {
    private var bits: [UInt64]
    package private(set) var count = 0

    package init(pageCount: UInt32) { bits = [UInt64](repeating: 0, count: Int(pageCount) / 64 + 1) }

    /// - Returns: Whether it was not a member yet.
    @discardableResult
    mutating func insert(_ page: UInt32) -> Bool {
        let (word, bit) = (Int(page) / 64, UInt64(1) << (page % 64))
        guard word < bits.count, bits[word] & bit == 0 else { return false }
        bits[word] |= bit
        count += 1
        return true
    }

    package func contains(_ page: UInt32) -> Bool {
        let word = Int(page) / 64
        return word < bits.count && bits[word] & (UInt64(1) << (page % 64)) != 0
    }
}

extension [UInt8] {
    /// A big-endian number of four bytes; 0 where the bytes end before.
    package func bigEndian(at offset: Int) -> UInt32 {
        guard offset + 4 <= count else { return 0 }
        return self[offset..<offset + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    }
}
