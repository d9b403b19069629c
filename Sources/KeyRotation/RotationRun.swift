import CipherDatabase
import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StorePlatform

/// One rotation: performs what ``RotationState`` asks for, and holds what it takes. Used by one thread.
final class RotationRun {
    let paths: StorePaths
    let options: KeyRotation.Options
    let ledger: RotationLedger
    /// The keys that open the store when the rotation begins.
    let storeKeys: SidecarKeys
    let teller: ProgressTeller
    let isCancelled: @Sendable () -> Bool
    /// What is looked at before; an error ends the rotation.
    private let examine: (RotationRun) throws -> Void
    /// Makes the pending keys, or finds them where the rotation is gone on with.
    private let announce: (RotationRun) throws -> RotationKeys

    /// Called when the store has its new keys and everybody still waits.
    var onCompletion: (RotationKeys) -> Void = { _ in }

    private var state: RotationState
    private var failure: (any Error)?
    /// Why there is no pause, until there is one.
    var obstacle: StoreError?
    var report: RotationReport

    private(set) var keys: RotationKeys?
    var view: FrozenView?
    var copier: PageCopier?
    /// Up to where the log is carried over.
    var cut: LogCut?
    /// Pages of the copy.
    var pages: UInt32 = 0
    var standstill: Standstill?
    /// The log that an empty one has replaced, kept open while everybody waits.
    var formerLog: OpenFile?
    /// Which file takes the database's place; known when the switch has begun.
    var replacement: FileIdentity?
    /// What the new keys are to be.
    var proposal: RotationProposal?
    var isNewKeyProved = false
    /// When the processes were first asked to pause.
    var firstRequest: ContinuousClock.Instant?

    init(
        paths: StorePaths, storeKeys: SidecarKeys, ledger: RotationLedger, options: KeyRotation.Options,
        epoch: UInt64, teller: ProgressTeller, isCancelled: @escaping @Sendable () -> Bool,
        examine: @escaping (RotationRun) throws -> Void, announce: @escaping (RotationRun) throws -> RotationKeys
    ) {
        self.paths = paths
        self.storeKeys = storeKeys
        self.ledger = ledger
        self.options = options
        self.teller = teller
        self.isCancelled = isCancelled
        self.examine = examine
        self.announce = announce
        report = RotationReport(fromEpoch: epoch, toEpoch: epoch + 1)
        state = RotationState(endsLongReads: options.longReads.endsThem)
    }

    /// Goes through the whole course.
    ///
    /// - Throws: What ended the rotation.
    func run() throws -> RotationReport {
        let begin = ContinuousClock.now
        var next = state.take(.start)
        while let action = next {
            next = state.take(perform(action))
        }
        standstill?.end()
        try? view?.close()
        report.attempts = state.attempts
        report.duration = .now - begin
        if let failure { throw failed.error(failure, on: side) }
        teller.begin(.completed)
        return report
    }

    /// With what only the files tell: whether the copy has the database's place.
    private var side: CommitSide {
        guard state.side == .announced, let replacement,
            let database = try? Files.identity(paths.database), database == replacement
        else { return state.side }
        return .replaced
    }

    private var failed: FailedRotation {
        var isDirect = false
        if case .direct = storeKeys { isDirect = true }
        return FailedRotation(path: paths.database, toEpoch: report.toEpoch, isDirect: isDirect)
    }

    private func perform(_ action: RotationState.Action) -> RotationState.Event {
        do {
            return try event(of: action)
        } catch {
            remember((error as? UncertainAnnouncement)?.failure ?? error)
            return error is CancellationError && state.canBeUndone ? .cancelled : .failed
        }
    }

    /// The first failure is the reason; what fails while things are taken back is told beside it.
    func remember(_ error: any Error) {
        if failure == nil { failure = error } else { report.notices.append("\(error)") }
    }

    /// The rotation has succeeded, so that what failed on its way is no more than worth a word.
    func pardonFailure() {
        guard let error = failure else { return }
        failure = nil
        report.notices.append("a step of the switch failed and was repeated: \(error)")
    }

    private func event(of action: RotationState.Action) throws -> RotationState.Event {
        switch action {
        case .examine:
            try examine(self)
            try requireNotCancelled()
        case .announce: try announceRotation()
        case .freeze: try freeze()
        case .copy: try copyAll()
        case .verify: try verify()
        case .catchUp: return try catchUp()
        case .ask(let insists): return try ask(insists: insists)
        case .carryRest: return try carryRest()
        case .prove: return try prove()
        case .withdraw(let attempt): return try withdraw(attempt: attempt)
        case .announceSwitch: return try announceSwitch()
        case .switchOver: try switchOver()
        case .letGo: letGo()
        case .undo: try undo()
        case .leave: leave()
        }
        return .done
    }

    func requireNotCancelled() throws { if isCancelled() { throw CancellationError() } }

