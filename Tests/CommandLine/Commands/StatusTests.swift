import CipherStore
import Foundation
import Testing

@Suite("cipherctl status")
struct StatusTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func status(_ options: String...) throws -> CommandRun.Outcome {
        try place.run(["status", place.path("s.db"), "--json"] + options)
    }

    private func withKey() throws -> CommandRun.Outcome { try status("--raw-key-file", place.key) }

    @Test("a sound store needs no attention")
    func sound() throws {
        let outcome = try withKey()
        #expect(outcome.status == 0, "\(outcome.output)")
        let json = outcome.json
        #expect(json["authenticated"] as? Bool == true)
        #expect(json["state"] as? String == "ready")
        #expect(json["epoch"] as? Int == 1)
        #expect(json["page_bytes"] as? Int == 4096)
        #expect(json["plaintext_header_bytes"] as? Int == 32)
        #expect(json["pages"] as? Int == (try place.bytes("s.db")).count / 4096)
        #expect(json["sidecar"] as? [String: String] == ["main": "ok", "backup": "ok"])
        #expect(json["in_use"] as? Bool == false)
        #expect((json["attention"] as? [String])?.isEmpty == true)
    }

    @Test("--no-key shows the same, unproved, and asks for nothing")
    func noKey() throws {
        let outcome = try status("--no-key")
        #expect(outcome.status == 0)
        #expect(outcome.json["authenticated"] as? Bool == false)
        #expect(outcome.json["store_id"] as? String == (try withKey()).json["store_id"] as? String)
        #expect(try status("--no-key", "--raw-key-file", place.key).status == 64)
        #expect(try status().status == 64)
    }

    @Test("a missing or stale copy of the sidecar needs attention, and is not mended")
    func copies() throws {
        try place.remove("s.db-sidecar.bak")
        let outcome = try withKey()
        #expect(outcome.status == 2)
        #expect(outcome.json["sidecar"] as? [String: String] == ["main": "ok", "backup": "missing"])
        #expect(!place.exists("s.db-sidecar.bak"))
        try place.write("no sidecar", to: "s.db-sidecar.bak")
        #expect(try status("--no-key").status == 2)
        #expect(try withKey().json["sidecar"] as? [String: String] == ["main": "ok", "backup": "damaged"])
    }

    @Test("a damaged page 1 and a damaged header need attention")
    func damaged() throws {
        try place.flip("s.db", at: 1000)
        #expect(try withKey().status == 2)
        #expect(try status("--no-key").status == 0)
        try place.poke("s.db", at: 20, [0])
        #expect(try status("--no-key").status == 2)
    }

    @Test("a reader at an old moment is named, and why the log cannot shrink; doctor names it too")
    func oldReader() throws {
        let store = try SharedStore.open(at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key))
        let snapshot = try store.makeSnapshot()
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'changed' WHERE id % 100 = 0") }
        let outcome = try withKey()
        #expect((outcome.json["wal_readers"] as? [Int]) == [Int(getpid())])
        #expect((outcome.json["wal_copied_frames"] as? Int ?? -1) >= 0)
        let lines = try place.run(["status", place.path("s.db"), "--no-key"]).output
        #expect(lines.contains("WAL kept by  process \(getpid())"), "\(lines)")
        let doctor = try place.run(["doctor", place.path("s.db"), "--no-key", "--json"]).output
        #expect(doctor.contains("\"oldReader\""), "\(doctor)")
        try snapshot.close()
        try store.checkpoint()
        #expect((try withKey().json["wal_readers"] as? [Int])?.isEmpty == true)
        try store.close()
    }

    @Test("a store that is open in another process is shown as in use, with its log")
    func inUse() throws {
        let key = KeySource.rawKeyFile(path: place.key)
        let store = try SharedStore.open(at: place.path("s.db"), unlockedBy: key)
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'changed' WHERE id % 100 = 0") }
        let json = try withKey().json
        #expect(json["in_use"] as? Bool == true)
        #expect((json["wal_frames"] as? Int ?? 0) > 0)
        try store.close()
        #expect(try withKey().json["in_use"] as? Bool == false)
    }

    // A link to a lock file of its own was "in use: not known", with exit code 0, while every writer failed.
    @Test(
        "a link in the place of the lock file or the key log needs attention, wherever it leads",
        arguments: ["s.db-lock", "s.db-keylog"], ["elsewhere", "nowhere"])
    func link(name: String, target: String) throws {
        let place = try Workplace()
        try place.makeStore()
        if target == "elsewhere" { try place.copy(name, to: target) }
        try place.remove(name)
        try FileManager.default.createSymbolicLink(atPath: place.path(name), withDestinationPath: target)
        for words in [["status", place.path("s.db"), "--no-key"], ["doctor", place.path("s.db"), "--no-key"]] {
            let outcome = try place.run(words)
            #expect(outcome.status == 2, "\(outcome.output)\(outcome.errors)")
            #expect(outcome.output.contains("\(name)\" is not a regular file"), "\(outcome.output)")
        }
        let refused = try place.ctl("sql", place.path("s.db"), "SELECT 1", "--write")
        if name == "s.db-lock" {
            #expect(refused.status == 74, "\(refused.errors)")
            #expect(refused.errors.contains("hint: There is a symbolic link"), "\(refused.errors)")
        }
    }
}
