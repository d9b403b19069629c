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
    /// What the key log cannot show by its chain.
    let logNotes: [String]
    /// Whether there is no line in it, or no log.
    let isLogMissing: Bool
    /// Whether it is the database of a backup, beside which no log is kept.
    private let isBackup: Bool
    /// When the last line of the key log was written.
    private let lastLogged: UInt64?
    let now: UInt64

    /// How far the clocks of machines may be apart before a time counts as one that is still to come.
    static let clockTolerance: UInt64 = 300

    init(_ paths: StorePaths, _ sidecar: Sidecar?, now: UInt64 = WallClock.secondsSince1970) {
        self.sidecar = sidecar
        self.now = now
        isBackup = BackupBundle(holding: paths.database) != nil
        let log = KeyLog(databasePath: paths.database)
        do {
            let audit = try log.verify()
            backupVerified = audit.lastTime(of: .backupVerified)
            logProblems = audit.problems.map { "the key log was changed: \($0)" }
            logNotes = [sidecar.flatMap { audit.note(onEpoch: $0.epoch) }].compactMap(\.self)
            isLogMissing = audit.entries.isEmpty && audit.problems.isEmpty
            lastLogged = audit.entries.last?.time
            let rotated = audit.entries.last { ["store-created", "rotation-completed"].contains($0.event) }?.time
            keyCreated = sidecar.map { $0.slotted?.dataKey.created ?? rotated } ?? nil
        } catch {
            backupVerified = nil
            logProblems = ["the key log cannot be read: \(error)"]
            logNotes = []
            isLogMissing = false
            lastLogged = nil
            keyCreated = sidecar?.slotted?.dataKey.created
        }
    }

    /// Seconds since the data key was made; nil when nobody knows, also because that time is still to come.
    var keyAge: UInt64? { keyCreated.flatMap(age) }

    /// Seconds since a backup was last verified; nil likewise.
    var backupAge: UInt64? { backupVerified.flatMap(age) }

    /// Whether the data key has a time that is still to come: the clock was wrong then, or is wrong now.
    var isKeyToCome: Bool { keyCreated.map(isToCome) ?? false }

    var hasRecoverySlot: Bool { sidecar?.slots.contains { $0.kind == .recovery } ?? false }

    /// A clock that was set back must not make an age of centuries, nor of zero for years to come.
    private func age(_ time: UInt64) -> UInt64? { isToCome(time) ? nil : now > time ? now - time : 0 }

    private func isToCome(_ time: UInt64) -> Bool { time > now && time - now > Self.clockTolerance }

    /// What is older than it may be.
    func findings(_ policy: KeyPolicy) -> [Finding] {
        keyFindings(policy) + backupFindings(policy) + clockFindings
            + logProblems.map { Finding(.risk, "keyLogChanged", $0, remedy: Self.logRemedy) }
            + (mustHaveLog && isLogMissing ? [Self.missingLog] : [])
    }

    private static let logRemedy =
        "find out who did it: cipherctl key log; then take the log as it is: cipherctl key log STORE --acknowledge"

    private static let missingLog = Finding(
        .risk, "keyLogMissing", "there is no key log, or no line in it: it was removed, or could never be written",
        remedy: logRemedy)

    /// Whether the store has had a key log. One that was made by hand with a `DatabasePool` has none until its keys change:
    /// it is direct, and has its first key.
    private var mustHaveLog: Bool {
        guard !isBackup, let sidecar, sidecar.state != .creating else { return false }
        return sidecar.slotted != nil || sidecar.epoch > 1
    }

    /// What the key log looks like, for people.
    var logLine: String {
        if !logProblems.isEmpty { return "changed" }
        if isLogMissing { return "none" }
        return logNotes.isEmpty ? "sound" : "behind the sidecar"
    }

    private func keyFindings(_ policy: KeyPolicy) -> [Finding] {
        var findings: [Finding] = []
        if let bound = policy.keySeconds {
            if let keyAge, keyAge > bound {
                findings.append(
                    Finding(
                        .risk, "keyOld",
                        "the data key is \(AgeText.text(keyAge)) old, and \(AgeText.text(bound)) is the most",
                        remedy: "rotate it: cipherctl rotate"))
            } else if keyCreated == nil, policy.isKeyBoundGiven {
                findings.append(
                    Finding(
                        .risk, "keyAgeUnknown", "how old the data key is, neither sidecar nor key log can tell",
                        remedy: "rotate it, which the key log notes: cipherctl rotate"))
            }
        }
        return findings
    }

    private func backupFindings(_ policy: KeyPolicy) -> [Finding] {
        var findings: [Finding] = []
        if let bound = policy.backupSeconds {
            if let backupAge, backupAge > bound {
                findings.append(
                    Finding(
                        .risk, "backupOld",
                        "the last verified backup is \(AgeText.text(backupAge)) old, and \(AgeText.text(bound)) is the most",
                        remedy: "cipherctl backup"))
            } else if backupVerified == nil {
                findings.append(
                    Finding(
                        .risk, "backupUnknown", "the key log knows of no verified backup", remedy: "cipherctl backup"))
            }
        }
        return findings
    }

    /// Times that are still to come: ages that are counted from them say nothing.
    private var clockFindings: [Finding] {
        let times = [
            ("the data key", keyCreated), ("the last verified backup", backupVerified),
            ("the last line of the key log", lastLogged),
        ]
        // One is enough: the clock is to be looked at, not the three.
        for case (let what, let time?) in times where isToCome(time) {
            return [
                Finding(
                    .risk, "timeToCome",
                    "\(what) has a time that is still to come, \(SlotReport.moment(time)): its age cannot be told",
                    remedy: "set the clock of this machine; if it is right, the clock was wrong then: rotate the key")
            ]
        }
        return []
    }

    /// For people.
    var lines: [String] {
        guard sidecar != nil else { return [] }
        let key = keyAge.map { "\(AgeText.text($0)) old" } ?? "age not known"
        let unknown = backupVerified == nil ? "none known" : "at a time still to come"
        let backup = backupAge.map { "\(AgeText.text($0)) ago" } ?? unknown
        return ["data key     \(key)", "backup       last verified: \(backup)", "key log      \(logLine)"]
    }

    /// For programs.
    var json: [JSON.Member] {
        [
            .init(name: "data_key_created", value: .optional(keyCreated) { .int($0) }),
            .init(name: "data_key_age_seconds", value: .optional(keyAge) { .int($0) }),
            .init(name: "backup_verified", value: .optional(backupVerified) { .int($0) }),
            .init(name: "has_recovery_slot", value: .bool(hasRecoverySlot)),
            .init(name: "key_log_sound", value: .bool(logProblems.isEmpty)),
            .init(name: "key_log_missing", value: .bool(isLogMissing)),
        ]
    }
}
