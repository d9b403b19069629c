import CipherStore
import Foundation
import StorePlatform
import TestHarness
import TestKit
import Testing

/// Databases that were opened by a relative path, in a process that changes its current directory afterwards.
///
/// The current directory belongs to the whole process, so each test runs in one of its own.
@Suite struct ChangedDirectoryTests {
    private let folder = TemporaryFolder()

    /// The directory where the databases are, and the one to which the process goes.
    private func directories() throws -> (home: String, away: String) {
        for name in ["home", "away"] {
            try FileManager.default.createDirectory(atPath: folder.path(name), withIntermediateDirectories: false)
        }
        let key = folder.path("home") + "/app.key"
        try Data("a passphrase of the store\n".utf8).write(to: URL(fileURLWithPath: key))
        #expect(chmod(key, 0o600) == 0)
        return (folder.path("home"), folder.path("away"))
    }

    private static func count(_ reader: any DatabaseReader) throws -> Int? {
        try reader.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    }

    private static func insert(_ writer: any DatabaseWriter) throws {
        try writer.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)")
            try db.execute(sql: "INSERT INTO t VALUES (1)")
        }
    }

    /// The faults of a process whose other failures are errors.
    private struct Wrong: Error {
        let step: String
        init(_ step: String) { self.step = step }
    }

    private static func require(_ condition: Bool, _ step: String) throws { if !condition { throw Wrong(step) } }

    private static func change(to directory: String) throws { try require(chdir(directory) == 0, "chdir") }

    // Story: new readers, keys, backups and rotations failed after chdir, and a resumed store made an empty s.db in the
    // new directory and advised to move the healthy sidecar away.
    @Test("a shared store goes on after chdir: readers, keys, backups, pauses, its key file", .timeLimit(.minutes(3)))
    func sharedStore() async throws {
        let (home, away) = try directories()
        await #expect(processExitsWith: .success) { [home = home as String, away = away as String] in
            let key = try Self.keySource(in: home)
            let store = try Self.openAndRead(key, away)
            try await Self.require(store.suspend(deadline: .seconds(5)).isReleased, "suspend")
            store.resume()
            try Self.administer(store, key, home)
            try Self.require(Files.names(inDirectory: away).isEmpty, "nothing in the new directory")
        }
        #expect(try Files.names(inDirectory: home).contains("s.db"))
    }

    private static func keySource(in home: String) throws -> KeySource {
        try change(to: home)
        return .keyFile(path: "app.key")
    }

    private static func openAndRead(_ key: KeySource, _ away: String) throws -> SharedStore {
        let store = try SharedStore.open(at: "s.db", unlockedBy: key)
        try insert(store)
        try change(to: away)
        // The first reader and a second one are opened here.
        let counts = try store.read { db in
            try [Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t"), count(store.makeSnapshot())]
        }
        try require(counts == [1, 1], "counts")
        return store
    }

    private static func administer(_ store: SharedStore, _ key: KeySource, _ home: String) throws {
        try insert(store)
        try require(count(store) == 2, "rows after the resume")
        _ = try store.keys.add(.rawKey([UInt8](repeating: 9, count: 32)))
        try store.backup(toFolder: home + "/backup")
        try store.checkpoint()
        try store.close()
        // The source was made in the former directory.
        let again = try SharedStore.open(at: home + "/s.db", unlockedBy: key)
        try require(count(again) == 2, "rows of the next opening")
        try again.close()
    }

    @Test("pools and queues go on after chdir, and tell their absolute path", .timeLimit(.minutes(3)))
    func pools() async throws {
        let (home, away) = try directories()
        await #expect(processExitsWith: .success) { [home = home as String, away = away as String] in
            try Self.usePools(home, away)
        }
    }

    private static func usePools(_ home: String, _ away: String) throws {
        try change(to: home)
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let pool = try DatabasePool(path: "p.db", configuration: configuration)
        let queue = try DatabaseQueue(path: "file:q.db", configuration: configuration)
        let memory = try DatabaseQueue(path: ":memory:", configuration: configuration)
        let temporary = try DatabaseQueue(path: "", configuration: configuration)
        try require(memory.path == ":memory:" && temporary.path.isEmpty, "paths of databases without a file")
        for writer in [pool, queue, memory, temporary] as [any DatabaseWriter] { try insert(writer) }
        try change(to: away)
        try require(count(pool) == 1 && count(pool.makeSnapshot()) == 1, "rows of the pool")
        try require(count(queue) == 1 && count(memory) == 1, "rows of the queues")
        try require(pool.path == home + "/p.db" && queue.path == home + "/file:q.db", "paths")
        try pool.checkpoint()
        try pool.close()
        try queue.close()
        try require(Files.names(inDirectory: away).isEmpty, "nothing in the new directory")
    }

    @Test("coordination, notifications and URLs keep the file that a relative path named", .timeLimit(.minutes(3)))
    func coordination() async throws {
        let (home, away) = try directories()
        await #expect(processExitsWith: .success) { [home = home as String, away = away as String] in
            try Self.coordinate(home, away)
        }
    }

    private static func coordinate(_ home: String, _ away: String) throws {
        try change(to: home)
        let url = URL(fileURLWithPath: "u.db")
        let store = try SharedStore.open(at: url, unlockedBy: .keyFile(path: "app.key"))
        let isPosted = Flag()
        let observation = try CrossProcessNotification.observe(name: "n", in: "u.db") { isPosted.set() }
        try FileCoordinator().coordinate(writingItemAt: url) { _ in try change(to: away) }
        try insert(store)
        try CrossProcessNotification.post(name: "n", in: home + "/u.db")
        try require(waitUntil(within: .seconds(20)) { isPosted.isSet }, "notification")
        observation.cancel()
        try store.close()
        try require(Files.names(inDirectory: away).isEmpty, "nothing in the new directory")
    }
}

