import CipherDatabase
import CipherRecords
import Foundation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

@Suite("The program's block after a pull")
struct BlockAfterPullTests {
    private let folder = TemporaryFolder()
    /// A tracked table, and others that the block writes.
    private static let sql = """
        CREATE TABLE IF NOT EXISTS guild (id INTEGER PRIMARY KEY NOT NULL);
        CREATE TABLE IF NOT EXISTS player (
            id INTEGER PRIMARY KEY NOT NULL, name TEXT, guild INTEGER REFERENCES guild (id) ON DELETE CASCADE);
        CREATE TABLE IF NOT EXISTS seen (
            n INTEGER PRIMARY KEY, kind TEXT, player INTEGER REFERENCES player (id) ON DELETE CASCADE);
        CREATE TABLE IF NOT EXISTS counted (n INTEGER NOT NULL);
        INSERT INTO counted SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counted);
        CREATE TRIGGER IF NOT EXISTS counts AFTER INSERT ON seen BEGIN UPDATE counted SET n = n + 1; END
        """

    private struct Refusal: Error {}

    private struct Pair {
        let one: ChangesetRepository
        let two: ChangesetRepository
        let remote: MemoryRemote
        let pools: [DatabasePool]

        func run(_ sql: String) throws { try one.commit { try $0.execute(sql: sql) } }
        func exchange() throws {
            try one.sync(remote, named: "m")
            try SyncManagerForTests(two, remote).fetch()
        }
        func strings(_ sql: String) throws -> [String] {
            try pools[1].read { db in
                try Row.fetchAll(db, sql: sql).map { $0.databaseValues.map(\.description).joined(separator: " ") }
            }
        }
    }

    private func pair(
        sliceRows: Int = 50_000, _ afterApply: @escaping ChangesetRepository.AfterApply
    ) throws -> Pair {
        let pools = try ["a.db", "b.db"].map { try Device.open(folder.path($0), Self.sql) }
        var settings = Replica.Settings()
        (settings.sliceRows, settings.sliceTime) = (sliceRows, nil)
        let remote = MemoryRemote()
        let tracking = ChangesetRepository.Tracking.only(["guild", "player"])
        let one = try ChangesetRepository(pools[0], tracking: tracking, settings: settings)
        let invitation = try one.invite(until: .max)
        try one.sync(remote, named: "m")
        _ = try ChangesetRepository.join(pools[1], invitation, at: remote, remoteName: "m", tracking: tracking)
        let two = try ChangesetRepository(pools[1], tracking: tracking, settings: settings, afterApply: afterApply)
        return Pair(one: one, two: two, remote: remote, pools: pools)
    }

    @Test("it has each changed row once, and writes other tables in the same transaction, with their triggers")
    func changes() throws {
        let calls = Mutex<[[SyncRowChange]]>([])
        let pair = try pair { db, changes in
            calls.withLock { $0.append(changes) }
            for change in changes where change.kind != .deleted {
                try db.execute(
                    sql: "INSERT INTO seen (kind, player) VALUES (?, ?)",
                    arguments: [change.kind.rawValue, change.key["id"]])
            }
            // The rows are those of the new head already.
            #expect(try Head.fetchOne(db) != nil && Int.fetchOne(db, sql: "SELECT count(*) FROM player") == 2)
        }
        try pair.run("INSERT INTO player VALUES (1, 'Ann', NULL), (2, 'Ben', NULL), (3, 'Cleo', NULL)")
        try pair.run("DELETE FROM player WHERE id = 3; UPDATE player SET name = 'Bob' WHERE id = 2")
        try pair.exchange()
        try pair.two.pull()
        try pair.two.pull()
        try pair.run("UPDATE player SET name = 'Bo' WHERE id = 2")
        try pair.exchange()
        try pair.two.pull()
        // Own commits are not pulled.
        try pair.two.commit { try $0.execute(sql: "UPDATE player SET name = 'x' WHERE id = 1") }
        let found = calls.withLock { $0 }
        #expect(found.map { $0.map(\.kind) } == [[.inserted, .inserted], [.updated]])
        #expect(found.last?.first?.old == ["name": "Bob".databaseValue])
        #expect(found.last?.first?.new == ["name": "Bo".databaseValue])
        #expect(try pair.strings("SELECT kind || player FROM seen").count == 3)
        #expect(try pair.strings("SELECT n FROM counted") == ["3"])
        #expect(try pair.two.verify().differences.isEmpty)
        // Its writes are no foreign writes.
        let head = try pair.two.verify().head
        try pair.two.pull()
        #expect(try pair.two.verify().head == head)
    }

