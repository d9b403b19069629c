import Foundation
import TestKit
import Testing

/// The sentences of commands when the system refuses a file or a folder.
@Suite("cipherctl and what the system refuses")
struct SystemRefusalTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    }

    #if os(Linux)
        /// Every failure of mkdir was "Permission denied" (77).
        @Test(
            "a folder that cannot be made is what the system says",
            arguments: [ENOSPC, EIO, EDQUOT, EROFS, EACCES])
        func folder(errorNumber: Int32) throws {
            let status: Int32 = [EROFS, EACCES].contains(errorNumber) ? 77 : 74
            try place.makeStore()
            let commands = [
                ["import", place.path("plain.db"), place.path("new.db")],
                ["export", place.path("s.db"), place.path("out.db"), "--insecure-plaintext"],
                ["backup", place.path("s.db"), place.path("b")],
            ]
            for command in commands {
                let run = try place.run(
                    command + ["--json", "--raw-key-file", place.key],
                    failing: CallFault(kinds: "mkdir", error: errorNumber), at: 1)
                #expect(run.wasHit, "\(command)")
                #expect(run.outcome.errorJSON["errno"] as? Int == Int(errorNumber), "\(run.outcome.errors)")
                #expect(run.outcome.status == status, "\(run.outcome.errors)")
            }
        }

        // If link() is refused, the file was opened by its name: a link led to a file of the user, which was made or
        // got the mode of the database.
        @Test("without hard links a planted link is not followed either", arguments: [false, true])
        func plantedWithoutLinks(exists: Bool) throws {
            try place.makeStore()
            let victim = place.path("victim")
            if exists { try place.write("", to: "victim") }
            try FileManager.default.setAttributes([.posixPermissions: 0o664], ofItemAtPath: place.path("s.db"))
            try place.remove("s.db-keylog")
            try FileManager.default.createSymbolicLink(
                atPath: place.path("s.db-keylog"), withDestinationPath: victim)
            _ = try place.run(
                ["backup", place.path("s.db"), place.path("b"), "--raw-key-file", place.key],
                failing: CallFault(kinds: "name", error: EPERM, isLasting: true), at: 1, of: "/s.db-keylog")
            #expect(place.exists("victim") == exists)
            if exists {
                let mode = try FileManager.default.attributesOfItem(atPath: victim)[.posixPermissions] as? Int
                #expect(mode == 0o600)
                #expect(try place.bytes("victim") == [])
            }
        }
    #endif

    @Test("an umask that takes everything away leaves a backup that its owner can read")
    func umask() throws {
        try place.makeStore()
        let outcome = try CommandRun(
            #require(SystemProgram.find("sh")),
            ["-c", "umask 0777; exec \"$0\" \"$@\"", Workplace.program().path, "backup", "s.db", "b"]
                + ["--raw-key-file", place.key],
            directory: place.folder.url.path
        ).finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        let mode = try FileManager.default.attributesOfItem(atPath: place.path("b"))[.posixPermissions] as? Int
        #expect(mode == 0o700)
    }

    @Test(
        "a name that is too long is refused as that, and leaves nothing",
        arguments: ["create", "import", "sql", "destroy"])
    func longName(command: String) throws {
        let name = String(repeating: "n", count: 250) + ".db"
        let before = try place.names()
        let words =
            switch command {
            case "import": ["import", place.path("plain.db"), place.path(name)]
            case "destroy": ["destroy", place.path(name), "--yes"]
            case "sql": ["sql", place.path(name), "SELECT 1"]
            default: [command, place.path(name)]
            }
        let outcome = try place.run(words + ["--json"] + (command == "destroy" ? [] : ["--raw-key-file", place.key]))
        if ["create", "import"].contains(command) {
            #expect(outcome.errorJSON["code"] as? String == "pathTooLong", "\(outcome.errors)")
        } else {
            #expect(outcome.errorJSON["errno"] as? Int == Int(ENAMETOOLONG), "\(outcome.errors)")
        }
        #expect(outcome.status == 64, "\(outcome.errors)")
        #expect(try place.names() == before)
    }

    @Test(
        "a database in memory is no store, and no lock file is made for it",
        arguments: [":memory:", "", "file::memory:"])
    func memory(path: String) throws {
        let before = try place.names()
        let outcome = try place.ctl("create", path, "--json")
        #expect(outcome.status == 64 && outcome.errorJSON["code"] as? String == "usage", "\(outcome.errors)")
        #expect(try place.names() == before)
    }
}
