import CipherDatabase
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing

/// Completes or undoes a rotation whose process has ended, before a store is opened.
///
/// A rotation holds the lock `admin` from its beginning to its end, so it may be taken over when that lock is free. If
/// it was interrupted before the switch was announced, it is undone: the database has its former key. After the
/// announcement the copy holds everything, and the switch is resumed (``DatabaseSwitch``). Only if the copy is lost,
/// and database and WAL are unchanged, the rotation is undone as well.
package struct RotationRecovery {
    private let paths: StorePaths
    private let journal: RotationJournal
    private let evidence: RotationEvidence
    private let deadline: ContinuousClock.Instant
    private let isCancelled: (() -> Bool)?
    private let onStatus: (CommitStatus) -> Void

    /// The outcome of a recovery.
    package struct Outcome: Sendable {
        /// Notices for the owner of the store.
        package var notices: [String]
        /// The epoch to which a rotation was completed; nil when none was.
        package var completedEpoch: UInt64?

        package init(notices: [String] = [], completedEpoch: UInt64? = nil) {
            self.notices = notices
            self.completedEpoch = completedEpoch
        }
    }

    /// Completes or undoes an interrupted rotation, if there is one. The caller must hold the opening lock, and must
    /// have no connection to the database.
    ///
    /// - Parameters:
    ///   - copies: The sidecar as it was read under the opening lock; nil reads it.
    ///   - unlock: Makes the keys for a sidecar as claimed; called only when a recovery is needed.
    ///   - wait: The longest wait for connections of other programs; nil for 30 seconds.
    ///   - onStatus: Called before anything is changed, with the status in which a failure would leave the store, and again
    ///     when a step failed.
    /// - Returns: The outcome. Nil when a switch must be completed and another process holds the admin lock: the caller
    ///   must release the opening lock, wait (``waitForAdmin(_:until:isCancelled:)``), and read everything again.
    /// - Throws: ``StoreError`` `rotationPending` when another key or a repair by the user is needed, `storeInUse` when
    ///   a connection prevents the recovery; the errors of choosing a sidecar; `SystemError`. Nothing is lost then, and
    ///   the next opening tries again.
    package static func run(
        _ paths: StorePaths, _ copies: SidecarCopies? = nil, wait: Duration? = nil, isCancelled: (() -> Bool)? = nil,
        onStatus: @escaping (CommitStatus) -> Void = { _ in },
        unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> Outcome? {
        let evidence = RotationEvidence(paths)
        let copies = copies ?? SidecarFiles(databasePath: paths.database).read()
        guard let claimed = claimedState(copies) else { return Outcome() }
        // The cost for an ordinary opening: one lookup of the copy's name.
        if claimed == .ready, try evidence.copyKind() == nil { return Outcome() }
        if claimed == .creating { return Outcome() }
        let recovery = RotationRecovery(
            paths: paths, journal: RotationJournal(databasePath: paths.database, unlock: unlock), evidence: evidence,
            deadline: .now + (wait ?? RecoveryLimits.recoveryWait), isCancelled: isCancelled, onStatus: onStatus)
        // Tried without a wait: the holder of this lock may wait for the opening lock. While pages are copied the store
        // is used normally; after a switch it has another key.
        guard let admin = try LockFile(path: paths.lock, likeFile: paths.database).tryLock(.admin, .exclusive) else {
            return claimed == .switching ? nil : Outcome()
        }
        defer { admin.release() }
        CrashPoint.reach(.recoveryBegun)
        return try recovery.recover()
    }

    /// Waits until the admin lock is free. The caller must hold no lock that the holder of the admin lock may need,
    /// such as `opening`.
    package static func waitForAdmin(
        _ paths: StorePaths, until deadline: ContinuousClock.Instant, isCancelled: (() -> Bool)? = nil
    ) throws {
        try LockFile(path: paths.lock, likeFile: paths.database)
            .lock(.admin, .exclusive, deadline: deadline, isCancelled: isCancelled).release()
    }

    /// Whether the sidecar claims, unverified, that a switch is in progress.
    package static func isSwitchClaimed(_ paths: StorePaths) -> Bool {
        claimedState(SidecarFiles(databasePath: paths.database).read()) == .switching
    }

    /// The unverified state in the newest of the readable copies. Of two equally new copies, the state that is later in
    /// a rotation; nil without a copy.
    ///
    /// A backup copy that could not be written when a switch ended still announces that switch. No process needs to wait
    /// for it.
    private static func claimedState(_ copies: SidecarCopies) -> Sidecar.State? {
        let claimed = copies.claimed
        let newest = claimed.map(\.generation).max()
        let states = claimed.filter { $0.generation == newest }.map(\.state)
        return [Sidecar.State.switching, .rotating, .ready, .creating].first { states.contains($0) }
    }

    /// Undoes a rotation that was interrupted at its switch, if nothing of the store is in the copy alone. The caller
    /// must hold the admin lock and the opening lock.
    ///
    /// - Returns: False when the copy is whole or has replaced the database: then the rotation can only be completed.
    /// - Throws: ``StoreError`` `rotationPending` when the rotation can be neither undone nor completed;
    ///   ``SystemError``.
    package static func undoSwitch(_ paths: StorePaths, _ journal: RotationJournal) throws -> Bool {
        guard let rotation = try journal.rotation() else { return false }
        let recovery = RotationRecovery(
            paths: paths, journal: journal, evidence: RotationEvidence(paths), deadline: .now, isCancelled: nil,
            onStatus: { _ in })
        switch try recovery.decide(rotation).action {
        case .undo:
            _ = try recovery.undo(rotation)
            return true
        case .refuse(let reason): throw recovery.refusal(reason, rotation)
        default: return false
        }
    }

    // MARK: Actions

    private func recover() throws -> Outcome {
        // Read under the lock: the rotation may have ended meanwhile.
        guard let rotation = try journal.rotation() else { return Outcome(notices: try removeCopy()) }
        let next = rotation.sidecar.epoch + 1
        let (action, copy) = try decide(rotation)
        switch action {
        case .nothing, .checkCopy, .checkWAL: return Outcome()
        case .removeCopy: return Outcome(notices: try removeCopy())
        case .undo:
            // Until it is undone, the store is used normally, with its present key.
            if let obstacle = try FileOwnership.obstacle(to: paths.database) {
                return Outcome(notices: [
                    "An interrupted rotation to epoch \(next) was not undone. \(obstacle.why) \(obstacle.remedy)"
                ])
            }
            onStatus(rotation.sidecar.state == .switching ? .announced : .notAnnounced)
            return Outcome(
                notices: try undo(rotation) + note([.rotationRecovered(to: next, forward: false)]))
        case .moveCopy:
            try requireOwnerKept()
            onStatus(.announced)
            try journal.settle(rotation)
            let former = try lockDatabase()
            defer { former.release() }
            // The copy may have been put back by a user, without fsync.
            try FileDescriptor(opening: paths.rotationCopy, .readOnly, followsLinks: false).synchronize()
            return Outcome(notices: try complete(rotation, replacing: former, by: copy), completedEpoch: next)
        case .complete:
            try requireOwnerKept()
            onStatus(.replaced)
            let notices = try complete(rotation, replacing: nil, by: nil)
            // The rotation is complete, even if the unneeded copy cannot be removed.
            let removal = Result { try removeCopy() }
            let leftover = (try? removal.get()) ?? ["The copy \"\(paths.rotationCopy)\" could not be removed."]
            return Outcome(notices: notices + leftover, completedEpoch: next)
        case .refuse(let reason): throw refusal(reason, rotation)
        }
    }

    /// Decides on the action; copy and WAL are checked where the decision depends on them.
    ///
    /// - Returns: The action, and the copy that was verified, if one was.
    private func decide(_ rotation: PendingRotation) throws -> (action: RecoveryAction, copy: FileIdentity?) {
        var findings = try evidence.findings(rotation)
        var copy: FileIdentity?
        if findings.decide() == .checkCopy {
            copy = try evidence.wholeCopy(rotation)
            findings.copy = copy != nil ? .whole : .unfit
        }
        if findings.decide() == .checkWAL { findings.wal = try evidence.wal(rotation) }
        return (findings.decide(), copy)
    }

    private func undo(_ rotation: PendingRotation) throws -> [String] {
        let (from, to) = (rotation.sidecar.epoch, rotation.sidecar.epoch + 1)
        let isAtSwitch = rotation.sidecar.state == .switching
        // The copy is removed first: on a full disk the sidecar needs its space.
        let notices = try removeCopy(isLeftover: false)
        CrashPoint.reach(.recoveryCopyRemoved)
        let unwritten = try journal.abandon(databaseIsWhole: isAtSwitch)
        let why =
            isAtSwitch
            ? " Its copy was missing or damaged; the database and its WAL have everything that was committed." : ""
        return notices + unwritten + [
            "An interrupted rotation to epoch \(to) was undone; the store has its key of epoch \(from).\(why)"
        ]
    }

    private func complete(
        _ rotation: PendingRotation, replacing former: LockedDatabase?, by copy: FileIdentity?
    ) throws -> [String] {
        let switching = DatabaseSwitch(resuming: paths, journal, replacing: former, by: copy)
        defer { switching.end() }
        do {
            try switching.run()
        } catch {
            onStatus(switching.status)
            throw error
        }
        let epoch = rotation.sidecar.epoch + 1
        let putBack =
            rotation.sidecar.state == .rotating
            ? ["The sidecar was older than the switch to the new key: somebody had put it back."] : []
        return putBack + switching.notices
            + ["An interrupted rotation was completed; the store has its key of epoch \(epoch)."]
            + note(
                [.rotationRecovered(to: epoch, forward: true)]
                    + rotation.sidecar.slotsDroppedByRotation.map { .slotRemoved(id: $0.id) })
    }

    /// Removes the file with the copy's name if it can be a copy (``RotationLeftover``). Any other file stays, and is
    /// reported.
    ///
    /// - Parameter isLeftover: Whether a notice reports the removal.
    private func removeCopy(isLeftover: Bool = true) throws(SystemError) -> [String] {
        let copy = paths.rotationCopy
        switch try RotationLeftover.remove(at: copy) {
        case .absent: return []
        case .copy:
            try Files.synchronize(directory: Files.directory(of: copy))
            return isLeftover ? ["The copy \"\(copy)\", which a rotation had left, was removed."] : []
        case .foreign(let why):
            return ["\"\(copy)\" has the name of a rotation's copy, but was not removed. \(why)"]
        }
    }

    /// Locks every connection of every program out of the database. A process that has a lease and no connection does
    /// not prevent this.
    private func lockDatabase() throws -> LockedDatabase {
        var polling = Polling(first: RecoveryLimits.lockPause, until: deadline, isCancelled: isCancelled)
        while true {
            if let locked = try LockedDatabase.lock(paths.database) { return locked }
            guard try polling.next() else { throw try inUse() }
        }
    }

    /// Throws if files that are rewritten would lose their owner; the sidecar is rewritten, too.
    private func requireOwnerKept() throws {
        try FileOwnership.requireKept(
            paths.database, what: "An interrupted rotation of \"\(paths.database)\" was not completed.")
    }

    private func note(_ events: [KeyEvent]) -> [String] {
        events.compactMap { KeyLog(databasePath: paths.database).note($0) }
    }

    // MARK: Errors

    private func inUse() throws -> StoreError {
        let processes = try Set(SystemLocks.posixLocks(on: paths.database)?.map(\.process) ?? []).sorted()
        let names = processes.map { "\($0) (\(ProcessInspector.commandName(of: $0) ?? "?"))" }
        return StoreError(
            .storeInUse, what: "An interrupted rotation of \"\(paths.database)\" cannot be completed.",
            why: "A program has the database open"
                + (names.isEmpty ? "." : ": process \(names.joined(separator: ", "))."),
            remedy: "End it, then open the store again. Nothing is lost.")
    }

    private func refusal(_ reason: RecoveryAction.Reason, _ rotation: PendingRotation) -> StoreError {
        let what = "The rotation of \"\(paths.database)\" to epoch \(rotation.sidecar.epoch + 1) was interrupted."
        let (why, remedy) = reason.words(copy: paths.rotationCopy)
        return StoreError(.rotationPending, what: what, why: why, remedy: remedy)
    }
}

/// Every bound of this module.
enum RecoveryLimits {
    /// How long a recovery waits for connections of other programs.
    static let recoveryWait = Duration.seconds(30)
    /// The interval between two attempts to lock the database.
    static let lockPause = Duration.milliseconds(20)
    /// How long a switch waits for a process that is ending and still has the index of the WAL open, and how often it checks.
    static let indexWait = Duration.milliseconds(100)
    static let indexPause = Duration.milliseconds(1)
}
