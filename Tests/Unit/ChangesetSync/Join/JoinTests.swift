import CipherDatabase
import Testing

@testable import ChangesetSync

@Suite("Stores join commits")
struct JoinTests {
    private func pair(
        _ sql: String, _ tables: String..., sliceRows: Int = 0
    ) throws -> (TestReplica, TestReplica) {
        let tracked = tables.map { TrackedTable($0) }
        return (
            try TestReplica("a", sql, tracking: tracked, sliceRows: sliceRows),
            try TestReplica("b", sql, tracking: tracked, sliceRows: sliceRows)
        )
    }

    private static let rows = "CREATE TABLE t (id INTEGER PRIMARY KEY, x, y)"

    @Test("the stamps of a bulk insertion are one record, there and where it is joined")
    func range() throws {
        let (a, b) = try pair(Self.rows, "t")
        try a.write(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t SELECT i, i, i FROM n"
        )
        try b.join(a.commits)
        for replica in [a, b] {
            #expect(try replica.texts("SELECT lo, hi FROM cipherstore_repository_range_1") == ["1 1000"])
            #expect(try replica.texts("SELECT count(*) FROM cipherstore_repository_row_1") == ["0"])
            #expect(try replica.texts("SELECT count(*), sum(x) FROM t") == ["1000 500500"])
        }
        try b.write("UPDATE t SET x = 0 WHERE id = 500; DELETE FROM t WHERE id = 700")
        try a.join(b.commits)
        for replica in [a, b] {
            #expect(try replica.texts("SELECT lo, hi FROM cipherstore_repository_range_1") == ["1 699", "701 1000"])
            #expect(try replica.texts("SELECT key, length(stamps) FROM cipherstore_repository_row_1") == ["500 3"])
            #expect(try replica.texts("SELECT count(*), sum(x) FROM t") == ["999 499300"])
        }
    }

