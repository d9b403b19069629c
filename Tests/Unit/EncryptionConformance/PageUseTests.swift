import CipherStore
import EncryptionConformance
import Foundation
import StoreTools
import Synchronization
import TestKit
import Testing

/// Which pages are free and which are in use, where SQLite itself does not look.
@Suite("Free pages and pages in use")
struct PageUseTests {
    private let fixture = ConformanceFixture()

    private static let content = """
        CREATE TABLE long (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE junk (text);
        CREATE VIRTUAL TABLE r USING fts5(b);
        INSERT INTO r VALUES ('some words');
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 60)
        INSERT INTO junk SELECT hex(zeroblob(1500)) FROM c;
        INSERT INTO long SELECT NULL, text || text || text FROM junk;
        """

    /// A store with an empty virtual table and about 60 free pages in one trunk page. It is made once, and copied.
    private static let store = Result {
        let tests = PageUseTests()
        // An import writes virtual tables into the schema last: then integrity_check begins with them, and leaves out
        // the list.
        try tests.importPlain(content)
        return try ["", "-sidecar", "-sidecar.bak", "-keylog"].compactMap { ending in
            guard FileManager.default.fileExists(atPath: tests.fixture.path + ending) else { return nil }
            return (ending, Data(try tests.fixture.bytes(ending)))
        } as [(ending: String, bytes: Data)]
    }

