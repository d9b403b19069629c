import ChangesetSync
import CipherStore
import Foundation
import TestKit
import Testing

@testable import cipherctl

/// A folder with devices: stores that have the table of players, and a folder as their remote.
struct SyncPlace {
    let place: Workplace
    let invitationKey: String

    /// The texts that must be readable nowhere but in the stores.
    static let canary = "canary-7f3a"

    init() throws {
        place = try Workplace()
        invitationKey = place.path("invitation.key")
        try Workplace.write([UInt8](repeating: 0x17, count: 32), to: invitationKey)
        try FileManager.default.createDirectory(atPath: place.path("remote"), withIntermediateDirectories: false)
    }

    var remote: String { "dir:" + place.path("remote") }

    func makeStore(_ name: String) throws {
        let created = try place.ctl("create", place.path(name))
        try #require(created.status == 0, "\(created.errors)")
        try sql(
            name, "CREATE TABLE player (id TEXT NOT NULL PRIMARY KEY, name TEXT, score INTEGER) WITHOUT ROWID")
    }

    @discardableResult
    func sql(_ name: String, _ text: String) throws -> CommandRun.Outcome {
        let outcome = try place.ctl("sql", place.path(name), text, "--write")
        try #require(outcome.status == 0, "\(outcome.errors)")
        return outcome
    }

    /// Runs a command of `sync` on a store.
    func sync(_ command: String, _ name: String, _ rest: String...) throws -> CommandRun.Outcome {
        try place.run(["sync", command, place.path(name)] + rest + ["--raw-key-file", place.key, "--json"])
    }

    /// Writes rows, makes a commit of them and returns its identifier.
    @discardableResult
    func commit(_ name: String, _ text: String) throws -> String {
        try sql(name, text)
        let outcome = try sync("commit", name)
        return try #require(outcome.json["commit"] as? String, "\(outcome.errors)")
    }

    func begin(_ name: String) throws {
        let outcome = try sync("init", name, "--table", "player", "--remote", remote)
        try #require(outcome.status == 0, "\(outcome.errors)")
    }

    func invite(_ name: String, _ file: String) throws -> CommandRun.Outcome {
        try sync("invite", name, place.path(file), "--invitation-raw-key-file", invitationKey)
    }

    func join(_ name: String, _ file: String, _ rest: [String] = []) throws -> CommandRun.Outcome {
        try place.run(
            ["sync", "join", place.path(name), place.path(file), "--table", "player", "--raw-key-file", place.key]
                + ["--invitation-raw-key-file", invitationKey, "--json"] + rest)
    }

    /// The digest of the whole content; the library's own tables are left out.
    func hash(_ name: String) throws -> String {
        try #require(try place.ctl("hash", place.path(name), "--json").json["content_hash"] as? String)
    }

    func players(_ name: String) throws -> String {
        try place.ctl("sql", place.path(name), "SELECT * FROM player ORDER BY id", "--mode", "csv").output
    }

    func starting(_ arguments: [String]) throws -> CommandRun {
        try CommandRun(
            Workplace.program(), ["sync"] + arguments + ["--raw-key-file", place.key, "--json"],
            directory: place.folder.url.path)
    }

    /// All bytes of the files in a folder, and their names.
    func content(of name: String) throws -> Data {
        var content = Data()
        let names = FileManager.default.enumerator(atPath: place.path(name))?.compactMap { $0 as? String } ?? []
        for file in names {
            content += Data(file.utf8)
            content += FileManager.default.contents(atPath: place.path(name) + "/" + file) ?? Data()
        }
        return content
    }
}

