import CipherStore
import Foundation
import StoreTools
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl doctor")
struct DoctorTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func doctor(_ more: String...) throws -> CommandRun.Outcome {
        try place.run(["doctor", place.path("s.db"), "--json"] + more)
    }

    private func withKey() throws -> CommandRun.Outcome { try doctor("--raw-key-file", place.key) }

    /// The findings, as severity and code.
    private func findings(_ outcome: CommandRun.Outcome) -> Set<String> {
        let all = outcome.json["findings"] as? [[String: Any]] ?? []
        return Set(all.map { "\($0["severity"] as? String ?? "?") \($0["code"] as? String ?? "?")" })
    }

    private func serious(_ outcome: CommandRun.Outcome) -> Set<String> {
        findings(outcome).filter { !$0.hasPrefix("note ") }
    }

    private func expect(
        _ finding: String, key: Bool = true, at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = FolderSnapshot(of: place.folder)
        let outcome = try key ? withKey() : doctor("--no-key")
        #expect(outcome.status == 2, "\(outcome.output)\(outcome.errors)", sourceLocation: location)
        #expect(serious(outcome).contains(finding), "\(outcome.output)", sourceLocation: location)
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty, sourceLocation: location)
    }

    private func chmod(_ name: String, _ mode: Int) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: place.path(name))
    }

    /// `status` and `doctor` waited for a writer of the pipe.
    @Test("a pipe in the place of the lock file is named, and keeps nobody waiting")
    func pipeAsLock() throws {
        let lock = place.path("s.db-lock")
        try? FileManager.default.removeItem(atPath: lock)
        try #require(mkfifo(lock, 0o600) == 0)
        let outcome = try withKey()
        #expect(outcome.status == 2 && outcome.output.contains("not a regular file"), "\(outcome.output)")
        let status = try place.ctl("status", place.path("s.db"))
        #expect(status.status == 2 && status.output.contains("not a regular file"), "\(status.output)")
    }

    #if os(Linux)
        @Test("a lease on a file of the store is named", arguments: ["s.db-lock", "s.db-sidecar"])
        func lease(name: String) throws {
            _ = signal(SIGIO, SIG_IGN)
            let holder = open(place.path(name), O_RDWR)
            defer { close(holder) }
            // F_SETLEASE, which Swift does not import.
            try #require(fcntl(holder, 1024, F_WRLCK) == 0)
            let outcome = try doctor("--no-key")
            #expect(outcome.status == 2 && outcome.output.contains("has a lease on"), "\(outcome.output)")
            // Its advice was to move the file away.
            #expect(!outcome.output.contains("check the disk"), "\(outcome.output)")
        }
    #endif

    @Test("a sound store needs no attention, with its key and without")
    func sound() throws {
        for outcome in [try withKey(), try doctor("--no-key")] {
            #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
            #expect(outcome.json["needs_attention"] as? Bool == false)
            #expect(serious(outcome).isEmpty)
        }
        #expect(try withKey().json["authenticated"] as? Bool == true)
        let text = try place.run(["doctor", place.path("s.db"), "--no-key"])
        #expect(text.output.hasSuffix("result   nothing needs attention (nothing was authenticated)\n"))
    }

    @Test(
        "files that every user may write are a risk, and the remedy names the command",
        arguments: ["s.db", "s.db-sidecar"])
    func permissions(_ name: String) throws {
        try chmod(name, 0o666)
        try expect("risk othersMayWrite", key: false)
        #expect(try doctor("--no-key").output.contains("chmod o-w '\(place.path(name))'"))
        try chmod(name, 0o640)
        #expect(try doctor("--no-key").status == 0)
    }

    @Test("a file that lets in more users than the database does is named, with the mode that it should have")
    func wider() throws {
        try chmod("s.db-sidecar.bak", 0o644)
        try expect("risk widerThanDatabase", key: false)
        #expect(try doctor("--no-key").output.contains("chmod 600 '\(place.path("s.db-sidecar.bak"))'"))
        try chmod("s.db", 0o644)
        #expect(try doctor("--no-key").status == 0)
    }

    @Test("a directory in which every user may replace files is a risk, unless it is sticky")
    func directory() throws {
        try chmod("", 0o777)
        try expect("risk othersMayReplace", key: false)
        try chmod("", 0o1777)
        #expect(try doctor("--no-key").status == 0)
    }

    @Test("a directory in which a group may replace files is named, and is a risk unless the group may write the store")
    func groupDirectory() throws {
        try chmod("", 0o2770)
        try expect("risk groupMayReplace", key: false)
        for name in try place.names() where name.hasPrefix("s.db") { try chmod(name, 0o660) }
        let shared = try doctor("--no-key")
        #expect(shared.status == 0 && findings(shared).contains("note groupMayReplace"), "\(shared.output)")
        try chmod("", 0o3770)
        let sticky = try doctor("--no-key")
        #expect(sticky.status == 0 && !sticky.output.contains("groupMayReplace"), "\(sticky.output)")
    }

    @Test(
        "what has a name of the store's own and another kind is named as planted",
        arguments: [
            "link s.db-notify", "pipe s.db-restoring", "folder s.db-destroying", "link s.db-sidecar.bak",
            "link s.db.importing-1-deadbeef", "pipe s.db.exporting-1-deadbeef", "link s.db-replaced-x",
            "shared s.db-replaced-x", "shared s.db.adopting-1-deadbeef", "link s.db-sidecar.tmp-1-deadbeef",
            "link s.db.sqlcipher3", "link s.db-keylog.1",
            "link s.db-sidecar", "dangling s.db-sidecar.bak",
        ])
    func planted(_ entry: String) throws {
        let parts = entry.split(separator: " ").map(String.init)
        let (kind, name) = (parts[0], place.path(parts[1]))
        let manager = FileManager.default
        switch kind {
        case "link":
            try place.write("x", to: "elsewhere")
            if place.exists(parts[1]) {
                try place.remove("elsewhere")
                try manager.moveItem(atPath: name, toPath: place.path("elsewhere"))
            }
            try manager.createSymbolicLink(atPath: name, withDestinationPath: place.path("elsewhere"))
        case "dangling":
            try manager.removeItem(atPath: name)
            try manager.createSymbolicLink(atPath: name, withDestinationPath: place.path("nowhere"))
        case "pipe": try #require(mkfifo(name, 0o600) == 0)
        default:
            try manager.createDirectory(atPath: name, withIntermediateDirectories: false)
            try chmod(parts[1], kind == "shared" ? 0o777 : 0o700)
        }
        try expect("risk planted", key: false)
        let outcome = try doctor("--no-key")
        #expect(outcome.output.contains(parts[1]) && !outcome.output.contains("unfinishedWork"), "\(outcome.output)")
    }

    @Test("a key file that others may read is a problem, and the rest is looked at all the same")
    func keyFile() throws {
        try chmod("raw.key", 0o644)
        try expect("problem keyFileShared")
        try place.remove("s.db-sidecar.bak")
        let outcome = try withKey()
        #expect(serious(outcome) == ["problem keyFileShared", "problem attention"])
        #expect(outcome.output.contains("backup copy of the sidecar is missing"))
    }

    @Test("a wrong key, a forged sidecar and a missing one are problems")
    func sidecar() throws {
        let other = place.path("other.key")
        try Workplace.write([UInt8](repeating: 1, count: 32), to: other)
        #expect(try serious(doctor("--raw-key-file", other)) == ["problem wrongKey"])
        for name in ["s.db-sidecar", "s.db-sidecar.bak"] {
            let text = String(decoding: try place.bytes(name), as: UTF8.self)
            try place.remove(name)
            try place.write(text.replacing("\"epoch\":1", with: "\"epoch\":2"), to: name)
        }
        try expect("problem sidecarForged")
        try place.remove("s.db-sidecar", "s.db-sidecar.bak")
        try expect("problem sidecarMissing", key: false)
    }

    @Test("nothing is concluded from a sidecar that is forged")
    func forgedClaims() throws {
        // Story: "an adoption was interrupted", and "69 pages are missing: restore the store from a backup".
        let texts = try ["s.db-sidecar", "s.db-sidecar.bak"].map { name in
            (name, String(decoding: try place.bytes(name), as: UTF8.self))
        }
        for (claim, forged) in [("\"ready\"", "\"creating\""), ("\"page_bytes\":4096", "\"page_bytes\":8192")] {
            for (name, text) in texts {
                try #require(text.contains(claim))
                try place.remove(name)
                try place.write(text.replacing(claim, with: forged), to: name)
            }
            let outcome = try withKey()
            #expect(serious(outcome) == ["problem sidecarForged"], "\(claim): \(outcome.output)")
        }
    }

    @Test("a link in the place of the WAL, which SQLite does not follow, is no regular file")
    func linkAsWAL() throws {
        let wal = place.path("s.db-wal")
        try? FileManager.default.removeItem(atPath: wal)
        try place.write("", to: "elsewhere")
        try FileManager.default.createSymbolicLink(atPath: wal, withDestinationPath: place.path("elsewhere"))
        try expect("problem notRegular")
        #expect(try place.ctl("status", place.path("s.db")).status == 2)
    }

    @Test("a damaged header and a damaged first page are problems")
    func damage() throws {
        try place.flip("s.db", at: 1000)
        try expect("problem attention")
        try place.poke("s.db", at: 20, [0])
        try expect("problem attention", key: false)
    }

    @Test(
        "files that were left behind are risks",
        arguments: [
            ("s.db-sidecar.damaged", "risk damagedCopy"), ("s.db-sidecar.tmp-1-0123abcd", "risk temporaryFile"),
            ("s.db-journal", "risk journal"),
        ])
    func strays(_ name: String, _ finding: String) throws {
        try place.write("left", to: name)
        try expect(finding, key: false)
        try place.remove(name)
        #expect(try doctor("--no-key").status == 0)
    }

    // The remedy was a restoration that ends with 64, or, with --replace, replaces a store that is in order.
    @Test("the copy of a killed restoration beside a store is removed by the command of the remedy")
    func restorationCopy() throws {
        try place.write("left", to: "s.db-restoring")
        let outcome = try doctor("--no-key")
        let finding = try #require(outcome.output.range(of: "s.db-restoring"))
        let rest = outcome.output[finding.upperBound...]
        #expect(outcome.status == 2 && !rest.contains("cipherctl restore"), "\(rest)")
        let command = try #require(rest.firstMatch(of: #/`(rm [^`]*)`/#)?.1)
        #expect(try CommandRun(#require(SystemProgram.find("sh")), ["-c", String(command)]).finish().status == 0)
        #expect(try doctor("--no-key").status == 0 && !place.exists("s.db-restoring"))
    }

    @Test("what a killed import or adoption left is a risk; the work of a process that lives is none")
    func unfinishedWork() throws {
        let run = try CommandRun(#require(SystemProgram.find("true")), [])
        #expect(run.finish().status == 0)
        let living = ProcessInfo.processInfo.processIdentifier
        for (kind, process) in [("importing", living), ("adopting", run.processIdentifier)] {
            try FileManager.default.createDirectory(
                atPath: place.path("s.db.\(kind)-\(process)-0123abcd"), withIntermediateDirectories: false)
        }
        let outcome = try doctor("--no-key")
        #expect(outcome.status == 2)
        #expect(outcome.output.contains("adopting-\(run.processIdentifier)"))
        #expect(!outcome.output.contains("importing-\(living)"))
    }

    @Test("an adoption that was cut is a problem, and says that the file opens as before")
    func adoptionInterrupted() throws {
        let fixture = try AdoptionFixture()
        try fixture.makeStandard("s.db")
        let killed = try fixture.place.run(
            ["adopt", fixture.place.path("s.db"), "--raw-key-file", fixture.place.key],
            environment: ["CIPHERSTORE_CRASH_AT": "adoptionAnnounced"])
        try #require(killed.status == 128 + SIGKILL)
        let outcome = try fixture.place.run(["doctor", fixture.place.path("s.db"), "--no-key", "--json"])
        #expect(outcome.status == 2)
        #expect(serious(outcome) == ["problem adoptionInterrupted", "risk unfinishedWork"])
    }

    @Test("a key in the environment is a risk, and a store that is not there ends with 66")
    func others() throws {
        #expect(try place.run(["doctor", place.path("no.db"), "--no-key"]).status == 66)
        #expect(try doctor().status == 64)
        #expect(try doctor("--no-key", "--raw-key-file", place.key).status == 64)
        let outcome = try place.run(
            ["doctor", place.path("s.db"), "--json", "--key-env", "SECRET"], environment: ["SECRET": "wrong"])
        #expect(serious(outcome).contains("risk keySource"))
    }

    @Test("a program that has the store open without this library is named where its SQLite could lose commits")
    func stranger() throws {
        let key = try place.run(["key", "reveal", place.path("s.db"), "--json", "--raw-key-file", place.key]).json
        let keyspec = try #require(key["key"] as? String) + (try #require(key["salt"] as? String))
        var connection: OpaquePointer?
        #expect(sqlite3_open(place.path("s.db"), &connection) == SQLITE_OK)
        defer { sqlite3_close(connection) }
        #expect(sqlite3_key_v2(connection, "main", "x'\(keyspec)'", Int32(keyspec.utf8.count + 3)) == SQLITE_OK)
        #expect(sqlite3_exec(connection, "PRAGMA cipher_plaintext_header_size = 32", nil, nil, nil) == SQLITE_OK)
        #expect(sqlite3_exec(connection, "SELECT COUNT(*) FROM t", nil, nil, nil) == SQLITE_OK)
        let hasBug = !KnownBug.affecting(sqlite: SQLiteLibrary.sqliteVersion, sqlCipher: nil).isEmpty
        #expect(findings(try doctor("--no-key")).contains("note stranger") == hasBug)
        #expect(sqlite3_exec(connection, "BEGIN IMMEDIATE", nil, nil, nil) == SQLITE_OK)
        #expect(findings(try doctor("--no-key")).contains("risk stranger") == hasBug)
    }

    /// "byte 20 of the header is wrong" stood alone.
    @Test(
        "each problem and each risk says what to do",
        arguments: ["header", "empty", "text", "plain", "copies", "one copy", "truncated", "names", "page"])
    func remedies(damage: String) throws {
        let place = try Workplace()
        try place.makeStore()
        switch damage {
        case "header": try place.flip("s.db", at: 20)
        case "empty": try place.truncate("s.db", to: 0)
        case "text": try place.write("no database, but a text", to: "s.db")
        case "plain":
            try place.makePlain("CREATE TABLE t (a)")
            try place.copy("plain.db", to: "s.db")
        case "copies": for name in ["s.db-sidecar", "s.db-sidecar.bak"] { try place.write("x", to: name) }
        case "one copy": try place.write("x", to: "s.db-sidecar")
        case "truncated": try place.truncate("s.db", to: 5 * 4096)
        case "names": try FileManager.default.linkItem(atPath: place.path("s.db"), toPath: place.path("link.db"))
        default: try place.flip("s.db", at: 100)
        }
        for words in [["--no-key"], ["--raw-key-file", place.key]] {
            let outcome = try place.run(["doctor", place.path("s.db"), "--json"] + words)
            let findings = outcome.json["findings"] as? [[String: Any]] ?? []
            let serious = findings.filter { $0["severity"] as? String != "note" }
            if damage != "page" || words != ["--no-key"] { #expect(!serious.isEmpty, "\(damage): \(outcome.errors)") }
            for finding in serious {
                #expect((finding["remedy"] as? String)?.isEmpty == false, "\(damage) \(words): \(finding)")
            }
        }
    }
}
