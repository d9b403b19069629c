import CipherDatabase
import KeyCustody
import StoreCrypto
import StorePlatform

/// Finishes or undoes a rotation whose process is gone, before a store is opened.
///
/// A rotation holds the admin lock from its beginning to its end, so one that can be taken over is one whose admin lock is
/// free. Before the switch was announced it is undone: the database has its former key. Behind it there is only a way
/// forward: the copy holds everything.
package struct RotationRecovery {
    private let paths: StorePaths
    private let ledger: RotationLedger
    private let files: RotationFiles
    private let deadline: ContinuousClock.Instant
    private let isCancelled: (() -> Bool)?

    /// Takes over what a dead rotation left, if there is anything. The caller holds the opening lock, and has no connection
    /// to the database.
    ///
    /// - Parameters:
    ///   - unlock: Makes the keys for what a sidecar claims; asked only when there is something to recover.
    ///   - wait: The longest wait for a switch that is under way, and for connections of other programs.
    /// - Returns: What was done, in words for the store's owner.
    /// - Throws: ``StoreError`` `rotationPending` when it takes another key or another hand, `storeInUse` when a connection is
    ///   in the way; what choosing a sidecar throws; `SystemError`. Nothing is lost then, and the next opening tries again.
    package static func run(
        _ paths: StorePaths, wait: Duration = .seconds(30), isCancelled: (() -> Bool)? = nil,
        unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> [String] {
        let files = RotationFiles(paths)
        guard let claimed = SidecarFiles(databasePath: paths.database).read().claimedState else { return [] }
        // What everyday openings pay: one look for the name of the copy.
        if claimed == .ready, try files.copyKind() == nil { return [] }
        if claimed == .creating { return [] }
        let recovery = RotationRecovery(
            paths: paths, ledger: RotationLedger(databasePath: paths.database, unlock: unlock), files: files,
            deadline: .now + wait, isCancelled: isCancelled)
        guard let admin = try recovery.takeAdmin(claimed) else { return [] }
        defer { admin.release() }
        CrashPoint.reach(.recoveryBegun)
        return try recovery.recover()
    }

    /// The lock of a rotation; nil when one is at work. A switch that is under way is waited for: what comes behind it is
    /// another key.
    private func takeAdmin(_ claimed: Sidecar.State) throws -> HeldLock? {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        guard claimed == .switching else { return try lockFile.tryLock(.admin, .exclusive) }
        return try lockFile.lock(.admin, .exclusive, deadline: deadline, isCancelled: isCancelled)
    }

    private func recover() throws -> [String] {
        // Read under the lock: the rotation may have come to its end meanwhile.
        guard let rotation = try ledger.rotation() else { return try files.removeCopy() }
        var findings = try findings(rotation)
        var action = findings.decide()
        if action == .checkCopy {
            findings.copy = try files.isCopyWhole(rotation) ? .whole : .unfit
            action = findings.decide()
        }
        let (from, to) = (rotation.sidecar.epoch, rotation.sidecar.epoch + 1)
        switch action {
        case .nothing, .checkCopy: return []
        case .removeCopy: return try files.removeCopy()
        case .undo:
            // The copy first: on a full disk its room is what the sidecar needs.
            let notices = try files.removeCopy(isLeftover: false)
            CrashPoint.reach(.recoveryCopyRemoved)
            try ledger.abandon()
            return notices + [
                "A rotation to epoch \(to) that was cut short was undone; the store has its key of epoch \(from)."
            ] + log(to, forward: false)
        case .moveCopy:
            try ledger.settle(rotation)
            let lock = try files.lockDatabase(until: deadline, isCancelled: isCancelled)
            defer { lock.release() }
            try files.moveCopyIntoPlace()
            try lock.spoil()
            return try complete(rotation)
        case .complete: return try complete(rotation) + files.removeCopy()
        case .refuse(let reason): throw refusal(reason, rotation)
        }
    }

    private func complete(_ rotation: PendingRotation) throws -> [String] {
        // The name may be in its place without being durable yet.
        try Files.synchronize(directory: Files.directory(of: paths.database))
        CrashPoint.reach(.recoveryDurable)
        var notices: [String] = []
        if rotation.sidecar.state == .rotating {
            notices = ["The sidecar was one from before the switch to another key: somebody had put it back."]
        }
        // The database has the next key: seen before, or because the copy was moved.
        try ledger.complete(databaseHasNextKey: true)
        let epoch = rotation.sidecar.epoch + 1
        return notices + ["A rotation that was cut short was completed; the store has its key of epoch \(epoch)."]
            + log(epoch, forward: true)
    }

    private func log(_ epoch: UInt64, forward: Bool) -> [String] {
        let event = KeyEvent.rotationRecovered(to: epoch, forward: forward)
        return KeyLog(databasePath: paths.database).note(event).map { [$0] } ?? []
    }

    private func findings(_ rotation: PendingRotation) throws -> RecoveryFindings {
        let copy: RecoveryFindings.Copy =
            switch try files.copyKind() {
            case nil: .absent
            case .regular: .unchecked
            case .directory, .other: .planted
            }
        return RecoveryFindings(
            stage: rotation.sidecar.state == .switching ? .switching : .rotating,
            hasPresentKey: rotation.present != nil, hasNextKey: rotation.next != nil, copy: copy,
            database: try files.databaseKey(rotation))
    }

    private func refusal(_ reason: RecoveryAction.Reason, _ rotation: PendingRotation) -> StoreError {
        let what = "The rotation of \"\(paths.database)\" to epoch \(rotation.sidecar.epoch + 1) was cut short."
        let (why, remedy) = reason.words(copy: files.copyPath)
        return StoreError(.rotationPending, what: what, why: why, remedy: remedy)
    }
}

extension StoreConnections {
    /// Completes a switch whose process is gone: those who gave the file up for it are the first to come back, and what they
    /// would open is not the store any more.
    ///
    /// A store that is open for reading alone leaves it to others.
    func completeSwitch(with keyring: Keyring, isOvertaken: @escaping () -> Bool) throws {
        guard let paths = keyring.paths,
            SidecarFiles(databasePath: paths.database).read().claimedState == .switching
        else { return }
        try keyring.holdOpeningLock()
        guard keyring.holdsOpeningLock else { return }
        let notices = try RotationRecovery.run(
            paths, isCancelled: isOvertaken, unlock: { try keyring.heldKeys(of: $0) })
        keyring.report(notices)
    }
}

extension RecoveryAction.Reason {
    /// Why it cannot go on, and what to do.
    func words(copy: String) -> (why: String, remedy: String) {
        let restore = "Nothing was changed. Put the copy back if you have it, or restore the store from a backup."
        return switch self {
        case .needsPresentKey:
            (
                "The key that was given is the one to come, and only the present one can undo the rotation.",
                "Open the store once with its present key."
            )
        case .needsKeptKey:
            (
                "The key that was given belongs to a slot that the rotation drops.",
                "Open the store with a key that the rotation keeps; this one opens nothing afterwards."
            )
        case .copyMissing:
            ("The complete copy \"\(copy)\" is not there, and the database does not have its key.", restore)
        case .copyUnfit: ("\"\(copy)\" is not the complete copy that the sidecar tells of.", restore)
        case .copyPlanted: ("\"\(copy)\" is no regular file: no rotation made it.", restore)
        }
    }
}

extension SidecarCopies {
    /// The state that the readable copies claim, nobody having proved it; the one furthest in a rotation when they differ,
    /// and nil without one.
    fileprivate var claimedState: Sidecar.State? {
        let states = SidecarCopy.allCases.compactMap { self[$0].parsed?.claimed.state }
        return [Sidecar.State.switching, .rotating, .ready, .creating].first { states.contains($0) }
    }
}
