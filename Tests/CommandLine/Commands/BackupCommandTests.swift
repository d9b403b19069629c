import Foundation
import TestKit
import Testing

@Suite("cipherctl backup and restore")
struct BackupCommandTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func hash(_ name: String) throws -> String? {
        try place.ctl("hash", place.path(name), "--json").json["content_hash"] as? String
    }

    @Test("a store that was backed up and destroyed is restored with the same content")
    func drill() throws {
        let before = try hash("s.db")
        let made = try place.ctl("backup", place.path("s.db"), place.path("b"), "--json")
        try #require(made.status == 0, "\(made.errors)")
        #expect(made.json["verified"] as? Bool == true && made.json["epoch"] as? Int == 1)
        #expect(made.json["bytes"] as? Int == (made.json["pages"] as? Int ?? 0) * 4096)
        try place.remove("s.db", "s.db-sidecar", "s.db-sidecar.bak")
        for name in try place.names() where name.hasPrefix("s.db-") { try place.remove(name) }
        let restored = try place.ctl("restore", place.path("b"), place.path("s.db"), "--json")
        try #require(restored.status == 0, "\(restored.errors)")
        #expect(restored.json["former_files"] is NSNull)
        #expect(try hash("s.db") == before)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    // It made the keys valid again without a word.
    @Test("a restoration names the keyslots that were removed since the backup")
    func revivedSlots() throws {
        try place.write("another long passphrase\n", to: "second")
        let added = try place.ctl("key", "add", place.path("s.db"), "--new-key-file", place.path("second"))
        try #require(added.status == 0, "\(added.errors)")
        try #require(place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        try #require(place.ctl("key", "remove", place.path("s.db"), "--slot", "2", "--yes").status == 0)
        let done = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        try #require(done.status == 0, "\(done.errors)")
        #expect(done.errors.contains("keyslot 2") && done.errors.contains("key remove"), "\(done.errors)")
        let again = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        #expect(!again.errors.contains("keyslot"), "\(again.errors)")
        let fifo = try place.ctl("restore", place.path("b"), "/dev/null", "--replace", "--yes")
        #expect(fifo.status == 64, "\(fifo.errors)")
        let owned = try place.ctl("restore", place.path("b"), place.path("s.db-journal"))
        #expect(owned.status == 64, "\(owned.errors)")
    }

    @Test("a store is replaced only when that was asked for twice, and its former files are named")
    func replacing() throws {
        try #require(place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let before = try hash("s.db")
        try #require(place.ctl("sql", place.path("s.db"), "DELETE FROM t", "--write").status == 0)
        let refused = try place.ctl("restore", place.path("b"), place.path("s.db"))
        #expect(refused.status == 64 && refused.errors.contains("something at the path"))
        let asked = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace")
        #expect(asked.status == 64 && asked.errors.contains("--yes"))
        let done = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        try #require(done.status == 0, "\(done.errors)")
        #expect(done.output.contains("former files") && done.output.contains("s.db-replaced-"))
        #expect(try hash("s.db") == before)
    }

    @Test("every bad input gets its exit code and a sentence, and nothing is left")
    func badInput() throws {
        try #require(place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        try Workplace.write([UInt8](repeating: 1, count: 32), to: place.path("other.key"))
        let before = try place.names()
        let cases: [(arguments: [String], key: String?, status: Int32, code: String)] = [
            (["backup", "s.db", "b"], nil, 64, "alreadyExists"),
            (["backup", "none.db", "c"], nil, 66, "noSuchStore"),
            (["backup", "s.db", "c"], "other.key", 77, "wrongKey"),
            (["backup", "s.db", "none/c"], nil, 66, ""),
            (["restore", "none", "r.db"], nil, 66, "noSuchStore"),
            (["restore", "b", "r.db"], "other.key", 77, "wrongKey"),
            (["restore", "b", "none/r.db"], nil, 66, ""),
        ]
        for (arguments, key, status, code) in cases {
            let words = [arguments[0]] + arguments.dropFirst().map(place.path)
            let outcome = try place.run(
                words + ["--json", "--raw-key-file", key.map(place.path) ?? place.key])
            #expect(outcome.status == status, "\(arguments): \(outcome.errors)")
            if !code.isEmpty { #expect(outcome.errorJSON["code"] as? String == code, "\(arguments)") }
        }
        try place.flip("b/store.db", at: 9000)
        let damaged = try place.ctl("restore", place.path("b"), place.path("r.db"))
        #expect(damaged.status == 65 && damaged.errors.contains("complete and unchanged"))
        #expect(damaged.errors.hasSuffix("hint: Use another backup. Nothing was changed.\n"), "\(damaged.errors)")
        try place.remove("b/store.db")
        let missing = try place.ctl("restore", place.path("b"), place.path("r.db"))
        #expect(missing.status == 65 && missing.errors.contains("Its store.db is missing."), "\(missing.errors)")
        let after = try place.names().filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }
        #expect(after.subtracting(before).subtracting(["s.db-keylog"]).isEmpty, "\(after.subtracting(before))")
    }

    @Test(
        "a rotation that was interrupted is settled only after that was said, and what was done is printed",
        arguments: [("rotationCopied", "undone", 1), ("rotationRenamed", "completed", 2)])
    func interruptedRotation(_ point: String, _ word: String, _ epoch: Int) throws {
        // The story: `backup` undid or completed such a rotation, and neither its help nor `--status` had said so.
        let killed = try place.run(
            ["rotate", place.path("s.db"), "--no-backup", "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": point])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let status = try place.run(["rotate", place.path("s.db"), "--status"])
        #expect(status.output.contains("the next opening for writing \(epoch == 1 ? "undoes" : "completes") it"))
        #expect(status.output.contains("and so does cipherctl backup"), "\(status.output)")
        let made = try place.ctl("backup", place.path("s.db"), place.path("b"), "--json")
        #expect(made.status == 0 && made.json["epoch"] as? Int == epoch, "\(made.errors)")
        let said = made.errors.range(of: "was interrupted; the backup needs a settled store, so it is \(word) first")
        let done = made.errors.range(of: "was \(word); the store has its key of epoch")
        #expect(said != nil && done != nil, "\(made.errors)")
        if let said, let done { #expect(said.lowerBound < done.lowerBound) }
        let help = try place.run(["help", "backup"])
        #expect(help.output.contains("it settles an interrupted rotation first"))
    }

    // A wrong key, and another backup that is damaged, were called an interruption for which space had to be freed.
    @Test("an error of a restoration that follows an interrupted one keeps its own words, and says where the files are")
    func errorAfterInterruption() throws {
        let place = try Workplace()
        try place.makeStore()
        try #require(place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        try place.copy("b", to: "damaged")
        try place.flip("damaged/store.db", at: 9000)
        try Workplace.write([UInt8](repeating: 1, count: 32), to: place.path("other.key"))
        let words = ["restore", place.path("b"), place.path("s.db"), "--replace", "--yes", "--json"]
        let killed = try place.run(
            words + ["--raw-key-file", place.key], environment: ["CIPHERSTORE_CRASH_AT": "restoreFormerRemoved"])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let folder = try #require(place.names().first { $0.hasPrefix("s.db-replaced-") })
        func expect(_ outcome: CommandRun.Outcome, _ status: Int32, _ code: String) {
            #expect(outcome.status == status && outcome.errorJSON["code"] as? String == code, "\(outcome.errors)")
            #expect(!outcome.errors.contains("Free space"), "\(outcome.errors)")
            #expect(outcome.errors.contains(folder), "\(outcome.errors)")
        }
        try expect(place.run(words + ["--raw-key-file", place.path("other.key")]), 77, "wrongKey")
        let damaged = words.map { $0 == place.path("b") ? place.path("damaged") : $0 }
        try expect(place.run(damaged + ["--raw-key-file", place.key]), 65, "backupDamaged")
        #expect(try place.run(words + ["--raw-key-file", place.key]).status == 0)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    @Test("what backup and restore did stands in the key log")
    func keyLog() throws {
        try #require(place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        try #require(place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes").status == 0)
        let log = String(decoding: try place.bytes("s.db-keylog"), as: UTF8.self)
        for event in ["backup-made", "backup-verified", "restored"] { #expect(log.contains(event), "\(event)") }
    }
}
