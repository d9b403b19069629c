import Foundation
import TestKit
import Testing

/// Remotes that are damaged, emptied, set back, away, or several.
@Suite("cipherctl sync: remotes")
struct SyncRemoteTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func remotes(_ name: String) throws -> [String] {
        let found = try #require(place.sync("remotes", name).json["remotes"] as? [[String: Any]])
        return found.compactMap { $0["name"] as? String }
    }

    private func begin() throws {
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.settle("a.db", "b.db")
    }

    /// It threw, and needed a reset on every device.
    @Test("a remote that was emptied is filled again by whichever device comes first", arguments: ["a.db", "b.db"])
    func emptied(first: String) throws {
        try begin()
        try FileManager.default.removeItem(atPath: place.place.path("remote"))
        try place.makeFolder("remote")
        let run = try place.sync("run", first)
        #expect(run.status == 0 && (run.json["repaired"] as? Int ?? 0) > 0, "\(run.output)\(run.errors)")
        try place.makeStore("c.db")
        try place.add("c.db")
        try place.settle("a.db", "b.db", "c.db")
        #expect(try place.players("c.db").contains("Ann"))
        try place.expectEqual("a.db", "b.db", "c.db")
    }

    @Test("a remote that was set back to an older copy gets again what it lacks")
    func setBack() throws {
        try begin()
        let files = FileManager.default
        try files.copyItem(atPath: place.place.path("remote"), toPath: place.place.path("copy"))
        try place.commit("b.db", "UPDATE player SET score = 2")
        try place.settle("b.db", "a.db")
        try files.removeItem(atPath: place.place.path("remote"))
        try files.moveItem(atPath: place.place.path("copy"), toPath: place.place.path("remote"))
        // Its author is away: another device has the commit too.
        let run = try place.sync("run", "a.db")
        #expect(run.status == 0 && run.json["repaired"] as? Int == 1, "\(run.output)")
        try place.makeStore("c.db")
        try place.add("c.db")
        #expect(try place.players("c.db").contains("1,Ann,2"))
    }

    @Test("a damaged object is named, and a device that has its content puts it again")
    func damaged() throws {
        try begin()
        try place.commit("a.db", "UPDATE player SET score = 2")
        try #require(place.sync("push", "a.db").status == 0)
        let known = Set(try place.objects())
        let whole = try known.reduce(into: [:]) { $0[$1] = try Data(contentsOf: URL(fileURLWithPath: $1)) }
        let object = try #require(
            known.max { date($0) < date($1) }, "\(known)")
        let damages: [(String, (Data) -> Data)] = [
            ("truncated", { $0.prefix(10) }), ("empty", { _ in Data() }),
            ("changed", { Data($0.dropLast()) + [$0[$0.count - 1] ^ 1] }),
        ]
        for (name, damage) in damages {
            try damage(#require(whole[object])).write(to: URL(fileURLWithPath: object))
            let run = try place.sync("run", "b.db")
            #expect(run.status == 2 && run.attention.contains("is damaged"), "\(name): \(run.output)\(run.errors)")
            #expect(try place.sync("fetch", "b.db").status == 2, "\(name)")
            let status = try place.sync("status", "b.db")
            #expect(status.status == 2 && status.attention.contains("is damaged"), "\(name): \(status.output)")
            #expect(try place.players("b.db").contains("1,Ann,1"))
        }
        let repaired = try place.sync("run", "a.db")
        #expect(repaired.status == 0 && repaired.attention.isEmpty, "\(repaired.output)")
        #expect(repaired.json["repaired"] as? Int == 1, "\(repaired.output)")
        _ = try place.sync("run", "b.db")
        #expect(try place.players("b.db").contains("1,Ann,2"))
        #expect(try place.hash("a.db") == place.hash("b.db"))
    }

    /// Every device had exit code 2 for ever, and the hint named the store of the device that joins.
    @Test("damaged member records keep a device out until another one puts them again, and then nothing is to be done")
    func damagedRecords() throws {
        try begin()
        try #require(place.invite("a.db", "c").status == 0)
        for object in try place.objects(kind: "m") {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: object))
            try (Data(bytes.dropLast()) + [bytes[bytes.count - 1] ^ 1]).write(to: URL(fileURLWithPath: object))
        }
        try place.makeStore("c.db")
        let early = try place.join("c.db", "c")
        #expect(early.status == 75 && early.code == "invitationMissing", "\(early.errors)")
        #expect(early.hint.contains("`sync run` on its own store") && !early.hint.contains("c.db"), "\(early.hint)")
        #expect(try place.sync("run", "a.db").status == 0)
        let joined = try place.join("c.db", "c")
        #expect(joined.status == 0, "\(joined.output)\(joined.errors)")
        try place.settle("a.db", "b.db", "c.db")
        #expect(try place.players("c.db").contains("Ann"))
        try place.expectEqual("a.db", "b.db", "c.db")
    }

    private func date(_ path: String) -> Date {
        (try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date) ?? .distantPast
    }

    @Test("what is no object stands at the remote without harm: folders, links, pipes and files of other names")
    func foreignEntries() throws {
        try begin()
        let files = FileManager.default
        let object = try #require(try place.objects().first)
        let folder = (object as NSString).deletingLastPathComponent
        try files.createDirectory(atPath: folder + "/folder", withIntermediateDirectories: false)
        try #require(mkfifo(folder + "/pipe", 0o600) == 0)
        try files.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "/dev/zero")
        try Data("x".utf8).write(to: URL(fileURLWithPath: folder + "/a b"))
        try place.commit("a.db", "UPDATE player SET score = 3")
        try place.settle("a.db", "b.db")
        try place.expectEqual("a.db", "b.db")
    }

    /// It was as if the object had never been there: exit code 0, and nothing of its author came.
    @Test("a pipe, a link or a folder in the place of an object is damage, and blocks no command")
    func pipeAsObject() throws {
        try begin()
        let known = Set(try place.objects())
        try place.commit("a.db", "UPDATE player SET score = 2")
        try #require(place.sync("push", "a.db").status == 0)
        let object = try #require(try place.objects().first { !known.contains($0) })
        let files = FileManager.default
        let damages: [(String, () throws -> Void)] = [
            ("pipe", { try #require(mkfifo(object, 0o600) == 0) }),
            ("link", { try files.createSymbolicLink(atPath: object, withDestinationPath: "/dev/zero") }),
            ("folder", { try files.createDirectory(atPath: object, withIntermediateDirectories: false) }),
        ]
        for (name, damage) in damages {
            try files.removeItem(atPath: object)
            try damage()
            let run = try place.sync("run", "b.db")
            #expect(run.status == 2 && run.attention.contains("is damaged"), "\(name): \(run.output)\(run.errors)")
        }
        _ = try place.sync("run", "a.db")
        _ = try place.sync("run", "b.db")
        #expect(try place.players("b.db").contains("1,Ann,2"))
    }

    @Test("several remotes get what the others bring; one that is away keeps none from the exchange")
    func several() throws {
        try begin()
        try place.makeFolder("second")
        let second = "dir:" + place.place.path("second")
        let added = try place.sync("remotes", "a.db", "--add", second)
        #expect(added.status == 0, "\(added.errors)")
        #expect(try remotes("a.db") == ["remote", "second"].map { place.place.path($0) })
        // A device that reaches the second one alone.
        try place.makeStore("c.db")
        #expect(try place.invite("a.db", "c", ["--remote", second]).status == 0)
        #expect(try place.join("c.db", "c").status == 0)
        #expect(try remotes("c.db") == [place.place.path("second")])
        try place.commit("c.db", "INSERT INTO player VALUES ('c', 'Cleo', 3)")
        #expect(try place.sync("run", "c.db").status == 0)
        // One run of the device between them passes it on.
        #expect(try place.sync("run", "a.db").status == 0)
        #expect(try place.sync("run", "b.db").json["fetched"] as? Int == 1)
        #expect(try place.players("b.db").contains("Cleo"))
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("away"))
        try place.commit("a.db", "UPDATE player SET score = 4 WHERE id = 'c'")
        let run = try place.sync("run", "a.db")
        #expect(run.status == 66 && run.code == "noDirectory", "\(run.errors)")
        #expect((run.json["failures"] as? [Any])?.count == 1 && run.json["pushed"] as? Int == 1, "\(run.output)")
        #expect(try place.sync("run", "c.db").json["fetched"] as? Int == 1)
        let removed = try place.sync("remotes", "a.db", "--remove", place.remote)
        #expect(removed.status == 0, "\(removed.errors)")
        #expect(try place.sync("run", "a.db").status == 0)
        let unknown = try place.sync("remotes", "a.db", "--remove", "dir:/nowhere")
        #expect(unknown.status == 64 && unknown.hint.contains("second"), "\(unknown.errors)")
    }

    /// The remote was there for every later command, as if the push had worked.
    @Test("a command that fails leaves no remote behind that has got nothing", arguments: ["push", "fetch", "run"])
    func failedRemote(command: String) throws {
        try place.makeStore("a.db")
        try place.sql("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try #require(place.sync("init", "a.db", "--table", "player").status == 0)
        try place.makeFolder("other")
        let identity = try #require(place.sync("status", "a.db").json["repository"] as? String)
        // A file in the place of the folder of this repository: it can be neither read nor made.
        try place.place.write("not a folder", to: "other/\(identity)")
        let failed = try place.sync(command, "a.db", "--remote", "dir:" + place.place.path("other"))
        #expect(failed.status != 0, "\(failed.output)")
        #expect(try remotes("a.db").isEmpty)
        // One that is known stays, as it fails for a while only.
        try #require(place.sync("push", "a.db", "--remote", place.remote).status == 0)
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("moved"))
        #expect(try place.sync("push", "a.db").status == 66)
        #expect(try remotes("a.db").count == 1)
        // Story: the status said that nothing needs attention.
        let status = try place.sync("status", "a.db")
        #expect(status.status == 2 && status.output.contains("failed"), "\(status.output)")
        try FileManager.default.moveItem(atPath: place.place.path("moved"), toPath: place.place.path("remote"))
        #expect(try place.sync("push", "a.db").status == 0)
        #expect(try place.sync("status", "a.db").status == 0)
    }

    @Test("a folder that cannot be written is an error with its cause, and the status says so until an exchange works")
    func readOnlyFolder() throws {
        try begin()
        let folder = (try #require(try place.objects().first) as NSString).deletingLastPathComponent
        try FileManager.default.moveItem(atPath: folder, toPath: folder + ".away")
        try Data().write(to: URL(fileURLWithPath: folder))
        try place.commit("a.db", "UPDATE player SET score = 2")
        let run = try place.sync("run", "a.db")
        #expect(run.status != 0 && run.message.contains(place.place.path("remote")), "\(run.output)\(run.errors)")
        let status = try place.sync("status", "a.db")
        #expect(status.status == 2 && status.attention.contains("last exchange"), "\(status.output)")
        try FileManager.default.removeItem(atPath: folder)
        try FileManager.default.moveItem(atPath: folder + ".away", toPath: folder)
        try place.settle("a.db", "b.db")
        try place.expectEqual("a.db", "b.db")
    }

    @Test("stores of two repositories share a folder")
    func twoRepositories() throws {
        try begin()
        try place.makeStore("x.db")
        try place.begin("x.db")
        try place.commit("x.db", "INSERT INTO player VALUES ('x', 'Xenia', 1)")
        #expect(try place.sync("run", "x.db").status == 0)
        try place.settle("a.db", "b.db")
        #expect(!(try place.players("a.db").contains("Xenia")))
    }

    /// The second copy pushed under the numbers of the first one, and both were refused everywhere.
    @Test("a store that was restored from a backup continues, and loses nothing that it had sent")
    func restored() throws {
        try begin()
        let backup = try place.place.ctl("backup", place.place.path("a.db"), place.place.path("backup"))
        try #require(backup.status == 0, "\(backup.errors)")
        try place.commit("a.db", "INSERT INTO player VALUES ('2', 'Ben', 2)")
        try place.settle("a.db", "b.db")
        let restored = try place.place.ctl(
            "restore", place.place.path("backup"), place.place.path("a.db"), "--replace", "--yes")
        try #require(restored.status == 0, "\(restored.errors)")
        // It writes before it has met itself.
        try place.commit("a.db", "INSERT INTO player VALUES ('3', 'Cleo', 3)")
        for _ in 0..<2 { for name in ["a.db", "b.db"] { _ = try place.sync("run", name) } }
        #expect(try place.hash("a.db") == place.hash("b.db"))
        #expect(try place.players("a.db").contains("2,Ben,2\r\n3,Cleo,3"))
        let status = try place.sync("status", "b.db")
        #expect(status.status == 0 && (status.json["notes"] as? [String])?.count == 1, "\(status.output)")
    }
}