@Suite("cipherctl sync")
struct SyncCommandTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func code(_ outcome: CommandRun.Outcome) -> String? { outcome.errorJSON["code"] as? String }

    @Test(
        "two devices and one that joins later have equal rows; a conflict is decided alike, nobody else reads anything")
    func threeDevices() throws {
        for name in ["a.db", "b.db", "c.db"] { try place.makeStore(name) }
        try place.sql("a.db", "INSERT INTO player VALUES ('1', '\(SyncPlace.canary)', 1), ('2', 'Ben', 2)")
        try place.begin("a.db")
        let invited = try place.invite("a.db", "app.invitation")
        #expect(invited.status == 0 && invited.json["remote"] as? String == place.remote, "\(invited.errors)")
        let joined = try place.join("b.db", "app.invitation")
        #expect(joined.status == 0 && joined.json["remote"] as? String == place.remote, "\(joined.errors)")
        #expect(joined.json["repository"] as? String == invited.json["repository"] as? String)
        #expect(try place.sync("run", "a.db").json["pushed"] as? Int == 1)
        let first = try place.sync("run", "b.db")
        #expect(first.status == 0 && first.json["fetched"] as? Int == 1 && first.json["moved"] as? Bool == true)
        #expect(try place.hash("a.db") == place.hash("b.db"))

        // Both change one cell, and each another one.
        try place.commit("a.db", "UPDATE player SET name = 'Ann', score = 10 WHERE id = '1'")
        try place.commit(
            "b.db", "UPDATE player SET name = 'Anna' WHERE id = '1'; UPDATE player SET score = 20 WHERE id = '2'")
        #expect(try place.sync("run", "a.db").status == 0)
        let merged = try place.sync("run", "b.db")
        #expect(merged.status == 2 && merged.json["merged"] as? Int == 1, "\(merged.output)\(merged.errors)")
        // A finding for a person does not keep the devices from having the same.
        #expect(merged.json["in_sync"] as? Bool == true, "\(merged.output)")
        let standing = try place.sync("status", "b.db")
        #expect(standing.status == 2 && standing.json["in_sync"] as? Bool == true, "\(standing.output)")
        let told = try place.place.ctl("sync", "status", place.place.path("b.db")).output
        #expect(told.contains(": in sync\n") && told.contains("1 conflict was decided by rule"), "\(told)")
        #expect(try place.sync("run", "a.db").status == 0)
        let rows = try place.players("a.db")
        #expect(rows.contains("1,Anna,10\r\n2,Ben,20"), "\(rows)")
        let conflicts = try place.sync("conflicts", "b.db")
        let found = try #require(conflicts.json["conflicts"] as? [[String: Any]])
        #expect(conflicts.status == 2 && found.count == 1)
        #expect(found.first?["column"] as? String == "name" && found.first?["chosen"] as? [String] == ["Anna"])
        #expect(try place.sync("status", "b.db").status == 2)
        #expect(try place.sync("conflicts", "b.db", "--clear").status == 0)
        #expect(try place.sync("conflicts", "b.db").status == 0)

        let third = try place.join("c.db", "app.invitation")
        #expect(third.status == 0, "\(third.errors)")
        #expect(try place.sync("run", "c.db").status == 0)
        for name in ["a.db", "b.db", "c.db"] {
            #expect(try place.hash(name) == place.hash("a.db"), "\(name)")
            let status = try place.sync("status", name)
            #expect(status.status == 0 && status.json["in_sync"] as? Bool == true, "\(status.output)")
        }
        try nothingIsReadable()
    }

    /// Neither rows nor the key of the repository are at the remote or in the invitation.
    private func nothingIsReadable() throws {
        let hex = try place.place.ctl(
            "sql", place.place.path("a.db"), "SELECT hex(secret) FROM cipherstore_sync_state", "--mode", "csv"
        ).output.split(separator: "\r\n").last.map(String.init)
        let digits = Array(try #require(hex))
        let key = Data(
            stride(from: 0, to: digits.count - 1, by: 2).compactMap { UInt8(String(digits[$0...($0 + 1)]), radix: 16) })
        try #require(key.count == 32)
        let invitation = try Data(place.place.bytes("app.invitation"))
        let attributes = try FileManager.default.attributesOfItem(atPath: place.place.path("app.invitation"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let remote = try place.content(of: "remote")
        #expect(remote.count > 1000)
        let canaries = [
            key, key.prefix(8), Data(digits.map(String.init).joined().utf8), Data(key.base64EncodedString().utf8),
            Data(SyncPlace.canary.utf8), Data("player".utf8), Data("score".utf8),
        ]
        for canary in canaries {
            #expect(remote.range(of: canary) == nil)
            #expect(invitation.range(of: canary) == nil)
        }
        // The searched text would be found.
        #expect(try place.players("a.db").contains("Anna") && remote.range(of: Data("cipherstore-remote".utf8)) != nil)
    }

    @Test("rows written outside of commits need attention, are not merged over, and become a commit by a command")
    func foreignWrites() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        #expect(try place.join("b.db", "app.invitation").status == 0)
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try place.sync("run", "a.db").status == 0)
        try place.sql("b.db", "INSERT INTO player VALUES ('2', 'Ben', 2)")
        let status = try place.sync("status", "b.db")
        #expect(status.status == 2 && status.json["foreign_writes"] as? [String] == ["player"])
        let run = try place.sync("run", "b.db")
        #expect(run.status == 2 && run.json["fetched"] as? Int == 1 && run.json["moved"] as? Bool == false)
        #expect((run.json["attention"] as? [String])?.first?.contains("cipherctl sync commit") == true, "\(run.output)")
        let pull = try place.sync("pull", "b.db")
        #expect(pull.status == 2 && code(pull) == "foreignWrites", "\(pull.errors)")
        #expect(try place.sync("commit", "b.db", "--meta", "{\"by\": 1}").json["commit"] is String)
        #expect(try place.sync("commit", "b.db").json["commit"] is NSNull)
        let pulled = try place.sync("pull", "b.db")
        #expect(pulled.status == 2 && pulled.json["needs_merge"] as? Bool == true)
        #expect(pulled.json["moved"] as? Bool == false)
        #expect((try place.sync("merge", "b.db").json["merges"] as? [String])?.count == 1)
        #expect(try place.sync("pull", "b.db").json["moved"] as? Bool == true)
        #expect(try place.sync("push", "b.db").json["pushed"] as? Int == 2)
        #expect(try place.sync("push", "b.db").json["pushed"] as? Int == 0)
        let fetched = try place.sync("fetch", "a.db")
        #expect(fetched.json["fetched"] as? Int == 2 && fetched.json["behind"] as? Int == 1, "\(fetched.output)")
        #expect(try place.sync("pull", "a.db").status == 0)
        #expect(try place.hash("a.db") == place.hash("b.db"))
    }

    @Test("commits are listed with their descriptions, compared, and undone by others")
    func looking() throws {
        try place.makeStore("a.db")
        try place.begin("a.db")
        let first = try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1), ('2', 'Ben', 2)")
        try place.sql("a.db", "UPDATE player SET score = 5 WHERE id = '1'; DELETE FROM player WHERE id = '2'")
        let second = try #require(try place.sync("commit", "a.db", "--meta", "{\"by\": 1}").json["commit"] as? String)
        let log = try #require(place.sync("log", "a.db").json["commits"] as? [[String: Any]])
        #expect(log.map { $0["commit"] as? String } == [second, first])
        #expect(
            log.map { $0["meta"] as? String } == ["{\"by\": 1}", "{}"] && log[0]["parents"] as? [String] == [first])
        #expect((try place.sync("log", "a.db", "--limit", "1").json["commits"] as? [Any])?.count == 1)
        let diff = try place.sync("diff", "a.db", String(second.prefix(12)))
        let changes = try #require(diff.json["changes"] as? [[String: Any]])
        #expect(changes.map { $0["kind"] as? String } == ["deleted", "updated"])
        #expect(changes[1]["old"] as? [String: Int] == ["score": 1])
        let whole = try place.sync("diff", "a.db", first, "HEAD")
        #expect((whole.json["changes"] as? [Any])?.count == 2)
        let reverted = try place.sync("revert", "a.db", "HEAD")
        #expect(reverted.json["reverted"] as? String == second)
        #expect(try place.players("a.db").contains("1,Ann,1\r\n2,Ben,2"))
        let refused = try place.sync("revert", "a.db", String(second.prefix(12)))
        #expect(refused.status == 65 && code(refused) == "changedLater", "\(refused.errors)")
        for name in ["abc", "zzzz", "ffffffffffff"] {
            let unknown = try place.sync("diff", "a.db", name)
            #expect(unknown.status == 64 && code(unknown) == "unknownCommit", "\(name): \(unknown.errors)")
        }
    }

    @Test("what cannot be done is refused with its reason, and changes nothing")
    func refusals() throws {
        try place.makeStore("a.db")
        let none = try place.sync("status", "a.db")
        #expect(none.status == 1 && code(none) == "notEnabled")
        #expect((none.errorJSON["hint"] as? String)?.contains("cipherctl sync init") == true)
        #expect((none.errorJSON["message"] as? String)?.contains("migrate()") == false)
        #expect(try place.sync("init", "a.db").status == 64)
        #expect(try place.sync("init", "a.db", "--table", "player", "--all-tables").status == 64)
        let other = try place.sync("init", "a.db", "--table", "player", "--remote", "mysql://u:geheim@db")
        #expect(other.status == 64 && code(other) == "usage" && !other.errors.contains("geheim"))
        try place.sql("a.db", "CREATE TABLE loose (a); CREATE TABLE other (a)")
        let loose = try place.sync("init", "a.db", "--all-tables")
        #expect(loose.status == 64 && code(loose) == "noPrimaryKey", "\(loose.errors)")
        // It stopped at the first one.
        #expect(loose.errors.contains("loose") && loose.errors.contains("other"), "\(loose.errors)")
        try place.begin("a.db")
        let missing = try place.sync("push", "a.db", "--remote", "dir:" + place.place.path("none"))
        #expect(missing.status == 66 && code(missing) == "noDirectory", "\(missing.errors)")
        // A remote that was not taken is not one of the store.
        #expect((try place.sync("status", "a.db").json["remotes"] as? [Any])?.count == 1)

        #expect(try place.invite("a.db", "app.invitation").status == 0)
        let again = try place.invite("a.db", "app.invitation")
        #expect(again.status == 64 && code(again) == "exists", "\(again.errors)")
        try place.makeStore("b.db")
        let bytes = try place.place.bytes("app.invitation")
        try place.place.poke("app.invitation", at: bytes.count - 60, [bytes[bytes.count - 60] ^ 1])
        let damaged = try place.join("b.db", "app.invitation")
        #expect(damaged.status == 65 && code(damaged) == "damaged", "\(damaged.errors)")
        try place.place.poke("app.invitation", at: bytes.count - 60, [bytes[bytes.count - 60]])
        let wrong = try place.place.run([
            "sync", "join", place.place.path("b.db"), place.place.path("app.invitation"), "--table", "player",
            "--raw-key-file", place.place.key, "--invitation-raw-key-file", place.place.key, "--json",
        ])
        #expect(wrong.status == 77 && code(wrong) == "invitationKey", "\(wrong.errors)")
        #expect(try place.sync("status", "b.db").status == 1)
        try place.begin("b.db")
        let foreign = try place.join("b.db", "app.invitation")
        #expect(foreign.status == 64 && code(foreign) == "otherRepository", "\(foreign.errors)")
    }

    /// From then on each command said that the store had several remotes.
    @Test("a remote that has another repository is not kept")
    func foreignRemote() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try place.sync("run", "a.db").status == 0)
        #expect(try place.sync("init", "b.db", "--table", "player").status == 0)
        for command in ["run", "fetch"] {
            let refused = try place.sync(command, "b.db", "--remote", place.remote)
            #expect(refused.status == 64 && code(refused) == "otherRepository", "\(refused.errors)")
            #expect((try place.sync("status", "b.db").json["remotes"] as? [Any])?.isEmpty == true)
        }
    }

    @Test("a store that was restored from a backup, and a remote that was emptied, go on after `sync reset`")
    func resets() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        #expect(try place.join("b.db", "app.invitation").status == 0)
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try place.sync("run", "a.db").status == 0)
        let backup = try place.place.ctl("backup", place.place.path("a.db"), place.place.path("backup"))
        #expect(backup.status == 0, "\(backup.errors)")
        try place.commit("a.db", "INSERT INTO player VALUES ('2', 'Ben', 2)")
        #expect(try place.sync("run", "a.db").status == 0)
        let restored = try place.place.ctl(
            "restore", place.place.path("backup"), place.place.path("a.db"), "--replace", "--yes")
        #expect(restored.status == 0, "\(restored.errors)")
        // The commits that it had pushed after the backup come back.
        #expect(try place.sync("run", "a.db").json["fetched"] as? Int == 1)
        try place.commit("a.db", "INSERT INTO player VALUES ('3', 'Cleo', 3)")
        let reset = try place.sync("reset", "a.db")
        #expect(reset.status == 0 && reset.json["ahead"] as? Int == 3, "\(reset.output)\(reset.errors)")
        for name in ["a.db", "b.db"] { #expect(try place.sync("run", name).status == 0) }
        #expect(try place.players("b.db").contains("1,Ann,1\r\n2,Ben,2\r\n3,Cleo,3"))
        #expect(try place.hash("a.db") == place.hash("b.db"))

        try FileManager.default.removeItem(atPath: place.place.path("remote"))
        try FileManager.default.createDirectory(atPath: place.place.path("remote"), withIntermediateDirectories: false)
        let rewound = try place.sync("run", "b.db")
        #expect(rewound.status == 65 && code(rewound) == "remoteRewound", "\(rewound.errors)")
        #expect((rewound.errorJSON["hint"] as? String)?.contains("cipherctl sync reset") == true)
        for name in ["a.db", "b.db"] { #expect(try place.sync("reset", name).status == 0) }
        try place.commit("b.db", "UPDATE player SET score = 4 WHERE id = '3'")
        for name in ["b.db", "a.db"] { #expect(try place.sync("run", name).status == 0) }
        #expect(try place.hash("a.db") == place.hash("b.db"))
        #expect(try place.content(of: "remote").count > 1000)
    }

    @Test("a commit of a newer schema is fetched, named and not applied, until the store has the schema too")
    func schemaAhead() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        #expect(try place.join("b.db", "app.invitation").status == 0)
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        for name in ["a.db", "b.db"] { #expect(try place.sync("run", name).status == 0) }
        try place.commit("a.db", "ALTER TABLE player ADD COLUMN team TEXT; UPDATE player SET team = 'Red'")
        #expect(try place.sync("run", "a.db").status == 0)
        let run = try place.sync("run", "b.db")
        #expect(run.status == 2 && run.json["fetched"] as? Int == 1 && run.json["moved"] as? Bool == false)
        let status = try place.sync("status", "b.db")
        #expect(status.status == 2 && (status.json["schema_obstacle"] as? String)?.contains("\"team\"") == true)
        let pull = try place.sync("pull", "b.db")
        #expect(pull.status == 2 && code(pull) == "schemaAhead", "\(pull.errors)")
        try place.sql("b.db", "ALTER TABLE player ADD COLUMN team TEXT")
        for name in ["b.db", "a.db", "b.db"] { #expect(try place.sync("run", name).status == 0) }
        #expect(try place.hash("a.db") == place.hash("b.db"))
    }

    /// The run ended before it had pushed, with the code of an error without remedy.
    @Test("a column that this store has removed needs a person; what the store has is pushed all the same")
    func columnRemoved() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        #expect(try place.join("b.db", "app.invitation").status == 0)
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        for name in ["a.db", "b.db"] { #expect(try place.sync("run", name).status == 0) }
        try place.commit("b.db", "UPDATE player SET name = 'Anna'")
        try place.sql("b.db", "ALTER TABLE player DROP COLUMN score")
        try place.commit("a.db", "UPDATE player SET score = 2")
        #expect(try place.sync("push", "a.db").status == 0)
        let pull = try place.sync("run", "b.db")
        #expect(pull.status == 2 && (pull.json["pushed"] as? Int ?? 0) > 0, "\(pull.output) \(pull.errors)")
        let attention = (pull.json["attention"] as? [String] ?? []).joined(separator: " ")
        #expect(attention.contains("Add the column again") && attention.contains("\"score\""), "\(attention)")
        #expect(!attention.contains("Update the program"), "\(attention)")
        let merge = try place.sync("merge", "b.db")
        #expect(merge.status == 2 && code(merge) == "columnRemoved", "\(merge.errors)")
    }

    @Test("a remote that cannot be reached from here does not keep a store from joining")
    func unreachableRemote() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        #expect(try place.sync("run", "a.db").status == 0)
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("moved"))
        let joined = try place.join("b.db", "app.invitation")
        #expect(joined.status == 0 && joined.errors.contains("--remote") && joined.json["remote"] is NSNull)
        let noRemote = try place.sync("run", "b.db")
        #expect(noRemote.status == 64, "\(noRemote.errors)")
        let moved = "dir:" + place.place.path("moved")
        #expect(try place.sync("run", "b.db", "--remote", moved).status == 0)
        // From now on the store has it.
        #expect(try place.sync("run", "b.db").status == 0)
        let known = try #require(place.sync("status", "b.db").json["remotes"] as? [[String: Any]])
        #expect(known.map { $0["address"] as? String } == [moved])
    }

    #if !PostgreSQL
        @Test("a build without PostgreSQL says so, and repeats no password")
        func withoutPostgreSQL() throws {
            try place.makeStore("a.db")
            try place.begin("a.db")
            let outcome = try place.sync("push", "a.db", "--remote", "postgresql://ann:geheim@db/app")
            #expect(outcome.status == 78 && code(outcome) == "noPostgreSQL", "\(outcome.errors)")
            #expect(outcome.errors.contains("--traits PostgreSQL"))
            #expect(outcome.errors.contains("PGPASSFILE") && !outcome.errors.contains("geheim"))
            #expect(try !place.sync("status", "a.db").output.contains("geheim"))
        }
    #endif
}