    @Test("two exchange their unique values, in one commit")
    func exchangeOfUniqueValues() throws {
        let (a, b) = try pair("CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE)", "t")
        try a.write("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        try TestReplica.exchange(a, b)
        try a.write(
            "UPDATE t SET u = 'z' WHERE id = 1; UPDATE t SET u = 'x' WHERE id = 2; UPDATE t SET u = 'y' WHERE id = 1")
        try TestReplica.exchange(a, b)
        #expect(try b.texts("SELECT * FROM t ORDER BY id") == ["1 y", "2 x"])
        #expect(try b.texts("SELECT count(*) FROM cipherstore_repository_aside") == ["0"])
    }

    @Test("a key that is deleted and inserted in one commit is an update")
    func deletedAndInserted() throws {
        let (a, b) = try pair(Self.rows, "t")
        try a.write("INSERT INTO t VALUES (1, 1, 1)")
        try TestReplica.exchange(a, b)
        try a.write("DELETE FROM t; INSERT INTO t VALUES (1, 2, 1)")
        try b.write("UPDATE t SET y = 3")
        try TestReplica.exchange(a, b)
        for replica in [a, b] { #expect(try replica.texts("SELECT * FROM t") == ["1 2 3"]) }
    }

    @Test("keys that a collation holds equal are rows that compete for the key: the older shows")
    func collatedKeys() throws {
        let (a, b) = try pair("CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, x)", "t")
        try a.write("INSERT INTO t VALUES ('a', 'by a')")
        try b.write("INSERT INTO t VALUES ('Z', 0)")
        try b.write("INSERT INTO t VALUES ('A', 'by b')")
        try TestReplica.exchange(a, b)
        for replica in [a, b] {
            #expect(try replica.texts("SELECT * FROM t ORDER BY id") == ["a by a", "Z 0"])
            #expect(try replica.hidden() == ["t [\"A\"] unique"])
        }
        try a.write("DELETE FROM t WHERE id = 'a'")
        try TestReplica.exchange(a, b)
        for replica in [a, b] {
            #expect(try replica.texts("SELECT * FROM t ORDER BY id") == ["A by b", "Z 0"])
            #expect(try replica.hidden().isEmpty)
        }
    }

    @Test("composite keys, WITHOUT ROWID and references that refer to them")
    func compositeKeys() throws {
        let sql = """
            CREATE TABLE p (a, b TEXT, x, PRIMARY KEY (b, a)) WITHOUT ROWID;
            CREATE TABLE c (id INTEGER PRIMARY KEY, a, b, FOREIGN KEY (a, b) REFERENCES p (a, b) ON DELETE SET NULL);
            """
        let (a, b) = try pair(sql, "p", "c")
        try a.write("INSERT INTO p VALUES (1, 'one', 0), (2, 'two', 0)")
        try TestReplica.exchange(a, b)
        try a.write("DELETE FROM p WHERE a = 1")
        try b.write("INSERT INTO c VALUES (1, 1, 'one'), (2, 2, 'two')")
        try TestReplica.exchange(a, b)
        for replica in [a, b] {
            #expect(try replica.texts("SELECT a, b FROM p") == ["2 two"])
            #expect(try replica.texts("SELECT * FROM c ORDER BY id") == ["1 NULL NULL", "2 2 two"])
        }
        try b.write("INSERT INTO p VALUES (1, 'one', 'again')")
        try TestReplica.exchange(a, b)
        for replica in [a, b] { #expect(try replica.texts("SELECT * FROM c ORDER BY id") == ["1 1 one", "2 2 two"]) }
    }

    @Test("a child may come before its parent in one commit, and refer to itself")
    func childBeforeParent() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, boss REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)"
        let (a, b) = try pair(sql, "t")
        try a.write("INSERT INTO t VALUES (1, 2), (2, 3), (3, 3)")
        try TestReplica.exchange(a, b)
        #expect(try b.texts("SELECT * FROM t ORDER BY id") == ["1 2", "2 3", "3 3"])
        #expect(try b.texts("SELECT count(*) FROM cipherstore_repository_aside") == ["0"])
    }

    @Test("rows of a table that is not here are kept and sent on")
    func unknownTable() throws {
        let (a, b) = try pair(Self.rows + "; CREATE TABLE other (id INTEGER PRIMARY KEY, z)", "t", "other")
        let c = try TestReplica("c", Self.rows, tracking: [TrackedTable("t")])
        try a.write("INSERT INTO t VALUES (1, 1, 1); INSERT INTO other VALUES (1, 'kept')")
        try c.join(a.commits)
        try b.join(try #require(try c.snapshot()))
        #expect(try b.texts("SELECT * FROM other") == ["1 kept"])
        #expect(try c.texts("SELECT * FROM t") == ["1 1 1"])
    }

    @Test("a row that the local CHECK refuses is hidden, and returns when it is changed")
    func check() throws {
        let a = try TestReplica("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, x)", tracking: [TrackedTable("t")])
        let b = try TestReplica(
            "b", "CREATE TABLE t (id INTEGER PRIMARY KEY, x CHECK (x < 10))", tracking: [TrackedTable("t")])
        try a.write("INSERT INTO t VALUES (1, 5), (2, 20)")
        try TestReplica.exchange(a, b)
        #expect(try b.texts("SELECT * FROM t") == ["1 5"])
        #expect(try b.hidden() == ["t [\"2\"] check"])
        try a.write("UPDATE t SET x = 7 WHERE id = 2")
        try TestReplica.exchange(a, b)
        #expect(try b.texts("SELECT * FROM t") == ["1 5", "2 7"])
        #expect(try b.hidden().isEmpty)
    }

    @Test("a snapshot is joined in slices, and gives a newcomer all rows")
    func snapshot() throws {
        let (a, b) = try pair(Self.rows, "t", sliceRows: 10)
        try a.write(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 95) INSERT INTO t SELECT i, i, i FROM n"
        )
        try a.write("UPDATE t SET x = -1 WHERE id % 10 = 0; DELETE FROM t WHERE id = 5")
        try b.join(try #require(try a.snapshot()))
        #expect(try b.texts("SELECT * FROM t") == a.texts("SELECT * FROM t"))
        try b.write("UPDATE t SET y = 'b' WHERE id = 10")
        try a.join(b.commits)
        #expect(try a.texts("SELECT * FROM t WHERE id = 10") == ["10 -1 b"])
    }
}

@Suite("Stores of different schemas")
struct SchemaTests {
    private static let key = "CREATE TABLE t (id INTEGER PRIMARY KEY, x"

    @Test("a column that is not here yet is kept, sent on in a snapshot, and shown when it is there")
    func laterColumn() throws {
        let new = try TestReplica("a", Self.key + ", z DEFAULT 'd')", tracking: [TrackedTable("t")])
        let old = try TestReplica("b", Self.key + ")", tracking: [TrackedTable("t")])
        try new.write("INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')")
        try old.join(new.commits)
        try old.write("UPDATE t SET x = 10 WHERE id = 1")
        try old.write("INSERT INTO t VALUES (3, 3)")
        try new.join(old.commits)
        #expect(try new.texts("SELECT * FROM t") == ["1 10 one", "2 2 two", "3 3 d"])
        try old.alter("ALTER TABLE t ADD COLUMN z DEFAULT 'local'")
        #expect(try old.texts("SELECT * FROM t") == ["1 10 one", "2 2 two", "3 3 local"])
        #expect(try old.texts("SELECT count(*) FROM cipherstore_repository_aside") == ["0"])
        try old.write("UPDATE t SET z = 'by b' WHERE id = 2")
        try new.join(old.commits)
        #expect(try new.texts("SELECT z FROM t WHERE id = 2") == ["by b"])
    }

    @Test("a renamed column keeps its identity, and its former name may be used again")
    func renamed() throws {
        let a = try TestReplica("a", Self.key + ")", tracking: [TrackedTable("t")])
        let b = try TestReplica("b", Self.key + ")", tracking: [TrackedTable("t")])
        try a.write("INSERT INTO t VALUES (1, 'first')")
        try b.join(a.commits)
        try b.alter("ALTER TABLE t RENAME COLUMN x TO y; ALTER TABLE t ADD COLUMN x", renaming: ("x", "y"))
        try b.write("UPDATE t SET x = 'another', y = 'second'")
        try a.join(b.commits)
        #expect(try a.texts("SELECT x FROM t") == ["second"])
        try a.write("UPDATE t SET x = 'third'")
        try b.join(a.commits)
        #expect(try b.texts("SELECT y, x FROM t") == ["third another"])
    }
}

@Suite("Members that lie")
struct LieTests {
    private static let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, x)"

    private func lie(_ writes: [Write], number: UInt64 = 1) throws -> EncodedCommit {
        let author = try ReplayStore.id("liar")
        let commit = Commit(
            author: author, number: number, previous: .zero, time: HybridTime(rawValue: 5),
            writes: try Writes(writes, author: author))
        return try EncodedCommit(commit, in: .zero)
    }

    @Test("a commit that names an unknown commit is refused, and others are joined")
    func unknownCommit() throws {
        let (a, b) = (
            try TestReplica("a", Self.sql, tracking: [TrackedTable("t")]),
            try TestReplica("b", Self.sql, tracking: [TrackedTable("t")])
        )
        let shape = WriteShape(.update, "t", keyCount: 1, columns: [ColumnID("x")])
        let unknown = Dot(author: try ReplayStore.id("nobody"), number: 7, tag: nil)
        let bad = try lie([Write(shape, key: Cells([.integer(1)]), incarnation: unknown, values: Cells([.null]))])
        try a.write("INSERT INTO t VALUES (1, 'honest')")
        let c = try TestReplica("c", Self.sql, tracking: [TrackedTable("t")])
        try c.queue.writeWithoutTransaction { db in
            let clock = HybridTime(rawValue: 1_000_000)
            try c.replica.fetch(db, clock: clock, bad)
            #expect(throws: EngineError.self) { try c.replica.begin(db, clock: clock, bad.commit.author, bad.tip) }
        }
        try b.join([bad] + a.commits)
        #expect(try b.texts("SELECT * FROM t") == ["1 honest"])
    }

    @Test("the greatest era does not stop a program that writes")
    func greatestEra() throws {
        let a = try TestReplica("a", Self.sql, tracking: [TrackedTable("t")])
        let shape = WriteShape(.insert, "t", keyCount: 1, columns: [ColumnID("x")])
        try a.join([try lie([Write(shape, key: Cells([.integer(1)]), values: Cells([.integer(1)]), era: .max)])])
        try a.write("UPDATE t SET x = 2")
        #expect(try a.texts("SELECT * FROM t") == ["1 2"])
    }

    @Test("a key that the table would store as another one is hidden")
    func convertedKey() throws {
        let a = try TestReplica("a", Self.sql, tracking: [TrackedTable("t")])
        let shape = WriteShape(.insert, "t", keyCount: 1, columns: [ColumnID("x")])
        try a.join([
            try lie([
                Write(shape, key: Cells([.string("5")]), values: Cells([.null])),
                Write(shape, key: Cells([.string("five")]), values: Cells([.null])),
                Write(shape, key: Cells([.integer(5)]), values: Cells([.string("shown")])),
            ])
        ])
        #expect(try a.texts("SELECT * FROM t") == ["5 shown"])
        #expect(try a.hidden() == ["t [\"5\"] type", "t [\"five\"] type"])
    }
}
