import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreTools

@Suite("Importing, exporting and adopting from a program")
struct StoreTransferTests {
    private let fixture = ToolFixture()

    private func importPlain(_ record: ProgressRecord = ProgressRecord()) throws -> StoreImport.Report {
        try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source)
            .run(isCancelled: record.isCancelled, progress: record.add)
    }

    // MARK: Import

    @Test("a plain database becomes a store with the same content, and progress never goes back")
    func imported() throws {
        try fixture.makePlain()
        let record = ProgressRecord()
        let report = try importPlain(record)
        #expect(report.rowCount == ToolFixture.rows && report.pageBytes == 4096 && report.notices == [])
        #expect(report.fileBytes == (try Files.byteCount(fixture.store)) && report.path == fixture.store)
        #expect(try fixture.rowCount() == ToolFixture.rows)
        record.expectMonotone()
        #expect(record.phases == [.copyingRows, .rereadingSource, .verifyingCopy])
        #expect(record.all.contains { $0.done == ToolFixture.rows && $0.table == "note" })
        let source = try PlainSource.open(fixture.plain)
        defer { try? source.close() }
        #expect(try source.read { try ContentHash.of($0) } == report.contentHash)
    }

    @Test(
        "an import that is cancelled leaves nothing",
        arguments: [ToolProgress.Phase.copyingRows, .rereadingSource, .verifyingCopy])
    func cancelled(_ phase: ToolProgress.Phase) throws {
        try fixture.makePlain()
        let record = ProgressRecord(cancellingIn: phase)
        #expect(throws: CancellationError.self) { try importPlain(record) }
        #expect(record.phases.last == phase)
        #expect(fixture.names() == ["plain.db"])
        #expect(try importPlain().rowCount == ToolFixture.rows)
    }

    @Test("a task that is cancelled leaves nothing")
    func task() async throws {
        try fixture.makePlain()
        let tool = StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await tool.run()
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(fixture.names() == ["plain.db"])
    }

    @Test("what stands in the way is named by its code, and no key is asked for")
    func refused() throws {
        func code(_ tool: StoreImport) -> ToolError.Code? {
            do {
                try tool.run()
                return nil
            } catch {
                return (error as? ToolError)?.code
            }
        }
        let unasked = KeySource.customRawKey("nobody") {
            Issue.record("the key was asked for")
            throw CancellationError()
        }
        #expect(code(StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: unasked)) == .noSuchFile)
        try Data("no database, but long enough for one".utf8).write(to: URL(fileURLWithPath: fixture.plain))
        #expect(code(StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: unasked)) == .notPlain)
        #expect(code(StoreImport(of: fixture.plain, to: fixture.path("a/b.db"), unlockedBy: unasked)) == .noDirectory)
        #expect(code(StoreImport(of: fixture.plain, to: fixture.plain, unlockedBy: unasked)) == .exists)
        #expect(fixture.names() == ["plain.db"])
    }

    @Test("what a killed import had left is removed, with a notice")
    func abandoned() throws {
        try fixture.makePlain()
        let left = fixture.store + ".importing-1-0123abcd"
        try Files.makeDirectory(left)
        try Data("a copy".utf8).write(to: URL(fileURLWithPath: left + "/app.db"))
        try Data().write(to: URL(fileURLWithPath: left + "/import.lock"))
        let report = try importPlain()
        #expect(report.notices == ["removed \"\(left)\", which a killed import had left"])
        #expect(!Files.exists(left))
    }

    // Story: a member of the group gave the name of the staging directory to one of his own, and got every row.
    @Test("an export writes no row into a directory that took the name of its own", arguments: [false, true])
    func swappedDirectory(putsBack: Bool) throws {
        try fixture.makePlain()
        _ = try importPlain()
        let target = fixture.path("out.db")
        let root = Files.directory(of: target)
        // Without opening the files, which would drop locks of SQLite.
        let made: @Sendable () -> String? = {
            let names = (try? Files.names(inDirectory: root)) ?? []
            return names.first { $0.hasPrefix("out.db.exporting-") }.map { "\(root)/\($0)" }
        }
        let (away, other) = (fixture.path("away"), fixture.path("other"))
        let swap = Mutex<String?>(nil)
        var tool = StoreExport(of: fixture.store, toInsecurePlaintext: target, unlockedBy: fixture.source)
        tool.configuration.prepareDatabase { db in
            // The first statement of the source once the directory is made; SQLite opens the target after it.
            db.trace { event in
                guard "\(event)".contains("page_size"), swap.withLock({ $0 == nil }), let path = made() else { return }
                swap.withLock { $0 = path }
                try? Files.rename(path, to: away)
                try? Files.makeDirectory(path)
                try? Data().write(to: URL(fileURLWithPath: path + "/out.db"))
            }
            // A connection to the target: it is open.
            if putsBack, let path = swap.withLock({ $0 }), Files.exists(away) {
                try Files.rename(path, to: other)
                try Files.rename(away, to: path)
            }
        }
        let error = #expect(throws: SystemError.self) { try tool.run() }
        #expect(error?.errorNumber == ESTALE && !Files.exists(target))
        let path = try #require(swap.withLock { $0 })
        #expect(try Files.byteCount((putsBack ? other : path) + "/out.db") == 0)
        #expect((made() == nil) == putsBack)
    }

    @Test("a program may import a database that it has open: its locks stay")
    func ownSource() throws {
        try fixture.makePlain()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let pool = try DatabasePool(path: fixture.plain, configuration: configuration)
        defer { try? pool.close() }
        try pool.write { try $0.execute(sql: "CREATE TABLE more (a)") }
        func locks() throws -> Int? { try SystemLocks.posixLocks(on: fixture.plain)?.count }
        let before = try locks()
        #expect(before != 0)
        #expect(try importPlain().rowCount == ToolFixture.rows)
        #expect(try locks() == before)
    }

    // MARK: Export

    @Test("a store becomes a plain database with the same content, for its owner alone, and comes back")
    func exported() throws {
        try fixture.makeStore()
        let record = ProgressRecord()
        let report = try StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
            .run(progress: record.add)
        #expect(report.rowCount == ToolFixture.rows)
        record.expectMonotone()
        #expect(try Files.status(of: fixture.plain)?.permissions == 0o600)
        let back = try StoreImport(of: fixture.plain, to: fixture.path("back.db"), unlockedBy: fixture.source).run()
        #expect(back.contentHash == report.contentHash)
    }

    @Test("an export that is cancelled leaves no plain row")
    func cancelledExport() throws {
        try fixture.makeStore()
        let before = FolderSnapshot(of: fixture.folder)
        let record = ProgressRecord(cancellingIn: .verifyingCopy)
        let export = StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
        #expect(throws: CancellationError.self) {
            try export.run(isCancelled: record.isCancelled, progress: record.add)
        }
        #expect(fixture.changes(since: before) == [])
    }

    // MARK: Adoption

    @Test("an SQLCipher database becomes a store in its place, and is one then")
    func adopted() throws {
        try fixture.makeStandard()
        let record = ProgressRecord()
        let adoption = StoreAdoption(fixture.store, unlockedBy: fixture.source)
        let report = try adoption.run(progress: record.add)
        record.expectMonotone()
        #expect(record.phases == [.authenticatingPages, .readingSource, .copyingFile, .verifyingCopy])
        #expect(report.contentHash != nil && !report.completedEarlierAdoption && report.original == nil)
        #expect(try StoreVerification(fixture.store, unlockedBy: fixture.source).run().isSound)
        #expect(try fixture.rowCount() == ToolFixture.rows)
        do {
            try adoption.run()
            Issue.record("a store was adopted")
        } catch let error as ToolError {
            #expect(error.code == .alreadyStore)
        }
    }

    @Test(
        "an adoption that is cancelled leaves the file as it was",
        arguments: [ToolProgress.Phase.readingSource, .copyingFile, .verifyingCopy])
    func cancelledAdoption(_ phase: ToolProgress.Phase) throws {
        try fixture.makeStandard()
        let before = FolderSnapshot(of: fixture.folder)
        let record = ProgressRecord(cancellingIn: phase)
        #expect(throws: CancellationError.self) {
            try StoreAdoption(fixture.store, unlockedBy: fixture.source)
                .run(isCancelled: record.isCancelled, progress: record.add)
        }
        #expect(fixture.changes(since: before) == [])
        #expect(try !StoreAdoption(fixture.store, unlockedBy: fixture.source).run().completedEarlierAdoption)
    }

    @Test("a program that has the database open may not adopt it, and its locks stay")
    func ownDatabase() throws {
        try fixture.makeStandard()
        let pool = try fixture.openStandard()
        defer { try? pool.close() }
        try pool.write { try $0.execute(sql: "CREATE TABLE more (a)") }
        func locks() throws -> Int? { try SystemLocks.posixLocks(on: fixture.store)?.count }
        let before = try locks()
        #expect(before != 0)
        let adoption = StoreAdoption(fixture.store, unlockedBy: fixture.source)
        #expect(throws: StoreError.self) { try adoption.run() }
        #expect(try locks() == before)
    }

    @Test("a plain database that is longer than its pages, as browsers allocate it, is imported")
    func allocatedInChunks() throws {
        // Story: import said that its plaintext header is damaged.
        try fixture.makePlain()
        func hash() throws -> ContentHash {
            let plain = try PlainSource.open(fixture.plain)
            defer { try? plain.close() }
            return try plain.read { try ContentHash.of($0) }
        }
        let before = try hash()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.plain))
        let bytes = try file.seekToEnd()
        try file.truncate(atOffset: bytes + (1 << 20))
        try file.close()
        #expect(try hash() == before)
        let report = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        #expect(report.rowCount == ToolFixture.rows && report.contentHash == before)
        #expect(report.notices.contains { $0.contains("the last 1048576 bytes") }, "\(report.notices)")
    }

    @Test("the error for a plain database that was cut does not recommend what has just failed")
    func truncatedPlain() throws {
        try fixture.makePlain()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.plain))
        try file.truncate(atOffset: 16384)
        try file.close()
        let error = #expect(throws: ToolError.self) {
            try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        }
        #expect(error?.code == .notPlain && error?.remedy.contains("cipherctl import") == false, "\(error as Any)")
    }

    @Test("a database of SQLCipher that is longer than its pages is adopted without its tail")
    func adoptedInChunks() throws {
        try fixture.makeStandard()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        let bytes = try file.seekToEnd()
        try file.truncate(atOffset: bytes + (1 << 20))
        try file.close()
        try StoreAdoption(fixture.store, unlockedBy: fixture.source).run()
        #expect(try StoreVerification(fixture.store, unlockedBy: fixture.source).run().isSound)
        #expect(try Files.byteCount(fixture.store) == Int(bytes))
    }
}
