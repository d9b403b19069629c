import Foundation
import TestKit
import Testing

/// Files that are no stores: an operator has mistyped a path, or takes another database for a store.
@Suite("cipherctl on files that are no stores")
struct ForeignFileTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.write("my notes, of which there is no copy\n", to: "notes.txt")
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        try Workplace.write(
            (0..<8192).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }, to: place.path("random"))
        try place.write("", to: "empty")
    }

    // `doctor` named up to six problems of a text, with remedies such as `cipherctl restore DIR '/etc/passwd' --replace`.
    @Test(
        "doctor says what a file is that is no store, and nothing of stores",
        arguments: [
            ("notes.txt", "not a database", "check the path"), ("plain.db", "plain SQLite", "cipherctl import"),
            ("random", "encrypted file", "cipherctl adopt"), ("empty", "no bytes", "check the path"),
        ], [true, false])
    func doctor(_ file: (name: String, what: String, remedy: String), hasKey: Bool) throws {
        let path = place.path(file.name)
        let outcome = try place.run(
            ["doctor", path, "--json"] + (hasKey ? ["--raw-key-file", place.key] : ["--no-key"]))
        #expect(outcome.status == 2, "\(outcome.errors)")
        let findings = outcome.json["findings"] as? [[String: Any]] ?? []
        #expect(findings.map { $0["code"] as? String } == ["noStore"], "\(outcome.output)")
        #expect((findings.first?["what"] as? String)?.contains(file.what) == true, "\(outcome.output)")
        #expect((findings.first?["remedy"] as? String)?.contains(file.remedy) == true, "\(outcome.output)")
        for word in ["sidecar", "salvage", "--replace", "--write"] {
            #expect(!outcome.output.contains(word), "\(word): \(outcome.output)")
        }
        let status = try place.run(["status", path, "--no-key"])
        #expect(status.status == 2 && status.output.contains(file.what), "\(status.output)\(status.errors)")
        #expect(!status.output.contains("store.db-sidecar"), "\(status.output)")
    }

    @Test("the file of a store that has lost both copies of its sidecar is still called a store")
    func lostSidecar() throws {
        try place.makeStore()
        try place.remove("s.db-sidecar", "s.db-sidecar.bak")
        let outcome = try place.ctl("doctor", place.path("s.db"))
        #expect(outcome.status == 2 && outcome.output.contains("without its salt nothing opens"), "\(outcome.output)")
    }

    // "Its creation has begun but was not completed" was said of a text, and `create` recommended for a folder.
    @Test("a command without a key says what a file is, and recommends no store in its place")
    func keyList() throws {
        for (name, what) in [("notes.txt", "not a database"), ("plain.db", "plain SQLite database")] {
            for command in [["key", "list"], ["key", "log"], ["rotate", "--status"], ["rotate", "--abort"]] {
                let key = command.last == "--abort" ? ["--raw-key-file", place.key] : []
                let outcome = try place.run(command + [place.path(name)] + key)
                #expect(outcome.status == 65 && outcome.errors.contains(what), "\(command): \(outcome.errors)")
                #expect(!outcome.errors.contains("sidecar"), "\(command): \(outcome.errors)")
            }
        }
        try FileManager.default.createDirectory(atPath: place.path("folder"), withIntermediateDirectories: false)
        for path in [place.path("folder"), "/dev/null"] {
            for words in [["key", "list", path], ["status", path, "--no-key"], ["doctor", path, "--no-key"]] {
                let outcome = try place.run(words)
                #expect(outcome.status == 66 && !outcome.errors.contains("cipherctl create"), "\(outcome.errors)")
            }
        }
        #expect(try place.run(["key", "list", place.path("none")]).errors.contains("cipherctl create"))
    }

    // "Or make the store with `cipherctl create 'a.db-wal'`", which is refused.
    @Test("a file of a store in its place leads to the store, and a file in the place of a folder is called one")
    func companion() throws {
        try place.makeStore()
        let wal = try place.ctl("verify", place.path("s.db-wal"))
        #expect(wal.status == 66 && wal.errors.contains("Name the store"), "\(wal.errors)")
        let backup = try place.ctl("restore", place.path("notes.txt"), place.path("n.db"))
        #expect(backup.status == 66 && backup.errors.contains("It is a file"), "\(backup.errors)")
        let folder = try place.ctl("import", place.folder.url.path, place.path("n.db"))
        #expect(folder.status == 65 && !folder.errors.contains("needs no import"), "\(folder.errors)")
    }

    // A key file, a text or a plain database at a mistyped path became a store.
    @Test(
        "restore --replace refuses a file that is not known to be a store, unless told",
        arguments: ["notes.txt", "plain.db", "random"])
    func restore(name: String) throws {
        try place.makeStore()
        #expect(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let (before, names) = (try place.bytes(name), try place.names())
        let refused = try place.ctl("restore", place.path("b"), place.path(name), "--replace", "--yes", "--json")
        #expect(refused.status == 64 && refused.errorJSON["code"] as? String == "alreadyExists", "\(refused.errors)")
        #expect(refused.errors.contains("not known to be a store"), "\(refused.errors)")
        #expect(try place.bytes(name) == before && place.names() == names)
        let told = try place.ctl(
            "restore", place.path("b"), place.path(name), "--replace", "--replace-any-file", "--yes")
        #expect(told.status == 0, "\(told.errors)")
        let kept = try #require(try place.names().first { $0.hasPrefix("\(name)-replaced-") })
        #expect(try place.bytes("\(kept)/\(name)") == before)
        #expect(try place.ctl("verify", place.path(name)).status == 0)
    }

    @Test(
        "restore --replace still replaces a store that has lost its sidecars, its header or all its bytes",
        arguments: ["sidecars", "header", "bytes", "database"])
    func damagedStore(_ damage: String) throws {
        try place.makeStore()
        #expect(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        switch damage {
        case "sidecars": try place.remove("s.db-sidecar", "s.db-sidecar.bak", "s.db-keylog", "s.db-lock")
        case "header": try place.poke("s.db", at: 0, [UInt8](repeating: 0x41, count: 4096))
        case "bytes": try place.truncate("s.db", to: 0)
        default: try place.remove("s.db")
        }
        let outcome = try place.ctl("restore", place.path("b"), place.path("s.db"), "--replace", "--yes")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }
}
