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
        guard !processes.isEmpty else { return nil }
        let known = holders { _ in true }
        let others = processes.subtracting(known.map(\.process)).sorted().map {
            StoreHolder(process: $0, uses: [.open])
        }
        return .foreignConnection(paths.database, known + others)
    }

    /// The error that names every other process that has the store open, because one of them prevents the rotation.
    func any() -> StoreError { .foreignConnection(paths.database, holders { _ in true }) }

    /// The error where no pause was possible: it names what was in the way, as far as the system shows that.
    ///
    /// - Parameter time: How long pauses have been requested.
    func withheld(_ budget: Duration, after time: Duration) -> StoreError {
        let holders = holders { $0.uses.contains(.lease) }
        if !holders.isEmpty { return .notPaused(paths.database, holders, after: time) }
        if StoreHolders.hasLostRow(of: paths.database) { return .lockFileCut(paths.database, paths.lock) }
        guard let file = try? LockFile(path: paths.lock, likeFile: paths.database) else {
            return .budgetTooShort(paths.database, budget, after: time)
        }
        // The request has ended, so this process does not hold them for it.
        for byte in [LockByte.opening, .intent] where (try? file.isHeld(byte)) ?? false {
            let owner = file.otherOwner(of: byte)
            // Another thread of this process, which opens the store.
            if owner == nil, !file.owners(of: byte).isEmpty { continue }
            return .pauseLocked(paths, byte, owner, after: time)
        }
        if let owner = file.otherOwner(of: .lease) { return .notPaused(paths.database, [owner], after: time) }
        return .budgetTooShort(paths.database, budget, after: time)
    }

    /// The holders in other processes. The rows of this process mostly belong to a paused store.
    private func holders(_ isMeant: (StoreHolder) -> Bool) -> [StoreHolder] {
        ((try? StoreHolders(of: paths.database)).map { Array($0) } ?? [])
            .filter { $0.process != ProcessInspector.currentProcess && isMeant($0) }
    }
}
