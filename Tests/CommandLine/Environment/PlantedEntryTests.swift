import Foundation
import TestKit
import Testing

/// Entries that another member of the group of a folder can put there before a command runs.
///
/// A part of the combinations in each run of the tests, which the seed moves, every one with `CIPHERSTORE_FAULTS=all` in the
/// environment.
@Suite("cipherctl in a folder with planted entries", .enabled(if: SharedFolder.isPossible, "needs root and setpriv"))
struct PlantedEntryTests {
    /// The name that a command works at, and its words; none for `watch`.
    private static let commands: [(name: String, words: [String])] = [
        ("new.db", ["create", "new.db", "--mode", "0660"]), ("new.db", ["import", "plain.db", "new.db"]),
        ("std.db", ["adopt", "std.db"]), ("out.db", ["export", "app.db", "out.db", "--insecure-plaintext"]),
        ("second", ["backup", "app.db", "second"]), ("new.db", ["restore", "copy", "new.db"]),
        ("app.db", ["restore", "copy", "app.db", "--replace", "--yes"]), ("new.db", ["salvage", "app.db", "new.db"]),
        ("app.db", ["rotate", "app.db", "--no-backup"]),
        ("app.db", ["key", "add", "app.db", "--new-raw-key-file", "../own/two.key"]),
        ("app.db", ["key", "change", "app.db", "--new-raw-key-file", "../own/two.key"]),
        ("app.db", ["destroy", "app.db", "--yes"]), ("app.db", ["history", "record", "app.db", "--all"]),
        ("app.db", ["sync", "init", "app.db", "--all-tables"]),
        ("app.db", ["sql", "app.db", "INSERT INTO t VALUES (7, 'x')", "--write"]), ("app.db", ["verify", "app.db"]),
        ("app.db", ["status", "app.db"]), ("app.db", ["doctor", "app.db"]), ("app.db", ["hash", "app.db"]),
        ("app.db", []),
    ]

    /// The endings of every file that is made or looked for beside a path.
    private static let endings =
        [
            "", "-wal", "-shm", "-journal", "-lock", "-notify", "-rotating", "-destroying", "-restoring", "-sidecar",
            "-sidecar.bak", "-sidecar.damaged", "-sidecar.bak.damaged", "-keylog", "-keylog.1", "-replaced-x",
        ]
        + ["importing", "exporting", "adopting", "partial"].map { ".\($0)-1-deadbeef" }
        + ["-sidecar", "-sidecar.bak", "-wal", "-lock", "-keylog", "-notify"].map { "\($0).tmp-1-deadbeef" }

    private struct Case {
        let command: (name: String, words: [String])
        let ending: String
        let plant: SharedFolder.Plant
        var entry: String { command.name + ending }
    }

    /// Each ending with one kind in four, with one command after the other; or everything.
    private static var cases: [Case] {
        var cases: [Case] = []
        let (first, shift) = (Sweep.first(oneIn: 4), Int(Sweep.seed.value / 4 % UInt64(commands.count)))
        for (number, ending) in endings.enumerated() {
            for (kind, plant) in SharedFolder.Plant.allCases.enumerated()
            where Sweep.isWhole || (number + kind) % 4 == first {
                for (index, command) in commands.enumerated()
                where Sweep.isWhole || (number * 3 + kind * 7 + shift) % commands.count == index {
                    cases.append(Case(command: command, ending: ending, plant: plant))
                }
            }
        }
        return cases
    }

    // Commands for keys went by the link: they changed the private store, and the key that they "removed" stayed valid.
    @Test("a command that changes something refuses a link of another user to a private store, file or folder")
    func linkToStore() throws {
        let shared = try SharedFolder()
        let place = "../own/private/own.db"
        try #require(try shared.run(["create", place]).status == 0)
        let added = try shared.run(["key", "add", place, "--new-raw-key-file", "../own/two.key", "--label", "two"])
        try #require(added.status == 0, "\(added.errors)")
        let before = try shared.state()
        let new = ["--new-raw-key-file", "../own/two.key"]
        let commands: [[String]] = [
            ["key", "add", "app.db"] + new, ["key", "change", "app.db"] + new,
            ["key", "label", "app.db", "--slot", "1", "--label", "x"],
            ["key", "remove", "app.db", "--slot", "2", "--yes"], ["key", "recovery", "app.db"],
            ["key", "accept", "app.db"], ["key", "convert", "app.db", "--to", "direct"],
            ["key", "log", "app.db", "--acknowledge"], ["rotate", "app.db", "--no-backup"],
            ["rotate", "app.db", "--abort"], ["destroy", "app.db", "--yes"], ["backup", "app.db", "second"],
            ["restore", "copy", "app.db", "--replace", "--yes"], ["salvage", "app.db", "new.db"],
            ["sql", "app.db", "CREATE TABLE x (a)", "--write"], ["history", "record", "app.db", "--all"],
            ["sync", "init", "app.db", "--all-tables"], ["sync", "run", "app.db"],
        ]
        for target in ["own.db", "secret", nil] {
            for words in commands {
                try shared.reset()
                // The folder of the store can be the link, too.
                let command = target == nil ? words.map { $0 == "app.db" ? "sub/own.db" : $0 } : words
                if let target {
                    try shared.plant(.link, at: "app.db", to: target)
                } else {
                    try shared.plant(.linkToFolder, at: "sub")
                }
                let outcome = try shared.run(command)
                #expect(try shared.state() == before, "\(command): \(outcome.errors)")
                let isRefused = outcome.status == 64 && outcome.errors.contains("is a symbolic link of another user")
                // An opening may see first that the file is no database.
                let isForeign = target == "secret" && outcome.errors.contains("is not a database")
                #expect(isRefused || isForeign, "\(command): \(outcome.status) \(outcome.errors)")
            }
        }
    }

