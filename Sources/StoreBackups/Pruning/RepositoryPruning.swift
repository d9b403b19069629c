import CipherStore
import StoreCrypto
import StorePlatform

/// The result of a prune, or of its dry run.
public struct PruneReport: Sendable {
    /// Whether the rules count a backup. One that they do not count is kept.
    public enum Standing: Hashable, Sendable {
        case counted
        /// No key was given, and another user may have written the record.
        case unproven
        /// The key has not authenticated the record: it is forged, of another store, or of a time with other keys.
        case notAuthentic
    }

    /// A backup, and whether it is kept.
    public struct Decision: Sendable {
        public let backup: StoredBackup
        public let standing: Standing
        /// The rules that keep it. None keeps a backup that is not counted.
        public let rules: [RetentionPolicy.Rule]

        /// Whether it stays.
        public var isKept: Bool { standing != .counted || !rules.isEmpty }
    }

    /// By store, in the order in which the backups were made.
    public let decisions: [Decision]
    /// The packs, maps, sidecars and key logs that no kept backup needs, and leftovers of killed backups.
    public let objects: Int
    /// The bases of replicas that are kept, and those that no kept moment needs.
    public let bases: (kept: Int, removed: Int)
    /// Whether nothing was removed.
    public let isDryRun: Bool
    /// Notices that are not failures: one sentence each.
    public let notices: [String]
}

extension BackupRepository {
    /// Removes the backups that no rule keeps, then all objects that no backup needs.
    ///
    /// The newest backup of each store is always kept. No backup, restoration or verification runs meanwhile: the prune
    /// waits for them, and they wait for it. If it is interrupted, every backup is there or not, and the next prune
    /// removes the rest.
    ///
    /// | | counted | kept, and not counted |
    /// |---|---|---|
    /// | without a key | records that this user, root or the owner of the repository has written | the other ones |
    /// | with a key | records that it authenticates, of any user | the other ones |
    ///
    /// So a member of the group without the key cannot make a record that takes the place of a backup.
    ///
    /// - Parameters:
    ///   - source: A key of the stores, which is read once, before the repository is locked.
    ///   - isDryRun: Whether nothing is removed, only reported.
    /// - Throws: `StoreError` `storeInUse` when another process uses the repository for longer than ten seconds;
    ///   `backupDamaged` when a record that another user cannot have written is unreadable, because its objects are not
    ///   known then; `sidecarAhead`; `wrongKey` where the key authenticates no record; `CancellationError`; `SystemError`.
    @discardableResult
    public func prune(
        keeping policy: RetentionPolicy, unlockedBy source: KeySource? = nil, isDryRun: Bool = false,
        isCancelled: () -> Bool = { false }
    ) throws -> PruneReport {
        let material = try source?.read()
        let lock = try isDryRun ? place.lockForUse(isWriting: false, isCancelled) : place.lockForRemoval(isCancelled)
        defer { lock.release() }
        let found = try records()
        let unreadable = found.damaged.filter { !$0.isUnproven }
        if let damage = unreadable.first(where: \.isAhead) ?? unreadable.first { throw refusal(damage) }
        var notices = found.damaged.map {
            "The object \($0.name) \($0.why). Another user may have put it there, so its pages are not kept."
        }
        let authenticated = try material.map { try authentication(of: found.backups, by: $0) }
        if let authenticated {
            guard !authenticated.authentic.isEmpty || found.backups.isEmpty else {
                throw opensNothing("Give a key that a store had when it was backed up. Nothing was removed.")
            }
            notices += authenticated.problems.map { "The backup \($0.object) is not counted. \($0.sentence)" }
        }
        let decisions = Self.decisions(found.backups, policy) { backup in
            if let authenticated { return authenticated.authentic.contains(backup.id) ? .counted : .notAuthentic }
            return backup.isUnproven ? .unproven : .counted
        }
        let replicas = try replicaPruning(keepingSeconds: policy.continuousSeconds)
        let needed = replicas.needed.union(decisions.filter(\.isKept).flatMap { Self.needed(by: $0.backup.record) })
        let unneeded = try [ObjectKind.pack, .blob].flatMap { kind in
            try place.removable(kind.rawValue + "/").filter { ObjectKind.isName($0) && !needed.contains($0) }
        }
        notices += Self.notices(decisions) + replicas.notices
        let segments = replicas.segments.count
        if isDryRun {
            return PruneReport(
                decisions: decisions, objects: unneeded.count + segments, bases: replicas.counts, isDryRun: true,
                notices: notices)
        }
        if isCancelled() { throw CancellationError() }
        // Records and bases first: neither ever names an object that was removed.
        try place.delete(replicas.bases)
        try place.delete(replicas.segments)
        try place.delete(decisions.filter { !$0.isKept }.map { ObjectKind.backup.name($0.backup.id) })
        let left = try place.deleteUnneeded(unneeded)
        if left > 0 {
            notices.append("\(CountText.text(left, "object")) of another user stayed: the system refused the removal.")
        }
        return PruneReport(
            decisions: decisions, objects: unneeded.count - left + segments + (try place.removeUploads()),
            bases: replicas.counts, isDryRun: false, notices: notices)
    }

    private static func decisions(
        _ backups: [StoredBackup], _ policy: RetentionPolicy, _ standing: (StoredBackup) -> PruneReport.Standing
    ) -> [PruneReport.Decision] {
        var decisions: [PruneReport.Decision] = []
        var rest = backups[...]
        while let first = rest.first {
            let ofStore = rest.prefix { $0.storeID == first.storeID }
            rest = rest.dropFirst(ofStore.count)
            let standings = ofStore.map(standing)
            let counted = zip(ofStore, standings).filter { $1 == .counted }.map(\.0)
            var reasons = policy.reasons(counted.map { .init(sequence: $0.sequence, created: $0.created) })[...]
            decisions += zip(ofStore, standings).map { backup, standing in
                .init(
                    backup: backup, standing: standing,
                    rules: standing == .counted ? reasons.popFirst() ?? RetentionPolicy.Rule.allCases : [])
            }
        }
        return decisions
    }

    private static func notices(_ decisions: [PruneReport.Decision]) -> [String] {
        let unproven = decisions.filter { $0.standing == .unproven }.map(\.backup)
        let now = WallClock.secondsSince1970
        let future = decisions.filter { $0.isKept && $0.standing == .counted && $0.backup.created > now + 86_400 }
        return
            (unproven.isEmpty
            ? []
            : [
                "\(CountText.text(unproven.count, "record")) may be of another user: \(names(unproven)). Without a key they "
                    + "are kept and not counted; with a key (--key-file F) each genuine one counts."
            ])
            + future.map {
                "The backup \($0.backup.shortID) is from the future: the clock was wrong when it was made, or is wrong now."
            }
    }

    private static func needed(by record: BackupRecord) -> [String] {
        [record.map, record.sidecar, record.keyLog].map(ObjectKind.blob.name)
            + record.packs.map(ObjectKind.pack.name)
    }

    func refusal(_ damage: Records.Damage) -> StoreError {
        if damage.isAhead {
            return StoreError(
                .sidecarAhead, what: "The backup repository \"\(place.description)\" has backups of a newer version.",
                why: "The object \(damage.name) \(damage.why).",
                remedy: "Prune it with the newer version; nothing was removed.")
        }
        return StoreError(
            .backupDamaged, what: "The backup repository \"\(place.description)\" cannot be pruned.",
            why: "The object \(damage.name) \(damage.why), so the objects that it needs are not known.",
            remedy: "If that backup is lost, remove the object by hand, then prune again. Nothing was removed.")
    }
}
