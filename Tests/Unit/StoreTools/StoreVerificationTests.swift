import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

@Suite("Verifying a store from a program")
struct StoreVerificationTests {
    private let fixture = ToolFixture()

    init() throws { try fixture.makeStore() }

    private func verify(_ record: ProgressRecord = ProgressRecord()) throws -> StoreVerification.Report {
        try StoreVerification(fixture.store, unlockedBy: fixture.source)
            .run(isCancelled: record.isCancelled, progress: record.add)
    }

    @Test("a sound store is sound, and progress never goes back")
    func sound() throws {
        let record = ProgressRecord()
        let before = FolderSnapshot(of: fixture.folder)
        let report = try verify(record)
        #expect(report.isSound && report.integrity == ["ok"] && report.foreignKeyViolations == 0)
        #expect(try report.pagesChecked * report.pageBytes == Files.byteCount(fixture.store))
        #expect(report.checkedBytes == report.pagesChecked * report.pageBytes && report.path == fixture.store)
        record.expectMonotone()
        #expect(record.phases == [.authenticatingPages, .checkingContent])
        #expect(record.all.last { $0.phase == .authenticatingPages }?.done == report.pagesChecked)
        #expect(fixture.changes(since: before) == [])
    }

    @Test("damage is in the report, page by page")
    func damaged() throws {
        for page in [3, 30, 31] { try fixture.damage(page: page) }
        let report = try verify()
        #expect(!report.isSound && report.integrity == nil)
        #expect(report.damagedPages.ranges == [3...3, 30...31] && report.damagedPages.count == 3)
        #expect(report.problems.first == "page 3 is damaged (bytes 8192 to 12287)")
    }

    @Test("a byte of the header that no store has, and bytes behind the last page, are problems with their place")
    func headerAndLength() throws {
        let count = try #require(try Files.byteCount(fixture.store))
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        defer { try? file.close() }
        try file.seek(toOffset: 21)
        try file.write(contentsOf: [65])
        #expect(try verify().problems.contains { $0.contains("header") && $0.contains("damaged") })
        try file.seek(toOffset: 21)
        try file.write(contentsOf: [64])
        try file.seekToEnd()
        try file.write(contentsOf: [UInt8](repeating: 0, count: 4096))
        let length =
            "bytes 28 to 31 of the header count \(count / 4096) pages of 4096 bytes, but the file has "
            + "\(count + 4096) bytes"
        // Story: the error of the opening, the length and the zeros were three problems.
        #expect(try verify().problems == [length])
        try file.seek(toOffset: 28)
        try file.write(contentsOf: [0, 0, 0, 1])
        let first = try #require(try verify().problems.first)
        #expect(first.hasPrefix("bytes 28 to 31 of the header count 1 page of 4096 bytes, but"), "\(first)")
        #expect(storeError { try fixture.openStore() } == .headerDamaged)
    }

