import CipherDatabase
import CipherStore
import StorePlatform
import StoreSharing

/// A period in which the store is not in use: every `SharedStore` of every process has closed its connections and
/// waits, and no process opens the store, until ``end()``.
///
/// This covers only programs that use leases. SQLite's lock bytes (`LockedDatabase`) cover all programs.
final class ExclusivePause {
    private let request: YieldRequest
    /// Signals are deferred: if this process were stopped or ended in the pause, all others would keep waiting.
    private let signals: SignalDeferral
    private let lease: HeldLock
    private let opening: HeldLock
    private var isEnded = false
    /// When the processes were asked to pause.
    let begin: ContinuousClock.Instant
    /// How long the pause lasted; known after ``end()``.
    private(set) var length = Duration.zero

    /// Requests the pause and waits for it, at most for the budget.
    ///
    /// - Parameters:
    ///   - insists: Whether long reads and snapshots are ended.
    ///   - budget: The longest wait for processes that are opening the store, and then again for the others.
    /// - Returns: nil when no pause was possible; all processes resume then.
    static func begin(
        _ paths: StorePaths, insists: Bool, budget: Duration, isCancelled: @escaping () -> Bool
    ) throws -> ExclusivePause? {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        // Before the request: the other processes keep working while this waits for one that is opening the store.
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

    /// Ends the pause, so that all processes resume. A second call does nothing.
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

/// Connections that a pause does not reach, because their programs do not use leases.
struct OtherConnections {
    private let paths: StorePaths

    init(_ paths: StorePaths) { self.paths = paths }

    /// Finds processes that have the database open for writing but not the lock file. A connection that has not read
    /// yet holds no lock, so no other check finds it.
    ///
    /// - Returns: The error that names these processes; nil without any.
    func openForWriting() -> StoreError? {
        let strangers = StoreHolders.unleased(of: paths.database)
        return strangers.isEmpty ? nil : .foreignConnection(paths.database, strangers)
    }

    /// Finds connections of other processes by SQLite's locks.
    func locked() throws -> StoreError? {
        var processes: Set<Int32> = []
        for path in [paths.database, paths.sharedMemory] {
            processes.formUnion(try (SystemLocks.posixLocks(on: path) ?? []).map(\.process))
        }
        processes.remove(ProcessInspector.currentProcess)
        return processes.isEmpty ? nil : any()
    }

    /// The error that names every process that has the store open, because one of them prevents the rotation.
    func any() -> StoreError { .foreignConnection(paths.database, holders { _ in true }) }

    /// The processes that hold a lease and did not release it.
    var leaseHolders: [StoreHolder] { holders { $0.uses.contains(.lease) } }

    /// The holders in other processes, or in this one if there is no other: its own rows mostly belong to a paused
    /// store.
    private func holders(_ isMeant: (StoreHolder) -> Bool) -> [StoreHolder] {
        let all = ((try? StoreHolders(of: paths.database)).map { Array($0) } ?? []).filter(isMeant)
        let others = all.filter { $0.process != ProcessInspector.currentProcess }
        return others.isEmpty ? all : others
    }
}
