import StorePlatform
import StoreSharing
import Synchronization

/// The write slot of one connection: acquired before its first statement that writes, released when its transaction has
/// ended.
///
/// One thread at a time uses it: the one that uses the connection, or a suspending thread that has acquired the
/// connection's gate. Any thread may call ``interrupt()``, ``setClosing(_:)`` and ``isOwner``.
// Safe because: what changes is used inside bracketed calls or while the gate is off, by the thread of the access, or
// by a thread that keeps it out of both; the rest is atomic.
final class WriteSlot: @unchecked Sendable {
    /// How a wait for the write slot failed.
    enum Failure {
        case busy
        case interrupted
        case closed
    }

    /// nil where no write slot is available: SQLite's locks then keep writers apart.
    private let queue: WriterQueue?
    private let lockFile: String
    private let recorder: WriteRecorder
    /// How often another thread ended a wait.
    private let interruptions = Atomic<Int>(0)
    private let isClosing = Atomic<Bool>(false)

    // Unchecked, as the next ones: read before and after each statement, by the one thread of the access.
    @exclusivity(unchecked) private(set) var isHeld = false
    @exclusivity(unchecked) private var since: UInt64 = 0
    @exclusivity(unchecked) private var waited: UInt64 = 0
    @exclusivity(unchecked) private var statement: String?
    @exclusivity(unchecked) private var content = WriteContent.unknown

    /// The work of a write so far.
    private enum WriteContent: UInt8 {
        /// Nothing, or something that was not a statement.
        case unknown
        /// Nothing that concerns observers of other processes.
        case quiet
        case observable
    }

    /// - Parameters:
    ///   - paths: The files of the database; its lock file is created when there is none.
    ///   - onNotice: Called when no write slot is available.
    init(for paths: StorePaths, label: String, configuration: Configuration, onNotice: (String) -> Void) {
        lockFile = paths.lock
        recorder = WriteRecorder(connection: label, configuration: configuration)
        do {
            queue = try Self.queue(paths, label, configuration)
        } catch {
            onNotice(
                "\"\(paths.database)\": this connection does not use the writer queue of the other processes: "
                    + "\(error)")
            queue = nil
        }
    }

    private static func queue(_ paths: StorePaths, _ label: String, _ configuration: Configuration) throws
        -> WriterQueue?
    {
        guard configuration.usesWriterQueue else { return nil }
        let path = try LockFile(path: paths.lock, likeFile: paths.database).path
        return try HolderSlot.take(path: path, label: configuration.label ?? label, roles: .writer).map {
            WriterQueue($0)
        }
    }

    // MARK: Acquiring

    /// Acquires the write slot if it is free.
    @inline(__always)
    func enterIfFree() -> Bool {
        if let queue, !queue.enterIfFree() { return false }
        begin(waited: 0)
        return true
    }

    /// Acquires the write slot if it is free, or if its holder is dead.
    func tryToEnter() -> Bool {
        if let queue, !queue.tryToEnter() { return false }
        begin(waited: 0)
        return true
    }

    /// Waits for the write slot.
    ///
    /// - Parameter isCancelled: Called before each sleep.
    /// - Returns: nil when the connection has acquired the write slot.
    func enter(within limit: Duration, isCancelled: () -> Bool) -> Failure? {
        guard let queue else {
            begin(waited: 0)
            return nil
        }
        let before = interruptionCount
        let start = MonotonicTime.now
        let deadline = start.addingReportingOverflow(limit.wholeNanoseconds)
        let outcome = queue.enter(until: deadline.overflow ? MonotonicTime.never : deadline.partialValue) {
            interruption(since: before) != nil || isCancelled()
        }
        switch outcome {
        case .entered:
            begin(waited: max(1, MonotonicTime.now &- start))
            return nil
        case .timedOut: return .busy
        case .interrupted: return interruption(since: before) ?? .interrupted
        }
    }

    /// How often a wait was to be ended so far.
    var interruptionCount: Int { interruptions.load(ordering: .acquiring) }

    /// Why a wait must end; nil while it may continue.
    func interruption(since count: Int) -> Failure? {
        if isClosing.load(ordering: .acquiring) { return .closed }
        return interruptionCount != count ? .interrupted : nil
    }

    @inline(__always)
    private func begin(waited: UInt64) {
        isHeld = true
        self.waited = waited
        since = MonotonicTime.now
        queue?.showBegin(at: since)
    }

    /// Records the first statement that writes, for the statistics.
    ///
    /// - Parameter isQuiet: Whether what it writes concerns no observer.
    @inline(__always)
    func note(_ sql: String, isQuiet: Bool) {
        if statement == nil { statement = sql }
        if isQuiet { if content == .unknown { content = .quiet } } else { content = .observable }
    }

    /// Records that a write did not acquire the write slot.
    func recordTimeout() { recorder.recordTimeout() }

    // MARK: Releasing

    /// Releases the write slot.
    ///
    /// - Parameters:
    ///   - label: What the write was, for the statistics; by default its first statement.
    ///   - reporting: Whether the callbacks for writes are called.
    func leave(label: String?, reporting: Bool = true) {
        guard isHeld else { return }
        isHeld = false
        let held = MonotonicTime.now &- since
        let label = label ?? statement ?? "BEGIN"
        statement = nil
        content = .unknown
        let figures = recorder.record(held: held, waited: waited, label: label)
        if let queue {
            queue.showEnd(figures)
            queue.leave()
        }
        if reporting { recorder.report(held: held, waited: waited, label: label) }
    }

    // MARK: From other threads

    /// Ends the wait for the write slot that is under way, if there is one: it fails as interrupted.
    func interrupt() {
        interruptions.wrappingAdd(1, ordering: .acquiringAndReleasing)
        queue?.call()
    }

    /// Ends every wait for the write slot from now on, since the connection is about to close; false undoes that.
    func setClosing(_ isClosing: Bool) {
        self.isClosing.store(isClosing, ordering: .releasing)
        if isClosing { queue?.call() }
    }

    /// Releases the slot in the table of holders.
    func release() { queue?.slot.release() }

    // MARK: What is shared

    /// The WAL at the last checkpoint of any process, as one word; 0 where none is known.
    var checkpointed: UInt64 {
        get { queue?.checkpointed ?? 0 }
        set { queue?.checkpointed = newValue }
    }

    /// Replaces that word, unless another process has written its own since.
    func replaceCheckpointed(_ expected: UInt64, with word: UInt64) {
        queue?.replaceCheckpointed(expected, with: word)
    }

    /// The slot in the table of holders; nil where no write slot is available.
    var holderSlot: HolderSlot? { queue?.slot }

    /// Wakes the other processes that watch commits, after one that may concern them.
    ///
    /// - Parameter always: Whether it counts as one that does.
    @inline(__always)
    func noticeCommit(always: Bool = false) {
        if content != .quiet || always { queue?.slot.noticeCommit() }
        content = .unknown
    }

    var statistics: WriteStatistics { recorder.statistics(usesWriterQueue: queue != nil) }

    /// Publishes a role of this connection in the table of holders.
    func setRole(_ role: HolderRoles, _ isOn: Bool) { queue?.slot.setRole(role, isOn) }

    /// Whether this connection holds the write slot, as the shared table shows; for any thread.
    var isOwner: Bool { queue?.isHeld ?? false }

    /// The other holder of the write slot.
    var otherHolder: StoreHolder? { queue?.otherHolder(lockFile: lockFile) }
}
