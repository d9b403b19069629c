import Foundation
import Testing

/// Files of a user that another member of the group has given the names of files of a store: a private file got the mode of
/// the store and could be read, and others were emptied or overwritten.
@Suite("cipherctl: files with the names of a store's own")
struct CompanionTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore(mode: "0660")
    }

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: place.path(name))[.posixPermissions] as? Int
    }

    @Test(
        "a private file with the name of a companion is refused by each command, and keeps its content and mode",
        arguments: ["-lock", "-wal", "-shm"])
    func renamed(ending: String) throws {
        let name = "s.db" + ending
        try? place.remove(name)
        try place.write("my private diary", to: name)
        for words in [
            ["sql", store, "SELECT 1", "--write"], ["sql", store, "SELECT 1"], ["backup", store, place.path("b")],
            ["rotate", store, "--no-backup", "--yes"],
            ["export", store, place.path("e.db"), "--insecure-plaintext"], ["hash", store],
        ] {
            let outcome = try place.run(words + ["--raw-key-file", place.key])
            #expect(
                outcome.status == 64 && outcome.errors.contains(name), "\(words): \(outcome.status) \(outcome.errors)")
        }
        for command in ["status", "doctor"] {
            let outcome = try place.ctl(command, store)
            #expect(outcome.status == 2 && outcome.output.contains(name), "\(command): \(outcome.output)")
        }
        _ = try place.ctl("verify", store)
        #expect(try String(decoding: place.bytes(name), as: UTF8.self) == "my private diary")
        #expect(try mode(name) == 0o600)
        #expect(try place.names().isDisjoint(with: ["b", "e.db"]))
    }

    // "Move it away" was the remedy for a WAL with ten commits.
    @Test("a WAL with a second name is never moved away: the other name is, and the store is whole")
    func linkedLog() throws {
        let writer = try place.ctl("sql", store, "CREATE TABLE u (a); INSERT INTO u VALUES (1)", "--write")
        #expect(writer.status == 0, "\(writer.errors)")
        try FileManager.default.linkItem(atPath: place.path("s.db-wal"), toPath: place.path("snap"))
        let sql = try place.ctl("sql", store, "SELECT count(*) FROM u")
        #expect(sql.status == 78, "\(sql.errors)")
        #expect(sql.errors.contains("keep this one") && !sql.errors.contains("away"), "\(sql.errors)")
        for command in ["status", "doctor"] {
            let outcome = try place.ctl(command, store)
            #expect(outcome.status == 2 && outcome.output.contains("s.db-wal"), "\(command): \(outcome.output)")
        }
        try place.remove("snap")
        #expect(try place.ctl("sql", store, "SELECT count(*) FROM u").status == 0)
        #expect(try place.ctl("doctor", store).status == 0)
    }

    // The database and the sidecars were moved to another folder; ten commits were in the WAL that stayed.
    @Test("destroy keeps a WAL with content beside which there is neither a database nor a sidecar")
    func loneLog() throws {
        try place.write("commits", to: "s.db-wal")
        for name in ["s.db", "s.db-sidecar", "s.db-sidecar.bak"] { try place.remove(name) }
        let outcome = try place.run(["destroy", store, "--yes", "--json"])
        #expect(outcome.status == 64 && outcome.errors.contains("s.db-wal"), "\(outcome.errors)")
        #expect(try String(decoding: place.bytes("s.db-wal"), as: UTF8.self) == "commits")
        #expect(place.exists("s.db-keylog"))
    }

    // The remedy had the key that had just been refused: a circle.
    @Test("the commands in the hint about a wrong key work as they are printed")
    func wrongKeyHint() throws {
        try Workplace.write([UInt8](repeating: 3, count: 32), to: place.path("other.key"))
        let wrong = try place.ctl("sql", store, "SELECT 1", "--json", key: place.path("other.key"))
        #expect(wrong.status == 77, "\(wrong.errors)")
        let hint = try #require(wrong.errorJSON["hint"] as? String)
        let commands = hint.split(separator: "`").filter { $0.hasPrefix("cipherctl ") }
        #expect(commands.count == 2, "\(hint)")
        for command in commands {
            let line = "\(Workplace.quoted(try Workplace.program().path))" + command.dropFirst("cipherctl".count)
            let outcome = try CommandRun(#require(SystemProgram.find("sh")), ["-c", line]).finish()
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
        }
    }

    // "The next opening for writing restores it from the other one" was said of a folder in its place, and did not happen.
    @Test("the remedy for a copy of the sidecar that cannot be read works as it is printed", arguments: ["", ".bak"])
    func unreadableSidecar(ending: String) throws {
        let name = "s.db-sidecar\(ending)"
        try place.remove(name)
        try FileManager.default.createDirectory(atPath: place.path(name), withIntermediateDirectories: false)
        let doctor = try place.ctl("doctor", store, "--json")
        let findings = doctor.json["findings"] as? [[String: Any]] ?? []
        let remedies = findings.filter { $0["severity"] as? String == "problem" }.compactMap { $0["remedy"] as? String }
        #expect(remedies.count == 1, "\(doctor.output)")
        let command = try #require(remedies.first?.firstMatch(of: #/`(mv [^`]*)`/#)?.1, "\(doctor.output)")
        #expect(try CommandRun(#require(SystemProgram.find("sh")), ["-c", String(command)]).finish().status == 0)
        #expect(try place.ctl("sql", store, "SELECT 1", "--write").status == 0)
        #expect(try place.ctl("key", "label", store, "--slot", "1", "--label", "x").status == 0)
        let after = try place.ctl("doctor", store)
        #expect(after.status == 0 && place.exists(name), "\(after.output)")
    }

    @Test("a folder with a slash at its end is backed up to, and a store's path with one is explained")
    func slash() throws {
        let backup = try place.ctl("backup", store, place.path("b") + "/")
        #expect(backup.status == 0 && place.exists("b/store.db"), "\(backup.errors)")
        let create = try place.ctl("create", place.path("x.db") + "/")
        #expect(create.errors.contains("Remove the slash"), "\(create.errors)")
    }

    // One unusable definition hid all orphans.
    @Test("foreign keys are checked table by table, and the table that cannot be checked needs attention")
    func foreignKeys() throws {
        try place.makePlain(
            """
            PRAGMA foreign_keys = OFF;
            CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id)); INSERT INTO c VALUES (7), (8);
            CREATE TABLE a_old (x REFERENCES p (nosuchcol));
            """)
        let imported = try place.ctl("import", place.path("plain.db"), place.path("n.db"))
        #expect(imported.status == 0 && imported.errors.contains("row 1 of table \"c\""), "\(imported.errors)")
        #expect(imported.errors.contains("a_old"), "\(imported.errors)")
        let verified = try place.ctl("verify", place.path("n.db"), "--json")
        #expect(verified.status == 2 && verified.json["foreign_key_violations"] as? Int == 2, "\(verified.output)")
        #expect((verified.json["not_checked"] as? [String])?.first?.contains("a_old") == true, "\(verified.output)")
    }

    // Each row took a second and 1.2 GB.
    @Test("a generated column that takes long to compute is not computed for a content hash")
    func generatedColumn() throws {
        // An insertion into a table with such a column computes it.
        try place.makePlain(
            """
            CREATE TABLE t (a TEXT);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 200) INSERT INTO t SELECT i FROM c;
            ALTER TABLE t ADD COLUMN g AS (hex(zeroblob(400000000))) VIRTUAL;
            """)
        let started = ContinuousClock.now
        let hash = try place.run(["hash", "--plain", place.path("plain.db")])
        #expect(hash.status == 0, "\(hash.errors)")
        #expect(ContinuousClock.now - started < .seconds(30))
    }

    // It holds readable rows, which stayed under the second name after the database was removed.
    @Test("an export that finds its target taken removes what a killed one has left")
    func killedExport() throws {
        let ended = try CommandRun(#require(SystemProgram.find("true")), [])
        #expect(ended.finish().status == 0)
        let left = "out.db.exporting-\(ended.processIdentifier)-0123abcd"
        try FileManager.default.createDirectory(atPath: place.path(left), withIntermediateDirectories: false)
        #expect(chmod(place.path(left), 0o700) == 0)
        try place.write("rows", to: "\(left)/out.db")
        try place.write("", to: "\(left)/import.lock")
        try place.write("rows", to: "out.db")
        let outcome = try place.ctl("export", store, place.path("out.db"), "--insecure-plaintext")
        #expect(outcome.status == 64 && !place.exists(left), "\(outcome.errors)")
        #expect(place.exists("out.db"))
    }

    // A provisioning script that repeated the command got "wrong usage", and the keyslots were never made.
    @Test("an adoption that was killed when its store was ready is completed by the same command")
    func killedAdoption() throws {
        let ended = try CommandRun(#require(SystemProgram.find("true")), [])
        #expect(ended.finish().status == 0)
        let left = "s.db.adopting-\(ended.processIdentifier)-0123abcd"
        try FileManager.default.createDirectory(atPath: place.path(left), withIntermediateDirectories: false)
        #expect(chmod(place.path(left), 0o700) == 0)
        try place.write("", to: "\(left)/import.lock")
        for name in try place.names() where name.hasPrefix("s.db") && name != left { try place.remove(name) }
        #expect(try place.ctl("create", store, "--scheme", "direct").status == 0)
        let adopted = try place.ctl("adopt", store, "--scheme", "slots")
        #expect(adopted.status == 0, "\(adopted.errors)")
        #expect(try !place.exists(left) && place.events().contains("adopted"))
        let list = try place.run(["key", "list", store, "--json"])
        #expect((list.json["slots"] as? [Any])?.count == 1, "\(list.output)")
        #expect(try place.ctl("adopt", store).status == 64)
    }

    @Test("a damaged plain database is named as the damaged one")
    func damagedSource() throws {
        try place.makePlain(
            """
            CREATE TABLE t (a);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
            INSERT INTO t SELECT hex(randomblob(50)) FROM c;
            """)
        try place.poke("plain.db", at: 19 * 4096, [UInt8](repeating: 0, count: 4096))
        for words in [
            ["import", place.path("plain.db"), place.path("n.db")], ["hash", "--plain", place.path("plain.db")],
        ] {
            let outcome = try place.run(words + (words[0] == "import" ? ["--raw-key-file", place.key] : []))
            #expect(outcome.status == 65 && outcome.errors.contains("plain.db' .recover"), "\(outcome.errors)")
            #expect(!outcome.errors.contains("cipherctl verify"), "\(outcome.errors)")
        }
    }
}

/// Files and pipes of another user; run as root, which can give a file away.
@Suite("cipherctl: keys and files of another user", .enabled(if: geteuid() == 0, "needs root"))
struct ForeignKeyPlaceTests {
    private static let other = 65_534
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func giveAway(_ name: String, mode: mode_t) throws {
        try FileManager.default.setAttributes([.ownerAccountID: Self.other], ofItemAtPath: place.path(name))
        #expect(chmod(place.path(name), mode) == 0)
    }

    private func shell(_ script: String) throws -> CommandRun.Outcome {
        let program = Workplace.quoted(try Workplace.program().path)
        return try CommandRun(
            #require(SystemProgram.find("sh")), ["-c", "C=\(program); " + script], directory: place.folder.url.path
        ).finish()
    }

    @Test(
        "a key is printed neither into a file nor into a named pipe of another user, unless --yes is given",
        arguments: ["reveal", "recovery"])
    func printed(command: String) throws {
        try place.write("", to: "out")
        try giveAway("out", mode: 0o622)
        let file = try shell("$C key \(command) s.db --raw-key-file raw.key > out")
        #expect(file.status == 64 && file.errors.contains("another user"), "\(file.errors)")
        #expect(try place.bytes("out").isEmpty)
        #expect(mkfifo(place.path("pipe"), 0o600) == 0)
        try giveAway("pipe", mode: 0o622)
        let pipe = try shell("cat pipe > got & $C key \(command) s.db --raw-key-file raw.key > pipe")
        #expect(pipe.status == 64 && pipe.errors.contains("another user"), "\(pipe.errors)")
        let anonymous = try shell("$C key \(command) s.db --raw-key-file raw.key | cat > piped; test -s piped")
        #expect(anonymous.status == 0, "\(anonymous.errors)")
        #expect(try shell("$C key \(command) s.db --raw-key-file raw.key --yes > out").status == 0)
    }

    @Test("a key is not read from a named pipe of another user, nor from one that others may write")
    func read() throws {
        #expect(mkfifo(place.path("pipe"), 0o600) == 0)
        for (isForeign, mode) in [(true, 0o600), (true, 0o666), (false, 0o622)] as [(Bool, mode_t)] {
            try FileManager.default.setAttributes(
                [.ownerAccountID: isForeign ? Self.other : 0], ofItemAtPath: place.path("pipe"))
            #expect(chmod(place.path("pipe"), mode) == 0)
            let outcome = try shell("exec 9<> pipe; $C create n.db --raw-key-file pipe")
            #expect(outcome.status == 77, "\(outcome.errors)")
            #expect(!place.exists("n.db"))
        }
        try FileManager.default.setAttributes([.ownerAccountID: 0], ofItemAtPath: place.path("pipe"))
        #expect(chmod(place.path("pipe"), 0o600) == 0)
        let own = try shell("head -c 32 /dev/zero > pipe & $C create n.db --raw-key-file pipe")
        #expect(own.status == 0, "\(own.errors)")
    }

    // It was taken as the database of a store of mode 0600.
    @Test(
        "a store is not created in an empty file of another user, nor beside one",
        arguments: ["", "-wal", "-lock", "-keylog", "-notify"])
    func planted(ending: String) throws {
        let folder = place.path("shared")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        #expect(chmod(folder, 0o1777) == 0)
        try place.write("", to: "shared/n.db" + ending)
        try giveAway("shared/n.db" + ending, mode: 0o666)
        let outcome = try place.ctl("create", place.path("shared/n.db"), "--mode", "0600")
        #expect(outcome.status == 64 && outcome.errors.contains("n.db" + ending), "\(outcome.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["n.db" + ending])
    }

    // The monitoring stayed green while no command could open the store.
    @Test(
        "a companion that the owner of the database may not use is a problem", arguments: ["-wal", "-shm", "-sidecar"])
    func access(ending: String) throws {
        for name in try place.names() where name.hasPrefix("s.db") { try giveAway(name, mode: 0o600) }
        try FileManager.default.setAttributes([.ownerAccountID: 0], ofItemAtPath: place.path("s.db" + ending))
        for command in ["status", "doctor"] {
            let outcome = try place.run([command, store, "--no-key"])
            #expect(outcome.status == 2 && outcome.output.contains("chown 65534"), "\(command): \(outcome.output)")
        }
        try FileManager.default.setAttributes([.ownerAccountID: Self.other], ofItemAtPath: place.path("s.db" + ending))
        #expect(try place.run(["doctor", store, "--no-key"]).status == 0)
    }
}

extension Workplace {
    /// A text as one word of a shell.
    fileprivate static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }
}
