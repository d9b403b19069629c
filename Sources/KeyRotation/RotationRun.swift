import CipherDatabase
import CipherStore
import Foundation
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

/// The resources of the steps of a rotation.
enum LiveResources: RotationResources {
    enum PendingKeys {
        case new(RotationProposal)
        /// The sidecar has the keys already: the rotation is resumed.
        case pending(RotationKeys)
    }

    typealias Keys = RotationKeys
    typealias View = PageSnapshot
    typealias Copy = PageCopier
    typealias Pause = ExclusivePause
    typealias Switch = DatabaseSwitch
}

/// One rotation: performs the steps of ``RotationState``. Used by one thread.
final class RotationRun {
    typealias State = RotationState<LiveResources>

    let options: KeyRotation.Options
    var report: RotationReport
    private let paths: StorePaths
    private let journal: RotationJournal
    /// The keys that open the store when the rotation begins.
    private let storeKeys: SidecarKeys
    private let reporter: ProgressReporter
    private let isCancelled: @Sendable () -> Bool
    /// Performs the checks before the rotation; an error ends the rotation.
    private let examine: (RotationRun) throws -> LiveResources.PendingKeys
    /// Called when the store has its new keys, while all processes are still paused.
    private let onCompletion: (RotationKeys) -> Void

    private var state: State
    private var failure: (any Error)?
    /// On which side of the commit point the failure leaves the store.
    private var status = CommitStatus.notAnnounced
    /// Why the last attempt to pause failed.
    private var obstacle: StoreError?
    /// When the processes were first asked to pause.
    private var firstRequest: ContinuousClock.Instant?
    private var isNewKeyProved = false

    init(
        paths: StorePaths, storeKeys: SidecarKeys, journal: RotationJournal, options: KeyRotation.Options,
        epoch: UInt64, reporter: ProgressReporter, isCancelled: @escaping @Sendable () -> Bool,
        onCompletion: @escaping (RotationKeys) -> Void = { _ in },
        examine: @escaping (RotationRun) throws -> LiveResources.PendingKeys
    ) {
        self.paths = paths
        self.storeKeys = storeKeys
        self.journal = journal
        self.options = options
        self.reporter = reporter
        self.isCancelled = isCancelled
        self.onCompletion = onCompletion
        self.examine = examine
        report = RotationReport(fromEpoch: epoch, toEpoch: epoch + 1)
        state = State(endsLongReads: options.longReads.endsThem)
    }

    /// Performs all steps.
    ///
    /// - Throws: The error that ended the rotation.
    func run() throws -> RotationReport {
        let begin = ContinuousClock.now
        while true {
            if case .ended = state.step { break }
            if state.take(perform(state.step)) { continue }
            remember(BrokenInvariant("The rotation has no way from \(state.step)."))
            guard state.take(.failed) else { break }
        }
        report.attempts = state.attempts
        report.duration = .now - begin
        if let failure { throw failed.error(failure, at: status) }
        reporter.begin(.completed)
        return report
    }

    private var failed: FailedRotation {
        var isDirect = false
        if case .direct = storeKeys { isDirect = true }
        return FailedRotation(path: paths.database, toEpoch: report.toEpoch, isDirect: isDirect)
    }

    private func perform(_ step: State.Step) -> State.Event {
        do {
            return try event(of: step)
        } catch {
            remember(error)
            return .failed
        }
    }

    /// The first failure is thrown. Failures after it, during the undo, are reported as notices.
    private func remember(_ error: any Error) {
        if failure == nil { failure = error } else { report.notices.append("\(error)") }
    }

