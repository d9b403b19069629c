import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Capture of what the program writes")
struct CommitCaptureTests {
    private static let seed = Seed()
    private static let programs = ProcessInfo.processInfo.environment["CIPHERSTORE_SCHEDULES"].flatMap { Int($0) } ?? 25

    /// One random program: a schema, and commits of random statements in random savepoints.
    private struct Program {
        let store: CaptureStore
        let name: Comment
        var numbers: RandomNumbers
        let schema: RandomSchema

        init(_ index: Int) throws {
            numbers = seed.numbers(index)
            schema = RandomSchema(&numbers)
            name = "\(seed), program \(index): \(schema.sql.joined(separator: "; "))"
            store = try CaptureStore("a", schema.sql.joined(separator: ";"), tracking: schema.names)
        }

        var hasOrphans: Bool {
            get throws { try store.queue.read { try $0.foreignKeyViolations().next() != nil } }
        }

        /// Runs statements of one commit; those that fail change nothing.
        mutating func run(_ db: Database) throws -> [String] {
            var (run, depth) = ([String](), 0)
            for _ in 0..<Int.random(in: 1...12, using: &numbers) {
                var sql = schema.statement(&numbers)
                switch Int.random(in: 0..<8, using: &numbers) {
                case 0:
                    sql = "SAVEPOINT s\(depth)"
                    depth += 1
                case 1 where depth > 0:
                    depth -= 1
                    sql = "ROLLBACK TO s\(depth); RELEASE s\(depth)"
                case 2 where depth > 0:
                    depth -= 1
                    sql = "RELEASE s\(depth)"
                default: break
                }
                run.append(sql)
                do { try db.execute(sql: sql) } catch let error as DatabaseError {
                    run.append("-- \(error.message ?? "")")
                }
            }
            while depth > 0 {
                depth -= 1
                try db.execute(sql: "RELEASE s\(depth)")
            }
            return run
        }
    }

    @Test("each changed row is captured once, as it was and as it is, for random schemas and statements")
    func exactness() throws {
        var count = 0
        for index in 0..<Self.programs {
            var program = try Program(index)
            for _ in 0..<6 {
                let before = try program.store.rows()
                var run: [String] = []
                let changes = try program.store.changes { run = try program.run($0) }
                let after = try program.store.rows()
                let name: Comment = "\(program.name) -> \(run.joined(separator: "; "))"
                let found = try program.store.byPlace(changes)
                #expect(found == program.store.difference(before, after), name)
                if found != program.store.difference(before, after) { return }
                count += changes.count
            }
        }
        #expect(count > 100)
    }

    @Test("another store that joins the commits has the same rows, for random schemas and statements")
    func joined() throws {
        var count = 0
        for index in 1_000_000..<(1_000_000 + Self.programs / 2) {
            var program = try Program(index)
            let other = try CaptureStore("b", program.schema.sql.joined(separator: ";"), tracking: program.schema.names)
            var runs: [String] = []
            for _ in 0..<4 {
                var run: [String] = []
                _ = try program.store.commit { run = try program.run($0) }
                runs += run
                // SQLite lets some statements leave rows that refer to nothing; no other store shows them.
                if try program.hasOrphans { break }
                try other.join(program.store)
                let name: Comment = "\(program.name) -> \(runs.joined(separator: "; "))"
                let difference = program.store.difference(try program.store.rows(), try other.rows())
                #expect(difference.isEmpty, name)
                if !difference.isEmpty { return }
                count += 1
            }
        }
        #expect(count > Self.programs / 2)
    }