@Suite("cipherctl sync run as a service")
struct SyncServiceTests {
    private let place: SyncPlace

    init() throws {
        place = try SyncPlace()
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        #expect(try place.join("b.db", "app.invitation").status == 0)
    }

    private func service(_ name: String) throws -> CommandRun {
        let run = try place.starting(["run", place.place.path(name), "--every", "1s"])
        #expect(waitUntil { run.errorsSoFar.contains("Ctrl-C ends it") || !run.isRunning })
        return run
    }

    private func open(_ name: String) throws -> SharedStore {
        try SharedStore.open(at: place.place.path(name), unlockedBy: .rawKeyFile(path: place.place.key))
    }

    /// Many commits of a program.
    private func commit(_ numbers: Range<Int>, _ name: String) throws {
        let store = try open(name)
        defer { try? store.close() }
        let repository = ChangesetRepository(store)
        for number in numbers {
            try repository.commit { db in
                try db.execute(
                    sql: "INSERT INTO player VALUES (?, ?, ?)", arguments: ["\(number)", SyncPlace.canary, number])
            }
        }
    }

    private var objectCount: Int {
        let names = FileManager.default.enumerator(atPath: place.place.path("remote"))?.compactMap { $0 as? String }
        return (names ?? []).count { $0.contains("/log/") && Int($0.split(separator: "/").last ?? "") != nil }
    }

