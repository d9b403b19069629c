import CipherDatabase
import CipherObservation
import Foundation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Rows that are written outside of commits become commits")
struct ForeignWriteTests {
    private let folder = TemporaryFolder()

    /// Two devices that have the same rows.
    private func pair(sliceRows: Int = 50_000) throws -> (Device, Device, FolderStore) {
        try FileManager.default.createDirectory(atPath: folder.path("remote"), withIntermediateDirectories: true)
        let a = try Device(folder.path("a.db"), sliceRows: sliceRows)
        let remote = FolderStore(path: folder.path("remote"), repository: try a.repository.store().repository)
        try a.write(
            """
            INSERT INTO player VALUES (1, 'Ann', 10), (2, 'Bob', 20), (3, 'Cat', 30), (4, 'Dan', 40);
            INSERT INTO team VALUES ('x', 'Oslo'), ('y', 'Rome')
            """)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sliceRows: sliceRows)
        try settle(a, b, remote)
        return (a, b, remote)
    }

    private func settle(_ a: Device, _ b: Device, _ remote: FolderStore) throws {
        for _ in 0..<2 { for device in [a, b] { try device.sync(remote) } }
    }

    private func expectEqual(_ a: Device, _ b: Device, _ name: Comment? = nil) throws {
        #expect(try a.rows() == b.rows(), name)
        let (one, other) = (try a.repository.verify(), try b.repository.verify())
        #expect(one.differences.isEmpty && other.differences.isEmpty, name)
        #expect(one.digest == other.digest && one.head == other.head, name)
    }

    private static let statements = [
        "INSERT INTO player VALUES (10, 'Eve', 1), (11, 'Fay', NULL)",
        "UPDATE player SET score = score + 1 WHERE id < 3",
        "DELETE FROM player WHERE id = 3",
        "UPDATE player SET id = 77 WHERE id = 2",
        "DELETE FROM player WHERE id = 4; INSERT INTO player VALUES (4, 'again', 4)",
        "REPLACE INTO player VALUES (1, 'replaced', 11)",
        "UPDATE team SET code = 'X' WHERE code = 'x'",
        "INSERT INTO player VALUES (50, 'gone', 0); DELETE FROM player WHERE id = 50",
        "UPDATE team SET city = 'Oslo-' WHERE code = 'x'; UPDATE team SET city = 'Oslo' WHERE code = 'y'",
        "REPLACE INTO team VALUES ('z', 'Rome')",
        "DELETE FROM player; DELETE FROM team",
    ]

    @Test("whatever another program writes with SQLCipher alone, the next pull commits it and other devices have it")
    func otherProgram() throws {
        let (a, b, remote) = try pair()
        for sql in Self.statements {
            StockProgram(a.path).execute(sql)
            let rows = try a.rows()
            #expect(try a.repository.status().hasForeignWrites, "\(sql)")
            #expect(try a.repository.pull() != nil || sql.contains("gone"), "\(sql)")
            #expect(try !a.repository.status().hasForeignWrites, "\(sql)")
            #expect(try a.rows() == rows, "\(sql)")
            try settle(a, b, remote)
            try expectEqual(a, b, "\(sql)")
            #expect(try b.rows() == rows, "\(sql)")
        }
    }

    @Test("what this program writes without its repository is committed before its next commit")
    func sameProgram() throws {
        let (a, b, remote) = try pair()
        for (number, sql) in Self.statements.enumerated() {
            try a.pool.write { try $0.execute(sql: sql) }
            try a.write("INSERT INTO player VALUES (\(1_000 + number), 'own', 0)")
            try settle(a, b, remote)
            try expectEqual(a, b, "\(sql)")
        }
        // Nothing is left: no further commit is made.
        let head = try a.repository.verify().head
        try a.repository.pull()
        #expect(try a.repository.verify().head == head)
    }

    @Test("an update by another program keeps what another device has written to other columns at the same time")
    func otherColumns() throws {
        let (a, b, remote) = try pair()
        StockProgram(a.path).execute("UPDATE player SET score = 99")
        try b.write("UPDATE player SET name = name || '!'")
        try settle(a, b, remote)
        try expectEqual(a, b)
        #expect(try a.texts("SELECT * FROM player") == ["1 Ann! 99", "2 Bob! 99", "3 Cat! 99", "4 Dan! 99"])
    }

    /// A row that is deleted and inserted again has no list of columns: the former values are those that its commit wrote.
    @Test("a replaced row counts as written in the columns whose values differ")
    func replacedRow() throws {
        let (a, b, remote) = try pair()
        StockProgram(a.path).execute("REPLACE INTO player VALUES (1, 'Ann', 99)")
        try b.write("UPDATE player SET name = 'Anna' WHERE id = 1")
        try settle(a, b, remote)
        try expectEqual(a, b)
        #expect(try a.texts("SELECT * FROM player WHERE id = 1") == ["1 Anna 99"])
    }

    @Test("a row that another program deletes and another device updates at the same time is there again, whole")
    func deletedAndUpdated() throws {
        let (a, b, remote) = try pair()
        StockProgram(a.path).execute("DELETE FROM player WHERE id < 3")
        try a.repository.pull()
        try b.write("UPDATE player SET score = 21 WHERE id = 2")
        try settle(a, b, remote)
        try settle(a, b, remote)
        try expectEqual(a, b)
        #expect(try a.texts("SELECT * FROM player") == ["2 Bob 21", "3 Cat 30", "4 Dan 40"])
    }

    @Test("rows that a constraint hides come back when another program removes what hides them")
    func hidden() throws {
        let (a, b, remote) = try pair()
        try a.write("INSERT INTO team VALUES ('p', 'Bern')")
        try b.write("INSERT INTO team VALUES ('q', 'Bern')")
        try settle(a, b, remote)
        try expectEqual(a, b)
        let shown = try a.texts("SELECT code FROM team WHERE city = 'Bern'")
        #expect(shown.count == 1)
        StockProgram(a.path).execute("UPDATE team SET city = 'Lima' WHERE city = 'Bern'")
        try settle(a, b, remote)
        try expectEqual(a, b)
        #expect(try a.texts("SELECT city FROM team WHERE code IN ('p', 'q') ORDER BY 1") == ["Bern", "Lima"])
    }

    @Test("a migration outside of commits, and what it fills a new column with, is committed")
    func migration() throws {
        let (a, b, remote) = try pair()
        for (device, value) in [(a, "7"), (b, "NULL")] {
            try device.pool.write { db in
                try db.execute(sql: "ALTER TABLE player ADD COLUMN rank INTEGER; UPDATE player SET rank = \(value)")
            }
        }
        try settle(a, b, remote)
        try expectEqual(a, b)
        #expect(try b.texts("SELECT DISTINCT rank FROM player") == ["7"])
        // The table is made anew, as https://www.sqlite.org/lang_altertable.html describes it: nothing was recorded.
        try a.pool.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, score INTEGER, rank INTEGER);
                    INSERT INTO other SELECT id, name, score + 1, rank FROM player WHERE id <> 3;
                    INSERT INTO other VALUES (9, 'new', 9, 9);
                    DROP TABLE player;
                    ALTER TABLE other RENAME TO player
                    """)
        }
        let rows = try a.rows()
        try settle(a, b, remote)
        try expectEqual(a, b)
        #expect(try b.rows() == rows)
    }

    enum Loss: String, CaseIterable {
        case purged
        case stopped
        case droppedTriggers
        case droppedHistory
    }

    @Test("writes that the change history does not have are found by comparing the table", arguments: Loss.allCases)
    func lostHistory(loss: Loss) throws {
        let (a, b, remote) = try pair()
        let stock = StockProgram(a.path)
        let sql = """
            UPDATE player SET score = 11 WHERE id = 1; DELETE FROM player WHERE id = 2;
            INSERT INTO player VALUES (60, 'new', 6); DELETE FROM team WHERE code = 'x'; INSERT INTO team VALUES ('X', 'Oslo')
            """
        switch loss {
        case .purged:
            stock.execute(sql)
            stock.execute("CREATE TABLE o (id INTEGER PRIMARY KEY)")
            try a.pool.write { db in
                try db.recordHistory(of: .tables(["o"]))
                try db.setHistoryLimits(HistoryLimits(count: 1))
                try db.execute(sql: "INSERT INTO o VALUES (1), (2), (3)")
            }
            try a.pool.purgeHistory()
        case .stopped:
            try a.pool.write { try $0.stopRecordingHistory(of: .tables(["player", "team"])) }
            stock.execute(sql)
        case .droppedTriggers:
            let names = try a.texts("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '*history*'")
            for name in names { stock.execute("DROP TRIGGER \(name)") }
            stock.execute(sql)
        case .droppedHistory:
            let names = try a.texts("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '*history*'")
            for name in names { stock.execute("DROP TRIGGER \(name)") }
            let tables = try a.texts(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB '*store_history*'")
            for name in tables { stock.execute("DROP TABLE \(name)") }
            stock.execute(sql)
        }
        let rows = try a.rows()
        if loss == .purged || loss == .stopped {
            try settle(a, b, remote)
            try expectEqual(a, b)
        } else {
            // The triggers are made again when a store is opened.
            try a.close()
            let again = try Device(a.path)
            try settle(again, b, remote)
            try expectEqual(again, b)
        }
        #expect(try b.rows() == rows)
    }

    @Test("a key without a value, which no commit can have, holds nothing back")
    func nullKey() throws {
        let sql =
            "CREATE TABLE IF NOT EXISTS player (id TEXT PRIMARY KEY, v); CREATE TABLE IF NOT EXISTS team (id PRIMARY KEY)"
        let a = try Device(folder.path("n.db"), sql: sql)
        StockProgram(a.path).execute("INSERT INTO player VALUES (NULL, 1), ('a', 2)")
        try a.write("INSERT INTO player VALUES ('b', 3)")
        let verification = try a.repository.verify()
        #expect(verification.differences.map { if case .unrecorded = $0 { true } else { false } } == [true])
    }

    @Test(
        "a row that was written outside of commits can be replaced by one whose key is equal to the collation",
        arguments: [
            ("TEXT COLLATE RTRIM", "'a '", "'a'"), ("TEXT COLLATE NOCASE", "'a'", "'A'"), ("", "2.0", "2"),
            ("", "-0.0", "0.0"),
        ])
    func equalKeys(type: String, key: String, other: String) throws {
        let sql = "CREATE TABLE t (k \(type) NOT NULL PRIMARY KEY, v)"
        for change in ["REPLACE INTO t VALUES (\(other), 2)", "UPDATE t SET k = \(other), v = 2"] {
            let one = try CaptureStore("a", sql, tracking: ["t"])
            let second = try CaptureStore("b", sql, tracking: ["t"])
            try one.run("INSERT INTO t VALUES (\(key), 1)")
            try one.commit(change)
            #expect(try one.texts("SELECT v FROM t") == ["2"])
            try one.takeForeignWrites()
            try second.join(one)
            #expect(try second.rows() == one.rows())
        }
    }

    // MARK: Random programs

    private static let seed = Seed()
    private static let programs = ProcessInfo.processInfo.environment["CIPHERSTORE_SCHEDULES"].flatMap { Int($0) } ?? 15

    @Test("another store has the same rows, whether random statements run in commits or outside of them")
    func random() throws {
        var count = 0
        for index in 2_000_000..<(2_000_000 + Self.programs) {
            var numbers = Self.seed.numbers(index)
            let schema = RandomSchema(&numbers)
            let one = try CaptureStore("a", schema.sql.joined(separator: ";"), tracking: schema.names)
            let other = try CaptureStore("b", schema.sql.joined(separator: ";"), tracking: schema.names)
            var runs: [String] = []
            for _ in 0..<6 {
                let isForeign = Bool.random(using: &numbers)
                var run: [String] = []
                for _ in 0..<Int.random(in: 1...6, using: &numbers) { run.append(schema.statement(&numbers)) }
                func execute(_ db: Database) throws {
                    for sql in run { do { try db.execute(sql: sql) } catch is DatabaseError {} }
                }
                if isForeign { try one.queue.write(execute) } else { _ = try one.commit(execute) }
                runs.append("\(isForeign ? "outside" : "commit"): \(run.joined(separator: "; "))")
                if try one.queue.read({ try $0.foreignKeyViolations().next() != nil }) { break }
                if Bool.random(using: &numbers) { continue }
                try one.takeForeignWrites()
                try other.join(one)
                let name: Comment = "\(Self.seed), program \(index): \(schema.sql.joined(separator: "; ")) -> \(runs)"
                let difference = one.difference(try one.rows(), try other.rows())
                #expect(difference.isEmpty, name)
                if !difference.isEmpty { return }
                count += 1
            }
        }
        #expect(count > Self.programs / 2)
    }
}

extension CaptureStore {
    /// Makes commits of what was written outside of commits.
    func takeForeignWrites() throws {
        commits = try queue.writeWithoutTransaction { db in
            try replica.inTransaction(db, HybridTime(rawValue: 2_000_000)) { work in
                var numbers: [Int64] = []
                try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.commit) WHERE body IS NOT NULL ORDER BY n")
                    .forEach([]) { numbers.append($0.integer(0)) }
                return try numbers.compactMap { try work.commits.commit($0, in: work.state.repository) }
            }
        }
    }
}

@Suite("A process writes or commits foreign writes, and is killed", .serialized)
struct KilledForeignWriteTests {
    private let folder = TemporaryFolder()

    /// Ends the process at one reading of the clock: between two transactions.
    private final class KillingClock: Sendable {
        private let calls = Atomic(0)
        let killAt: Int
        init(killAt: Int) { self.killAt = killAt }
        func now() -> HybridTime {
            if calls.add(1, ordering: .relaxed).newValue == killAt { kill(getpid(), SIGKILL) }
            return ChangesetRepository.Clock.now()
        }
    }

    private static func repository(_ path: String, killAt: Int) throws -> ChangesetRepository {
        var settings = Replica.Settings()
        settings.sliceRows = 10
        let clock = KillingClock(killAt: killAt)
        return try ChangesetRepository(Device.open(path), settings: settings, clock: { clock.now() })
    }

    @Test(
        "whatever slice it is, the next call goes on, and every row is committed once",
        arguments: Sweep.sample(Array(1...12), oneIn: 2))
    func slices(killAt: Int) async throws {
        let path = folder.path("a.db")
        do {
            let device = try Device(path, sliceRows: 10)
            try device.write("INSERT INTO player VALUES (1, 'Ann', 1)")
            StockProgram(path).execute(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT INTO player SELECT i + 100, 'p', i FROM n; DELETE FROM player WHERE id = 1
                """)
            try device.close()
        }
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, killAt = killAt as Int] in
            let repository = try Self.repository(path, killAt: killAt)
            while true { try repository.pull() }
        }
        let device = try Device(path, sliceRows: 10)
        try device.repository.pull()
        #expect(try device.repository.verify().differences.isEmpty)
        let changes = try device.repository.log(limit: 100).flatMap { try device.repository.changes(of: $0.uuid) }
        #expect(changes.count { $0.kind == .inserted } == 61 && changes.count { $0.kind == .deleted } == 1)
        #expect(changes.count == 62)
    }

    @Test("a writer that is killed at any time leaves what it has committed, no more and no less", arguments: 1...4)
    func writers(round: Int) async throws {
        let path = folder.path("a.db")
        try Device(path).close()
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, round = round as Int] in
            let pool = try Device.open(path)
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(20 * round)) { kill(getpid(), SIGKILL) }
            for number in 1... {
                try pool.write { db in
                    try db.execute(
                        sql: "INSERT INTO player VALUES (\(number), 'p', 0); UPDATE player SET score = \(number)")
                    try db.execute(sql: "DELETE FROM player WHERE id < \(number - 5)")
                }
            }
        }
        let device = try Device(path)
        let rows = try device.rows()
        try device.repository.pull()
        #expect(try device.rows() == rows)
        #expect(try device.repository.verify().differences.isEmpty)
    }

    @Test("many rows of another program are committed in slices")
    func manyRows() throws {
        let path = folder.path("a.db")
        let device = try Device(path, sliceRows: 2_000)
        StockProgram(path).execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
            INSERT INTO player SELECT i, 'p' || i, i FROM n
            """)
        try device.repository.pull()
        StockProgram(path).execute("UPDATE player SET score = score + 1; DELETE FROM player WHERE id % 10 = 0")
        try device.repository.pull()
        #expect(try device.repository.verify().differences.isEmpty)
        #expect(try device.texts("SELECT count(*) FROM player") == ["5400"])
        // A row that is deleted in a later slice is deleted in the one that sees its update.
        let changes = try device.repository.log(limit: 100).map { try device.repository.changes(of: $0.uuid).count }
        #expect(changes.reduce(0, +) == 12_000 && changes.allSatisfy { $0 <= 2_000 }, "\(changes)")
    }
}
