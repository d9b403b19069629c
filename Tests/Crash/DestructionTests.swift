import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Destructions of a store that are interrupted by a kill or a power failure.
@Suite(.serialized) struct DestructionTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func names(_ folder: TemporaryFolder? = nil) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: (folder ?? self.folder).url.path).sorted()
    }

    private func makeStore() throws {
        let actor = try ActorProcess()
        #expect(actor.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 3") == "ok")
        // Killed, so that its WAL has commits that the file does not have.
        actor.kill()
        for name in ["app.db-rotating", "app.db-sidecar.damaged", "app.db-keylog.1"] {
            try Data().write(to: URL(fileURLWithPath: folder.path(name)))
        }
    }

    /// The result of an opening for writing: `open`, or the name of the error and whether it reports the destruction.
    private func opening(_ path: String) -> String {
        do {
            try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
            return "open"
        } catch let error as StoreError {
            return error.code.name + (error.why.contains("the destruction was interrupted") ? ", destroyed" : "")
        } catch {
            return "\(error)"
        }
    }

    @Test(
        "a destruction that is killed anywhere leaves the store, or one that says what it is; the next one completes it",
        arguments: CrashPoint.ofDestruction)
    func killed(_ point: CrashPoint) throws {
        try makeStore()
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask("destroy \(path)") == nil, "the process did not pass \(point)")
        #expect(victim.diedBySignal())
        let left = try names()
        switch point {
        case .destroyLocked: #expect(opening(path) == "open" && StoreProof.problems(path).isEmpty)
        case .destroyDatabaseRemoved, .destroyKeyLogSetAside, .destroyLockRemoved:
            #expect(left.allSatisfy { $0.hasPrefix("app.db-lock") || $0.hasPrefix("app.db-keylog") }, "\(left)")
            // The key log is removed last.
            #expect(left.contains { $0.hasPrefix("app.db-keylog") })
        default:
            #expect(!left.contains("app.db") && left.contains("app.db-destroying") && left.contains("app.db-keylog"))
            let before = FolderSnapshot(of: folder)
            #expect(opening(path) == "noSuchStore, destroyed")
            let reader = #expect(throws: StoreError.self) {
                _ = try SharedStore.openReadOnly(at: path, unlockedBy: TestKeys.source("raw"))
            }
            #expect(reader?.why.contains("the destruction was interrupted") == true)
            #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
        }
        let next = try ActorProcess()
        let answer = next.ask("destroy \(path)") ?? "died"
        #expect(answer.hasPrefix("ok"), "\(answer)")
        #expect(try names() == [])
        #expect(next.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(next.ask("count migrated") == "ok 1")
    }

    @Test("a store that is made where one was destroyed up to its lock and key log is sound")
    func createdOverRemains() throws {
        try makeStore()
        let victim = try ActorProcess(crashAt: CrashPoint.destroyDatabaseRemoved.rawValue)
        #expect(victim.ask("destroy \(path)") == nil)
        #expect(opening(path) == "open")
        #expect(StoreProof.problems(path).isEmpty)
    }

    /// Openers of a complete store once reported that it was destroyed and that `destroy` completes the destruction,
    /// which then removed the complete store.
    @Test(
        "a whole store that is put where a destruction was interrupted opens, and is not destroyed in completing that",
        arguments: [CrashPoint.destroyLogRemoved, .destroyCompanionsRemoved])
    func storeOverRemains(_ point: CrashPoint) throws {
        let other = TemporaryFolder()
        let source = TestKeys.source("raw")
        let whole = try SharedStore.open(at: other.path("app.db"), unlockedBy: source)
        try whole.write { try $0.execute(sql: "CREATE TABLE whole AS SELECT 7 AS a") }
        try whole.close()
        try makeStore()
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask("destroy \(path)") == nil)
        for name in try names(other) where !name.hasSuffix("-lock") {
            try? FileManager.default.removeItem(atPath: folder.path(name))
            try FileManager.default.moveItem(atPath: other.path(name), toPath: folder.path(name))
        }
        #expect(try Files.byteCount(path + "-destroying") ?? 0 > 0)
        let reader = try #require(try SharedStore.openReadOnly(at: path, unlockedBy: source))
        #expect(try reader.read { try Int.fetchOne($0, sql: "SELECT a FROM whole") } == 7)
        try reader.close()
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(TestKeys.rawKey)) }
        let pool = try DatabasePool(path: path, configuration: configuration)
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT a FROM whole") } == 7)
        try pool.close()
        #expect(opening(path) == "open")
        let before = FolderSnapshot(of: folder)
        let error = #expect(throws: StoreError.self) { try SharedStore.destroy(at: path) }
        #expect(error?.code == .alreadyExists && error?.remedy.contains("app.db-destroying") == true)
        #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
        // Follows the remedy in the error.
        try FileManager.default.removeItem(atPath: path + "-destroying")
        #expect(opening(path) == "open" && StoreProof.problems(path).isEmpty)
        try SharedStore.destroy(at: path)
        #expect(try names().isEmpty)
    }

    /// It once checked for an interrupted destruction only before it copied the database.
    @Test("a restoration refuses a place where a destruction was interrupted while it copied")
    func restorationOverRemains() throws {
        let other = TemporaryFolder()
        let store = try SharedStore.open(at: other.path("app.db"), unlockedBy: TestKeys.source("raw"))
        try store.backup(toFolder: other.path("backup"))
        try store.close()
        let opening = try LockFile(path: path + "-lock", likeFile: nil).tryLock(.opening, .exclusive)
        let restoring = try ActorProcess()
        restoring.send("restore \(other.path("backup")) \(path) raw")
        #expect(waitUntil { FileManager.default.fileExists(atPath: path + "-restoring") })
        try Data("former".utf8).write(to: URL(fileURLWithPath: path + "-destroying"))
        opening?.release()
        let answer = restoring.answer() ?? "died"
        #expect(answer.contains("noSuchStore") && answer.contains("the destruction was interrupted"), "\(answer)")
        #expect(try names() == ["app.db-destroying", "app.db-lock"])
    }

    @Test("an empty file that another program made at the path of a destroyed store changes nothing of that")
    func emptyFile() throws {
        try makeStore()
        let victim = try ActorProcess(crashAt: CrashPoint.destroyCompanionsRemoved.rawValue)
        #expect(victim.ask("destroy \(path)") == nil)
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(opening(path) == "noSuchStore, destroyed")
        try SharedStore.destroy(at: path)
        #expect(try names().isEmpty)
    }

    @Test(
        "a power cut in a destruction leaves the store, or one that is reported as destroyed or gone, never as damaged",
        arguments: [0, 0.5, 0.9])
    func powerCut(keeping likelihood: Double) throws {
        let seed = Seed()
        let other = TemporaryFolder()
        let actor = try ActorProcess()
        #expect(actor.ask("record-calls \(folder.url.path)* \(other.path("calls"))") == "ok")
        for command in ["open \(path) raw", "mark 3", "close"] {
            #expect(actor.ask(command)?.hasPrefix("ok") == true, "\(command)")
        }
        let before = try SystemCallLog(contentsOf: other.path("calls")).calls.count
        #expect(actor.ask("destroy \(path)")?.hasPrefix("ok") == true)
        actor.end()
        #expect(try names().isEmpty)
        let calls = try SystemCallLog(contentsOf: other.path("calls")).calls
        #expect(calls.count > before + 8)
        var numbers = seed.numbers(Int(likelihood * 10))
        var seen: Set<String> = []
        for count in before...calls.count {
            let disk = TemporaryFolder()
            try PowerCut(after: calls[..<count]).restore(
                from: folder.url.path, to: disk.url.path, keeping: likelihood, ignoring: ["-shm"], using: &numbers)
            let place = disk.path("app.db")
            let isThere = FileManager.default.fileExists(atPath: place)
            let isAnnounced = FileManager.default.fileExists(atPath: place + "-destroying")
            let found = isThere || isAnnounced ? opening(place) : "none"
            #expect(
                ["open", "noSuchStore, destroyed", "none"].contains(found), "\(seed) after call \(count): \(found)")
            seen.insert(found)
            do {
                try SharedStore.destroy(at: place)
            } catch StoreError.noSuchStore {}
            #expect(try names(disk) == [], "\(seed) after call \(count)")
        }
        #expect(seen == ["open", "noSuchStore, destroyed", "none"], "\(seed)")
    }
}
