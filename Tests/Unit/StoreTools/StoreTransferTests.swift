import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

@Suite("Importing, exporting and adopting from a program")
struct StoreTransferTests {
    private let bench = ToolBench()

    private func importPlain(_ record: ProgressRecord = ProgressRecord()) throws -> StoreImport.Report {
        try StoreImport(of: bench.plain, to: bench.store, unlockedBy: bench.source)
            .run(isCancelled: record.isCancelled, progress: record.add)
    }

    // MARK: Import

    @Test("a plain database becomes a store with the same content, and progress never goes back")
    func imported() throws {
        try bench.makePlain()
        let record = ProgressRecord()
        let report = try importPlain(record)
        #expect(report.rowCount == ToolBench.rows && report.pageBytes == 4096 && report.notices == [])
        #expect(report.fileBytes == (try Files.byteCount(bench.store)) && report.path == bench.store)
        #expect(try bench.rowCount() == ToolBench.rows)
        record.expectMonotone()
        #expect(record.phases == [.copyingRows, .rereadingSource, .verifyingCopy])
        #expect(record.all.contains { $0.done == ToolBench.rows && $0.table == "note" })
        let source = try PlainSource.open(bench.plain)
        defer { try? source.close() }
        #expect(try source.read { try ContentHash.of($0) } == report.contentHash)
    }

    @Test(
        "an import that is cancelled leaves nothing",
        arguments: [ToolProgress.Phase.copyingRows, .rereadingSource, .verifyingCopy])
    func cancelled(_ phase: ToolProgress.Phase) throws {
        try bench.makePlain()
        let record = ProgressRecord(cancellingIn: phase)
        #expect(throws: CancellationError.self) { try importPlain(record) }
        #expect(record.phases.last == phase)
        #expect(bench.names() == ["plain.db"])
        #expect(try importPlain().rowCount == ToolBench.rows)
    }

    @Test("a task that is cancelled leaves nothing")
    func task() async throws {
        try bench.makePlain()
        let tool = StoreImport(of: bench.plain, to: bench.store, unlockedBy: bench.source)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await tool.run()
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(bench.names() == ["plain.db"])
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
        #expect(code(StoreImport(of: bench.plain, to: bench.store, unlockedBy: unasked)) == .noSuchFile)
        try Data("no database, but long enough for one".utf8).write(to: URL(fileURLWithPath: bench.plain))
        #expect(code(StoreImport(of: bench.plain, to: bench.store, unlockedBy: unasked)) == .notPlain)
        #expect(code(StoreImport(of: bench.plain, to: bench.path("a/b.db"), unlockedBy: unasked)) == .noDirectory)
        #expect(code(StoreImport(of: bench.plain, to: bench.plain, unlockedBy: unasked)) == .exists)
        #expect(bench.names() == ["plain.db"])
    }

    @Test("what a killed import had left is removed, with a notice")
    func abandoned() throws {
        try bench.makePlain()
        let left = bench.store + ".importing-1-0123abcd"
        try Files.makeDirectory(left)
        try Data("a copy".utf8).write(to: URL(fileURLWithPath: left + "/app.db"))
        let report = try importPlain()
        #expect(report.notices == ["removed \"\(left)\", which a killed import had left"])
        #expect(!Files.exists(left))
    }

    @Test("a program may import a database that it has open: its locks stay")
    func ownSource() throws {
        try bench.makePlain()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let pool = try DatabasePool(path: bench.plain, configuration: configuration)
        defer { try? pool.close() }
        try pool.write { try $0.execute(sql: "CREATE TABLE more (a)") }
        func locks() throws -> Int? { try SystemLocks.posixLocks(on: bench.plain)?.count }
        let before = try locks()
        #expect(before != 0)
        #expect(try importPlain().rowCount == ToolBench.rows)
        #expect(try locks() == before)
    }

    // MARK: Export

    @Test("a store becomes a plain database with the same content, for its owner alone, and comes back")
    func exported() throws {
        try bench.makeStore()
        let record = ProgressRecord()
        let report = try StoreExport(of: bench.store, toInsecurePlaintext: bench.plain, unlockedBy: bench.source)
            .run(progress: record.add)
        #expect(report.rowCount == ToolBench.rows)
        record.expectMonotone()
        #expect(try Files.status(of: bench.plain)?.permissions == 0o600)
        let back = try StoreImport(of: bench.plain, to: bench.path("back.db"), unlockedBy: bench.source).run()
        #expect(back.contentHash == report.contentHash)
    }

    @Test("an export that is cancelled leaves no plain row")
    func cancelledExport() throws {
        try bench.makeStore()
        let before = FolderSnapshot(of: bench.folder)
        let record = ProgressRecord(cancellingIn: .verifyingCopy)
        let export = StoreExport(of: bench.store, toInsecurePlaintext: bench.plain, unlockedBy: bench.source)
        #expect(throws: CancellationError.self) {
            try export.run(isCancelled: record.isCancelled, progress: record.add)
        }
        #expect(bench.changes(since: before) == [])
    }

    // MARK: Adoption

    @Test("an SQLCipher database becomes a store in its place, and is one then")
    func adopted() throws {
        try bench.makeStandard()
        let record = ProgressRecord()
        let adoption = StoreAdoption(bench.store, unlockedBy: bench.source)
        let report = try adoption.run(progress: record.add)
        record.expectMonotone()
        #expect(record.phases == [.readingSource, .copyingFile, .verifyingCopy])
        #expect(report.contentHash != nil && !report.completedEarlierAdoption && report.original == nil)
        #expect(try StoreVerification(bench.store, unlockedBy: bench.source).run().isSound)
        #expect(try bench.rowCount() == ToolBench.rows)
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
        try bench.makeStandard()
        let before = FolderSnapshot(of: bench.folder)
        let record = ProgressRecord(cancellingIn: phase)
        #expect(throws: CancellationError.self) {
            try StoreAdoption(bench.store, unlockedBy: bench.source)
                .run(isCancelled: record.isCancelled, progress: record.add)
        }
        #expect(bench.changes(since: before) == [])
        #expect(try !StoreAdoption(bench.store, unlockedBy: bench.source).run().completedEarlierAdoption)
    }
}
