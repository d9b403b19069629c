import CipherStore
import EncryptionConformance
import Foundation
import StoreTools
import Synchronization
import TestKit
import Testing

/// Stores whose pages are all authentic, and which the library or SQLite refuses nevertheless.
@Suite("A store that is authentic and cannot be used")
struct RefusedStoreTests {
    private let fixture = ConformanceFixture()

    /// Contents of a page that no program wrote.
    enum Nonsense: String, CaseIterable, Sendable {
        case leafWithoutType, tooManyCells, emptyRoot, brokenSchema

        var page: Int {
            switch self {
            case .leafWithoutType, .tooManyCells: 12
            case .emptyRoot: 2
            case .brokenSchema: 1
            }
        }

        func write(_ plain: inout [UInt8]) throws {
            switch self {
            case .leafWithoutType: plain[0] = 0
            case .tooManyCells: plain.replaceSubrange(3..<5, with: [0xff, 0xff])
            case .emptyRoot: plain = [UInt8](repeating: 0, count: plain.count)
            case .brokenSchema:
                let at = try #require(Data(plain).range(of: Data("CREATE TABLE note".utf8))).lowerBound
                plain.replaceSubrange(at..<at + 6, with: Array("CRAETE".utf8))
            }
        }
    }

    @Test("a store that SQLite cannot read is not conformant: its content fails", arguments: Nonsense.allCases)
    func malformed(nonsense: Nonsense) throws {
        // Story: an old image of a free page that is in use now was put back. integrity_check ended with an error, and
        // the check said that pages were damaged, so that SQLite was not asked.
        try fixture.makeStore()
        try FixtureKeys(fixture).change(page: nonsense.page, fixture, nonsense.write)
        let report = try fixture.run()
        #expect(report[.pages]?.verdict == .pass)
        #expect(report[.content]?.verdict == .fail, "\(report)")
        if nonsense != .emptyRoot { #expect(report.evidence(.content).contains("malformed")) }
    }

    @Test("the findings of integrity_check are single lines, and bounded")
    func integrityLines() throws {
        try fixture.makeStore()
        try FixtureKeys(fixture).change(page: 2, fixture) { plain in
            // The root names one page again and again.
            for index in 0..<20 {
                let cell = Int(plain.bigEndian(at: 12 + 2 * index) >> 16)
                plain.replaceSubrange(cell..<cell + 4, with: [0, 0, 0, 12])
            }
        }
        let report = try fixture.run()
        let evidence = report[.content]?.evidence ?? []
        #expect(report[.content]?.verdict == .fail)
        #expect(evidence.allSatisfy { !$0.contains("\n") } && evidence.count == 11, "\(evidence)")
        let verified = try StoreVerification(fixture.path, unlockedBy: fixture.source).run()
        #expect(verified.problems == evidence && (verified.integrity ?? []).contains { $0.contains("\n") })
    }

    @Test("a store with a second name is not conformant: no opening accepts it")
    func hardLinked() throws {
        try fixture.makeStore()
        try #require(link(fixture.path, fixture.folder.path("second.db")) == 0)
        let report = try fixture.run()
        #expect(report.failed == [.content], "\(report)")
        #expect(report.evidence(.content).contains("has 2 names"))
        #expect(report[.content]?.remedy?.contains("Remove the other links") == true)
    }

    @Test("the sidecar of another store under the same key is named as the cause, and no backup is asked for")
    func foreignSidecar() throws {
        try fixture.makeStore()
        let other = ConformanceFixture()
        try other.makeStore()
        for suffix in ["-sidecar", "-sidecar.bak"] {
            try Data(other.bytes(suffix)).write(to: URL(fileURLWithPath: fixture.path + suffix))
        }
        let report = try fixture.run()
        #expect(report[.sidecar]?.verdict == .fail, "\(report)")
        #expect(report.evidence(.sidecar).contains("does not belong to"))
        #expect(report[.pages]?.verdict == .fail && report[.pages]?.remedy?.contains("salvage") == false)
        #expect(report[.pages]?.remedy?.contains("sidecar") == true)
        // The key of that sidecar is not that of the file.
        #expect(report[.stockSQLCipher]?.verdict == .notApplicable)
    }

    @Test("a store whose beginning is damaged has the right sidecar: other pages are authentic")
    func damagedBeginning() throws {
        try fixture.makeStore()
        for page in 0..<10 { try fixture.poke(at: page * 4096 + 99, [1, 2, 3, 4]) }
        let report = try fixture.run()
        #expect(report[.sidecar]?.verdict == .pass && report.damagedPages.ranges == [1...10], "\(report)")
        #expect(report[.pages]?.remedy?.contains("salvage") == true)
        #expect(report.evidence(.content) == "pages are damaged, so SQLite was not asked")
    }

    // MARK: Pages of zeros

    @Test("a page in use that was wiped is not authentic, has a kind of its own, and is no readable content")
    func wiped() throws {
        // Story: such a page passed as authentic, and only its bytes failed: as content that can be read without a key.
        try fixture.makeStore()
        try fixture.poke(at: 4096 * 19, [UInt8](repeating: 0, count: 4096))
        let report = try fixture.run()
        #expect(report[.pages]?.verdict == .fail, "\(report)")
        #expect(report.evidence(.pages).contains("page 20 is all zeros (bytes 77824 to 81919)"))
        #expect(report[.ciphertext]?.verdict == .pass)
        let json = try JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any]
        let map = json?["map"] as? [String: Any]
        let kinds = map?["kinds"] as? [String: Int] ?? [:]
        #expect(kinds["zero"] == 1 && kinds["authentic"] == report.map.pageCount - 2, "\(kinds)")
        #expect(map?["zero"] as? [[String: Int]] == [["first": 20, "last": 20]])
        #expect(report.html.contains("aria-label=\"page 20: zeros, bytes 77824 to 81919\""))
    }

