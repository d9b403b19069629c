import Foundation
import TestKit
import Testing

@testable import ChangesetSync
@testable import cipherctl

/// The sentences of the commands of `sync` to a person, and to the monitor that reads their exit codes.
@Suite("What the commands of sync say")
struct SyncMessageTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func code(_ outcome: CommandRun.Outcome) -> String? { outcome.errorJSON["code"] as? String }

    private func message(_ outcome: CommandRun.Outcome) -> String { outcome.errorJSON["message"] as? String ?? "" }

    private func hint(_ outcome: CommandRun.Outcome) -> String { outcome.errorJSON["hint"] as? String ?? "" }

    private func attention(_ outcome: CommandRun.Outcome) -> String {
        (outcome.json["attention"] as? [String] ?? []).joined(separator: "\n")
    }

    /// Runs a command of `sync` as a person does.
    private func text(_ command: String, _ name: String) throws -> CommandRun.Outcome {
        try place.place.run(["sync", command, place.place.path(name), "--raw-key-file", place.place.key])
    }

    /// Two devices that have exchanged a row.
    private func begin(secondTable: String? = nil) throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        if let secondTable { try place.sql("b.db", "DROP TABLE player; \(secondTable)") }
        try place.begin("a.db")
        try #require(place.invite("a.db", "app.invitation").status == 0)
        try #require(place.join("b.db", "app.invitation").status == 0)
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        for name in ["a.db", "b.db"] { try #require(place.sync("run", name).status == 0) }
    }

    /// The remote was there for every later command, as if the push had worked.
    @Test(
        "a command that fails leaves no remote behind that has got nothing",
        arguments: ["push", "fetch", "run", "reset"])
    func failedRemote(command: String) throws {
        try place.makeStore("a.db")
        try place.sql("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try #require(place.sync("init", "a.db", "--table", "player").status == 0)
        let other = place.place.path("other")
        try FileManager.default.createDirectory(atPath: other, withIntermediateDirectories: false)
        let identity = try #require(place.sync("status", "a.db").json["repository"] as? String)
        // A file in the place of the folder of this repository: it can be neither read nor made.
        try place.place.write("not a folder", to: "other/\(identity)")
        let failed = try place.sync(command, "a.db", "--remote", "dir:\(other)")
        #expect(failed.status != 0, "\(failed.output)")
        let status = try place.sync("status", "a.db")
        #expect((status.json["remotes"] as? [Any])?.isEmpty == true, "\(status.output)")
        // One that is known stays, as it fails for a while only.
        try #require(place.sync("push", "a.db", "--remote", place.remote).status == 0)
        let moved = place.place.path("moved")
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: moved)
        #expect(try place.sync("push", "a.db").status != 0)
        #expect((try place.sync("status", "a.db").json["remotes"] as? [Any])?.count == 1)
    }

    /// It was exit code 0 without a word, and the row went nowhere.
    @Test("a push says which rows are in no commit")
    func foreignWrites() throws {
        try begin()
        try place.sql("a.db", "INSERT INTO player VALUES ('9', 'Zoe', 9)")
        let pushed = try place.sync("push", "a.db")
        #expect(pushed.status == 2 && pushed.json["foreign_writes"] as? [String] == ["player"], "\(pushed.output)")
        #expect(pushed.errors.contains("cipherctl sync commit"), "\(pushed.errors)")
        try #require(place.sync("commit", "a.db").status == 0)
        #expect(try place.sync("push", "a.db").status == 0)
    }

    @Test("a repository is begun only where the folder of its remote is there")
    func initWithoutFolder() throws {
        try place.makeStore("a.db")
        let failed = try place.sync("init", "a.db", "--table", "player", "--remote", "dir:" + place.place.path("gone"))
        #expect(failed.status == 66, "\(failed.errors)")
        let status = try place.sync("status", "a.db")
        #expect(status.status == 1 && code(status) == "notEnabled", "\(status.output)\(status.errors)")
    }

    /// The hint of `sync revert` says that the log shows them.
    @Test("the log shows the parents of commits, with digits that --keep takes")
    func parents() throws {
        try begin()
        for (name, score) in [("a.db", 2), ("b.db", 3)] { try place.commit(name, "UPDATE player SET score = \(score)") }
        for name in ["a.db", "b.db", "a.db"] { _ = try place.sync("run", name) }
        let log = try text("log", "a.db").output
        let line = try #require(log.split(separator: "\n").first { $0.contains("  parents  ") }, "\(log)")
        let parents = line.dropFirst("  parents  ".count).split(separator: ",").map {
            $0.trimmingCharacters(in: .whitespaces)
        }
        #expect(parents.count == 2)
        let lines = log.split(separator: "\n")
        for parent in parents { #expect(lines.contains { $0.hasPrefix(parent) }, "\(parent): \(log)") }
        #expect(lines.contains { $0.hasPrefix("  parent  ") })
        let merge = try #require(lines.first)
        let refused = try place.sync("revert", "a.db", String(merge))
        #expect(code(refused) == "isMerge" && hint(refused).contains("cipherctl sync log"), "\(refused.errors)")
        let kept = try place.sync("revert", "a.db", String(merge), "--keep", parents[0])
        #expect(kept.status == 0, "\(kept.errors)")
    }

    // MARK: What a monitor must see

    /// A device received nothing, with exit code 0.
    @Test("a log that stands still at a damaged entry needs attention, until the entry is whole again")
    func damagedEntry() throws {
        try begin()
        try place.commit("a.db", "UPDATE player SET score = 2")
        try #require(place.sync("run", "a.db").status == 0)
        let names = FileManager.default.enumerator(atPath: place.place.path("remote"))?.compactMap { $0 as? String }
        let entry = place.place.path("remote/" + (try #require(names?.first { $0.hasSuffix("/2") })))
        let bytes = try Data(contentsOf: URL(fileURLWithPath: entry))
        let files = FileManager.default
        let damages: [(String, () throws -> Void)] = [
            ("truncated", { try bytes.prefix(10).write(to: URL(fileURLWithPath: entry)) }),
            ("empty", { try Data().write(to: URL(fileURLWithPath: entry)) }),
            ("folder", { try files.createDirectory(atPath: entry, withIntermediateDirectories: false) }),
            ("link", { try files.createSymbolicLink(atPath: entry, withDestinationPath: "1") }),
            ("pipe", { try #require(mkfifo(entry, 0o600) == 0) }),
        ]
        for (name, damage) in damages {
            try files.removeItem(atPath: entry)
            try damage()
            let run = try place.sync("run", "b.db")
            #expect(run.status == 2 && attention(run).contains("damaged"), "\(name): \(run.output)\(run.errors)")
            let status = try place.sync("status", "b.db")
            #expect(status.status == 2 && attention(status).contains("damaged"), "\(name): \(status.output)")
            let remotes = status.json["remotes"] as? [[String: Any]]
            #expect((remotes?.first?["stalled_logs"] as? [Any])?.count == 1, "\(name)")
            #expect(try place.sync("fetch", "b.db").status == 2)
        }
        try files.removeItem(atPath: entry)
        try bytes.write(to: URL(fileURLWithPath: entry))
        let run = try place.sync("run", "b.db")
        #expect(run.status == 0 && run.json["moved"] as? Bool == true, "\(run.output)\(run.errors)")
        #expect(try place.sync("status", "b.db").status == 0)
    }

    /// Nothing could be done about what stays damaged: attention was asked for, for ever.
    @Test("what stays damaged at the remote is given up, after its author has pushed it again")
    func discard() throws {
        try begin()
        try place.commit("a.db", "UPDATE player SET score = 2")
        try place.commit("a.db", "UPDATE player SET score = 3")
        try #require(place.sync("push", "a.db").status == 0)
        let folder = URL(fileURLWithPath: place.place.path("remote"))
        let names = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        let entry = folder.appendingPathComponent(try #require(names.first { $0.hasSuffix("/2") }))
        try Data("x".utf8).write(to: entry)
        #expect(try place.sync("run", "b.db").status == 2)
        try #require(place.sync("reset", "a.db").status == 0)
        // The author reads its old log too.
        try #require(place.sync("run", "a.db").json["pushed"] as? Int == 3)
        let received = try place.sync("run", "b.db")
        #expect(received.status == 2 && received.json["moved"] as? Bool == true, "\(received.output)")
        #expect(attention(received).contains("cipherctl sync discard"))
        let discarded = try text("discard", "b.db")
        #expect(discarded.status == 0 && discarded.output.contains("gave up 1 log of dir:"), "\(discarded.output)")
        #expect(try place.sync("discard", "b.db").json["logs"] as? Int == 0)
        for command in ["run", "status"] { #expect(try place.sync(command, "b.db").status == 0, "\(command)") }
        // An object: its commit waits for it, and is given up with it.
        let last = try place.commit("a.db", "UPDATE player SET score = 4")
        try place.commit("a.db", "UPDATE player SET score = 5")
        try #require(place.sync("push", "a.db").status == 0)
        let all = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        let object = folder.appendingPathComponent(try #require(all.first { $0.hasSuffix(String(last.dropFirst(4))) }))
        try Data("x".utf8).write(to: object)
        let refused = try place.sync("run", "b.db")
        #expect(refused.status == 2 && attention(refused).contains("cipherctl sync discard"), "\(refused.output)")
        let wrong = try place.sync("discard", "b.db", "--object", "3f2a")
        #expect(wrong.status == 64 && message(wrong).contains("--object"), "\(wrong.errors)")
        let unknown = try place.sync("discard", "b.db", "--object", String(repeating: "0", count: 64))
        #expect(unknown.status == 64 && code(unknown) == "unknownCommit", "\(unknown.errors)")
        #expect(try place.sync("discard", "b.db", "--object", last).json["objects"] as? Int == 2)
        #expect(try place.sync("status", "b.db").status == 0)
        // Its descendants wait, and the status says so.
        try place.commit("a.db", "UPDATE player SET score = 6")
        try #require(place.sync("push", "a.db").status == 0)
        let waiting = try place.sync("run", "b.db")
        #expect(waiting.status == 2 && attention(waiting).contains("1 commit waits for one that"), "\(waiting.output)")
        try #require(place.sync("reset", "a.db").status == 0)
        _ = try place.sync("run", "a.db")
        let restored = try place.sync("run", "b.db")
        #expect(restored.json["moved"] as? Bool == true, "\(restored.output)")
        #expect(try place.players("a.db") == place.players("b.db"))
    }

    @Test("a remote is forgotten, and may be named again")
    func forget() throws {
        try begin()
        try place.commit("a.db", "UPDATE player SET score = 2")
        let unknown = try place.sync("forget", "a.db", "--remote", "dir:/nowhere")
        #expect(unknown.status == 64 && hint(unknown).contains(place.remote), "\(unknown.errors)")
        let forgotten = try place.sync("forget", "a.db")
        #expect(forgotten.status == 0 && forgotten.json["not_pushed"] as? Int == 1, "\(forgotten.errors)")
        #expect(forgotten.json["remote"] as? String == place.remote)
        #expect((try place.sync("status", "a.db").json["remotes"] as? [Any])?.isEmpty == true)
        let run = try place.sync("run", "a.db")
        #expect(run.status == 64 && message(run).contains("no remote yet"), "\(run.errors)")
        let again = try place.sync("forget", "a.db")
        #expect(again.status == 64 && message(again).contains("no remote yet"), "\(again.errors)")
        #expect(try place.sync("run", "a.db", "--remote", place.remote).status == 0)
        #expect(try place.sync("run", "b.db").status == 0)
        #expect(try place.players("a.db") == place.players("b.db"))
    }

    /// The status had exit code 0, and a conflict hid the error of the pull in the run.
    @Test("what a pull cannot apply needs attention in the status too, beside conflicts, until a pull succeeds")
    func blockedPull() throws {
        try begin(
            secondTable: """
                CREATE TABLE player (id TEXT NOT NULL PRIMARY KEY, name TEXT, score INTEGER CHECK (score < 100)) WITHOUT ROWID
                """)
        try place.commit("a.db", "UPDATE player SET name = 'Anna'")
        try place.commit("b.db", "UPDATE player SET name = 'Anne'")
        for name in ["a.db", "b.db", "a.db"] { _ = try place.sync("run", name) }
        try place.commit("a.db", "UPDATE player SET score = 200")
        try #require(place.sync("push", "a.db").status == 0)
        let run = try place.sync("run", "b.db")
        #expect(run.status == 2 && attention(run).contains("conflict"), "\(run.output)\(run.errors)")
        #expect(attention(run).contains("a constraint of the table") && attention(run).contains("then pull again"))
        try #require(place.sync("conflicts", "b.db", "--clear").status == 0)
        let status = try place.sync("status", "b.db")
        #expect(status.status == 2 && attention(status).contains("then pull again"), "\(status.output)")
        #expect((status.json["pull_obstacle"] as? String)?.contains("player") == true)
        try place.commit("a.db", "UPDATE player SET score = 5")
        try #require(place.sync("push", "a.db").status == 0)
        let last = try place.sync("run", "b.db")
        #expect(last.status == 0, "\(last.output)\(last.errors)")
        let quiet = try place.sync("status", "b.db")
        #expect(quiet.status == 0 && quiet.json["pull_obstacle"] is NSNull, "\(quiet.output)")
    }

    /// The status of a store whose pull stopped by an error of SQLite had exit code 0.
    @Test("an error of SQLite that stops a pull needs attention in the status, until a pull succeeds")
    func pullStoppedByDatabase() throws {
        try begin()
        try place.sql("b.db", "CREATE INDEX by_json ON player (json_extract(name, '$')) WHERE score = 7")
        try place.commit("a.db", "UPDATE player SET score = 7")
        try #require(place.sync("push", "a.db").status == 0)
        try #require(place.sync("fetch", "b.db").status == 0)
        let pull = try place.sync("pull", "b.db")
        #expect(pull.status != 0 && pull.errors.contains("malformed JSON"), "\(pull.errors)")
        let status = try place.sync("status", "b.db")
        #expect(status.status == 2 && attention(status).contains("The last pull has stopped"), "\(status.output)")
        #expect((status.json["pull_obstacle"] as? String)?.contains("SQLite error 1: malformed JSON") == true)
        let lines = try text("status", "b.db")
        #expect(lines.status == 2 && lines.output.contains("malformed JSON"), "\(lines.output)")
        try place.sql("b.db", "DROP INDEX by_json")
        #expect(try place.sync("pull", "b.db").status == 0)
        let quiet = try place.sync("status", "b.db")
        #expect(quiet.status == 0 && quiet.json["pull_obstacle"] is NSNull, "\(quiet.output)")
    }

    /// They said: "It is no table with rows of its own. Name a table that the program created."
    @Test("a tracked table that is gone is named, the status shows the rest, and it works on when the table is back")
    func tableGone() throws {
        try begin()
        try place.sql("b.db", "ALTER TABLE player RENAME TO players")
        for command in ["run", "commit", "pull", "merge"] {
            let outcome = try place.sync(command, "b.db")
            let said = command == "run" ? attention(outcome) : message(outcome) + hint(outcome)
            #expect(outcome.status == 2 && said.contains("\"player\""), "\(command): \(said)")
            #expect(said.contains("tracked") && said.contains("dropped or renamed") && said.contains("Rename it back"))
        }
        let initAgain = try place.sync("init", "b.db", "--table", "players")
        #expect(initAgain.status == 2 && code(initAgain) == "tableMissing", "\(initAgain.errors)")
        let status = try place.sync("status", "b.db")
        #expect(status.status == 2 && attention(status).contains("dropped or renamed"), "\(status.output)")
        #expect(status.json["missing_tables"] as? [String] == ["player"] && status.json["commits"] as? Int == 1)
        try place.sql("b.db", "ALTER TABLE players RENAME TO player")
        let run = try place.sync("run", "b.db")
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }

    /// A commit of it deletes the rows on every device, and nothing said so.
    @Test("where a tracked table was created again, what is said of the commit names what it does on other devices")
    func tableCreatedAgain() throws {
        try begin()
        try place.sql("b.db", "DROP TABLE player")
        #expect(try place.sync("run", "b.db").status == 2)
        try place.sql(
            "b.db", "CREATE TABLE player (id TEXT NOT NULL PRIMARY KEY, name TEXT, score INTEGER) WITHOUT ROWID")
        let foreign = try place.sync("run", "b.db")
        #expect(foreign.status == 2 && attention(foreign).contains("on all devices"), "\(foreign.output)")
        #expect(try place.sync("status", "b.db").json["foreign_writes"] as? [String] == ["player"])
        try place.commit("a.db", "UPDATE player SET score = 2")
        try #require(place.sync("push", "a.db").status == 0)
        #expect(try place.sync("fetch", "b.db").status == 0)
        let pull = try place.sync("pull", "b.db")
        #expect(code(pull) == "foreignWrites" && hint(pull).contains("on all devices"), "\(pull.errors)")
    }

    // MARK: What a person reads

    @Test("a commit that cannot be reverted because of a later one says so")
    func revertAfterLaterCommit() throws {
        try begin()
        let first = try place.commit("a.db", "UPDATE player SET score = 2")
        try place.commit("a.db", "UPDATE player SET score = 3")
        let refused = try place.sync("revert", "a.db", first)
        #expect(refused.status == 65 && code(refused) == "changedLater", "\(refused.errors)")
        #expect(message(refused).contains("later commit") && !refused.errors.contains("outside of commits"))
    }

    @Test("a merge is reverted with --keep only, and a commit that was only fetched after a pull")
    func revertOfMerge() throws {
        try begin()
        try #require(try place.sync("run", "b.db").status == 0)
        let own = try place.commit("a.db", "INSERT INTO player VALUES ('a', 'Ann', 1)")
        let other = try place.commit("b.db", "INSERT INTO player VALUES ('b', 'Ben', 2)")
        try #require(place.sync("push", "b.db").status == 0)
        try #require(place.sync("fetch", "a.db").status == 0)
        let early = try place.sync("revert", "a.db", other)
        #expect(early.status == 2 && code(early) == "notPulled" && hint(early).contains("sync run"), "\(early.errors)")
        try #require(try place.sync("run", "a.db").status == 0)
        let refused = try place.sync("revert", "a.db", "HEAD")
        #expect(refused.status == 64 && code(refused) == "isMerge" && hint(refused).contains("--keep"))
        let made = try place.sync("revert", "a.db", "HEAD", "--keep", own)
        #expect(made.status == 0, "\(made.errors)")
        let players = try place.players("a.db")
        #expect(players.contains("Ann") && !players.contains("Ben"), "\(players)")
        let rejoin = try place.sync("rejoin", "a.db")
        #expect(rejoin.status == 0 && rejoin.json["rejoined"] as? Bool == false, "\(rejoin.output)")
        let text = try place.place.ctl("sync", "rejoin", place.place.path("a.db"))
        #expect(text.output.contains("no checkpoint that this store lacks"), "\(text.output)\(text.errors)")
    }

    @Test("what stands in the place of an object needs attention at once, and a refused one is named with its reason")
    func foreignObject() throws {
        try begin()
        try place.commit("a.db", "INSERT INTO player VALUES ('a', 'Ann', 1)")
        try #require(place.sync("push", "a.db").status == 0)
        let files = FileManager.default
        let folder = place.place.path("remote")
        let names = files.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        let object = try #require(
            names.filter { $0.contains("objects/") && $0.count > 64 }.max { one, other in
                func date(_ name: String) -> Date {
                    (try? files.attributesOfItem(atPath: folder + "/" + name)[.modificationDate] as? Date)
                        ?? .distantPast
                }
                return date(one) < date(other)
            })
        let bytes = try place.place.bytes("remote/" + object)
        try place.place.remove("remote/" + object)
        try #require(mkfifo(folder + "/" + object, 0o600) == 0)
        let run = try place.sync("run", "b.db")
        #expect(run.status == 2 && run.output.contains("is damaged"), "\(run.output)\(run.errors)")
        try place.place.remove("remote/" + object)
        // It may be on its way: nobody has to look at it for an hour, but the line says what is waited for.
        let waiting = try place.place.ctl("sync", "run", place.place.path("b.db"))
        #expect(waiting.status == 0 && waiting.output.contains("1 log cannot be read on (entry"), "\(waiting.output)")
        var damaged = bytes
        damaged[bytes.count - 1] ^= 1
        try Workplace.write(damaged, to: folder + "/" + object)
        let refused = try place.sync("run", "b.db")
        let name = String(object.suffix(64))
        #expect(refused.status == 2 && refused.output.contains("was refused (\(name):"), "\(refused.output)")
        try Workplace.write(bytes, to: folder + "/" + object)
        #expect(try place.sync("run", "b.db").status == 0)
        #expect(try place.hash("a.db") == place.hash("b.db"))
    }

    @Test("`sync init` of a store that has a remote names it")
    func initAgain() throws {
        try place.makeStore("a.db")
        try place.begin("a.db")
        let again = try place.sync("init", "a.db", "--table", "player")
        #expect(again.status == 0 && again.json["remote"] as? String == place.remote, "\(again.output)")
    }

    /// They had the calls of the library: "Call rejoin()", "See status()".
    @Test("no error names a call of the library", arguments: SyncError.Code.allCases)
    func noCalls(_ code: SyncError.Code) throws {
        let report = try #require(SyncErrorReport(SyncError(code)))
        let said = report.message + (report.hint ?? "")
        #expect(!said.contains("()") && !said.contains("(_:)") && !said.contains("(meta:)"), "\(said)")
    }

    @Test("no error that was kept names a call of the library", arguments: SyncError.Code.allCases)
    func noKeptCalls(_ code: SyncError.Code) {
        let error = SyncError(code)
        for text in ["\(error)", "\(SyncFailure(first: error, push: error))"] {
            let said = SyncErrorReport.text(ofKept: text)
            #expect(!said.contains("()") && !said.contains("(_:)") && !said.contains("(meta:)"), "\(said)")
            #expect(said.contains(code.reason))
        }
    }

    @Test("errors of remotes name what a person can do at the command line")
    func remoteErrors() throws {
        let id = try #require(RepositoryID(bytes: Array(repeating: 1, count: RepositoryID.byteCount)))
        let author = try #require(AuthorPseudonym(bytes: Array(repeating: 2, count: AuthorPseudonym.byteCount)))
        let errors: [RemoteError] = [
            .otherRepository(remote: "dir:/r", found: [id]),
            .remoteRewound(remote: "dir:/r", missing: LogPosition(author: author, sequence: 1)),
        ]
        for error in errors {
            let report = try #require(SyncErrorReport(error))
            let said = report.message + (report.hint ?? "")
            #expect(!said.contains("cursor") && !said.contains("permit"), "\(said)")
        }
    }

    @Test("this store cannot be retired; that is said, and is no error of an exchange")
    func retireItself() throws {
        try begin()
        let status = try place.sync("status", "a.db")
        let remotes = try #require(status.json["remotes"] as? [[String: Any]])
        let replicas = try #require(remotes.first?["replicas"] as? [[String: Any]])
        let own = try #require(replicas.first { $0["this_store"] as? Bool == true }?["replica"] as? String)
        let retired = try place.sync("retire", "a.db", String(own.prefix(8)))
        #expect(retired.status == 64 && message(retired).contains("this store"), "\(retired.errors)")
        #expect(try place.sync("status", "a.db").status == 0)
    }

    @Test("a description that is no JSON is refused")
    func metaIsJSON() throws {
        try begin()
        for command in ["commit", "rejoin", "revert"] {
            let operands = command == "revert" ? ["HEAD"] : []
            let refused = try place.place.run(
                ["sync", command, place.place.path("a.db")] + operands
                    + ["--meta", "notjson", "--raw-key-file", place.place.key, "--json"])
            #expect(refused.status == 64 && code(refused) == "usage", "\(command): \(refused.output)\(refused.errors)")
        }
        try place.sql("a.db", "UPDATE player SET score = 9")
        #expect(try place.sync("commit", "a.db", "--meta", "[\"text\", 1]").status == 0)
    }

    @Test("an invitation that is no regular file is refused as such")
    func invitationIsNoFile() throws {
        try place.makeStore("b.db")
        try #require(mkfifo(place.place.path("pipe"), 0o600) == 0)
        try FileManager.default.createSymbolicLink(
            atPath: place.place.path("zero"), withDestinationPath: "/dev/zero")
        for name in ["pipe", "zero", "remote"] {
            let refused = try place.join("b.db", name)
            #expect(refused.status == 65 && code(refused) == "notAnInvitation", "\(name): \(refused.errors)")
            #expect(message(refused).contains("regular file"), "\(refused.errors)")
        }
    }

    @Test("one commit is not \"1 commits\"")
    func singular() throws {
        for name in ["a.db", "b.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        try #require(place.invite("a.db", "app.invitation").status == 0)
        try #require(place.join("b.db", "app.invitation").status == 0)
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try text("reset", "a.db").output.contains("1 commit is to be pushed"))
        #expect(try text("push", "a.db").output.contains("pushed 1 commit to"))
        #expect(try text("fetch", "b.db").output.contains("fetched 1 commit from"))
        let status = try text("status", "b.db").output
        #expect(status.contains(", 1 commit\n") && status.contains(", 1 commit behind"), "\(status)")
        try place.commit("b.db", "INSERT INTO player VALUES ('2', 'Ben', 2)")
        #expect(try text("merge", "b.db").output.contains("made 1 merge, with 0 conflicts"))
    }

    @Test("the table of exit codes has every error of a repository", arguments: SyncError.Code.allCases)
    func documented(_ code: SyncError.Code) throws {
        let report = try #require(SyncErrorReport(SyncError(code)))
        let text = try String(
            contentsOf: Workplace.repositoryRoot.appendingPathComponent("Docs/Commands.md"), encoding: .utf8)
        let row = text.split(separator: "\n").first {
            $0.hasPrefix("| \(report.exitCode.rawValue) |") && $0.contains("`\(report.name)`")
        }
        #expect(row != nil, "\(report.name), \(report.exitCode.rawValue)")
    }
}
