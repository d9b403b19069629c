import CipherDatabase
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing

/// Completes or undoes a rotation whose process is gone, before a store is opened.
///
/// A rotation holds the lock `admin` from its beginning to its end, so one that can be taken over is one whose lock is free.
/// Before the switch was announced it is undone: the database has its former key. After that the copy holds everything, and
/// the switch is resumed (``DatabaseSwitch``). Only where the copy is lost, and database and WAL are as they were, it is
/// undone as well.
package struct RotationRecovery {
    private let paths: StorePaths
    private let journal: RotationJournal
    private let evidence: RotationEvidence
    private let deadline: ContinuousClock.Instant
    private let isCancelled: (() -> Bool)?
    private let onStatus: (CommitStatus) -> Void

    /// What was done.
    package struct Outcome: Sendable {
        /// In words for the store's owner.
        package var notices: [String]
        /// The epoch to which a rotation was completed; nil when none was.
        package var completedEpoch: UInt64?

        package init(notices: [String] = [], completedEpoch: UInt64? = nil) {
            self.notices = notices
            self.completedEpoch = completedEpoch
        }
    }

    /// Takes over what a dead rotation left, if there is anything. The caller holds the opening lock, and has no connection
    /// to the database.
    ///
    /// - Parameters:
    ///   - copies: The sidecar as it was read under the opening lock; nil reads it.
    ///   - unlock: Makes the keys for what a sidecar claims; asked only when there is something to recover.
    ///   - wait: The longest wait for connections of other programs; nil for half a minute.
    ///   - onStatus: Called before anything is changed, with the status in which a failure would leave the store, and again
    ///     when a step failed.
    /// - Returns: What was done. Nil when a switch is to be completed and somebody has the admin lock: the caller releases
    ///   the opening lock, waits (``waitForAdmin(_:until:isCancelled:)``), and reads everything anew.
    /// - Throws: ``StoreError`` `rotationPending` when it takes another key or another hand, `storeInUse` when a connection is
    ///   in the way; what choosing a sidecar throws; `SystemError`. Nothing is lost then, and the next opening tries again.
    package static func run(
        _ paths: StorePaths, _ copies: SidecarCopies? = nil, wait: Duration? = nil, isCancelled: (() -> Bool)? = nil,
        onStatus: @escaping (CommitStatus) -> Void = { _ in },
        unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> Outcome? {
        let evidence = RotationEvidence(paths)
        let copies = copies ?? SidecarFiles(databasePath: paths.database).read()
        guard let claimed = claimedState(copies) else { return Outcome() }
        // What everyday openings pay: one look for the name of the copy.
        if claimed == .ready, try evidence.copyKind() == nil { return Outcome() }
        if claimed == .creating { return Outcome() }
        let recovery = RotationRecovery(
            paths: paths, journal: RotationJournal(databasePath: paths.database, unlock: unlock), evidence: evidence,
            deadline: .now + (wait ?? Limits.recoveryWait), isCancelled: isCancelled, onStatus: onStatus)
        // Only tried: who has it may want the opening lock. While pages are copied the store is used as ever; after a switch
        // it has another key.
        guard let admin = try LockFile(path: paths.lock, likeFile: paths.database).tryLock(.admin, .exclusive) else {
            return claimed == .switching ? nil : Outcome()
        }
        defer { admin.release() }
        CrashPoint.reach(.recoveryBegun)
        return try recovery.recover()
    }

    /// Waits until nobody has the admin lock, for one who holds no lock that its holder may want, `opening` among them.
    package static func waitForAdmin(
        _ paths: StorePaths, until deadline: ContinuousClock.Instant, isCancelled: (() -> Bool)? = nil
    ) throws {
        try LockFile(path: paths.lock, likeFile: paths.database)
            .lock(.admin, .exclusive, deadline: deadline, isCancelled: isCancelled).release()
    }

    /// Whether the sidecar claims, unverified, that a switch is under way.
    package static func isSwitchClaimed(_ paths: StorePaths) -> Bool {
        claimedState(SidecarFiles(databasePath: paths.database).read()) == .switching
    }

    /// The state that the newest of the readable copies claims, nobody having verified it; of two that are equally new the
    /// one that is further in a rotation, and nil without one.
    ///
    /// A backup that could not be written when a switch ended still announces it: nobody has to wait for that.
    private static func claimedState(_ copies: SidecarCopies) -> Sidecar.State? {
        let claimed = copies.claimed
        let newest = claimed.map(\.generation).max()
        let states = claimed.filter { $0.generation == newest }.map(\.state)
        return [Sidecar.State.switching, .rotating, .ready, .creating].first { states.contains($0) }
    }

    /// Gives up a rotation that was interrupted at its switch, where nothing of the store lives in the copy alone. The caller
    /// holds the admin and the opening lock.
    ///
    /// - Returns: False when the copy is whole or has its place: then it can only be completed.
    /// - Throws: ``StoreError`` `rotationPending` when neither can be done; ``SystemError``.
    package static func undoSwitch(_ paths: StorePaths, _ journal: RotationJournal) throws -> Bool {
        guard let rotation = try journal.rotation() else { return false }
        let recovery = RotationRecovery(
            paths: paths, journal: journal, evidence: RotationEvidence(paths), deadline: .now, isCancelled: nil,
            onStatus: { _ in })
        switch try recovery.decide(rotation) {
        case .undo:
            _ = try recovery.undo(rotation)
            return true
        case .refuse(let reason): throw recovery.refusal(reason, rotation)
        default: return false
        }
    }

    // MARK: What is done

    private func recover() throws -> Outcome {
        // Read under the lock: the rotation may have come to its end meanwhile.
        guard let rotation = try journal.rotation() else { return Outcome(notices: try removeCopy()) }
        let next = rotation.sidecar.epoch + 1
        switch try decide(rotation) {
        case .nothing, .checkCopy, .checkWAL: return Outcome()
        case .removeCopy: return Outcome(notices: try removeCopy())
        case .undo:
            // Until then the store is used as ever, with its present key.
            if let owner = try FileOwnership.ownerLosing(paths.database) {
                let (why, remedy) = FileOwnership.words(ofLosing: owner)
                return Outcome(notices: [
                    "An interrupted rotation to epoch \(next) was not undone. \(why) \(remedy)"
                ])
            }
            onStatus(rotation.sidecar.state == .switching ? .announced : .notAnnounced)
            return Outcome(notices: try undo(rotation) + note(next, forward: false))
        case .moveCopy:
            try requireOwnerKept()
            onStatus(.announced)
            try journal.settle(rotation)
            let former = try lockDatabase()
            defer { former.release() }
            // It may be one that somebody has put back.
            try FileDescriptor(opening: paths.rotationCopy, .readOnly, followsLinks: false).synchronize()
            return Outcome(notices: try complete(rotation, replacing: former), completedEpoch: next)
        case .complete:
            try requireOwnerKept()
            onStatus(.replaced)
            let notices = try complete(rotation, replacing: nil)
            // It is complete, whatever becomes of a file that nobody needs.
            let removal = Result { try removeCopy() }
            let leftover = (try? removal.get()) ?? ["The copy \"\(paths.rotationCopy)\" could not be removed."]
            return Outcome(notices: notices + leftover, completedEpoch: next)
        case .refuse(let reason): throw refusal(reason, rotation)
        }
    }

    /// What is to be done, copy and WAL having been checked where that decides.
    private func decide(_ rotation: PendingRotation) throws -> RecoveryAction {
        var findings = try evidence.findings(rotation)
        if findings.decide() == .checkCopy { findings.copy = try evidence.isCopyWhole(rotation) ? .whole : .unfit }
        if findings.decide() == .checkWAL { findings.wal = try evidence.wal(rotation) }
        return findings.decide()
    }

    private func undo(_ rotation: PendingRotation) throws -> [String] {
        let (from, to) = (rotation.sidecar.epoch, rotation.sidecar.epoch + 1)
        let isAtSwitch = rotation.sidecar.state == .switching
        // The copy first: on a full disk its room is what the sidecar needs.
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

    private func complete(_ rotation: PendingRotation, replacing former: LockedDatabase?) throws -> [String] {
        let switching = DatabaseSwitch(resuming: paths, journal, replacing: former)
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
            + note(epoch, forward: true)
    }

    /// Removes the copy where it can be one (``RotationLeftover``). What anybody else put there stays, and is reported.
    ///
    /// - Parameter isLeftover: Whether it is worth a notice that there was one.
    private func removeCopy(isLeftover: Bool = true) throws(SystemError) -> [String] {
        let copy = paths.rotationCopy
        switch try RotationLeftover(at: copy) {
        case .absent: return []
        case .copy:
            try Files.remove(copy)
            try Files.synchronize(directory: Files.directory(of: copy))
            return isLeftover ? ["The copy \"\(copy)\", which a rotation had left, was removed."] : []
        case .foreign(let why):
            return ["\"\(copy)\" has the name of a rotation's copy, but was not removed. \(why)"]
        }
    }

    /// Keeps every connection of every program away from the database. A process that has a lease and no connection is in
    /// nobody's way here.
    private func lockDatabase() throws -> LockedDatabase {
        while true {
            if let locked = try LockedDatabase.lock(paths.database) { return locked }
            if isCancelled?() == true { throw CancellationError() }
            guard ContinuousClock.now < deadline else { throw try inUse() }
            Pause.sleep(for: Limits.lockPause)
        }
    }

    /// The sidecar is written anew, too.
    private func requireOwnerKept() throws {
        try FileOwnership.requireKept(
            paths.database, what: "An interrupted rotation of \"\(paths.database)\" was not completed.")
    }

    private func note(_ epoch: UInt64, forward: Bool) -> [String] {
        let event = KeyEvent.rotationRecovered(to: epoch, forward: forward)
        return KeyLog(databasePath: paths.database).note(event).map { [$0] } ?? []
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
enum Limits {
    /// How long a recovery waits for connections of other programs.
    static let recoveryWait = Duration.seconds(30)
    /// How often it looks whether they are gone.
    static let lockPause = Duration.milliseconds(20)
}
