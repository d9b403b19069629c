import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization

/// What a rotation writes down in the sidecar: that it has begun, that the copy takes the database's place, that it is
/// complete or was given up.
///
/// The caller holds the admin lock all the time, and the opening lock during each call: openers write copies too. Every
/// entry is one version of the sidecar in both files, the main copy first. Until ``announceSwitch(pages:)`` has returned a
/// rotation can be given up; from then on the way is forward, unless the copy is lost before it began.
package final class RotationJournal: Sendable {
    package let databasePath: String
    private let unlock: @Sendable (Sidecar) throws -> SidecarKeys?
    /// The keys of the rotation that this journal began. The present keys of a `--compromised` one do not give the next.
    private let begun = Mutex<RotationKeys?>(nil)

    private var files: SidecarFiles { SidecarFiles(databasePath: databasePath) }

    /// - Parameter keys: Those of an opened store.
    package convenience init(databasePath: String, keys: SidecarKeys) {
        self.init(databasePath: databasePath) { _ in keys }
    }

    /// - Parameter unlock: Makes the keys for what a sidecar claims, as for `SidecarFiles.choose`.
    package init(databasePath: String, unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?) {
        self.databasePath = databasePath
        self.unlock = unlock
    }

    // MARK: Reading

    /// The rotation that the sidecar tells of, as far as the keys reach; nil when there is none. Needs no lock.
    ///
    /// - Throws: What choosing a sidecar throws.
    package func rotation() throws -> PendingRotation? {
        try files.pendingRotation(files.read(), unlock: keys)
    }

    /// The keys for what a sidecar claims; those of the rotation that this journal began reach both epochs.
    private func keys(for claimed: Sidecar) throws -> SidecarKeys? {
        if let keys = begun.withLock({ $0 }) { return keys.keys(of: claimed) }
        return try unlock(claimed)
    }

    /// The keys of the rotation that the sidecar tells of; nil when there is none, or when the keys at hand do not reach
    /// both epochs. Needs no lock.
    package func pending() throws -> RotationKeys? { try rotation()?.keys }

    /// Makes the keys of the next epoch. Derives, so it is called before the locks are taken.
    ///
    /// - Throws: ``StoreError`` `modeConflict` when the mode does not fit the scheme of the store, `invalidKey` when the
    ///   new key is the present one, `wrongKey` when a key that is to be kept opens no slot, `lastSlot` when none is kept,
    ///   `rotationPending`; what choosing a sidecar throws.
    package func prepare(_ mode: RotationMode) throws -> RotationProposal {
        try RotationProposal(mode, for: requireReady(choice()), databasePath: databasePath)
    }

    // MARK: Writing

    /// Prepares a rotation and announces it: a convenience where a derivation under the lock does no harm.
    @discardableResult
    package func begin(_ mode: RotationMode) throws -> RotationKeys { try begin(prepare(mode)) }

    /// Announces a rotation: state `rotating`, with the keys of the next epoch.
    ///
    /// - Throws: ``StoreError`` `rotationPending` when one is under way, `storeInUse` when the keys of the store were
    ///   changed since the proposal was made; ``SystemError``. Nothing is changed then.
    @discardableResult
    package func begin(_ proposal: RotationProposal) throws -> RotationKeys {
        assertLocked()
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
            // The main copy may tell of it already.
            _ = try? abandon()
            begun.withLock { $0 = nil }
            throw error
        }
        return keys
    }

    /// Announces that the complete and durable copy takes the database's place: state `switching`.
    ///
    /// When it returns, both copies of the sidecar say so durably, and there is only a way forward.
    ///
    /// - Parameter pages: The length of the copy.
    /// - Throws: ``UncertainAnnouncement`` when nobody can say which of the two the sidecar tells: the next opening for
    ///   writing finds out, so the caller leaves every file as it is. After any other error the sidecar says `rotating` as
    ///   before.
    package func announceSwitch(pages: UInt32) throws {
        assertLocked()
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

    /// Records that the copy has durably taken the database's place: state `ready` with the key of the next epoch. Nothing
    /// that the library keeps beside the store holds the former keys any more, unless what it returns says so.
    ///
    /// - Parameter databaseHasNextKey: Whether the database was seen to have the next key: then a sidecar that tells of no
    ///   switch was put back, and is no reason to lose that key.
    /// - Returns: What failed when the main copy said so already, in words: it is recorded all the same.
    /// - Throws: ``StoreError`` `rotationPending` when no switch was announced, or without the next key; ``SystemError``:
    ///   the next opening for writing completes it.
    @discardableResult
    package func complete(databaseHasNextKey: Bool = false) throws -> [String] {
        assertLocked()
        guard let rotation = try rotation(), let next = rotation.next, let successor = rotation.sidecar.successor,
            rotation.sidecar.state == .switching || databaseHasNextKey
        else { throw stateError("No switch was announced, or the given key is not the next key.") }
        return try finish(successor, keys: next)
    }

    /// Gives the rotation up before the switch: state `ready`, and nothing that the library keeps beside the store holds
    /// the key that was to come.
    ///
    /// - Parameter databaseIsWhole: Whether database and log were seen to have every commit under the present key: then a
    ///   switch that was announced, and has lost its copy, is given up as well.
    /// - Returns: As ``complete(databaseHasNextKey:)``.
    /// - Throws: ``StoreError`` `rotationPending` when the switch was announced, when there is no rotation, or without the
    ///   present key; ``SystemError``: the next opening for writing gives it up.
    @discardableResult
    package func abandon(databaseIsWhole: Bool = false) throws -> [String] {
        assertLocked()
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

    /// Makes both copies say what the one that counts says, before anything is done that cannot be undone.
    package func settle(_ rotation: PendingRotation) throws {
        assertLocked()
        try files.repair(rotation.standing, keyOpensDatabase: false)
    }

    /// Makes both copies say that the rotation has ended. That is so when the main copy says it, whatever fails after that.
    private func finish(_ ready: Sidecar, keys: SidecarKeys) throws -> [String] {
        let bytes = try ready.encoded(keys: keys)
        var notices: [String] = []
        do {
            try files.write(bytes, to: .main)
        } catch {
            // What follows is written to the same directory, and synchronizes it once more.
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
        StoreError(
            .rotationPending, what: "The rotation of \"\(databasePath)\" cannot continue from its present state.",
            why: why,
            remedy: "Open the store once for writing: that completes or undoes the pending rotation.")
    }

    /// A caller without its locks would lose somebody's change.
    private func assertLocked() {
        assert(
            isHeld(.admin) && isHeld(.opening),
            "A rotation may be recorded only while the admin lock and the opening lock are held.")
    }

    private func isHeld(_ byte: LockByte) -> Bool {
        // A disk that fails is no broken invariant: what cannot be looked at is taken for held.
        (try? LockFile(path: databasePath + "-lock", likeFile: databasePath).isHeld(byte)) ?? true
    }
}

/// A switch was announced or not: the sidecar could not be written for certain, and not be put back either.
package struct UncertainAnnouncement: Error {
    /// What kept the announcement from being written.
    package let failure: SystemError
}

extension SidecarFiles {
    /// Whether the main copy may be a version that could not be written, now or after a power failure.
    ///
    /// - Parameter failure: What writing it threw.
    fileprivate func mainCopyMayBe(_ bytes: [UInt8], after failure: SystemError) -> Bool {
        if failure.call == "rename" && failure.mayHaveHappened { return true }
        // What cannot be read may be that version.
        return content(of: .main) == bytes || content(of: .main) == nil
    }
}