    @Test(
        "rows with consecutive keys are exact, where some are gone, moved or rolled back, and at the ends of the numbers",
        arguments: ["INTEGER PRIMARY KEY", "INT PRIMARY KEY NOT NULL", "TEXT PRIMARY KEY NOT NULL"])
    func consecutiveKeys(key: String) throws {
        func rows(_ first: Int, _ last: Int, by step: Int = 1) -> String {
            let condition = step > 0 ? "i < \(last)" : "i > \(last)"
            return """
                WITH RECURSIVE n(i) AS (VALUES (\(first)) UNION ALL SELECT i + \(step) FROM n WHERE \(condition))
                INSERT INTO t SELECT i, hex(zeroblob(50)) || i FROM n
                """
        }
        // A text compares with a number where it is converted first.
        let id = "CAST(id AS INTEGER)"
        let commits = [
            rows(-20, 200),
            "UPDATE t SET v = v || 'x' WHERE \(id) % 7 <> 0; DELETE FROM t WHERE \(id) % 11 = 0",
            "SAVEPOINT s; \(rows(3_000, 3_100)); ROLLBACK TO s; RELEASE s; INSERT INTO t VALUES (3050, 1), (3051, 2)",
            "\(rows(5_100, 5_000, by: -1)); DELETE FROM t WHERE \(id) BETWEEN 5010 AND 5020; \(rows(5_015, 5_017))",
            "UPDATE t SET id = \(id) + 10000 WHERE \(id) BETWEEN 1 AND 50; \(rows(7_000, 7_100))",
            "INSERT INTO t VALUES (\(Int64.max), 1), (\(Int64.max - 1), 2), (\(Int64.min), 3), (\(Int64.min + 1), 4)",
            "UPDATE t SET v = 5 WHERE abs(\(id) / 2) > 1000000000000; DELETE FROM t WHERE \(id) = \(Int64.max)",
            "DELETE FROM t WHERE \(id) < 1000; \(rows(500, 600)); \(rows(9_000, 9_010)); UPDATE t SET v = 1 WHERE \(id) > 550",
            "DELETE FROM t",
        ]
        let sql = "CREATE TABLE t (id \(key), v)"
        let (plain, store, other) = (
            try CaptureStore("p", sql, tracking: ["t"]), try CaptureStore("a", sql, tracking: ["t"]),
            try CaptureStore("b", sql, tracking: ["t"])
        )
        for sql in commits {
            let before = try plain.rows()
            let changes = try plain.changes { try $0.execute(sql: sql) }
            let after = try plain.rows()
            #expect(before != after, "\(sql)")
            #expect(try plain.byPlace(changes) == plain.difference(before, after), "\(sql)")
            try store.commit(sql)
            try other.join(store)
            #expect(try store.rows() == after && other.rows() == after, "\(sql)")
        }
    }

    /// A key without a type has integers and other numbers between them. Rows with 2.5 and 2.0 were captured twice, or as
    /// inserted although nobody had touched them.
    @Test(
        "rows with other numbers between integer keys are captured once, and only if they were touched",
        arguments: [
            "(v, k NOT NULL PRIMARY KEY)", "(v, k INT PRIMARY KEY NOT NULL)", "(v, k PRIMARY KEY) WITHOUT ROWID",
        ])
    func numbersBetween(columns: String) throws {
        let store = try CaptureStore("a", "CREATE TABLE t \(columns)", tracking: ["t"])
        let commits = [
            "INSERT INTO t (k) VALUES (1), (2), (2.5), (3)", "DELETE FROM t; INSERT INTO t (k) VALUES (4.5)",
            "INSERT INTO t (k) VALUES (4), (5), (6)",
            "INSERT INTO t (k) VALUES (8), (9); UPDATE t SET k = 8.5 WHERE k = 8",
            "DELETE FROM t; INSERT INTO t (k) VALUES (2), (3); UPDATE t SET k = 2.0 WHERE k = 2",
            """
            DELETE FROM t WHERE k = 2; INSERT INTO t (k) VALUES (2); DELETE FROM t WHERE k = 2;
            REPLACE INTO t (k) VALUES (2.0)
            """,
        ]
        for sql in commits {
            let before = try store.rows()
            let changes = try store.changes { try $0.execute(sql: sql) }
            #expect(try store.byPlace(changes) == store.difference(before, store.rows()), "\(sql)")
        }
    }

