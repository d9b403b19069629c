import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform

/// What comes before a rotation that was cut is gone on with: the lock, its keys, what it has left, the preflight, the
/// backup.
struct RotationResumption {
    let paths: StorePaths
    /// By the present key.
    let ledger: RotationLedger
    /// Gives that key again.
    let source: KeySource
    /// The new key of a direct store, where it was given.
    let newKey: Secret?
    let configuration: Configuration
    let options: KeyRotation.Options
    let teller: ProgressTeller
    let isCancelled: @Sendable () -> Bool

    /// - Returns: nil when no rotation was pending.
    func run() throws -> RotationReport? {
        let admin = try KeyRotation.takeAdmin(paths, isCancelled: isCancelled)
        defer { admin.release() }
        guard let rotation = try ledger.rotation() else { return nil }
        if rotation.sidecar.state == .switching {
            try requireAim(of: rotation)
            // As an opening does, which takes the lock of rotations itself.
            admin.release()
            return try finish(rotation)
        }
        guard let keys = try rotation.keys else {
            throw StoreError.noPendingKeys(paths.database, hasPresent: rotation.present != nil)
        }
        try requireAim(of: rotation)
        // Nothing is derived again: everybody waits for what the ledger writes in the switch.
        let known = RotationLedger(databasePath: paths.database, resuming: keys)
        // While the lock is held an opening takes the rotation for one that runs, and leaves it alone.
        var configuration = configuration
        configuration.isOpeningCancelled = isCancelled
        let store = try SharedStore.open(at: paths.database, unlockedBy: source, configuration: configuration)
        defer { try? store.close() }
        return try RotationRun(
            paths: paths, storeKeys: keys.current, ledger: known, options: options, epoch: keys.nextEpoch - 1,
            teller: teller, isCancelled: isCancelled, examine: { run in try examine(store, run) },
            announce: { _ in keys }
        ).run()
    }

    private func examine(_ store: SharedStore, _ run: RotationRun) throws {
        // Its pages are copied anew, and need the room.
        try RotationCopy.removeLeftover(of: paths)
        try RotationPreflight(store, options, judgesAim: false, isCancelled: isCancelled).require(teller)
        run.report.backupPath = try options.backUp(store, teller, isCancelled: isCancelled)
    }

    /// Finishes a switch by the keys of both epochs: the former key of a direct store opens it no more afterwards, and the
    /// new one alone could not undo a switch whose copy is lost. Nothing is derived again.
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
            // Somebody else was faster.
            let files = SidecarFiles(databasePath: paths.database)
            epoch = try files.choose(files.read(), unlock: unlock)?.sidecar.epoch
        }
        // Its copy was lost, and the rotation was undone.
        guard let epoch, epoch > rotation.sidecar.epoch else {
            throw StoreError.switchUndone(paths.database, outcome.notices)
        }
        var report = RotationReport(fromEpoch: rotation.sidecar.epoch, toEpoch: rotation.sidecar.epoch + 1)
        report.wasFinished = true
        report.notices = outcome.notices
        if options.backupFolder != nil {
            report.notices.append("No backup was made: the switch was begun, and could only be finished.")
        }
        report.duration = .now - begin
        return report
    }

    /// - Returns: What was done, and whether anything was done here.
    /// - Throws: With the words of ``CommitSide`` where a step failed.
    private func settle(
        _ rotation: PendingRotation, _ unlock: @escaping @Sendable (Sidecar) -> SidecarKeys?
    ) throws -> (outcome: RotationRecovery.Outcome, hasBegun: Bool) {
        var hasBegun = false
        // A disk that fails may not let the pages be read afterwards; the names of files are known even then.
        let copy = (try? Files.identity(paths.rotationCopy)) ?? nil
        let before = try? RotationRecovery.standing(paths, unlock: unlock)
        do {
            let watch = LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait)
            let question = try watch.question(about: LockFile(path: paths.lock, likeFile: paths.database))
            let outcome = try RotationRecovery.settle(
                paths, isCancelled: question, onFirstStep: { hasBegun = true }, unlock: unlock)
            return (outcome, hasBegun)
        } catch let error as StoreError {
            // It says which of the two keys counts.
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            let failed = FailedRotation(
                path: paths.database, toEpoch: rotation.sidecar.epoch + 1, isDirect: rotation.sidecar.slotted == nil)
            guard hasBegun else { throw failed.untouched(error) }
            let isReplaced = isReplaced(by: copy) || before == .replaced
            throw failed.error(error, on: isReplaced ? .replaced : side(of: rotation, unlock))
        }
    }

    private func isReplaced(by copy: FileIdentity?) -> Bool {
        guard let copy, let database = try? Files.identity(paths.database) else { return false }
        return database == copy
    }

    /// On which side a switch stands that could not be settled: it may have been completed or undone in part.
    private func side(
        of rotation: PendingRotation, _ unlock: @escaping @Sendable (Sidecar) -> SidecarKeys?
    ) -> CommitSide {
        // What cannot be looked at may still be undone.
        guard let standing = try? RotationRecovery.standing(paths, unlock: unlock) else { return .announced }
        return switch standing {
        case .pending: .announced
        case .replaced: .replaced
        case .ended(let epoch): epoch > rotation.sidecar.epoch ? .replaced : .before
        }
    }

    // MARK: The aim

    /// Compares what is asked for with what was begun, which cannot be changed any more.
    private func requireAim(of rotation: PendingRotation) throws {
        guard rotation.sidecar.slotted != nil else { return try requireNewKey(rotation) }
        switch options.aim {
        case .newDataKey: break
        case .compromised:
            if rotation.sidecar.pending?.table == nil { throw StoreError.masterKeyStays(paths.database) }
        case .newKey: throw StoreError.takesNoNewKey(paths.database)
        }
    }

    /// After the switch a direct store opens with the new key alone, so whoever resumes it has to show that he has it.
    private func requireNewKey(_ rotation: PendingRotation) throws {
        let isSwitching = rotation.sidecar.state == .switching
        guard let newKey else { throw StoreError.newKeyNotGiven(paths.database, isSwitching: isSwitching) }
        guard let successor = rotation.sidecar.successor, let pending = try rotation.nextDataKey,
            try newKey.dataKey(salt: successor.salt, settings: successor.settings).isEqual(to: pending)
        else { throw StoreError.otherNewKey(paths.database, isSwitching: isSwitching) }
    }
}

extension RotationLedger {
    /// A ledger for a rotation whose keys are known.
    fileprivate convenience init(databasePath: String, resuming keys: RotationKeys) {
        self.init(databasePath: databasePath) { $0.epoch < keys.nextEpoch ? keys.current : keys.next }
    }
}
