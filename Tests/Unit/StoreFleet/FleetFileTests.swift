import Foundation
import StorePlatform
import Testing

@testable import StoreFleet

@Suite("The fleet file")
struct FleetFileTests {
    private func file(_ text: String) throws -> FleetFile { try FleetFile(text, path: "/f.toml") }

    @Test("every key is read, and an entry overrides the defaults")
    func reads() throws {
        let file = try file(
            """
            jobs = 3
            time-limit = "2h"
            [defaults]
            key-credential = "fleet"
            max-key-age = "365d"
            max-backup-age = "none"
            max-wal = "64MiB"
            min-free = 1024
            backup-place = "/backup"
            keep-last = 10
            keep-daily = 7
            rotation-backup = "/before"
            rotate-after = "90d"
            rotation-window = ["Sat,Sun 01:00-05:00", "22:00-02:00"]
            [[stores]]
            path = ["/a.db", "/b/*.db"]
            [[stores]]
            path = "/c.db"
            key-file = "/c.key"
            keep-weekly = 4
            """)
        #expect(
            file.jobs == 3 && file.timeLimit == 7200
                && file.entries.map(\.patterns) == [["/a.db", "/b/*.db"], ["/c.db"]])
        let first = file.defaults.overridden(by: file.entries[0].settings)
        #expect(first == file.defaults && first.key == FleetSettings.Key(option: "--key-credential", value: "fleet"))
        #expect(first.maxWAL == 64 << 20 && first.minFree == 1024 && first.rotationWindows?.count == 2)
        #expect(first.retention == ["--keep-last": 10, "--keep-daily": 7])
        let second = file.defaults.overridden(by: file.entries[1].settings)
        #expect(second.key == FleetSettings.Key(option: "--key-file", value: "/c.key"))
        #expect(second.retention == ["--keep-weekly": 4] && second.backupPlace == "/backup")
    }

    @Test(
        "a typing error is named with its place, what was expected, and the name that may be meant",
        arguments: [
            ("[[store]]\npath = \"/a\"", "line 1, column 1", "Did you mean \"stores\"?"),
            ("[[stores]]\npaht = \"/a\"", "line 1, column 1", "\"path\" of this store is missing"),
            ("[[stores]]\npath = \"/a\"\nkey_file = \"/k\"", "line 3, column 1", "Did you mean \"key-file\"?"),
            ("[[stores]]\npath = \"/a\"\nmax-keyage = \"1d\"", "line 3, column 1", "Did you mean \"max-key-age\"?"),
            ("[[stores]]\npath = \"/a\"\nfrobnicate = 1", "line 3, column 1", "There are: key-file"),
            ("[[stores]]\npath = \"/a\"\npassphrase = \"x\"", "line 3, column 1", "No key is written in this file"),
            ("[[stores]]\npath = \"/a\"\nkey = \"x\"", "line 3, column 1", "No key is written in this file"),
            ("[[stores]]\npath = \"/a\"\nkey-file = \"/x\"\nkey-command = \"y\"", "line 4, column 1", "one source"),
            ("[[stores]]\npath = \"a.db\"", "line 2, column 8", "absolute path"),
            ("[[stores]]\npath = []", "line 2, column 8", "at least one path"),
            ("[[stores]]\npath = [1]", "line 2, column 8", "absolute paths in quotes"),
            ("[[stores]]\npath = \"/a\"\nmax-key-age = 365", "line 3, column 15", "a string in quotes, not an integer"),
            ("[[stores]]\npath = \"/a\"\nmax-key-age = \"1 year\"", "line 3, column 15", "a duration"),
            ("[[stores]]\npath = \"/a\"\nrotate-after = \"none\"", "line 3, column 16", "a duration"),
            ("[[stores]]\npath = \"/a\"\nmax-wal = \"64 MB\"", "line 3, column 11", "512MiB"),
            ("[[stores]]\npath = \"/a\"\nkeep-last = 0", "line 3, column 13", "an integer from 1"),
            ("[[stores]]\npath = \"/a\"\nrotation-window = \"Sat 1-5\"", "line 3, column 19", "times such as"),
            ("[stores]\npath = \"/a\"", "line 1, column 1", "[[stores]]"),
            ("[[defaults]]", "line 1, column 1", "[defaults]"),
            ("jobs = 0\n", "line 1, column 8", "from 1 to 64"),
            ("job = 1", "line 1, column 1", "Did you mean \"jobs\"?"),
            ("max-wal = 1", "line 1, column 1", "belongs under [defaults]"), ("", "line 1, column 1", "names no store"),
            ("time-limit = \"0s\"", "line 1, column 14", "a duration"),
        ])
    func mistakes(_ text: String, _ place: String, _ part: String) throws {
        let error = try #require(#expect(throws: FleetFileError.self) { try file(text) })
        #expect(error.description.contains("\"/f.toml\", \(place): "), "\(error.description)")
        #expect(error.sentence.contains(part), "\(error.description)")
    }

    @Test("no value of the file is in an error, because it may be a key")
    func secrecy() throws {
        for text in [
            "[[stores]]\npath = \"/a\"\nmax-key-age = \"hunter2\"",
            "[[stores]]\npath = \"/a\"\nkeep-last = \"hunter2\"",
        ] {
            let error = try #require(#expect(throws: FleetFileError.self) { try file(text) })
            #expect(!error.description.contains("hunter2"))
        }
    }

    @Test("patterns find stores and none of their other files; what matches nothing is a gap")
    func patterns() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("fleet-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder + "/sub.db", withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for name in ["a.db", "a.db-sidecar", "a.db-wal", "a.db-lock", "b.db", "b.db-sidecar"] {
            try Data("x".utf8).write(to: URL(fileURLWithPath: folder + "/" + name))
        }
        let path = folder + "/fleet.toml"
        try """
        [[stores]]
        path = ["\(folder)/*.db*", "\(folder)/none/*.db"]
        [[stores]]
        path = "\(folder)/b.db"
        rotate-after = "1d"
        [[stores]]
        path = "\(folder)/gone.db"
        """.write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        let fleet = try Fleet(readingFrom: path)
        #expect(fleet.stores.map { Files.name(of: $0.path) } == ["a.db", "b.db", "gone.db"])
        #expect(fleet.stores.map(\.settings.rotateAfter) == [nil, "1d", nil])
        #expect(fleet.gaps.map(\.pattern) == ["\(folder)/none/*.db"])
        #expect(fleet.only(["b*"]).stores.count == 1 && fleet.only(["\(folder)/*"]).stores.count == 3)
        #expect(fleet.only(["b*"]).gaps.isEmpty && fleet.only(["zzz"]).stores.isEmpty)
        // A user who may change the file could run commands as this user.
        try FileManager.default.setAttributes([.posixPermissions: 0o664], ofItemAtPath: path)
        let refused = try #require(#expect(throws: FleetFileError.self) { try Fleet(readingFrom: path) })
        #expect(refused.sentence.contains("Other users may change the file"))
        #expect(throws: SystemError.self) { try Fleet(readingFrom: folder) }
        #expect(throws: SystemError.self) { try Fleet(readingFrom: folder + "/no.toml") }
    }
}
