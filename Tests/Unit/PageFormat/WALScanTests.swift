@testable import PageFormat
import Testing

@Suite("Walking a WAL")
struct WALScanTests {
    /// Two commits (pages 1, 2, 3 and then 2), and two frames of a transaction that never ended.
    private func log(bigEndian: Bool = false, pageBytes: Int = 512) -> [UInt8] {
        var builder = WALBuilder(pageBytes: pageBytes, bigEndian: bigEndian)
        builder.addFrame(page: 1, commit: 0, fill: 1)
        builder.addFrame(page: 2, commit: 0, fill: 2)
        builder.addFrame(page: 3, commit: 3, fill: 3)
        builder.addFrame(page: 2, commit: 3, fill: 4)
        builder.addFrame(page: 1, commit: 0, fill: 5)
        builder.addFrame(page: 9, commit: 0, fill: 6)
        return builder.bytes
    }

    @Test("commits are found in either byte order", arguments: [false, true], [512, 4096, 65_536])
    func findsCommits(bigEndian: Bool, pageBytes: Int) throws {
        let scan = try #require(try WALScan.scan(log(bigEndian: bigEndian, pageBytes: pageBytes)))
        #expect(scan.header.checksumsAreBigEndian == bigEndian)
        #expect(scan.header.pageBytes == pageBytes)
        #expect(scan.header.checkpointSequence == 7)
        #expect(scan.committedFrames == 4)
        #expect(scan.uncommittedFrames == 2)
        #expect(scan.databasePages == 3)
        #expect(scan.pageNumbers == [1, 2, 3, 2])
        #expect(scan.lastFrames == [1: 1, 2: 4, 3: 3])
        #expect(scan.pageOffset(ofFrame: 4) == 32 + 3 * (24 + pageBytes) + 24)
    }

    @Test("a changed bit ends the walk at the last commit before it")
    func stopsAtDamage() throws {
        let log = log()
        let stride = 24 + 512
        for offset in 32..<log.count {
            let scan = try #require(try WALScan.scan(log.flipping(offset, by: 1)))
            let sound = (offset - 32) / stride
            #expect(scan.committedFrames == (sound >= 4 ? 4 : sound >= 3 ? 3 : 0), "offset \(offset)")
            #expect(scan.uncommittedFrames == UInt32(sound) - scan.committedFrames)
        }
    }

    @Test("a changed bit in the header makes the log empty", arguments: 0..<32)
    func refusesDamagedHeaders(offset: Int) throws {
        #expect(try WALScan.scan(log().flipping(offset, by: 1)) == nil)
    }

    @Test("a log cut anywhere gives the commits that are whole")
    func walksCutLogs() throws {
        let log = log()
        for length in 0..<log.count {
            let scan = try WALScan.scan(Array(log[..<length]))
            if length < 32 {
                #expect(scan == nil)
                continue
            }
            let whole = (length - 32) / (24 + 512)
            #expect(scan?.committedFrames == (whole >= 4 ? 4 : whole >= 3 ? 3 : 0))
        }
    }

    @Test("frames of an earlier run of the log are not part of it")
    func stopsAtForeignSalts() throws {
        var present = WALBuilder(salts: (5, 6))
        present.addFrame(page: 1, commit: 1, fill: 9)
        let stale = log()
        let restarted = present.bytes + stale[present.bytes.count...]
        for checking in [WALScan.Checking.checksums, .saltsOnly] {
            let scan = try #require(try WALScan.scan(restarted, checking: checking))
            #expect(scan.committedFrames == 1)
            #expect(scan.pageNumbers == [1])
        }
    }

    @Test("a walk bounded by mxFrame ignores a commit behind it", arguments: 0...6 as ClosedRange<UInt32>)
    func obeysTheMaximum(maximum: UInt32) throws {
        let scan = try #require(try WALScan.scan(log(), maximumFrame: maximum))
        #expect(scan.committedFrames == (maximum >= 4 ? 4 : maximum == 3 ? 3 : 0))
    }

    @Test("checking salts only reads frame headers and finds the same commits in a sound log")
    func checksSaltsOnly() throws {
        let log = log(pageBytes: 4096)
        var bytesRead = 0
        let scan = try WALScan.scan(
            fileBytes: log.count, checking: .saltsOnly,
            read: { offset, buffer in
                bytesRead += buffer.count
                return log.read(offset, buffer)
            })
        #expect(scan?.committedFrames == 4)
        #expect(scan?.lastFrames == [1: 1, 2: 4, 3: 3])
        #expect(bytesRead == 32 + 6 * 24)
        let damaged = try WALScan.scan(log.flipping(32 + 24, by: 1), checking: .saltsOnly)
        #expect(damaged?.committedFrames == 4)
    }

    @Test("pages beyond the end of a database that shrank are not reported")
    func dropsTruncatedPages() throws {
        var builder = WALBuilder()
        builder.addFrame(page: 1, commit: 0, fill: 1)
        builder.addFrame(page: 8, commit: 8, fill: 2)
        builder.addFrame(page: 1, commit: 2, fill: 3)
        let scan = try #require(try WALScan.scan(builder.bytes))
        #expect(scan.lastFrames == [1: 3])
        #expect(scan.pageNumbers == [1, 8, 1])
    }

    @Test("committed frames are visited in order, and a visitor that throws ends the walk")
    func visitsFrames() throws {
        struct Stop: Error {}
        let log = log()
        var seen: [[UInt32]] = []
        _ = try WALScan.scan(fileBytes: log.count, read: log.read) { frame, header in
            seen.append([frame, header.pageNumber, header.databasePages])
        }
        #expect(seen == [[1, 1, 0], [2, 2, 0], [3, 3, 3], [4, 2, 3]])
        #expect(throws: Stop.self) {
            _ = try WALScan.scan(fileBytes: log.count, read: log.read) { _, _ in throw Stop() }
        }
    }

    @Test("page 0, other magics, versions and page sizes are refused")
    func refusesOddLogs() throws {
        var zeroPage = WALBuilder()
        zeroPage.addFrame(page: 0, commit: 1, fill: 1)
        #expect(try WALScan.scan(zeroPage.bytes)?.committedFrames == 0)
        #expect(try WALScan.scan(WALBuilder(magic: 0x377f_0684).bytes) == nil)
        #expect(try WALScan.scan(WALBuilder(version: 3_007_001).bytes) == nil)
        for pageBytes in [0, 256, 513, 131_072] {
            #expect(try WALScan.scan(WALBuilder(pageBytes: pageBytes).bytes) == nil)
        }
    }

    @Test("random logs and readers that give too little are survived")
    func survivesNoise() throws {
        var generator = SeededGenerator("random logs")
        let sound = log()
        for _ in 0..<3000 {
            var bytes = sound
            for _ in 0..<Int.random(in: 0...4, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            bytes = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &generator)))
            let claimed = bytes.count + Int.random(in: 0...5000, using: &generator)
            let shortfall = Int.random(in: 0...10, using: &generator)
            let scan = try WALScan.scan(fileBytes: claimed) { offset, buffer in
                bytes.read(offset, buffer) - shortfall
            }
            #expect((scan?.committedFrames ?? 0) <= 4)
        }
    }
}
