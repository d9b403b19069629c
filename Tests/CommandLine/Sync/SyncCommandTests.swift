import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl sync")
struct SyncCommandTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    @Test("two devices and one that joins later have equal rows, and nobody else reads anything")
    func threeDevices() throws {
        for name in ["a.db", "b.db", "c.db"] { try place.makeStore(name) }
        try place.sql("a.db", "INSERT INTO player VALUES ('1', '\(SyncPlace.canary)', 1), ('2', 'Ben', 2)")
        try place.begin("a.db")
        try place.add("b.db")
        try place.expectEqual("a.db", "b.db")
        // Both change one cell, and each another one.
        try place.commit("a.db", "UPDATE player SET name = 'Ann', score = 10 WHERE id = '1'")
        try place.commit(
            "b.db", "UPDATE player SET name = 'Anna' WHERE id = '1'; UPDATE player SET score = 20 WHERE id = '2'")
        let pushed = try place.sync("run", "a.db")
        #expect(pushed.status == 0 && pushed.json["pushed"] as? Int == 1, "\(pushed.output)")
        let joined = try place.sync("run", "b.db")
        #expect(joined.status == 0 && joined.json["joined"] as? Bool == true, "\(joined.output)\(joined.errors)")
        #expect(joined.json["fetched"] as? Int == 1 && joined.json["pushed"] as? Int == 1)
        #expect(try place.sync("run", "a.db").json["joined"] as? Bool == true)
        let rows = try place.players("a.db")
        #expect(rows.contains("1,Anna,10\r\n2,Ben,20"), "\(rows)")
        try place.add("c.db")
        try place.settle("a.db", "b.db", "c.db")
        try place.expectEqual("a.db", "b.db", "c.db")
        try nothingIsReadable()
    }

    /// Neither rows nor the key of the repository are at the remote or in the invitation.
    private func nothingIsReadable() throws {
        let hex = try place.place.ctl(
            "sql", place.place.path("a.db"), "SELECT hex(roster) FROM cipherstore_repository_identity", "--mode", "csv"
        ).output.split(separator: "\r\n").last.map(String.init)
        let digits = Array(try #require(hex))
        let key = Data(
            stride(from: 0, to: digits.count - 1, by: 2).compactMap { UInt8(String(digits[$0...($0 + 1)]), radix: 16) })
        try #require(key.count == 32)
        let invitation = try Data(place.place.bytes("b.db.invitation"))
        let attributes = try FileManager.default.attributesOfItem(atPath: place.place.path("b.db.invitation"))
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
        #expect(try place.players("a.db").contains("Anna") && remote.range(of: Data("CSO2".utf8)) != nil)
    }

    @Test("each step is a command of its own, and none of the others happens")
    func steps() throws {
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try place.sync("fetch", "b.db").json["fetched"] as? Int == 0)
        #expect(try place.sync("push", "a.db").json["pushed"] as? Int == 1)
        #expect(try place.sync("push", "a.db").json["pushed"] as? Int == 0)
        let fetched = try place.sync("fetch", "b.db")
        #expect(fetched.status == 0 && fetched.json["fetched"] as? Int == 1, "\(fetched.output)")
        #expect(fetched.json["ready"] as? Int == 1)
        #expect(!(try place.players("b.db").contains("Ann")))
        let status = try place.sync("status", "b.db")
        #expect(status.status == 2 && status.json["ready"] as? Int == 1, "\(status.output)")
        #expect(status.attention.contains("1 commit can be joined: `cipherctl sync pull"), "\(status.output)")
        #expect(try place.sync("pull", "b.db").json["joined"] as? Bool == true)
        #expect(try place.sync("pull", "b.db").json["joined"] as? Bool == false)
        #expect(try place.players("b.db").contains("Ann"))
        // That the remote has what it has brought is known after the next exchange with it.
        #expect(try place.sync("push", "b.db").json["pushed"] as? Int == 0)
        try place.expectEqual("a.db", "b.db")
    }

    @Test("statements are one commit or none, and rows of other tables make none")
    func commits() throws {
        try place.makeDevices("a.db")
        try place.sql("a.db", "CREATE TABLE other (a)")
        #expect(try place.sync("commit", "a.db", "INSERT INTO other VALUES (1)").json["commit"] is NSNull)
        let failed = try place.sync(
            "commit", "a.db", "INSERT INTO player VALUES ('1', 'Ann', 1); INSERT INTO player VALUES ('1', 'Ben', 2)")
        #expect(failed.status == 1 && failed.code == "sqlite", "\(failed.errors)")
        #expect(!(try place.players("a.db").contains("Ann")))
        let ended = try place.sync("commit", "a.db", "INSERT INTO player VALUES ('1', 'Ann', 1); COMMIT")
        #expect(ended.status == 1, "\(ended.errors)")
        #expect(!(try place.players("a.db").contains("Ann")))
        for meta in ["notjson", "{"] {
            let refused = try place.sync("commit", "a.db", "DELETE FROM player", "--meta", meta)
            #expect(refused.status == 64 && refused.code == "usage", "\(refused.errors)")
        }
        let input = try place.place.run(
            ["sync", "commit", place.place.path("a.db"), "--raw-key-file", place.place.key, "--json"],
            input: "INSERT INTO player VALUES ('1', 'Ann', 1);\nUPDATE player SET score = 2;\n")
        #expect(input.json["commit"] is String, "\(input.errors)")
        #expect((try place.sync("log", "a.db").json["commits"] as? [Any])?.count == 1)
    }

    @Test("`sql --write` warns of rows of tracked tables, which no commit has yet, and of no others")
    func writesOutside() throws {
        try place.makeDevices("a.db")
        try place.sql("a.db", "CREATE TABLE other (a)")
        let path = place.place.path("a.db")
        let other = try place.place.ctl("sql", path, "INSERT INTO other VALUES (1)", "--write")
        #expect(other.status == 0 && other.errors == "cipherctl: note: 1 row affected\n", "\(other.errors)")
        let back = try place.place.ctl(
            "sql", path, "BEGIN; INSERT INTO player VALUES ('1', 'A', 1); ROLLBACK", "--write")
        #expect(back.status == 0 && back.errors == "cipherctl: note: 1 row affected\n", "\(back.errors)")
        let outside = try place.place.ctl("sql", path, "INSERT INTO player VALUES ('1', 'Ann', 1)", "--write")
        #expect(outside.status == 0 && outside.errors.contains("rows of player are tracked"), "\(outside.errors)")
        #expect(outside.errors.contains("`cipherctl sync commit "))
        // It said that they reach no other device, and they did.
        #expect(outside.errors.contains("makes a commit of them"), "\(outside.errors)")
        let verified = try place.sync("verify", "a.db")
        let found = try #require(verified.json["differences"] as? [[String: Any]])
        #expect(verified.status == 2 && found.count == 1 && found[0]["kind"] as? String == "unrecorded")
    }

    /// The status said that all is in sync, and a person put the device away.
    @Test("rows that were written outside of commits keep a store from being in sync until they are sent")
    func unsentWrites() throws {
        try place.makeDevices("a.db", "b.db")
        try place.settle("a.db", "b.db")
        try place.expectEqual("a.db", "b.db")
        for sql in [
            "INSERT INTO player VALUES ('1', 'Ann', 1)", "UPDATE player SET score = 2", "DELETE FROM player",
        ] {
            try place.sql("a.db", sql)
            let waiting = try place.sync("status", "a.db")
            #expect(waiting.status == 2 && waiting.json["in_sync"] as? Bool == false, "\(waiting.output)")
            #expect(waiting.json["foreign_writes"] as? Bool == true, "\(waiting.output)")
            #expect(waiting.attention.contains("outside of commits"), "\(waiting.output)")
            #expect(waiting.attention.contains("`cipherctl sync run "), "\(waiting.output)")
            let run = try place.sync("run", "a.db")
            #expect(run.status == 0 && run.json["pushed"] as? Int == 1, "\(run.output)")
            try place.settle("b.db")
            try place.expectEqual("a.db", "b.db")
        }
        // A table that is not tracked has no part in it.
        try place.sql("a.db", "CREATE TABLE other (a); INSERT INTO other VALUES (1)")
        #expect(try place.sync("status", "a.db").status == 0)
    }

    @Test("a store without a remote names a command that makes a commit of rows that were written outside of commits")
    func writesWithoutRemote() throws {
        try place.makeStore("a.db")
        #expect(try place.sync("init", "a.db", "--table", "player").status == 0)
        #expect(try place.sync("status", "a.db").status == 0)
        try place.sql("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        let waiting = try place.sync("status", "a.db")
        #expect(waiting.status == 2 && waiting.attention.contains("`cipherctl sync pull "), "\(waiting.output)")
        #expect(try place.sync("pull", "a.db").status == 0)
        #expect(try place.sync("status", "a.db").status == 0)
    }

    @Test("commits are listed with their authors and descriptions, compared, and taken back by others")
    func looking() throws {
        try place.makeDevices("a.db")
        let first = try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1), ('2', 'Ben', 2)")
        let second = try #require(
            try place.sync(
                "commit", "a.db", "UPDATE player SET score = 5 WHERE id = '1'; DELETE FROM player WHERE id = '2'",
                "--meta", "{\"by\": 1}"
            ).json["commit"] as? String)
        let log = try #require(place.sync("log", "a.db").json["commits"] as? [[String: Any]])
        #expect(log.map { $0["commit"] as? String } == [second, first])
        #expect(log.map { $0["meta"] as? String } == ["{\"by\": 1}", "{}"] && log[0]["parent"] as? String == first)
        #expect(log.map { $0["number"] as? Int } == [2, 1] && log[0]["name"] as? String == "a.db")
        #expect((try place.sync("log", "a.db", "--limit", "1").json["commits"] as? [Any])?.count == 1)
        let changes = try #require(
            place.sync("diff", "a.db", String(second.prefix(12))).json["changes"] as? [[String: Any]])
        #expect(Set(changes.map { $0["kind"] as? String }) == ["deleted", "updated"])
        #expect(changes.contains { $0["values"] as? [String: Int] == ["score": 5] })
        let whole = try place.sync("diff", "a.db", first, "HEAD")
        #expect((whole.json["changes"] as? [Any])?.count == 2)
        let reverted = try place.sync("revert", "a.db", "HEAD")
        #expect(reverted.status == 0 && reverted.json["reverted"] as? String == second, "\(reverted.errors)")
        #expect(try place.players("a.db").contains("1,Ann,1\r\n2,Ben,2"))
        for name in ["abc", "zzzz", "ffffffffffff"] {
            let unknown = try place.sync("diff", "a.db", name)
            #expect(unknown.status == 64 && unknown.code == "noSuchCommit", "\(name): \(unknown.errors)")
        }
    }

    @Test("a cell that was changed later stays when a commit is taken back, and all later commits can go at once")
    func revertAfterLaterCommit() throws {
        try place.makeDevices("a.db")
        let first = try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        let second = try place.commit("a.db", "UPDATE player SET name = 'Anna', score = 2")
        try place.commit("a.db", "UPDATE player SET score = 3")
        let outcome = try place.sync("revert", "a.db", second)
        #expect(outcome.status == 2 && outcome.json["commit"] is String, "\(outcome.output)\(outcome.errors)")
        let kept = try #require(outcome.json["kept"] as? [[String: Any]])
        #expect(kept.count == 1 && kept[0]["column"] as? String == "score")
        #expect(try place.players("a.db").contains("1,Ann,3"))
        #expect(try place.sync("revert", "a.db", first, "--later").status == 0)
        #expect(try place.players("a.db").contains("1,Ann,1"))
    }

    @Test("several commits that were joined have one name; it is compared, and not taken back as one")
    func union() throws {
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.commit("b.db", "INSERT INTO player VALUES ('2', 'Ben', 2)")
        for name in ["a.db", "b.db", "a.db"] { #expect(try place.sync("run", name).status == 0) }
        let heads = try ["a.db", "b.db"].map { try place.sync("status", $0).json["head"] as? String }
        #expect(heads[0] == heads[1] && heads[0] != nil)
        let refused = try place.sync("revert", "a.db", "HEAD")
        #expect(refused.status == 64 && refused.code == "isUnion", "\(refused.errors)")
        #expect(refused.hint.contains("cipherctl sync log"))
        let diff = try place.sync("diff", "a.db", "HEAD")
        #expect((diff.json["changes"] as? [[String: Any]])?.count == 1, "\(diff.output)\(diff.errors)")
    }

    @Test("what cannot be done is refused with its reason, and changes nothing")
    func refusals() throws {
        try place.makeStore("a.db")
        let none = try place.sync("status", "a.db")
        #expect(none.status == 1 && none.code == "noRepository", "\(none.errors)")
        #expect(none.hint.contains("cipherctl sync init"))
        #expect(try place.sync("init", "a.db").status == 64)
        #expect(try place.sync("init", "a.db", "--table", "player", "--all-tables").status == 64)
        let other = try place.sync("init", "a.db", "--table", "player", "--remote", "mysql://u:geheim@db")
        #expect(other.status == 64 && other.code == "usage" && !other.errors.contains("geheim"))
        try place.sql("a.db", "CREATE TABLE loose (a); CREATE TABLE other (a)")
        let loose = try place.sync("init", "a.db", "--all-tables")
        #expect(loose.status == 64 && loose.code == "noPrimaryKey", "\(loose.errors)")
        // It stopped at the first one.
        #expect(loose.errors.contains("loose") && loose.errors.contains("other"), "\(loose.errors)")
        let unknown = try place.sync("init", "a.db", "--table", "nowhere")
        #expect(unknown.status == 64 && unknown.code == "noSuchTable", "\(unknown.errors)")
        #expect(unknown.errors.contains("nowhere") && !unknown.errors.contains("primary key"), "\(unknown.errors)")
        let gone = try place.sync("init", "a.db", "--table", "player", "--remote", "dir:" + place.place.path("gone"))
        #expect(gone.status == 66 && gone.code == "noDirectory", "\(gone.errors)")
        // A repository begins only where the folder of its remote is there.
        #expect(try place.sync("status", "a.db").code == "noRepository")
        let alone = try place.sync("init", "a.db", "--table", "player")
        #expect(alone.status == 0, "\(alone.errors)")
        let run = try place.sync("run", "a.db")
        #expect(run.status == 64 && run.message.contains("no remote yet"), "\(run.errors)")
        for every in ["0s", "soon"] { #expect(try place.sync("run", "a.db", "--every", every).status == 64) }
    }

    @Test("a repository tracks more tables when it is begun again")
    func moreTables() throws {
        try place.makeDevices("a.db", "b.db")
        for name in ["a.db", "b.db"] { try place.sql(name, "CREATE TABLE team (id TEXT NOT NULL PRIMARY KEY, city)") }
        try place.sql("a.db", "INSERT INTO team VALUES ('x', 'Oslo')")
        let again = try place.sync("init", "a.db", "--table", "team")
        #expect(again.status == 0 && again.json["tables"] as? [String] == ["player", "team"], "\(again.output)")
        #expect(again.json["remotes"] as? [String] == [place.place.path("remote")])
        #expect(try place.sync("run", "a.db").status == 0)
        // The other one does not track it yet: its rows wait.
        let waiting = try place.sync("run", "b.db")
        #expect(waiting.status == 2 && waiting.attention.contains("\"team\""), "\(waiting.output)")
        let tracked = try place.sync("init", "b.db", "--all-tables")
        #expect(tracked.status == 0, "\(tracked.errors)")
        #expect(try place.sync("run", "b.db").status == 0)
        try place.expectEqual("a.db", "b.db")
    }

    @Test("a column that is not here yet keeps no commit back, and its values come when it is there")
    func unknownColumn() throws {
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.settle("a.db", "b.db")
        try place.sql("a.db", "ALTER TABLE player ADD COLUMN team TEXT")
        try place.commit("a.db", "UPDATE player SET team = 'Red', score = 2")
        #expect(try place.sync("run", "a.db").status == 0)
        let run = try place.sync("run", "b.db")
        #expect(run.status == 2 && run.attention.contains("\"team\""), "\(run.output)\(run.errors)")
        #expect(try place.players("b.db").contains("1,Ann,2"))
        try place.sql("b.db", "ALTER TABLE player ADD COLUMN team TEXT")
        #expect(try place.sync("run", "b.db").status == 0)
        #expect(try place.players("b.db").contains("1,Ann,2,Red"))
        try place.expectEqual("a.db", "b.db")
    }

    @Test("a tracked table that is gone keeps no commit back, and its rows come when it is there again")
    func tableGone() throws {
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try place.sync("run", "a.db").status == 0)
        try place.sql("b.db", "ALTER TABLE player RENAME TO players")
        let run = try place.sync("run", "b.db")
        // The program has given the name up: no other program has to be updated.
        #expect(run.status == 0 && run.json["in_sync"] as? Bool == true, "\(run.output)\(run.errors)")
        let notes = try place.sync("status", "b.db").json["notes"] as? [String] ?? []
        #expect(notes.contains { $0.contains("\"player\"") }, "\(notes)")
        try place.sql("b.db", "ALTER TABLE players RENAME TO player")
        let back = try place.sync("run", "b.db")
        #expect(back.status == 0, "\(back.output)\(back.errors)")
        #expect(try place.players("b.db").contains("1,Ann,1"))
    }

    @Test("a table with another key keeps the rows of others back, says so, and sends its own")
    func otherKey() throws {
        try place.makeStore("a.db")
        try place.makeStore("b.db", "CREATE TABLE player (id TEXT, team TEXT, name TEXT, PRIMARY KEY (id, team))")
        try place.begin("a.db")
        try place.add("b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.commit("b.db", "INSERT INTO player VALUES ('2', 'Red', 'Ben')")
        #expect(try place.sync("run", "a.db").status == 0)
        let run = try place.sync("run", "b.db")
        #expect(run.status == 2 && run.attention.contains("\"player\""), "\(run.output)\(run.errors)")
        _ = try place.sync("run", "a.db")
        #expect(try place.players("a.db").contains("1,Ann,1") && !place.players("a.db").contains("Ben"))
        #expect(try place.players("b.db").contains("2,Red,Ben") && !place.players("b.db").contains("Ann"))
    }

    @Test("a row that a constraint hides is listed with its values, and a commit settles it everywhere")
    func conflicts() throws {
        let table = "CREATE TABLE player (id TEXT NOT NULL PRIMARY KEY, name TEXT UNIQUE, score INTEGER)"
        for name in ["a.db", "b.db"] { try place.makeStore(name, table) }
        try place.begin("a.db")
        try place.add("b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.commit("b.db", "INSERT INTO player VALUES ('2', 'Ann', 2)")
        for name in ["a.db", "b.db", "a.db"] { _ = try place.sync("run", name) }
        for name in ["a.db", "b.db"] {
            let outcome = try place.sync("conflicts", name)
            let found = try #require(outcome.json["conflicts"] as? [[String: Any]])
            #expect(outcome.status == 2 && found.count == 1, "\(outcome.output)")
            #expect(found[0]["key"] as? [String] == ["2"] && found[0]["shown"] is NSNull)
            #expect((found[0]["written"] as? [String: Any])?["name"] as? String == "Ann")
            let status = try place.sync("status", name)
            #expect(status.status == 2 && status.attention.contains("not shown as written"), "\(status.output)")
            // A finding for a person does not keep the devices from having the same.
            #expect(status.json["in_sync"] as? Bool == true, "\(status.output)")
        }
        #expect(try place.text("conflicts", "a.db").output.contains("player \"2\": written"))
        try place.commit("b.db", "INSERT INTO player VALUES ('2', 'Anna', 2)")
        try place.settle("b.db", "a.db")
        #expect(try place.sync("conflicts", "a.db").status == 0)
        try place.expectEqual("a.db", "b.db")
    }

    @Test("a store that only reads, and a backup, show everything")
    func readOnly() throws {
        try place.makeDevices("a.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        let backup = try place.place.ctl("backup", place.place.path("a.db"), place.place.path("backup"))
        try #require(backup.status == 0, "\(backup.errors)")
        for command in ["status", "log", "conflicts", "verify", "members", "remotes"] {
            let outcome = try place.sync(command, "backup")
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
        }
        #expect(try place.sync("diff", "backup", "HEAD").status == 0)
        for arguments in [["run"], ["push"], ["pull"], ["commit"], ["snapshot"]] {
            let refused = try place.sync(arguments[0], "backup")
            #expect(refused.status == 77, "\(arguments): \(refused.errors)")
        }
    }

    @Test("a snapshot replaces the commits at the remote; a device that was away and a new one have all rows")
    func snapshot() throws {
        try place.makeDevices("a.db", "b.db")
        for number in 0..<5 { try place.commit("a.db", "INSERT INTO player VALUES ('\(number)', 'Ann', \(number))") }
        try place.commit("b.db", "INSERT INTO player VALUES ('b', 'Ben', 1)")
        #expect(try place.sync("run", "a.db").status == 0)
        let made = try place.sync("snapshot", "a.db")
        let remotes = try #require(made.json["remotes"] as? [[String: Any]], "\(made.errors)")
        #expect(made.status == 0 && remotes[0]["snapshots"] as? Int == 1 && (remotes[0]["deleted"] as? Int ?? 0) > 0)
        #expect(try place.objects().isEmpty)
        try place.settle("b.db", "a.db")
        try place.makeStore("c.db")
        try place.add("c.db")
        try place.settle("c.db", "a.db", "b.db")
        try place.expectEqual("a.db", "b.db", "c.db")
        #expect(try place.players("c.db").contains("Ben"))
    }

    @Test("a server that does not answer is said to be that, and no password is repeated")
    func unreachableServer() throws {
        try place.makeDevices("a.db")
        let outcome = try place.sync("push", "a.db", "--remote", "postgresql://ann:geheim@127.0.0.1:1/app")
        #expect(outcome.status == 75 && outcome.code == "unreachable", "\(outcome.errors)")
        #expect(outcome.errors.contains("PGPASSFILE") && !outcome.errors.contains("geheim"))
        #expect(try !place.sync("status", "a.db").output.contains("geheim"))
    }
}
