import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreSharing

/// The age of a store's keys and of its last backup, and whether its key log is intact.
package struct KeyHealth: Sendable {
    package let sidecar: Sidecar?
    /// When the data key was made, in seconds since 1970: from the sidecar, for a direct store from the key log.
    package let keyCreated: UInt64?
    /// When a backup was last verified, from the key log.
    package let backupVerified: UInt64?
    /// The problem of the key log.
    package let logProblems: [String]
    /// Why the key log could not be read; nil where it was.
    package let unreadLog: Finding?
    /// The facts that the chain of the key log cannot prove.
    let logNotes: [String]
    /// Whether the key log has no line, or does not exist.
    package let isLogMissing: Bool
    /// The file of the key log.
    private let logName: String
    /// Whether it is the database of a backup, which has no key log.
    private let isBackup: Bool
    /// When the last line of the key log was written.
    private let lastLogged: UInt64?
    /// The identifier of the store of which the key log is; nil where the log does not say it.
    private let loggedStore: String?
    /// The highest epoch in the key log; nil where it records no rotation.
    private let lastEpoch: UInt64?
    let now: UInt64

    package init(_ paths: StorePaths, _ sidecar: Sidecar?, now: UInt64 = WallClock.secondsSince1970) {
        self.sidecar = sidecar
        self.now = now
        isBackup = BackupBundle(holding: paths.database) != nil
        let log = KeyLog(databasePath: paths.database)
        logName = log.path.split(separator: "/").last.map(String.init) ?? log.path
        do {
            let audit = try log.verify()
            backupVerified = audit.lastTime(of: .backupVerified)
            let problems = Self.summary(audit.problems.map(\.description))
            logProblems = problems.map { ["the key log was changed: \($0)"] } ?? []
            logNotes = [sidecar.flatMap { audit.note(onEpoch: $0.epoch) }].compactMap(\.self)
            unreadLog = nil
            isLogMissing = audit.entries.isEmpty && audit.problems.isEmpty
            lastLogged = audit.entries.last?.time
            loggedStore = audit.storeID
            lastEpoch = audit.lastEpoch
            let made = audit.entries.last { ["store-created", "adopted", "rotation-completed"].contains($0.event) }
            // The key of an adopted database is older than its adoption, by nobody knows how much.
            let rotated = made?.event == "adopted" ? nil : made?.time
            keyCreated = sidecar.map { $0.slotted?.dataKey.created ?? rotated } ?? nil
        } catch {
            backupVerified = nil
            logProblems = []
            unreadLog = Self.unreadLog(error)
            logNotes = []
            isLogMissing = false
            lastLogged = nil
            loggedStore = nil
            lastEpoch = nil
            keyCreated = sidecar?.slotted?.dataKey.created
        }
    }

    private static func unreadLog(_ error: any Error) -> Finding {
        if (error as? SystemError)?.isPermission == true {
            return Finding(
                .note, "keyLogUnread",
                "the key log was not checked, because this user may not read it. Its owner and root may (\(error))")
        }
        return Finding(
            .risk, "keyLogUnread", "the key log cannot be read: \(error)",
            remedy: "repair it, or move away what has its name: the next change of keys begins another log")
    }

    /// The first of several problems, and how many more there are: `cipherctl key log` lists them.
    private static func summary(_ problems: [String]) -> String? {
        guard let first = problems.first else { return nil }
        return problems.count == 1 ? first : "\(first), and \(problems.count - 1) more"
    }

    /// Seconds since the data key was made; nil when that is unknown, or in the future.
    package var keyAge: UInt64? { keyCreated.flatMap(age) }

    /// Seconds since a backup was last verified; nil likewise.
    package var backupAge: UInt64? { backupVerified.flatMap(age) }

    /// Whether the time of the data key is in the future: the clock was wrong then, or is wrong now.
    package var isKeyToCome: Bool { keyCreated.map(isToCome) ?? false }

    package var hasRecoverySlot: Bool { sidecar?.slots.contains { $0.kind == .recovery } ?? false }

    /// A clock that was set back must produce neither an age of centuries nor one of zero for years.
    private func age(_ time: UInt64) -> UInt64? { isToCome(time) ? nil : now > time ? now - time : 0 }

    private func isToCome(_ time: UInt64) -> Bool { time > now && time - now > ToolLimits.clockTolerance }

    /// The keys and backups that are older than the policy permits.
    func findings(_ policy: KeyPolicy) -> [Finding] {
        keyFindings(policy) + backupFindings(policy) + clockFindings
            + [unreadLog].compactMap(\.self)
            + logProblems.map { Finding(.risk, "keyLogChanged", $0, remedy: Self.logRemedy) }
            + (mustHaveLog && isLogMissing ? [missingLog] : [])
    }

    private static let logRemedy =
        "find out who did it: cipherctl key log; then accept the log as it is: cipherctl key log STORE --acknowledge"

    private var missingLog: Finding {
        Finding(
            .risk, "keyLogMissing",
            "the key log \"\(logName)\" does not exist, or has no line: it was removed, or could never be written",
            remedy: Self.logRemedy)
    }

    /// Whether the store has had a key log. One that was created without SharedStore, with a `DatabasePool`, has none
    /// until its keys change: it is direct, and has its first key.
    private var mustHaveLog: Bool {
        guard !isBackup, let sidecar, sidecar.state != .creating else { return false }
        return sidecar.slotted != nil || sidecar.epoch > 1
    }

    /// The identifiers of the two stores, where sidecar and key log are those of different ones.
    private var differingStores: (log: String, sidecar: String)? {
        guard !isBackup, let loggedStore, let sidecar, "\(sidecar.storeID)" != loggedStore else { return nil }
        return (loggedStore, "\(sidecar.storeID)")
    }

    /// Whether the key log records a rotation of this store to a later epoch than that of the sidecar.
    var isRotatedSince: Bool {
        guard isOwnSidecar == true, let sidecar, let lastEpoch else { return false }
        return lastEpoch > sidecar.epoch
    }

    /// Whether sidecar and key log are those of one store; nil where that is not known.
    var isOwnSidecar: Bool? {
        guard let loggedStore, let sidecar else { return nil }
        return "\(sidecar.storeID)" == loggedStore
    }

    /// The finding about a sidecar, authenticated by no key, that is not of the store of the key log; nil for none.
    package func foreignSidecar(_ path: String) -> Finding? {
        differingStores.map { stores in
            Finding(
                .problem, "foreignSidecar",
                "the sidecar is that of store \(stores.sidecar), and the key log that of store \(stores.log): one of the two "
                    + "belongs to another store",
                remedy: StoreError.sidecarRemedy(StorePaths(path).database)
                    + " To see which of the two it is, try the key of this store: `cipherctl key test "
                    + "\(ShellWord.path(path))`")
        }
    }

    /// The finding about a key log that is not of the store, where a key has proved sidecar and pages; nil for none.
    var foreignLog: Finding? {
        differingStores.map { stores in
            Finding(
                .risk, "foreignKeyLog",
                "the key log is that of another store (\(stores.log)); the sidecar and the pages are those of store "
                    + "\(stores.sidecar)",
                remedy: "bring back the store's own key log, or move this one away: the next change of keys begins "
                    + "another")
        }
    }

    /// A description of the key log, for people.
    package var logLine: String {
        if !logProblems.isEmpty { return "changed" }
        if unreadLog != nil { return "not readable" }
        if isLogMissing { return "none" }
        if differingStores != nil { return "that of another store, or the sidecar is" }
        return logNotes.isEmpty ? "sound" : "older than the sidecar"
    }

    /// The command that gives the store another data key. A direct store needs a new key for that.
    private var rotation: String {
        let isDirect = sidecar.map { $0.slotted == nil } ?? false
        return "cipherctl rotate --backup DIR" + (isDirect ? " --new-key-file F" : "")
    }

    private func keyFindings(_ policy: KeyPolicy) -> [Finding] {
        var findings: [Finding] = []
        if let bound = policy.keySeconds {
            if let keyAge, keyAge > bound {
                findings.append(
                    Finding(
                        .risk, "keyOld",
                        "the data key is \(AgeText.text(keyAge)) old, and at most \(AgeText.text(bound)) is allowed",
                        remedy: "rotate it: \(rotation)"))
            } else if keyCreated == nil, policy.isKeyBoundGiven {
                findings.append(
                    Finding(
                        .risk, "keyAgeUnknown",
                        "the age of the data key is known neither from the sidecar nor from the key log",
                        remedy: "rotate it, which the key log records: \(rotation)"))
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
                        "the last verified backup is \(AgeText.text(backupAge)) old, and at most "
                            + "\(AgeText.text(bound)) is allowed",
                        remedy: "cipherctl backup"))
            } else if backupVerified == nil {
                findings.append(
                    Finding(
                        .risk, "backupUnknown", "the key log records no verified backup", remedy: "cipherctl backup"))
            }
        }
        return findings
    }

    /// Times in the future: ages that are counted from them mean nothing.
    private var clockFindings: [Finding] {
        let times = [
            ("the data key", keyCreated, "rotate the key: \(rotation)"),
            ("the last verified backup", backupVerified, "make another backup: cipherctl backup"),
            ("the last line of the key log", lastLogged, "make a backup, which adds a line: cipherctl backup"),
        ]
        // One is enough: the clock must be checked, not all three times.
        for case (let what, let time?, let remedy) in times where isToCome(time) {
            return [
                Finding(
                    .risk, "timeToCome",
                    "\(what) has a time in the future, "
                        + "\(WallClock.utc(time)): its age is not known",
                    remedy: "set the clock of this machine; if it is right, the clock was wrong then: \(remedy)")
            ]
        }
        return []
    }
}