    @Test("two services exchange what programs commit, and a signal ends them with 0", arguments: [SIGTERM, SIGINT])
    func services(signal: Int32) throws {
        let runs = [try service("a.db"), try service("b.db")]
        try commit(0..<3, "a.db")
        let reader = try open("b.db")
        #expect(
            waitUntil(within: .seconds(30)) {
                (try? reader.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM player") }) == 3
            })
        try reader.close()
        for run in runs {
            run.send(signal)
            let outcome = run.finish()
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        #expect(try place.hash("a.db") == place.hash("b.db"))
    }

    @Test("what is killed in the middle of a push, or in the middle of a fetch, goes on when it starts again")
    func killed() throws {
        try commit(0..<600, "a.db")
        let pushing = try place.starting(["run", place.place.path("a.db")])
        #expect(waitUntil { objectCount > 20 || !pushing.isRunning })
        pushing.send(SIGKILL)
        _ = pushing.finish()
        let pushed = objectCount
        let again = try place.sync("run", "a.db")
        #expect(again.status == 0, "\(again.errors)")
        #expect(pushed > 20 && objectCount == 600, "\(pushed) \(objectCount)")
        // The first transaction of the fetch has ended, and the last one has not.
        let fetching = try place.starting(["run", place.place.path("b.db")])
        #expect(
            waitUntil {
                let commits = try? place.sync("status", "b.db").json["commits"] as? Int
                return commits.map { $0 > 0 } == true || !fetching.isRunning
            })
        fetching.send(SIGKILL)
        _ = fetching.finish()
        let last = try place.sync("run", "b.db")
        #expect(last.status == 0, "\(last.errors)")
        #expect(try place.hash("a.db") == place.hash("b.db"))
        #expect(try place.players("b.db").split(separator: "\r\n").count == 601)
        for name in ["a.db", "b.db"] {
            #expect(try place.sync("status", name).json["in_sync"] as? Bool == true)
            #expect(try place.place.ctl("verify", place.place.path(name)).status == 0)
        }
    }

