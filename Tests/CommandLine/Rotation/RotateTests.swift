import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import KeyRotation
@testable import cipherctl

@Suite("cipherctl rotate")
struct RotateTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
        try Workplace.write([UInt8](repeating: 0x2c, count: 32), to: place.path("third.key"))
    }

    private var store: String { place.path("s.db") }

    /// False while the build declares rotations without carrying them out.
    static let canRotate: Bool = {
        do {
            _ = try KeyRotation.status(of: "/")
            return true
        } catch {
            return !"\(error)".contains("This build cannot rotate")
        }
    }()

    private func rotate(_ more: String..., key: String? = nil) throws -> [String: Any] {
        let outcome = try place.run(
            ["rotate", store, "--no-backup", "--json", "--raw-key-file", key ?? place.key] + more)
        #expect(outcome.status == 0, "\(outcome.errors)")
        return (outcome.json["stores"] as? [[String: Any]])?.first ?? [:]
    }

    private func dataKey(_ key: String? = nil) throws -> String? {
        try place.ctl("key", "reveal", store, "--json", key: key).json["key"] as? String
    }

    private func expectRows(_ key: String? = nil) throws {
        let rows = try place.ctl("sql", store, "SELECT count(*) FROM t", "--mode", "csv", key: key)
        #expect(rows.output == "count(*)\r\n3000\r\n", "\(rows.errors)")
        #expect(try place.ctl("verify", store, key: key).status == 0)
    }

    @Test("a rotation gives another data key, keeps the slots, and is told", .enabled(if: canRotate))
    func slots() throws {
        let before = try dataKey()
        let result = try rotate()
        #expect(result["result"] as? String == "rotated")
        #expect(result["from_epoch"] as? Int == 1 && result["to_epoch"] as? Int == 2)
        #expect(result["longest_pause_seconds"] is Double)
        #expect(try dataKey() != before && !place.exists("s.db-rotating"))
        try expectRows()
        let log = try place.run(["key", "log", store]).output
        #expect(log.contains("rotation-begun, from 1, to 2") && log.contains("rotation-completed, to 2"), "\(log)")
        let status = try place.ctl("status", store, "--json").json
        #expect(status["epoch"] as? Int == 2)
        let words = ["rotate", store, "--no-backup", "--progress", "json", "--raw-key-file", place.key]
        let text = try place.run(words)
        #expect(text.status == 0 && text.output.hasPrefix("\(store): epoch 2 -> 3\n"), "\(text.output)")
        let lines = text.errors.split(separator: "\n").filter { $0.hasPrefix("{\"progress\":") }
        #expect(lines.contains { $0.contains("\"phase\": \"copying\"") }, "\(text.errors)")
    }

    @Test(
        "--compromised keeps the slots whose keys are given, and refuses to lose others unless told",
        .enabled(if: canRotate))
    func compromised() throws {
        for (key, label) in [("second.key", "kept"), ("third.key", "dropped")] {
            let added = try place.ctl(
                "key", "add", store, "--new-raw-key-file", place.path(key), "--label", label)
            #expect(added.status == 0, "\(added.errors)")
        }
        let also = ["--also-raw-key-file", place.path("second.key")]
        let arguments = ["rotate", store, "--no-backup", "--compromised", "--raw-key-file", place.key] + also
        let refused = try place.run(arguments)
        // An option is missing: it once ended as damaged data does.
        #expect(refused.status == 64 && refused.errors.contains("allow that they are removed"), "\(refused.errors)")
        #expect(try place.ctl("key", "test", store, key: place.path("third.key")).status == 0)
        let done = try place.run(arguments + ["--drop-other-slots", "--yes"])
        #expect(done.status == 0, "\(done.errors)")
        #expect(try place.ctl("key", "test", store, key: place.path("third.key")).status == 77)
        try expectRows()
        try expectRows(place.path("second.key"))
    }

    @Test("a direct store gets its new key, which a command has to hand out twice", .enabled(if: canRotate))
    func direct() throws {
        try place.remove("s.db", "s.db-sidecar", "s.db-sidecar.bak", "s.db-lock", "s.db-wal", "s.db-shm")
        if place.exists("s.db-keylog") { try place.remove("s.db-keylog") }
        try place.write("old words\n", to: "old")
        try place.write("new words\n", to: "new")
        let old = ["--key-file", place.path("old")]
        #expect(try place.run(["create", store, "--scheme", "direct"] + old).status == 0)
        let rotate = ["rotate", store, "--no-backup"] + old
        // The second time the command gives something else.
        let counter = "sh -c 'echo x >> \(place.path("count")); wc -l < \(place.path("count"))'"
        let fickle = try place.run(rotate + ["--new-key-command", counter])
        #expect(fickle.status != 0, "\(fickle.output)")
        #expect(try place.run(["key", "test", store] + old).status == 0)
        let done = try place.run(rotate + ["--new-key-command", "cat '\(place.path("new"))'"])
        #expect(done.status == 0, "\(done.errors)")
        #expect(try place.run(["key", "test", store] + old).status == 77)
        #expect(try place.run(["verify", store, "--key-file", place.path("new")]).status == 0)
    }

    @Test(
        "a backup comes first and opens with the former key; the dry run makes none and changes nothing",
        .enabled(if: canRotate))
    func backup() throws {
        let before = FolderSnapshot(of: place.folder)
        let plan = try place.ctl("rotate", store, "--dry-run", "--json")
        #expect(plan.status == 0, "\(plan.errors)")
        let planned = (plan.json["stores"] as? [[String: Any]])?.first ?? [:]
        #expect(planned["can_begin"] as? Bool == true && planned["epoch"] as? Int == 1)
        #expect(before.names.filter { $0.contains("backup") || $0.contains("rotating") }.isEmpty)
        try FileManager.default.createDirectory(atPath: place.path("backups"), withIntermediateDirectories: false)
        let old = try dataKey()
        let outcome = try place.ctl("rotate", store, "--backup", place.path("backups"), "--json")
        #expect(outcome.status == 0, "\(outcome.errors)")
        let folder = try #require((outcome.json["stores"] as? [[String: Any]])?.first?["backup"] as? String)
        let id = try #require(try place.ctl("status", store, "--json").json["store_id"] as? String)
        #expect(folder.hasPrefix(place.path("backups") + "/s.db-\(id.prefix(8))-epoch1-"), "\(folder)")
        let restored = try place.ctl("restore", folder, place.path("r.db"))
        #expect(restored.status == 0, "\(restored.errors)")
        let key = try place.ctl("key", "reveal", place.path("r.db"), "--json").json["key"] as? String
        #expect(try key == old && key != dataKey())
    }

    @Test("where nothing is pending, status, resume and abort say so", .enabled(if: canRotate))
    func nothingPending() throws {
        let status = try place.run(["rotate", store, "--status"])
        #expect(
            status.status == 0 && status.output == "\(store): no rotation is pending, epoch 1\n", "\(status.errors)")
        #expect(try place.ctl("rotate", store, "--abort").output.contains("no rotation was pending"))
        #expect(try place.ctl("rotate", store, "--resume", "--no-backup").output.contains("no rotation was pending"))
    }

    @Test("of several stores each is rotated though one fails, and the exit code is the worst", .enabled(if: canRotate))
    func fleet() throws {
        try place.makeStore("t.db")
        let outcome = try place.run(
            ["rotate", place.path("none.db"), store, place.path("t.db"), "--no-backup", "--raw-key-file", place.key])
        #expect(outcome.status == 66, "\(outcome.errors)")
        #expect(outcome.output.hasSuffix("3 stores: 2 rotated, 1 failed\n"), "\(outcome.output)")
        try expectRows()
    }

    // They were named after the file and the second: the second store of a name had no place for its backup.
    @Test("the backups of stores of one name stand beside each other", .enabled(if: canRotate))
    func fleetBackups() throws {
        for folder in ["a", "b", "backups"] {
            try FileManager.default.createDirectory(atPath: place.path(folder), withIntermediateDirectories: false)
        }
        let stores = [place.path("a/s.db"), place.path("b/s.db")]
        for store in stores { #expect(try place.ctl("create", store).status == 0) }
        let outcome = try place.run(
            ["rotate"] + stores + ["--backup", place.path("backups"), "--json", "--raw-key-file", place.key])
        #expect(outcome.status == 0, "\(outcome.errors)")
        let told = outcome.json["stores"] as? [[String: Any]] ?? []
        let names = told.compactMap { ($0["backup"] as? String).map { URL(fileURLWithPath: $0).lastPathComponent } }
        // Without the time, which may differ.
        let stems = Set(names.map { $0.split(separator: "-").dropLast().joined(separator: "-") })
        #expect(stems.count == 2, "\(names)")
    }

    @Test("the worst exit code is that of the most serious failure, and results have a word each")
    func outcomes() {
        var fleet = FleetReport()
        #expect(fleet.exitCode == .ok)
        fleet.add(RotationOutcome(path: "a", .skipped(ageSeconds: 90_000)))
        #expect(fleet.exitCode == .ok)
        fleet.add(RotationOutcome(path: "b", .failed(StoreError(.storeInUse, what: "", why: "", remedy: ""))))
        fleet.add(RotationOutcome(path: "c", .failed(StoreError(.pageDamaged(3), what: "", why: "", remedy: ""))))
        fleet.add(RotationOutcome(path: "d", .failed(CancellationError())))
        #expect(
            fleet.exitCode == .damagedData && fleet.outcomes.map(\.name) == ["skipped", "failed", "failed", "failed"])
        #expect(
            RotationOutcome(path: "a", .skipped(ageSeconds: 200_000)).lines == [
                "a: not due, its data key is 2 days old"
            ])
        #expect(CountText.decimal(3.14159, digits: 2) == "3.14" && CountText.decimal(0.996, digits: 1) == "1.0")
        #expect(CountText.decimal(7.5, digits: 0) == "8" && CountText.decimal(-1, digits: 1) == "0.0")
    }

    @Test("progress says phase, speed and what is left")
    func progress() {
        var progress = RotationProgress(.copying)
        #expect(RotationWatch.detail(progress) == "copying")
        progress.pagesDone = 10
        progress.pagesTotal = 40
        progress.bytesPerSecond = 312_400_000
        progress.remaining = .seconds(12)
        #expect(RotationWatch.detail(progress) == "copying, 312 MB/s, 12 s left")
        let expected =
            "{\"progress\": {\"store\": \"a\", \"phase\": \"copying\", \"pages\": 10, \"pages_total\": 40, "
            + "\"bytes_per_second\": 312400000, \"seconds_left\": 12.0}}"
        #expect(RotationWatch.json(progress, "a").text == expected)
    }
}
