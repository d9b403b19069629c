import CipherStore
import EncryptionConformance
import Foundation
import KeyRotation
import StoreTools
import Synchronization
import TestKit
import Testing

@Suite("A store that is held against all checks")
struct StoreConformanceTests {
    private let fixture = ConformanceFixture()

    @Test("a store of the library fails no check, and each check is reported once")
    func sound() throws {
        try fixture.makeStore()
        let before = try fixture.bytes()
        let report = try fixture.run()
        #expect(report.isConformant, "\(report)")
        #expect(report.results.map(\.check) == Check.allCases)
        #expect(try fixture.bytes() == before)
        let expected: Set<Check> = [
            .attackSamePageKey, .attackOldPage, .attackOldFiles, .attackLostWAL, .attackDamagedWAL,
        ]
        let limits = Set(report.results.filter { $0.verdict == .knownLimit }.map(\.check)).subtracting([.coreImage])
        #expect(limits == expected)
        let open = Set(report.results.filter { $0.verdict == .notApplicable }.map(\.check))
        #expect(open == [.walFrames, .formerKeys])
        #expect(report.map.counts[.header] == 1 && report.map.cells.count == report.map.pageCount)
        #expect(report.map.cells.allSatisfy { ($0.entropy ?? 0) > 7.5 })
    }

    @Test("damaged pages are named, on the map too, and are not mistaken for a wrong key")
    func damaged() throws {
        try fixture.makeStore()
        for page in [3, 30, 31] { try fixture.poke(at: (page - 1) * 4096 + 99, [1, 2, 3, 4]) }
        let report = try fixture.run()
        #expect(report.failed == [.pages])
        #expect(report.damagedPages.ranges == [3...3, 30...31])
        #expect(report.map.counts[.damaged] == 3)
        #expect(report.map.cells.filter { $0.kind == .damaged }.map(\.pages) == [3...3, 30...30, 31...31])
        #expect(report.evidence(.pages).contains("page 3 is not authentic (bytes 8192 to 12287)"))
    }