    /// - Parameter isPatient: Whether the wait for the lock goes on when the rotation is cancelled.
    func withOpeningLock<T>(isPatient: Bool = false, _ body: () throws -> T) throws -> T {
        // Held already while everybody waits.
        if standstill != nil { return try body() }
        let isCancelled: @Sendable () -> Bool = isPatient ? { @Sendable in false } : self.isCancelled
        let watch = LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait)
        let opening = try KeyRotation.takeOpening(paths, watch)
        defer { opening.release() }
        return try body()
    }

    // MARK: Beginning

    private func announceRotation() throws {
        let keys = try announce(self)
        self.keys = keys
        report.fromEpoch = keys.nextEpoch - 1
        report.toEpoch = keys.nextEpoch
        note(.rotationBegun(from: report.fromEpoch, to: report.toEpoch))
        CrashPoint.reach(.rotationBegun)
    }

    private func freeze() throws {
        try requireNotCancelled()
        view = try awaitView()
        cut = view?.cut
    }

    /// A view, for which the write lock is waited for as long as it takes: nobody is kept waiting.
    ///
    /// - Throws: As ``makeView(waiting:)``; ``StoreError`` `storeInUse`, which names who holds that lock.
    func awaitView() throws -> FrozenView {
        do {
            return try makeView(
                waiting: options.busyWait, LockWaitWatch(isCancelled: isCancelled, onLongWait: options.onLongWait))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            let writer = (try? StoreHolders(of: paths.database))?.writer
            throw StoreError.writeLocked(paths.database, writer, for: options.busyWait)
        }
    }

    /// A view of the store as it is now, by connections of its own.
    ///
    /// - Parameters:
    ///   - wait: How long each lock is waited for.
    ///   - watch: Who may end the wait for the write lock earlier.
    /// - Throws: As making the view does; `SQLITE_BUSY` when a lock was not to be had.
    func makeView(waiting wait: Duration = Limits.busyWait, _ watch: LockWaitWatch? = nil) throws -> FrozenView {
        var configuration = Configuration()
        configuration.label = KeyRotation.holderLabel
        configuration.busyMode = .timeout(wait / .seconds(1))
        configuration.persistentWAL = true
        let keyring = Keyring(path: paths.database, configuration: configuration, holding: storeKeys)
        return try FrozenView(
            path: paths.database, configuration: configuration, keyring: keyring, key: .held, until: .now + wait,
            watch: watch)
    }

    // MARK: Copying

    private func copyAll() throws {
        guard let keys, let view else { throw CancellationError() }
        copier?.copy.close()
        copier = nil
        let copier = try PageCopier(
            paths, keys: keys, options: options, teller: teller, isCancelled: isCancelled)
        self.copier = copier
        cut = view.cut
        pages = view.databasePages
        try copier.copyAll(of: view)
        report.copyBytesPerSecond = copier.bytesPerSecond
        CrashPoint.reach(.rotationCopied)
    }

    private func verify() throws {
        try copier?.verifyAll(pages: pages)
        CrashPoint.reach(.rotationVerified)
        teller.begin(.catchingUp)
    }

    private func catchUp() throws -> RotationState.Event {
        guard let view, let copier, let start = cut else { throw CancellationError() }
        let delta = try view.delta(since: start)
        let limit = try logLimit()
        if delta.walBytes > limit {
            throw StoreError.outrun(paths.database, logBytes: delta.walBytes, limitBytes: limit)
        }
        try carry(delta, copier, view)
        // All of it is brought to the medium now, so that little is left when everybody waits.
        try copier.copy.synchronize(pages: pages)
        // The log as well: nobody synchronizes it while it cannot be checkpointed, and what of it is not on the medium
        // would be waited for by the first synchronization of anything in the pause.
        try synchronizeLog()
        report.rounds += 1
        CrashPoint.reach(.rotationDeltaRound)
        try requireNotCancelled()
        // The same pages may have been written many times: walking over their frames takes its time, too.
        let begin = ContinuousClock.now
        let left = try view.delta(since: delta.cut).pages.count
        return .caughtUp(left: copier.pageCost * left + (.now - begin))
    }

    /// Carries over what a delta names.
    func carry(_ delta: LogDelta, _ copier: PageCopier, _ view: FrozenView) throws {
        try copier.carry(delta, from: view)
        cut = delta.cut
        pages = delta.databasePages
        report.carriedPages += delta.pages.count
    }

    private func synchronizeLog() throws {
        // The log holds no locks, so a descriptor of our own does no harm.
        try FileDescriptor(opening: paths.wal, .readWrite).synchronizeContent()
    }

    private func logLimit() throws -> Int {
        if let limit = options.logLimitBytes { return limit }
        let free = try Files.freeBytes(at: Files.directory(of: paths.database))
        return max(Limits.smallestLogLimitBytes, free / 2)
    }

    // MARK: Ending

    /// Writes an event into the key log. A failure to do so undoes nothing.
    func note(_ event: KeyEvent) {
        if let notice = KeyLog(databasePath: paths.database).note(event) { report.notices.append(notice) }
    }

    private func undo() throws {
        if failure == nil { failure = obstacle ?? StoreError.restless(paths.database) }
        // The others first: nothing of what follows concerns them.
        endStandstill()
        try? view?.close()
        view = nil
        let copy = copier?.copy
        copier = nil
        // Behind the removal: then its room is freed without the opening lock.
        defer { copy?.close() }
        guard keys != nil else { return }
        try withOpeningLock(isPatient: true) {
            report.notices += try ledger.abandon()
            if copy != nil { try RotationCopy.removeLeftover(of: paths) }
        }
        note(.rotationAbandoned(from: report.fromEpoch))
    }

    private func leave() {
        endStandstill()
        try? view?.close()
        view = nil
        copier?.copy.close()
        copier = nil
    }
}

extension KeyRotation {
    /// What the table of holders calls a rotation.
    static let holderLabel = "CipherStore.KeyRotation"
}

extension KeyRotation.LongReads {
    var endsThem: Bool {
        if case .end = self { true } else { false }
    }
}

extension KeyRotation.Options {
    /// How many threads re-encrypt.
    var workerCount: Int { max(1, workers ?? ProcessInfo.processInfo.activeProcessorCount) }
}