    @Test("a page 1 of zeros is called so: its first bytes are no salt")
    func wipedFirstPage() throws {
        try fixture.makeStore()
        try fixture.poke(at: 0, [UInt8](repeating: 0, count: 4096))
        let report = try fixture.run()
        #expect(report[.header]?.verdict == .fail && report.evidence(.header).contains("all zeros"), "\(report)")
        #expect(!report.evidence(.header).contains("salt"))
    }

    @Test("a WAL that lost commits fails with the frames, and not with the content")
    func lostCommits() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        for step in 1...3 { try store.write { try $0.execute(sql: "UPDATE note SET text = '\(step)' WHERE id < 99") } }
        let log = try fixture.bytes("-wal")
        try store.close()
        try Data(log).write(to: URL(fileURLWithPath: fixture.path + "-wal"))
        let last = log.count - 4120
        try fixture.poke("-wal", at: last + 24 + 100, [log[last + 24 + 100] ^ 1])
        let report = try fixture.run()
        #expect(report[.walFrames]?.verdict == .fail && report.map.frameCount > 0, "\(report)")
        #expect(report.evidence(.walFrames).contains("the last commit in the WAL does not count"))
        #expect(report[.content]?.verdict == .pass && !report.evidence(.content).contains("the WAL has"))
    }

    @Test("a free page of zeros passes: SQLite need not write a page that it does not use")
    func wipedFreePage() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "DELETE FROM note WHERE id > 1000") }
        try store.checkpoint(.truncate)
        try store.close()
        let page = try #require(try FixtureKeys(fixture).freeLeaves(fixture).first)
        try fixture.poke(at: 4096 * (page - 1), [UInt8](repeating: 0, count: 4096))
        let report = try fixture.run()
        #expect(report.isConformant, "\(report)")
        #expect(report.evidence(.pages).contains("1 free page of zeros: never written, or wiped"))
        let json = try JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any]
        let kinds = (json?["map"] as? [String: Any])?["kinds"] as? [String: Int] ?? [:]
        #expect(kinds["zero"] == nil && kinds["free"] ?? 0 > 0)
    }

    @Test("zeros that were appended are no pages of the store")
    func appendedZeros() throws {
        try fixture.makeStore()
        let count = try fixture.bytes().count / 4096
        try fixture.poke(at: count * 4096, [UInt8](repeating: 0, count: 8192))
        let report = try fixture.run()
        #expect(report.failed.isSuperset(of: [.header, .pages]) && report[.ciphertext]?.verdict == .pass, "\(report)")
        #expect(report.evidence(.pages).contains("pages \(count + 1) to \(count + 2) are all zeros"))
    }

    // MARK: One moment

    /// A store to which something is written after its pages were read, before the map is drawn.
    private final class WrittenStore: StoreUnderTest {
        let path: String
        let keySource: KeySource
        private let write: @Sendable () throws -> Void

        init(_ fixture: ConformanceFixture, _ write: @escaping @Sendable () throws -> Void) {
            (path, keySource, self.write) = (fixture.path, fixture.source, write)
        }

        var formerKeys: [FormerKey] {
            #expect(throws: Never.self) { try write() }
            return []
        }
    }

    @Test("the map shows the file of the scan, not of a later moment")
    func oneMoment() throws {
        // Story: beside writers the map had 19 pages in the WAL, and the report no frame of it.
        try fixture.makeStore()
        let store = try fixture.openStore()
        defer { try? store.close() }
        let report = try Conformance(
            of: WrittenStore(fixture) {
                try store.write { try $0.execute(sql: "UPDATE note SET text = 'x'; DELETE FROM note WHERE id > 1000") }
            }
        ).run()
        #expect(report.isConformant, "\(report)")
        #expect(report.map.frameCount == 0 && report.map.counts[.wal] == nil && report.map.counts[.free] == nil)
    }
}
