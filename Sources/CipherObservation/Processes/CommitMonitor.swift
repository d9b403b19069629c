import CipherDatabase
import Dispatch
import Foundation
import StorePlatform
import StoreSharing
import Synchronization

/// How often the monitor of a database was active.
package struct ProcessMonitorCounts: Sendable, Equatable {
    /// Wakes by notices of other processes.
    package var notices = 0
    /// Wakes by changes of files.
    package var fileChanges = 0
    /// Polls that a timer started.
    package var timedPolls = 0
    /// Those that found a commit without a notice.
    package var timedFinds = 0
    /// All polls.
    package var polls = 0
    /// Polls that found external commits.
    package var finds = 0

    package init() {}
}

/// Notices the commits of other connections, in this process and in others, while somebody observes the database.
///
/// One thread sleeps until a process that uses the library notifies it of a commit. Another sleeps until the WAL is
/// written, for programs that do not use the library: it then waits for the commit, which comes after. From time to time
/// the first thread also polls by itself: for commits that neither a notice nor the watch on the WAL has reported.
final class CommitMonitor: Sendable {
    private let link: MonitorLink
    private let row: HolderRow?
    private let files: FileWatch?
    private let stopped = Atomic<Bool>(false)
    /// Whether no connection may be used, so that notices are of no use.
    private let hasNoConnection = Atomic<Bool>(false)
    /// Whether the files could be watched the last time.
    private let areFilesWatched = Atomic<Bool>(false)
    /// Wakes the first thread where it does not sleep on the word of the holder row.
    private let alarm = DispatchSemaphore(value: 0)
    private let counted = Mutex(ProcessMonitorCounts())
    private let observers = Mutex<[WeakObserver]>([])
    private let forkCount = ForkWatch.count

    // Safe because: the observer's function for failures has a lock of its own.
    private struct WeakObserver: @unchecked Sendable {
        weak var observer: (any RegionObserver)?
    }

    /// Registers for commit notifications. ``start()`` begins to poll for them.
    init(_ link: MonitorLink) {
        self.link = link
        row = link.holderRow()
        files = FileWatch()
        row?.beginWatching()
        armFiles()
    }

    /// Starts the threads, which keep the monitor until it is stopped.
    func start() {
        link.setMonitor { [weak self] in self?.wake() }
        Self.startThread("CipherStore.CommitMonitor") { [self] in followNotices() }
        if let files { Self.startThread("CipherStore.FileMonitor") { [self] in followFiles(files) } }
    }

    private static func startThread(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let thread = Thread(block: body)
        thread.name = name
        thread.start()
    }

    /// Ends the threads; the call does not wait for them.
    func stop() {
        // In a forked child row and pipe belong to the parent, which continues.
        guard ForkWatch.count == forkCount else { return }
        guard !stopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        link.setMonitor(nil)
        row?.endWatching()
        files?.stop()
        alarm.signal()
    }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    var counts: ProcessMonitorCounts { counted.withLock { $0 } }

    /// Makes the first thread poll.
    private func wake() {
        hasNoConnection.store(false, ordering: .releasing)
        row?.wakeWatcher()
        alarm.signal()
    }

    // MARK: Observers

    /// Adds an observer that must know when the store is lost.
    func add(_ observer: any RegionObserver) {
        observers.withLock { observers in
            observers.removeAll { $0.observer == nil }
            observers.append(WeakObserver(observer: observer))
        }
    }

    /// Ends all observations with an error.
    func fail(_ error: any Error) {
        let failed = observers.withLock { observers in
            defer { observers = [] }
            return observers
        }
        for observer in failed { observer.observer?.observationDidFail(error) }
    }

    // MARK: Notices

    private func followNotices() {
        var pause = PollPause(short: files == nil ? ObservationLimits.pollTimeWithoutWatch : ObservationLimits.pollTime)
        while true {
            let isNoticed = sleep(for: pause.next)
            if isStopped { return }
            let isNotified = row != nil && areFilesWatched.load(ordering: .relaxed)
            pause.note(counts, canWaitLonger: !isNoticed && isNotified)
            counted.withLock { if isNoticed { $0.notices += 1 } else { $0.timedPolls += 1 } }
            // The database may have a new file by now.
            if !isNoticed { armFiles() }
            poll(isTimed: !isNoticed)
        }
    }

    /// Sleeps until there is something to poll for.
    ///
    /// - Returns: Whether somebody has woken the thread; otherwise it is time to poll.
    private func sleep(for time: Duration) -> Bool {
        guard let row, !hasNoConnection.load(ordering: .acquiring) else { return sleepOnAlarm(time) }
        let deadline = ContinuousClock.now + time
        while !row.isNoticed {
            let now = ContinuousClock.now
            if isStopped || now >= deadline { return false }
            // If the system cannot sleep on a word, its notices are seen late, and none is missed.
            guard row.awaitNotice(for: now.duration(to: deadline)) else {
                return sleepOnAlarm(ObservationLimits.pollTimeWithoutWatch)
            }
        }
        return true
    }

