import CipherStore
import Foundation
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl create")
struct CreateTests {
    @Test("makes a store with both copies of its sidecar, which opens with the same key")
    func create() throws {
        let place = try Workplace()
        let created = try place.ctl("create", place.path("s.db"), "--json")
        #expect(created.status == 0)
        #expect(created.json["epoch"] as? Int == 1)
        #expect(try place.names().isSuperset(of: ["s.db", "s.db-sidecar", "s.db-sidecar.bak"]))
        #expect(try place.bytes("s.db").starts(with: Array("SQLite format 3\0".utf8)))
        let rows = try place.ctl("sql", place.path("s.db"), "SELECT 1 AS one", "--mode", "csv")
        #expect(rows.output == "one\r\n1\r\n")
        #expect(try place.events() == ["store-created"])
    }

    // All of them said "created".
    @Test("of several concurrent creations one says that it has created the store")
    func concurrent() async throws {
        let place = try Workplace()
        let arguments = ["create", place.path("s.db"), "--raw-key-file", place.key]
        let runs = try (0..<4).map { _ in try CommandRun(Workplace.program(), arguments) }
        let outcomes = runs.map { $0.finish() }
        let made = outcomes.filter { $0.status == 0 && $0.output.contains("d \(place.path("s.db"))") }
        #expect(made.count == 1, "\(outcomes)")
        #expect(outcomes.filter { $0.status == 64 }.count == 3, "\(outcomes)")
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    // `create` left a lock file and a sidecar where a link, a folder or a pipe had the name of -shm.
    @Test("a link, folder, pipe or device with a name of the store's own files is refused before anything is made")
    func plantedCompanions() throws {
        let place = try Workplace()
        try place.makePlain("CREATE TABLE t (a)")
        try place.makeStore("old.db")
        try #require(try place.ctl("backup", place.path("old.db"), place.path("copy")).status == 0)
        let plants = ["mkfifo", "mkdir", "ln -s nowhere", "ln -s plain.db"] + (geteuid() == 0 ? ["mknod"] : [])
        let endings = ["-shm", "-wal", "-journal", "-lock", "-notify", "-sidecar", "-sidecar.bak"]
        for (number, ending) in endings.enumerated() {
            for (kind, plant) in plants.enumerated() {
                let name = "s.db" + ending
                let command = plant == "mknod" ? "mknod \(name) c 1 3" : "\(plant) \(name)"
                let shell = try CommandRun(
                    URL(fileURLWithPath: "/bin/sh"), ["-c", "cd '\(place.path(""))' && \(command)"]
                ).finish()
                try #require(shell.status == 0, "\(shell.errors)")
                let before = try place.names()
                let commands = [
                    ["create", place.path("s.db")], ["import", place.path("plain.db"), place.path("s.db")],
                    ["salvage", place.path("old.db"), place.path("s.db")],
                    ["restore", place.path("copy"), place.path("s.db")],
                ]
                // Creation each time, the others in turn.
                for command in [commands[0], commands[1 + (number + kind) % 3]] {
                    let outcome = try place.run(command + ["--raw-key-file", place.key])
                    #expect(outcome.status == 64 && outcome.errors.contains(name), "\(command): \(outcome.errors)")
                    #expect(try place.names() == before, "\(command) \(plant)")
                }
                #expect(remove(place.path(name)) == 0)
            }
        }
    }

    // A block device lost its filesystem, and a device node was removed.
    @Test("what is neither absent nor a regular file is refused before anything is made")
    func otherKinds() throws {
        let place = try Workplace()
        let shell = """
            cd '\(place.path(""))' && mkfifo fifo && ln -s fifo link && ln -s /dev/null null && mkdir folder \
            && ln -s folder to-folder && { [ "$(id -u)" != 0 ] || { mknod char c 1 3 && mknod block b 7 250; } || true; }
            """
        let made = try CommandRun(URL(fileURLWithPath: "/bin/sh"), ["-c", shell]).finish()
        #expect(made.status == 0, "\(made.errors)")
        try place.makePlain("CREATE TABLE t (a)")
        let before = try place.names()
        var names = ["fifo", "link", "null", "folder", "to-folder"]
        names += ["char", "block"].filter { before.contains($0) }
        let key = ["--raw-key-file", place.key]
        for name in names {
            let commands = [
                ["create", place.path(name)], ["import", place.path("plain.db"), place.path(name)],
            ]
            for command in commands {
                let outcome = try place.run(command + key)
                #expect(outcome.status == 64, "\(command): \(outcome.errors)")
            }
            let opened = try place.ctl("sql", place.path(name), "CREATE TABLE t (a)", "--write")
            #expect(opened.status != 0, "\(name)")
            #expect(try place.names() == before, "\(name)")
        }
        #expect(try place.ctl("create", "/dev/null").status == 64)
        #expect(!FileManager.default.fileExists(atPath: "/dev/null-sidecar"))
        #expect(!FileManager.default.fileExists(atPath: "/dev/null-lock"))
    }

    // The other store took the new one for its own leftover, and deleted it.
    // Story: the commits of a database that was moved away, in the WAL that it left, were removed without a word.
    @Test(
        "what lies at the names of the WAL, its index and the journal is refused, and stays",
        arguments: ["-wal", "-shm", "-journal"])
    func remains(_ suffix: String) throws {
        let place = try Workplace()
        let name = "s.db" + suffix
        let setups: [(Workplace) throws -> Void] = [
            { try $0.write("precious", to: name) },
            { try FileManager.default.createSymbolicLink(atPath: $0.path(name), withDestinationPath: "elsewhere") },
            { try FileManager.default.createDirectory(atPath: $0.path(name), withIntermediateDirectories: false) },
        ]
        for setup in setups {
            try setup(place)
            let outcome = try place.ctl("create", place.path("s.db"), "--json")
            #expect(outcome.status == 64 && outcome.errorJSON["code"] as? String == "alreadyExists", "\(outcome)")
            #expect(try place.names().isDisjoint(with: ["s.db", "s.db-sidecar"]) && place.exists("elsewhere") == false)
            #expect((try? FileManager.default.attributesOfItem(atPath: place.path(name))) != nil)
            try place.remove(name)
        }
        try place.write("", to: name)
        #expect(try place.ctl("create", place.path("s.db")).status == 0)
    }

    @Test("a name that belongs to another store is refused")
    func namesOfOthers() throws {
        let place = try Workplace()
        #expect(try place.ctl("create", place.path("s.db")).status == 0)
        try place.makePlain("CREATE TABLE t (a)")
        let before = try place.names()
        let key = ["--raw-key-file", place.key]
        for suffix in [
            "-journal", "-rotating", "-restoring", "-destroying", "-notify", "-keylog", "-sidecar.damaged",
            "-replaced-1", ".partial-1-2",
        ] {
            let name = place.path("s.db" + suffix)
            if before.contains("s.db" + suffix) { continue }
            for command in [["create", name], ["import", place.path("plain.db"), name]] {
                let outcome = try place.run(command + key + ["--json"])
                #expect(outcome.status == 64 && outcome.errors.contains("storeName"), "\(command): \(outcome.errors)")
            }
        }
        #expect(try place.names() == before)
        for free in ["s.db-2", "s.db-backup", "s-journal"] {
            #expect(try place.ctl("create", place.path(free)).status == 0, "\(free)")
        }
    }

    // "a" was accepted without a word.
    @Test("a weak passphrase is accepted with a warning, wherever one comes to open a store")
    func weakPassphrase() throws {
        let place = try Workplace()
        let warning = "warning: the passphrase is short"
        try place.write("a\n", to: "weak")
        try place.write(Workplace.passphrase + "\n", to: "strong")
        let (weak, strong) = (["--key-file", place.path("weak")], ["--key-file", place.path("strong")])
        let new = ["--new-key-file", place.path("weak")]
        func expect(_ warns: Bool, _ arguments: [String], at location: SourceLocation = #_sourceLocation) throws {
            let outcome = try place.run(arguments)
            #expect(outcome.status == 0, "\(outcome.errors)", sourceLocation: location)
            #expect(outcome.errors.contains(warning) == warns, "\(outcome.errors)", sourceLocation: location)
            #expect(!outcome.errors.contains(Workplace.passphrase), sourceLocation: location)
        }
        try expect(true, ["create", place.path("weak.db")] + weak)
        try expect(false, ["create", place.path("s.db")] + strong)
        try expect(false, ["create", place.path("raw.db"), "--raw-key-file", place.key])
        // Who only opens a store is not told every day.
        try expect(false, ["sql", place.path("weak.db"), "SELECT 1"] + weak)
        try expect(true, ["key", "add", place.path("s.db")] + strong + new)
        try place.write("b\n", to: "weak")
        try expect(true, ["key", "change", place.path("s.db")] + strong + new)
        try expect(true, ["create", place.path("direct.db"), "--scheme", "direct"] + weak)
        try place.write("c\n", to: "weak2")
        try expect(
            true,
            ["rotate", place.path("direct.db"), "--no-backup", "--new-key-file", place.path("weak2")] + weak)
        try place.makePlain("CREATE TABLE t (a)")
        try expect(true, ["import", place.path("plain.db"), place.path("i.db")] + weak)
        try expect(false, ["import", place.path("plain.db"), place.path("j.db")] + strong)
    }

    @Test("the strength of a passphrase is bounded by its length and its kinds of characters")
    func passphraseStrength() {
        func isWeak(_ text: String) -> Bool { Array(text.utf8).withUnsafeBytes { PassphraseStrength.isWeak($0) } }
        let repeated = String(repeating: "ab", count: 20)
        for text in ["a", "", "password", "12345678901234", repeated, "Tr0ub4dor"] {
            #expect(isWeak(text), "\(text)")
        }
        let digits = "98237409172348091234567"
        for text in ["correct horse battery", "kT7#pw2!Qz9", "7f3a9c1e5b2d8046f", "zwölf Boxkämpfer", digits] {
            #expect(!isWeak(text), "\(text)")
        }
    }

    @Test("every key source opens what the same key created")
    func keySources() throws {
        let place = try Workplace()
        try place.write(Workplace.passphrase + "\n", to: "pass")
        let created = try place.run(["create", place.path("s.db"), "--key-file", place.path("pass")])
        #expect(created.status == 0, "\(created.errors)")
        let sql = ["sql", place.path("s.db"), "SELECT 1"]
        let command = try place.run(sql + ["--key-command", "cat '\(place.path("pass"))'"])
        #expect(command.status == 0, "\(command.errors)")
        let environment = try place.run(sql + ["--key-env", "SECRET"], environment: ["SECRET": Workplace.passphrase])
        #expect(environment.status == 0)
        #expect(environment.errors.contains("warning: the key comes from the environment variable SECRET"))
        let credential = try place.run(
            sql + ["--key-credential", "pass"], environment: ["CREDENTIALS_DIRECTORY": place.folder.url.path])
        #expect(credential.status == 0, "\(credential.errors)")
        let descriptor = try place.run(sql + ["--key-fd", "0"], input: Workplace.passphrase)
        #expect(descriptor.status == 0, "\(descriptor.errors)")
    }

    @Test("does not touch what exists", arguments: ["s.db", "s.db-sidecar", "s.db-sidecar.bak"])
    func exists(_ name: String) throws {
        let place = try Workplace()
        try place.makeStore()
        for other in ["s.db", "s.db-sidecar", "s.db-sidecar.bak"] where other != name { try place.remove(other) }
        let before = try place.bytes(name)
        let again = try place.ctl("create", place.path("s.db"))
        #expect(again.status == 64)
        #expect(again.errors.contains("is not free for a new store"))
        #expect(try place.bytes(name) == before)
    }

    @Test("completes a creation that was killed", arguments: ["sidecarWritten", "databaseKeyed", "firstPageWritten"])
    func completes(_ crashPoint: String) throws {
        let place = try Workplace()
        let arguments = ["create", place.path("s.db"), "--raw-key-file", place.key]
        let killed = try place.run(arguments, environment: ["CIPHERSTORE_CRASH_AT": crashPoint])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let sidecar = try place.bytes("s.db-sidecar")
        let completed = try place.run(arguments + ["--json"])
        #expect(completed.status == 0, "\(completed.errors)")
        #expect(completed.json["completed_earlier_creation"] as? Bool == true)
        // The same store, with the same salt: the line of the cipher is the third.
        let line = { (bytes: [UInt8]) in bytes.split(separator: 10)[2] }
        #expect(try line(place.bytes("s.db-sidecar")) == line(sidecar))
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    // MARK: Somebody else comes first

    /// Runs `create` with a key that comes when `meanwhile` has been done, after the place was found free.
    private func create(_ place: Workplace, _ meanwhile: () throws -> Void) throws -> CommandRun.Outcome {
        let (asked, ready) = (place.path("asked"), place.path("ready"))
        try place.write(
            "touch '\(asked)'; until [ -e '\(ready)' ]; do sleep 0.01; done; echo '\(Workplace.passphrase)'",
            to: "key.sh")
        let run = try CommandRun(
            Workplace.program(),
            ["create", place.path("s.db"), "--key-command", "sh '\(place.path("key.sh"))'", "--json"])
        try #require(waitUntil(within: .seconds(30)) { place.exists("asked") })
        try meanwhile()
        try place.write("", to: "ready")
        return run.finish()
    }

    // A creation that failed removed app.db and its log below another program, which had made it while the key was typed.
    @Test(
        "a database that another program makes while the key is asked for is left to it, also in use",
        arguments: [true, false])
    func foreignDatabase(_ isLive: Bool) throws {
        let place = try Workplace()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        func openForeign(_ name: String) throws -> DatabaseQueue {
            let queue = try DatabaseQueue(path: place.path(name), configuration: configuration)
            try queue.inDatabase {
                try $0.execute(sql: "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
            }
            return queue
        }
        var live: DatabaseQueue?
        let outcome = try create(place) {
            if isLive {
                live = try openForeign("s.db")
            } else {
                // As a kill leaves it.
                let other = try openForeign("other.db")
                for suffix in ["", "-wal"] { try place.copy("other.db" + suffix, to: "s.db" + suffix) }
                try other.close()
            }
        }
        #expect(outcome.status == 65 && outcome.errorJSON["code"] as? String == "notEncrypted", "\(outcome.errors)")
        #expect(!outcome.errors.contains("completes it") && outcome.errors.contains("was left as it is"))
        // Its one page; all rows are in the log.
        try #require(place.exists("s.db") && place.exists("s.db-wal"))
        try place.copy("s.db", to: "copy.db")
        try place.copy("s.db-wal", to: "copy.db-wal")
        try #require(place.bytes("copy.db").count == 4096)
        let copy = try DatabaseQueue(path: place.path("copy.db"), configuration: configuration)
        #expect(try copy.inDatabase { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 3)
        try copy.close()
        try live?.close()
    }

    @Test("a store that somebody makes with another key while the key is asked for is not called this one's")
    func foreignStore() throws {
        let place = try Workplace()
        let outcome = try create(place) { try place.makeStore() }
        #expect(outcome.status == 64 && outcome.errorJSON["code"] as? String == "exists", "\(outcome.errors)")
        #expect(!outcome.errors.contains("was created"))
        #expect(outcome.errors.contains("Another process has created it meanwhile."))
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    @Test("without a key and a terminal it ends with 64, and nothing is made")
    func noKey() throws {
        let place = try Workplace()
        let outcome = try place.run(["create", place.path("s.db")])
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("hint: Give one of: --key-file F"))
        #expect(try place.names() == ["raw.key"])
    }

    @Test(
        "a key file that others may read, and a key of the wrong form, are refused with 77",
        arguments: [("0644", 32), ("0660", 32), ("0600", 31), ("0600", 0)])
    func badKeyFile(_ mode: String, _ byteCount: Int) throws {
        let place = try Workplace()
        let bits = try #require(Int(mode, radix: 8))
        try Workplace.write([UInt8](repeating: 7, count: byteCount), to: place.path("bad"), mode: bits)
        try FileManager.default.setAttributes([.posixPermissions: bits], ofItemAtPath: place.path("bad"))
        let outcome = try place.ctl("create", place.path("s.db"), "--json", key: place.path("bad"))
        #expect(outcome.status == 77)
        #expect(outcome.errorJSON["code"] as? String == "invalidKey")
        #expect(try place.names() == ["raw.key", "bad"])
    }

    @Test("a directory that does not exist ends with 66")
    func noDirectory() throws {
        let place = try Workplace()
        #expect(try place.ctl("create", place.path("no/s.db")).status == 66)
    }
}
