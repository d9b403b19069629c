import CipherStore
import ChangesetSync
import Foundation
import TestKit
import Testing

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
        try makeFolder("remote")
    }

    var remote: String { "dir:" + place.path("remote") }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: place.path(name), withIntermediateDirectories: false)
    }

    static let table = "CREATE TABLE player (id TEXT NOT NULL PRIMARY KEY, name TEXT, score INTEGER) WITHOUT ROWID"

    /// Makes a store in this process, which is quicker than a command.
    func makeStore(_ name: String, _ table: String = table) throws {
        var configuration = Configuration()
        configuration.keyScheme = .slots
        let store = try SharedStore.open(
            at: place.path(name), unlockedBy: .rawKeyFile(path: place.key), configuration: configuration)
        try store.write { try $0.execute(sql: table) }
        try store.close()
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

    /// Runs a command of `sync` as a person does.
    func text(_ command: String, _ name: String, _ rest: String...) throws -> CommandRun.Outcome {
        try place.run(["sync", command, place.path(name)] + rest + ["--raw-key-file", place.key])
    }

    /// Makes a commit and returns its name.
    @discardableResult
    func commit(_ name: String, _ text: String) throws -> String {
        let outcome = try sync("commit", name, text)
        return try #require(outcome.json["commit"] as? String, "\(outcome.errors)")
    }

    func begin(_ name: String) throws {
        let outcome = try sync("init", name, "--table", "player", "--remote", remote, "--name", name)
        try #require(outcome.status == 0, "\(outcome.errors)")
    }

    func invite(_ name: String, _ file: String, _ rest: [String] = []) throws -> CommandRun.Outcome {
        try place.run(
            ["sync", "invite", place.path(name), place.path(file), "--raw-key-file", place.key, "--json"]
                + ["--invitation-raw-key-file", invitationKey] + rest)
    }

    func join(_ name: String, _ file: String, _ rest: [String] = []) throws -> CommandRun.Outcome {
        try place.run(
            ["sync", "join", place.path(name), place.path(file), "--table", "player", "--raw-key-file", place.key]
                + ["--name", name, "--invitation-raw-key-file", invitationKey, "--json"] + rest)
    }

    /// Invites devices by the first one, and lets them join.
    func add(_ names: String..., role: String = "writer") throws {
        for name in names {
            let invited = try invite("a.db", name + ".invitation", ["--role", role])
            try #require(invited.status == 0, "\(invited.errors)")
            let joined = try join(name, name + ".invitation")
            try #require(joined.status == 0, "\(joined.output)\(joined.errors)")
        }
    }

    /// Makes stores, and devices of one repository of them. The first one is `a.db`.
    func makeDevices(_ names: String...) throws {
        for name in names { try makeStore(name) }
        try begin(names[0])
        for name in names.dropFirst() { try add(name) }
    }

    /// Syncs stores until nothing is new.
    func settle(_ names: String...) throws {
        for _ in 0..<2 {
            for name in names {
                let outcome = try sync("run", name)
                try #require(outcome.status == 0, "\(name): \(outcome.output)\(outcome.errors)")
            }
        }
    }

    /// The digest of the whole content; the library's own tables are left out.
    func hash(_ name: String) throws -> String {
        try #require(try place.ctl("hash", place.path(name), "--json").json["content_hash"] as? String)
    }

    func players(_ name: String) throws -> String {
        try place.ctl("sql", place.path(name), "SELECT * FROM player ORDER BY id", "--mode", "csv").output
    }

    func expectEqual(_ names: String...) throws {
        let hashes = try names.map { try hash($0) }
        #expect(Set(hashes).count == 1, "\(names) \(hashes)")
        for name in names {
            let status = try sync("status", name)
            #expect(status.status == 0 && status.json["in_sync"] as? Bool == true, "\(name): \(status.output)")
        }
        let digests = try names.map { try sync("verify", $0).json["digest"] as? String }
        #expect(Set(digests).count == 1 && digests[0] != nil)
    }

    func starting(_ arguments: [String]) throws -> CommandRun {
        try CommandRun(
            Workplace.program(), ["sync"] + arguments + ["--raw-key-file", place.key, "--json"],
            directory: place.folder.url.path)
    }

    /// The paths of the objects at a remote in a folder.
    func objects(of name: String = "remote", kind: String = "c") throws -> [String] {
        let names = FileManager.default.enumerator(atPath: place.path(name))?.compactMap { $0 as? String } ?? []
        return names.filter { $0.contains("/\(kind)/") }.sorted().map { place.path(name) + "/" + $0 }
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

extension CommandRun.Outcome {
    /// The stable name of the error.
    var code: String? { errorJSON["code"] as? String }
    var hint: String { errorJSON["hint"] as? String ?? "" }
    var message: String { errorJSON["message"] as? String ?? "" }
    var attention: String { (json["attention"] as? [String] ?? []).joined(separator: "\n") }
}
