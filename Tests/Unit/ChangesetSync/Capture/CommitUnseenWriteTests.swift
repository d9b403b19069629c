import CipherDatabase
import Testing

@testable import ChangesetSync

/// Writes of a program that a trigger does not report, or reports otherwise.
@Suite("Writes that triggers of a commit do not see")
struct CommitUnseenWriteTests {
    private func code(_ body: () throws -> Void) -> EngineError.Code? {
        do { try body() } catch { return (error as? EngineError)?.code }
        return nil
    }

    /// The row that was removed stayed on all other devices.
    @Test("a commit that turns the report of replaced rows off is refused; before a commit it is turned on again")
    func recursiveTriggers() throws {
        let sql = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, u TEXT UNIQUE)"
        let (store, other) = (try CaptureStore("a", sql, tracking: ["t"]), try CaptureStore("b", sql, tracking: ["t"]))
        try store.commit("INSERT INTO t VALUES ('1', 's')")
        let off = "PRAGMA recursive_triggers = OFF"
        #expect(code { try store.commit("\(off); REPLACE INTO t VALUES ('2', 's')") } == .captureDisabled)
        let on = "PRAGMA main.recursive_triggers(1)"
        #expect(code { try store.commit("\(off); REPLACE INTO t VALUES ('2', 's'); \(on)") } == .captureDisabled)
        #expect(store.commits.count == 1)
        try store.run(off)
        let commit = try #require(
            try store.commit("\(on); REPLACE INTO t VALUES ('2', 's'); PRAGMA recursive_triggers = yes"))
        #expect(commit.commit.writes.count == 2)
        try other.join(store)
        #expect(try other.texts("SELECT id, u FROM t") == ["2 s"])
    }

    @Test("the same in a schema with triggers of its own, which fire as the program has set it")
    func recursiveTriggersBesideOthers() throws {
        let schema = """
            CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, u TEXT UNIQUE);
            CREATE TRIGGER own AFTER DELETE ON t BEGIN SELECT 1; END
            """
        for setting in ["ON", "OFF"] {
            let (store, other) = (
                try CaptureStore("a", schema, tracking: ["t"]), try CaptureStore("b", schema, tracking: ["t"])
            )
            try store.run("PRAGMA recursive_triggers = \(setting)")
            try store.commit("INSERT INTO t VALUES ('1', 's')")
            let sql = "PRAGMA recursive_triggers = \(setting == "ON" ? "OFF" : "ON"); REPLACE INTO t VALUES ('2', 's')"
            #expect(code { try store.commit(sql) } == (setting == "ON" ? .captureDisabled : nil))
            try store.commit("REPLACE INTO t VALUES ('3', 's')")
            try other.join(store)
            #expect(try other.texts("SELECT id, u FROM t") == ["3 s"])
        }
    }

    @Test("a trigger that the program makes later does not fire for what REPLACE removes, as in any other database")
    func laterTrigger() throws {
        let store = try CaptureStore(
            "a", "CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE); CREATE TABLE log (what)", tracking: ["t"])
        try store.commit("INSERT INTO t VALUES (1, 's')")
        try store.run("CREATE TRIGGER own AFTER DELETE ON t BEGIN INSERT INTO log VALUES ('gone'); END")
        let commit = try #require(try store.commit("REPLACE INTO t VALUES (2, 's')"))
        #expect(commit.commit.writes.count == 2)
        #expect(try store.texts("SELECT * FROM log").isEmpty)
    }

    /// The row was deleted on all other devices.
    @Test(
        "a key that becomes its default instead of NULL is committed with it",
        arguments: [
            ("k INT NOT NULL DEFAULT 9 PRIMARY KEY, v", "UPDATE OR REPLACE t SET k = NULL"),
            ("k INT NOT NULL ON CONFLICT REPLACE DEFAULT 9 PRIMARY KEY, v", "UPDATE t SET k = NULL"),
            ("k TEXT NOT NULL DEFAULT 'd', v, PRIMARY KEY (k)", "UPDATE OR REPLACE t SET k = NULL, v = 3"),
        ])
    func defaultKey(columns: String, update: String) throws {
        for suffix in ["", "WITHOUT ROWID"] {
            let sql = "CREATE TABLE t (\(columns)) \(suffix)"
            let (store, other) = (
                try CaptureStore("a", sql, tracking: ["t"]), try CaptureStore("b", sql, tracking: ["t"])
            )
            try store.commit("INSERT INTO t VALUES (1, 1)")
            try store.commit(update)
            try other.join(store)
            #expect(try other.rows() == store.rows() && other.texts("SELECT count(*) FROM t") == ["1"])
            try store.commit("INSERT INTO t VALUES (5, 1)")
            try store.commit("UPDATE t SET k = 6 WHERE k = 5; UPDATE t SET v = 8")
            try other.join(store)
            #expect(try other.rows() == store.rows())
        }
    }

    @Test("a key that changes from 0.0 to -0.0, or back, is another key", arguments: ["", "WITHOUT ROWID"])
    func signedZero(suffix: String) throws {
        let sql = "CREATE TABLE t (k NOT NULL PRIMARY KEY, a) \(suffix)"
        let (store, other) = (try CaptureStore("a", sql, tracking: ["t"]), try CaptureStore("b", sql, tracking: ["t"]))
        try store.commit("INSERT INTO t VALUES (-0.0, 1), (5, 2)")
        for value in ["0.0", "-0.0", "0.0"] {
            try store.commit("UPDATE t SET k = \(value), a = a + 1 WHERE k = 0")
            try other.join(store)
            #expect(try other.rows() == store.rows(), "\(value)")
        }
    }

    @Test("a block that ends its transaction has no commit")
    func ends() throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, v)", tracking: ["t"])
        try store.commit("INSERT INTO t VALUES (1, 1)")
        for sql in [
            "ROLLBACK", "UPDATE t SET v = 2; ROLLBACK", "ROLLBACK; UPDATE t SET v = 2", "COMMIT",
            "UPDATE t SET v = 2; COMMIT", "UPDATE t SET v = 2; END; BEGIN",
            "ROLLBACK; BEGIN IMMEDIATE; UPDATE t SET v = 2",
        ] {
            #expect(throws: (any Error).self, "\(sql)") { try store.commit(sql) }
            #expect(try store.texts("SELECT v FROM t") == ["1"], "\(sql)")
            #expect(store.commits.count == 1, "\(sql)")
        }
        #expect(code { try store.commit("ROLLBACK") } == .transactionEndedInCommit)
        #expect(try store.commit("UPDATE t SET v = 3")?.commit.writes.count == 1)
    }

    @Test("a row without a key is refused, unless it is gone at the end")
    func nullKeys() throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id TEXT PRIMARY KEY, v)", tracking: ["t"])
        #expect(code { try store.commit("INSERT INTO t VALUES (NULL, 1)") } == .nullKey)
        let commit = try store.commit("INSERT INTO t VALUES (NULL, 1), ('a', 2); DELETE FROM t WHERE id IS NULL")
        #expect(commit?.commit.writes.count == 1)
        #expect(code { try store.commit("UPDATE t SET id = NULL") } == .nullKey)
        #expect(try store.texts("SELECT id FROM t") == ["a"])
    }

    @Test("the definition of a tracked table cannot change in a commit; other tables can")
    func schema() throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, u, v)", tracking: ["t"])
        try store.commit("INSERT INTO t VALUES (1, 1, 1)")
        for sql in [
            "ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN w", "DROP TABLE t",
            "CREATE UNIQUE INDEX i ON t (u)",
        ] {
            #expect(code { try store.commit("UPDATE t SET v = 2; \(sql)") } == .schemaChangedInCommit, "\(sql)")
        }
        #expect(try store.texts("SELECT v FROM t") == ["1"])
        #expect(try store.commit("CREATE TABLE o (x); UPDATE t SET v = 3")?.commit.writes.count == 1)
        try store.run("ALTER TABLE t DROP COLUMN v; ALTER TABLE o RENAME COLUMN x TO y")
    }

    @Test("a temporary trigger on a tracked table is refused")
    func temporaryTriggers() throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, v)", tracking: ["t"])
        try store.run("CREATE TEMP TRIGGER own BEFORE INSERT ON t BEGIN DELETE FROM t; END")
        #expect(code { try store.commit("INSERT INTO t VALUES (1, 1)") } == .temporaryTrigger)
    }
}
