import CipherStore
import Foundation
import TestKit
import Testing

/// A backup is looked into where it lies. The story: `sql` and `verify` on the `store.db` of a backup left `-wal`,
/// `-shm` and `-lock` in it, `sql --write` changed it so that it could not be restored, and on a read-only medium
/// nothing worked at all.
@Suite("cipherctl on a backup where it lies")
struct ReadBackupTests {
    private let place: Workplace
    private var bundle: String { place.path("b") }

    init() throws {
        place = try Workplace()
        try place.makeBackup()
    }

    private static let count = "SELECT count(*) AS n FROM t"
    private static let rows = "[\n{\"n\": 3000}\n]\n"

    /// Names and bytes of the backup.
    private func content() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: bundle)
        return try Dictionary(
            uniqueKeysWithValues: names.map { ($0, try Data(contentsOf: URL(fileURLWithPath: "\(bundle)/\($0)"))) })
    }

    @Test(
        "reading it adds and changes nothing, by the name of its folder and of its database",
        arguments: ["", "/store.db"])
    func reading(_ name: String) throws {
        let before = try content()
        let sql = try place.ctl("sql", bundle + name, Self.count, "--json")
        #expect(sql.output == Self.rows && sql.errors.isEmpty, "\(sql.errors)")
        let verified = try place.ctl("verify", bundle + name, "--json")
        #expect(verified.status == 0 && verified.json["sound"] as? Bool == true, "\(verified.errors)")
        #expect(verified.errors.isEmpty, "\(verified.errors)")
        let hash = try place.ctl("hash", bundle + name, "--json")
        #expect(hash.json["content_hash"] as? String != nil, "\(hash.errors)")
        let original = try place.ctl("hash", place.path("s.db"), "--json")
        #expect(hash.json["content_hash"] as? String == original.json["content_hash"] as? String)
        #expect(try place.ctl("export", bundle + name, place.path("plain.db"), "--insecure-plaintext").status == 0)
        #expect(try content() == before)
    }

    @Test("status, doctor and the key commands that only look leave it alone, too")
    func looking() throws {
        let before = try content()
        let database = bundle + "/store.db"
        let status = try place.ctl("status", database)
        #expect(status.status == 0 && status.output.contains("backup       "), "\(status.output)")
        for command in [["key", "list"], ["key", "test"], ["doctor"]] {
            let outcome = try place.run(command + [database, "--raw-key-file", place.key])
            #expect(outcome.status == 0 || command == ["doctor"], "\(command): \(outcome.errors)")
        }
        #expect(try content() == before)
    }

    // `status`, `doctor` and the commands of keys said "The path names a directory", where `sql` and `verify` read it.
    @Test(
        "every command that only looks takes the folder of a backup as it takes the database in it",
        arguments: [
            ["status"], ["status", "--no-key"], ["status", "--openmetrics"], ["doctor"], ["doctor", "--no-key"],
            ["key", "list"], ["key", "list", "--no-key"], ["key", "test"], ["key", "log"], ["key", "reveal", "--yes"],
            ["rotate", "--status"], ["history"], ["history", "readers"], ["conformance"], ["verify"], ["hash"], ["sql"],
            ["sync", "status"], ["sync", "log"],
        ])
    func folder(_ words: [String]) throws {
        let before = try content()
        func run(_ path: String) throws -> CommandRun.Outcome {
            let isKeyless = words.contains("--no-key") || words == ["key", "log"] || words == ["rotate", "--status"]
            let rest = words == ["sql"] ? [Self.count] : []
            let shown = words.filter { words != ["key", "list", "--no-key"] || $0 != "--no-key" }
            return try place.run(shown + [path] + rest + (isKeyless ? [] : ["--raw-key-file", place.key]))
        }
        let (folder, database) = (try run(bundle), try run(bundle + "/store.db"))
        #expect(folder.status == database.status, "\(folder.errors)")
        #expect(!folder.errors.contains("directory"), "\(folder.errors)")
        let isLooking = !["doctor", "conformance", "history", "sync"].contains(words[0])
        if isLooking { #expect(folder.status == 0 && folder.errors == database.errors, "\(folder.errors)") }
        #expect(try content() == before)
    }

    @Test(
        "whatever would write it is refused, and leaves it as it is",
        arguments: [
            ["sql", "BACKUP", "DELETE FROM t", "--write"], ["rotate", "BACKUP", "--no-backup"],
            ["sql", "FOLDER", "DELETE FROM t", "--write"], ["rotate", "FOLDER", "--no-backup"],
            ["backup", "FOLDER", "OTHER"], ["key", "add", "FOLDER", "--new-raw-key-file", "NEW"],
            ["key", "label", "FOLDER", "--slot", "1", "--label", "x"], ["key", "recovery", "FOLDER"],
            ["key", "accept", "FOLDER", "--yes"], ["history", "record", "FOLDER", "--all"],
            ["sync", "init", "FOLDER", "--all-tables"], ["sync", "commit", "FOLDER"],
            ["backup", "BACKUP", "OTHER"], ["key", "add", "BACKUP", "--new-raw-key-file", "NEW"],
            ["key", "change", "BACKUP", "--new-raw-key-file", "NEW"],
            ["restore", "OTHERBACKUP", "BACKUP", "--replace", "--yes"],
        ])
    func writing(_ words: [String]) throws {
        try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("new.key"))
        try FileManager.default.copyItem(atPath: bundle, toPath: place.path("b2"))
        let names = [
            "BACKUP": bundle + "/store.db", "FOLDER": bundle, "OTHER": place.path("c"), "NEW": place.path("new.key"),
            "OTHERBACKUP": place.path("b2"),
        ]
        let before = try content()
        let outcome = try place.run(words.map { names[$0] ?? $0 } + ["--raw-key-file", place.key, "--json"])
        #expect(outcome.status == 77, "\(outcome.errors)")
        #expect(outcome.errors.contains("\"code\": \"backupReadOnly\""), "\(outcome.errors)")
        #expect(outcome.errors.contains("cipherctl restore"), "\(outcome.errors)")
        #expect(try content() == before)
        #expect(try place.ctl("restore", bundle, place.path("r.db")).status == 0)
    }

    // Story: with a pipe in the place of the manifest, `sql --write` wrote into the backup.
    @Test("it is not written either where something that cannot be read has the name of its manifest")
    func plantedManifest() throws {
        let manifest = bundle + "/manifest.json"
        let plants: [(String) throws -> Void] = [
            { try #require(mkfifo($0, 0o600) == 0) },
            { try FileManager.default.createDirectory(atPath: $0, withIntermediateDirectories: false) },
            { try FileManager.default.createSymbolicLink(atPath: $0, withDestinationPath: "nowhere") },
        ]
        for plant in plants {
            try FileManager.default.removeItem(atPath: manifest)
            try plant(manifest)
            let outcome = try place.run([
                "sql", bundle + "/store.db", "DELETE FROM t", "--write", "--raw-key-file", place.key, "--json",
            ])
            #expect(outcome.status == 77 && outcome.errors.contains("backupReadOnly"), "\(outcome.errors)")
        }
    }

    @Test("a statement that would write it says that a backup is never written")
    func writingStatement() throws {
        let before = try content()
        let outcome = try place.ctl("sql", bundle, "DELETE FROM t")
        #expect(outcome.status == 77 && outcome.errors.contains("which is never written"), "\(outcome.errors)")
        #expect(try content() == before)
    }

    /// Uses the database of the backup as a store, with its manifest away, and puts that back.
    ///
    /// - Returns: The folder with its files while the store was open.
    private func useAsStore(_ sql: String) throws -> String {
        let manifest = bundle + "/manifest.json"
        try FileManager.default.moveItem(atPath: manifest, toPath: place.path("kept"))
        let store = try SharedStore.open(at: bundle + "/store.db", unlockedBy: .rawKeyFile(path: place.key))
        try store.write { try $0.execute(sql: sql) }
        try FileManager.default.copyItem(atPath: bundle, toPath: place.path("live"))
        _ = try store.checkpoint(.truncate)
        try store.close()
        try FileManager.default.copyItem(atPath: place.path("kept"), toPath: place.path("live/manifest.json"))
        try FileManager.default.moveItem(atPath: place.path("kept"), toPath: manifest)
        return place.path("live")
    }

    private func expectChanged(_ words: [String]) throws {
        let outcome = try place.run(words + ["--raw-key-file", place.key, "--json"])
        #expect(outcome.status == 65, "\(words): \(outcome.errors)")
        #expect(outcome.errorJSON["code"] as? String == "backupDamaged", "\(words): \(outcome.errors)")
        #expect(outcome.errors.contains("was changed since the backup was made"), "\(words): \(outcome.errors)")
    }

    // A store that was used where its backup lay was locked out: it could not be written, `restore` said that the backup was
    // damaged, and reading it showed the rows without those of its log.
    @Test(
        "a backup that was used as a store is read as it was made, with a note; with the manifest away it is that store"
    )
    func usedWithLog() throws {
        let live = try useAsStore("DELETE FROM t WHERE id > 10")
        try #require(place.bytes("live/store.db-wal").count > 4096)
        try expectChanged(["sql", live + "/store.db", "SELECT 1", "--write"])
        let sql = try place.ctl("sql", live, Self.count, "--json")
        #expect(sql.output == Self.rows && sql.errors.contains("store.db-wal"), "\(sql.errors)")
        #expect(sql.errors.contains("manifest.json"), "\(sql.errors)")
        #expect(try place.ctl("backup", "verify", live).status == 2)
        #expect(try place.ctl("restore", live, place.path("r.db")).status == 0)
        try place.remove("live/manifest.json")
        let store = try place.ctl("sql", live + "/store.db", Self.count, "--json")
        #expect(store.output == "[\n{\"n\": 10}\n]\n", "\(store.errors)")
    }

    @Test("a backup that was used as a store and has another length is named as one, with the way out")
    func usedAndLonger() throws {
        _ = try useAsStore("INSERT INTO t (text) SELECT text || text FROM t")
        let log = place.exists("b/store.db-wal") ? try place.bytes("b/store.db-wal") : []
        try #require(log.isEmpty)
        try expectChanged(["sql", bundle, Self.count])
        try expectChanged(["sql", bundle + "/store.db", "SELECT 1", "--write"])
        try place.remove("b/manifest.json")
        let store = try place.ctl("sql", bundle + "/store.db", Self.count, "--write", "--json")
        #expect(store.output == "[\n{\"n\": 6000}\n]\n", "\(store.errors)")
    }

    // `key reveal` and `key log --acknowledge` put store.db-lock and store.db-keylog into the backup, and status and doctor
    // called it a risk that there was no key log.
    @Test("commands that log in a store do not in a backup, and no key log is missed there")
    func keyLog() throws {
        let before = try content()
        let database = bundle + "/store.db"
        let revealed = try place.ctl("key", "reveal", database, "--output", place.path("open.sql"))
        #expect(revealed.status == 0 && revealed.errors.isEmpty, "\(revealed.errors)")
        let acknowledged = try place.run(["key", "log", database, "--acknowledge", "--json"])
        #expect(acknowledged.errorJSON["code"] as? String == "backupReadOnly", "\(acknowledged.errors)")
        for command in ["status", "doctor"] {
            let outcome = try place.ctl(command, database, "--json")
            #expect(!outcome.output.contains("\"keyLogMissing\""), "\(command): \(outcome.output)")
            #expect(command == "doctor" || outcome.status == 0, "\(outcome.errors)")
        }
        #expect(try content() == before)
    }

    @Test("a backup whose files have second names, as in a collection of hard links, is read and restored")
    func hardLinks() throws {
        try FileManager.default.createDirectory(atPath: place.path("links"), withIntermediateDirectories: false)
        for name in try content().keys {
            try FileManager.default.linkItem(atPath: "\(bundle)/\(name)", toPath: place.path("links/\(name)"))
        }
        let sql = try place.ctl("sql", place.path("links"), Self.count, "--json")
        #expect(sql.output == Self.rows, "\(sql.errors)")
        #expect(try place.ctl("backup", "verify", place.path("links")).status == 0)
        #expect(try place.ctl("restore", place.path("links"), place.path("r.db")).status == 0)
    }

    // MARK: Where nobody can write

    @Test(
        "on a read-only medium it is read, verified and restored from",
        .enabled(if: ReadOnlyMount.isPossible, "needs the right to mount"))
    func readOnlyMount() throws {
        let mount = try ReadOnlyMount(of: bundle)
        try expectReadable(mount.folder.url.path) { try place.run($0 + ["--raw-key-file", place.key, "--json"]) }
        let restored = try place.ctl("restore", mount.folder.url.path, place.path("r.db"))
        #expect(restored.status == 0, "\(restored.errors)")
    }

    @Test(
        "a user who may only read it reads and verifies it",
        .enabled(if: geteuid() == 0 && SystemProgram.find("setpriv") != nil, "needs root and setpriv"))
    func otherUser() throws {
        let user = 65_534
        let files = FileManager.default
        try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: place.folder.url.path)
        try files.setAttributes([.posixPermissions: 0o555], ofItemAtPath: bundle)
        for name in try files.contentsOfDirectory(atPath: bundle) {
            try files.setAttributes([.posixPermissions: 0o444], ofItemAtPath: "\(bundle)/\(name)")
        }
        try files.setAttributes([.ownerAccountID: user], ofItemAtPath: place.key)
        try files.copyItem(atPath: Workplace.program().path, toPath: place.path("cipherctl"))
        let program = try #require(SystemProgram.find("setpriv"))
        let prefix = ["--reuid=\(user)", "--regid=\(user)", "--clear-groups", place.path("cipherctl")]
        try expectReadable(bundle) {
            try CommandRun(program, prefix + $0 + ["--raw-key-file", place.key, "--json"]).finish()
        }
    }

    private func expectReadable(_ folder: String, _ run: ([String]) throws -> CommandRun.Outcome) throws {
        let before = try content()
        let sql = try run(["sql", folder, Self.count])
        #expect(sql.output == Self.rows, "\(sql.errors)")
        for command in [["verify", folder], ["verify", folder + "/store.db"], ["backup", "verify", folder]] {
            let outcome = try run(command)
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
        }
        #expect(try content() == before)
    }

    // MARK: backup verify

    @Test("`backup verify` proves manifest, pages and key, and changes nothing")
    func verifies() throws {
        let before = try content()
        let outcome = try place.ctl("backup", "verify", bundle, "--json")
        try #require(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.json["verified"] as? Bool == true && outcome.json["backup"] as? String == bundle)
        let pages = outcome.json["pages"] as? Int ?? 0
        #expect(pages > 50 && outcome.json["bytes"] as? Int == pages * 4096)
        let lines = try place.ctl("backup", "verify", bundle)
        #expect(lines.output.hasPrefix("verified     \(bundle)\n"), "\(lines.output)")
        #expect(try content() == before)
    }

    @Test(
        "`backup verify` names what is wrong with a backup",
        arguments: ["key", "page", "hash", "manifest", "sidecar", "short", "missing", "none"])
    func refuses(_ damage: String) throws {
        let other = place.path("other.key")
        try Workplace.write([UInt8](repeating: 1, count: 32), to: other)
        var expected: (status: Int32, code: String) = (65, "backupDamaged")
        switch damage {
        case "key": expected = (77, "wrongKey")
        case "page": try place.flip("b/store.db", at: 9000)
        // The header's change counter: not authenticated, so only the hash tells.
        case "hash": try place.flip("b/store.db", at: 24)
        case "manifest": try place.flip("b/manifest.json", at: 80)
        case "sidecar": try place.flip("b/store.db-sidecar", at: 100)
        case "short": try place.truncate("b/store.db", to: 4096)
        case "missing": try place.remove("b/store.db-sidecar")
        default: expected = (66, "noSuchStore")
        }
        let folder = damage == "none" ? place.path("nowhere") : bundle
        let outcome = try place.ctl("backup", "verify", folder, "--json", key: damage == "key" ? other : nil)
        #expect(outcome.status == expected.status, "\(damage): \(outcome.errors)")
        #expect(outcome.errorJSON["code"] as? String == expected.code, "\(damage): \(outcome.errors)")
    }

    @Test("a store that is called verify is backed up by its path")
    func storeCalledVerify() throws {
        try place.makeStore("verify")
        let outcome = try place.ctl("backup", "./verify", place.path("v"))
        #expect(outcome.status == 0, "\(outcome.errors)")
    }
}