    private func event(of step: State.Step) throws -> State.Event {
        switch step {
        case .examine:
            let pending = try examine(self)
            try requireNotCancelled()
            return .examined(pending)
        case .writePendingKeys(let pending): return .pendingKeysWritten(try writePendingKeys(pending))
        case .freeze: return .frozen(try freeze())
        case .copy(let keys, let view): return .copied(try copyAll(keys, view))
        case .verify(let copy, _): try verify(copy)
        case .catchUp(let copy, let view): return .caughtUp(left: try catchUp(copy, view))
        case .pause(let copy, _, let insists): return try pause(copy, insists: insists)
        case .carryRest(let copy, let view, let pause): return try carryRest(copy, view, pause)
        case .prove(let copy, _): return try prove(copy.copy.identity, at: copy.position)
        case .withdraw(let copy, let view, let pause, let attempt):
            return try withdraw(copy, view, pause, attempt: attempt)
        case .announceSwitch(let copy, _, let databaseSwitch): return try passCommitPoint(databaseSwitch, copy)
        case .switchOver(let copy, _, let databaseSwitch, _): try switchOver(copy, databaseSwitch)
        case .finish(let copy, let pause, let databaseSwitch): finish(copy, pause, databaseSwitch)
        case .undo(let held): try undo(held)
        case .leave(let held): leave(held)
        case .ended: break
        }
        if case .verify = step { return .verified }
        return .done
    }

    private func requireNotCancelled() throws { if isCancelled() { throw CancellationError() } }

    // MARK: The pending key

    private func writePendingKeys(_ pending: LiveResources.PendingKeys) throws -> RotationKeys {
        let keys: RotationKeys
        switch pending {
        case .new(let proposal): keys = try withOpeningLock(isCancelled) { try journal.begin(proposal) }
        case .pending(let found): keys = found
        }
        report.fromEpoch = keys.nextEpoch - 1
        report.toEpoch = keys.nextEpoch
        note(.rotationBegun(from: report.fromEpoch, to: report.toEpoch, mode: keys.modeName))
        CrashPoint.reach(.rotationBegun)
        return keys
    }

