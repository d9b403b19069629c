import CipherDatabase
import CipherSchema
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Capture")
struct CaptureTests {
    /// One random program: a schema, rows, and commits of random statements in random savepoints.
    private struct Program {
        let replica: Replica
        let name: Comment
        var numbers: RandomNumbers
        let schema: RandomSchema

        init(_ index: Int) throws {
            numbers = Simulation.seed.numbers(index)
            schema = RandomSchema(&numbers)
            name = "\(Simulation.seed), program \(index): \(schema.sql.joined(separator: "; "))"
            replica = try Replica(schema.sql.joined(separator: ";"), tracking: schema.names)
        }

        var hasOrphans: Bool {
            get throws { try replica.queue.read { try $0.foreignKeyViolations().next() != nil } }
        }

        /// Runs statements of one commit; those that fail change nothing.
        mutating func commit() throws -> [String] {
            var run: [String] = []
            try replica.repository.commit { db in
                var depth = 0
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
            }
            return run
        }
    }

    @Test("before and delta are after, after and inverse are before, for random schemas and statements")
    func exactness() throws {
        var commits = 0
        for index in 0..<max(60, Simulation.schedules) {
            var program = try Program(index)
            for _ in 0..<6 {
                let before = try program.replica.state()
                let former = try program.replica.head
                let run = try program.commit()
                let after = try program.replica.state()
                let name: Comment = "\(program.name) -> \(run.joined(separator: "; "))"
                guard let head = try program.replica.head, head != former else {
                    #expect(before == after, name)
                    continue
                }
                commits += 1
                let delta = try program.replica.delta(head)
                let forward = try? DeltaModel.apply(delta, to: before)
                let backward = try? DeltaModel.apply(delta.inverted, to: after)
                #expect(forward == after, name)
                #expect(backward == before, name)
                #expect(try program.replica.repository.verify().isEmpty, name)
                if forward != after || backward != before { return }
            }
        }
        #expect(commits > 100)
    }

