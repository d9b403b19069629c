import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

/// Commits of a WAL without effect, and bytes that only look like them.
@Suite("What a WAL has lost")
struct WALLossTests {
    private let fixture = ToolFixture()
    private static let strideBytes = 24 + 4096

    private func log() throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: fixture.store + "-wal")))
    }

    /// A WAL with several commits, each of more than one frame.
    private func makeLog() throws -> [UInt8] {
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)") }
        try store.checkpoint(.truncate)
        for step in 1...4 { try store.write { try fill($0, step) } }
        let log = try log()
        try store.close()
        return log
    }

    private func fill(_ db: Database, _ step: Int, rows: Int = 200) throws {
        try db.execute(
            sql: """
                WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < \(rows))
                INSERT INTO note SELECT NULL, '\(step)' || hex(randomblob(30)) FROM c
                """)
    }

    private func key() throws -> PageKey {
        let files = SidecarFiles(databasePath: fixture.store)
        return try #require(try files.choose(files.read(), unlock: try UnlockedKey(fixture.source).unlock)).pageKey
    }

    private func loss(_ log: [UInt8], _ key: PageKey?) throws -> WALContent.Loss? {
        try Data(log).write(to: URL(fileURLWithPath: fixture.store + "-wal"))
        return try WALContent(of: fixture.store).loss(of: fixture.store, key)
    }

    private func count(_ log: [UInt8]) -> Int { (log.count - 32) / Self.strideBytes }
    /// The offset of a frame, which counts from 1.
    private func offset(_ frame: Int) -> Int { 32 + (frame - 1) * Self.strideBytes }
    private func commits(_ log: [UInt8]) -> [Int] {
        (1...count(log)).filter { log.bigEndian(at: offset($0) + 4) > 0 }
    }

    /// It was noted as lost: frames that are written a second time in their transaction have no valid checksum before its
    /// end.
    @Test("a transaction that writes its first frames again has lost nothing, while it runs and after its rollback")
    func writtenAgain() throws {
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)") }
        try store.write { try fill($0, 1, rows: 4000) }
        try store.checkpoint(.truncate)
        let key = try key()
        try? store.write { db in
            try db.execute(sql: "PRAGMA cache_size = 10")
            for step in 0..<3 {
                try db.execute(sql: "UPDATE note SET text = text || '\(step)'")
                let content = try WALContent(of: fixture.store)
                #expect(content.bytes > 0 && content.scan != nil)
                #expect(try content.loss(of: fixture.store, key) == nil, "\(step)")
            }
            throw DatabaseError(resultCode: .SQLITE_ABORT)
        }
        #expect(try WALContent(of: fixture.store).loss(of: fixture.store, key) == nil)
        #expect(try WALContent(of: fixture.store).loss(of: fixture.store, nil) == nil)
        try store.close()
    }

    // Story: the holes of a sparse WAL of 20 GB were read for a minute.
    @Test("the holes of a sparse WAL are not read, and what follows a hole is", arguments: [false, true])
    func sparse(hasFrameAtEnd: Bool) throws {
        let log = try makeLog()
        let key = try key()
        let last = Array(log[offset(count(log))...])
        func loss(frames: Int, _ key: PageKey?) throws -> WALContent.Loss? {
            let path = fixture.store + "-wal"
            try Data(log).write(to: URL(fileURLWithPath: path))
            let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
            try file.truncate(atOffset: UInt64(offset(count(log) + frames + 1)))
            if hasFrameAtEnd {
                try file.seekToEnd()
                try file.write(contentsOf: last)
            }
            try file.close()
            return try WALContent(of: fixture.store).loss(of: fixture.store, key)
        }
        for key in [key, nil] {
            let short = try loss(frames: 9, key)
            // An authentic frame behind the hole shows a commit that never happened.
            #expect((short == nil) == hasFrameAtEnd)
            var long: WALContent.Loss?
            let time = try ContinuousClock().measure { long = try loss(frames: 2_000_000, key) }
            #expect(long == short && time < .seconds(10))
        }
    }

    enum Damage: String, CaseIterable, Sendable {
        case countBitOfLast, countOfLast, countOfMiddle, checksumOfLast, saltOfLast, numberOfLast, pageOfLast
        case pagesToEnd, everySecondPage, zerosToEnd, zerosFromWithin, noiseToEnd, countOfFrameInMiddle
    }

    @Test("commits that were damaged are noted, wherever the damage is", arguments: Damage.allCases)
    func damaged(damage: Damage) throws {
        // Story: a flipped bit in the last commit, and zeros up to the end, were not noted.
        var log = try makeLog()
        let commits = commits(log)
        let (middle, last) = (commits[1], try #require(commits.last))
        try #require(last == count(log) && last - commits[2] > 2)
        var broken = last
        switch damage {
        case .countBitOfLast: log[offset(last) + 7] ^= 1
        case .countOfLast: log.replaceSubrange(offset(last) + 4..<offset(last) + 8, with: [0, 0, 0, 0])
        case .countOfMiddle:
            broken = middle
            log[offset(middle) + 6] ^= 2
        case .countOfFrameInMiddle:
            broken = middle - 1
            log[offset(broken) + 6] ^= 2
        case .checksumOfLast: log[offset(last) + 17] ^= 1
        case .saltOfLast: log[offset(last) + 9] ^= 1
        case .numberOfLast: log[offset(last) + 3] ^= 1
        case .pageOfLast: log[offset(last) + 200] ^= 1
        case .pagesToEnd, .everySecondPage:
            broken = middle + 1
            for frame in stride(from: broken, through: last, by: damage == .pagesToEnd ? 1 : 2) {
                log[offset(frame) + 200] ^= 1
            }
        case .zerosToEnd, .noiseToEnd, .zerosFromWithin:
            broken = middle + 3
            var seed = Seed(value: 7).numbers(0)
            for index in offset(broken) - (damage == .zerosFromWithin ? 50 : 0)..<log.count {
                log[index] = damage == .noiseToEnd ? UInt8.random(in: 0...255, using: &seed) : 0
            }
        }
        let hasNoFrames = [.zerosToEnd, .noiseToEnd, .zerosFromWithin].contains(damage)
        // A page of the last frame is as after a kill in the middle of the page.
        let lost: (UInt32) -> WALContent.Loss = damage == .pageOfLast ? { .lastCommit($0) } : { .afterFrame($0) }
        let expected = hasNoFrames ? .fromFrame(UInt32(broken)) : lost(UInt32(broken))
        #expect(try loss(log, key()) == expected)
        // Only the key shows that a page was changed which no checksum of a later frame covers, and what is no frame.
        if ![.pagesToEnd, .everySecondPage, .noiseToEnd].contains(damage) { #expect(try loss(log, nil) == expected) }
        let status = try StoreStatus(fixture.store, unlockedBy: fixture.source).run()
        #expect(status.walLoss == expected)
        let notices = try noticesOfOpening(log)
        // Without an authentic page behind the damage there is nothing to keep.
        let isKept = !hasNoFrames && damage != .pagesToEnd
        #expect(FileManager.default.fileExists(atPath: fixture.store + "-wal-damaged") == isKept)
        #expect(notices.count == (hasNoFrames ? 0 : 1))
        #expect(notices.allSatisfy { $0.contains(expected.note) }, "\(notices)")
        #expect(notices.allSatisfy { $0.contains("cipherctl salvage") == isKept }, "\(notices)")
    }

    /// The notices of an opening for writing.
    private func noticesOfOpening(_ log: [UInt8]) throws -> [String] {
        try Data(log).write(to: URL(fileURLWithPath: fixture.store + "-wal"))
        try? FileManager.default.removeItem(atPath: fixture.store + "-shm")
        let store = try fixture.openStore()
        defer { try? store.close() }
        return store.notices
    }

    @Test("an opening notes nothing beside a writer, after rollbacks and resets, and of a WAL that lost nothing")
    func openingNotesNothing() throws {
        let log = try makeLog()
        #expect(try noticesOfOpening(log).isEmpty)
        let store = try fixture.openStore()
        try store.write { try fill($0, 5, rows: 2000) }
        try store.checkpoint(.restart)
        for step in 6...9 {
            try store.write { try fill($0, step, rows: 1) }
            #expect(try fixture.openStore().notices.isEmpty)
            try? store.write { db in
                try db.execute(sql: "PRAGMA cache_size = 10")
                try fill(db, step, rows: 2000)
                throw DatabaseError(resultCode: .SQLITE_ABORT)
            }
            #expect(try fixture.openStore().notices.isEmpty)
        }
        let left = try self.log()
        try store.close()
        #expect(try noticesOfOpening(left).isEmpty)
    }

    /// The bytes with right checksums from a frame on, as anybody can make them.
    private func withChecksums(_ log: [UInt8], from first: Int) throws -> [UInt8] {
        var log = log
        let header = try #require(log.withUnsafeBytes { WALHeader($0) })
        var checksum = try #require(
            Array(log[offset(first - 1)..<offset(first)]).withUnsafeBytes { WALFrameHeader($0)?.checksum })
        for frame in first...count(log) {
            let stored = Array(log[offset(frame)..<offset(frame + 1)])
            stored.withUnsafeBytes { checksum.add(frame: $0, bigEndian: header.checksumsAreBigEndian) }
            write(checksum, to: &log, at: offset(frame) + 16)
        }
        return log
    }

    private func write(_ checksum: WALChecksum, to log: inout [UInt8], at place: Int) {
        for (index, word) in [checksum.first, checksum.second].enumerated() {
            let start = place + index * 4
            log.replaceSubrange(start..<start + 4, with: withUnsafeBytes(of: word.bigEndian) { Array($0) })
        }
    }

    @Test("a last commit that counts other pages than its page 1 is a problem", arguments: [-1, 29])
    func forgedCount(_ difference: Int) throws {
        // Story: `verify` called it sound, and the next checkpoint gave the file a length that no opening accepts.
        var log = try makeLog()
        let last = try #require(commits(log).last)
        let pages = Int(log.bigEndian(at: offset(last) + 4))
        let forged = UInt32(pages + difference)
        let place = offset(last) + 4
        log.replaceSubrange(place..<place + 4, with: withUnsafeBytes(of: forged.bigEndian) { Array($0) })
        try Data(withChecksums(log, from: last)).write(to: URL(fileURLWithPath: fixture.store + "-wal"))
        try? FileManager.default.removeItem(atPath: fixture.store + "-shm")
        let status = try StoreStatus(fixture.store, unlockedBy: fixture.source).run()
        let sentence = "counts \(forged) pages, and bytes 28 to 31 of page 1 count \(pages)"
        #expect(status.attention.contains { $0.contains(sentence) }, "\(status.attention)")
        #expect(!status.attention.contains { $0.contains("missing") }, "\(status.attention)")
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(!report.isSound, "\(report.problems)")
        #expect(report.problems.contains { $0.contains("counts \(forged) pages") }, "\(report.problems)")
    }

    private func salvage(to name: String) throws -> StoreSalvage.Report {
        try StoreSalvage(of: fixture.store, to: fixture.path(name), unlockedBy: fixture.source).run()
    }

    @Test(
        "a salvage reads every page although the last commit counts others, and lists none that never was",
        arguments: [UInt32(1), 3, 200, .max], [false, true])
    func salvagedForgedCount(_ forged: UInt32, isInFile: Bool) throws {
        // Story: of a count of 1 nothing was left but page 1, and of one of 200 pages were lost that never were.
        var log = try makeLog()
        if isInFile {
            // The pages are in the file, and the WAL has one small commit.
            let store = try fixture.openStore()
            try store.checkpoint(.truncate)
            try store.write { try fill($0, 5, rows: 1) }
            log = try self.log()
            try store.close()
        }
        try Data(log).write(to: URL(fileURLWithPath: fixture.store + "-wal"))
        try? FileManager.default.removeItem(atPath: fixture.store + "-shm")
        let truth = try salvage(to: "truth.db")
        try #require(truth.rowCount == (isInFile ? 801 : 800) && !truth.hasLosses && truth.pageCount > 4)
        let last = try #require(commits(log).last)
        let place = offset(last) + 4
        log.replaceSubrange(place..<place + 4, with: withUnsafeBytes(of: forged.bigEndian) { Array($0) })
        try Data(withChecksums(log, from: last)).write(to: URL(fileURLWithPath: fixture.store + "-wal"))
        let report = try salvage(to: "out.db")
        #expect(report.rowCount == truth.rowCount && report.pageCount == truth.pageCount, "\(report.tables)")
        #expect(report.lostPages.isEmpty && report.listings.isEmpty && !report.hasLosses, "\(report)")
        #expect(report.notices.contains { $0.contains("the last commit in the WAL counts \(forged) page") })
    }

    @Test("pages that a commit removed are no part of what a salvage reads, while the file is still longer")
    func salvagedShorter() throws {
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)") }
        try store.write { try fill($0, 1, rows: 2000) }
        try store.checkpoint(.truncate)
        try store.write { try $0.execute(sql: "DELETE FROM note WHERE id > 100") }
        try store.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        let log = try log()
        let last = try #require(commits(log).last)
        let counted = log.bigEndian(at: offset(last) + 4)
        let bytes = try #require(try Files.byteCount(fixture.store))
        try #require(Int(counted) < bytes / 4096)
        let copy = fixture.path("copy.db")
        for ending in ["", "-sidecar", "-sidecar.bak", "-wal"] {
            try FileManager.default.copyItem(atPath: fixture.store + ending, toPath: copy + ending)
        }
        try store.close()
        let report = try StoreSalvage(of: copy, to: fixture.path("out.db"), unlockedBy: fixture.source).run()
        #expect(report.pageCount == Int(counted) && report.rowCount == 100 && !report.hasLosses, "\(report)")
        #expect(report.notices.isEmpty)
    }

    @Test("a WAL whose header names another page size has lost its commits", arguments: [512, 8192, 65_536])
    func otherPageSize(_ bytes: Int) throws {
        // Story: there was a note for a size that no database has, and none for these.
        var log = try makeLog()
        log.replaceSubrange(8..<12, with: withUnsafeBytes(of: UInt32(bytes).bigEndian) { Array($0) })
        var checksum = WALChecksum()
        let isBigEndian = log[3] & 1 == 1
        Array(log[..<24]).withUnsafeBytes { checksum.add($0, bigEndian: isBigEndian) }
        write(checksum, to: &log, at: 24)
        #expect(try loss(log, key()) == .allContent)
        #expect(try loss(log, nil) == .allContent)
    }

    @Test("a WAL that lost nothing has no note: whole, without its last commit, and after a reset")
    func intact() throws {
        let log = try makeLog()
        let commits = commits(log)
        let key = try key()
        #expect(try loss(log, key) == nil)
        for frame in 1...count(log) where !commits.contains(frame) {
            #expect(try loss(Array(log[..<offset(frame + 1)]), key) == nil, "\(frame)")
            if frame == 1 { continue }
            #expect(try loss(Array(log[..<(offset(frame + 1) - 100)]), key) == nil, "\(frame)")
        }
        // A reset overwrites the first frames only.
        let store = try fixture.openStore()
        try store.checkpoint(.restart)
        try store.write { try fill($0, 9, rows: 1) }
        let reset = try self.log()
        try store.close()
        try #require(count(reset) > 10 && reset[16..<24] != log[16..<24])
        #expect(try loss(reset, key) == nil && loss(reset, nil) == nil)
    }

    @Test("the rest of a commit that a kill prevented is none that was lost", arguments: [1, 2, 5])
    func killed(left: Int) throws {
        // Two commits of one moment: of the longer one, which was never published, a later one left the end.
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)") }
        let (key, base) = (try key(), try log())
        try store.write { try fill($0, 1, rows: 1000) }
        let long = try log()
        try store.close()
        let frames = count(long) - count(base)
        try #require(frames > 8)
        let short = try LogChain(base, key).adding(frames: frames - left, like: long)
        #expect(try loss(short + long[short.count...], key) == nil)
    }
}