/// How old a data key and the last verified backup may become before they need attention.
public struct KeyPolicy: Equatable, Sendable {
    /// How old the data key may be, in seconds; nil for no bound.
    public var keySeconds: UInt64? = KeyPolicy.usualKeySeconds
    /// How long ago the last backup may have been verified, in seconds; nil for no bound.
    public var backupSeconds: UInt64?
    /// Whether the bound of the key was set explicitly: then an unknown age needs attention too.
    public var isKeyBoundGiven = false

    /// Two years, the longest time for which NIST SP 800-57 (part 1, 5.3.6) lets one key encrypt data.
    public static let usualKeySeconds: UInt64 = 2 * 31_536_000

    /// The usual bound for the key, and none for backups.
    public init() {}
}

/// Durations as people write them: `90d`, `12h`, `2w`.
package enum AgeText {
    private static let units: [Character: Int] = [
        "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000,
    ]
    private static let digits = 1...6

    /// Whole seconds; nil when the text is not such a duration.
    package static func seconds(_ text: String) -> UInt64? {
        guard let last = text.last, let unit = units[last] else { return nil }
        let number = text.dropLast()
        guard digits.contains(number.count), number.allSatisfy({ $0.isASCII && $0.isNumber }), let count = Int(number)
        else { return nil }
        return UInt64(count * unit)
    }

    /// The duration in the largest unit of which there are two or more.
    package static func text(_ seconds: UInt64) -> String {
        let names = [(86_400, "days"), (3600, "hours"), (60, "minutes")] as [(UInt64, String)]
        for (unit, name) in names where seconds >= 2 * unit { return "\(seconds / unit) \(name)" }
        return "\(CountText.text(seconds, "second"))"
    }
}