    private func makeStore() throws {
        for (ending, bytes) in try Self.store.get() {
            try #require(
                FileManager.default.createFile(
                    atPath: fixture.path + ending, contents: bytes, attributes: [.posixPermissions: 0o600]))
        }
    }

    private func importPlain(_ sql: String) throws {
        let plain = ConformanceFixture()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: plain.path, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: sql) }
        try queue.close()
        try StoreImport(of: plain.path, to: fixture.path, unlockedBy: fixture.source).run()
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "DELETE FROM junk") }
        try store.checkpoint(.truncate)
        try store.close()
    }

    private func verify() throws -> StoreVerification.Report {
        try StoreVerification(fixture.path, unlockedBy: fixture.source).run()
    }

    /// The possible faults of the list, on pages that are authentic.
    enum Damage: String, CaseIterable, Sendable {
        case count, trunkIsShort, noTrunk, circle, leafAfterEnd, leafTwice, tooMany, trunkAfterEnd, leafInUse
        case overflowInUse, trunkInUse

        /// A word of the problem that names it.
        var word: String {
            switch self {
            case .count, .trunkIsShort, .noTrunk: "counts"
            case .circle, .leafTwice: "twice"
            case .leafAfterEnd, .trunkAfterEnd: "does not have"
            case .tooMany: "more than"
            case .leafInUse, .overflowInUse, .trunkInUse: "in use"
            }
        }
    }

    @Test("a damaged list of free pages is found beside a virtual table", arguments: Damage.allCases)
    func freeList(damage: Damage) throws {
        // Story: with a virtual table SQLite's integrity_check left the list out. The next write filled pages that were
        // in use, and its rows were gone.
        try makeStore()
        let keys = try FixtureKeys(fixture)
        let pages = try keys.authentic(fixture)
        let trunk = try #require(try pages.page(1)).bytes.bigEndian(at: 32)
        let roots = try root("long")
        let inTree = try #require(try pages.page(roots)).bytes.bigEndian(at: 8)
        let used = damage == .overflowInUse ? try keys.overflowPage(of: inTree, fixture) : inTree
        let isOfHeader = [.count, .noTrunk, .trunkAfterEnd, .trunkInUse].contains(damage)
        try keys.change(page: isOfHeader ? 1 : Int(trunk), fixture) { plain in
            switch damage {
            case .count: plain[39] = 7
            case .noTrunk: plain.put(0, at: 32)
            case .trunkAfterEnd: plain.put(99_999, at: 32)
            case .trunkInUse: plain.put(inTree, at: 32)
            case .trunkIsShort: plain.put(3, at: 4)
            case .circle: plain.put(trunk, at: 0)
            case .leafAfterEnd: plain.put(99_999, at: 8)
            case .leafTwice: plain.put(plain.bigEndian(at: 12), at: 8)
            case .tooMany: plain.put(5000, at: 4)
            case .leafInUse, .overflowInUse: plain.put(used, at: 8)
            }
        }
        let report = try verify()
        #expect(!report.isSound && report.damagedPages.isEmpty)
        if !Self.isNamed(by: report.integrity) {
            #expect(report.problems.contains { $0.contains("free") && $0.contains(damage.word) }, "\(report.problems)")
            #expect(report.problems.count <= 3, "\(report.problems)")
        }
        let conformance = try fixture.run()
        #expect(conformance.failed == [.content], "\(conformance)")
    }

    @Test("a damaged list is found beside rows that refer to nothing")
    func freeListBesideOrphans() throws {
        // Story: a foreign key violation, which may be tolerated, kept the list from being looked at.
        let content = Self.content.replacing("text TEXT", with: "text TEXT, parent INT REFERENCES long (id)")
            .replacing("text || text || text", with: "text || text || text, CASE rowid WHEN 1 THEN 999 END")
        try importPlain("PRAGMA foreign_keys = OFF; \(content)")
        let keys = try FixtureKeys(fixture)
        let trunk = try #require(try keys.authentic(fixture).page(1)).bytes.bigEndian(at: 32)
        let used = try root("long")
        try keys.change(page: Int(trunk), fixture) { $0.put(used, at: 8) }
        let report = try verify()
        #expect(report.orphans.map(\.table) == ["long"], "\(report.orphans)")
        let isNamed = report.problems.contains { $0.contains("in use") } || Self.isNamed(by: report.integrity)
        #expect(isNamed, "\(report.problems)")
    }

    /// Newer versions of SQLite look at the list beside virtual tables too.
    private static func isNamed(by integrity: [String]?) -> Bool {
        // A page of the list that is in use may be named by its tree.
        integrity?.contains { $0.contains("Freelist: ") || $0.contains("2nd reference") } ?? false
    }

    @Test("a page whose newest image is in the WAL is not held for readable where its image in the file is torn")
    func tornCheckpoint() throws {
        // Story: `conformance` said that half a page of zeros in the file can be read without a key.
        try makeStore()
        let store = try fixture.openStore()
        defer { try? store.close() }
        let page = try root("long")
        try store.write { try $0.execute(sql: "DELETE FROM long WHERE id > 3; INSERT INTO long VALUES (99, 'new')") }
        #expect(try verify().scan.pagesInWAL.contains(page))
        try fixture.poke(at: (Int(page) - 1) * 4096, [UInt8](repeating: 0, count: 2048))
        let report = try fixture.run()
        #expect(report.failed.isEmpty, "\(report)")
    }

    private func root(_ table: String) throws -> UInt32 {
        let store = try fixture.openStore()
        defer { try? store.close() }
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        let root = try store.read { try Int.fetchOne($0, sql: sql, arguments: [table]) }
        return UInt32(try #require(root))
    }

    @Test("the list is intact in a store that nobody damaged, whatever uses its pages")
    func intact() throws {
        try makeStore()
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE pair (a TEXT, b BLOB, PRIMARY KEY (a, b)) WITHOUT ROWID;
                    INSERT INTO pair SELECT id, randomblob(9000) FROM long;
                    CREATE INDEX byText ON long (text);
                    CREATE VIRTUAL TABLE box USING rtree(id, a, b);
                    INSERT INTO box SELECT id, id, id + 1 FROM long;
                    INSERT INTO r SELECT hex(randomblob(2000)) FROM long;
                    DELETE FROM r WHERE rowid % 3 = 0; DELETE FROM long WHERE id % 5 = 0; DROP TABLE junk;
                    """)
        }
        #expect(try verify().isSound)
        try store.checkpoint(.truncate)
        try store.close()
        let report = try verify()
        #expect(report.isSound && report.scan.freeList.problems.isEmpty, "\(report.problems)")
        #expect(report.scan.freeList.pages.count > 30)
    }

    /// Writes into the store when its pages are about to be read, after the snapshot was taken.
    private struct LateWriter: PageInspector {
        let write: @Sendable () throws -> Void
        func beginFrames() {}
        func beginPages(_ count: Int, inWAL: Set<UInt32>) { #expect(throws: Never.self) { try write() } }
        func see(frame: UInt32, ofPage number: UInt32, _ bytes: UnsafeRawBufferPointer, isAuthentic: Bool) {}
        func see(page number: UInt32, _ bytes: UnsafeRawBufferPointer, isAuthentic: Bool) {}
    }

    @Test("free pages and pages in the WAL are those of the snapshot, whatever is written beside the scan")
    func oneMoment() throws {
        // Story: the map of a store in use showed pages as free that were in use when they were read.
        try makeStore()
        let before = try verify().scan.freeList.pages.count
        let store = try fixture.openStore()
        defer { try? store.close() }
        try store.write { try $0.execute(sql: "INSERT INTO r VALUES ('more')") }
        var verification = StoreVerification(fixture.path, unlockedBy: fixture.source)
        verification.inspector = LateWriter { try store.write { try $0.execute(sql: "DELETE FROM long") } }
        let report = try verification.run()
        #expect(report.isSound, "\(report.problems)")
        #expect(report.scan.freeList.pages.count <= before && report.scan.pagesInWAL.count < 20)
        #expect(try verify().scan.freeList.pages.count > before)
    }

    @Test("beside a writer that frees and fills pages there is no false alarm")
    func besideWriter() throws {
        try makeStore()
        let store = try fixture.openStore()
        defer { try? store.close() }
        let isDone = Mutex(false)
        let group = DispatchGroup()
        DispatchQueue.global().async(group: group) {
            var number = 0
            while !isDone.withLock({ $0 }) {
                number += 1
                let sql =
                    number.isMultiple(of: 2)
                    ? "DELETE FROM long WHERE id % 3 = 0"
                    : "INSERT OR IGNORE INTO long SELECT id + 1, text FROM long WHERE id % 3 = 2; DELETE FROM r"
                #expect(throws: Never.self) { try store.write { try $0.execute(sql: sql) } }
                if number.isMultiple(of: 7) { _ = try? store.checkpoint(.passive) }
            }
        }
        defer {
            isDone.withLock { $0 = true }
            group.wait()
        }
        for _ in 0..<8 {
            let report = try verify()
            #expect(report.isSound, "\(report.problems)")
        }
        let conformance = try fixture.run()
        #expect(conformance[.content]?.verdict == .pass && conformance[.pages]?.verdict == .pass, "\(conformance)")
    }

    // MARK: Zeros

    @Test("a page of zeros that lists free pages is no hole: only the pages it lists can be")
    func wipedTrunk() throws {
        try makeStore()
        let trunk = try #require(try FixtureKeys(fixture).authentic(fixture).page(1)).bytes.bigEndian(at: 32)
        try fixture.poke(at: 4096 * (Int(trunk) - 1), [UInt8](repeating: 0, count: 4096))
        let report = try fixture.run()
        #expect(report.failed.contains(.pages), "\(report)")
        #expect(report.evidence(.pages).contains("page \(trunk) is all zeros"))
        let verified = try verify()
        #expect(verified.problems.contains { $0.hasPrefix("page \(trunk) is all zeros") }, "\(verified.problems)")
    }

    @Test("a page with the rest of a row that was wiped is found with auto-vacuum, too", arguments: [1, 2])
    func wipedOverflow(mode: Int) throws {
        // Story: SQLCipher reads such a page as an empty one. verify called the store sound, and conformance did not.
        try importPlain(
            "PRAGMA auto_vacuum = \(mode); CREATE TABLE long (a); CREATE TABLE junk (a); "
                + "INSERT INTO long VALUES (zeroblob(30000)), (zeroblob(30000))")
        #expect(try verify().isSound)
        let page = try FixtureKeys(fixture).overflowPage(of: root("long"), fixture)
        try fixture.poke(at: 4096 * (Int(page) - 1), [UInt8](repeating: 0, count: 4096))
        let report = try verify()
        #expect(!report.isSound && report.zeroPages.ranges == [page...page])
        #expect(report.problems.map { $0.prefix { $0 != "(" } } == ["page \(page) is all zeros "], "\(report.problems)")
        #expect(try fixture.run().failed.contains(.pages))
    }
}

extension [UInt8] {
    /// Writes a big-endian number of four bytes.
    fileprivate mutating func put(_ number: UInt32, at offset: Int) {
        for index in 0..<4 { self[offset + index] = UInt8(truncatingIfNeeded: number >> (24 - 8 * UInt32(index))) }
    }
}
