import CipherDatabase
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Errors of statements on a connection that has made commits")
struct FailedStatementTests {
    /// After the first failure on a connection each further one said "not an error".
    @Test(
        "each failure of one kind has the message of SQLite",
        arguments: [
            ("ALTER TABLE t DROP COLUMN nope", "no such column: \"nope\""),
            ("SELECT nope FROM t", "no such column: nope"),
            ("SELECT 1; SELECT nope FROM t", "no such column: nope"), ("SELECT * FROM nope", "no such table: nope"),
            ("SELEC 1", "near \"SELEC\": syntax error"), ("SELECT nope(1)", "no such function: nope"),
            ("INSERT INTO t VALUES (1, 1)", "UNIQUE constraint failed: t.id"),
            ("INSERT INTO t VALUES (2, json('{'))", "malformed JSON"),
            ("SELECT abs(-9223372036854775808)", "integer overflow"),
            ("UPDATE t SET v = 1 WHERE nope = ?", "no such column: nope"),
        ])
    func messages(_ sql: String, _ message: String) throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, v INT)", tracking: ["t"])
        try store.commit("INSERT INTO t VALUES (1, 1)")
        for _ in 0..<3 {
            let error = #expect(throws: DatabaseError.self) { try store.run(sql) }
            #expect(error?.message == message)
            let other = #expect(throws: DatabaseError.self) { try store.commit(sql) }
            #expect(other?.message == message)
            let compiled = #expect(throws: DatabaseError.self) {
                try store.queue.read { db in try db.makeStatement(sql: "SELECT nope FROM t") }
            }
            #expect(compiled?.message == "no such column: nope")
        }
    }

    /// A statement that was compiled before is compiled again at its first step.
    @Test("a kept statement whose column is dropped says so each time")
    func recompiled() throws {
        let store = try CaptureStore("a", "CREATE TABLE t (id INTEGER PRIMARY KEY, v INT, w INT)", tracking: ["t"])
        try store.commit("INSERT INTO t VALUES (1, 1, 1)")
        try store.queue.writeWithoutTransaction { db in
            let statement = try db.makeStatement(sql: "SELECT w FROM t")
            #expect(try Row.fetchAll(statement).count == 1)
            try db.execute(sql: "ALTER TABLE t DROP COLUMN w")
            for _ in 0..<3 {
                let error = #expect(throws: DatabaseError.self) { try Row.fetchAll(statement) }
                #expect(error?.message == "no such column: w")
            }
        }
    }
}