    @Test("a frame of the WAL that is not authentic fails, and pages in the WAL are marked")
    func frames() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        defer { try? store.close() }
        try store.write { try $0.execute(sql: "UPDATE note SET text = 'x' WHERE id = 17") }
        let report = try fixture.run()
        #expect(report.isConformant, "\(report)")
        #expect(report[.walFrames]?.verdict == .pass && report.map.counts[.wal] ?? 0 > 0)
    }

    @Test("a byte of the header that no store has is named, with what belongs there")
    func header() throws {
        try fixture.makeStore()
        try fixture.poke(at: 21, [65])
        let report = try fixture.run()
        #expect(report.failed.contains(.header))
        let evidence = "byte 21 of the header holds 65 where 64 (fixed by SQLite's file format) belongs"
        #expect(report.evidence(.header) == evidence)
    }

    @Test("a header that counts other pages than the file has is named")
    func pageCount() throws {
        try fixture.makeStore()
        let bytes = try fixture.bytes()
        let count = bytes.count / 4096
        #expect(bytes[28..<32].reduce(0) { $0 << 8 | Int($1) } == count)
        for (counted, evidence) in [
            (count - 1, "bytes 28 to 31 of the header count \(count - 1) pages, and the file has 4096 bytes more"),
            (count + 1, "1 page is missing from the end of the file"),
        ] {
            try fixture.poke(at: 28, [0, 0, UInt8(counted >> 8), UInt8(counted & 255)])
            let report = try fixture.run()
            #expect(report.failed.contains(.header))
            #expect(report.evidence(.header).contains(evidence), "\(report.evidence(.header))")
        }
    }

    @Test("a WAL without a commit does not hide that the header counts too few pages")
    func pageCountBesideWAL() throws {
        try fixture.makeStore()
        let bytes = try fixture.bytes()
        try fixture.poke(at: 28, [0, 0, 0, 2])
        try Data("no WAL".utf8).write(to: URL(fileURLWithPath: fixture.path + "-wal"))
        let report = try fixture.run()
        let evidence = "the header count 2 pages, and the file has \(bytes.count - 8192) bytes more"
        #expect(report.evidence(.header).contains(evidence))
    }

    @Test("a full-text index that contradicts itself needs attention, and the statement that makes it again is named")
    func fullTextIndexes() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        func conformance(after sql: String) throws -> Conformance.Report {
            try store.writeWithoutTransaction { db in
                // Another program can write the tables of an index.
                db.mayChangeStoreTables = true
                defer { db.mayChangeStoreTables = false }
                try db.execute(sql: sql)
            }
            try store.checkpoint(.truncate)
            return try fixture.run()
        }
        // Other words than those of the table may be meant.
        let chosen = try conformance(
            after: """
                CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT); INSERT INTO doc VALUES (1, 'body');
                CREATE VIRTUAL TABLE ft USING fts5(body, content='doc', content_rowid='id');
                INSERT INTO ft(rowid, body) VALUES (1, 'chosen');
                """)
        #expect(chosen[.content]?.verdict == .pass && chosen.evidence(.content).contains("'rebuild'"), "\(chosen)")
        let damaged = try conformance(after: "DELETE FROM ft_data WHERE id > 10")
        // Story: it failed, while a verification said that the store is sound and needs attention.
        #expect(damaged[.content]?.verdict == .pass && damaged.evidence(.content).contains("'rebuild'"), "\(damaged)")
        #expect(damaged.isConformant && damaged[.content]?.remedy != nil && chosen[.content]?.remedy == nil)
        let rebuilt = try conformance(after: "INSERT INTO ft(ft) VALUES('rebuild')")
        #expect(rebuilt.isConformant && !rebuilt.evidence(.content).contains("rebuild"), "\(rebuilt)")
        try store.close()
    }

    @Test("a file without a page passes no check of pages")
    func withoutPages() throws {
        try fixture.makeStore()
        for bytes in [20, 100] {
            let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.path))
            try file.truncate(atOffset: UInt64(bytes))
            try file.close()
            let report = try fixture.run()
            #expect(!report.isConformant && report.evidence(.header).contains("\(bytes) bytes"), "\(report)")
            for check in [Check.pages, .vectors, .ciphertext] {
                #expect(report[check]?.verdict != .pass, "\(bytes): \(check)")
            }
        }
    }

    @Test("the modes are those of before the checks, which give an empty WAL the mode of the database")
    func modesBefore() throws {
        try fixture.makeStore()
        try Data().write(to: URL(fileURLWithPath: fixture.path + "-wal"))
        try fixture.setMode(0o600, "-wal")
        try fixture.setMode(0o644, "")
        let report = try fixture.run()
        #expect(report.evidence(.fileModes) == "every user may read the database (mode 644)", "\(report)")
    }

    @Test("a store that a rotation gives another key during the checks is no damaged one", arguments: [true, false])
    func rotatedMeanwhile(isDirect: Bool) throws {
        // Story: the pages were read before the switch, and what came after it was said of the new file: that SQLCipher
        // cannot read it, and that the header is not that of a store.
        var configuration = Configuration()
        configuration.keyScheme = isDirect ? .direct : .slots
        let store = try SharedStore.open(at: fixture.path, unlockedBy: fixture.source, configuration: configuration)
        defer { try? store.close() }
        try store.write { try $0.execute(sql: ConformanceFixture.content) }
        let newKey = KeySource.rawKey([UInt8](repeating: 0x77, count: 32))
        let disturbed = DisturbedStore(path: fixture.path, keySource: fixture.source) {
            var options = KeyRotation.Options(mode: isDirect ? .newKey(newKey) : .newDataKey)
            options.checksIntegrity = false
            try KeyRotation(store, options: options).run()
        }
        let error = #expect(throws: StoreError.self) { try Conformance(of: disturbed).run() }
        #expect(error?.code == .keyRotated(from: 1, to: 2), "\(String(describing: error))")
    }

    // Story: the pool of a sample store was held against the settings of the examined file: every healthy store with
    // larger pages failed.
    @Test("a store with larger pages is conformant", arguments: [8192, 65536])
    func largePages(pageBytes: Int) throws {
        let plain = ConformanceFixture()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: plain.path, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: "PRAGMA page_size = \(pageBytes); \(ConformanceFixture.content)") }
        try queue.close()
        try StoreImport(of: plain.path, to: fixture.path, unlockedBy: fixture.source).run()
        let report = try fixture.run()
        #expect(report.isConformant, "\(report)")
        #expect(report[.connections]?.verdict == .pass)
    }

    @Test("a store that another file replaces during the checks is no damaged one")
    func replacedMeanwhile() throws {
        try fixture.makeStore()
        let (path, copy) = (fixture.path, fixture.folder.path("copy.db"))
        let disturbed = DisturbedStore(path: path, keySource: fixture.source) {
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            try #require(rename(copy, path) == 0)
        }
        let error = #expect(throws: StoreError.self) { try Conformance(of: disturbed).run() }
        #expect(error?.code == .storeMoved)
    }

    @Test("a file that another connection holds locked is not called one that SQLite refuses")
    func lockedMeanwhile() throws {
        try fixture.makePlain()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: fixture.path, configuration: configuration)
        defer { try? queue.close() }
        let disturbed = DisturbedStore(path: fixture.path, keySource: fixture.source) {
            try queue.inDatabase { try $0.execute(sql: "BEGIN EXCLUSIVE") }
        }
        defer { try? queue.inDatabase { try $0.execute(sql: "ROLLBACK") } }
        let report = try Conformance(of: disturbed).run()
        #expect(report[.plainSQLite]?.verdict == .notApplicable)
        #expect(report.evidence(.plainSQLite) == "another connection holds the file locked")
    }

    @Test("a copy of the sidecar that a change of keys is about to write is no missing one")
    func sidecarWrittenMeanwhile() throws {
        // Story: while keys were changed again and again, one check in thirty found the second copy older than the first.
        try fixture.makeStore()
        let copy = URL(fileURLWithPath: fixture.path + "-sidecar.bak")
        let bytes = try Data(contentsOf: copy)
        try FileManager.default.removeItem(at: copy)
        #expect(try fixture.run().failed == [.sidecar])
        let report = try Conformance(of: LateCopyStore(fixture) { try bytes.write(to: copy) }).run()
        #expect(report[.sidecar]?.verdict == .pass, "\(report)")
    }

    @Test("both copies of the sidecar that are removed during the checks end them with a word of that")
    func sidecarRemovedMeanwhile() throws {
        // Story: the sidecar passed, and the refusal of another key was blamed.
        try fixture.makeStore()
        let paths = ["-sidecar", "-sidecar.bak"].map { fixture.path + $0 }
        let store = LateCopyStore(fixture) { for path in paths { try FileManager.default.removeItem(atPath: path) } }
        let error = #expect(throws: StoreError.self) { try Conformance(of: store).run() }
        #expect(error?.code == .saltMissing && error?.why.contains("during the check") == true)
    }

    /// A store to which something happens after its sidecar was read, before its pages are.
    private final class LateCopyStore: StoreUnderTest {
        let path: String
        private let source: KeySource
        private let looks = Mutex(0)
        private let disturb: @Sendable () throws -> Void

        init(_ fixture: ConformanceFixture, _ disturb: @escaping @Sendable () throws -> Void) {
            (path, source, self.disturb) = (fixture.path, fixture.source, disturb)
        }

        /// The first look is before the sidecar is read, the second one before the pages are.
        var keySource: KeySource {
            let look = looks.withLock { looks in
                looks += 1
                return looks
            }
            if look == 2 { #expect(throws: Never.self) { try disturb() } }
            return source
        }
    }

    /// A store to which something happens after its pages were read.
    private struct DisturbedStore: StoreUnderTest {
        let path: String
        let keySource: KeySource
        let disturb: @Sendable () throws -> Void

        var claimedCipherVersion: String? {
            #expect(throws: Never.self) { try disturb() }
            return nil
        }
    }

    @Test("a copy of the sidecar that is damaged fails that check alone", arguments: ["-sidecar", "-sidecar.bak"])
    func sidecarCopy(suffix: String) throws {
        try fixture.makeStore()
        let middle = try fixture.bytes(suffix).count / 2
        try fixture.poke(suffix, at: middle, [try fixture.bytes(suffix)[middle] ^ 1])
        let report = try fixture.run()
        #expect(report.failed == [.sidecar], "\(report)")
    }

    @Test("a committed frame of the WAL that was changed, with a checksum that fits, is named")
    func changedFrame() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        defer { try? store.close() }
        try store.write { try $0.execute(sql: "UPDATE note SET text = 'x' WHERE id = 17") }
        let frame = try WALForgery(fixture.bytes("-wal")).changingLastFrame()
        try fixture.poke("-wal", at: frame.offset, frame.bytes)
        let report = try fixture.run()
        #expect(report.failed.contains(.walFrames), "\(report)")
        #expect(report.evidence(.walFrames).contains("frame \(frame.number) (page \(frame.page)) is not authentic"))
    }

    @Test("a page under a former key is found, also when the rest was rotated")
    func former() throws {
        try fixture.makeStore()
        let keys = try FixtureKeys(fixture)
        let old = Array(try fixture.bytes()[4096 * 9..<4096 * 10])
        let oldKey = FormerKey(try RawKey(bytes: keys.dataKey), salt: keys.salt)
        let other = ConformanceFixture()
        try other.makeStore()
        try other.poke(at: 4096 * 9, old)
        let report = try other.run { $0.formerKeys = [oldKey] }
        #expect(report.failed == [.pages, .formerKeys])
        #expect(report.evidence(.formerKeys).contains("page 10 is authentic under a former key"))
        #expect(report.map.counts[.former] == 1 && report.map.counts[.damaged] == nil)
        let unknowing = try other.run()
        #expect(unknowing[.formerKeys]?.verdict == .notApplicable)
    }

    @Test("two pages with one vector are found, and a page that is not random")
    func statistics() throws {
        try fixture.makeStore()
        let keys = try FixtureKeys(fixture)
        try keys.rewrite(pages: [5, 6], vector: [UInt8](repeating: 7, count: 16), fixture)
        let report = try fixture.run()
        #expect(report.failed == [.vectors], "\(report)")
        #expect(report.evidence(.vectors) == "page 5 and page 6 have the same vector")
        try fixture.poke(at: 4096 * 12, [UInt8](repeating: 0x41, count: 4000))
        let plain = try fixture.run()
        #expect(plain.failed == [.vectors, .pages, .ciphertext])
        #expect(plain.evidence(.ciphertext).contains("1 page is not random: 13"))
    }

    @Test("the marker is written into the store itself only when that is allowed, and removed")
    func canary() throws {
        try fixture.makeStore()
        let report = try fixture.run { $0.allowsCanary = true }
        #expect(report[.canary]?.verdict == .pass, "\(report.evidence(.canary))")
        #expect(report.evidence(.canary).contains("no file of the store held it"))
        let store = try fixture.openStore()
        defer { try? store.close() }
        #expect(try store.read { try !$0.tableExists("conformance_canary") })
    }

    @Test("a program that notices nothing fails every attack that can be noticed")
    func careless() throws {
        try fixture.makeStore()
        let report = try Conformance(of: NoticesNothing(path: fixture.path, keySource: fixture.source)).run()
        let noticeable = Set(Check.allCases.filter(\.isAttack)).subtracting([
            .attackSamePageKey, .attackOldPage, .attackOldFiles, .attackLostWAL, .attackDamagedWAL,
        ])
        #expect(report.failed == noticeable)
    }

    @Test("a library that is not the claimed one fails")
    func claimed() throws {
        try fixture.makeStore()
        #expect(try fixture.run { $0.claimedCipherVersion = "3.4" }.failed == [.library])
        #expect(try fixture.run { $0.claimedCipherVersion = "4." }.isConformant)
    }

    // Story: the text said "pass", and only the JSON named the table that was not checked.
    @Test("the text names a table that was not checked, because its collation is missing")
    func uncheckedTable() throws {
        var program = Configuration()
        program.prepareDatabase { db in db.add(collation: DatabaseCollation("prog") { $1.compare($0) }) }
        let store = try SharedStore.open(at: fixture.path, unlockedBy: fixture.source, configuration: program)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE pair (k TEXT COLLATE prog PRIMARY KEY) WITHOUT ROWID")
            try db.execute(sql: "INSERT INTO pair VALUES ('b'), ('a')")
        }
        try store.checkpoint(.truncate)
        try store.close()
        let report = try fixture.run()
        #expect(report.isConformant)
        #expect(report.lines.contains { $0.contains("not checked: table \"pair\", which needs collation prog") })
    }

    @Test("text, JSON and JUnit name every check")
    func forms() throws {
        try fixture.makeStore()
        try fixture.poke(at: 4096 * 3 + 7, [1, 2])
        let report = try fixture.run()
        let json = try JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any]
        #expect(json?["format"] as? Int == 1 && json?["conformant"] as? Bool == false)
        let checks = json?["checks"] as? [[String: Any]] ?? []
        #expect(checks.compactMap { $0["name"] as? String } == Check.allCases.map(\.rawValue))
        #expect(checks.allSatisfy { $0["proves"] is String && $0["cannot_prove"] is String })
        for check in Check.allCases {
            #expect(report.junit.contains("name=\"\(check.rawValue)\""))
            #expect(report.lines.contains { $0.hasPrefix(check.title) })
        }
        #expect(report.junit.contains("failures=\"1\""))
        #expect(try XMLText.isWellFormed(report.junit))
    }
}

