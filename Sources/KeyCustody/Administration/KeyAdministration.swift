import StoreCrypto
import StorePlatform

/// The keys of a store, for a program that can open it: it lists, adds, changes and removes slots here.
///
/// A change makes one new version of the sidecar under ``KeyLocks``, from what both copies say at that moment. The
/// version is verified before it is written. `SidecarFiles` then writes the main copy and after it the backup. The
/// change has happened when the main copy is in place; from then on the former secret opens nothing.
package struct KeyAdministration: Sendable {
    let databasePath: String
    /// The keys that authenticate the sidecar.
    package private(set) var keys: SidecarKeys
    /// The longest wait for other changes, rotations and openings.
    var wait = Duration.seconds(60)
    /// Called while waiting; true ends the wait with `CancellationError`.
    package var isCancelled: (@Sendable () -> Bool)?
    /// Called once when another process changes or rotates the keys and this one must wait for it.
    package var onWait: (@Sendable (String) -> Void)?
    /// Called with a problem that did not stop a change but should be known, such as a change that is missing in the
    /// key log.
    package var onNotice: (@Sendable (String) -> Void)?
    /// The slots on which the decision for a change was based. If the store has others by then, the change is not made.
    /// Nil makes it whatever they are.
    package var decidedOn: [Keyslot]?
    /// Records the changes in the store itself; nil when only the sidecar is available.
    package var memory: (any SidecarRollbackGuard)?

    var files: SidecarFiles { SidecarFiles(databasePath: databasePath) }

    /// - Parameter keys: The keys of an opened store.
    package init(databasePath: String, keys: SidecarKeys) {
        self.databasePath = databasePath
        self.keys = keys
    }

    /// Opens the sidecar of a store with a key; the database itself is not touched.
    ///
    /// The slot that the key opened is ``SidecarKeys/openedBy``. This is also how a key is tested.
    /// - Throws: ``StoreError`` `wrongKey`, `noSuchStore`, and what choosing a sidecar throws.
    package static func unlock(
        databasePath: String, with secret: Secret
    ) throws -> KeyAdministration {
        let files = SidecarFiles(databasePath: databasePath)
        guard let choice = try files.choose(files.read(), allowsSwitching: true, unlock: secret.unlock)
        else {
            throw noSidecar(databasePath)
        }
        return KeyAdministration(databasePath: databasePath, keys: choice.keys)
    }

    /// The sidecar as it is now, authenticated.
    ///
    /// - Throws: ``StoreError`` `wrongKey` when its master key has changed since; what choosing a sidecar throws.
    package func sidecar() throws -> Sidecar { try choice().sidecar }

    func choice() throws -> AuthenticatedSidecar {
        guard let choice = try files.choose(files.read(), allowsSwitching: true, unlock: { _ in keys }) else {
            throw Self.noSidecar(databasePath)
        }
        return choice
    }

    /// The same administration, with the keys that a change of the scheme made.
    func holding(_ keys: SidecarKeys) -> KeyAdministration {
        var other = self
        other.keys = keys
        return other
    }

    // MARK: Changing

    /// Makes a new version of the sidecar.
    ///
    /// - Parameters:
    ///   - removesSecrets: Whether a secret that opened the store must no longer open it. No file that the library left
    ///     beside the store may then contain it.
    ///   - remembered: The generation of the new version must be above this one as well as above the present one.
    ///   - events: What to record of the new version in the key log. A failure to log undoes nothing.
    ///   - edit: Makes the new version, and the keys that authenticate it, from the present one. Its generation is set
    ///     here.
    func change(
        removesSecrets: Bool, above remembered: UInt64 = 0, recording events: (Sidecar) -> [KeyEvent] = { _ in [] },
        _ edit: (Sidecar) throws -> (Sidecar, SidecarKeys)
    ) throws {
        func change() throws -> Sidecar {
            try changeUnderLocks(removesSecrets, above: remembered, recording: events, edit)
        }
        // After the locks are released: writing to the store may wait for other writers, and openers must not wait for
        // that.
        guard let memory else { return _ = try change() }
        try memory.remembering(removesSecrets: removesSecrets, present: sidecar, change)
    }

    private func changeUnderLocks(
        _ removesSecrets: Bool, above remembered: UInt64, recording events: (Sidecar) -> [KeyEvent],
        _ edit: (Sidecar) throws -> (Sidecar, SidecarKeys)
    ) throws -> Sidecar {
        let locks = try KeyLocks.take(databasePath, wait: wait, isCancelled: isCancelled, onWait: onWait)
        defer { locks.release() }
        let current = try choice()
        CrashPoint.reach(.keyChangeLocked)
        try requireChangeable(current)
        if let decidedOn, decidedOn != current.sidecar.slots { throw SlotsChanged(sidecar: current.sidecar) }
        try FileOwnership.requireKept(databasePath, what: "The keys of \"\(databasePath)\" were not changed.")
        // As an opening does: a copy that an earlier change left stale is updated, whether this change succeeds or not,
        // and a damaged or forged copy is kept under another name.
        try files.repair(current, keyOpensDatabase: false)
        var (next, nextKeys) = try edit(current.sidecar)
        next.generation = max(current.sidecar.generation, remembered) + 1
        let bytes = try next.encoded(keys: nextKeys)
        CrashPoint.reach(.keyChangeProved)
        let unfinished = try write(bytes, removesSecrets)
        record(events(next))
        CrashPoint.reach(.keyChangeEnded)
        if let unfinished { throw unfinished }
        return next
    }

    /// Writes a new version. The change has happened when the main copy is in place, whatever fails after that. It must
    /// then not be reported as failed: a user would discard the new key.
    ///
    /// - Returns: An error to be thrown after everything else is done: a former secret still exists in a file.
    /// - Throws: Why the version could not be written; nothing was changed unless the error says otherwise.
    private func write(_ bytes: [UInt8], _ removesSecrets: Bool) throws -> StoreError? {
        var (isInPlace, isSynchronized) = (false, false)
        do {
            try put(bytes, didReplaceMain: { isInPlace = true }, didSynchronizeMain: { isSynchronized = true })
            if removesSecrets { try files.removeFormerCopies() }
            return nil
        } catch {
            guard isInPlace else { throw error }
            // A second attempt may succeed where the first failed. Then only the name of the main copy can be in doubt.
            if (try? complete(bytes, removesSecrets)) != nil, isSynchronized { return nil }
            // A file that cannot be written can be removed, even on a full disk.
            if removesSecrets, let backup = try? OwnedName(at: files.backupPath), files.content(of: .backup) != bytes {
                try? backup.remove()
            }
            let formerCopies = removesSecrets ? files.copiesBesideMain(otherThan: bytes) : []
            guard formerCopies.isEmpty else { return leftBehind(formerCopies, error) }
            onNotice?("the keys of \"\(databasePath)\" were changed, but " + doubt(error, isSynchronized, bytes))
            return nil
        }
    }

    /// Does the steps after the main copy.
    private func complete(_ bytes: [UInt8], _ removesSecrets: Bool) throws {
        try files.write(bytes, to: .backup)
        if removesSecrets { try files.removeFormerCopies() }
    }

    /// The uncertainty about a change whose main copy is in place.
    private func doubt(_ error: any Error, _ isSynchronized: Bool, _ bytes: [UInt8]) -> String {
        if !isSynchronized {
            return
                "the system did not confirm that this is on the disk (\(error)): the former keys may be in force again after"
                + " a power failure; keep both keys until the disk was checked and, after a restart, "
                + "`cipherctl key test` has shown which of them opens the store"
        }
        if files.content(of: .backup) != bytes {
            return "\"\(files.backupPath)\" could not be written (\(error)): the next opening for writing writes it "
                + "again"
        }
        return
            "the system did not confirm what followed (\(error)): after a power failure a former copy of the sidecar may"
            + " be beside the new one, and the next opening for writing replaces it"
    }

    /// Writes both copies.
    ///
    /// - Parameters:
    ///   - didReplaceMain: Called when the main copy is in place, once or twice.
    ///   - didSynchronizeMain: Called when its name is on the disk.
    private func put(_ bytes: [UInt8], didReplaceMain: () -> Void, didSynchronizeMain: () -> Void) throws {
        var isInPlace = false
        do {
            try files.write(
                bytes,
                didReplaceMain: {
                    isInPlace = true
                    didReplaceMain()
                }, didSynchronizeMain: didSynchronizeMain)
        } catch {
            if isInPlace { throw error }
            // A rename that was reported as failed may have taken effect: a network filesystem can lose the reply.
            try requireInPlace(bytes, after: error)
            didReplaceMain()
            try Files.synchronize(directory: Files.directory(of: databasePath))
            didSynchronizeMain()
            try files.write(bytes, to: .backup)
        }
    }

    /// Checks whether a version is in place although writing it failed.
    ///
    /// - Throws: The error, when it is not; ``StoreError`` `sidecarDamaged` when the file cannot be read either and the
    ///   rename may have taken effect.
    private func requireInPlace(_ bytes: [UInt8], after error: any Error) throws {
        let content = files.content(of: .main)
        if content == bytes { return }
        guard content == nil, let failure = error as? SystemError, failure.isRename,
            failure.mayHaveHappened
        else { throw error }
        throw StoreError(
            .sidecarDamaged, what: "Whether the keys of \"\(databasePath)\" were changed is not known.",
            why: "The new sidecar was being put in its place, and cannot be read back: \(failure).",
            remedy: "Keep both keys, the former and the new one, until `cipherctl key test` has shown which of them "
                + "opens the store.")
    }

    private func leftBehind(_ paths: [String], _ error: any Error) -> StoreError {
        StoreError(
            .sidecarDamaged, what: "The keys of \"\(databasePath)\" were changed, but a former key is not gone.",
            why: "\(paths.map { "\"\($0)\"" }.joined(separator: ", ")) could be neither written nor removed: \(error).",
            remedy: "The new keys are valid. Remove the named files; the next opening for writing writes the copy "
                + "again."
        )
    }

    /// Accepts the sidecar although the store has recorded a newer one: writes it as a new version above the recorded
    /// generation.
    ///
    /// - Returns: The new version.
    /// - Throws: What changing throws.
    package func accept(over remembered: UInt64) throws -> Sidecar {
        let found = try sidecar().generation
        let event = KeyEvent.sidecarAccepted(generation: found, remembered: remembered)
        try change(removesSecrets: false, above: remembered, recording: { _ in [event] }) { ($0, keys) }
        return try sidecar()
    }

    /// Writes both copies of the sidecar again after they were lost, as a version above all that were there.
    ///
    /// - Parameters:
    ///   - accepted: The sidecar that an open store has accepted last, with the keys of this administration.
    ///   - remembered: The generation that the store has recorded; 0 for none.
    /// - Returns: The new version.
    /// - Throws: ``StoreError`` `alreadyExists` where a copy is there, `sidecarRolledBack` where the store has recorded a
    ///   newer version; ``SystemError``.
    package func restore(_ accepted: Sidecar, remembered: UInt64) throws -> Sidecar {
        let locks = try KeyLocks.take(databasePath, wait: wait, isCancelled: isCancelled, onWait: onWait)
        defer { locks.release() }
        guard files.read().areAbsent else {
            throw StoreError(
                .alreadyExists, what: "The sidecar of \"\(databasePath)\" was not written again.",
                why: "A copy of it is there.",
                remedy: "Open the store: that repairs one copy by the other. Move copies away that are damaged.")
        }
        // Keys that were removed since would open the store again.
        guard remembered <= accepted.generation else {
            throw StoreError(
                .sidecarRolledBack, what: "The sidecar of \"\(databasePath)\" was not written again.",
                why: "Another process has changed the keys since: the store remembers version \(remembered), and this "
                    + "process knows version \(accepted.generation).",
                remedy: "Write it again in the process that has changed the keys, or restore a copy of the sidecar.")
        }
        try FileOwnership.requireKept(databasePath, what: "The sidecar of \"\(databasePath)\" was not written again.")
        var next = accepted
        // A lost copy that comes back is older than this version.
        next.generation = accepted.generation + 1
        try files.write(next, keys: keys)
        record([.sidecarAccepted(generation: accepted.generation, remembered: remembered)])
        return next
    }

    /// Records events in the key log.
    package func record(_ events: [KeyEvent]) {
        for event in events {
            let log = KeyLog(databasePath: databasePath)
            if let notice = log.note(event, authorizedBy: keys.openedBy?.id) { onNotice?(notice) }
        }
    }

    private func requireChangeable(_ current: AuthenticatedSidecar) throws(StoreError) {
        switch current.sidecar.state {
        case .ready: break
        case .creating:
            throw StoreError(
                .noSuchStore, what: "The keys of \"\(databasePath)\" cannot be changed yet.",
                why: "Its creation was not completed.", remedy: "Open the store once for writing, which completes it.")
        case .rotating, .switching:
            throw StoreError(
                .rotationPending, what: "The keys of \"\(databasePath)\" cannot be changed now.",
                why: "A rotation of its data key is pending.", remedy: "Finish the rotation or end it first.")
        }
        for case .otherKey(let copy) in current.notes {
            throw StoreError(
                .foreignSidecar, what: "The keys of \"\(databasePath)\" cannot be changed.",
                why: "\"\(files.path(of: copy))\" fits another key, and may be newer.",
                remedy: "Open the store for writing: that sets the file aside if the key fits the database.")
        }
    }

    static func noSidecar(_ databasePath: String) -> StoreError {
        StoreError(
            .noSuchStore, what: "\"\(databasePath)\" has no sidecar.", why: "No copy of it was found.",
            remedy: "If a program has the store open, let it call `store.keys.restoreSidecar()` before it closes the "
                + "store. Otherwise put a copy back from a backup, or check the path: only a store has keys.")
    }
}

