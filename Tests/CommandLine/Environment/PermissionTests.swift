import Foundation
import Testing

/// A user that root can become.
private enum OtherUser {
    static let number = 65_534
    static var isPossible: Bool { geteuid() == 0 && SystemProgram.find("setpriv") != nil }
}

/// The answers to a user without the permission; run as root, which can become another user.
@Suite("cipherctl without permission", .enabled(if: OtherUser.isPossible, "needs root and setpriv"))
struct PermissionTests {
    private let place: Workplace
    init() throws {
        place = try Workplace()
        try place.makeStore(mode: "0644")
        // The folder and the key are open to the other user, the program is brought where he can run it.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: place.folder.url.path)
        try FileManager.default.setAttributes([.ownerAccountID: OtherUser.number], ofItemAtPath: place.key)
        try FileManager.default.copyItem(atPath: Workplace.program().path, toPath: place.path("cipherctl"))
    }

    /// The same key in a file of root's: root takes none that belongs to another user.
    private func ownKey() throws -> String {
        try place.copy("raw.key", to: "own.key")
        try FileManager.default.setAttributes([.ownerAccountID: 0], ofItemAtPath: place.path("own.key"))
        return place.path("own.key")
    }

    private func asNobody(_ arguments: [String], hasKey: Bool = true) throws -> CommandRun.Outcome {
        let user = [
            "--reuid=\(OtherUser.number)", "--regid=\(OtherUser.number)", "--clear-groups", place.path("cipherctl"),
        ]
        let options = (hasKey ? ["--raw-key-file", place.key] : []) + ["--json"]
        return try CommandRun(#require(SystemProgram.find("setpriv")), user + arguments + options).finish()
    }

    @Test("a store in a directory that one cannot write is read and verified")
    func reading() throws {
        let sql = try asNobody(["sql", place.path("s.db"), "SELECT count(*) AS n FROM t"])
        #expect(sql.output == "[\n{\"n\": 3000}\n]\n", "\(sql.errors)")
        #expect(try asNobody(["verify", place.path("s.db")]).status == 0)
        #expect(try asNobody(["status", place.path("s.db")]).status == 0)
    }

    // `doctor` ended with the error of `open`, and named no remedy.
    @Test("a sidecar that one may not read, in both copies, is a finding of doctor with its remedy")
    func sidecar() throws {
        for name in ["s.db-sidecar", "s.db-sidecar.bak"] { #expect(chmod(place.path(name), 0o600) == 0) }
        let doctor = try asNobody(["doctor", place.path("s.db")])
        let findings = doctor.json["findings"] as? [[String: Any]] ?? []
        let denied = findings.filter { $0["code"] as? String == "noAccess" }
        #expect(doctor.status == 2 && denied.count == 2, "\(doctor.output)\(doctor.errors)")
        #expect(denied.allSatisfy { ($0["remedy"] as? String)?.contains("chmod") == true }, "\(denied)")
    }

    // The remedy accused somebody: "find out who did it".
    @Test("a key log that one may not read was not checked, and needs no attention; a folder in its place does")
    func keyLog() throws {
        #expect(chmod(place.path("s.db-keylog"), 0o600) == 0)
        for command in ["status", "doctor"] {
            let outcome = try asNobody([command, place.path("s.db")])
            #expect(outcome.status == 0, "\(command): \(outcome.output) \(outcome.errors)")
        }
        let findings = try asNobody(["doctor", place.path("s.db")]).json["findings"] as? [[String: Any]] ?? []
        let unread = findings.first { $0["code"] as? String == "keyLogUnread" }
        #expect(unread?["severity"] as? String == "note", "\(findings)")
        try FileManager.default.moveItem(atPath: place.path("s.db-keylog"), toPath: place.path("log"))
        #expect(mkdir(place.path("s.db-keylog"), 0o755) == 0)
        let folder = try asNobody(["doctor", place.path("s.db")])
        #expect(folder.status == 2 && folder.output.contains("keyLogUnread"), "\(folder.output) \(folder.errors)")
    }

    @Test("writing, creating and importing there end with 77")
    func writing() throws {
        try place.makePlain("CREATE TABLE t (a)")
        let before = try place.names()
        #expect(try asNobody(["sql", place.path("s.db"), "DELETE FROM t", "--write"]).status == 77)
        #expect(try asNobody(["create", place.path("new.db")]).status == 77)
        #expect(try asNobody(["import", place.path("plain.db"), place.path("new.db")]).status == 77)
        #expect(try place.names() == before)
    }

    @Test("that a rotation cannot begin in a directory that one cannot write is told before")
    func rotating() throws {
        // The files of the store are the other user's, the directory is not.
        for name in try place.names() where name.hasPrefix("s.db") {
            try FileManager.default.setAttributes([.ownerAccountID: OtherUser.number], ofItemAtPath: place.path(name))
        }
        let looked = try asNobody(["rotate", place.path("s.db"), "--dry-run"])
        #expect(looked.status != 0 && looked.output.contains("may not write the directory"), "\(looked)")
        let rotated = try asNobody(["rotate", place.path("s.db"), "--no-backup"])
        #expect(rotated.status == 77, "\(rotated)")
    }

    @Test("a file that one cannot read ends with 77")
    func unreadable() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: place.path("s.db"))
        for command in [["sql", place.path("s.db"), "SELECT 1"], ["verify", place.path("s.db")]] {
            let outcome = try asNobody(command)
            #expect(outcome.status == 77, "\(outcome.errors)")
        }
    }