    @Test("an error of it undoes the pull, with what it wrote; the next pull calls it again")
    func errors() throws {
        let fails = Mutex(true)
        let pair = try pair { db, _ in
            try db.execute(sql: "INSERT INTO seen (kind) VALUES ('x')")
            if fails.withLock({ $0 }) { throw Refusal() }
        }
        try pair.run("INSERT INTO player VALUES (1, 'Ann', NULL)")
        try pair.exchange()
        #expect(throws: Refusal.self) { try pair.two.pull() }
        #expect(try pair.strings("SELECT * FROM player").isEmpty && pair.strings("SELECT * FROM seen").isEmpty)
        #expect(try pair.strings("SELECT n FROM counted") == ["0"])
        fails.withLock { $0 = false }
        try pair.two.pull()
        #expect(try pair.strings("SELECT * FROM player").count == 1 && pair.strings("SELECT * FROM seen").count == 1)
    }

    @Test("foreign keys hold what it writes")
    func foreignKeys() throws {
        let pair = try pair { db, _ in try db.execute(sql: "INSERT INTO seen (player) VALUES (77)") }
        try pair.run("INSERT INTO player VALUES (1, 'Ann', NULL)")
        try pair.exchange()
        let error = #expect(throws: DatabaseError.self) { try pair.two.pull() }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        #expect(try pair.strings("SELECT * FROM player").isEmpty)
    }

    /// Each device would make a commit of its own of the same pull, and never come to an end.
    @Test("it may not write tracked tables, also by a cascade or a nested commit; nothing is changed then")
    func trackedTables() throws {
        let statements = [
            "UPDATE player SET name = 'other'", "INSERT OR REPLACE INTO player VALUES (1, 'other', 1)",
            "DELETE FROM guild",
        ]
        let step = Mutex(0)
        let repository = Mutex<ChangesetRepository?>(nil)
        let pair = try pair { db, _ in
            let number = step.withLock { $0 }
            if number < statements.count { return try db.execute(sql: statements[number]) }
            let nested = repository.withLock { $0 }
            if number == statements.count { try nested?.commit { try $0.execute(sql: statements[0]) } }
        }
        repository.withLock { $0 = pair.two }
        try pair.run("INSERT INTO guild VALUES (1); INSERT INTO player VALUES (1, 'Ann', 1)")
        try pair.exchange()
        for number in 0...statements.count {
            step.withLock { $0 = number }
            let error = #expect(throws: EngineError.self, "\(number)") { try pair.two.pull() }
            #expect(error?.code == .trackedTableWritten, "\(number)")
            #expect(try pair.strings("SELECT * FROM player").isEmpty, "\(number)")
        }
        step.withLock { $0 = .max }
        try pair.two.pull()
        #expect(try pair.strings("SELECT * FROM player").count == 1)
    }

    @Test("a long pull calls it in each slice")
    func slices() throws {
        let counts = Mutex<[Int]>([])
        let pair = try pair(sliceRows: 100) { _, changes in counts.withLock { $0.append(changes.count) } }
        try pair.run(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)
            INSERT INTO player SELECT i, 'p', NULL FROM n
            """)
        try pair.run("DELETE FROM player WHERE id < 3")
        try pair.exchange()
        try pair.two.pull()
        #expect(counts.withLock { $0 } == [100, 100, 50, 2])
    }
}

/// Fetches and joins nothing.
private struct SyncManagerForTests {
    private let repository: ChangesetRepository
    private let remote: MemoryRemote
    init(_ repository: ChangesetRepository, _ remote: MemoryRemote) {
        (self.repository, self.remote) = (repository, remote)
    }

    func fetch() throws {
        _ = try repository.run(Exchange(repository.store(), with: remote, named: "m"), .fetching)
    }
}
