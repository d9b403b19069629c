import CipherDatabase
import CipherStore
import StorePlatform
import StoreSharing

/// The time in which nobody uses the store: every `SharedStore` of every process has closed its connections and waits, and
/// nobody opens it, until ``end()``.
///
/// It only says so of those who know of leases. SQLite's lock bytes (`LockedDatabase`) say it of all.
final class ExclusivePause {
    private let request: YieldRequest
    /// A process that is stopped or ended meanwhile keeps all others waiting.
    private let signals: SignalDeferral
    private let lease: HeldLock
    private let opening: HeldLock
    private var isEnded = false
    /// When the processes were asked.
    let begin: ContinuousClock.Instant
    /// How long they waited; known after ``end()``.
    private(set) var length = Duration.zero

    /// Asks for it, and waits within the deadline.
    ///
    /// - Parameters:
    ///   - insists: Whether long reads and snapshots are ended.
    ///   - budget: How long to wait for newcomers, and then once more for the others.
    /// - Returns: nil when it was not to be had; everybody goes on then.
    static func begin(
        _ paths: StorePaths, insists: Bool, budget: Duration, isCancelled: @escaping () -> Bool
    ) throws -> ExclusivePause? {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        // Before anybody is asked: a newcomer that is opening the store is waited for while all others go on.
        guard
            let opening = try lockFile.tryLock(.opening, .exclusive, until: .now + budget, isCancelled: isCancelled)
        else { return nil }
        let signals = SignalDeferral()
        let begin = ContinuousClock.now
        guard let request = try YieldRequest.ask(paths, insists: insists) else { return nil }
        CrashPoint.reach(.rotationYieldAsked)
        do {
            guard let lease = try request.exclusiveLease(until: begin + budget, isCancelled: isCancelled) else {
                request.end()
                return nil
            }
            CrashPoint.reach(.rotationLeaseTaken)
            return ExclusivePause(request, lease, opening, signals, begin)
        } catch {
            request.end()
            throw error
        }
    }

    private init(
        _ request: YieldRequest, _ lease: HeldLock, _ opening: HeldLock, _ signals: SignalDeferral,
        _ begin: ContinuousClock.Instant
    ) {
        self.request = request
        self.lease = lease
        self.opening = opening
        self.signals = signals
        self.begin = begin
    }

    deinit { end() }

    /// Lets everybody go on. A second call does nothing.
    func end() {
        guard !isEnded else { return }
        isEnded = true
        lease.release()
        opening.release()
        request.end()
        length = .now - begin
        signals.end()
    }
}

/// The connections to a store that no pause reaches: of programs that do not know of leases.
struct OtherConnections {
    private let paths: StorePaths

    init(_ paths: StorePaths) { self.paths = paths }

    /// Looks for processes that have the database open for writing, and not the lock file. A connection that has not read
    /// yet holds no lock: nothing else finds it.
    ///
    /// - Returns: What is in the way; nil when there is nothing.
    func openForWriting() -> StoreError? {
        let strangers = StoreHolders.strangers(of: paths.database)
        return strangers.isEmpty ? nil : .foreignConnection(paths.database, strangers)
    }

    /// Looks for connections of other processes that SQLite's locks show.
    func locked() throws -> StoreError? {
        var processes: Set<Int32> = []
        for path in [paths.database, paths.sharedMemory] {
            processes.formUnion(try (SystemLocks.posixLocks(on: path) ?? []).map(\.process))
        }
        processes.remove(ProcessInspector.currentProcess)
        return processes.isEmpty ? nil : any()
    }

    /// Names everybody who has the store open, because one of them is in the way.
    func any() -> StoreError { .foreignConnection(paths.database, holders { _ in true }) }

    /// Who has a lease and did not give it up.
    var leaseHolders: [StoreHolder] { holders { $0.uses.contains(.lease) } }

    /// Others before this process: its own rows are those of one who has paused, mostly.
    private func holders(_ isMeant: (StoreHolder) -> Bool) -> [StoreHolder] {
        let all = ((try? StoreHolders(of: paths.database)).map { Array($0) } ?? []).filter(isMeant)
        let others = all.filter { $0.process != ProcessInspector.currentProcess }
        return others.isEmpty ? all : others
    }
}
