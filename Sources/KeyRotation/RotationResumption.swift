import CipherDatabase
import CipherStore
import KeyCustody
import RotationCore
import StorePlatform
import StoreSharing

/// The steps before an interrupted rotation is resumed: the admin lock, its keys, its leftovers, the preflight, the
/// backup.
struct RotationResumption {
    let paths: StorePaths
    /// Unlocked with the present key.
    let journal: RotationJournal
    /// Returns that key again.
    let source: KeySource
    /// The new key of a direct store, if given.
    let newKey: Secret?
    let configuration: Configuration
    let options: KeyRotation.Options
    let reporter: ProgressReporter
    let isCancelled: @Sendable () -> Bool

    /// - Returns: nil when no rotation was pending.
    func run() throws -> RotationReport? {
        let admin = try KeyRotation.takeAdmin(paths, isCancelled: isCancelled)
        defer { admin.release() }
        guard let rotation = try journal.rotation() else { return nil }
        if rotation.sidecar.state == .switching {
            try requireMode(of: rotation)
            // Released as in an opening: the recovery acquires the admin lock itself.
            admin.release()
            return try finish(rotation)
        }
        guard let keys = try rotation.keys else {
            throw StoreError.noPendingKeys(paths.database, hasPresent: rotation.present != nil)
        }
        try requireMode(of: rotation)
        // No key is derived again: all processes wait while the journal writes in the switch.
        let known = RotationJournal(databasePath: paths.database, resuming: keys)
        // While the admin lock is held, an opening considers the rotation running and does not change it.
        var configuration = configuration
        configuration.isOpeningCancelled = isCancelled
        configuration.requiresStore = true
        let store = try SharedStore.open(at: paths.database, unlockedBy: source, configuration: configuration)
        defer { try? store.close() }
        return try RotationRun(
            paths: paths, storeKeys: keys.current, journal: known, options: options, epoch: keys.nextEpoch - 1,
            reporter: reporter, isCancelled: isCancelled,
            examine: { run in
                try examine(store, run)
                return .pending(keys)
            }
        ).run()
    }

    private func examine(_ store: SharedStore, _ run: RotationRun) throws {
        // The pages are copied again and need the space.
        try RotationCopy.removeLeftover(of: paths)
        run.report.notices += try RotationPreflight(store, options, checksMode: false, isCancelled: isCancelled)
            .require(reporter)
        run.report.backupPath = try options.backUp(store, reporter, isCancelled: isCancelled)
    }

    /// Completes a switch with the keys of both epochs. The former key of a direct store does not open it afterwards,
    /// and the new key alone could not undo a switch whose copy is lost. No key is derived again.
    private func finish(_ rotation: PendingRotation) throws -> RotationReport {
        let begin = ContinuousClock.now
        let both = try rotation.keys
        let unlock: @Sendable (Sidecar) -> SidecarKeys? = { sidecar in
            if let both { return sidecar.epoch < both.nextEpoch ? both.current : both.next }
            return rotation.present ?? rotation.next
        }
        let (outcome, wasSettledHere) = try settle(rotation, unlock)
        var epoch = outcome.completedEpoch
        if epoch == nil && !wasSettledHere {
            // Another process was faster.
            let files = SidecarFiles(databasePath: paths.database)
            epoch = try files.choose(files.read(), unlock: unlock)?.sidecar.epoch
        }
        // Its copy was lost, and the rotation was undone.
        guard let epoch, epoch > rotation.sidecar.epoch else {
            throw StoreError.switchUndone(paths.database, outcome.notices)
        }
        var report = RotationReport(fromEpoch: rotation.sidecar.epoch, toEpoch: rotation.sidecar.epoch + 1)
        report.wasFinished = true
        report.removedSlots = rotation.sidecar.slotsDroppedByRotation.map(StoreKeys.Slot.init)
        report.notices = outcome.notices
        if options.backupFolder != nil {
            report.notices.append("No backup was made: the switch had begun and could only be completed.")
        }
        report.duration = .now - begin
        return report
    }

    /// - Returns: The outcome, and whether this process has changed anything.
    /// - Throws: An error that says the ``CommitStatus``, where a step failed.
    private func settle(
        _ rotation: PendingRotation, _ unlock: @escaping @Sendable (Sidecar) -> SidecarKeys?
    ) throws -> (outcome: RotationRecovery.Outcome, hasBegun: Bool) {
        // nil until something is changed.
        var status: CommitStatus?
        do {
            let watch = LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait)
            let question = try watch.question(about: LockFile(path: paths.lock, likeFile: paths.database))
            let outcome = try RotationRecovery.settle(
                paths, isCancelled: question, onStatus: { status = $0 }, unlock: unlock)
            return (outcome, status != nil)
        } catch let error as StoreError {
            // This error says already which of the two keys must be kept.
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            let failed = FailedRotation(
                path: paths.database, toEpoch: rotation.sidecar.epoch + 1, isDirect: rotation.sidecar.slotted == nil)
            throw status.map { failed.error(error, at: $0) } ?? failed.untouched(error)
        }
    }

    // MARK: The mode

    /// Compares the requested mode with that of the rotation, which is fixed.
    private func requireMode(of rotation: PendingRotation) throws {
        guard rotation.sidecar.slotted != nil else { return try requireNewKey(rotation) }
        switch options.mode {
        case .newDataKey: break
        case .compromised:
            if rotation.sidecar.pending?.table == nil { throw StoreError.masterKeyStays(paths.database) }
        case .newKey: throw StoreError.takesNoNewKey(paths.database)
        }
    }

    /// After the switch a direct store opens with the new key alone, so the caller must prove that this key is not
    /// lost.
    private func requireNewKey(_ rotation: PendingRotation) throws {
        let isSwitching = rotation.sidecar.state == .switching
        guard let newKey else { throw StoreError.newKeyNotGiven(paths.database, isSwitching: isSwitching) }
        guard let successor = rotation.sidecar.successor, let pending = try rotation.nextDataKey,
            try newKey.dataKey(salt: successor.salt, settings: successor.settings).isEqual(to: pending)
        else { throw StoreError.otherNewKey(paths.database, isSwitching: isSwitching) }
    }
}

extension RotationJournal {
    /// A journal for a rotation whose keys are known.
    fileprivate convenience init(databasePath: String, resuming keys: RotationKeys) {
        self.init(databasePath: databasePath) { $0.epoch < keys.nextEpoch ? keys.current : keys.next }
    }
}
