import Foundation
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl key")
struct KeyCommandTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
        try Workplace.write([UInt8](repeating: 0x2c, count: 32), to: place.path("third.key"))
    }

    private func slots(_ more: String...) throws -> [[String: Any]] {
        let outcome = try place.run(["key", "list", place.path("s.db"), "--json"] + more)
        #expect(outcome.status == 0, "\(outcome.errors)")
        return outcome.json["slots"] as? [[String: Any]] ?? []
    }

    private func numbers() throws -> [Int] { try slots().compactMap { $0["slot"] as? Int } }

    /// The slot that a raw key file opens; nil when none.
    private func opened(_ key: String) throws -> Int? {
        let outcome = try place.ctl("key", "test", place.path("s.db"), "--json", key: place.path(key))
        if outcome.status == 77 { return nil }
        #expect(outcome.status == 0, "\(outcome.errors)")
        return (outcome.json["slot"] as? [String: Any])?["slot"] as? Int
    }

    private func opens(_ key: String) throws -> Bool {
        try place.ctl("sql", place.path("s.db"), "SELECT 1", key: place.path(key)).status == 0
    }

    @Test("a key is added, listed, tested, labelled and removed, and the store opens accordingly")
    func life() throws {
        #expect(try numbers() == [1] && !opens("second.key"))
        let added = try place.ctl(
            "key", "add", place.path("s.db"), "--new-raw-key-file", place.path("second.key"), "--label", "server",
            "--json")
        #expect(added.status == 0, "\(added.errors)")
        let slot = try #require(added.json["added"] as? [String: Any])
        #expect(slot["slot"] as? Int == 2 && slot["kind"] as? String == "key-file" && slot["kdf"] as? String == "hkdf")
        #expect(try numbers() == [1, 2])
        #expect(try opened("raw.key") == 1 && opened("second.key") == 2 && opens("second.key"))
        let labelled = try place.ctl("key", "label", place.path("s.db"), "--slot", "2", "--label", "backup server")
        #expect(labelled.status == 0)
        #expect(try slots()[1]["label"] as? String == "backup server")
        let unlabelled = try place.ctl("key", "label", place.path("s.db"), "--slot", "2", "--label=")
        #expect(unlabelled.output == "slot 2 has no label now\n", "\(unlabelled.errors)")
        #expect(try slots()[1]["label"] as? String == "")
        let removed = try place.ctl("key", "remove", place.path("s.db"), "--slot", "2", "--yes")
        #expect(removed.status == 0 && removed.output.contains("--compromised --backup DIR"), "\(removed.output)")
        #expect(try opened("second.key") == nil && !opens("second.key") && opens("raw.key"))
        #expect(try numbers() == [1])
    }

    @Test("a change gives the opened slot, or the named one, another secret; the former one opens nothing")
    func change() throws {
        let first = try place.ctl(
            "key", "change", place.path("s.db"), "--new-raw-key-file", place.path("second.key"), "--json")
        #expect((first.json["changed"] as? [String: Any])?["slot"] as? Int == 1, "\(first.errors)")
        #expect(try opened("raw.key") == nil && opened("second.key") == 1)
        let added = try place.ctl(
            "key", "add", place.path("s.db"), "--new-raw-key-file", place.path("third.key"),
            key: place.path("second.key"))
        #expect(added.status == 0, "\(added.errors)")
        let named = try place.ctl(
            "key", "change", place.path("s.db"), "--slot", "1", "--new-raw-key-file", place.key,
            key: place.path("third.key"))
        #expect(named.status == 0, "\(named.errors)")
        #expect(try opened("raw.key") == 1 && opened("second.key") == nil && opened("third.key") == 2)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    @Test("passphrases, commands and credentials become slots of their kinds, stretched as asked")
    func kinds() throws {
        try place.write("correct horse\n", to: "pass")
        try place.write("other words\n", to: "credential")
        let store = place.path("s.db")
        let stretched = try place.run(
            [
                "key", "add", store, "--raw-key-file", place.key, "--new-key-file", place.path("pass"), "--kdf",
                "scrypt",
            ],
            environment: ["CIPHERSTORE_CHEAP_SLOTS": "0"])
        #expect(stretched.status == 0, "\(stretched.errors)")
        let command = try place.ctl("key", "add", store, "--new-key-command", "printf '%s' 'from a command'")
        #expect(command.status == 0, "\(command.errors)")
        let credential = try place.run(
            ["key", "add", store, "--raw-key-file", place.key, "--new-key-credential", "credential"],
            environment: ["CREDENTIALS_DIRECTORY": place.folder.url.path])
        #expect(credential.status == 0, "\(credential.errors)")
        let found = try slots()
        #expect(found.compactMap { $0["kind"] as? String } == ["key-file", "passphrase", "command", "credential"])
        #expect(found.compactMap { $0["kdf"] as? String } == ["hkdf", "scrypt", "scrypt", "scrypt"])
        #expect(found[1]["log2_n"] as? Int == 17)
        let test = try place.run(["key", "test", store, "--key-file", place.path("pass")])
        #expect(test.status == 0 && test.output == "the key opens slot 2 (passphrase)\n")
    }

    @Test("the list needs no key and says that nothing is authenticated; with one the slot is marked")
    func list() throws {
        let bare = try place.run(["key", "list", place.path("s.db")])
        #expect(bare.status == 0 && bare.errors.contains("nothing was authenticated"))
        #expect(bare.output.hasPrefix("slot  kind      set") && !bare.output.contains("<- this key"))
        let proved = try place.ctl("key", "list", place.path("s.db"))
        #expect(proved.status == 0 && proved.errors.isEmpty && proved.output.contains("<- this key"))
        let json = try place.ctl("key", "list", place.path("s.db"), "--json").json
        #expect(json["authenticated"] as? Bool == true && json["opened_by"] as? Int == 1)
        #expect(json["scheme"] as? String == "slots" && json["data_key_origin"] as? String == "random")
    }

    @Test("a direct store is given slots around its key and loses them again, proved by that key")
    func convert() throws {
        let store = place.path("d.db")
        let created = try place.ctl("create", store, "--scheme", "direct")
        #expect(created.status == 0, "\(created.errors)")
        #expect(try place.run(["key", "list", store]).output.hasPrefix("a direct store"))
        let test = try place.ctl("key", "test", store, "--json")
        #expect(test.status == 0 && test.json["slot"] is NSNull)
        let given = try place.ctl(
            "key", "convert", store, "--to", "slots", "--new-raw-key-file", place.path("second.key"), "--json")
        #expect(given.status == 0 && given.json["scheme"] as? String == "slots", "\(given.errors)")
        #expect(try place.ctl("sql", store, "SELECT 1", key: place.path("second.key")).status == 0)
        #expect(try place.ctl("sql", store, "SELECT 1").status == 77)
        let refused = try place.ctl(
            "key", "convert", store, "--to", "direct", "--yes", "--new-raw-key-file", place.path("third.key"),
            key: place.path("second.key"))
        #expect(refused.status == 77 && refused.errors.contains("`cipherctl rotate "))
        #expect(refused.errors.contains("` can give it a passphrase"), "\(refused.errors)")
        let unasked = try place.ctl(
            "key", "convert", store, "--to", "direct", "--new-raw-key-file", place.key, key: place.path("second.key"))
        #expect(unasked.status == 64 && unasked.errors.contains("--yes"))
        // The data key of a direct store with a raw key is that key.
        let taken = try place.ctl(
            "key", "convert", store, "--to", "direct", "--yes", "--new-raw-key-file", place.key,
            key: place.path("second.key"))
        #expect(taken.status == 0, "\(taken.errors)")
        #expect(try place.ctl("verify", store).status == 0)
        #expect(try place.ctl("sql", store, "SELECT 1", key: place.path("second.key")).status == 77)
        #expect(
            try place.ctl("key", "convert", store, "--to", "direct", "--yes", "--new-raw-key-file", place.key).status
                == 64)
        // The remedy of the wrong key above: a direct store gets a passphrase by a rotation.
        try place.write("correct horse\n", to: "pass")
        let rotated = try place.ctl("rotate", store, "--new-key-file", place.path("pass"), "--no-backup")
        #expect(rotated.status == 0, "\(rotated.errors)")
        #expect(try place.run(["sql", store, "SELECT 1", "--key-file", place.path("pass")]).status == 0)
    }

    @Test("the log tells every change, and names a line that was edited")
    func log() throws {
        let store = place.path("s.db")
        _ = try place.ctl("key", "add", store, "--new-raw-key-file", place.path("second.key"))
        _ = try place.ctl("key", "remove", store, "--slot", "2", "--yes")
        _ = try place.ctl("key", "reveal", store)
        let log = try place.run(["key", "log", store, "--json"])
        #expect(log.status == 0 && log.json["sound"] as? Bool == true, "\(log.output)")
        let events = (log.json["entries"] as? [[String: Any]] ?? []).compactMap { $0["event"] as? String }
        #expect(events.suffix(3) == ["slot-added", "slot-removed", "key-revealed"])
        #expect((log.json["last_hash"] as? String)?.count == 64)
        let text = try place.run(["key", "log", store])
        let added = "slot-added, slot 2, kind key-file, authorized-by 1, by user \(getuid())"
        #expect(text.output.contains(added), "\(text.output)")
        #expect(text.output.hasSuffix("the chain of \(events.count) lines holds\n"))
        let content = try String(decoding: place.bytes("s.db-keylog"), as: UTF8.self)
        try place.write(content.replacing("key-file", with: "recovery"), to: "s.db-keylog")
        let changed = try place.run(["key", "log", store])
        #expect(changed.status == 65 && changed.output.contains("the chain is broken"))
        #expect(changed.output.contains("problem: s.db-keylog, line \(events.count - 2)"), "\(changed.output)")
        #expect(try place.run(["key", "log", place.path("none.db")]).status == 66)
    }

    // MARK: Beside others

    /// Runs a command whose new key is "typed" only when another command has run; answers it, and what the other ended with.
    private func run(
        _ words: [String], beside other: String, key: String = "raw.key"
    ) throws -> CommandRun.Outcome {
        let program = try Workplace.program().path
        try place.write("typed", to: "typed.pass")
        try place.write(
            """
            #!/bin/sh
            cd '\(place.folder.url.path)' && '\(program)' key \(other) >other.out 2>&1 || exit 1
            cat typed.pass
            """, to: "slow", mode: 0o700)
        return try place.run(
            ["key"] + words + [
                place.path("s.db"), "--raw-key-file", place.path(key), "--new-key-command", place.path("slow"),
            ])
    }

    @Test(
        "a key whose slot is changed or removed while the new key is asked for changes nothing any more",
        arguments: [
            (["change"], "change s.db --raw-key-file second.key --new-raw-key-file third.key"),
            (["add"], "change s.db --raw-key-file second.key --new-raw-key-file third.key"),
            (["change"], "remove s.db --raw-key-file raw.key --slot 2 --yes"),
            (["add"], "remove s.db --raw-key-file raw.key --slot 2 --yes"),
        ])
    func overtaken(words: [String], other: String) throws {
        let store = place.path("s.db")
        #expect(try place.ctl("key", "add", store, "--new-raw-key-file", place.path("second.key")).status == 0)
        let outcome = try run(words, beside: other, key: "second.key")
        let isTold = ["meanwhile", "There is no keyslot 2"].contains { outcome.errors.contains($0) }
        #expect(outcome.status != 0 && isTold, "\(outcome.errors)")
        #expect(try place.run(["key", "test", store, "--key-file", place.path("typed.pass")]).status == 77)
        #expect(try opened("second.key") == nil)
        #expect(try opened("third.key") == (other.hasPrefix("change") ? 2 : nil))
    }

    @Test("a key that another command brings in meanwhile is refused; any other change of slots is in nobody's way")
    func beside() throws {
        let store = place.path("s.db")
        let same = try run(["add"], beside: "add s.db --raw-key-file raw.key --new-key-file typed.pass")
        #expect(same.status == 64 && same.errors.contains("slot 2"), "\(same.errors)")
        #expect(try numbers() == [1, 2])
        let other = try run(
            ["change", "--slot", "2"], beside: "add s.db --raw-key-file raw.key --new-raw-key-file third.key")
        #expect(other.status == 64, "the key is that of slot 2 already: \(other.errors)")
        #expect(try place.ctl("key", "remove", store, "--slot", "2", "--yes").status == 0)
        let added = try run(["add"], beside: "add s.db --raw-key-file raw.key --new-raw-key-file second.key")
        #expect(added.status == 0, "\(added.errors)")
        #expect(try numbers() == [1, 3, 4, 5])
    }

    // It went on alone, and the caller of the command waited for the end of its output.
    @Test(
        "a signal that ends a command ends the program that it asks for the key", arguments: [SIGINT, SIGTERM, SIGHUP])
    func endedWithCommand(signal: Int32) throws {
        let (asked, number) = (place.path("ask"), place.path("number"))
        try place.write(
            "#!/bin/sh\necho $$ > '\(number).new'; mv '\(number).new' '\(number)'; exec sleep 300\n", to: "ask",
            mode: 0o700)
        // In `make test` one of the two, the other one for another signal.
        for command in Sweep.sample(["test", "list"], oneIn: 2, offset: Int(signal)) {
            let run = try CommandRun(
                Workplace.program(), ["key", command, place.path("s.db"), "--key-command", asked],
                directory: place.folder.url.path)
            #expect(waitUntil { place.exists("number") || !run.isRunning })
            run.send(signal)
            if !waitUntil(within: .seconds(20), { !run.isRunning }) { run.send(SIGKILL) }
            #expect(run.finish().status == 130)
            let text = try String(contentsOfFile: number, encoding: .utf8).trimmingCharacters(in: .newlines)
            let program = try #require(pid_t(text))
            #expect(waitUntil { kill(program, 0) != 0 }, "\(command): process \(program) goes on")
            kill(program, SIGKILL)
            try FileManager.default.removeItem(atPath: number)
        }
    }
}
