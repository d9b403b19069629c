import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Authenticates every page of a database and every committed frame of its WAL, below SQLite.
///
/// The store may be in use: a page that fails is read again for a while before it is reported (a checkpoint may be
/// writing it).
package struct StoreScan {
    let path: String
    let file: RawFile
    let key: PageKey
    let run: ToolRun
    /// Sees what is read; nil for none.
    let inspector: (any PageInspector)?

    package init(path: String, file: RawFile, key: PageKey, run: ToolRun, inspector: (any PageInspector)? = nil) {
        self.path = path
        self.file = file
        self.key = key
        self.run = run
        self.inspector = inspector
    }

    package struct Report: Sendable {
        /// Pages of the main file that were read and checked.
        package internal(set) var pagesChecked = 0
        /// Pages that are not authentic.
        package internal(set) var damagedPages = PageRanges()
        /// The same, but the WAL contains a valid image, which replaces it: a checkpoint may have been interrupted
        /// there.
        package internal(set) var supersededPages = PageRanges()
        /// Pages that belong to the database and are neither in the file nor in the WAL.
        package internal(set) var missingPages = PageRanges()
        /// Pages of zeros: never written, or wiped.
        package internal(set) var zeroPages = PageRanges()
        /// Those of them that were wiped: of all pages only a leaf of the list of free pages may never have been written.
        package internal(set) var wipedPages = PageRanges()
        /// The free pages, of the same moment.
        package internal(set) var freeList = FreeList()
        package internal(set) var framesChecked = 0
        /// Committed frames whose page is not authentic.
        package internal(set) var damagedFrames: [DamagedFrame] = []
        /// Pages of which the WAL has a committed image.
        package internal(set) var pagesInWAL: Set<UInt32> = []
        /// Pages of the database at the last commit in the WAL; 0 when it has none.
        var pagesByWAL = 0
        var fileBytes = 0
        var checkedBytes = 0
        var duration = Duration.zero

        /// Whether nothing is damaged, missing or wiped.
        package var isClean: Bool {
            damagedPages.isEmpty && missingPages.isEmpty && wipedPages.isEmpty && damagedFrames.isEmpty
        }
    }

    /// - Parameters:
    ///   - pageCount: The number of pages according to SQLite; nil when it cannot open the file.
    ///   - moment: The moment that a transaction keeps, which is that of `pageCount`; nil for the last commit.
    /// - Throws: `SystemError`, `PageFormatError`, `CancellationError`.
    package func authenticate(pageCount: Int?, at moment: CommitPosition? = nil) throws -> Report {
        let started = ContinuousClock.now
        let keys = try PageKeys(key)
        var report = Report()
        report.fileBytes = try file.byteCount
        let inWAL = try checkWAL(keys, moment, &report)
        try checkPages(keys, pageCount ?? pagesByFile(report), inWAL: inWAL, &report)
        report.freeList = try FreeList(pages(at: moment))
        let unwritten = Set(report.freeList.leaves)
        report.wipedPages = PageRanges(report.zeroPages.ranges.joined().filter { !unwritten.contains($0) })
        report.checkedBytes = (report.pagesChecked + report.framesChecked) * key.settings.pageBytes
        report.duration = ContinuousClock.now - started
        return report
    }

    /// The pages, decrypted.
    ///
    /// - Throws: `SystemError`, `PageFormatError`.
    func pages(at moment: CommitPosition?) throws -> AuthenticPages {
        try AuthenticPages(path: path, file: file, key: key, at: moment)
    }

    private var pageInspection: PageScan.Inspector? {
        guard let inspector else { return nil }
        return { _, number, bytes, isAuthentic in inspector.see(page: number, bytes, isAuthentic: isAuthentic) }
    }

    private var frameInspection: PageScan.Inspector? {
        guard let inspector else { return nil }
        return { frame, number, bytes, isAuthentic in
            inspector.see(frame: frame, ofPage: number, bytes, isAuthentic: isAuthentic)
        }
    }

    private var workers: Int { ProcessInfo.processInfo.activeProcessorCount }

    private func length(_ report: Report) -> DatabaseLength {
        DatabaseLength(fileBytes: report.fileBytes, pageBytes: key.settings.pageBytes)
    }

    /// The number of pages according to file and WAL.
    private func pagesByFile(_ report: Report) throws -> Int {
        let inFile = length(report).wholePages
        if report.pagesByWAL > 0 { return max(inFile, report.pagesByWAL) }
        let header = DatabaseHeader(try file.bytes(at: 0, count: DatabaseHeader.headerBytes))
        return max(inFile, Int(header?.pageCount ?? 0))
    }

    // MARK: Main file

    private func checkPages(
        _ keys: borrowing PageKeys, _ count: Int, inWAL: Set<UInt32>, _ report: inout Report
    ) throws {
        let count = UInt32(clamping: count)
        // Nothing is read after the end of the file: a wrong header can claim billions of pages.
        let readable = min(count, UInt32(clamping: length(report).startedPages))
        inspector?.beginPages(Int(readable), inWAL: inWAL)
        let inspect = pageInspection
        let scan = try PageScan.verifyPages(
            keys: keys, pageCount: readable, workers: workers,
            read: { [file] in try file.read(at: $0, into: $1) },
            inspect: inspect,
            progress: { [run] in run.report(ToolProgress(.authenticatingPages, done: $0, total: Int(readable))) },
            isCancelled: { [run] in run.isCancelled })
        try run.check()
        report.pagesChecked = scan.checked
        report.zeroPages = PageRanges(scan.zero.filter { !inWAL.contains($0) })
        report.missingPages = PageRanges(scan.missing.filter { !inWAL.contains($0) })
        if readable < count { report.missingPages.append(readable + 1...count, without: inWAL) }
        let damaged = try confirm(scan.damaged, keys)
        report.damagedPages = PageRanges(damaged.filter { !inWAL.contains($0) })
        report.supersededPages = PageRanges(damaged.filter { inWAL.contains($0) })
    }

    /// The pages that fail repeatedly.
    private func confirm(_ pages: [UInt32], _ keys: borrowing PageKeys) throws -> [UInt32] {
        var failing = pages
        var codec = try PageCodec(keys: keys)
        let pageBytes = key.settings.pageBytes
        var polling = Polling.untilSettled()
        while !failing.isEmpty, polling.sleep() {
            failing = try failing.filter { number in
                let page = try file.bytes(
                    at: PageLayout.offset(ofPage: number, pageBytes: pageBytes), count: pageBytes)
                return !page.withUnsafeBytes { codec.verify($0, number: number) }
            }
        }
        return failing
    }

    // MARK: WAL

    /// - Returns: The pages of which the WAL contains a valid image.
    private func checkWAL(
        _ keys: borrowing PageKeys, _ moment: CommitPosition?, _ report: inout Report
    ) throws -> Set<UInt32> {
        var polling = Polling.untilSettled()
        while true {
            let pages = try checkWALOnce(keys, moment, &report)
            // A WAL that is reset while it is read returns frames of two runs.
            if report.damagedFrames.isEmpty || !polling.sleep() { return pages }
        }
    }

    private func checkWALOnce(
        _ keys: borrowing PageKeys, _ moment: CommitPosition?, _ report: inout Report
    ) throws -> Set<UInt32> {
        report.framesChecked = 0
        report.damagedFrames = []
        report.pagesByWAL = 0
        report.pagesInWAL = []
        let wal = StorePaths(path).wal
        // A backup has no WAL: an existing one was written by a program that opened the file as a store.
        if BackupBundle(holding: path) != nil { return [] }
        guard try Files.byteCount(wal) ?? 0 > 0 else { return [] }
        let log = try RawFile(wal: wal)
        let scan = try WALScan.scan(log, at: moment)
        guard let scan, scan.committedFrames > 0, scan.header.pageBytes == key.settings.pageBytes else { return [] }
        inspector?.beginFrames()
        let inspect = frameInspection
        let found = try PageScan.verifyFrames(
            keys: keys, of: scan, workers: workers, read: { try log.read(at: $0, into: $1) },
            inspect: inspect,
            isCancelled: { [run] in run.isCancelled })
        try run.check()
        report.framesChecked = found.checked
        report.damagedFrames = (found.damaged + found.missing).sorted().map {
            DamagedFrame(number: $0, page: scan.pageNumbers[Int($0) - 1])
        }
        report.pagesByWAL = Int(scan.databasePages)
        report.pagesInWAL = Set(scan.lastFrames.keys)
        return report.pagesInWAL
    }
}

