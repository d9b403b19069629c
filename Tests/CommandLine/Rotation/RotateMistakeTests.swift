import Foundation
import Testing

/// Requests to a rotation that exclude each other, and the answers.
@Suite("Mistakes with rotations")
struct RotateMistakeTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
    }

    private func expect(
        _ status: Int32, _ part: String, _ arguments: [String], at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = try place.bytes("s.db-sidecar")
        let outcome = try place.run(["rotate", place.path("s.db")] + arguments)
        #expect(outcome.status == status, "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errors.contains(part), "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errors.contains("\nhint: "), sourceLocation: location)
        #expect(try place.bytes("s.db-sidecar") == before, sourceLocation: location)
        #expect(!place.exists("s.db-rotating"), sourceLocation: location)
    }

    private var key: [String] { ["--raw-key-file", place.key] }

    @Test("without a word about backups it does not begin")
    func backup() throws {
        try expect(64, "starts with a backup", key)
        try expect(64, "starts with a backup", ["--resume"] + key)
        try expect(64, "--backup and --no-backup", ["--backup", place.folder.url.path, "--no-backup"] + key)
        try expect(66, "no directory", ["--backup", place.path("nowhere")] + key)
        try expect(66, "no directory", ["--backup", place.key] + key)
    }

    @Test("options that do not go together are named")
    func options() throws {
        let usual = ["--no-backup"] + key
        try expect(64, "--dry-run and --status", ["--dry-run", "--status"])
        try expect(64, "belong to --compromised", ["--drop-other-slots"] + usual)
        try expect(64, "belong to --compromised", ["--also-raw-key-file", place.path("second.key")] + usual)
        let new = ["--new-raw-key-file", place.path("second.key")]
        try expect(64, "--compromised and a new key", ["--compromised"] + new + usual)
        try expect(64, "has keyslots", new + usual)
        try expect(64, "needs no key", ["--status"] + key)
        try expect(64, "--throttle is not a speed", ["--throttle", "fast"] + usual)
        try expect(64, "--throttle is not a speed", ["--throttle", "0"] + usual)
        try expect(64, "--pause-budget is not a time", ["--pause-budget", "-5"] + usual)
        try expect(64, "--long-reads", ["--long-reads", "wait"] + usual)
        try expect(64, "--if-older-than", ["--if-older-than", "old"] + usual)
        // A command that destroys slots asks, and here nobody can answer.
        try expect(64, "--yes", ["--compromised", "--drop-other-slots"] + usual)
    }

    @Test("the slots that a rotation removes are named, with kind and label")
    func removedSlots() throws {
        let store = place.path("s.db")
        let new = ["--new-raw-key-file", place.path("second.key")]
        for label in ["laptop", "server"] {
            let added = try place.run(["key", "add", store, "--label", label] + new + key)
            #expect(added.status == 0, "\(added.errors)")
            let all = ["rotate", store, "--compromised", "--drop-other-slots", "--yes", "--no-backup"] + key
            let outcome = try place.run(all + (label == "server" ? ["--json"] : []))
            #expect(outcome.status == 0, "\(outcome.errors)")
            if label == "laptop" {
                #expect(outcome.output.contains("removed      slot 2 (key-file \"laptop\")"), "\(outcome.output)")
                continue
            }
            let rotated = try #require((outcome.json["stores"] as? [[String: Any]])?.first)
            let removed = try #require(rotated["removed_slots"] as? [[String: Any]], "\(outcome.output)")
            #expect(removed.map { $0["slot"] as? Int } == [3] && removed[0]["label"] as? String == "server")
            #expect(removed[0]["kind"] as? String == "key-file")
        }
        let usual = try place.run(["rotate", store, "--no-backup"] + key)
        #expect(usual.status == 0 && !usual.output.contains("removed"), "\(usual.output)")
    }

    @Test("a direct store needs a new key")
    func direct() throws {
        #expect(try place.ctl("create", place.path("d.db"), "--scheme", "direct").status == 0)
        let outcome = try place.run(["rotate", place.path("d.db"), "--no-backup"] + key)
        #expect(outcome.status == 64 && outcome.errors.contains("--new-key-file F"), "\(outcome.errors)")
    }

    // Story: "--compromised" was answered by "give a new key", and both together by "leave the new key out".
    @Test("a direct store has no keyslots that --compromised could renew")
    func compromisedDirect() throws {
        #expect(try place.ctl("create", place.path("d.db"), "--scheme", "direct").status == 0)
        let outcome = try place.ctl("rotate", place.path("d.db"), "--compromised", "--no-backup")
        #expect(outcome.status == 64 && outcome.errors.contains("no keyslots"), "\(outcome.errors)")
        #expect(outcome.errors.contains("Leave out --compromised, and give its new key"), "\(outcome.errors)")
    }

    @Test("a wrong key, a store that is not there and one that is too young each get their code, and one summary")
    func fleet() throws {
        let stores = [place.path("s.db"), place.path("none.db")]
        let outcome = try place.run(["rotate"] + stores + ["--no-backup", "--if-older-than", "90d", "--json"] + key)
        #expect(outcome.status == 66, "\(outcome.errors)")
        let found = outcome.json["stores"] as? [[String: Any]] ?? []
        #expect(found.compactMap { $0["result"] as? String } == ["skipped", "failed"])
        #expect(outcome.json["skipped"] as? Int == 1 && outcome.json["failed"] as? Int == 1)
        #expect((found.last?["error"] as? [String: Any])?["code"] as? String == "noSuchStore")
        let wrong = try place.run(
            ["rotate"] + stores + ["--no-backup", "--if-older-than", "90d", "--raw-key-file", place.path("second.key")])
        #expect(wrong.status == 77 && wrong.output.contains("2 stores: 2 failed"), "\(wrong.output)\(wrong.errors)")
        let due = try place.run(["rotate", stores[0], "--no-backup", "--if-older-than", "90d"] + key)
        #expect(due.status == 0 && due.output.contains("not due"))
    }
}