    @Test("a script or a CSV file that is a pipe of another user is refused, and not waited for")
    func plantedPipe() throws {
        let shared = try SharedFolder()
        try shared.plant(.pipe, at: "script.sql")
        for command in [["sql", "app.db", "--file", "script.sql"], ["import-csv", "app.db", "script.sql", "t"]] {
            let outcome = try shared.run(command)
            #expect(outcome.status == 64 && outcome.errors.contains("belongs to user"), "\(outcome.errors)")
        }
    }

    // Story: a destruction in a folder with the sticky bit ended after its commit point, at the name of a copy of a damaged WAL
    // that another user had taken. Each repetition ended there too.
    @Test("a destruction that another user's file would interrupt is refused before anything is removed")
    func undestroyable() throws {
        let shared = try SharedFolder()
        try #require(chown(shared.path, 0, SharedFolder.group) == 0 && chmod(shared.path, 0o3770) == 0)
        for ending in ["-wal-damaged", "-wal-damaged-2", "-keylog.1", "-wal-damaged.tmp-1-deadbeef"] {
            let name = "app.db\(ending)"
            try #require(try shared.attack(["sh", "-c", "echo x > \(name)"]).finish().status == 0)
            let before = FolderSnapshot(path: shared.path)
            let outcome = try shared.run(["destroy", "app.db", "--yes"])
            #expect(
                outcome.status == 64 && outcome.errors.contains("Nothing was removed"), "\(ending): \(outcome.errors)")
            #expect(outcome.errors.contains(name), "\(outcome.errors)")
            #expect(FolderSnapshot(path: shared.path).changes(until: before).isEmpty)
            try FileManager.default.removeItem(atPath: "\(shared.path)/\(name)")
        }
        let outcome = try shared.run(["destroy", "app.db", "--yes"])
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    // Keys, plain databases and reports were written into a private folder of the caller, to which a link led.
    @Test("a command that writes a file which the caller names refuses a folder behind a link of another user")
    func linkToOutputFolder() throws {
        let shared = try SharedFolder()
        try #require(try shared.run(["sync", "init", "app.db", "--all-tables"]).status == 0)
        let before = try shared.state()
        try shared.plant(.linkToFolder, at: "sub")
        let invitationKey = ["--invitation-raw-key-file", "../own/two.key"]
        for words in [
            ["export", "app.db", "sub/new-out.db", "--insecure-plaintext"],
            ["key", "reveal", "app.db", "--output", "sub/new-key", "--yes"],
            ["key", "recovery", "app.db", "--output", "sub/new-key"],
            ["conformance", "app.db", "--report", "sub/new.html"],
            ["conformance", "app.db", "--junit", "sub/new.xml"],
            ["backup", "app.db", "sub/new-copy"], ["rotate", "app.db", "--backup", "sub", "--yes"],
            ["salvage", "app.db", "sub/new.db"], ["import", "plain.db", "sub/new.db"], ["create", "sub/new.db"],
            ["restore", "copy", "sub/new.db"],
            ["sync", "push", "app.db", "--remote", "dir:sub"],
            ["sync", "invite", "app.db", "sub/new.invitation", "--without-remote"] + invitationKey,
        ] {
            let outcome = try shared.run(words)
            #expect(try shared.state() == before, "\(words): \(outcome.errors)")
            #expect(
                outcome.status == 64 && outcome.errors.contains("is a symbolic link of another user"),
                "\(words): \(outcome.status) \(outcome.errors)")
        }
    }

    // A second name in the place of SQLite's -shm or -wal was overwritten; a link led `create` into a private folder.
    @Test("no file of the caller is changed, nothing waits, and a refusal names what is in the way")
    func planted() throws {
        let shared = try SharedFolder()
        let before = try shared.state()
        for one in Self.cases {
            try shared.reset()
            try shared.plant(one.plant, at: one.entry)
            let start = ContinuousClock.now
            let outcome = try one.command.words.isEmpty ? shared.watch() : shared.run(one.command.words)
            let took = ContinuousClock.now - start
            let what: Comment =
                "\(one.command.words) \(one.entry) \(one.plant): \(outcome.status) \(outcome.errors) \(Sweep.seed)"
            #expect(try shared.state() == before, what)
            #expect(took < .seconds(40) && outcome.status < 128, what)
            let said = outcome.errors + outcome.output
            let names = [one.entry, "/own/private", "copy of the sidecar", "or its .bak exists"]
            let isNamed = names.contains { said.contains($0) }
            #expect(outcome.status == 0 || isNamed, what)
        }
    }
}