/// Changes a frame as somebody does who knows the format of a WAL and no key: https://sqlite.org/walformat.html
private struct WALForgery {
    private static let (headerBytes, frameHeaderBytes, pageBytes) = (32, 24, 4096)
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The last frame with one byte of its page changed, from its checksum on, and where that is in the file.
    func changingLastFrame() -> (number: Int, page: Int, offset: Int, bytes: [UInt8]) {
        let frameBytes = Self.frameHeaderBytes + Self.pageBytes
        let count = (bytes.count - Self.headerBytes) / frameBytes
        let start = Self.headerBytes + (count - 1) * frameBytes
        var page = Array(bytes[(start + Self.frameHeaderBytes)..<(start + frameBytes)])
        page[100] ^= 1
        let former = count == 1 ? Self.headerBytes - 8 : start - frameBytes + Self.frameHeaderBytes - 8
        let seed = [word(bytes, former, isBigEndian: true), word(bytes, former + 4, isBigEndian: true)]
        let sum = checksum(Array(bytes[start..<(start + 8)]) + page, seed)
        let words = sum.flatMap { value in stride(from: 24, through: 0, by: -8).map { UInt8(value >> $0 & 255) } }
        return (
            count, Int(word(bytes, start, isBigEndian: true)), start + Self.frameHeaderBytes - 8, words + page
        )
    }

