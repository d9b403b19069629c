import CipherDatabase
import Testing

@testable import ChangesetSync

/// What SQLite reports to no trigger, or what a program does so that it does not.
@Suite("Writes that triggers do not see")
struct UnseenWriteTests {
    /// The row that was removed stayed on all other devices.
    @Test("a commit that turns the recording of replaced rows off is refused; before a commit it is turned on again")
    func recursiveTriggers() throws {
        let replica = try Replica("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, u TEXT UNIQUE)", tracking: ["t"])
        try replica.run("INSERT INTO t VALUES ('1', 's')")
        let head = try replica.head
        let off = "PRAGMA recursive_triggers = OFF"
        #expect(code { try replica.run("\(off); REPLACE INTO t VALUES ('2', 's')") } == .captureDisabled)
        let on = "PRAGMA main.recursive_triggers(1)"
        #expect(code { try replica.run("\(off); REPLACE INTO t VALUES ('2', 's'); \(on)") } == .captureDisabled)
        #expect(try replica.head == head && replica.repository.verify().isEmpty)
        try replica.write(off)
        try replica.run("\(on); REPLACE INTO t VALUES ('2', 's'); PRAGMA recursive_triggers = yes")
        #expect(try replica.repository.verify().isEmpty)
        #expect(try replica.delta(#require(try replica.head)).changeCount == 2)
    }

    @Test("the same in a schema with triggers of its own")
    func recursiveTriggersBesideOthers() throws {
        let schema = """
            CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, u TEXT UNIQUE);
            CREATE TRIGGER own AFTER DELETE ON t BEGIN SELECT 1; END
            """
        for setting in ["ON", "OFF"] {
            let replica = try Replica(schema, tracking: ["t"])
            try replica.write("PRAGMA recursive_triggers = \(setting)")
            try replica.run("INSERT INTO t VALUES ('1', 's')")
            let other = setting == "ON" ? "OFF" : "ON"
            let sql = "PRAGMA recursive_triggers = \(other); REPLACE INTO t VALUES ('2', 's')"
            #expect(code { try replica.run(sql) } == (setting == "ON" ? .captureDisabled : nil))
            #expect(try replica.repository.verify().isEmpty)
            try replica.run("REPLACE INTO t VALUES ('3', 's')")
            #expect(try replica.repository.verify().isEmpty)
        }
    }

    /// No call found them: all but a reset, which lost them.
    @Test("what no trigger sees is committed where nothing else was written outside of commits")
    func unseen() throws {
        let replica = try Replica("CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, b BLOB)", tracking: ["t"])
        try replica.run("INSERT INTO t VALUES (1, x'0000'), (2, x'0000')")
        try writeUnseen(replica, "UPDATE t SET b = x'0100' WHERE id = 1")
        let commit = try replica.repository.commitForeignWrites()
        #expect(try commit != nil && replica.repository.verify().isEmpty)
        #expect(try replica.repository.commitForeignWrites() == nil)
    }

    /// Writes as an incremental write of a blob does: without any trigger.
    private func writeUnseen(_ replica: Replica, _ sql: String) throws {
        try replica.queue.write { db in
            try db.changingHistory {
                try db.execute(sql: "PRAGMA writable_schema = ON")
                let triggers = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
                let definitions = try String.fetchAll(db, sql: "SELECT sql FROM sqlite_schema WHERE type = 'trigger'")
                for name in triggers { try db.execute(sql: "DROP TRIGGER \"\(name)\"") }
                try db.execute(sql: sql)
                for sql in definitions { try db.execute(sql: sql) }
                try db.execute(sql: "PRAGMA writable_schema = OFF")
            }
        }
    }

    /// The migration took them for rows of the head: no other device ever got them.
    @Test(
        "what no trigger sees is found after a migration, of this table or another one",
        arguments: ["ALTER TABLE o ADD COLUMN n INT DEFAULT 5", "ALTER TABLE t ADD COLUMN n INT DEFAULT 5"])
    func unseenBeforeMigration(migration: String) throws {
        let schema = """
            CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, b BLOB);
            CREATE TABLE o (id INTEGER PRIMARY KEY NOT NULL, v INT)
            """
        let replica = try Replica(schema, tracking: ["t", "o"])
        let other = try Replica(schema, tracking: ["t", "o"], key: replica.key())
        try replica.run("INSERT INTO t VALUES (1, x'0000'), (2, x'0000'); INSERT INTO o VALUES (1, 1)")
        try writeUnseen(replica, "UPDATE t SET b = x'0100' WHERE id = 1")
        try replica.write(migration)
        #expect(code { try replica.run("UPDATE o SET v = 2") } == .foreignWrites)
        let commit = try replica.repository.commitForeignWrites()
        #expect(try commit != nil && replica.repository.verify().isEmpty)
        #expect(try replica.repository.commitForeignWrites() == nil)
        try replica.run("UPDATE o SET v = 2")
        try other.write(migration)
        try other.fetch(replica)
        try other.repository.pull()
        #expect(try other.state() == replica.state())
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
            let replica = try Replica("CREATE TABLE t (\(columns)) \(suffix)", tracking: ["t"])
            let other = try Replica("CREATE TABLE t (\(columns)) \(suffix)", tracking: ["t"], key: replica.key())
            try replica.run("INSERT INTO t VALUES (1, 1)")
            try replica.run(update)
            #expect(try replica.repository.verify().isEmpty, "\(suffix)")
            try other.fetch(replica)
            try other.repository.pull()
            #expect(try other.state() == replica.state() && other.strings("SELECT count(*) FROM t") == ["1"])
            try replica.run("INSERT INTO t VALUES (5, 1)")
            try replica.run("UPDATE t SET k = 6 WHERE k = 5; UPDATE t SET v = 8")
            try other.fetch(replica)
            try other.repository.pull()
            #expect(try other.state() == replica.state())
        }
    }

    @Test("a key that changes from 0.0 to -0.0, or back, is the key of the same row", arguments: ["", "WITHOUT ROWID"])
    func signedZero(suffix: String) throws {
        let schema = "CREATE TABLE t (k NOT NULL PRIMARY KEY, a) \(suffix)"
        let replica = try Replica(schema, tracking: ["t"])
        let other = try Replica(schema, tracking: ["t"], key: replica.key())
        try replica.run("INSERT INTO t VALUES (-0.0, 1), (5, 2)")
        for value in ["0.0", "-0.0", "0.0"] {
            try replica.run("UPDATE t SET k = \(value), a = a + 1 WHERE k = 0")
            #expect(try replica.repository.verify().isEmpty, "\(value)")
            try other.fetch(replica)
            try other.repository.pull()
            #expect(try other.state() == replica.state(), "\(value)")
        }
    }

    @Test("a block that rolls its transaction back has no commit")
    func rollback() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let head = try replica.head
        for sql in ["ROLLBACK", "UPDATE player SET score = 2; ROLLBACK", "ROLLBACK; UPDATE player SET score = 2"] {
            #expect(throws: (any Error).self, "\(sql)") { try replica.run(sql) }
            #expect(try replica.head == head, "\(sql)")
        }
        #expect(code { try replica.run("ROLLBACK") } == .transactionEndedInCommit)
        try replica.run("UPDATE player SET score = 3")
        #expect(try replica.repository.verify().isEmpty)
    }
}
