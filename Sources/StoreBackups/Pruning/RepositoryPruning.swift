import CipherStore
import StoreCrypto
import StorePlatform

/// The result of a prune, or of its dry run.
public struct PruneReport: Sendable {
    /// A backup and the rules that keep it; none for one that is removed.
    public struct Decision: Sendable {
        public let backup: StoredBackup
        public let rules: [RetentionPolicy.Rule]
    }

    /// By store, in the order in which the backups were made.
    public let decisions: [Decision]
    /// The packs, maps, sidecars and key logs that no kept backup needs, and leftovers of killed backups.
    public let objects: Int
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
    /// - Parameter isDryRun: Whether nothing is removed, only reported.
    /// - Throws: `StoreError` `storeInUse` when another process uses the repository for longer than ten seconds;
    ///   `backupDamaged` when a record cannot be read, because its objects are not known then; `sidecarAhead`;
    ///   `CancellationError`; `SystemError`.
    @discardableResult
    public func prune(
        keeping policy: RetentionPolicy, isDryRun: Bool = false, isCancelled: () -> Bool = { false }
    ) throws -> PruneReport {
        let lock = try isDryRun ? place.lockForUse(isWriting: false, isCancelled) : place.lockForRemoval(isCancelled)
        defer { lock.release() }
        let found = try records()
        if let (name, why) = found.damaged.first { throw unreadable(name, why, isAhead: found.hasAhead) }
        let decisions = Self.decisions(found.backups, policy)
        let (kept, removed) = (decisions.filter { !$0.rules.isEmpty }, decisions.filter(\.rules.isEmpty))
        let needed = Set(kept.flatMap { Self.needed(by: $0.backup.record) })
        let unneeded = try [ObjectKind.pack, .blob].flatMap { kind in
            try place.list(kind.rawValue + "/").map(\.name).filter { !needed.contains($0) }
        }
        let now = WallClock.secondsSince1970
        let notices = kept.filter { $0.backup.created > now + 86_400 }.map {
            "The backup \($0.backup.shortID) is from the future: the clock was wrong when it was made, or is wrong now."
        }
        if isDryRun {
            return PruneReport(decisions: decisions, objects: unneeded.count, isDryRun: true, notices: notices)
        }
        if isCancelled() { throw CancellationError() }
        // The records first: a record never names an object that was removed.
        try place.delete(removed.map { ObjectKind.backup.name($0.backup.id) })
        try place.delete(unneeded)
        let uploads = try place.removeUploads()
        return PruneReport(decisions: decisions, objects: unneeded.count + uploads, isDryRun: false, notices: notices)
    }

    private static func decisions(_ backups: [StoredBackup], _ policy: RetentionPolicy) -> [PruneReport.Decision] {
        var decisions: [PruneReport.Decision] = []
        var rest = backups[...]
        while let first = rest.first {
            let ofStore = rest.prefix { $0.storeID == first.storeID }
            rest = rest.dropFirst(ofStore.count)
            let reasons = policy.reasons(ofStore.map { .init(sequence: $0.sequence, created: $0.created) })
            decisions += zip(ofStore, reasons).map { .init(backup: $0, rules: $1) }
        }
        return decisions
    }

    private static func needed(by record: BackupRecord) -> [String] {
        [record.map, record.sidecar, record.keyLog].map(ObjectKind.blob.name)
            + record.packs.map(ObjectKind.pack.name)
    }

    private func unreadable(_ name: String, _ why: String, isAhead: Bool) -> StoreError {
        if isAhead {
            return StoreError(
                .sidecarAhead, what: "The backup repository \"\(place.description)\" has backups of a newer version.",
                why: "The object \(name) \(why).", remedy: "Prune it with the newer version; nothing was removed.")
        }
        return StoreError(
            .backupDamaged, what: "The backup repository \"\(place.description)\" cannot be pruned.",
            why: "The object \(name) \(why), so the objects that it needs are not known.",
            remedy: "If that backup is lost, remove the object by hand, then prune again. Nothing was removed.")
    }
}
