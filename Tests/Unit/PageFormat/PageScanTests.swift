import Dispatch
import PageFormat
import StoreCrypto
import Synchronization
import Testing

@Suite("Scanning all pages")
struct PageScanTests {
    private static let settings = CipherSettings(pageBytes: 1024, plaintextHeaderBytes: 32)

    /// A main file of so many sound pages.
    private func file(pages: UInt32) throws -> [UInt8] {
        var codec = try PageCodec(keys: TestKey.keys(Self.settings))
        var bytes: [UInt8] = []
        for number in 1...pages {
            bytes += try codec.encrypted([UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 1024), number)
        }
        return bytes
    }

    private func scan(
        _ file: [UInt8], pages: UInt32, skipping: Set<UInt32> = [], workers: Int = 2
    ) throws -> PageScan.Report {
        try PageScan.verifyPages(
            keys: TestKey.keys(Self.settings), pageCount: pages, skipping: skipping, workers: workers,
            read: { file.read($0, $1) })
    }

    @Test("a sound file is clean, on any number of threads", arguments: [0, 1, 2, 7])
    func passesSoundFiles(workers: Int) throws {
        let report = try scan(file(pages: 700), pages: 700, workers: workers)
        #expect(report.isClean)
        #expect(report.checked == 700)
    }

    @Test("exactly the changed, zeroed, swapped and missing pages are named")
    func namesBadPages() throws {
        var bytes = try file(pages: 600)
        for number in [1, 299, 512] { bytes[(number - 1) * 1024 + 500] ^= 1 }
        bytes.replaceSubrange(9 * 1024..<10 * 1024, with: [UInt8](repeating: 0, count: 1024))
        let (first, second) = (Array(bytes[20 * 1024..<21 * 1024]), Array(bytes[21 * 1024..<22 * 1024]))
        bytes.replaceSubrange(20 * 1024..<22 * 1024, with: second + first)
        let cut = Array(bytes.dropLast(1024 + 1))
        let report = try scan(cut, pages: 600)
        #expect(report.damaged == [1, 21, 22, 299, 512])
        #expect(report.zero == [10])
        #expect(report.missing == [599, 600])
        #expect(report.checked == 598)
        #expect(!report.isClean)
    }

    @Test("bad pages are named in order, whichever thread is done first")
    func sortsBadPages() throws {
        let othersAreDone = DispatchSemaphore(value: 0)
        // The thread with the first pages goes on when the others have done the rest.
        let report = try PageScan.verifyPages(
            keys: TestKey.keys(Self.settings), pageCount: 1000, workers: 2,
            read: { offset, buffer in
                if offset == 0 { _ = othersAreDone.wait(timeout: .now() + 5) }
                buffer.initializeMemory(as: UInt8.self, repeating: 7)
                return buffer.count
            },
            progress: { done in if done == 1000 - 256 { othersAreDone.signal() } })
        #expect(report.damaged == Array(1...1000))
    }

    @Test("pages that the log supersedes are passed over")
    func skipsPages() throws {
        let bytes = try file(pages: 40).flipping(5 * 1024 + 77)
        #expect(try scan(bytes, pages: 40).damaged == [6])
        let report = try scan(bytes, pages: 40, skipping: [6, 40])
        #expect(report.isClean)
        #expect(report.checked == 38)
    }

    @Test("the page of the lock bytes is passed over")
    func skipsTheLockBytePage() throws {
        let settings = CipherSettings(pageBytes: 65_536, plaintextHeaderBytes: 32)
        let lockPage = try PageLayout(settings).lockBytePage
        // Only the neighbours of the lock byte page are looked at, in a file of nothing but zeros.
        let others = Set(1...lockPage + 1).subtracting([lockPage - 1, lockPage, lockPage + 1])
        let report = try PageScan.verifyPages(
            keys: TestKey.keys(settings), pageCount: lockPage + 1, skipping: others, workers: 2,
            read: { _, buffer in
                buffer.initializeMemory(as: UInt8.self, repeating: 0)
                return buffer.count
            })
        #expect(report.zero == [lockPage - 1, lockPage + 1])
    }

    @Test("every committed frame of a log is verified under its page number")
    func verifiesFrames() throws {
        var codec = try PageCodec(keys: TestKey.keys(Self.settings))
        var log = WALBuilder(pageBytes: 1024)
        for (page, commit) in [(1, 0), (5, 9), (5, 9), (2, 0)] as [(UInt32, UInt32)] {
            log.addFrame(
                page: page, commit: commit, content: try codec.encrypted([UInt8](repeating: 3, count: 1024), page))
        }
        let bytes = log.bytes
        let scan = try #require(try WALScan.scan(bytes))
        func report(_ bytes: [UInt8]) throws -> PageScan.Report {
            try PageScan.verifyFrames(
                keys: TestKey.keys(Self.settings), of: scan, workers: 2, read: { bytes.read($0, $1) })
        }
        #expect(try report(bytes).isClean)
        #expect(try report(bytes).checked == 3)
        #expect(try report(bytes.flipping(scan.pageOffset(ofFrame: 2) + 9)).damaged == [2])
        #expect(throws: PageFormatError.self) {
            _ = try PageScan.verifyFrames(
                keys: TestKey.keys(.plaintextHeader), of: scan, workers: 1, read: { bytes.read($0, $1) })
        }
    }

    @Test("a reader that throws ends the scan with its error")
    func passesErrorsOn() throws {
        struct BadSector: Error {}
        #expect(throws: BadSector.self) {
            _ = try PageScan.verifyPages(
                keys: TestKey.keys(Self.settings), pageCount: 5000, workers: 2,
                read: { offset, buffer in
                    if offset > 1_000_000 { throw BadSector() }
                    return buffer.count
                })
        }
    }

    @Test("progress adds up, and cancelling ends the scan early")
    func reportsProgress() throws {
        let bytes = try file(pages: 700)
        let most = Mutex(0)
        let report = try PageScan.verifyPages(
            keys: TestKey.keys(Self.settings), pageCount: 700, workers: 2, read: { bytes.read($0, $1) },
            progress: { done in most.withLock { $0 = max($0, done) } },
            isCancelled: { false })
        #expect(report.checked == 700)
        #expect(most.withLock { $0 } == 700)
        let cancelled = try PageScan.verifyPages(
            keys: TestKey.keys(Self.settings), pageCount: 700, workers: 2, read: { bytes.read($0, $1) },
            isCancelled: { true })
        #expect(cancelled.wasCancelled && cancelled.checked == 0 && !cancelled.isClean)
    }

    @Test("a file without pages is clean")
    func passesEmptyFiles() throws {
        #expect(try scan([], pages: 0).isClean)
    }
}