    private func word(_ bytes: [UInt8], _ offset: Int, isBigEndian: Bool) -> UInt32 {
        let four = bytes[offset..<(offset + 4)]
        return (isBigEndian ? Array(four) : four.reversed()).reduce(0) { $0 << 8 | UInt32($1) }
    }

    private func checksum(_ data: [UInt8], _ seed: [UInt32]) -> [UInt32] {
        // The last bit of the magic number says in which order the words are read.
        let isBigEndian = bytes[3] & 1 == 1
        var (one, two) = (seed[0], seed[1])
        for offset in stride(from: 0, to: data.count, by: 8) {
            one &+= word(data, offset, isBigEndian: isBigEndian) &+ two
            two &+= word(data, offset + 4, isBigEndian: isBigEndian) &+ one
        }
        return [one, two]
    }
}

/// A program that reads everything without a look.
private struct NoticesNothing: StoreUnderTest {
    let path: String
    let keySource: KeySource
    func read(attacked path: String, unlockedBy source: KeySource) throws -> [String] { [] }
}

enum XMLText {
    static func isWellFormed(_ text: String) throws -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "python3", "-c", "import sys, xml.dom.minidom as m; m.parseString(sys.stdin.buffer.read())",
        ]
        let pipe = Pipe()
        process.standardInput = pipe
        process.standardError = Pipe()
        try process.run()
        try pipe.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        try pipe.fileHandleForWriting.close()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
