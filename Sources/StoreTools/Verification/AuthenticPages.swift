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
        package let frame: UInt32
        /// Whether the newest image is not authentic, so that this one is older.
        package let isOlder: Bool
    }

    /// Pages of file and WAL: those that can be read at all.
    package let pageCount: UInt32
    /// Pages that the database should have, as far as WAL and header say so.
    let claimedPageCount: UInt32
    /// The difference between the page counts of WAL and header, if the pages that are there settled it; nil for none.
    let settledFault: WALContent.LengthFault?
    /// Bytes of a page that SQLite uses for itself.
    package let usableBytes: Int
    package let layout: PageLayout
    /// Pages that page 1 counts, or the last commit in the WAL; nil where neither says so.
    private let countedPages: UInt32?
    private let file: RawFile
    private let log: RawFile?
    /// The frame of each page that counts.
    private let frames: LogFrames?
    private var codec: PageCodec
    private var buffer: [UInt8]

    /// - Parameters:
    ///   - moment: The moment whose pages are read, while a transaction keeps it; nil for the last commit.
    ///   - readsPastDamage: Whether frames after a damaged one of the WAL count, which SQLite ignores; and pages after the
    ///     last one that the last commit counts, where page 1 counts others.
    /// - Throws: `SystemError`, `PageFormatError`.
    package init(
        path: String, file: RawFile, key: PageKey, at moment: CommitPosition? = nil, readsPastDamage: Bool = false
    ) throws {
        self.file = file
        var codec = try PageCodec(keys: PageKeys(key))
        layout = codec.layout
        // The WAL may be reset, and its frames replaced, while the file has everything.
        let log = moment?.isInFile == true ? nil : try Self.openLog(of: path)
        var frames = try log.flatMap { try LogFrames($0, &codec, at: moment, readsPastDamage: readsPastDamage) }
        let length = DatabaseLength(fileBytes: try file.byteCount, pageBytes: layout.pageBytes)
        let inFile = UInt32(clamping: length.wholePages)
        settledFault = try readsPastDamage ? frames?.settleCount(log, file, &codec, inFile: inFile) : nil
        (self.log, self.frames) = (frames == nil ? nil : log, frames)
        self.codec = codec
        let header = DatabaseHeader(try file.bytes(at: 0, count: DatabaseHeader.headerBytes))
        let inLog = frames?.last.keys.max() ?? 0
        let byLog = frames?.databasePages ?? 0
        // After a commit that removed pages the file is longer until a checkpoint truncates it.
        pageCount = byLog > 0 ? max(min(inFile, byLog), inLog) : inFile
        countedPages = byLog > 0 ? byLog : header?.pageCount
        claimedPageCount = max(countedPages ?? 0, pageCount)
        // Byte 20 is not authenticated, and no reserve is smaller than what the page's own code needs.
        let reserved = header.map(\.reservedBytes) ?? layout.reservedBytes
        let isPlausible = layout.hasPlaintextHeader && (layout.reservedBytes...80).contains(reserved)
        usableBytes = layout.pageBytes - (isPlausible ? reserved : layout.reservedBytes)
        buffer = [UInt8](repeating: 0, count: layout.pageBytes)
    }

    private static func openLog(of path: String) throws -> RawFile? {
        let wal = StorePaths(path).wal
        guard BackupBundle(holding: path) == nil, try Files.kind(wal) == .regular, try Files.byteCount(wal) ?? 0 > 0
        else { return nil }
        return try RawFile(wal: wal)
    }

    /// The pages whose newest image is in the WAL.
    package var pagesInLog: Set<UInt32> { Set((frames?.last ?? [:]).keys) }

    /// Frames of the WAL that are damaged, and after which others count.
    var passedFrames: [UInt32] { frames?.passed ?? [] }

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
        let offset = (Int(number) - 1) * layout.pageBytes
        guard try readAuthentic(number, { try file.read(at: offset, into: $0) }) else { return nil }
        let isOlder = frame != nil || frames?.isPassed(number, after: 0) == true
        return (try decrypted(number), Origin(frame: 0, isOlder: isOlder))
    }

    /// Whether a page has zeros only, in the file, and the WAL has no image of the page.
    ///
    /// - Throws: `SystemError`.
    func isZero(_ number: UInt32) throws -> Bool {
        guard frames?.last[number] == nil else { return false }
        let bytes = try file.bytes(at: (Int(number) - 1) * layout.pageBytes, count: layout.pageBytes)
        return bytes.allSatisfy { $0 == 0 }
    }

    /// Whether a page of zeros follows the pages that the database counts, as where the file was allocated in advance.
    ///
    /// - Throws: `SystemError`.
    func isUnusedTail(_ number: UInt32) throws -> Bool {
        guard let countedPages, countedPages > 0, number > countedPages else { return false }
        return try isZero(number)
    }

    /// Whether frames after a damaged one of the WAL count.
    var hasReadPastDamage: Bool { frames?.passed.isEmpty == false }

    /// Whether it is certain that images were pages of the database at one moment.
    ///
    /// Images of the main file were: the last checkpoint wrote them. The newest images of all are those of the last
    /// commit. An image that is older than a damaged frame is known to be neither, beside one that the WAL replaced.
    func areOfOneMoment(_ origins: [Origin]) -> Bool {
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

/// The last committed frame of each page in a WAL.
private struct LogFrames {
    let header: WALHeader
    private(set) var last: [UInt32: UInt32]
    private(set) var databasePages: UInt32
    /// The same as `last`, with pages that the last commit does not count.
    private var all: [UInt32: UInt32] = [:]
    /// The frame that ends the last commit.
    private var lastCommit: UInt32
    /// Damaged frames before others that count, and the last of them for each page.
    private(set) var passed: [UInt32] = []
    private var lastPassed: [UInt32: UInt32] = [:]
    /// Those of them of which the page is not known.
    private var unknown: [UInt32] = []

    /// - Returns: Nil when the WAL contains nothing that counts.
    init?(_ log: RawFile, _ codec: inout PageCodec, at moment: CommitPosition?, readsPastDamage: Bool) throws {
        let scan = try WALScan.scan(log, at: moment)
        guard let scan, scan.header.pageBytes == codec.layout.pageBytes else { return nil }
        header = scan.header
        last = scan.lastFrames
        databasePages = scan.databasePages
        lastCommit = scan.committedFrames
        for (index, page) in scan.pageNumbers.enumerated() { all[page] = UInt32(index + 1) }
        if readsPastDamage { try readOn(log, &codec, after: scan.committedFrames) }
        if databasePages == 0 { return nil }
    }

    private func offset(of frame: UInt32) -> Int { header.pageOffset(ofFrame: frame) - WALFrameHeader.headerBytes }

    /// Whether a damaged frame of a page came after a frame.
    func isPassed(_ page: UInt32, after frame: UInt32) -> Bool { lastPassed[page].map { $0 > frame } ?? false }

    /// Whether a damaged frame of which the page is not known lies between two others.
    func isUnknown(between first: UInt32, _ last: UInt32) -> Bool { unknown.contains { first < $0 && $0 < last } }

    /// Reads the frames after the last that SQLite counts. They count when the WAL is damaged there: when a frame of its
    /// own run is not authentic. An authentic frame of another run ends it: what follows is older.
    private mutating func readOn(_ log: RawFile, _ codec: inout PageCodec, after committed: UInt32) throws {
        var waiting: [(page: UInt32, frame: UInt32)] = []
        var frame = committed + 1
        var bytes = [UInt8](repeating: 0, count: header.frameStrideBytes)
        while try bytes.withUnsafeMutableBytes({ try log.read(at: offset(of: frame), into: $0) }) == bytes.count {
            let (found, isAuthentic) = bytes.withUnsafeBytes { all -> (WALFrameHeader?, Bool) in
                let page = UnsafeRawBufferPointer(rebasing: all[WALFrameHeader.headerBytes...])
                let found = WALFrameHeader(all)
                return (found, codec.verify(page, number: found?.pageNumber ?? 0))
            }
            guard let found else { return }
            let isOwn = found.salts == header.salts
            if isAuthentic, !isOwn { break }
            if isAuthentic {
                waiting.append((found.pageNumber, frame))
            } else {
                passed.append(frame)
                if isOwn { lastPassed[found.pageNumber] = frame } else { unknown.append(frame) }
            }
            if isOwn, found.endsTransaction, !passed.isEmpty {
                for (page, frame) in waiting { (last[page], all[page]) = (frame, frame) }
                lastCommit = frame
                waiting = []
                databasePages = found.databasePages
            }
            frame += 1
        }
        // A frame without a following commit never happened.
        last = last.filter { $0.key <= databasePages }
    }

    // MARK: Page counts

    /// Corrects the count of the last commit where it is not that of page 1, or where page 1 is lost and the commit has
    /// pages after it. No key protects either count: of two that differ, the one counts to which the pages reach that
    /// are there.
    ///
    /// - Parameter inFile: Whole pages of the file.
    /// - Returns: The fault; nil where nothing was corrected.
    mutating func settleCount(
        _ log: RawFile?, _ file: RawFile, _ codec: inout PageCodec, inFile: UInt32
    ) throws -> WALContent.LengthFault? {
        guard let log else { return nil }
        let byHeader = try pagesByHeader(log, file, &codec)
        let written = try highestPageOfLastCommit(log, &codec)
        guard byHeader.map({ $0 != databasePages }) ?? (written > databasePages) else { return nil }
        let fault = WALContent.LengthFault.counts(log: Int(databasePages), header: Int(byHeader ?? written))
        let counts = [databasePages, byHeader ?? written, written]
        let most = counts.max() ?? databasePages
        let there = max(min(inFile, most), all.keys.filter { $0 <= most }.max() ?? 0)
        databasePages = counts.filter { $0 >= there }.min() ?? there
        last = all.filter { $0.key <= databasePages }
        return fault
    }

    /// The pages that page 1 counts; nil where its newest image is not authentic.
    private func pagesByHeader(_ log: RawFile, _ file: RawFile, _ codec: inout PageCodec) throws -> UInt32? {
        let frame = last[1]
        guard !isPassed(1, after: frame ?? 0) else { return nil }
        let page =
            try frame.map { try log.bytes(at: header.pageOffset(ofFrame: $0), count: header.pageBytes) }
            ?? file.bytes(at: 0, count: header.pageBytes)
        guard page.count == header.pageBytes, page.withUnsafeBytes({ codec.verify($0, number: 1) }) else { return nil }
        return DatabaseHeader(page)?.pageCount
    }

    /// The highest page of the last commit that is authentic: SQLite writes no page with a commit that removes it.
    private func highestPageOfLastCommit(_ log: RawFile, _ codec: inout PageCodec) throws -> UInt32 {
        var (highest, frame) = (UInt32(0), lastCommit)
        while frame > 0 {
            let bytes = try log.bytes(at: offset(of: frame), count: header.frameStrideBytes)
            guard let found = bytes.withUnsafeBytes({ WALFrameHeader($0) }),
                frame == lastCommit || !found.endsTransaction
            else { break }
            let page = bytes[WALFrameHeader.headerBytes...]
            if found.pageNumber > highest, page.withUnsafeBytes({ codec.verify($0, number: found.pageNumber) }) {
                highest = found.pageNumber
            }
            frame -= 1
        }
        return highest
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
    package mutating func insert(_ page: UInt32) -> Bool {
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
