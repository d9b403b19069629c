import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl export")
struct ExportTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makePlain(
            """
            PRAGMA user_version = 7; PRAGMA application_id = 99; PRAGMA encoding = 'UTF-16le';
            CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, data BLOB);
            INSERT INTO t (text, data) VALUES ('one', x'00ff'), (NULL, NULL), ('Ω', x'');
            CREATE TABLE n (x); INSERT INTO n (rowid, x) VALUES (10, 'ten'), (-5, 'minus');
            CREATE VIRTUAL TABLE f USING fts5 (x, content = 'n'); INSERT INTO f (f) VALUES ('rebuild');
            CREATE VIEW v AS SELECT text FROM t; CREATE INDEX i ON t (text);
            CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET data = x'01' WHERE id = new.id; END;
            """)
        try #require(place.ctl("import", place.path("plain.db"), place.path("s.db")).status == 0)
    }

    private func export(_ more: String..., to name: String = "out.db") throws -> CommandRun.Outcome {
        try place.run(
            ["export", place.path("s.db"), place.path(name), "--json", "--raw-key-file", place.key] + more)
    }

    @Test("everything comes back, with the same content hash, into a file that is its owner's alone")
    func everything() throws {
        let outcome = try export("--insecure-plaintext")
        try #require(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.errors.contains(#"{"warning": {"message": "everything in"#))
        let out = try place.run(["hash", "--plain", place.path("out.db"), "--json"]).json["content_hash"] as? String
        let plain =
            try place.run(["hash", "--plain", place.path("plain.db"), "--json"]).json["content_hash"] as? String
        #expect(out == plain)
        #expect(outcome.json["content_hash"] as? String == plain)
        let attributes = try FileManager.default.attributesOfItem(atPath: place.path("out.db"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try place.bytes("out.db").starts(with: Array("SQLite format 3\0".utf8)))
        #expect(try place.names().filter { $0.hasPrefix("out.db") } == ["out.db"])

        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: place.path("out.db"), configuration: configuration)
        defer { try? queue.close() }
        try queue.inDatabase { (db) throws in
            #expect(try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"])
            #expect(try Int.fetchOne(db, sql: "SELECT rowid FROM f WHERE f MATCH 'minus'") == -5)
            #expect(try String.fetchOne(db, sql: "PRAGMA encoding") == "UTF-16le")
            #expect(try Int.fetchOne(db, sql: "PRAGMA user_version") == 7)
        }
    }

    @Test("without the option that says what it does, nothing is made, and no key is asked for")
    func refusesWithoutOption() throws {
        let before = try place.names()
        let outcome = try place.run(["export", place.path("s.db"), place.path("out.db")])
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("hint: Add --insecure-plaintext"))
        #expect(try place.names() == before)
    }

    @Test("a target that exists is left as it is", arguments: ["out.db", "out.db-wal", "out.db-journal"])
    func targetExists(_ name: String) throws {
        try place.write("mine", to: name)
        let outcome = try export("--insecure-plaintext")
        #expect(outcome.status == 64)
        #expect(outcome.errorJSON["code"] as? String == "exists")
        #expect(try place.bytes(name) == Array("mine".utf8))
    }

    @Test("a wrong key, and a store that is not there, leave nothing behind")
    func failures() throws {
        try Workplace.write([UInt8](repeating: 1, count: 32), to: place.path("other.key"))
        let before = try place.names()
        let wrong = try place.ctl(
            "export", place.path("s.db"), place.path("out.db"), "--insecure-plaintext", key: place.path("other.key"))
        #expect(wrong.status == 77)
        let missing = try place.ctl("export", place.path("no.db"), place.path("out.db"), "--insecure-plaintext")
        #expect(missing.status == 66)
        #expect(try place.names() == before)
    }

    @Test("what a killed export had left is removed by the next one, and doctor of the target's name tells of it")
    func killed() throws {
        // A process that is surely gone: one that has ended.
        let ended = try CommandRun(#require(SystemProgram.find("true")), [])
        #expect(ended.finish().status == 0)
        let left = "out.db.exporting-\(ended.processIdentifier)-0123abcd"
        try FileManager.default.createDirectory(atPath: place.path(left), withIntermediateDirectories: false)
        try place.write("rows", to: "\(left)/out.db")
        try place.write("", to: "\(left)/import.lock")
        let outcome = try export("--insecure-plaintext")
        #expect(outcome.status == 0)
        #expect(outcome.errors.contains("which a killed export had left"))
        #expect(!place.exists(left))
    }
}