/// A WAL to which frames are added as SQLite adds them.
private struct LogChain {
    private let log: [UInt8]
    private let key: PageKey

    init(_ log: [UInt8], _ key: PageKey) { (self.log, self.key) = (log, key) }

    /// Adds a commit with the pages of the next frames of another WAL, encrypted anew.
    func adding(frames: Int, like other: [UInt8]) throws -> [UInt8] {
        var codec = try PageCodec(keys: PageKeys(key))
        let header = try #require(log.withUnsafeBytes { WALHeader(UnsafeRawBufferPointer(rebasing: $0[..<32])) })
        let last = log[(log.count - header.frameStrideBytes)...]
        var checksum = try #require(Array(last).withUnsafeBytes { WALFrameHeader($0) }).checksum
        var log = log
        for index in 0..<frames {
            var frame = Array(other[log.count..<log.count + header.frameStrideBytes])
            let number = frame.bigEndian(at: 0)
            var plain = [UInt8](repeating: 0, count: header.pageBytes)
            var page = plain
            try frame[24...].withUnsafeBytes { source in
                try plain.withUnsafeMutableBytes { try codec.decrypt(source, number: number, into: $0) }
            }
            try plain.withUnsafeBytes { source in
                try page.withUnsafeMutableBytes { try codec.encrypt(source, number: number, into: $0) }
            }
            frame.replaceSubrange(24..., with: page)
            frame.replaceSubrange(4..<8, with: index == frames - 1 ? [0, 0, 0, 90] : [0, 0, 0, 0])
            frame.withUnsafeBytes { checksum.add(frame: $0, bigEndian: header.checksumsAreBigEndian) }
            for (place, word) in [(16, checksum.first), (20, checksum.second)] {
                frame.replaceSubrange(place..<place + 4, with: withUnsafeBytes(of: word.bigEndian) { Array($0) })
            }
            log += frame
        }
        return log
    }
}
