import CipherStore
import Foundation
import TestKit
import Testing

@testable import KeyRotation
@testable import cipherctl

/// Rotations that were killed, and what the command line tells of them and does with them.
@Suite("Rotations that were cut, and cipherctl")
struct InterruptedRotationTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func cut(at point: String) throws {
        let killed = try place.run(
            ["rotate", store, "--no-backup", "--raw-key-file", place.key], environment: ["CIPHERSTORE_CRASH_AT": point])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
    }

    private func status() throws -> CommandRun.Outcome { try place.run(["rotate", store, "--status"]) }

    private func first(_ outcome: CommandRun.Outcome) -> [String: Any] {
        (outcome.json["stores"] as? [[String: Any]])?.first ?? [:]
    }

    // MARK: What ends it

    @Test("before the switch status names what completes and what undoes a rotation, and both is so")
    func beforeTheSwitch() throws {
        try cut(at: "rotationCopied")
        let told = try status()
        #expect(told.status == 2)
        #expect(
            told.output.contains("--resume completes it, --abort or the next opening for writing undoes it"),
            "\(told.output)")
        // An opening for reading alone leaves it as it is.
        _ = try place.ctl("sql", store, "SELECT 1")
        #expect(try status().status == 2)
        #expect(try place.ctl("sql", store, "SELECT 1", "--write").status == 0)
        #expect(try status().output == "\(store): no rotation is pending, epoch 1\n")
    }

    @Test("in the switch the remedy of a refused command is one that completes it")
    func inTheSwitch() throws {
        try cut(at: "rotationRenamed")
        let told = try status()
        #expect(told.status == 2)
        #expect(told.output.contains("--resume or the next opening for writing completes it"), "\(told.output)")
        let refused = try place.ctl("status", store)
        #expect(refused.status == 69 && refused.errors.contains("\"SELECT 1\" --write"), "\(refused.errors)")
        #expect(try place.ctl("sql", store, "SELECT 1", "--write").status == 0)
        #expect(try status().output == "\(store): no rotation is pending, epoch 2\n")
        #expect(try place.ctl("verify", store).status == 0)
    }

    @Test("a dry run tells what is pending, and changes no byte", arguments: ["rotationCopied", "rotationRenamed"])
    func dryRun(point: String) throws {
        try cut(at: point)
        let before = FolderSnapshot(of: place.folder)
        let outcome = try place.ctl("rotate", store, "--dry-run")
        #expect(outcome.status == 2 && outcome.output.contains("was interrupted: --resume"), "\(outcome.output)")
        #expect(outcome.output.contains("nothing was checked or changed"))
        let json = try place.ctl("rotate", store, "--dry-run", "--json")
        #expect(first(json)["result"] as? String == "pending" && first(json)["interrupted"] as? Bool == true)
        #expect(json.json["pending"] as? Int == 1)
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
        #expect(try status().status == 2)
    }

    @Test("a copy that was left is told by dry run and doctor, and stays until the store is opened for writing")
    func leftover() throws {
        try place.write("", to: "s.db-rotating")
        let before = FolderSnapshot(of: place.folder)
        let outcome = try place.ctl("rotate", store, "--dry-run")
        #expect(outcome.status == 2 && outcome.output.contains("was left by a rotation"), "\(outcome.output)")
        let doctor = try place.run(["doctor", store, "--no-key", "--json"])
        #expect(doctor.status == 2 && doctor.output.contains("\"rotationCopy\""), "\(doctor.output)")
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
        #expect(try place.ctl("sql", store, "SELECT 1", "--write").status == 0)
        #expect(!place.exists("s.db-rotating"))
        #expect(try place.run(["doctor", store, "--no-key"]).status == 0)
    }

    @Test("what stands in the copy's place and is none is told by dry run and doctor")
    func planted() throws {
        try FileManager.default.createDirectory(
            atPath: place.path("s.db-rotating"), withIntermediateDirectories: false)
        let outcome = try place.ctl("rotate", store, "--dry-run", "--json")
        #expect(outcome.status == 2 && first(outcome)["can_begin"] as? Bool == false, "\(outcome.output)")
        #expect((first(outcome)["obstacles"] as? [[String: Any]])?.count == 1)
        let doctor = try place.run(["doctor", store, "--no-key", "--json"])
        #expect(doctor.status == 2 && doctor.output.contains("\"rotationBlocked\""), "\(doctor.output)")
        let refused = try place.ctl("rotate", store, "--no-backup")
        #expect(refused.status == 69 && refused.errors.contains("in the way of a rotation"), "\(refused.errors)")
    }

    @Test("the copy of a rotation that was cut is no finding of its own")
    func ownCopy() throws {
        try cut(at: "rotationCopied")
        let doctor = try place.run(["doctor", store, "--no-key", "--json"])
        #expect(doctor.status == 2 && doctor.output.contains("a rotation was interrupted"), "\(doctor.output)")
        #expect(!doctor.output.contains("rotationCopy"))
    }

    // MARK: Several stores

    @Test("status tells each store in its place though others have none, and ends with the worst code")
    func fleetStatus() throws {
        try place.makeStore("t.db")
        try place.write("no store", to: "u.db")
        let paths = ["s.db", "none.db", "u.db", "t.db"].map(place.path)
        let text = try place.run(["rotate"] + paths + ["--status"])
        #expect(text.status == 65, "\(text.errors)")
        #expect(
            text.output == """
                \(paths[0]): no rotation is pending, epoch 1
                \(paths[1]): status not available, noSuchStore
                \(paths[2]): status not available, notEncrypted
                \(paths[3]): no rotation is pending, epoch 1

                """)
        #expect(text.errors.contains("cipherctl: error: \(paths[1]): There is no store"), "\(text.errors)")
        let json = try place.run(["rotate"] + paths + ["--status", "--json"])
        #expect(json.status == 65 && json.json["exit_code"] as? Int == 65)
        let stores = json.json["stores"] as? [[String: Any]] ?? []
        #expect(stores.map { $0["state"] as? String } == ["none", nil, nil, "none"])
        #expect(stores.map { ($0["error"] as? [String: Any])?["exit_code"] as? Int } == [nil, 66, 65, nil])
        try cut(at: "rotationCopied")
        #expect(try place.run(["rotate", paths[0], paths[3], "--status"]).status == 2)
    }

    @Test("with --json every line on standard error is an object, errors of single stores too")
    func errorsAsJSON() throws {
        let paths = [place.path("none.db"), store]
        let outcome = try place.run(["rotate"] + paths + ["--no-backup", "--json", "--raw-key-file", place.key])
        #expect(outcome.status == 66)
        let lines = outcome.errors.split(separator: "\n").map(String.init)
        let objects = lines.compactMap {
            (try? JSONSerialization.jsonObject(with: Data($0.utf8))) as? [String: Any]
        }
        #expect(objects.count == lines.count, "\(outcome.errors)")
        let error = objects.first { $0["error"] != nil }
        #expect(error?["store"] as? String == paths[0])
        #expect((error?["error"] as? [String: Any])?["code"] as? String == "noSuchStore")
    }

    // MARK: Words

    @Test("of a rotation that was only finished no speed is told")
    func finished() {
        var report = RotationReport(fromEpoch: 1, toEpoch: 2)
        report.wasFinished = true
        let lines = RotationOutcome(path: "a", .rotated(report)).lines
        #expect(lines == ["a: epoch 1 -> 2, completed an interrupted rotation", "  took         0.0 s"])
    }

    @Test("a dry run does not count itself among those who have the store open")
    func holders() throws {
        let alone = try place.ctl("rotate", store, "--dry-run", "--json")
        #expect((first(alone)["holders"] as? [Int])?.isEmpty == true, "\(alone.output)")
        let other = try SharedStore.open(at: store, unlockedBy: .rawKeyFile(path: place.key))
        defer { try? other.close() }
        let beside = try place.ctl("rotate", store, "--dry-run", "--json")
        #expect(Set(first(beside)["holders"] as? [Int] ?? []) == [Int(getpid())])
    }
}