    @Test("a commit is applied to the tables backwards and forwards, for random schemas and statements")
    func applied() throws {
        for index in 1_000_000..<(1_000_000 + max(40, Simulation.schedules)) {
            var program = try Program(index)
            for _ in 0..<4 {
                let before = try program.replica.state()
                let former = try program.replica.head
                // SQLite lets some statements leave rows that refer to nothing; such a state cannot be gone back to.
                let hadOrphans = try program.hasOrphans
                let run = try program.commit()
                if try hadOrphans || program.hasOrphans { break }
                let after = try program.replica.state()
                guard let head = try program.replica.head, head != former else { continue }
                let name: Comment = "\(program.name) -> \(run.joined(separator: "; "))"
                do {
                    let undone = try #require(try program.replica.repository.revert(head), name)
                    #expect(try program.replica.state() == before, name)
                    try program.replica.repository.revert(#require(CommitID(undone.uuid)))
                    #expect(try program.replica.state() == after, name)
                    #expect(try program.replica.repository.verify().isEmpty, name)
                } catch {
                    Issue.record(error, name)
                    return
                }
            }
        }
    }

    @Test(
        "rows with consecutive keys are exact, where some are gone, moved or rolled back, and at the ends of the numbers",
        arguments: ["INTEGER PRIMARY KEY", "INT PRIMARY KEY NOT NULL", "TEXT PRIMARY KEY NOT NULL"])
    func consecutiveKeys(key: String) throws {
        let replica = try Replica("CREATE TABLE t (id \(key), v)", tracking: ["t"])
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
            rows(-20, 2_000),
            "UPDATE t SET v = v || 'x' WHERE \(id) % 7 <> 0; DELETE FROM t WHERE \(id) % 11 = 0",
            "SAVEPOINT s; \(rows(3_000, 4_000)); ROLLBACK TO s; RELEASE s; INSERT INTO t VALUES (3500, 1), (3501, 2)",
            "\(rows(6_000, 5_000, by: -1)); DELETE FROM t WHERE \(id) BETWEEN 5100 AND 5200; \(rows(5_150, 5_160))",
            "UPDATE t SET id = \(id) + 10000 WHERE \(id) BETWEEN 1 AND 50; \(rows(7_000, 8_500))",
            "INSERT INTO t VALUES (\(Int64.max), 1), (\(Int64.max - 1), 2), (\(Int64.min), 3), (\(Int64.min + 1), 4)",
            "UPDATE t SET v = 5 WHERE abs(\(id) / 2) > 1000000000000; DELETE FROM t WHERE \(id) = \(Int64.max)",
        ]
        for sql in commits {
            let before = try replica.state()
            let delta = try replica.delta(#require(try replica.run(sql)))
            let after = try replica.state()
            #expect(before != after, "\(sql)")
            #expect(try DeltaModel.apply(delta, to: before) == after, "\(sql)")
            #expect(try DeltaModel.apply(delta.inverted, to: after) == before, "\(sql)")
            #expect(try replica.repository.verify().isEmpty, "\(sql)")
        }
    }

    /// A row whose key SQLite holds equal to the one that a refused statement asked for was recorded as inserted.
    @Test(
        "a refused change of a key to one that equals another row's is none of that row",
        arguments: [
            ("(k TEXT COLLATE NOCASE PRIMARY KEY, v)", "'a'", "'A'"),
            ("(k TEXT, v, PRIMARY KEY (k COLLATE NOCASE))", "'a'", "'A'"),
            ("(k TEXT COLLATE NOCASE, v, PRIMARY KEY (k COLLATE BINARY, v))", "'a'", "'A'"),
            ("(k TEXT COLLATE RTRIM, v, PRIMARY KEY (v, k COLLATE NOCASE))", "'a'", "'A'"),
            ("(k PRIMARY KEY, v)", "1", "1.0"),
            ("(k COLLATE NOCASE PRIMARY KEY, v) WITHOUT ROWID", "'a'", "'A'"),
        ])
    func refusedKeys(table: String, first: String, equal: String) throws {
        let replica = try Replica("CREATE TABLE t \(table)", tracking: ["t"])
        try replica.run("INSERT INTO t VALUES (\(first), 0), ('b', 1), ('c', 2)")
        let before = try replica.state()
        try replica.repository.commit { db in
            try? db.execute(sql: "UPDATE t SET k = \(equal), v = 0 WHERE k = 'b'")
            try db.execute(sql: "UPDATE OR IGNORE t SET k = \(equal), v = 0 WHERE k = 'b'")
            try db.execute(sql: "UPDATE t SET v = 3 WHERE k = 'c'")
        }
        let delta = try replica.delta(#require(try replica.head))
        #expect(try DeltaModel.apply(delta, to: before) == replica.state())
        #expect(try DeltaModel.apply(delta.inverted, to: replica.state()) == before)
        #expect(try replica.repository.verify().isEmpty)
    }

    @Test("a key is looked for as its index compares, not as its column does")
    func keysOfIndex() throws {
        for (column, key) in [("TEXT COLLATE NOCASE", "k COLLATE BINARY"), ("TEXT", "k, k COLLATE NOCASE")] {
            let replica = try Replica("CREATE TABLE t (k \(column), v, PRIMARY KEY (\(key)))", tracking: ["t"])
            try replica.run("INSERT INTO t VALUES ('ab', 1), ('aB', 2), ('Ab', 3), ('AB', 4)")
            for name in ["ab", "aB", "Ab", "AB"] {
                let before = try replica.state()
                try replica.run("UPDATE t SET v = v + 10 WHERE k = '\(name)' COLLATE BINARY")
                let delta = try replica.delta(#require(try replica.head))
                #expect(try DeltaModel.apply(delta, to: before) == replica.state(), "\(key), \(name)")
                try replica.repository.revert(#require(try replica.head))
                #expect(try replica.state() == before, "\(key), \(name)")
            }
            #expect(try replica.repository.verify().isEmpty)
        }
    }
}
