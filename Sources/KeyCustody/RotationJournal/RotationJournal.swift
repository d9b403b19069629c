import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization

/// Records a rotation in the sidecar: that it was started, that the copy replaces the database, and that it was
/// completed or abandoned.
///
/// The caller holds the admin lock all the time, and the opening lock during each call: openers write copies too. Every
/// entry is one version of the sidecar in both files, the main copy first. Until ``announceSwitch(pages:)`` has
/// returned, a rotation can be abandoned. From then on it can only be completed, unless the copy was lost before it
/// replaced the database.
package final class RotationJournal: Sendable {
    let databasePath: String
    private let unlock: @Sendable (Sidecar) throws -> SidecarKeys?
    /// The keys of the rotation that this journal started. The present keys of a `--compromised` rotation do not open
    /// the next ones.
    private let begun = Mutex<RotationKeys?>(nil)

    private var files: SidecarFiles { SidecarFiles(databasePath: databasePath) }

    /// - Parameter keys: The keys of an opened store.
    package convenience init(databasePath: String, keys: SidecarKeys) {
        self.init(databasePath: databasePath) { _ in keys }
    }

    /// - Parameter unlock: Returns the keys for what a sidecar claims, as for `SidecarFiles.choose`.
    package init(databasePath: String, unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?) {
        self.databasePath = databasePath
        self.unlock = unlock
    }

    // MARK: Reading

    /// The rotation that is pending in the sidecar, with the keys that could be opened; nil when there is none. Needs
    /// no lock.
    ///
    /// - Throws: What choosing a sidecar throws.
    package func rotation() throws -> PendingRotation? {
        try files.pendingRotation(files.read(), unlock: keys)
    }

    /// The keys for what a sidecar claims. Those of the rotation that this journal started cover both epochs.
    private func keys(for claimed: Sidecar) throws -> SidecarKeys? {
        if let keys = begun.withLock({ $0 }) { return keys.keys(of: claimed) }
        return try unlock(claimed)
    }

    /// The keys of the rotation that is pending in the sidecar. Nil when there is none, or when the known keys do not
    /// cover both epochs. Needs no lock.
    func pending() throws -> RotationKeys? { try rotation()?.keys }

    /// Makes the keys of the next epoch. It derives keys, so it is called before the locks are acquired.
    ///
    /// - Throws: ``StoreError`` `modeConflict` when the mode does not fit the scheme of the store, `invalidKey` when
    ///   the new key is the present one, `wrongKey` when a key that is to be kept opens no slot, `lastSlot` when none
    ///   is kept, `rotationPending`; what choosing a sidecar throws.
    package func prepare(_ mode: RotationMode) throws -> RotationProposal {
        try RotationProposal(mode, for: requireReady(choice()), databasePath: databasePath)
    }

    // MARK: Writing

    /// Prepares and begins a rotation: a convenience for callers that may derive keys under the lock.
    @discardableResult
    package func begin(_ mode: RotationMode) throws -> RotationKeys { try begin(prepare(mode)) }

    /// Records the pending key: state `rotating`, with the keys of the next epoch.
    ///
    /// - Throws: ``StoreError`` `rotationPending` when a rotation is pending, `storeInUse` when the keys of the store
    ///   were changed since the proposal was made; ``SystemError``. Nothing is changed then.
    @discardableResult
    package func begin(_ proposal: RotationProposal) throws -> RotationKeys {
        try requireLocked()
        let choice = try requireReady(choice())
        try files.repair(choice, keyOpensDatabase: false)
        let rotating = try proposal.rotating(choice.sidecar)
        let bytes = try rotating.encoded(keys: proposal.current, next: proposal.next)
        guard let keys = try RotationKeys(rotating, current: proposal.current, next: proposal.next) else {
            throw stateError("Its keys do not open what was to be written.")
        }
        begun.withLock { $0 = keys }
        do {
            try files.write(bytes)
        } catch {
            // The main copy may contain it already.
            _ = try? abandon()
            begun.withLock { $0 = nil }
            throw error
        }
        return keys
    }

    /// Announces that the complete and durable copy replaces the database: state `switching`.
    ///
    /// When it returns, both copies of the sidecar contain the announcement durably. The rotation can then only be
    /// completed.
    ///
    /// - Parameter pages: The number of pages of the copy.
    /// - Throws: ``UncertainAnnouncement`` when it is unknown which of the two states the sidecar has. The next opening
    ///   for writing finds out, so the caller must leave every file as it is. After any other error the sidecar says
    ///   `rotating` as before.
    package func announceSwitch(pages: UInt32) throws {
        try requireLocked()
        let (rotation, keys) = try requireRotation(.rotating)
        let switching = try rotation.sidecar.announcingSwitch(pages: pages)
        let bytes = try switching.encoded(keys: keys.current, next: keys.next)
        let withdrawn = try switching.withdrawingSwitch().encoded(keys: keys.current, next: keys.next)
        do {
            try files.write(bytes)
        } catch let failure {
            guard files.mainCopyMayBe(bytes, after: failure) else { throw failure }
            do {
                try files.write(withdrawn, to: .main)
            } catch {
                throw UncertainAnnouncement(failure: failure)
            }
            throw failure
        }
    }

    /// Records that the copy has durably replaced the database: state `ready` with the key of the next epoch. After it
    /// no file that the library keeps beside the store contains the former keys, unless the result says so.
    ///
    /// - Parameter databaseHasNextKey: Whether the database was found to have the next key. A sidecar without an
    ///   announced switch is then an older copy that was restored. It is completed as well, so that the key is not
    ///   lost.
    /// - Returns: What failed after the main copy was written, as sentences. The completion is recorded nevertheless.
    /// - Throws: ``StoreError`` `rotationPending` when no switch was announced, or without the next key;
    ///   ``SystemError``: the next opening for writing completes it.
    @discardableResult
    package func complete(databaseHasNextKey: Bool = false) throws -> [String] {
        try requireLocked()
        guard let rotation = try rotation(), let next = rotation.next, let successor = rotation.sidecar.successor,
            rotation.sidecar.state == .switching || databaseHasNextKey
        else { throw stateError("No switch was announced, or the given key is not the next key.") }
        return try finish(successor, keys: next)
    }

    /// Abandons the rotation before the switch: state `ready`. No file that the library keeps beside the store then
    /// contains the next key.
    ///
    /// - Parameter databaseIsWhole: Whether database and WAL were found to have every commit under the present key. A
    ///   switch that was announced and has lost its copy is then abandoned as well.
    /// - Returns: As ``complete(databaseHasNextKey:)``.
    /// - Throws: ``StoreError`` `rotationPending` when the switch was announced, when there is no rotation, or without
    ///   the present key; ``SystemError``: the next opening for writing abandons it.
    @discardableResult
    package func abandon(databaseIsWhole: Bool = false) throws -> [String] {
        try requireLocked()
        guard let rotation = try rotation(), rotation.sidecar.state == .rotating || databaseIsWhole,
            let present = rotation.present
        else {
            throw stateError("No rotation is pending that the given key can abandon.")
        }
        try FileOwnership.requireKept(databasePath, what: "The rotation of \"\(databasePath)\" was not abandoned.")
        let sidecar = rotation.sidecar
        let rotating = try sidecar.state == .switching ? sidecar.withdrawingSwitch() : sidecar
        return try finish(rotating.abandoningRotation(), keys: present)
    }

    /// Writes the valid version to both copies, before anything is done that cannot be undone.
    package func settle(_ rotation: PendingRotation) throws {
        try requireLocked()
        try files.repair(rotation.standing, keyOpensDatabase: false)
    }

    /// Records the end of the rotation in both copies. It has ended when the main copy says so, whatever fails after
    /// that.
    private func finish(_ ready: Sidecar, keys: SidecarKeys) throws -> [String] {
        let bytes = try ready.encoded(keys: keys)
        var notices: [String] = []
        do {
            try files.write(bytes, to: .main)
        } catch {
            // The backup is written to the same directory, which synchronizes it once more.
            guard files.content(of: .main) == bytes else { throw error }
            notices.append(
                "\"\(files.mainPath)\" was written, but may be the former one after a power failure: \(error)")
        }
        begun.withLock { $0 = nil }
        CrashPoint.reach(.sidecarMainWritten)
        do {
            try files.write(bytes, to: .backup)
        } catch {
            notices.append(
                "\"\(files.backupPath)\" could not be written; the next opening for writing writes it again: \(error)")
        }
        CrashPoint.reach(.sidecarWritten)
        do {
            try files.removeFormerCopies()
        } catch {
            notices.append("a former copy of the sidecar could not be removed: \(error)")
        }
        return notices
    }

    // MARK: Conditions

    private func choice() throws -> AuthenticatedSidecar {
        guard let choice = try files.choose(files.read(), allowsSwitching: true, unlock: unlock) else {
            throw KeyAdministration.noSidecar(databasePath)
        }
        return choice
    }

    private func requireReady(_ choice: AuthenticatedSidecar) throws(StoreError) -> AuthenticatedSidecar {
        guard choice.sidecar.state == .ready else {
            throw stateError("It is in state \(choice.sidecar.state.rawValue).")
        }
        return choice
    }

    private func requireRotation(_ state: Sidecar.State) throws -> (PendingRotation, RotationKeys) {
        guard let rotation = try rotation(), rotation.sidecar.state == state, let keys = try rotation.keys else {
            throw stateError("It is not in state \(state.rawValue), or the given keys do not open both epochs.")
        }
        return (rotation, keys)
    }

    private func stateError(_ why: String) -> StoreError {
        let what = "The rotation of \"\(databasePath)\" cannot continue from its present state."
        if files.content(of: .main) == nil, files.content(of: .backup) == nil {
            return StoreError(
                .saltMissing, what: what, why: "Both copies of the sidecar were removed.",
                remedy: "If a program has the store open, let it call `store.keys.restoreSidecar()`. Otherwise put a "
                    + "copy of the sidecar back, or restore a backup.")
        }
        return StoreError(
            .rotationPending, what: what, why: why,
            remedy: "Open the store once for writing: that completes or undoes the pending rotation.")
    }

    /// Without its locks a caller would overwrite the change of another process.
    ///
    /// - Throws: ``StoreError`` `storeMoved`. A caller without locks is a mistake of this library. But another user
    ///   who may write to the folder can move the lock file away, and must not end a process by that.
    private func requireLocked() throws(StoreError) {
        if isHeld(.admin) && isHeld(.opening) { return }
        throw StoreError(
            .storeMoved, what: "The rotation of \"\(databasePath)\" was not recorded.",
            why: "This process has no lock on \"\(databasePath)-lock\": the lock file was moved, replaced or removed.",
            remedy: "Stop all processes of the store, and see that nobody else may change its folder. The next opening "
                + "for writing completes or undoes the rotation.")
    }

    private func isHeld(_ byte: LockByte) -> Bool {
        // A failing disk is not a broken invariant: a lock that cannot be checked is assumed to be held.
        (try? LockFile(path: databasePath + "-lock", likeFile: databasePath).isHeld(byte)) ?? true
    }
}

/// The switch may or may not be announced: writing the sidecar may have failed, and the former version could not be
/// restored.
package struct UncertainAnnouncement: Error {
    /// Why the announcement could not be written.
    package let failure: any Error
}

extension SidecarFiles {
    /// Whether the main copy may be a version whose writing failed, now or after a power failure.
    ///
    /// - Parameter failure: The error that writing it threw.
    fileprivate func mainCopyMayBe(_ bytes: [UInt8], after failure: any Error) -> Bool {
        if let failure = failure as? SystemError, failure.isRename, failure.mayHaveHappened { return true }
        // A file that cannot be read may be that version.
        return content(of: .main) == bytes || content(of: .main) == nil
    }
}