/// The slots of a store are not those on which the decision for a change was based. Nothing was changed.
package struct SlotsChanged: Error {
    /// The sidecar as it is now.
    package let sidecar: Sidecar
}

extension SidecarFiles {
    /// The content of a file; nil when it cannot be read.
    func content(of copy: SidecarCopy) -> [UInt8]? {
        try? Files.contents(of: path(of: copy), limitBytes: CustodyLimits.sidecarBytes)
    }

    /// The files of the sidecar beside the main copy that exist and have other content, or cannot be read.
    fileprivate func copiesBesideMain(otherThan bytes: [UInt8]) -> [String] {
        [setAsidePath(of: .main), path(of: .backup), setAsidePath(of: .backup)].filter { path in
            (try? Files.kindOfName(path)) == .regular
                && (try? Files.contents(of: path, limitBytes: CustodyLimits.sidecarBytes)) != bytes
        }
    }

    /// Removes the files of former versions: copies that were set aside, and temporary files of writers that were
    /// killed. The caller holds both key locks, so no other process is writing.
    func removeFormerCopies() throws(SystemError) {
        for copy in SidecarCopy.allCases {
            try OwnedName(at: setAsidePath(of: copy))?.remove()
            try AtomicFile.removeLeftovers(of: path(of: copy))
        }
        try Files.synchronize(directory: Files.directory(of: databasePath))
    }
}