    @Test("what SQLite cannot read is damage, and no remark about foreign keys")
    func unreadableMeanwhile() throws {
        // Story: after a page that SQLCipher could not read it read no other one, and the report said of the foreign keys
        // that they were not checked: "SQL logic error".
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(sql: "CREATE TABLE child (note REFERENCES note (id)); INSERT INTO child SELECT id FROM note")
        }
        try store.checkpoint(.truncate)
        try store.close()
        let path = fixture.store
        let report = try StoreVerification(path, unlockedBy: fixture.source).run(progress: { progress in
            guard progress.phase == .checkingContent else { return }
            #expect(throws: Never.self) {
                let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
                try file.seek(toOffset: 299 * 4096)
                try file.write(contentsOf: [UInt8](repeating: 0, count: 4096))
                try file.close()
            }
        })
        #expect(!report.isSound && report.foreignKeyViolations == nil, "\(report.problems)")
        #expect(report.unchecked == [])
    }

    /// The file that takes the place of a store while it is verified.
    enum Replacement: String, CaseIterable, Sendable { case noise, otherStore, nothing }

    @Test("a file that is replaced or removed during the check is not called sound", arguments: Replacement.allCases)
    func replaced(by replacement: Replacement) throws {
        // Story: random bytes lay at the path, and the report said: sound.
        let (path, other) = (fixture.store, fixture.path("other.db"))
        switch replacement {
        case .noise:
            let noise = (0..<600_000).map { _ in UInt8.random(in: 0...255) }
            try Data(noise).write(to: URL(fileURLWithPath: other))
        case .otherStore:
            let store = try SharedStore.open(at: other, unlockedBy: fixture.source)
            try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            try store.close()
        case .nothing: break
        }
        let choice = try StoreOpening.sidecar(path, UnlockedKey(fixture.source)) { _ in }
        let replace: @Sendable (ToolProgress) -> Void = { progress in
            guard progress.phase == .checkingContent else { return }
            #expect(throws: Never.self) {
                if replacement == .nothing { return try Files.remove(path) }
                if Files.exists(other) { try Files.rename(other, to: path) }
            }
        }
        let verification = StoreVerification(path, unlockedBy: fixture.source)
        #expect(storeError { try verification.perform(ToolRun(progress: replace), choice) } == .storeMoved)
        // Then the check is made again, of what is there now.
        #expect((try? verification.run())?.isSound != true)
    }

    @Test("foreign keys that the schema does not allow to be checked are no damage")
    func uncheckedForeignKeys() throws {
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(sql: "CREATE TABLE parent (a); CREATE TABLE child (a REFERENCES parent (a))")
        }
        try store.close()
        let report = try verify()
        #expect(report.isSound && report.unchecked.count == 1, "\(report.problems) \(report.unchecked)")
        #expect(report.unchecked.first?.contains("foreign key mismatch") == true)
    }

    @Test("a store that SQLite cannot open is verified all the same")
    func unopenable() throws {
        try fixture.damage(page: 1)
        let report = try verify()
        #expect(report.damagedPages.ranges == [1...1] && report.problems.count == 1)
    }

    @Test("a key that does not fit, and a store that is not there, are errors")
    func refused() throws {
        let other = StoreVerification(fixture.store, unlockedBy: .rawKey([UInt8](repeating: 1, count: 32)))
        #expect(storeError { try other.run() } == .wrongKey)
        let nothing = StoreVerification(fixture.path("nothing.db"), unlockedBy: fixture.source)
        #expect(storeError { try nothing.run() } == .noSuchStore)
    }

    @Test("a verification ends when it is cancelled")
    func cancelled() throws {
        let record = ProgressRecord(cancellingIn: .authenticatingPages)
        #expect(throws: CancellationError.self) { try verify(record) }
        #expect(!record.phases.contains(.checkingContent))
    }

    // A descriptor of the database was opened and closed: that drops all locks that SQLite holds on it in this process, and
    // the next closing of another process deletes the WAL below its connections.
    @Test("a program may look at a store that it has open: its locks stay")
    func ownStore() throws {
        let store = try fixture.openStore()
        defer { try? store.close() }
        func locks() throws -> [Int] {
            try ["", "-shm"].map { ending in
                try SystemLocks.posixLocks(on: fixture.store + ending)?
                    .filter { $0.process == ProcessInspector.currentProcess }.count ?? 0
            }
        }
        let before = try locks()
        #expect(before.allSatisfy { $0 > 0 })
        #expect(try StoreVerification(fixture.store, unlockedBy: fixture.source).run().isSound)
        #expect(try StoreStatus(fixture.store, unlockedBy: fixture.source).run().isInUse == true)
        #expect(try !StoreExamination(fixture.store).run().findings.contains { $0.severity == .problem })
        #expect(try locks() == before)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") } == ToolFixture.rows)
    }

    @Test("a task that is cancelled ends its verification")
    func task() async throws {
        let verification = StoreVerification(fixture.store, unlockedBy: fixture.source)
        #expect(try await verification.run().isSound)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await verification.run()
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test("pages that the log holds are not missing, and divide what is")
    func rangesWithoutLog() {
        var ranges = PageRanges([3, 1, 2])
        ranges.append(4...10, without: [5, 10, 12])
        #expect(ranges.ranges == [1...4, 6...9] && ranges.count == 8)
        ranges.append(11...UInt32.max, without: [11, UInt32.max])
        #expect(ranges.ranges.last == 12...(UInt32.max - 1))
        #expect(ranges.contains(12) && !ranges.contains(10))
    }
}