    @Test("cascades, triggers of the program and generated columns are in the commit of the statement")
    func consequences() throws {
        let sql = """
            CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE child (id INTEGER PRIMARY KEY, of INT REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
                doubled AS (of * 2) STORED);
            CREATE TABLE log (id INTEGER PRIMARY KEY, what TEXT);
            CREATE TRIGGER note AFTER DELETE ON child BEGIN INSERT INTO log (what) VALUES ('gone ' || OLD.id); END
            """
        let names = ["parent", "child", "log"]
        let (store, other) = (try CaptureStore("a", sql, tracking: names), try CaptureStore("b", sql, tracking: names))
        try store.commit(
            "INSERT INTO parent VALUES (1, 'x'), (2, 'y'); INSERT INTO child (id, of) VALUES (1, 1), (2, 2)")
        try store.commit("UPDATE parent SET id = 3 WHERE id = 1; DELETE FROM parent WHERE id = 2")
        try other.join(store)
        #expect(try other.texts("SELECT id, of, doubled FROM child") == ["1 3 6"])
        #expect(try other.texts("SELECT what FROM log") == ["gone 2"])
        #expect(try other.rows() == store.rows())
    }

    @Test("tables of attached databases and temporary ones are in no commit, also where they hide a tracked one")
    func others() throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, v)", tracking: ["t"])
        try store.run("ATTACH ':memory:' AS other; CREATE TABLE other.t (id INTEGER PRIMARY KEY, v)")
        #expect(try store.commit("INSERT INTO other.t VALUES (1, 1)") == nil)
        try store.run("CREATE TEMP TABLE t (id INTEGER PRIMARY KEY, v)")
        #expect(try store.commit("INSERT INTO t VALUES (2, 2)") == nil)
        let commit = try #require(try store.commit("INSERT INTO main.t VALUES (3, 3)"))
        #expect(commit.commit.writes.map(\.key) == [Cells([.integer(3)])])
    }

    @Test("a commit inside another one is a part of it, and its error undoes the inner one alone")
    func nested() throws {
        struct Failure: Error {}
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, v)", tracking: ["t"])
        let time = HybridTime(rawValue: 2_000_000)
        let outer = try store.commit { db in
            try db.execute(sql: "INSERT INTO t VALUES (1, 1)")
            let inner = try store.replica.record(db, clock: time) { try $0.execute(sql: "INSERT INTO t VALUES (2, 2)") }
            #expect(inner.commit == nil)
            #expect(throws: Failure.self) {
                try store.replica.record(db, clock: time) { db in
                    try db.execute(sql: "INSERT INTO t VALUES (3, 3); DELETE FROM t WHERE id = 1")
                    throw Failure()
                }
            }
        }
        #expect(outer?.commit.writes.map(\.key) == [Cells([.integer(1)]), Cells([.integer(2)])])
        #expect(try store.texts("SELECT id FROM t") == ["1", "2"])
    }

    @Test("a transaction that fails has no commit, and the next one is whole")
    func failed() throws {
        struct Failure: Error {}
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, v)"
        let (store, other) = (try CaptureStore("a", sql, tracking: ["t"]), try CaptureStore("b", sql, tracking: ["t"]))
        #expect(throws: Failure.self) {
            try store.commit { db in
                try db.execute(sql: "INSERT INTO t VALUES (1, 1)")
                throw Failure()
            }
        }
        try store.commit("INSERT INTO t VALUES (1, 5), (2, 6)")
        try store.run("PRAGMA user_version = 5")
        try store.commit("UPDATE t SET v = 7 WHERE id = 1")
        try other.join(store)
        #expect(try store.texts("SELECT id, v FROM t") == ["1 7", "2 6"])
        #expect(try other.rows() == store.rows())
    }
}
