import CipherStore
import KeyCustody
import StorePlatform

/// How old the keys of a store are, when it was last saved, and whether its key log holds.
struct KeyHealth {
    let sidecar: Sidecar?
    /// When the data key was made, in seconds since 1970: as the sidecar says, in a direct store as the key log says.
    let keyCreated: UInt64?
    /// When a backup was last verified, as the key log says.
    let backupVerified: UInt64?
    /// What is wrong with the key log.
    let logProblems: [String]
    let now: UInt64

    init(_ paths: StorePaths, _ sidecar: Sidecar?, now: UInt64 = WallClock.secondsSince1970) {
        self.sidecar = sidecar
        self.now = now
        let log = KeyLog(databasePath: paths.database)
        do {
            let audit = try log.verify()
            backupVerified = audit.lastTime(of: .backupVerified)
            logProblems = audit.problems.map { "the key log was changed: \($0)" }
            let rotated = audit.entries.last { ["store-created", "rotation-completed"].contains($0.event) }?.time
            keyCreated = sidecar.map { $0.slotted?.dataKey.created ?? rotated } ?? nil
        } catch {
            backupVerified = nil
            logProblems = ["the key log cannot be read: \(error)"]
            keyCreated = sidecar?.slotted?.dataKey.created
        }
    }

    /// Seconds since the data key was made.
    var keyAge: UInt64? { keyCreated.map(age) }

    /// Seconds since a backup was last verified.
    var backupAge: UInt64? { backupVerified.map(age) }

    var hasRecoverySlot: Bool { sidecar?.slots.contains { $0.kind == .recovery } ?? false }

    /// A clock that was set back must not make an age of centuries.
    private func age(_ time: UInt64) -> UInt64 { now > time ? now - time : 0 }

    /// What is older than it may be.
    func findings(_ policy: KeyPolicy) -> [Finding] {
        var findings: [Finding] = []
        if let bound = policy.keySeconds {
            if let keyAge, keyAge > bound {
                findings.append(
                    Finding(
                        .risk, "keyOld",
                        "the data key is \(AgeText.text(keyAge)) old, and \(AgeText.text(bound)) is the most",
                        remedy: "rotate it: cipherctl rotate"))
            } else if keyAge == nil, policy.isKeyBoundGiven {
                findings.append(
                    Finding(
                        .risk, "keyAgeUnknown", "how old the data key is, neither sidecar nor key log can tell",
                        remedy: "rotate it, which the key log notes: cipherctl rotate"))
            }
        }
        if let bound = policy.backupSeconds {
            if let backupAge, backupAge > bound {
                findings.append(
                    Finding(
                        .risk, "backupOld",
                        "the last verified backup is \(AgeText.text(backupAge)) old, and \(AgeText.text(bound)) is the most",
                        remedy: "cipherctl backup"))
            } else if backupAge == nil {
                findings.append(
                    Finding(
                        .risk, "backupUnknown", "the key log knows of no verified backup", remedy: "cipherctl backup"))
            }
        }
        return findings
            + logProblems.map { Finding(.risk, "keyLogChanged", $0, remedy: "find out who did it: cipherctl key log") }
    }

    /// For people.
    var lines: [String] {
        guard sidecar != nil else { return [] }
        let key = keyAge.map { "\(AgeText.text($0)) old" } ?? "age not known"
        let backup = backupAge.map { "\(AgeText.text($0)) ago" } ?? "none known"
        return ["data key     \(key)", "backup       last verified: \(backup)"]
    }

    /// For programs.
    var json: [JSON.Member] {
        [
            .init(name: "data_key_created", value: .optional(keyCreated) { .int($0) }),
            .init(name: "data_key_age_seconds", value: .optional(keyAge) { .int($0) }),
            .init(name: "backup_verified", value: .optional(backupVerified) { .int($0) }),
            .init(name: "has_recovery_slot", value: .bool(hasRecoverySlot)),
            .init(name: "key_log_sound", value: .bool(logProblems.isEmpty)),
        ]
    }
}
