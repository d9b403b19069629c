import CipherDatabase
import Testing

@testable import ChangesetSync

@Suite("Commits that wait")
struct InboxTests {
    private static let rows = "CREATE TABLE t (id INTEGER PRIMARY KEY, x)"

    private func store(_ name: String, sliceRows: Int = 0) throws -> TestReplica {
        try TestReplica(name, Self.rows, tracking: [TrackedTable("t")], sliceRows: sliceRows)
    }

    /// A chain of commits, of one row each.
    private func chain(_ count: Int) throws -> [EncodedCommit] {
        let store = try store("author")
        for id in 1...count {
            try store.record(
                "INSERT INTO t VALUES (\(id), 0)",
                [ProgramChange(table: "t", old: nil, new: [.integer(Int64(id)), .integer(0)])])
        }
        return store.commits
    }

    private func waitingCount(_ store: TestReplica) throws -> [String] {
        try store.texts("SELECT count(*) FROM cipherstore_repository_inbox")
    }

    @Test("commits that arrive in reverse wait for each other, and all are joined when the first one comes")
    func reverse() throws {
        let commits = try chain(40)
        let store = try store("b", sliceRows: 7)
        for commit in commits.dropFirst().reversed() { try store.join([commit]) }
        #expect(try store.texts("SELECT count(*) FROM t") == ["0"])
        #expect(try waitingCount(store) == ["39"])
        try store.join([commits[0]])
        #expect(try store.texts("SELECT count(*) FROM t") == ["40"])
        #expect(try waitingCount(store) == ["0"])
    }

    @Test("a commit waits for the commits that its author had joined, and for nothing else")
    func contexts() throws {
        let (a, b, c, d) = (try store("a"), try store("b"), try store("c"), try store("d"))
        try a.write("INSERT INTO t VALUES (1, 1)")
        try b.write("INSERT INTO t VALUES (2, 2)")
        try c.join(a.commits + b.commits)
        try c.write("UPDATE t SET x = 3")
        try d.join(c.commits)
        #expect(try d.texts("SELECT * FROM t").isEmpty)
        try d.join(b.commits)
        #expect(try d.texts("SELECT * FROM t") == ["2 2"])
        try d.join(a.commits)
        #expect(try d.texts("SELECT * FROM t ORDER BY id") == ["1 3", "2 3"])
        #expect(try waitingCount(d) == ["0"])
    }

    @Test("a snapshot ends the waiting of commits that need what it covers, and covers others")
    func snapshot() throws {
        let commits = try chain(20)
        let (maker, store) = (try store("b"), try store("c"))
        try maker.join(Array(commits[..<10]))
        for commit in commits[5...] { try store.join([commit]) }
        #expect(try waitingCount(store) == ["15"])
        try store.join(try #require(try maker.snapshot()))
        #expect(try waitingCount(store) == ["10"])
        try store.join([EncodedCommit]())
        #expect(try store.texts("SELECT count(*) FROM t") == ["20"])
        #expect(try waitingCount(store) == ["0"])
    }

    @Test("joining is linear in the number of commits that wait")
    func linear() throws {
        func seconds(_ count: Int) throws -> Double {
            let (commits, store) = (try chain(count), try store("b", sliceRows: 50_000))
            let start = ContinuousClock.now
            try store.join(commits.reversed())
            let time = (ContinuousClock.now - start) / Duration.seconds(1)
            #expect(try store.texts("SELECT count(*) FROM t") == ["\(count)"])
            return time
        }
        let (few, many) = (try seconds(100), try seconds(1_000))
        // Ten times the commits: 100 times the work if each looked at all others.
        #expect(many < few * 40, "\(few) s, then \(many) s")
    }

    @Test("a commit that names what its author cannot know is refused, and others of the same transaction are joined")
    func refused() throws {
        let (liar, b, c) = (try store("liar"), try store("b"), try store("c"))
        try b.write("INSERT INTO t VALUES (1, 1)")
        try liar.write("INSERT INTO t VALUES (2, 2)")
        let shape = WriteShape(.update, "t", keyCount: 1, columns: [ColumnID("x")])
        let unknown = Dot(author: try ReplayStore.id("nobody"), number: 9, tag: nil)
        let write = Write(shape, key: Cells([.integer(1)]), incarnation: unknown, values: Cells([.integer(7)]))
        let first = try #require(liar.commits.first)
        let lie = try EncodedCommit(
            Commit(
                author: first.commit.author, number: 2, previous: first.hash, time: first.commit.time.successor,
                writes: try Writes([write], author: first.commit.author)), in: .zero)
        try c.join(b.commits + liar.commits + [lie])
        #expect(try c.texts("SELECT * FROM t ORDER BY id") == ["1 1", "2 2"])
        #expect(try c.texts("SELECT refused FROM cipherstore_repository_inbox") == ["1"])
    }
}

@Suite("The catalog is kept between transactions")
struct CatalogCacheTests {
    @Test("a change of tables by another user of the store is seen, and what failed is forgotten")
    func versions() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, x)"
        let other = "; CREATE TABLE u (id INTEGER PRIMARY KEY, y)"
        let a = try TestReplica("a", sql + other, tracking: [TrackedTable("t")])
        try a.write("INSERT INTO t VALUES (1, 1)")
        // Another process tracks a table of the same schema.
        try a.queue.writeWithoutTransaction {
            try Replica().track($0, clock: .init(rawValue: 2_000_000), TrackedTable("u"))
        }
        try a.record(
            "INSERT INTO u VALUES (1, 1)",
            [ProgramChange(table: "u", old: nil, new: [.integer(1), .integer(1)])])
        #expect(a.commits.count == 2)
        struct Failure: Error {}
        #expect(throws: Failure.self) {
            try a.queue.writeWithoutTransaction { db in
                _ = try a.replica.record(db, clock: .init(rawValue: 3_000_000)) {
                    try db.execute(sql: "ALTER TABLE t ADD COLUMN z")
                    throw Failure()
                }
            }
        }
        try a.write("UPDATE t SET x = 2")
        let b = try TestReplica("b", sql, tracking: [TrackedTable("t")])
        try b.join(a.commits)
        #expect(try b.texts("SELECT * FROM t") == ["1 2"])
    }
}