/// Records the newest generation of the sidecar in the store itself, so that a former copy is detected.
///
/// **The recorded generation is never above the durable one.** It is recorded after both copies are durable. A crash in
/// between leaves too low a number, which refuses no sidecar.
package protocol SidecarRollbackGuard: Sendable {
    /// Makes a change of the keys, and records its generation.
    ///
    /// A generation that cannot be recorded does not stop a change: the removal of a secret has priority.
    /// - Parameters:
    ///   - removesSecrets: Whether the change removes a secret. Nothing is recorded before the first change that does.
    ///   - present: The sidecar as it is now.
    ///   - change: Makes the change, and returns the new version, durable in both copies.
    /// - Throws: `StoreError` `sidecarRolledBack` before anything is changed; what `change` throws.
    func remembering(removesSecrets: Bool, present: () throws -> Sidecar, _ change: () throws -> Sidecar) throws
}

extension KeyAdministration {
    /// Adds a slot.
    ///
    /// - Returns: The slot with its number.
    /// - Throws: ``StoreError`` `tooManySlots`, `slotNotFound` when the store has no slots at all, `rotationPending`,
    ///   `storeInUse`, `unsupportedLibrary`; ``SystemError``.
    @discardableResult
    package func add(_ new: NewSlot) throws -> Keyslot {
        // Thrown before a derivation whose result could not be used.
        let sidecar = try sidecar()
        try slotted(sidecar).table.requireRoom()
        let prepared = try PreparedSlot(new, for: sidecar.storeID)
        return try changeSlots(removesSecrets: false, recording: Self.added) { table, master, storeID in
            let slot = try prepared.slot(table.nextID, of: storeID, holding: master)
            try table.add(slot)
            return slot
        }
    }

