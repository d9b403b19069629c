import CipherStore
import Foundation
import Synchronization
import TestKit
import Testing

/// The symptoms in the table of `Docs/Sharing.md`: each is produced, and its text leads to a row of the table.
@Suite(.serialized) struct SharingDocumentTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    /// The first cells of the table under "When it does not work".
    private static func symptoms() throws -> [String] {
        var root = URL(fileURLWithPath: #filePath)
        while !FileManager.default.fileExists(atPath: root.appending(path: "Package.swift").path) {
            root.deleteLastPathComponent()
        }
        let text = try String(contentsOf: root.appending(path: "Docs/Sharing.md"), encoding: .utf8)
        let section = try #require(text.components(separatedBy: "## When it does not work").last)
        return section.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| what") }
            .compactMap { $0.split(separator: "|").first.map { $0.trimmingCharacters(in: .whitespaces) } }
    }

    /// Expects that a message leads to a row: it contains all quoted words of that row's first cell, except names and
    /// numbers of processes.
    private func expect(
        _ said: String, leadsTo words: String..., at location: SourceLocation = #_sourceLocation
    ) throws {
        let row = try Self.symptoms().first { row in words.allSatisfy { row.contains($0) } }
        #expect(row != nil, "no row has \(words)", sourceLocation: location)
        for word in words { #expect(said.contains(word), "\(said)", sourceLocation: location) }
    }

    private func open(_ configuration: Configuration = Configuration()) throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: source, configuration: configuration)
    }

    private func actor(_ manner: String = "") throws -> ActorProcess {
        let actor = try ActorProcess()
        #expect(actor.ask("open \(path) raw \(manner)")?.hasPrefix("ok") == true)
        return actor
    }

    @Test("a writer that is stopped in its transaction is named, with its state, by who cannot write")
    func stoppedWriter() throws {
        let holder = try actor()
        let other = try actor("0.2")
        #expect(holder.ask("hold-write") == "ok held")
        kill(holder.processIdentifier, SIGSTOP)
        #expect(waitUntil { holder.isStopped })
        let said = other.ask("mark 1") ?? "died"
        kill(holder.processIdentifier, SIGCONT)
        try expect(said, leadsTo: "database is locked", "stopped", "is writing")
        #expect(said.contains("process \(holder.processIdentifier)"))
    }

    @Test("without -wal and -shm a reader says which are missing, and a writer's opening makes them")
    func missingLog() throws {
        try open().close()
        for end in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + end) }
        guard geteuid() == 0 else { return }
        let stranger = try ActorProcess()
        for end in ["", "-lock", "-sidecar", "-sidecar.bak"] { chmod(path + end, 0o644) }
        chmod(folder.url.path, 0o755)
        #expect(stranger.ask("become 65534") == "ok")
        try expect(stranger.ask("open-read-only \(path) raw") ?? "died", leadsTo: "walMissing")
        try open().close()
        for end in ["-wal", "-shm"] { chmod(path + end, 0o644) }
        let said = stranger.ask("open-read-only \(path) raw") ?? "died"
        #expect(said.hasPrefix("ok"), "\(said)")
    }

    @Test("a store that is not there, and one of another schema, are nil to a reader")
    func nilReader() throws {
        #expect(try SharedStore.openReadOnly(at: path, unlockedBy: source) == nil)
        try open().close()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("later") { try $0.execute(sql: "CREATE TABLE later (a)") }
        #expect(try SharedStore.openReadOnly(at: path, unlockedBy: source, migrator: migrator) == nil)
        #expect(try Self.symptoms().contains { $0.contains("`openReadOnly` returns nil") })
    }

    @Test("a write while the store is suspended says so")
    func suspended() async throws {
        let store = try open()
        await store.suspend(deadline: .seconds(5))
        let error = await #expect(throws: DatabaseError.self) {
            try await store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        }
        try expect("\(error?.description ?? "") SQLITE_ABORT", leadsTo: "Database is suspended", "SQLITE_ABORT")
        #expect(error?.resultCode == .SQLITE_ABORT)
        store.resume()
        try await store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try store.close()
    }

    @Test("a read sees one moment; the next one sees what others have changed")
    func unseenChanges() throws {
        let other = try actor()
        let store = try open()
        let counting: (Database) throws -> Int = { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") ?? -1 }
        let before = try store.read(counting)
        let snapshot = try store.makeSnapshot()
        #expect(other.ask("mark 3") == "ok")
        #expect(try snapshot.read(counting) == before)
        #expect(try store.read(counting) == before + 3)
        #expect(try Self.symptoms().contains { $0.contains("not seen") })
        try snapshot.close()
        try store.close()
    }

    @Test("a reader of another process that lasts too long is named in the report")
    func longReader() throws {
        let reports = Mutex<[String]>([])
        var config = Configuration()
        config.checkpointFrames = 20
        config.readerAgeLimit = .zero
        config.onNotice = { notice in reports.withLock { $0.append(notice) } }
        let reader = try actor()
        let store = try open(config)
        #expect(reader.ask("hold-read") == "ok held")
        for _ in 0..<60 { try store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES (randomblob(4000))") } }
        let blockage = try #require(store.checkpointStatistics.blockage)
        #expect(blockage.readers.map(\.processID) == [reader.processIdentifier])
        #expect(waitUntil { reports.withLock { $0.contains { $0.contains("cannot shrink") } } })
        try expect(reports.withLock { $0.joined(separator: " ") }, leadsTo: "cannot shrink")
        #expect(reader.ask("go on")?.hasPrefix("ok") == true)
        try store.checkpoint()
        #expect(store.checkpointStatistics.blockage == nil)
        try store.close()
    }

    @Test("a file that took the place of an open store is told from it")
    func moved() throws {
        let store = try open()
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try FileManager.default.moveItem(atPath: path, toPath: folder.path("old.db"))
        let error = #expect(throws: StoreError.self) {
            try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        }
        let said = error.map { "\($0.code.name) \($0.what)" } ?? ""
        try expect(said, leadsTo: "storeMoved", "is not the file that is open")
        try? store.close()
    }

    @Test("a database that is gone, and one whose destruction was interrupted, are reported as what they are")
    func goneAndDestroyed() throws {
        func said() -> String {
            let error = #expect(throws: StoreError.self) { try open().close() }
            return error.map { "\($0)" } ?? ""
        }
        try open().close()
        let victim = try ActorProcess(crashAt: "destroySidecarRemoved")
        try FileManager.default.copyItem(atPath: path, toPath: folder.path("saved"))
        try FileManager.default.removeItem(atPath: path)
        try expect(said(), leadsTo: "databaseMissing", "is gone")
        try FileManager.default.moveItem(atPath: folder.path("saved"), toPath: path)
        #expect(victim.ask("destroy \(path)") == nil)
        try expect(said(), leadsTo: "noSuchStore", "the destruction was interrupted")
        try Data("another".utf8).write(to: URL(fileURLWithPath: path))
        let refused = #expect(throws: StoreError.self) { try SharedStore.destroy(at: path) }
        try expect(refused.map { "\($0)" } ?? "", leadsTo: "alreadyExists", "two databases at the place")
        try FileManager.default.removeItem(atPath: path)
        try SharedStore.destroy(at: path)
        try open().close()
    }

    @Test("a store that was opened before a fork is refused in the child")
    func forked() throws {
        let parent = try actor()
        try expect(parent.ask("fork-and-read") ?? "died", leadsTo: "was opened before this process was forked")
    }
}
