import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Opening for reading only: stores that do not exist yet, stores that cannot be opened, and readers without rights.
@Suite struct ReadOnlyTests {
    /// A user without any rights, if this process may become one.
    private static let nobody = "65534"
    private static var isRoot: Bool { geteuid() == 0 }
    private static let needsRoot: Comment = "only root can start a process of another user"

    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    private var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("one") { try $0.execute(sql: "CREATE TABLE one (a)") }
        migrator.registerMigration("two") { try $0.execute(sql: "CREATE TABLE two (a)") }
        return migrator
    }

    private func create() throws {
        var config = Configuration()
        // For readers of other users: by default only the owner can access a new store.
        config.fileMode = 0o644
        let store = try SharedStore.open(at: path, unlockedBy: source, configuration: config, migrator: migrator)
        try store.write { try $0.execute(sql: "INSERT INTO one VALUES (1)") }
        try store.close()
    }

    /// The result of an opening for reading only, which may create or change no file.
    private func openReadOnly(
        _ migrator: DatabaseMigrator? = nil, key: String = "raw", at location: SourceLocation = #_sourceLocation
    ) throws -> Int? {
        let before = FolderSnapshot(of: folder)
        defer {
            // The wal-index is shared memory, in which readers set read marks, and so is the table of holders in the
            // lock file.
            let changes = before.changes(until: FolderSnapshot(of: folder)).filter {
                !$0.hasSuffix("-shm") && !$0.hasSuffix("-lock")
            }
            #expect(changes.isEmpty, sourceLocation: location)
        }
        guard
            let store = try SharedStore.openReadOnly(
                at: path, unlockedBy: TestKeys.source(key), migrator: migrator ?? self.migrator)
        else { return nil }
        defer { try? store.close() }
        #expect(throws: DatabaseError.self, sourceLocation: location) {
            try store.write { try $0.execute(sql: "DELETE FROM one") }
        }
        return try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM one") }
    }

    // MARK: No store yet

    @Test("a store that is not created yet is nil: no directory, no file, an empty file")
    func notCreated() throws {
        #expect(try SharedStore.openReadOnly(at: folder.path("no/app.db"), unlockedBy: source) == nil)
        #expect(try openReadOnly() == nil)
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(try openReadOnly() == nil)
    }

    @Test("a store whose creation was cut is nil until another process takes it up", arguments: CrashPoint.ofCreation)
    func creating(_ point: CrashPoint) throws {
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask("open \(path) raw") == nil)
        let reader = try ActorProcess()
        let isReady = point == .storeCreated || point == .storeMigrated
        let answer = reader.ask("open-read-only \(path) raw")
        if point == .storeMigrated {
            #expect(answer?.hasPrefix("ok ") == true && answer != "ok nil", "\(answer ?? "")")
        } else {
            // After its creation its schema is still too old.
            #expect(answer == "ok nil", "\(isReady)")
        }
        let next = try ActorProcess()
        #expect(next.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(reader.ask("open-read-only \(path) raw")?.count == "ok ".count + 32)
        #expect(reader.ask("count migrated") == "ok 1")
    }

    @Test("a store whose schema is older or newer than the program's is nil; without a migrator any schema is taken")
    func otherSchema() throws {
        try create()
        #expect(try openReadOnly() == 1)
        var newer = migrator
        newer.registerMigration("three") { try $0.execute(sql: "CREATE TABLE three (a)") }
        #expect(try openReadOnly(newer) == nil)
        var older = DatabaseMigrator()
        older.registerMigration("one") { try $0.execute(sql: "CREATE TABLE one (a)") }
        #expect(try openReadOnly(older) == nil)
        let store = try #require(try SharedStore.openReadOnly(at: path, unlockedBy: source))
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM one") } == 1)
    }

    // MARK: Errors

    @Test("a store that exists and cannot be opened is an error, never nil")
    func errors() throws {
        try create()
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(storeError { try openReadOnly(key: "other") } == .wrongKey)
        let harms: [(StoreError.Code, (inout Data) -> Void)] = [
            (.pageDamaged(1), { $0[50] ^= 1 }), (.headerDamaged, { $0[20] ^= 1 }), (.emptyFile, { $0 = Data() }),
            (.truncated, { $0 = $0.prefix(100) }), (.notEncrypted, { $0 = Data(repeating: 0x20, count: 4096) }),
        ]
        for (code, harm) in harms {
            var damaged = whole
            harm(&damaged)
            try damaged.write(to: URL(fileURLWithPath: path))
            #expect(storeError { try openReadOnly() } == code)
        }
        try whole.write(to: URL(fileURLWithPath: path))
        for name in ["-sidecar", "-sidecar.bak"] {
            try FileManager.default.moveItem(atPath: path + name, toPath: path + name + ".away")
        }
        #expect(storeError { try openReadOnly() } == .saltMissing)
        // One copy is enough, and a process that only reads does not write the other.
        try FileManager.default.moveItem(atPath: path + "-sidecar.bak.away", toPath: path + "-sidecar.bak")
        #expect(try openReadOnly() == 1)
        #expect(!FileManager.default.fileExists(atPath: path + "-sidecar"))
        #expect(storeError { try SharedStore.openReadOnly(at: folder.url.path, unlockedBy: source) } == .noSuchStore)
    }

    @Test("a file cut at its end is an error for readers too, even where the schema can still be read")
    func truncated() throws {
        try create()
        let store = try SharedStore.open(at: path, unlockedBy: source)
        try store.write { db in
            for _ in 1...100 { try db.execute(sql: "INSERT INTO two VALUES (randomblob(900))") }
        }
        try store.close()
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        try whole.dropLast(4096).write(to: URL(fileURLWithPath: path))
        #expect(storeError { try openReadOnly() } == .truncated)
        try whole.write(to: URL(fileURLWithPath: path))
        #expect(try openReadOnly() == 1)
    }

    // MARK: Another user

    /// A process without rights, that has tried to open the store for reading.
    private func stranger(_ expected: String? = nil, at location: SourceLocation = #_sourceLocation) throws -> (
        process: ActorProcess, answer: String
    ) {
        let process = try ActorProcess()
        #expect(process.ask("become \(Self.nobody)") == "ok", sourceLocation: location)
        let answer = process.ask("open-read-only \(path) raw") ?? "died"
        if let expected { #expect(answer.hasPrefix(expected), "\(answer)", sourceLocation: location) }
        return (process, answer)
    }

    @Test(
        "a user who may not write anything reads nothing before the first writer, its commits beside it, and all after it",
        .enabled(if: isRoot, needsRoot))
    func withoutRights() throws {
        // Before the first writer no store exists, and no file is created.
        _ = try stranger("ok nil")
        #expect(FolderSnapshot(of: folder).names.isEmpty)
        let writer = try ActorProcess()
        #expect(writer.ask("create-shared \(path) raw 644")?.hasPrefix("ok ") == true)
        let reader = try stranger("ok ").process
        #expect(reader.ask("total") == "ok 1")
        #expect(writer.ask("mark 3") == "ok")
        #expect(reader.ask("total") == "ok 4")
        #expect(reader.ask("mark 1")?.hasPrefix("error SQLite-8") == true)
        #expect(writer.ask("close") == "ok")
        #expect(reader.ask("total") == "ok 4")
        #expect(reader.ask("close") == "ok")
        // No process has it open now: the WAL and its index were kept.
        let before = FolderSnapshot(of: folder)
        let late = try stranger("ok ").process
        #expect(late.ask("total") == "ok 4")
        #expect(late.ask("check") == "ok ok")
        late.end()
        #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
        // A writer can still write.
        #expect(writer.ask("create-shared \(path) raw 644")?.hasPrefix("ok ") == true)
        #expect(writer.ask("mark 1") == "ok")
        #expect(writer.ask("total") == "ok 5")
        // As the last to close, a writer empties the WAL, which a reader may not.
        #expect(writer.ask("close") == "ok")
        #expect(try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int == 0)
        #expect(FileManager.default.fileExists(atPath: path + "-shm"))
        #expect(try stranger("ok ").process.ask("total") == "ok 5")
    }

    @Test(
        "a writer killed with commits in the log leaves them to readers without rights", .enabled(if: isRoot, needsRoot)
    )
    func afterKill() throws {
        let writer = try ActorProcess()
        #expect(writer.ask("create-shared \(path) raw 644")?.hasPrefix("ok ") == true)
        #expect(writer.ask("mark 7") == "ok")
        writer.kill()
        let before = FolderSnapshot(of: folder)
        let reader = try stranger("ok ").process
        #expect(reader.ask("total") == "ok 8")
        #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
    }

    @Test(
        "a user without rights reads in the middle of a checkpoint, after it was killed there, and after the next one",
        .enabled(if: isRoot, needsRoot), arguments: [1, 2, 3])
    func duringCheckpoint(write: Int) throws {
        let writer = try ActorProcess()
        #expect(writer.ask("create-shared \(path) raw 644")?.hasPrefix("ok ") == true)
        #expect(writer.ask("mark 20") == "ok")
        let early = try stranger("ok ").process
        #expect(writer.ask("fill 30000") == "ok")
        #expect(writer.ask("stop-at-call \(path) write \(write)") == "ok")
        writer.send("checkpoint")
        #expect(waitUntil { writer.isStopped })
        #expect(early.ask("total") == "ok 22")
        let late = try stranger("ok ").process
        for reader in [early, late] {
            #expect(reader.ask("total") == "ok 22")
            #expect(reader.ask("check") == "ok ok")
        }
        writer.kill()
        for reader in [early, late, try stranger("ok ").process] {
            #expect(reader.ask("total") == "ok 22")
            #expect(reader.ask("check") == "ok ok")
        }
        let next = try ActorProcess()
        #expect(next.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(next.ask("mark 1") == "ok")
        #expect(next.ask("checkpoint")?.hasPrefix("ok ") == true)
        #expect(next.ask("close") == "ok")
        #expect(early.ask("total") == "ok 23")
        for reader in [early, late] { reader.end() }
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test(
        "a user without rights reads on while a writer is killed in the middle of a commit",
        .enabled(if: isRoot, needsRoot), arguments: 1...4)
    func whileKilled(write: Int) throws {
        let writer = try ActorProcess()
        #expect(writer.ask("create-shared \(path) raw 644")?.hasPrefix("ok ") == true)
        #expect(writer.ask("mark 20") == "ok")
        let reader = try stranger("ok ").process
        #expect(reader.ask("hold-read") == "ok held")
        #expect(writer.ask("die-at-call \(path)-wal write \(write) torn") == "ok")
        #expect(writer.ask("fill 30000") == nil)
        #expect(reader.ask("release") == "ok 21 21")
        #expect(reader.ask("total") == "ok 21")
        let late = try stranger("ok ").process
        #expect(late.ask("total") == "ok 21")
        for reader in [reader, late] { reader.end() }
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("a missing log or index is told to a user who may not make it", .enabled(if: isRoot, needsRoot))
    func missingLog() throws {
        try create()
        for name in ["-wal", "-shm"] {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path + name))
            try FileManager.default.removeItem(atPath: path + name)
            let before = FolderSnapshot(of: folder)
            let answer = try stranger("error walMissing").answer
            #expect(answer.contains("app.db\(name)") && answer.contains("as the owner of its folder"))
            #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
            try bytes.write(to: URL(fileURLWithPath: path + name))
        }
        try FileManager.default.removeItem(atPath: path + "-wal")
        try FileManager.default.removeItem(atPath: path + "-shm")
        _ = try stranger("error walMissing")
        // The remedy helps. The schema of this test is not the process's, hence nil.
        let store = try SharedStore.open(at: path, unlockedBy: source)
        try store.close()
        _ = try stranger("ok nil")
    }

    @Test(
        "a file that may not be read is named, whichever of the store's files it is", .enabled(if: isRoot, needsRoot),
        arguments: ["", "-wal", "-shm", "-sidecar"])
    func noPermission(name: String) throws {
        try create()
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + name)
        if name == "-sidecar" {
            // One copy is enough; without both it is an error.
            _ = try stranger("ok nil")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + "-sidecar.bak")
        }
        let answer = try stranger("error SystemError").answer
        #expect(answer.contains("app.db\(name)\"") && answer.contains("Permission denied"), "\(answer)")
    }

    @Test("a user without rights cannot open for writing, and is told which file", .enabled(if: isRoot, needsRoot))
    func writingWithoutRights() throws {
        try create()
        let before = FolderSnapshot(of: folder)
        let process = try ActorProcess()
        #expect(process.ask("become \(Self.nobody)") == "ok")
        for command in [
            "open \(path) raw", "open \(folder.path("new.db")) raw", "open-pool \(folder.path("new.db")) raw",
        ] {
            let answer = process.ask(command) ?? "died"
            #expect(answer.hasPrefix("error SystemError") && answer.contains("Permission denied"), "\(answer)")
            #expect(answer.contains(folder.url.path), "\(answer)")
        }
        #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
    }

    @Test("a directory that may not be entered is told as such", .enabled(if: isRoot, needsRoot))
    func closedDirectory() throws {
        try create()
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.url.path)
        let answer = try stranger("error SystemError").answer
        #expect(answer.contains("Permission denied") && answer.contains("app.db"), "\(answer)")
    }
}