    private static func added(_ sidecar: Sidecar) -> [KeyEvent] {
        guard let slot = sidecar.slots.last else { return [] }
        return [.slotAdded(id: slot.id, kind: slot.kind)] + (slot.kind == .recovery ? [.recoveryKeyMade] : [])
    }

    /// Adds a slot for a recovery key. The key must have been shown before: it cannot be shown again.
    @discardableResult
    package func add(_ recovery: RecoveryKey, label: SlotLabel = .none) throws -> Keyslot {
        // The slot is made from the text that was printed, so that this text is proved to open it.
        let printed = recovery.text()
        let read = try printed.withBytes { try RecoveryKey(reading: $0) }
        return try add(NewSlot(.rawKey(read.key), kind: .recovery, label: label))
    }

    /// Gives a slot another secret. Its number stays; its label stays unless the new slot has one.
    ///
    /// - Throws: ``StoreError`` `slotNotFound`, and what ``add(_:)-(NewSlot)`` throws.
    @discardableResult
    package func change(_ id: UInt64, to new: NewSlot) throws -> Keyslot {
        let sidecar = try sidecar()
        _ = try slotted(sidecar).table.find(id)
        let prepared = try PreparedSlot(new, for: sidecar.storeID)
        let event = KeyEvent.slotChanged(id: id, kind: new.kind)
        return try changeSlots(removesSecrets: true, recording: { _ in [event] }) { table, master, storeID in
            let former = try table.find(id)
            var slot = try prepared.slot(id, of: storeID, holding: master)
            if new.label == .none { slot = slot.labelled(former.label) }
            try table.replace(slot)
            return slot
        }
    }