    /// Runs `body` with the opening lock. No process is paused while this waits for the lock.
    private func withOpeningLock<T>(_ isCancelled: @escaping @Sendable () -> Bool, _ body: () throws -> T) throws -> T {
        let watch = LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait)
        let opening = try KeyRotation.takeOpening(paths, watch)
        defer { opening.release() }
        return try body()
    }

    /// Writes an event to the key log. A failure becomes a notice and undoes nothing.
    private func note(_ event: KeyEvent) {
        let log = KeyLog(databasePath: paths.database)
        if let notice = log.note(event, authorizedBy: storeKeys.openedBy?.id) { report.notices.append(notice) }
    }

    // MARK: The view

    private func freeze() throws -> PageSnapshot {
        try requireNotCancelled()
        let view = try awaitView()
        try requireNoStranger()
        return view
    }

    /// The pause checks it again. Without this check, the rotation would copy everything before it is refused. A program
    /// that has released the write lock may close its connection now.
    private func requireNoStranger() throws {
        let deadline = ContinuousClock.now + RotationLimits.closingWait
        while let stranger = connections.openForWriting() {
            if ContinuousClock.now >= deadline { throw stranger }
            try requireNotCancelled()
            Pause.sleep(for: RotationLimits.cancellationInterval)
        }
    }

    /// A view. The wait for the write lock may be as long as `busyWait`, because no process is paused.
    ///
    /// - Throws: As ``makeView(waiting:_:)``; ``StoreError`` `storeInUse`, which names the holder of that lock.
    private func awaitView() throws -> PageSnapshot {
        do {
            return try makeView(
                waiting: options.busyWait, LockWaitWatch(isCancelled: isCancelled, onLongWait: options.onLongWait))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            let writer = (try? StoreHolders(of: paths.database))?.writer
            throw StoreError.writeLocked(paths.database, writer, for: options.busyWait)
        }
    }

    /// A view of the present state of the store, on connections of its own.
    ///
    /// - Parameters:
    ///   - wait: The longest wait for each lock.
    ///   - watch: May end the wait for the write lock earlier.
    /// - Throws: As making the view does; `SQLITE_BUSY` when a lock was not available.
    func makeView(waiting wait: Duration = RotationLimits.busyWait, _ watch: LockWaitWatch? = nil) throws
        -> PageSnapshot
    {
        var configuration = Configuration.ofTool()
        configuration.label = KeyRotation.holderLabel
        configuration.busyMode = .timeout(wait / .seconds(1))
        configuration.persistentWAL = true
        let fileKey = FileKey(path: paths.database, configuration: configuration, holding: storeKeys)
        return try PageSnapshot(
            path: paths.database, configuration: configuration, fileKey: fileKey, key: .knownKeys, until: .now + wait,
            watch: watch)
    }

    // MARK: Copying

    private func copyAll(_ keys: RotationKeys, _ view: PageSnapshot) throws -> PageCopier {
        let copy = try PageCopier(
            paths, of: view, keys: keys, options: options, reporter: reporter, isCancelled: isCancelled)
        do {
            try copy.copyAll(of: view)
        } catch {
            do { try copy.discard() } catch { report.notices.append("\(error)") }
            throw error
        }
        report.copyBytesPerSecond = copy.bytesPerSecond
        CrashPoint.reach(.rotationCopied)
        return copy
    }

    private func verify(_ copy: PageCopier) throws {
        try copy.verifyAll()
        CrashPoint.reach(.rotationVerified)
        reporter.begin(.catchingUp)
    }

    /// - Returns: How long another round would take.
    private func catchUp(_ copy: PageCopier, _ view: PageSnapshot) throws -> Duration {
        let delta = try view.delta(since: copy.position)
        let limit = try walLimit()
        if delta.walBytes > limit {
            throw StoreError.outrun(paths.database, walBytes: delta.walBytes, limitBytes: limit)
        }
        try carry(delta, copy, view)
        // All of it is written to disk now, so that little is left to write in the pause.
        try copy.synchronize()
        // The WAL as well: nothing else fsyncs it while it cannot be checkpointed, and the first fsync of any file in
        // the pause would wait for its unwritten pages.
        try synchronizeWAL()
        report.rounds += 1
        CrashPoint.reach(.rotationDeltaRound)
        try requireNotCancelled()
        // The same pages may have been written many times, so the time to walk over their frames is added.
        let begin = ContinuousClock.now
        let left = try view.delta(since: copy.position).pages.count
        return copy.pageCost * left + (.now - begin)
    }

    private func carry(_ delta: WALDelta, _ copy: PageCopier, _ view: PageSnapshot) throws {
        try copy.carry(delta, from: view)
        report.carriedPages += delta.pages.count
    }

    private func synchronizeWAL() throws {
        // SQLite places no locks on the WAL file itself, so closing another descriptor of it releases none.
        try FileDescriptor(opening: paths.wal, .readWrite, followsLinks: false).synchronizeContent()
    }

    private func walLimit() throws -> Int {
        if let limit = options.walLimitBytes { return limit }
        let free = try Files.freeBytes(at: Files.directory(of: paths.database))
        return max(RotationLimits.smallestWALLimitBytes, free / 2)
    }

    // MARK: The pause

    private func pause(_ copy: PageCopier, insists: Bool) throws -> State.Event {
        reporter.begin(.switching)
        try proveNewKey(copy.keys)
        let isCancelled = isCancelled
        let begin = ContinuousClock.now
        // A connection that has not read yet holds no lock, so the later checks would not find it.
        if let stranger = connections.openForWriting() { return unleasedHolder(stranger) }
        let first = firstRequest ?? begin
        firstRequest = first
        guard
            let pause = try ExclusivePause.begin(
                paths, insists: insists, budget: options.pauseBudget, isCancelled: { isCancelled() })
        else {
            // The processes that did pause have waited as well.
            report.longestPause = max(report.longestPause, .now - begin)
            obstacle = connections.withheld(options.pauseBudget, after: .now - first)
            return .withheld(isPatienceOver: isPatienceOver)
        }
        return .paused(pause)
    }

    private var connections: OtherConnections { OtherConnections(paths) }

    private var isPatienceOver: Bool { firstRequest.map { .now - $0 >= options.longReads.limit } ?? false }

    /// Verifies that a secret manager returns the new key. This may take long, because no process is paused yet.
    private func proveNewKey(_ keys: RotationKeys) throws {
        guard !isNewKeyProved, let source = options.provesNewKey, case .newKey = options.mode else { return }
        let given = try source.read()
        let key = try given.dataKey(salt: keys.nextSalt, settings: keys.settings)
        guard key.isEqual(to: keys.nextDataKey) else { throw StoreError.newKeyNotProved(paths.database) }
        isNewKeyProved = true
    }

    private func carryRest(_ copy: PageCopier, _ view: PageSnapshot, _ pause: ExclusivePause) throws -> State.Event {
        // Checked before the view is closed: while it is open, commits of other programs can still be found.
        if let foreign = try connections.locked() { return unleasedHolder(foreign) }
        let deadline = pause.begin + options.pauseBudget
        do {
            // Without a frame in the WAL, commits of other programs after the view is closed could not be detected.
            if copy.position.frame == 0 { try view.commitFrame(until: deadline) }
            let fits = try view.withWriteLock(until: deadline) {
                let rest = try view.delta(since: copy.position)
                guard .now + copy.pageCost * rest.pages.count <= deadline else { return false }
                try carry(rest, copy, view)
                return true
            }
            CrashPoint.reach(.rotationLastDelta)
            guard fits else { return withheld() }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return withheld()
        }
        try copy.synchronize()
        try view.close()
        CrashPoint.reach(.rotationCopySynced)
        return .carried
    }

    private func unleasedHolder(_ obstacle: StoreError) -> State.Event {
        self.obstacle = obstacle
        return .unleasedHolder
    }

    private func withheld() -> State.Event {
        obstacle = .restless(paths.database)
        return .withheld(isPatienceOver: isPatienceOver)
    }

    /// Proves that no connection exists, and that the WAL ends where the copy does. From then on the store does not
    /// change.
    func prove(_ copy: FileIdentity, at position: WALPosition) throws -> State.Event {
        guard let database = try LockedDatabase.lock(paths.database) else { return unleasedHolder(connections.any()) }
        var isProved = false
        // A withdrawal of the pause opens the database, so it must be unlocked.
        defer { if !isProved { database.release() } }
        CrashPoint.reach(.rotationBytesLocked)
        guard try database.isInPlace else { throw StoreError.moved(paths.database) }
        // The last check for a cancellation: the next step cannot be undone, and a pause that began without a wait has
        // not checked for one.
        try requireNotCancelled()
        // A program that does not use leases may have committed between the last check and the lock.
        guard try walEnds(at: position) else { return withheld() }
        isProved = true
        return .proved(DatabaseSwitch(paths, journal, replacing: database, by: copy))
    }

    /// Whether the WAL ends where the copy does. No connection exists, so its files may be opened and closed without
    /// SQLite.
    private func walEnds(at position: WALPosition) throws -> Bool {
        // A program without SharedStore that closes the last connection removes both files.
        guard Files.exists(paths.sharedMemory) else { return false }
        let head = try FileDescriptor(opening: paths.sharedMemory, .readOnly, followsLinks: false)
            .read(at: 0, byteCount: WALIndex.headerBytes)
        // The salts are compared as well: the WAL may have been checkpointed and reset, and have as many frames again.
        guard let index = head.withUnsafeBytes({ WALIndex($0) }), position.frame > 0, index.frames == position.frame,
            index.salts == position.salts, Files.exists(paths.wal)
        else { return false }
        let start = try FileDescriptor(opening: paths.wal, .readOnly, followsLinks: false)
            .read(at: 0, byteCount: WALHeader.headerBytes)
        let header = start.withUnsafeBytes { WALHeader($0) }
        return header?.salts == position.salts
    }

    /// Ends the pause, so that all processes resume with the present key, and waits before the next attempt.
    private func withdraw(
        _ copy: PageCopier, _ openView: PageSnapshot?, _ pause: ExclusivePause?, attempt: Int
    ) throws -> State.Event {
        guard let view = openView else {
            let (view, isWALLost) = try reopenView(after: copy.position, pause)
            do {
                end(pause)
                if isWALLost {
                    try copy.discard()
                    return .walLost(copy.keys, view)
                }
                try rest(attempt)
            } catch {
                try? view.close()
                throw error
            }
            return .withdrawn(view)
        }
        end(pause)
        try rest(attempt)
        return .withdrawn(view)
    }

    /// Makes a view after the former one was closed.
    ///
    /// - Returns: The view, and whether the commits after `position` are lost to it.
    func reopenView(after position: WALPosition, _ pause: ExclusivePause?) throws -> (PageSnapshot, isWALLost: Bool) {
        // Made while no other process writes: once one does, the WAL may be reset.
        let view: PageSnapshot
        do {
            view = try makeView(waiting: RotationLimits.pausedBusyWait)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            // A program that cannot be asked to pause is writing. The paused processes must not wait for it.
            end(pause)
            view = try awaitView()
        }
        // Commits in between are in the WAL now, but only a view keeps them there, and this view began after them. A
        // WAL without frames proves nothing: the first opener rebuilds its index, without salts. `position` is in such
        // a WAL if a program without SharedStore connected after the last check for connections and reset a WAL that
        // was checkpointed completely. A reader of such a WAL does not prevent the reset.
        return (view, view.position != position || position.frame == 0)
    }

    private func rest(_ attempt: Int) throws {
        let pause = RotationLimits.firstWithdrawal * (1 << min(attempt - 1, 10))
        let end = ContinuousClock.now + min(pause, RotationLimits.longestWithdrawal)
        while ContinuousClock.now < end {
            try requireNotCancelled()
            Pause.sleep(for: min(.milliseconds(20), end - .now))
        }
    }

    private func end(_ pause: ExclusivePause?) {
        guard let pause else { return }
        pause.end()
        report.longestPause = max(report.longestPause, pause.length)
    }

    // MARK: The switch

    private func passCommitPoint(_ databaseSwitch: DatabaseSwitch, _ copy: PageCopier) throws -> State.Event {
        do {
            try databaseSwitch.passCommitPoint(pages: copy.pages)
        } catch {
            // If it is unknown whether the sidecar announces the switch, the next opening decides.
            guard databaseSwitch.status == .notAnnounced else { throw error }
            remember(error)
            return .notAnnounced
        }
        return .done
    }

    /// From here on the rotation can only be completed. If this process does not take these steps, the next opening
    /// does.
    private func switchOver(_ copy: PageCopier, _ databaseSwitch: DatabaseSwitch) throws {
        report.pages = Int(copy.pages)
        report.bytes = Int(copy.pages) * copy.pageBytes
        // A descriptor of the database must not be closed once SQLite has it open.
        copy.copy.close()
        try databaseSwitch.run()
    }

    private func finish(_ copy: PageCopier, _ pause: ExclusivePause, _ databaseSwitch: DatabaseSwitch) {
        pardonFailure()
        report.notices += databaseSwitch.notices
        onCompletion(copy.keys)
        end(pause)
        // After the pause, so that no process waits until the space of the former files is freed.
        databaseSwitch.end()
        CrashPoint.reach(.rotationReleased)
        note(.rotationCompleted(to: report.toEpoch))
        report.removedSlots = copy.keys.droppedSlots.map(StoreKeys.Slot.init)
        for slot in copy.keys.droppedSlots { note(.slotRemoved(id: slot.id)) }
    }

    /// Turns an earlier failure into a notice, because the rotation has succeeded.
    private func pardonFailure() {
        guard let error = failure else { return }
        failure = nil
        report.notices.append("a step of the switch failed and was repeated: \(error)")
    }

    // MARK: The end of a rotation that failed

    private func undo(_ held: State.Held) throws {
        if failure == nil { failure = obstacle ?? StoreError.restless(paths.database) }
        // The other processes are released first: the following steps do not concern them.
        release(held)
        guard held.hasPendingKeys else { return }
        // The copy is removed first: on a full disk the sidecar needs its space.
        let removal = Result { try held.copy?.discard() }
        try withOpeningLock({ false }) { report.notices += try journal.abandon() }
        note(.rotationAbandoned(from: report.fromEpoch))
        try removal.get()
    }

    private func leave(_ held: State.Held) {
        status = held.databaseSwitch?.status ?? .notAnnounced
        release(held)
        held.copy?.copy.close()
    }

    private func release(_ held: State.Held) {
        // A process that resumes must find the database unlocked. The space of a replaced database can be freed later.
        held.databaseSwitch?.admitConnections()
        end(held.pause)
        try? held.view?.close()
        held.databaseSwitch?.end()
    }
}

extension KeyRotation {
    /// The label of a rotation in the table of holders.
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