    private func sleepOnAlarm(_ time: Duration) -> Bool {
        let nanoseconds = Int(clamping: time.wholeNanoseconds)
        guard alarm.wait(timeout: .now() + .nanoseconds(nanoseconds)) == .success else { return false }
        while alarm.wait(timeout: .now()) == .success {}
        armFiles()
        return true
    }

    // MARK: Files

    private func armFiles() {
        // Commits made while no connection may be used are found by a later poll.
        guard let files, !hasNoConnection.load(ordering: .acquiring) else { return }
        // Without a WAL the database file itself is written.
        let hasWAL = files.arm(link.paths.wal, for: .content)
        let hasName = files.arm(link.paths.database, for: hasWAL ? .name : .content)
        areFilesWatched.store(hasWAL && hasName, ordering: .relaxed)
    }

    private func followFiles(_ files: FileWatch) {
        var rest = FileRest()
        var known = knownCommits
        while files.wait() {
            counted.withLock { $0.fileChanges += 1 }
            let isFound = pollForCommit(since: known)
            if isStopped { return }
            Pause.sleep(for: rest.next(isFound: isFound, at: .now))
            if isStopped { return }
            known = knownCommits
            armFiles()
            // For what was committed before the watch was armed again.
            poll()
        }
    }

    /// The WAL was written: waits until the commit is complete.
    ///
    /// - Parameter known: The commits that were known when the files were armed.
    private func pollForCommit(since known: Int) -> Bool {
        var pause = ObservationLimits.firstCommitPause
        while pause <= ObservationLimits.longestCommitPause {
            // Most changes are a commit of this process, or one whose notice arrives in this time: a poll would only take
            // processor time.
            Pause.sleep(for: pause)
            if isStopped || knownCommits != known || row?.isNoticed == true { return false }
            if hasNoConnection.load(ordering: .acquiring) { return false }
            if poll() { return true }
            pause *= 2
        }
        return false
    }

    private var knownCommits: Int { link.ownCommits + counted.withLock { $0.notices } }

    // MARK: Polling

    /// Tells the observers of commits of others, where there are any.
    ///
    /// - Parameter isTimed: Whether nothing but the time was a reason to poll.
    /// - Returns: Whether there were.
    @discardableResult
    private func poll(isTimed: Bool = false) -> Bool {
        let poll = ExternalPoll()
        let access = link.access { [row] db in
            // Before the poll: what it does not see is noticed again.
            row?.armNotice()
            (db.observer as? ObservationBroker)?.pollForExternalCommits(db, poll)
        }
        counted.withLock { counts in
            counts.polls += 1
            if poll.isFound { counts.finds += 1 }
            if poll.isFound && isTimed { counts.timedFinds += 1 }
        }
        for action in poll.actions { action() }
        switch access {
        case .done: hasNoConnection.store(false, ordering: .releasing)
        case .unavailable: hasNoConnection.store(true, ordering: .releasing)
        case .failed(let error):
            hasNoConnection.store(true, ordering: .releasing)
            fail(error)
        }
        return poll.isFound
    }
}

/// One poll for commits of other connections, on the thread of the monitor.
final class ExternalPoll {
    private let start = MonotonicTime.now
    /// The work that is left to do on that thread after the access.
    private(set) var actions: [() -> Void] = []
    /// Whether there were such commits.
    var isFound = false

    /// Whether the poll has kept others from the writing connection for long.
    var isLong: Bool { MonotonicTime.now &- start > ObservationLimits.longestPoll }

    func afterAccess(_ action: @escaping () -> Void) { actions.append(action) }
}

/// How long the monitor sleeps before it polls by itself: short after it was woken or a file has changed, and long after
/// such a poll. A writer that was killed between its commit and its notice has written the WAL, and the watch on the WAL
/// detects it. This poll is for commits that neither a notice nor that watch has reported.
struct PollPause {
    private(set) var next: Duration
    private let short: Duration
    /// The wakes by notices and changes of files so far.
    private var wakes = 0

    /// The first poll is soon, for commits that were under way while the monitor began.
    init(short: Duration) { (self.short, next) = (short, ObservationLimits.firstPollTime) }

    mutating func note(_ counts: ProcessMonitorCounts, canWaitLonger: Bool) {
        let isQuiet = counts.notices + counts.fileChanges == wakes
        wakes = counts.notices + counts.fileChanges
        next = canWaitLonger && isQuiet ? ObservationLimits.longestPollTime : short
    }
}

/// How long the files are not watched after a change. The time doubles while the changes are known already, because this
/// process made them or a notice reported them.
private struct FileRest {
    private var rest = ObservationLimits.firstFileRest
    private var latest: ContinuousClock.Instant?

    mutating func next(isFound: Bool, at now: ContinuousClock.Instant) -> Duration {
        let isQuiet = latest.map { now - $0 > ObservationLimits.quietFileTime } ?? true
        rest = isFound || isQuiet ? ObservationLimits.firstFileRest : min(rest * 2, ObservationLimits.longestFileRest)
        latest = now
        return rest
    }
}

extension Database {
    /// The activity of the monitor of other connections' commits; nil while there is none.
    package var processMonitorCounts: ProcessMonitorCounts? {
        (observer as? ObservationBroker)?.monitor.map(\.counts)
    }
}