/// Sees each page that a scan reads, on the threads of the scan.
package protocol PageInspector: Sendable {
    /// The frames of the WAL are read: again when it changed meanwhile, and what was seen of it before does not count.
    func beginFrames()
    func see(frame: UInt32, ofPage number: UInt32, _ bytes: UnsafeRawBufferPointer, isAuthentic: Bool)
    /// The pages of the main file are read: 1 to `count`. Of those in the WAL, the images in the file do not count.
    func beginPages(_ count: Int, inWAL: Set<UInt32>)
    func see(page number: UInt32, _ bytes: UnsafeRawBufferPointer, isAuthentic: Bool)
}

/// A committed frame of the WAL whose page is not authentic.
public struct DamagedFrame: Hashable, Sendable {
    /// The frame, from 1.
    public let number: UInt32
    /// The number of its page, from 1.
    public let page: UInt32
}

/// Page numbers in ascending order, as ranges: of a truncated store millions may be missing.
public struct PageRanges: Hashable, Sendable {
    /// Ranges that neither overlap nor touch; pages count from 1.
    public private(set) var ranges: [ClosedRange<UInt32>] = []

    package init(_ pages: [UInt32] = []) { for page in pages.sorted() { append(page...page) } }

    /// Whether there is no page.
    public var isEmpty: Bool { ranges.isEmpty }

    /// How many pages there are.
    public var count: Int { ranges.reduce(0) { $0 + $1.count } }

    /// Whether a page is among them.
    public func contains(_ page: UInt32) -> Bool { ranges.contains { $0.contains(page) } }

    /// Appends the pages of a range that is after all others, without those of a set.
    mutating func append(_ range: ClosedRange<UInt32>, without excluded: Set<UInt32>) {
        var first: UInt32? = range.lowerBound
        for page in excluded.filter(range.contains).sorted() {
            if let first, page > first { append(first...(page - 1)) }
            first = page < range.upperBound ? page + 1 : nil
        }
        if let first { append(first...range.upperBound) }
    }

    private mutating func append(_ range: ClosedRange<UInt32>) {
        guard let last = ranges.last, last.upperBound + 1 == range.lowerBound else { return ranges.append(range) }
        ranges[ranges.count - 1] = last.lowerBound...range.upperBound
    }

    /// One line for each range, as in `pages 5 to 9 are missing (bytes 16384 to 36863)`.
    package func lines(_ state: String, pageBytes: Int) -> [String] {
        ranges.map { range in
            let first = PageLayout.offset(ofPage: range.lowerBound, pageBytes: pageBytes)
            let bytes = "bytes \(first) to \(Int(range.upperBound) * pageBytes - 1)"
            return range.count == 1
                ? "page \(range.lowerBound) is \(state) (\(bytes))"
                : "pages \(range.lowerBound) to \(range.upperBound) are \(state) (\(bytes))"
        }
    }
}