    /// Gives a slot another label.
    ///
    /// - Throws: ``StoreError`` `slotNotFound`, and what changing throws.
    package func label(_ id: UInt64, _ label: SlotLabel) throws {
        try changeSlots(removesSecrets: false, recording: { _ in [.slotLabelled(id: id)] }) { table, _, _ in
            try table.replace(table.find(id).labelled(label))
        }
    }

    /// Removes a slot. When this returns, its secret opens no file that the library keeps beside the store.
    ///
    /// Copies of sidecar and database that were made before still open with it, and a process that opened the slot may
    /// know the master key. Rotate the keys when a secret has leaked.
    /// - Throws: ``StoreError`` `lastSlot`, `slotNotFound`, and what changing throws.
    package func remove(_ id: UInt64) throws {
        try changeSlots(removesSecrets: true, recording: { _ in [.slotRemoved(id: id)] }) { table, _, _ in
            try table.remove(id)
        }
    }

    private func changeSlots<Result>(
        removesSecrets: Bool, recording events: (Sidecar) -> [KeyEvent],
        _ edit: (inout SlotTable, MasterKey, StoreID) throws -> Result
    ) throws -> Result {
        var result: Result?
        try change(removesSecrets: removesSecrets, recording: events) { sidecar in
            var next = sidecar
            var slotted = try slotted(sidecar)
            guard case .slots(let master, _) = keys else { throw noSlots() }
            result = try edit(&slotted.table, master, sidecar.storeID)
            next.scheme = .slots(slotted)
            return (next, keys)
        }
        guard let result else { throw noSlots() }
        return result
    }

    private func slotted(_ sidecar: Sidecar) throws(StoreError) -> SlottedKeys {
        guard let slotted = sidecar.slotted else { throw noSlots() }
        return slotted
    }

    private func noSlots() -> StoreError {
        StoreError(
            .slotNotFound, what: "\"\(databasePath)\" has no keyslots.",
            why: "Its key is derived from its passphrase directly, as SQLCipher does.",
            remedy: "Convert it to a store with keyslots first (`cipherctl key convert`).")
    }
}

extension Keyslot {
    fileprivate func labelled(_ label: SlotLabel) -> Keyslot {
        Keyslot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt, wrapped: wrapped,
            token: token)
    }
}
