import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl destroy")
struct DestroyTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func destroy(_ more: String...) throws -> CommandRun.Outcome {
        try place.run(["destroy", place.path("s.db"), "--json"] + more)
    }

    /// Expects a refusal that changes nothing.
    private func expectRefusal(
        _ code: String, _ status: Int32, _ more: String..., at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = FolderSnapshot(of: place.folder)
        let outcome = try place.run(["destroy", place.path("s.db"), "--json", "--yes"] + more)
        #expect(outcome.status == status, "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errorJSON["code"] as? String == code, "\(outcome.errors)", sourceLocation: location)
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty, sourceLocation: location)
    }

    @Test("every file of a store is removed, the key log last, and a new one can be made there")
    func everything() throws {
        try place.write("", to: "s.db-rotating")
        try place.write("old", to: "s.db-sidecar.damaged")
        try place.write("old", to: "s.db-sidecar.tmp-99999999-0123abcd")
        try place.write("other", to: "s.db.bak")
        let outcome = try destroy("--yes")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try place.names() == ["raw.key", "s.db.bak"])
        let removed = try #require(outcome.json["removed"] as? [String])
        #expect(removed.first?.hasSuffix("/s.db") == true && removed.last?.hasSuffix("/s.db-keylog") == true)
        #expect(removed.count == 9, "\(removed)")
        #expect(try place.ctl("create", place.path("s.db")).status == 0)
        #expect(try place.events() == ["store-created"])
    }

    /// It was removed with exit code 0, and the report did not name it.
    @Test(
        "a file with the name of a database that is being destroyed is no database: it stays, with or without a store",
        arguments: [true, false])
    func foreignDestroying(hasCompanions: Bool) throws {
        try place.remove("s.db")
        if !hasCompanions {
            for name in try place.names() where name != "raw.key" { try place.remove(name) }
        }
        try place.write("the notes of somebody\n", to: "s.db-destroying")
        try expectRefusal("notEncrypted", 65)
        try place.makePlain("CREATE TABLE t (a)")
        try place.copy("plain.db", to: "s.db-destroying")
        try expectRefusal("notEncrypted", 65)
    }

    @Test("the database that an interrupted destruction left is removed, and named")
    func ownDestroying() throws {
        try FileManager.default.moveItem(atPath: place.path("s.db"), toPath: place.path("s.db-destroying"))
        let outcome = try destroy("--yes")
        #expect(outcome.status == 0, "\(outcome.errors)")
        let removed = try #require(outcome.json["removed"] as? [String])
        #expect(removed.contains { $0.hasSuffix("/s.db-destroying") }, "\(removed)")
        #expect(try place.names() == ["raw.key"])
    }

    @Test("without --yes and a terminal nothing happens; no key is asked for")
    func confirmation() throws {
        let before = FolderSnapshot(of: place.folder)
        let outcome = try destroy()
        #expect(outcome.status == 64 && outcome.errors.contains("--yes"), "\(outcome.errors)")
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
        #expect(try place.ctl("destroy", place.path("s.db"), "--yes").status == 64)
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
    }

    @Test("a store that a process has open is not destroyed, and the process is named")
    func open() throws {
        let store = try SharedStore.open(at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key))
        let outcome = try destroy("--yes")
        #expect(outcome.status == 69 && outcome.errors.contains("process \(getpid()) "), "\(outcome.errors)")
        let error = #expect(throws: StoreError.self) { try SharedStore.destroy(at: place.path("s.db")) }
        #expect(error?.code == .storeInUse)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 3000)
        try store.close()
        #expect(try destroy("--yes").status == 0)
        #expect(try place.names() == ["raw.key"])
    }

    @Test("nor one that a stock shell has open", .enabled(if: RevealTests.hasShell))
    func stranger() throws {
        let pragmas = try place.ctl("key", "reveal", place.path("s.db")).output
        try place.write(pragmas + "SELECT count(*) FROM t;\n.shell touch ready; cat fifo\n", to: "init.sql")
        #expect(mkfifo(place.path("fifo"), 0o600) == 0)
        let shell = try CommandRun(
            #require(SystemProgram.find("sqlcipher")),
            ["-batch", "-init", place.path("init.sql"), place.path("s.db"), ""],
            directory: place.folder.url.path)
        defer {
            shell.send(SIGKILL)
            // A program that the shell started lives on without it, and Foundation does not collect the shell
            // meanwhile: Swift Testing would then wait for ever for the next test that runs in a process of its own.
            try? FileHandle(forWritingAtPath: place.path("fifo"))?.close()
            _ = shell.finish()
        }
        try #require(waitUntil { place.exists("ready") })
        let outcome = try destroy("--yes")
        #expect(outcome.status == 69, "\(outcome.errors)")
        #expect(outcome.errors.contains("process \(shell.processIdentifier) "), "\(outcome.errors)")
        #expect(place.exists("s.db") && place.exists("s.db-sidecar"))
    }

    @Test("what is no store, or not alone, is left as it is")
    func foreign() throws {
        try place.copy("s.db", to: "whole")
        try place.makePlain("CREATE TABLE t (a)")
        try place.copy("plain.db", to: "s.db")
        try expectRefusal("notEncrypted", 65)
        try place.write(String(repeating: "no store ", count: 2000), to: "s.db")
        try expectRefusal("notEncrypted", 65)
        try place.copy("whole", to: "s.db")
        try FileManager.default.linkItem(atPath: place.path("s.db"), toPath: place.path("second"))
        try expectRefusal("hardLinked", 78)
        try place.remove("second")
        try FileManager.default.createSymbolicLink(atPath: place.path("s.db-rotated"), withDestinationPath: "s.db")
        let link = try place.run(["destroy", place.path("s.db-rotated"), "--json", "--yes"])
        #expect(link.status == 66 && link.errors.contains("symbolic link"), "\(link.errors)")
        try place.copy("s.db-sidecar", to: "saved")
        try place.remove("s.db-sidecar")
        try FileManager.default.createSymbolicLink(atPath: place.path("s.db-sidecar"), withDestinationPath: "saved")
        try expectRefusal("alreadyExists", 64)
        try place.remove("s.db-sidecar", "s.db-sidecar.bak")
        try expectRefusal("saltMissing", 65)
        try place.write("nonsense", to: "s.db-sidecar")
        try expectRefusal("sidecarDamaged", 65)
    }

    /// It removed the database and the sidecar, and left a folder that nothing can be restored from.
    @Test("the database of a backup is left as it is, also by way of a link, and when it is not there any more")
    func backup() throws {
        #expect(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        try FileManager.default.createSymbolicLink(atPath: place.path("link"), withDestinationPath: "b/store.db")
        let names = try FileManager.default.contentsOfDirectory(atPath: place.path("b")).sorted()
        for way in ["b/store.db", "link"] { try expectBackup(way, names) }
        #expect(try place.ctl("verify", place.path("b")).status == 0)
        try place.remove("b/store.db")
        try expectBackup("b/store.db", names.filter { $0 != "store.db" })
    }

    private func expectBackup(_ path: String, _ names: [String]) throws {
        let outcome = try place.run(["destroy", place.path(path), "--json", "--yes"])
        #expect(outcome.status == 77 && outcome.errorJSON["code"] as? String == "backupReadOnly", "\(outcome.errors)")
        #expect(outcome.errors.contains("remove the folder"), "\(outcome.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.path("b")).sorted() == names)
    }

    /// `FileCoordinator` makes a lock file beside any database. One that was moved away for a moment lost the commits in its
    /// log, which had stayed.
    @Test("a lock file alone is no store: the log of a database that was moved away stays")
    func loneLock() throws {
        for name in ["s.db", "s.db-sidecar", "s.db-sidecar.bak", "s.db-keylog"] { try place.remove(name) }
        try place.write("commits", to: "s.db-wal")
        try place.write("other", to: "s.db-journal")
        let others = ["", "another program's"]
        for content in others {
            try place.copy("s.db-lock", to: "saved")
            try place.write(content, to: "s.db-lock")
            try expectRefusal("noSuchStore", 66)
            try place.copy("saved", to: "s.db-lock")
            try place.remove("saved")
        }
        // The library's own goes, and nothing else.
        let outcome = try destroy("--yes")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect((outcome.json["removed"] as? [String])?.map { ($0 as NSString).lastPathComponent } == ["s.db-lock"])
        #expect(try String(contentsOfFile: place.path("s.db-wal"), encoding: .utf8) == "commits")
        #expect(try String(contentsOfFile: place.path("s.db-journal"), encoding: .utf8) == "other")
        #expect(!place.exists("s.db-lock"))
    }

    /// Following the advice to complete the destruction removed the store that had been put there since.
    @Test("where a store lies beside the database of an interrupted destruction, every command says which is which")
    func twoDatabases() throws {
        try place.write("former", to: "s.db-destroying")
        #expect(try place.ctl("sql", place.path("s.db"), "SELECT count(*) FROM t").output.contains("3000"))
        try expectRefusal("alreadyExists", 64)
        let doctor = try place.ctl("doctor", place.path("s.db"), "--json")
        #expect(doctor.output.contains("destructionInterrupted"), "\(doctor.output)")
        #expect(doctor.output.contains("move \\\"s.db-destroying\\\" away"), "\(doctor.output)")
        #expect(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let before = FolderSnapshot(of: place.folder)
        let restored = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes", "--json")
        #expect(restored.status == 64, "\(restored.errors)")
        #expect(restored.errorJSON["code"] as? String == "alreadyExists")
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
        try place.remove("s.db-destroying")
        #expect(try destroy("--yes").status == 0)
        #expect(try place.names() == ["raw.key", "b"])
    }

    @Test("where there is nothing, or a directory, there is no store to destroy, and no lock file is made")
    func nothing() throws {
        let before = try place.names()
        for name in ["none.db", "none/s.db", "."] {
            let outcome = try place.run(["destroy", place.path(name), "--json", "--yes"])
            #expect(outcome.status == 66, "\(name): \(outcome.errors)")
        }
        #expect(try place.names() == before)
    }

    @Test("what somebody left who removed the database alone is removed as well")
    func remains() throws {
        try place.remove("s.db")
        let opened = try place.ctl("sql", place.path("s.db"), "SELECT 1", "--json")
        #expect(opened.status == 65 && opened.errorJSON["code"] as? String == "databaseMissing", "\(opened.errors)")
        #expect(try destroy("--yes").status == 0)
        #expect(try place.names() == ["raw.key"])
        #expect(try destroy("--yes").status == 66)
    }

    @Test("former files of a restoration are kept, and named")
    func former() throws {
        #expect(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let restored = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        #expect(restored.status == 0, "\(restored.errors)")
        let outcome = try destroy("--yes")
        #expect(outcome.status == 0)
        let kept = try #require(try place.names().first { $0.hasPrefix("s.db-replaced-") })
        #expect((outcome.json["notices"] as? [String])?.contains { $0.contains(kept) } == true)
        #expect(try place.names() == ["raw.key", "b", kept])
    }

    // `destroy s.db` removed the store whose name is that of a sidecar, and `create s.db` recommended it.
    @Test(
        "a store with the name of another store's file is not destroyed in the place of that one",
        arguments: ["-sidecar", "-sidecar.bak", "-destroying", "-wal", "-rotating", "-keylog"])
    func ownedStore(suffix: String) throws {
        let place = try Workplace()
        let other = place.path("o.db" + suffix)
        #expect(try place.ctl("create", other).status == 0)
        for command in [["create"], ["destroy", "--yes"]] {
            let key = command[0] == "create" ? ["--raw-key-file", place.key] : []
            let outcome = try place.run([command[0], place.path("o.db")] + command.dropFirst() + key)
            #expect(outcome.status != 0 && !outcome.errors.contains("cipherctl destroy"), "\(outcome.errors)")
        }
        #expect(try place.ctl("verify", other).status == 0)
    }
}