    @Test("a store that was made without --mode cannot be read by another user, nor can its sidecar")
    func ownerAlone() throws {
        #expect(try place.ctl("create", place.path("new.db"), key: ownKey()).status == 0)
        #expect(try asNobody(["sql", place.path("new.db"), "SELECT 1"]).status == 77)
        #expect(try asNobody(["key", "list", place.path("new.db")]).status == 77)
    }

    @Test("a store that was only created, and never used, can be read there already")
    func onlyCreated() throws {
        #expect(try place.ctl("create", place.path("new.db"), "--mode", "0644", key: ownKey()).status == 0)
        try #require(place.exists("new.db-wal") && place.exists("new.db-shm"))
        let outcome = try asNobody(["sql", place.path("new.db"), "SELECT 1 AS one"])
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    @Test("without -wal and -shm, and no right to make them, the error says who has to open the store once")
    func noLog() throws {
        for name in try place.names() where name.hasSuffix("-wal") || name.hasSuffix("-shm") { try place.remove(name) }
        let outcome = try asNobody(["sql", place.path("s.db"), "SELECT 1"])
        #expect(outcome.status == 77)
        #expect(outcome.errorJSON["code"] as? String == "walMissing")
    }

    // Story: another user's empty file ended every write for ever: the folder lets him alone remove it.
    @Test("an empty -rotating of another user in a folder as /tmp is reported, and blocks no write")
    func plantedCopy() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o1777], ofItemAtPath: place.folder.url.path)
        for name in try place.names() where name.hasPrefix("s.db") {
            try FileManager.default.setAttributes([.ownerAccountID: OtherUser.number], ofItemAtPath: place.path(name))
        }
        #expect(FileManager.default.createFile(atPath: place.path("s.db-rotating"), contents: Data()))
        #expect(chown(place.path("s.db-rotating"), 2, 2) == 0)
        let written = try asNobody(["sql", place.path("s.db"), "DELETE FROM t WHERE rowid = 1", "--write"])
        #expect(written.status == 0, "\(written.output) \(written.errors)")
        #expect(written.errors.contains("belongs to user 2"), "\(written.errors)")
        let backup = try asNobody(["backup", place.path("s.db"), place.path("backup")])
        #expect(backup.status == 0, "\(backup.errors)")
        // A rotation needs the name, and says before it begins whose file is there.
        for arguments in [["--dry-run"], ["--no-backup"]] {
            let rotated = try asNobody(["rotate", place.path("s.db")] + arguments)
            #expect(rotated.status != 0, "\(rotated)")
            #expect((rotated.output + rotated.errors).contains("belongs to user 2"), "\(rotated)")
        }
        // A member of the group may remove it where the folder permits that.
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: place.folder.url.path)
        #expect(try asNobody(["sql", place.path("s.db"), "DELETE FROM t WHERE rowid = 2", "--write"]).status == 0)
        #expect(!place.exists("s.db-rotating"))
    }

    // Story: the store was removed in parts, and the rest could neither be opened nor destroyed.
    @Test(
        "a store is not destroyed in parts because of a file of another user in a folder as /tmp",
        arguments: ["-notify", "-keylog.1", "-sidecar.damaged", "-restoring"])
    func plantedCompanion(_ ending: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o1777], ofItemAtPath: place.folder.url.path)
        for name in try place.names() where name.hasPrefix("s.db") {
            try FileManager.default.setAttributes([.ownerAccountID: OtherUser.number], ofItemAtPath: place.path(name))
        }
        let planted = place.path("s.db" + ending)
        try? FileManager.default.removeItem(atPath: planted)
        #expect(FileManager.default.createFile(atPath: planted, contents: Data()) && chown(planted, 2, 2) == 0)
        let before = try place.names()
        let refused = try asNobody(["destroy", place.path("s.db"), "--yes"], hasKey: false)
        #expect(refused.status == 64, "\(refused.errors)")
        #expect(refused.errors.contains("belongs to user 2"), "\(refused.errors)")
        #expect(try place.names() == before)
        try FileManager.default.removeItem(atPath: planted)
        #expect(try asNobody(["destroy", place.path("s.db"), "--yes"], hasKey: false).status == 0)
    }
}
