import Foundation
import StorePlatform
import TestKit
import Testing

@Suite("cipherctl rotate --resume")
struct RotateResumeTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws { place = try Workplace() }

    /// Leaves a store whose rotation was killed.
    private func cut(_ opening: String, at point: CrashPoint, _ mode: String) throws {
        let actor = try ActorProcess()
        #expect(actor.ask("\(opening) \(store) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 3") == "ok")
        #expect(actor.ask("die-at \(point.rawValue) 0") == "ok")
        #expect(actor.ask("rotate \(mode)") == nil, "the process did not pass \(point)")
        #expect(actor.diedBySignal())
    }

    private func resume(_ more: String...) throws -> CommandRun.Outcome {
        try place.run(["rotate", store, "--resume", "--raw-key-file", place.key] + more)
    }

    // It ended with 0 whatever key was given, and the store opened with the one that was pending.
    @Test("a direct store demands the new key that its rotation was begun with")
    func direct() throws {
        try cut("open-direct", at: .rotationCopied, "key:words")
        try place.write("words\n", to: "begun")
        try place.write("other words\n", to: "other")
        let none = try resume("--no-backup")
        #expect(none.status == 64 && none.errors.contains("--abort"), "\(none.errors)")
        let other = try resume("--no-backup", "--new-key-file", place.path("other"))
        #expect(other.status == 77 && other.errors.contains("Nothing was changed"), "\(other.errors)")
        #expect(try place.run(["rotate", store, "--status"]).status == 2)
        let begun = try resume("--no-backup", "--new-key-file", place.path("begun"))
        #expect(begun.status == 0 && begun.output.hasPrefix("\(store): epoch 1 -> 2\n"), "\(begun.errors)")
        #expect(try place.run(["verify", store, "--key-file", place.path("begun")]).status == 0)
        #expect(try place.ctl("verify", store).status == 77)
        // Without a rotation there is no key to give.
        let nothing = try place.run(["rotate", store, "--resume", "--no-backup", "--key-file", place.path("begun")])
        #expect(nothing.status == 0 && nothing.output.contains("no rotation was pending"), "\(nothing.errors)")
    }

    // The switch was finished, and then the store was opened with the former key: "Give the new key", 77, to one who had
    // given it. With the former key alone it was finished too.
    @Test(
        "the switch of a direct store is finished with both keys, and refused without the new one",
        arguments: [CrashPoint.rotationSwitchingWritten, .rotationWALReplaced, .rotationRenamed])
    func directSwitch(point: CrashPoint) throws {
        try cut("open-direct", at: point, "key:words")
        try place.write("words\n", to: "begun")
        try place.write("other words\n", to: "other")
        let before = FolderSnapshot(of: place.folder)
        let none = try resume("--no-backup")
        #expect(none.status == 64 && none.errors.contains("can only be completed"), "\(none.errors)")
        let other = try resume("--no-backup", "--new-key-file", place.path("other"))
        #expect(other.status == 77 && other.errors.contains("Nothing was changed"), "\(other.errors)")
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
        let begun = try resume("--no-backup", "--new-key-file", place.path("begun"), "--json")
        #expect(begun.status == 0 && begun.json["rotated"] as? Int == 1, "\(begun.errors)")
        #expect(try place.events().last == "rotation-recovered")
        let count = "SELECT count(*) FROM mark WHERE text <> 'migrated'"
        let rows = try place.run(
            ["sql", store, count, "--mode", "csv", "--key-file", place.path("begun")])
        #expect(rows.output == "count(*)\r\n3\r\n", "\(rows.errors)")
        #expect(try place.ctl("verify", store).status == 77)
    }

    // It ended with "Free space and try again; nothing was lost" though the store had its new key.
    @Test("a result that cannot be printed does not hide that the store was rotated")
    func unprintable() throws {
        let shell = try #require(SystemProgram.find("sh"))
        let actor = try ActorProcess()
        #expect(actor.ask("open-direct \(store) raw")?.hasPrefix("ok") == true)
        actor.end()
        try place.write("words\n", to: "new")
        let line =
            "exec '\(try Workplace.program().path)' rotate '\(store)' --no-backup --raw-key-file '\(place.key)' "
            + "--new-key-file '\(place.path("new"))' > /dev/full"
        let outcome = try CommandRun(shell, ["-c", line]).finish()
        #expect(outcome.status == 0 && outcome.errors.contains("epoch 1 -> 2"), "\(outcome.errors)")
        #expect(!outcome.errors.contains("nothing was lost"), "\(outcome.errors)")
        #expect(try place.run(["verify", store, "--key-file", place.path("new")]).status == 0)
    }

    // Options that do not fit once ended as damaged data does.
    @Test("a rotation is not resumed for another mode than its own")
    func otherAim() throws {
        try cut("open", at: .rotationCopied, "data-key")
        try place.write("words\n", to: "new")
        for mode in [["--compromised"], ["--new-key-file", place.path("new")]] {
            let refused = try place.run(
                ["rotate", store, "--resume", "--no-backup", "--raw-key-file", place.key] + mode)
            #expect(refused.status == 64, "\(refused.errors)")
        }
        #expect(try resume("--no-backup").status == 0)
    }

    // The log said neither what kind of rotation it was nor which keyslots it removed.
    @Test(
        "a resumed rotation is logged with its mode and the keyslots that it removes",
        arguments: [CrashPoint.rotationCopied, .rotationSwitchingWritten])
    func loggedMode(point: CrashPoint) throws {
        try place.makeStore()
        try place.write("another long passphrase\n", to: "second")
        let added = try place.ctl("key", "add", store, "--new-key-file", place.path("second"))
        try #require(added.status == 0, "\(added.errors)")
        let killed = try place.run(
            [
                "rotate", store, "--no-backup", "--compromised", "--drop-other-slots", "--yes", "--raw-key-file",
                place.key,
            ], environment: ["CIPHERSTORE_CRASH_AT": point.rawValue])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let resumed = try resume("--no-backup")
        #expect(resumed.status == 0, "\(resumed.errors)")
        let log = try place.run(["key", "log", store, "--json"])
        let entries = log.json["entries"] as? [[String: Any]] ?? []
        let begun = entries.filter { $0["event"] as? String == "rotation-begun" }
        #expect(begun.count == (point == .rotationCopied ? 2 : 1), "\(log.output)")
        #expect(begun.allSatisfy { "\($0)".contains("compromised") }, "\(log.output)")
        let removed = entries.filter { $0["event"] as? String == "slot-removed" }
        #expect(removed.count == 1 && "\(removed)".contains("2"), "\(log.output)")
        #expect(try place.events().last == "slot-removed")
    }

    // The option was demanded and then passed over.
    @Test("the backup that is asked for is made, told, and opens with the former keys")
    func backup() throws {
        try cut("open", at: .rotationCopied, "data-key")
        try FileManager.default.createDirectory(atPath: place.path("backups"), withIntermediateDirectories: false)
        let outcome = try resume("--backup", place.path("backups"), "--json")
        #expect(outcome.status == 0, "\(outcome.errors)")
        let result = (outcome.json["stores"] as? [[String: Any]])?.first
        let folder = try #require(result?["backup"] as? String)
        #expect(result?["to_epoch"] as? Int == 2)
        #expect(try place.ctl("restore", folder, place.path("r.db")).status == 0)
        let count = try place.ctl(
            "sql", place.path("r.db"), "SELECT count(*) FROM mark WHERE text <> 'migrated'", "--mode", "csv")
        #expect(count.output == "count(*)\r\n3\r\n", "\(count.errors)")
        #expect(try place.ctl("status", place.path("r.db"), "--json").json["epoch"] as? Int == 1)
    }

    @Test("a switch that had only to be finished says that there is no backup")
    func finished() throws {
        try cut("open", at: .rotationSwitchingWritten, "data-key")
        try FileManager.default.createDirectory(atPath: place.path("backups"), withIntermediateDirectories: false)
        let outcome = try resume("--backup", place.path("backups"))
        #expect(
            outcome.status == 0 && outcome.output.contains("completed an interrupted rotation"), "\(outcome.errors)")
        #expect(outcome.errors.contains("No backup was made"), "\(outcome.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.path("backups")).isEmpty)
    }
}
