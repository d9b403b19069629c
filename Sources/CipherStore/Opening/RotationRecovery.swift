import CipherDatabase
import KeyCustody
import StoreCrypto
import StorePlatform

/// Finishes or undoes a rotation whose process is gone, before a store is opened.
///
/// A rotation holds the admin lock from its beginning to its end, so one that can be taken over is one whose admin lock is
/// free. Before the switch was announced it is undone: the database has its former key. Behind it the way is forward: the
/// copy holds everything. Only where the copy is lost, and database and log are as they were, it is undone as well.
package struct RotationRecovery {
    private let paths: StorePaths
    private let ledger: RotationLedger
    private let files: RotationFiles
    private let deadline: ContinuousClock.Instant
    private let isCancelled: (() -> Bool)?
    private let onFirstStep: () -> Void

    /// What was done.
    package struct Outcome: Sendable {
        /// In words for the store's owner.
        package var notices: [String] = []
        /// The epoch to which a rotation was completed; nil when none was.
        package var completedEpoch: UInt64?
    }

    /// How far a rotation is that could not be settled.
    package enum Standing: Equatable, Sendable {
        /// It is pending, and the database is not known to have the next key.
        case pending
        /// It is pending, and the database has the next key.
        case replaced
        /// The sidecar tells of no rotation any more.
        case ended(epoch: UInt64)
    }

    /// Takes over what a dead rotation left, if there is anything. The caller holds the opening lock, and has no connection
    /// to the database.
    ///
    /// - Parameters:
    ///   - copies: The sidecar as it was read under the opening lock; nil reads it.
    ///   - unlock: Makes the keys for what a sidecar claims; asked only when there is something to recover.
    ///   - wait: The longest wait for connections of other programs.
    ///   - onFirstStep: Called before anything is changed.
    /// - Returns: What was done. Nil when a switch is to be completed and somebody has the admin lock: the caller gives the
    ///   opening lock back, waits (``waitForAdmin(_:until:isCancelled:)``), and reads everything anew.
    /// - Throws: ``StoreError`` `rotationPending` when it takes another key or another hand, `storeInUse` when a connection is
    ///   in the way; what choosing a sidecar throws; `SystemError`. Nothing is lost then, and the next opening tries again.
    package static func run(
        _ paths: StorePaths, _ copies: SidecarCopies? = nil, wait: Duration = .seconds(30),
        isCancelled: (() -> Bool)? = nil, onFirstStep: @escaping () -> Void = {},
        unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> Outcome? {
        let files = RotationFiles(paths)
        let copies = copies ?? SidecarFiles(databasePath: paths.database).read()
        guard let claimed = copies.claimedState else { return Outcome() }
        // What everyday openings pay: one look for the name of the copy.
        if claimed == .ready, try files.copyKind() == nil { return Outcome() }
        if claimed == .creating { return Outcome() }
        let recovery = RotationRecovery(
            paths: paths, ledger: RotationLedger(databasePath: paths.database, unlock: unlock), files: files,
            deadline: .now + wait, isCancelled: isCancelled, onFirstStep: onFirstStep)
        // Only tried: who has it may want the opening lock. While pages are copied the store is used as ever; behind a switch
        // it has another key.
        guard let admin = try LockFile(path: paths.lock, likeFile: paths.database).tryLock(.admin, .exclusive) else {
            return claimed == .switching ? nil : Outcome()
        }
        defer { admin.release() }
        CrashPoint.reach(.recoveryBegun)
        return try recovery.recover()
    }

    /// Finishes or undoes a switch for one who has its keys and does not open the store: waits as an opener does.
    ///
    /// - Throws: As ``run(_:wait:isCancelled:unlock:)``; `storeInUse` when others have the store's locks for too long.
    package static func settle(
        _ paths: StorePaths, isCancelled: (() -> Bool)? = nil, onFirstStep: @escaping () -> Void = {},
        unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> Outcome {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        let deadline = ContinuousClock.now + Limits.switchWait
        func attempt() throws -> Outcome? {
            let opening = try lockFile.lock(.opening, .exclusive, deadline: deadline, isCancelled: isCancelled)
            defer { opening.release() }
            let lease: Lease?
            switch try Lease.attempt(for: paths, label: nil, readonly: false) {
            case .busy: return nil
            case .taken(let taken): lease = taken
            }
            // The lease first: a restoration that has the opening lock finds nobody.
            defer { lease?.release() }
            return try run(paths, isCancelled: isCancelled, onFirstStep: onFirstStep, unlock: unlock)
        }
        while true {
            if let outcome = try attempt() { return outcome }
            try Lease.take(for: paths, label: nil, readonly: false, deadline: deadline, isCancelled: isCancelled)?
                .release()
            try waitForAdmin(paths, until: deadline, isCancelled: isCancelled)
        }
    }

    /// Looks how far a rotation is; needs no lock.
    ///
    /// - Throws: What choosing a sidecar throws; `SystemError`.
    package static func standing(
        _ paths: StorePaths, unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> Standing {
        guard let rotation = try RotationLedger(databasePath: paths.database, unlock: unlock).rotation() else {
            let files = SidecarFiles(databasePath: paths.database)
            guard let choice = try files.choose(files.read(), unlock: unlock) else { return .pending }
            return .ended(epoch: choice.sidecar.epoch)
        }
        return try RotationFiles(paths).databaseKey(rotation) == .next ? .replaced : .pending
    }

    /// Waits until nobody has the admin lock, for one who holds no lock that its holder may want, `opening` among them.
    static func waitForAdmin(
        _ paths: StorePaths, until deadline: ContinuousClock.Instant, isCancelled: (() -> Bool)? = nil
    ) throws {
        try LockFile(path: paths.lock, likeFile: paths.database)
            .lock(.admin, .exclusive, deadline: deadline, isCancelled: isCancelled).release()
    }

    private func recover() throws -> Outcome {
        // Read under the lock: the rotation may have come to its end meanwhile.
        guard let rotation = try ledger.rotation() else { return Outcome(notices: try files.removeCopy()) }
        let next = rotation.sidecar.epoch + 1
        switch try decide(rotation) {
        case .nothing, .checkCopy, .checkLog: return Outcome()
        case .removeCopy: return Outcome(notices: try files.removeCopy())
        case .undo:
            // Until then the store is used as ever, with its present key.
            if let owner = try FileOwnership.ownerLosing(paths.database) {
                let (why, remedy) = FileOwnership.words(ofLosing: owner)
                return Outcome(notices: [
                    "A rotation to epoch \(next) that was cut short was not undone. \(why) \(remedy)"
                ])
            }
            onFirstStep()
            return Outcome(notices: try undo(rotation) + log(next, forward: false))
        case .moveCopy:
            try requireOwnerKept()
            onFirstStep()
            try ledger.settle(rotation)
            let lock = try files.lockDatabase(until: deadline, isCancelled: isCancelled)
            defer { lock.release() }
            try files.moveCopyIntoPlace()
            var notices: [String] = []
            do {
                try lock.spoil()
            } catch {
                // That file has no name any more, so nobody can do it later.
                notices.append("The first page of the former database could not be written over: \(error)")
            }
            return Outcome(notices: try notices + complete(rotation), completedEpoch: next)
        case .complete:
            try requireOwnerKept()
            onFirstStep()
            let notices = try complete(rotation)
            // It is complete, whatever becomes of a file that nobody needs.
            let removal = Result { try files.removeCopy() }
            let leftover = (try? removal.get()) ?? ["The copy \"\(files.copyPath)\" could not be removed."]
            return Outcome(notices: notices + leftover, completedEpoch: next)
        case .refuse(let reason): throw refusal(reason, rotation)
        }
    }

    /// Gives up a rotation that was cut at its switch, where nothing of the store lives in the copy alone. The caller holds
    /// the admin and the opening lock.
    ///
    /// - Returns: False when the copy is whole or has its place: then it can only be completed.
    /// - Throws: ``StoreError`` `rotationPending` when neither can be done; ``SystemError``.
    package static func undoSwitch(_ paths: StorePaths, _ ledger: RotationLedger) throws -> Bool {
        guard let rotation = try ledger.rotation() else { return false }
        let recovery = RotationRecovery(
            paths: paths, ledger: ledger, files: RotationFiles(paths), deadline: .now, isCancelled: nil,
            onFirstStep: {})
        switch try recovery.decide(rotation) {
        case .undo:
            _ = try recovery.undo(rotation)
            return true
        case .refuse(let reason): throw recovery.refusal(reason, rotation)
        default: return false
        }
    }

    /// What is to be done, copy and log having been checked where that decides.
    private func decide(_ rotation: PendingRotation) throws -> RecoveryAction {
        var findings = try findings(rotation)
        if findings.decide() == .checkCopy { findings.copy = try files.isCopyWhole(rotation) ? .whole : .unfit }
        if findings.decide() == .checkLog { findings.log = try files.log(rotation) }
        return findings.decide()
    }

    private func undo(_ rotation: PendingRotation) throws -> [String] {
        let (from, to) = (rotation.sidecar.epoch, rotation.sidecar.epoch + 1)
        let isAtSwitch = rotation.sidecar.state == .switching
        // The copy first: on a full disk its room is what the sidecar needs.
        let notices = try files.removeCopy(isLeftover: false)
        CrashPoint.reach(.recoveryCopyRemoved)
        let unwritten = try ledger.abandon(databaseIsWhole: isAtSwitch)
        let why = isAtSwitch ? " Its copy was missing or damaged; database and log have all that was committed." : ""
        return notices + unwritten + [
            "A rotation to epoch \(to) that was cut short was undone; the store has its key of epoch \(from).\(why)"
        ]
    }

    /// The sidecar is written anew, too.
    private func requireOwnerKept() throws {
        try FileOwnership.requireKept(
            paths.database, what: "A rotation of \"\(paths.database)\" that was cut short was not completed.")
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
        notices += try ledger.complete(databaseHasNextKey: true)
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
        guard let paths = keyring.paths else { return }
        let deadline = ContinuousClock.now + Limits.switchWait
        while SidecarFiles(databasePath: paths.database).read().claimedState == .switching {
            try keyring.opening.lock()
            guard keyring.opening.isLocked else { return }
            let outcome = try RotationRecovery.run(
                paths, isCancelled: isOvertaken, unlock: { try keyring.keys(of: $0, given: .held) })
            if let outcome { return keyring.opening.report(outcome.notices) }
            keyring.opening.release()
            try RotationRecovery.waitForAdmin(paths, until: deadline, isCancelled: isOvertaken)
        }
    }
}

extension RecoveryAction.Reason {
    /// Why it cannot go on, and what to do.
    func words(copy: String) -> (why: String, remedy: String) {
        let noKey = "and page 1 of the database has no known key."
        let lost = "The complete copy \"\(copy)\" is missing or damaged, and"
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
        case .copyMissing: ("The complete copy \"\(copy)\" is not there, \(noKey)", restore)
        case .copyUnfit: ("\"\(copy)\" is not the complete copy that the sidecar tells of, \(noKey)", restore)
        case .copyPlanted: ("\"\(copy)\" is no regular file: no rotation made it, \(noKey)", restore)
        case .logEmptied:
            ("\(lost) the log was emptied for it already: the last commits are in that copy alone.", restore)
        case .logUnfit: ("\(lost) nothing proves that the log still has all commits that were in it.", restore)
        }
    }
}

extension SidecarCopies {
    /// The state that the newest of the readable copies claims, nobody having proved it; of two that are equally new the one
    /// that is further in a rotation, and nil without one.
    ///
    /// A backup that could not be written when a switch ended still tells of it: nobody has to wait for that.
    fileprivate var claimedState: Sidecar.State? {
        let claimed = claimed
        let newest = claimed.map(\.generation).max()
        let states = claimed.filter { $0.generation == newest }.map(\.state)
        return [Sidecar.State.switching, .rotating, .ready, .creating].first { states.contains($0) }
    }
}
