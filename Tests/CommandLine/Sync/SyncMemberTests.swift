import Foundation
import TestKit
import Testing

/// Invitations, members and what their roles allow.
@Suite("cipherctl sync: members and invitations")
struct SyncMemberTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func members(_ name: String) throws -> [[String: Any]] {
        try #require(place.sync("members", name).json["members"] as? [[String: Any]])
    }

    private func identifier(of member: String, in name: String) throws -> String {
        try #require(members(name).first { $0["name"] as? String == member }?["member"] as? String)
    }

    @Test("members are listed alike on all devices, with names and roles")
    func list() throws {
        try place.makeDevices("a.db", "b.db")
        try place.makeStore("c.db")
        try place.add("c.db", role: "reader")
        try place.settle("a.db", "b.db")
        for name in ["a.db", "b.db", "c.db"] {
            let members = try members(name)
            #expect(members.map { $0["name"] as? String } == ["a.db", "b.db", "c.db"], "\(name)")
            #expect(members.map { $0["role"] as? String } == ["admin", "writer", "reader"])
            #expect(members.filter { $0["this_store"] as? Bool == true }.map { $0["name"] as? String } == [name])
        }
        let text = try place.text("members", "b.db").output
        #expect(text.contains("\"b.db\", writer, this store") && text.contains("\"c.db\", reader\n"), "\(text)")
    }

    @Test("an invitation works once, and no later than it says")
    func once() throws {
        try place.makeDevices("a.db", "b.db")
        try place.makeStore("c.db")
        let again = try place.join("c.db", "b.db.invitation")
        #expect(again.status == 77 && again.code == "invitationUsed", "\(again.errors)")
        #expect(try place.sync("status", "c.db").code == "noRepository")
        let short = try place.invite("a.db", "short", ["--for", "1s"])
        #expect(short.status == 0, "\(short.errors)")
        let end = Date(timeIntervalSinceNow: 1.2)
        #expect(waitUntil { Date() > end })
        let late = try place.join("c.db", "short")
        #expect(late.status == 77 && late.code == "invitationExpired", "\(late.errors)")
        for arguments in [["--role", "owner"], ["--for", "ever"]] {
            #expect(try place.invite("a.db", "other", arguments).status == 64)
        }
        #expect(!place.place.exists("other"))
    }

    @Test("a removed member receives nothing new, and its later commits are joined by nobody")
    func removed() throws {
        try place.makeDevices("a.db", "b.db", "c.db")
        try place.commit("b.db", "INSERT INTO player VALUES ('b', 'Ben', 1)")
        try place.settle("b.db", "a.db", "c.db")
        let ben = try identifier(of: "b.db", in: "a.db")
        let unasked = try place.sync("members", "a.db", "--remove", ben)
        #expect(unasked.status == 64, "\(unasked.errors)")
        let removed = try place.sync("members", "a.db", "--remove", String(ben.prefix(8)), "--yes")
        #expect(removed.status == 0, "\(removed.errors)")
        let listed = try members("a.db").first { $0["member"] as? String == ben }
        #expect(listed?["removed"] as? Bool == true)
        try place.commit("a.db", "INSERT INTO player VALUES ('a', '\(SyncPlace.canary)', 2)")
        #expect(try place.sync("run", "a.db").status == 0)
        try place.commit("b.db", "INSERT INTO player VALUES ('late', 'Ben', 3)")
        // It was to wait for a secret that no member passes on.
        let late = try place.sync("run", "b.db")
        #expect(late.status == 2 && late.attention.contains("This store is a former member"), "\(late.output)")
        #expect(!late.attention.contains("secret") && late.attention.contains("--replace"), "\(late.output)")
        #expect(!late.attention.contains("--all-tables"), "\(late.output)")
        #expect(!(try place.players("b.db").contains(SyncPlace.canary)))
        for name in ["a.db", "c.db", "a.db"] { _ = try place.sync("run", name) }
        for name in ["a.db", "c.db"] {
            let rows = try place.players(name)
            #expect(rows.contains("Ben,1") && rows.contains(SyncPlace.canary) && !rows.contains("late"), "\(rows)")
        }
        let unknown = try place.sync("members", "a.db", "--remove", "ffff", "--yes")
        #expect(unknown.status == 64 && unknown.code == "notAMember", "\(unknown.errors)")
    }

    @Test("only an admin invites and removes, and a reader's commits reach nobody")
    func roles() throws {
        try place.makeDevices("a.db", "b.db")
        try place.makeStore("r.db")
        try place.add("r.db", role: "reader")
        try place.settle("a.db", "b.db")
        let invited = try place.invite("b.db", "forbidden")
        #expect(invited.status == 77 && invited.code == "notAdmin", "\(invited.errors)")
        #expect(!place.place.exists("forbidden"))
        let other = try identifier(of: "r.db", in: "a.db")
        let removed = try place.sync("members", "b.db", "--remove", other, "--yes")
        #expect(removed.status == 77 && removed.code == "notAdmin", "\(removed.errors)")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.settle("a.db", "r.db")
        #expect(try place.players("r.db").contains("Ann"))
        try place.commit("r.db", "INSERT INTO player VALUES ('2', 'Rob', 2)")
        let run = try place.sync("run", "r.db")
        #expect(run.status == 2 && run.attention.contains("This store is a reader"), "\(run.output)")
        _ = try place.sync("run", "a.db")
        #expect(!(try place.players("a.db").contains("Rob")))
    }

    /// The advice named `--all-tables`, which refuses a store that has a table without a key.
    @Test("the advice to a reader works as it stands, also where not all tables can be tracked")
    func joiningAgain() throws {
        try place.makeDevices("a.db")
        try place.makeStore("r.db")
        try place.sql("r.db", "CREATE TABLE loose (line TEXT); CREATE TABLE own (id TEXT PRIMARY KEY)")
        try place.add("r.db", role: "reader")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1), ('2', 'Ben', 2)")
        try place.settle("a.db", "r.db")
        try place.commit(
            "r.db", "INSERT INTO player VALUES ('3', 'Rob', 3); UPDATE player SET name = 'Anna' WHERE id = '1'")
        try place.commit("a.db", "UPDATE player SET score = 9 WHERE id = '1'; DELETE FROM player WHERE id = '2'")
        #expect(try place.sync("run", "a.db").status == 0)
        let run = try place.sync("run", "r.db")
        let command = try #require(run.attention.split(separator: "`").first { $0.hasPrefix("cipherctl sync join") })
        #expect(try place.invite("a.db", "again.invitation").status == 0)
        let words = command.split(separator: " ").dropFirst().map { word in
            word == "FILE" ? place.place.path("again.invitation") : word.filter { $0 != "'" }
        }
        let joined = try place.place.run(words + ["--invitation-raw-key-file", place.invitationKey, "--json"])
        #expect(joined.status == 0, "\(command): \(joined.output)\(joined.errors)")
        #expect(joined.json["tables"] as? [String] == ["player"], "\(joined.output)")
        try place.settle("a.db", "r.db")
        let players = try place.players("a.db")
        #expect(players.split(whereSeparator: \.isNewline).suffix(2) == ["1,Anna,9", "3,Rob,3"], "\(players)")
        #expect(try place.players("a.db") == place.players("r.db"))
        let none = try place.place.run([
            "sync", "join", place.place.path("a.db"), place.place.path("again.invitation"), "--raw-key-file",
            place.place.key,
        ])
        #expect(none.status == 64, "\(none.errors)")
    }

    @Test("an invitation that is damaged, foreign, or locked by another key is refused as such, and changes nothing")
    func badInvitations() throws {
        try place.makeDevices("a.db")
        try place.makeStore("b.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        let again = try place.invite("a.db", "app.invitation")
        #expect(again.status == 64 && again.code == "invitationExists", "\(again.errors)")
        let bytes = try place.place.bytes("app.invitation")
        try place.place.flip("app.invitation", at: bytes.count - 20)
        let damaged = try place.join("b.db", "app.invitation")
        #expect(damaged.status == 77 && damaged.code == "wrongKeyOfInvitation", "\(damaged.errors)")
        try place.place.flip("app.invitation", at: bytes.count - 20)
        let wrong = try place.place.run([
            "sync", "join", place.place.path("b.db"), place.place.path("app.invitation"), "--table", "player",
            "--raw-key-file", place.place.key, "--invitation-raw-key-file", place.place.key, "--json",
        ])
        #expect(wrong.status == 77 && wrong.code == "wrongKeyOfInvitation", "\(wrong.errors)")
        try #require(mkfifo(place.place.path("pipe"), 0o600) == 0)
        try FileManager.default.createSymbolicLink(atPath: place.place.path("zero"), withDestinationPath: "/dev/zero")
        for name in ["pipe", "zero", "remote", "b.db"] {
            let refused = try place.join("b.db", name)
            #expect(refused.status == 65 && refused.code == "notAnInvitation", "\(name): \(refused.errors)")
        }
        #expect(try place.sync("status", "b.db").code == "noRepository")
        #expect(try place.join("b.db", "app.invitation").status == 0)
    }

    @Test("a store leaves its repository only when it is asked to, and its rows stay")
    func otherRepository() throws {
        try place.makeDevices("a.db")
        try place.makeStore("b.db")
        try place.sql("b.db", "INSERT INTO player VALUES ('b', 'Ben', 1)")
        #expect(try place.sync("init", "b.db", "--table", "player").status == 0)
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        let refused = try place.join("b.db", "app.invitation")
        #expect(refused.status == 64 && refused.code == "otherRepository", "\(refused.errors)")
        let joined = try place.join("b.db", "app.invitation", ["--replace"])
        #expect(joined.status == 0, "\(joined.errors)")
        try place.settle("b.db", "a.db")
        #expect(try place.players("a.db").contains("b,Ben,1"))
        try place.expectEqual("a.db", "b.db")
        #expect(try place.invite("a.db", "second.invitation").status == 0)
        #expect(try place.join("b.db", "second.invitation").code == "alreadyAMember")
    }

    @Test("a remote that the new device cannot reach, or that lacks the invitation, is named, and can be given")
    func unreachableRemote() throws {
        try place.makeDevices("a.db")
        try place.makeStore("b.db")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("moved"))
        let missing = try place.join("b.db", "app.invitation")
        #expect(missing.status == 66 && missing.code == "noDirectory", "\(missing.errors)")
        try place.makeFolder("remote")
        let empty = try place.join("b.db", "app.invitation")
        #expect(empty.status == 75 && empty.code == "invitationMissing", "\(empty.errors)")
        #expect(empty.hint.contains("`sync run`"))
        #expect(try place.sync("status", "b.db").code == "noRepository")
        let moved = "dir:" + place.place.path("moved")
        #expect(try place.join("b.db", "app.invitation", ["--remote", moved]).status == 0)
        let known = try #require(place.sync("remotes", "b.db").json["remotes"] as? [[String: Any]])
        #expect(known.map { $0["name"] as? String } == [place.place.path("moved")])
        let none = try place.invite("a.db", "quiet", ["--without-remote", "--remote", moved])
        #expect(none.status == 0 && none.json["remote"] is NSNull, "\(none.errors)")
        try place.makeStore("c.db")
        #expect(try place.join("c.db", "quiet").status == 64)
        #expect(try place.join("c.db", "quiet", ["--remote", moved]).status == 0)
    }
}