    @Test("a remote that goes away and comes back does not end a service; what was committed meanwhile arrives")
    func awayAndBack() throws {
        let run = try service("a.db")
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("away"))
        try commit(0..<1, "a.db")
        #expect(waitUntil(within: .seconds(30)) { run.errorsSoFar.contains("\"error\"") || !run.isRunning })
        try FileManager.default.moveItem(atPath: place.place.path("away"), toPath: place.place.path("remote"))
        #expect(waitUntil(within: .seconds(60)) { run.outputSoFar.contains("\"pushed\": 1") || !run.isRunning })
        run.send(SIGTERM)
        let outcome = run.finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try place.sync("run", "b.db").json["fetched"] as? Int == 1)
    }

    // MARK: Time

    @Test("after errors the waits become longer up to a limit, half of each is random, and a success ends that")
    func schedule() {
        var schedule = SyncSchedule(every: .seconds(30))
        let pauses = (0..<8).map { _ in schedule.pause(afterFailure: true, part: 1) }
        #expect(pauses == [30, 60, 120, 240, 480, 900, 900, 900].map { Duration.seconds($0) })
        #expect(schedule.pause(afterFailure: true, part: 0) == .seconds(450))
        #expect(schedule.pause(afterFailure: false) == .seconds(30))
        #expect(schedule.pause(afterFailure: true, part: 0) == .seconds(15))
        var rare = SyncSchedule(every: .seconds(3600))
        for _ in 0..<100 { #expect(rare.pause(afterFailure: true, part: 1) == .seconds(3600)) }
        var frequent = SyncSchedule(every: .seconds(1))
        #expect(frequent.pause(afterFailure: true, part: 1) == .seconds(5))
        let drawn = Set((0..<20).map { _ in frequent.pause(afterFailure: true) })
        #expect(drawn.count > 5 && drawn.allSatisfy { $0 <= SyncSchedule.longest })
    }

    /// A lock file that could not be opened for a moment ended the service.
    @Test("a service goes on after errors that pass, and ends with those that no time mends")
    func passingErrors() {
        let passing: [any Error] = [
            SystemError(call: "open", path: "/tmp/app.db-lock", errorNumber: EMFILE),
            DatabaseError(resultCode: .SQLITE_BUSY),
        ]
        for error in passing { #expect(SyncSchedule.isPassing(error), "\(error)") }
        for error in [CancellationError(), UsageError("x", hint: "y")] as [any Error] {
            #expect(!SyncSchedule.isPassing(error), "\(error)")
        }
    }

    @Test("rates and the rest of the time are shown once there is something to compute them from")
    func rates() {
        let rate = TransferRate(done: 300, bytes: 3_000_000)
        #expect(rate.text(total: 900, after: 0.1).isEmpty)
        #expect(TransferRate().text(total: 900, after: 10).isEmpty)
        #expect(rate.text(total: 900, after: 2) == "150 commits/s, 1.5 MB/s, ETA 4 s")
        #expect(rate.text(total: nil, after: 100) == "3.0 commits/s, 30.0 kB/s")
        #expect(rate.text(total: 300, after: 2) == "150 commits/s, 1.5 MB/s")
        #expect(TransferRate(done: 1, bytes: 10).text(total: 1000, after: 1) == "1.0 commits/s, 0.0 kB/s, ETA 16 min")
    }
}