/// A process that has no file descriptor left.
@Suite struct DescriptorShortageTests {
    private let folder = TemporaryFolder()

    // Story: "unable to open database file" did not say that descriptors were missing.
    @Test("a connection that finds no descriptor says so, and the next one succeeds", .timeLimit(.minutes(3)))
    func shortage() async throws {
        await #expect(processExitsWith: .success) { [path = folder.path("app.db") as String] in
            try Self.exhaust(path)
        }
    }

    private static func exhaust(_ path: String) throws {
        struct Wrong: Error { let text: String }
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        for spare in 0..<6 {
            var taken: [Int32] = []
            while case let number = dup(0), number >= 0 { taken.append(number) }
            for _ in 0..<spare { if let number = taken.popLast() { close(number) } }
            var text = ""
            do { _ = try store.makeSnapshot() } catch { text = "\(error)" }
            for number in taken { close(number) }
            guard text.isEmpty || text.contains("Too many open files") else { throw Wrong(text: text) }
        }
        _ = try store.makeSnapshot()
        try store.close()
    }
}

/// A migrator that may erase all rows, and a store that others may have open.
@Suite struct RefusedErasureTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    private func migrator(_ column: String, erases: Bool = false) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.eraseDatabaseOnSchemaChange = erases
        migrator.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE t (\(column))") }
        return migrator
    }

    // Story: the flag was ignored unless a migration was pending, and erased the rows of live peers otherwise.
    @Test("a shared store refuses a migrator that may erase it, and keeps its rows", arguments: [false, true])
    func refused(isPending: Bool) throws {
        let store = try SharedStore.open(at: path, unlockedBy: source, migrator: migrator("a"))
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        var changed = migrator("b", erases: true)
        if isPending { changed.registerMigration("v2") { try $0.execute(sql: "CREATE TABLE u (a)") } }
        func refusal(_ body: () throws -> Void) -> StoreError? {
            #expect(throws: StoreError.self) { try body() }
        }
        let opening = refusal { _ = try SharedStore.open(at: path, unlockedBy: source, migrator: changed) }
        #expect(opening?.code == .erasureRefused && opening?.remedy.contains("eraseDatabaseOnSchemaChange") == true)
        #expect(refusal { try changed.migrate(store) }?.code == .erasureRefused)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 1)
        let new = refusal {
            _ = try SharedStore.open(at: folder.path("new.db"), unlockedBy: source, migrator: changed)
        }
        #expect(new?.code == .erasureRefused && !FileManager.default.fileExists(atPath: folder.path("new.db")))
    }
}
