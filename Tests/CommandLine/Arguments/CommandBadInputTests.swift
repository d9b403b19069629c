import Foundation
import TestKit
import Testing

/// The answer to each kind of bad file: a typed error, its exit code, and nothing changed.
@Suite("cipherctl on bad input")
struct CommandBadInputTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private static let sidecars = ["s.db-sidecar", "s.db-sidecar.bak"]

    /// Expects every command that opens the store to end with an error, and no file to change.
    private func expectError(
        _ name: String, _ status: Int32, key: String? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let before = try place.contents()
        for command in [["sql", place.path("s.db"), "SELECT count(*) FROM t"], ["verify", place.path("s.db")]] {
            let outcome = try place.run(command + ["--json", "--raw-key-file", key ?? place.key])
            let error = outcome.errorJSON
            #expect(outcome.status == status, "\(command[0]): \(outcome.errors)", sourceLocation: sourceLocation)
            #expect(error["code"] as? String == name, "\(command[0])", sourceLocation: sourceLocation)
            #expect(error["exit_code"] as? Int32 == status, sourceLocation: sourceLocation)
            #expect((error["hint"] as? String)?.isEmpty == false, sourceLocation: sourceLocation)
        }
        let after = try place.contents()
        for (file, bytes) in before { #expect(after[file] == bytes, "\(file)", sourceLocation: sourceLocation) }
    }

    @Test("a wrong key")
    func wrongKey() throws {
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("wrong"))
        try expectError("wrongKey", 77, key: place.path("wrong"))
    }

    /// Every command that takes a store, with the words after it.
    private static let commands: [[String]] = [
        ["sql", "X", "SELECT 1", "--write"], ["sql", "X", "SELECT 1"], ["backup", "X", "b"],
        ["history", "record", "X", "--all"], ["history", "stop", "X", "--all"], ["history", "X"],
        ["history", "readers", "X"], ["watch", "X"], ["sync", "init", "X", "--all-tables"], ["sync", "status", "X"],
        ["sync", "run", "X"], ["sync", "push", "X"], ["sync", "commit", "X"], ["status", "X"], ["doctor", "X"],
        ["verify", "X"], ["hash", "X"], ["key", "list", "X"], ["key", "test", "X"], ["key", "accept", "X"],
        ["key", "add", "X", "--new-raw-key-file", "raw.key"], ["key", "reveal", "X", "--yes"],
        ["key", "convert", "X", "--to", "direct"], ["rotate", "X", "--no-backup"],
        ["rotate", "X", "--no-backup", "--dry-run"], ["rotate", "X", "--no-backup", "--resume"],
        ["rotate", "X", "--abort"], ["export", "X", "out.db", "--insecure-plaintext"], ["salvage", "X", "out.db"],
        ["conformance", "X"], ["adopt", "X"],
    ]

    private static let kinds = ["text", "empty", "missing", "folder", "plain", "random", "no sidecar"]

    // `sql --write`, `backup`, `history record`, `sync init` and `rotate --abort` left an empty X-lock.
    @Test("no command leaves anything beside a thing that is no store", arguments: kinds)
    func noStore(kind: String) throws {
        let name = "X"
        switch kind {
        case "text": try place.write("not a database at all, but a text\n", to: name)
        case "empty": try place.write("", to: name)
        case "folder":
            try FileManager.default.createDirectory(atPath: place.path(name), withIntermediateDirectories: false)
        case "plain": try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)", as: name)
        case "random":
            var generator = SystemRandomNumberGenerator()
            let bytes = (0..<8192).map { _ in UInt8.random(in: 0...255, using: &generator) }
            try Workplace.write(bytes, to: place.path(name))
        case "no sidecar": try place.copy("s.db", to: name)
        default: break
        }
        let before = FolderSnapshot(of: place.folder)
        // In `make test` each kind gets one command in three, another one than the kind before it.
        let commands = Sweep.sample(Self.commands, oneIn: 3, offset: Self.kinds.firstIndex(of: kind) ?? 0)
        for words in commands where !(kind == "random" && words[0] == "adopt") {
            let arguments = words.map { $0 == "X" ? place.path(name) : $0 } + ["--raw-key-file", place.key]
            let outcome = try place.run(arguments)
            #expect(outcome.status < 128, "\(words): \(outcome.errors)")
            if !["conformance", "verify"].contains(words[0]) { #expect(outcome.status != 0, "\(words)") }
            let changes = before.changes(until: FolderSnapshot(of: place.folder))
            #expect(changes.isEmpty, "\(words): \(changes)")
        }
    }

    /// The key of the store was called wrong, that of the other store opened a "damaged" page 1, and without a key nothing
    /// needed attention.
    @Test("a sidecar of another store, in both copies, is said to be that by every command, with and without a key")
    func exchangedSidecar() throws {
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("other.key"))
        try place.makeStore("other.db", key: place.path("other.key"))
        for name in Self.sidecars { try place.copy(name.replacing("s.db", with: "other.db"), to: name) }
        let store = place.path("s.db")
        let refusing = [["sql", store, "SELECT 1"], ["verify", store], ["key", "test", store], ["hash", store]]
        for key in [place.key, place.path("other.key")] {
            for words in refusing {
                let outcome = try place.run(words + ["--json", "--raw-key-file", key])
                #expect(outcome.errorJSON["code"] as? String == "foreignSidecar", "\(words): \(outcome.errors)")
                #expect(outcome.status == 65 && outcome.errors.contains("belongs to another store"), "\(words)")
                let hint = outcome.errorJSON["hint"] as? String ?? ""
                #expect(hint.contains("store.db-sidecar") && !hint.contains("damaged"), "\(words): \(hint)")
            }
            let doctor = try place.run(["doctor", store, "--raw-key-file", key])
            #expect(doctor.status == 2 && doctor.output.contains("belongs to another store"), "\(doctor.output)")
        }
        for words in [["status", store, "--no-key"], ["doctor", store, "--no-key"], ["key", "list", store]] {
            let outcome = try place.run(words)
            let said = outcome.output + outcome.errors
            #expect(outcome.status == 2 && said.contains("belongs to another store"), "\(words): \(said)")
        }
        let status = try place.ctl("status", store, key: place.path("other.key"))
        #expect(status.status == 2 && status.output.contains("belongs to another store"), "\(status.output)")
        // A key log of another store beside a sound store is that, and opens.
        for name in Self.sidecars { try place.remove(name) }
        try place.remove("s.db", "s.db-keylog")
        try place.put(
            place.files(of: "other.db").map {
                Workplace.StoreFile(
                    name: $0.name.replacing("other.db", with: "s.db"), bytes: $0.bytes, mode: $0.mode)
            })
        try place.copy("other.db-keylog", to: "s.db-keylog")
        #expect(try place.ctl("status", store, key: place.path("other.key")).status == 0)
    }

    /// Both were called the file, or the sidecar, of another store.
    @Test("after a rotation an older database, or an older sidecar, is said to be older", arguments: [false, true])
    func otherState(isSidecarOld: Bool) throws {
        let old = try place.files(of: "s.db")
        #expect(try place.ctl("rotate", place.path("s.db"), "--no-backup").status == 0)
        let sidecars: Set = ["s.db-sidecar", "s.db-sidecar.bak"]
        try place.put(old.filter { isSidecarOld ? sidecars.contains($0.name) : $0.name == "s.db" })
        let words = isSidecarOld ? "from before the rotation to epoch 2" : "is older than its sidecar"
        for command in [
            ["verify"], ["sql", "SELECT 1"], ["sql", "SELECT 1", "--write"], ["status"], ["doctor"], ["hash"],
        ] {
            let outcome = try place.run(
                [command[0], place.path("s.db")] + command.dropFirst() + ["--raw-key-file", place.key])
            let said = outcome.output + outcome.errors
            #expect(outcome.status != 0 && said.contains(words), "\(command): \(said)")
            #expect(said.contains("from one backup") && said.contains("--replace"), "\(command): \(said)")
            #expect(!said.contains("belongs to another store"), "\(command): \(said)")
        }
    }

    @Test("a folder that was a backup is called that, and one that never was is none")
    func backupWithoutDatabase() throws {
        #expect(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let inside = try place.ctl("restore", place.path("b"), place.path("b/x.db"))
        #expect(inside.status == 64 && inside.errors.contains("in the folder of the backup"), "\(inside.errors)")
        try place.remove("b/store.db")
        for command in ["status", "verify", "doctor", "hash", "key"] {
            let words = command == "key" ? ["key", "list"] : [command]
            let outcome = try place.run(words + [place.path("b"), "--raw-key-file", place.key])
            #expect(!outcome.errors.contains("destroy") && !outcome.output.contains("destroy"), "\(outcome.errors)")
            guard command != "key" else { continue }
            #expect(outcome.status == 65 && outcome.errors.contains("backup"), "\(words): \(outcome.errors)")
            #expect(outcome.errors.contains("cipherctl restore"), "\(words): \(outcome.errors)")
        }
        try FileManager.default.createDirectory(atPath: place.path("e"), withIntermediateDirectories: false)
        for words in [["backup", "verify", place.path("e")], ["restore", place.path("e"), place.path("r.db")]] {
            let outcome = try place.run(words + ["--raw-key-file", place.key])
            #expect(outcome.status == 66 && outcome.errors.contains("no backup"), "\(outcome.errors)")
        }
    }

    @Test("without both copies of the sidecar the salt is missing")
    func noSidecar() throws {
        try place.remove(Self.sidecars[0], Self.sidecars[1])
        try expectError("saltMissing", 65)
    }

    @Test(
        "one copy of the sidecar is enough, is spoken of, and an opening for writing makes the other",
        arguments: sidecars)
    func oneCopy(_ name: String) throws {
        let bytes = try place.bytes(name)
        try place.remove(name)
        let outcome = try place.ctl("sql", place.path("s.db"), "SELECT 1")
        #expect(outcome.status == 0)
        #expect(outcome.errors.contains("copy of the sidecar is missing"))
        #expect(!place.exists(name))
        #expect(try place.ctl("sql", place.path("s.db"), "SELECT 1", "--write").status == 0)
        #expect(try place.bytes(name) == bytes)
    }

    @Test("both copies damaged, and sidecars of a megabyte", arguments: [12, 1_000_000])
    func damagedSidecars(_ byteCount: Int) throws {
        for name in Self.sidecars {
            try Workplace.write([UInt8](repeating: 0x20, count: byteCount), to: place.path(name))
        }
        try expectError("sidecarDamaged", 65)
    }

    @Test("the sidecar of another store with the same key")
    func foreignSidecar() throws {
        try place.makeStore("other.db")
        for (copy, ending) in zip(Self.sidecars, ["", ".bak"]) { try place.copy("other.db-sidecar\(ending)", to: copy) }
        let outcome = try place.ctl("sql", place.path("s.db"), "SELECT 1", "--json")
        #expect(outcome.status == 65)
        #expect(outcome.errorJSON["code"] as? String == "foreignSidecar")
        #expect(try place.ctl("verify", place.path("s.db"), "--json").errorJSON["code"] as? String == "foreignSidecar")
    }

    @Test("a forged sidecar")
    func forgedSidecar() throws {
        for name in Self.sidecars {
            let text = String(decoding: try place.bytes(name), as: UTF8.self)
            try place.write(text.replacing("\"epoch\":1", with: "\"epoch\":2"), to: name)
        }
        try expectError("sidecarForged", 65)
    }

    @Test("an empty file with its sidecar has lost its content; without one it is no store yet")
    func emptyFile() throws {
        try place.truncate("s.db", to: 0)
        try expectError("emptyFile", 65)
        try place.remove(Self.sidecars[0], Self.sidecars[1])
        try expectError("noSuchStore", 66)
    }

    @Test("no file at all, and a directory")
    func nothing() throws {
        try place.remove("s.db")
        // "Make the store with `cipherctl create`" was the hint.
        try expectError("databaseMissing", 65)
        try place.remove(Self.sidecars[0], Self.sidecars[1])
        try expectError("noSuchStore", 66)
        try FileManager.default.createDirectory(atPath: place.path("s.db"), withIntermediateDirectories: false)
        try expectError("noSuchStore", 66)
    }

    @Test(
        "a plain database, SQLCipher's own formats, a text",
        arguments: [
            ("plain.db", "notEncrypted"), ("v3-standard.db", "settingsConflict"),
            ("v4-standard.db", "settingsConflict"),
            ("v4-header32.db", "saltMissing"), ("sqlcipher-3.4.1.db", "settingsConflict"),
            ("sqlcipher-4.12.0-standard.db", "settingsConflict"), ("sqlcipher-4.12.0-header32.db", "saltMissing"),
            ("text", "notEncrypted"),
        ])
    func otherFiles(_ fixture: String, _ error: String) throws {
        try place.remove("s.db", Self.sidecars[0], Self.sidecars[1])
        if fixture == "text" {
            try place.write(String(repeating: "This is a text and no database.\n", count: 300), to: "s.db")
        } else {
            try FileManager.default.copyItem(atPath: Workplace.fixture(fixture), toPath: place.path("s.db"))
        }
        try expectError(error, 65)
    }

    @Test("a truncated file is found out, and verify names each page that is missing")
    func truncated() throws {
        let count = try place.bytes("s.db").count
        try place.truncate("s.db", to: count - 2 * 4096)
        let outcome = try place.ctl("sql", place.path("s.db"), "SELECT count(*) FROM t", "--json", "--write")
        #expect(outcome.status == 65)
        let verify = try place.ctl("verify", place.path("s.db"), "--json")
        #expect(verify.status == 65)
        #expect(verify.pages("missing_pages") == [(count / 4096 - 1)...(count / 4096)])
    }

    // Every byte, and every value of it: the tests of PageFormat.
    @Test("a changed byte of the header that SQLCipher fixes is found, and named", arguments: [0, 15, 16, 18, 20, 23])
    func header(_ offset: Int) throws {
        let byte = try place.bytes("s.db")[offset]
        // Bytes 18 and 19 know two values.
        try place.poke("s.db", at: offset, [byte ^ 0x44])
        let outcome = try place.ctl("sql", place.path("s.db"), "SELECT 1", "--json")
        #expect(outcome.status == 65)
        let verify = try place.ctl("verify", place.path("s.db"), "--json")
        #expect(verify.status == 65)
        #expect(verify.pages("damaged_pages") == [])
        #expect("\(verify.json["problems"] ?? "")".contains("Byte \(offset) "), "\(verify.output)")
    }

    @Test("a page count that was lowered in the header is found by verify")
    func loweredPageCount() throws {
        try place.poke("s.db", at: 28, [0, 0, 0, 20])
        let verify = try place.ctl("verify", place.path("s.db"), "--json")
        #expect(verify.status == 65)
        #expect("\(verify.json["problems"] ?? "")".contains("bytes 28 to 31"), "\(verify.output)")
    }

    @Test(
        "a flipped byte anywhere in a page: verify names the page",
        arguments: [(1, 2000), (7, 0), (7, 4020), (40, 4095)])
    func page(_ number: Int, _ offset: Int) throws {
        let place = place
        let at = (number - 1) * 4096 + offset
        try place.flip("s.db", at: at)
        let verify = try place.ctl("verify", place.path("s.db"), "--json")
        #expect(verify.status == 65)
        #expect(verify.pages("damaged_pages") == [number...number])
        #expect(verify.errorJSON["code"] as? String == "damaged")
        let sql = try place.ctl("sql", place.path("s.db"), "SELECT sum(length(text)) FROM t", "--json")
        #expect(sql.status == 65, "\(sql.errors)")
    }
}

extension Workplace {
    /// All files of the folder by name, except what SQLite makes for every reader.
    fileprivate func contents() throws -> [String: [UInt8]] {
        var contents: [String: [UInt8]] = [:]
        for name in try names() where !name.hasSuffix("-shm") && !name.hasSuffix("-wal") && !name.hasSuffix("-lock") {
            contents[name] = try? bytes(name)
        }
        return contents
    }
}
