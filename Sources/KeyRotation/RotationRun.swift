import CipherDatabase
import CipherStore
import Foundation
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

/// What the steps of a rotation work on.
enum LiveResources: RotationResources {
    enum Announcement {
        case new(RotationProposal)
        /// The sidecar has them already: the rotation is resumed.
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
    /// Looks at what comes before; an error ends the rotation.
    private let examine: (RotationRun) throws -> LiveResources.Announcement
    /// Called when the store has its new keys and everybody still waits.
    private let onCompletion: (RotationKeys) -> Void

    private var state: State
    private var failure: (any Error)?
    /// On which side of the commit point the failure leaves the store.
    private var status = CommitStatus.notAnnounced
    /// Why there was no pause, the last time that there was none.
    private var obstacle: StoreError?
    /// When the processes were first asked to pause.
    private var firstRequest: ContinuousClock.Instant?
    private var isNewKeyProved = false

    init(
        paths: StorePaths, storeKeys: SidecarKeys, journal: RotationJournal, options: KeyRotation.Options,
        epoch: UInt64, reporter: ProgressReporter, isCancelled: @escaping @Sendable () -> Bool,
        onCompletion: @escaping (RotationKeys) -> Void = { _ in },
        examine: @escaping (RotationRun) throws -> LiveResources.Announcement
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

    /// Goes through the whole course.
    ///
    /// - Throws: What ended the rotation.
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

    /// The first failure is the reason; what fails while things are taken back is reported beside it.
    private func remember(_ error: any Error) {
        if failure == nil { failure = error } else { report.notices.append("\(error)") }
    }

    private func event(of step: State.Step) throws -> State.Event {
        switch step {
        case .examine:
            let announcement = try examine(self)
            try requireNotCancelled()
            return .examined(announcement)
        case .announce(let announcement): return .announced(try announce(announcement))
        case .freeze: return .frozen(try freeze())
        case .copy(let keys, let view): return .copied(try copyAll(keys, view))
        case .verify(let copy, _): try verify(copy)
        case .catchUp(let copy, let view): return .caughtUp(left: try catchUp(copy, view))
        case .pause(let copy, _, let insists): return try pause(copy, insists: insists)
        case .carryRest(let copy, let view, let pause): return try carryRest(copy, view, pause)
        case .prove(let copy, _): return try prove(at: copy.position)
        case .withdraw(let copy, let view, let pause, let attempt):
            return try withdraw(copy, view, pause, attempt: attempt)
        case .announceSwitch(let copy, _, let databaseSwitch): return try announce(databaseSwitch, copy)
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

    // MARK: The announcement

    private func announce(_ announcement: LiveResources.Announcement) throws -> RotationKeys {
        let keys =
            switch announcement {
            case .new(let proposal): try withOpeningLock(isCancelled) { try journal.begin(proposal) }
            case .pending(let keys): keys
            }
        report.fromEpoch = keys.nextEpoch - 1
        report.toEpoch = keys.nextEpoch
        note(.rotationBegun(from: report.fromEpoch, to: report.toEpoch))
        CrashPoint.reach(.rotationBegun)
        return keys
    }

    /// Nobody is kept waiting while this waits.
    private func withOpeningLock<T>(_ isCancelled: @escaping @Sendable () -> Bool, _ body: () throws -> T) throws -> T {
        let watch = LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait)
        let opening = try KeyRotation.takeOpening(paths, watch)
        defer { opening.release() }
        return try body()
    }

    /// Writes an event into the key log. A failure to do so undoes nothing.
    private func note(_ event: KeyEvent) {
        if let notice = KeyLog(databasePath: paths.database).note(event) { report.notices.append(notice) }
    }

    // MARK: The view

    private func freeze() throws -> PageSnapshot {
        try requireNotCancelled()
        return try awaitView()
    }

    /// A view, for which the write lock is waited for as long as it takes: nobody is kept waiting.
    ///
    /// - Throws: As ``makeView(waiting:_:)``; ``StoreError`` `storeInUse`, which names who holds that lock.
    private func awaitView() throws -> PageSnapshot {
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
    func makeView(waiting wait: Duration = Limits.busyWait, _ watch: LockWaitWatch? = nil) throws -> PageSnapshot {
        var configuration = Configuration()
        configuration.label = KeyRotation.holderLabel
        configuration.busyMode = .timeout(wait / .seconds(1))
        configuration.persistentWAL = true
        let keyring = Keyring(path: paths.database, configuration: configuration, holding: storeKeys)
        return try PageSnapshot(
            path: paths.database, configuration: configuration, keyring: keyring, key: .held, until: .now + wait,
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
        let limit = try logLimit()
        if delta.walBytes > limit {
            throw StoreError.outrun(paths.database, logBytes: delta.walBytes, limitBytes: limit)
        }
        try carry(delta, copy, view)
        // All of it is written to the disk now, so that little is left when everybody waits.
        try copy.synchronize()
        // The WAL as well: nobody synchronizes it while it cannot be checkpointed, and what of it is not on the disk would be
        // waited for by the first synchronization of anything in the pause.
        try synchronizeWAL()
        report.rounds += 1
        CrashPoint.reach(.rotationDeltaRound)
        try requireNotCancelled()
        // The same pages may have been written many times: walking over their frames takes its time, too.
        let begin = ContinuousClock.now
        let left = try view.delta(since: copy.position).pages.count
        return copy.pageCost * left + (.now - begin)
    }

    private func carry(_ delta: WALDelta, _ copy: PageCopier, _ view: PageSnapshot) throws {
        try copy.carry(delta, from: view)
        report.carriedPages += delta.pages.count
    }

    private func synchronizeWAL() throws {
        // No process locks the WAL's own file, so a descriptor of our own does no harm.
        try FileDescriptor(opening: paths.wal, .readWrite).synchronizeContent()
    }

    private func logLimit() throws -> Int {
        if let limit = options.logLimitBytes { return limit }
        let free = try Files.freeBytes(at: Files.directory(of: paths.database))
        return max(Limits.smallestLogLimitBytes, free / 2)
    }

    // MARK: The pause

    private func pause(_ copy: PageCopier, insists: Bool) throws -> State.Event {
        reporter.begin(.switching)
        try proveNewKey(copy.keys)
        let isCancelled = isCancelled
        let begin = ContinuousClock.now
        // A connection that has not read yet holds no lock: nothing of what follows would find it.
        if let stranger = connections.openForWriting() { return foreignHolder(stranger) }
        let first = firstRequest ?? begin
        firstRequest = first
        guard
            let pause = try ExclusivePause.begin(
                paths, insists: insists, budget: options.pauseBudget, isCancelled: { isCancelled() })
        else {
            // Those who did give way have waited as well.
            report.longestPause = max(report.longestPause, .now - begin)
            obstacle = .notPaused(paths.database, connections.leaseHolders, after: .now - first)
            return .withheld(isPatienceOver: isPatienceOver)
        }
        return .paused(pause)
    }

    private var connections: OtherConnections { OtherConnections(paths) }

    private var isPatienceOver: Bool { firstRequest.map { .now - $0 >= options.longReads.limit } ?? false }

    /// Lets a secret manager show that it keeps the new key. It may take its time: nobody waits yet.
    private func proveNewKey(_ keys: RotationKeys) throws {
        guard !isNewKeyProved, let source = options.provesNewKey, case .newKey = options.mode else { return }
        let given = try source.read()
        let key = try given.dataKey(salt: keys.nextSalt, settings: keys.settings)
        guard key.isEqual(to: keys.nextDataKey) else { throw StoreError.newKeyNotProved(paths.database) }
        isNewKeyProved = true
    }

    private func carryRest(_ copy: PageCopier, _ view: PageSnapshot, _ pause: ExclusivePause) throws -> State.Event {
        // Before the view is closed: as long as it is open, what others commit can still be found.
        if let foreign = try connections.locked() { return foreignHolder(foreign) }
        let deadline = pause.begin + options.pauseBudget
        do {
            // So that what others do after the view is closed shows in the WAL.
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

    private func foreignHolder(_ obstacle: StoreError) -> State.Event {
        self.obstacle = obstacle
        return .foreignHolder
    }

    private func withheld() -> State.Event {
        obstacle = .restless(paths.database)
        return .withheld(isPatienceOver: isPatienceOver)
    }

    /// Proves that nobody is connected, and that the WAL ends where the copy does: from then on nothing changes.
    func prove(at position: WALPosition) throws -> State.Event {
        guard let database = try LockedDatabase.lock(paths.database) else { return foreignHolder(connections.any()) }
        var isProved = false
        // Whoever withdraws the pause has to open the database.
        defer { if !isProved { database.release() } }
        CrashPoint.reach(.rotationBytesLocked)
        guard try database.isInPlace else { throw StoreError.moved(paths.database) }
        // For the last time: what follows cannot be undone, and everybody may have given way without a wait.
        try requireNotCancelled()
        // Somebody who does not know of leases may have committed between our last look and the lock.
        guard try walEnds(at: position) else { return withheld() }
        isProved = true
        return .proved(DatabaseSwitch(paths, journal, replacing: database))
    }

    /// Whether the WAL ends where the copy does. Nobody is connected, so its files may be opened and closed by hand.
    private func walEnds(at position: WALPosition) throws -> Bool {
        // A stock program that comes and goes removes both, as the last one to close.
        guard Files.exists(paths.sharedMemory) else { return false }
        let head = try FileDescriptor(opening: paths.sharedMemory, .readOnly)
            .read(at: 0, byteCount: WALIndex.headerBytes)
        // With the salts: the WAL may have been copied, reset, and have as many frames again.
        guard let index = head.withUnsafeBytes({ WALIndex($0) }), position.frame > 0, index.frames == position.frame,
            index.salts == position.salts, Files.exists(paths.wal)
        else { return false }
        let start = try FileDescriptor(opening: paths.wal, .readOnly).read(at: 0, byteCount: WALHeader.headerBytes)
        let header = start.withUnsafeBytes { WALHeader($0) }
        return header?.salts == position.salts
    }

    /// Lets everybody go on with the present key, and waits a little.
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
    /// - Returns: The view, and whether what was committed since the cut cannot be found any more.
    func reopenView(after position: WALPosition, _ pause: ExclusivePause?) throws -> (PageSnapshot, isWALLost: Bool) {
        // While nobody else writes: once they do, the WAL may be reset.
        let view: PageSnapshot
        do {
            view = try makeView(waiting: Limits.pausedBusyWait)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            // Somebody who cannot be asked to pause is writing: nobody else waits for him.
            end(pause)
            view = try awaitView()
        }
        // Commits in between are in the WAL now, but nothing keeps them there but the view, and it came after them.
        // A WAL without frames tells nothing: who opens the database first makes its index anew, without salts. The cut
        // has one where a stock program came after our last look for connections, and reset a WAL that was copied whole: a
        // reader of such a WAL does not hinder that.
        return (view, view.position != position || position.frame == 0)
    }

    private func rest(_ attempt: Int) throws {
        let pause = Limits.firstWithdrawal * (1 << min(attempt - 1, 10))
        let end = ContinuousClock.now + min(pause, Limits.longestWithdrawal)
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

    private func announce(_ databaseSwitch: DatabaseSwitch, _ copy: PageCopier) throws -> State.Event {
        do {
            try databaseSwitch.announce(pages: copy.pages)
        } catch {
            // Where nobody can say now which of the two the sidecar says, the next opening finds out.
            guard databaseSwitch.status == .notAnnounced else { throw error }
            remember(error)
            return .notAnnounced
        }
        return .done
    }

    /// From here only forward. Whoever opens the store next takes the same steps if this process does not.
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
        // Nobody waits for the space of the former files.
        databaseSwitch.end()
        CrashPoint.reach(.rotationReleased)
        note(.rotationCompleted(to: report.toEpoch))
    }

    /// The rotation has succeeded, so that what failed on its way is no more than worth a word.
    private func pardonFailure() {
        guard let error = failure else { return }
        failure = nil
        report.notices.append("a step of the switch failed and was repeated: \(error)")
    }

    // MARK: The end of a rotation that failed

    private func undo(_ held: State.Held) throws {
        if failure == nil { failure = obstacle ?? StoreError.restless(paths.database) }
        // The others first: nothing of what follows concerns them.
        release(held)
        guard held.isAnnounced else { return }
        // The copy first: on a full disk its space is what the sidecar needs.
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
        // Whoever goes on must find the database unlocked; the space of one that was replaced can wait.
        held.databaseSwitch?.admitConnections()
        end(held.pause)
        try? held.view?.close()
        held.databaseSwitch?.end()
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
