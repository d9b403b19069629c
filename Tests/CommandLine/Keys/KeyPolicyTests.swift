import CipherStore
import Foundation
import StoreSharing
import Testing

@testable import KeyCustody
@testable import StoreTools
@testable import cipherctl

@Suite("Ages of keys and backups")
struct KeyPolicyTests {
    @Test("lengths of time are read as people write them, and nothing else is")
    func ages() {
        #expect(AgeText.seconds("90d") == 7_776_000 && AgeText.seconds("12h") == 43_200)
        #expect(AgeText.seconds("2w") == 1_209_600 && AgeText.seconds("1y") == 31_536_000 && AgeText.seconds("0s") == 0)
        for wrong in ["", "d", "90", "-1d", "1.5d", "90 d", "90D", "1234567d", "٣d", "1dd"] {
            #expect(AgeText.seconds(wrong) == nil, "\(wrong)")
        }
        #expect(
            AgeText.text(59) == "59 seconds" && AgeText.text(7200) == "2 hours" && AgeText.text(200_000) == "2 days")
    }

    private func policy(_ arguments: [String], _ variables: [String: String] = [:]) throws -> KeyPolicy {
        let syntax = CommandSyntax(name: "try", summary: "", operands: [], options: KeyPolicy.options, examples: [])
        return try KeyPolicy(ParsedArguments(arguments, syntax: syntax)) { variables[$0].map { Array($0.utf8) } }
    }

    @Test("options come before variables, and both before what is usual")
    func precedence() throws {
        #expect(try policy([]).keySeconds == KeyPolicy.usualKeySeconds)
        #expect(try !policy([]).isKeyBoundGiven && policy([]).backupSeconds == nil)
        let variables = ["CIPHERSTORE_MAX_KEY_AGE": "10d", "CIPHERSTORE_MAX_BACKUP_AGE": "1d"]
        #expect(try policy([], variables).keySeconds == 864_000 && policy([], variables).backupSeconds == 86_400)
        #expect(try policy(["--max-key-age", "5d"], variables).keySeconds == 432_000)
        #expect(try policy(["--max-key-age", "none"], variables).keySeconds == nil)
        #expect(throws: UsageError.self) { try policy(["--max-backup-age", "soon"]) }
        #expect(throws: UsageError.self) { try policy([], ["CIPHERSTORE_MAX_KEY_AGE": "soon"]) }
    }

    private func run(
        _ place: Workplace, _ command: String, _ options: [String] = [], environment: [String: String] = [:]
    ) throws -> CommandRun.Outcome {
        try place.run([command, place.path("s.db"), "--no-key", "--json"] + options, environment: environment)
    }

    @Test("a fresh store is fine; a bound that it does not meet, and a backup that nobody made, need attention")
    func fresh() throws {
        let place = try Workplace()
        try place.makeStore()
        for command in ["status", "doctor"] {
            #expect(try run(place, command).status == 0)
            #expect(try run(place, command, ["--max-key-age", "1h"]).status == 0)
            let backup = try run(place, command, ["--max-backup-age", "30d"])
            #expect(backup.status == 2 && backup.output.contains("no verified backup"), "\(backup.output)")
            let variable = try run(place, command, environment: ["CIPHERSTORE_MAX_BACKUP_AGE": "30d"])
            #expect(variable.status == 2)
            #expect(try run(place, command, ["--max-key-age", "later"]).status == 64)
        }
        // A direct store whose creation nobody logged has no age: a concern only where a bound was asked for.
        #expect(try place.ctl("create", place.path("d.db"), "--scheme", "direct").status == 0)
        if place.exists("d.db-keylog") { try place.remove("d.db-keylog") }
        #expect(try place.run(["status", place.path("d.db"), "--no-key"]).status == 0)
        #expect(try place.run(["status", place.path("d.db"), "--no-key", "--max-key-age", "1d"]).status == 2)
    }

    @Test("what the key log says of backups counts, and a changed log is told")
    func backups() throws {
        let place = try Workplace()
        try place.makeStore()
        try KeyLog(databasePath: place.path("s.db")).record(.backupVerified)
        let sound = try run(place, "status", ["--max-backup-age", "1d"])
        #expect(sound.status == 0 && sound.json["backup_verified"] is Int, "\(sound.output)")
        #expect(sound.json["data_key_age_seconds"] is Int && sound.json["key_log_sound"] as? Bool == true)
        let metrics = try place.run(["status", place.path("s.db"), "--no-key", "--openmetrics"]).output
        #expect(metrics.contains("\ncipherstore_data_key_age_seconds{") && metrics.contains("\ncipherstore_key_slots{"))
        #expect(
            metrics.contains("\ncipherstore_backup_age_seconds{") && metrics.contains("\ncipherstore_rotation_pending{")
        )
        let log = String(decoding: try place.bytes("s.db-keylog"), as: UTF8.self)
        try place.write(log.replacing("backup-verified", with: "backup-made"), to: "s.db-keylog")
        let changed = try run(place, "status")
        #expect(changed.status == 2 && changed.output.contains("the key log was changed"), "\(changed.output)")
        #expect(try run(place, "doctor").output.contains("keyLogChanged"))
    }

    @Test("ages are counted from what sidecar and log say; of a time in the future there is none")
    func health() throws {
        let place = try Workplace()
        try place.makeStore()
        let paths = StorePaths(place.path("s.db"))
        let sidecar = try #require(SidecarFiles(databasePath: paths.database).read().main.parsed?.claimed)
        let created = try #require(sidecar.slotted?.dataKey.created)
        func findings(_ now: UInt64, _ policy: KeyPolicy) -> [String] {
            KeyHealth(paths, sidecar, now: now).findings(policy).map(\.name)
        }
        let usual = try policy([])
        #expect(findings(created + KeyPolicy.usualKeySeconds, usual) == [])
        #expect(findings(created + KeyPolicy.usualKeySeconds + 1, usual) == ["keyOld"])
        // Clocks of machines differ a little.
        #expect(findings(created - 60, usual) == [] && KeyHealth(paths, sidecar, now: created - 60).keyAge == 0)
        let early = created - ToolLimits.clockTolerance - 1
        #expect(findings(early, usual) == ["timeToCome"] && KeyHealth(paths, sidecar, now: early).keyAge == nil)
        #expect(KeyHealth(paths, sidecar, now: early).lines.first == "data key     age not known")
        #expect(
            try findings(created + 86_401, policy(["--max-key-age", "1d", "--max-backup-age", "1d"]))
                == ["keyOld", "backupUnknown"])
    }

    @Test("a key whose time is still to come is told, and a rotation by age leaves it alone and says so")
    func timeToCome() throws {
        let place = try Workplace()
        let store = place.path("s.db")
        #expect(try place.ctl("create", store, "--scheme", "direct").status == 0)
        // The age of the key of a direct store is that of its log.
        let later = UInt64(Date().timeIntervalSince1970) + 40_000_000
        let entry = try KeyLogEntry(
            .storeCreated(scheme: "direct"), number: 1, after: KeyLogEntry.beginning, now: later)
        try place.remove("s.db-keylog")
        try place.write(entry.line + "\n", to: "s.db-keylog")
        for command in ["status", "doctor"] {
            let told = try run(place, command)
            #expect(told.status == 2 && told.output.contains("a time in the future"), "\(told.output)")
        }
        #expect(try run(place, "doctor").output.contains("\"timeToCome\""))
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
        let arguments = [
            "rotate", store, "--no-backup", "--raw-key-file", place.key, "--new-raw-key-file", place.path("second.key"),
        ]
        let text = try place.run(arguments + ["--if-older-than", "90d"])
        #expect(
            text.status == 2 && text.output.contains("it is not known whether it is due"),
            "\(text.output)\(text.errors)"
        )
        let json = try place.run(arguments + ["--if-older-than", "90d", "--json"])
        #expect(json.status == 2 && json.json["not_checked"] as? Int == 1, "\(json.output)")
        #expect(try place.ctl("key", "test", store).status == 0)
        #expect(try place.run(arguments).status == 0)
        #expect(try place.ctl("key", "test", store, key: place.path("second.key")).status == 0)
    }
}
