import CipherDatabase
import Dispatch
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// The gate before every access of a shared store: one word that counts the running accesses and says whether new
/// accesses may begin. So an access costs two atomic operations while no process requests the file.
struct AccessGate: ~Copyable, Sendable {
    private let word = Atomic<UInt>(0)
    /// Set while newcomers may not pass.
    private static let shut: UInt = 1 << (UInt.bitWidth - 1)

    /// Counts an access.
    ///
    /// - Returns: Whether it passes. One that does not must be undone with ``leave()``, unless a caller that knows why
    ///   the gate is shut admits it.
    @inline(__always)
    borrowing func enter() -> Bool { word.wrappingAdd(1, ordering: .acquiring).oldValue & Self.shut == 0 }

    /// Counts the end of an access.
    ///
    /// - Returns: Whether the gate is shut and this was the last one.
    @inline(__always)
    borrowing func leave() -> Bool {
        word.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == Self.shut
    }

    /// Shuts the gate for newcomers, or opens it.
    borrowing func set(isShut: Bool) {
        if isShut {
            word.bitwiseOr(Self.shut, ordering: .acquiringAndReleasing)
        } else {
            word.bitwiseAnd(~Self.shut, ordering: .acquiringAndReleasing)
        }
    }

    /// Running accesses; one that is about to be undone may be included.
    borrowing func count() -> UInt { word.load(ordering: .acquiring) & ~Self.shut }
}

/// The accesses that wait at the gate of a shared store: those of threads, of tasks, and those without a waiting
/// caller.
final class AccessWaiters: Sendable {
    /// An access to be run later, on whatever thread.
    typealias Postponed = @Sendable () -> Void

    private struct State {
        /// Counts events that may admit a waiter, so that no waiter begins to wait for an event that has just happened.
        var changes = 0
        var waits = Registrations<SingleWait<Result<Void, any Error>>>()
    }

    private let state = Mutex(State())

    /// Counts events that may admit a waiter.
    var changes: Int { state.withLock { $0.changes } }

    /// The number of waiters.
    var count: Int { state.withLock { $0.waits.count } }

    /// Makes the waiters check again, or throw.
    func wake(_ error: (any Error)? = nil) {
        let waits = state.withLock { state in
            state.changes += 1
            return state.waits.takeAll()
        }
        for wait in waits { wait.end(error.map { .failure($0) } ?? .success(())) }
    }

    /// Begins a wait, unless something has changed since `changes` was read.
    private func begin(since changes: Int) -> (ticket: Int, wait: SingleWait<Result<Void, any Error>>)? {
        state.withLock { state in
            guard state.changes == changes else { return nil }
            let wait = SingleWait<Result<Void, any Error>>()
            return (state.waits.add(wait), wait)
        }
    }

    /// Blocks the thread until something changes.
    ///
    /// - Parameter changes: The count that was read; if it has changed, the call returns at once.
    func wait(since changes: Int) throws {
        try begin(since: changes)?.wait.wait().get()
    }

    /// Waits until something changes, without blocking the thread.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    func waitAsync(since changes: Int) async throws {
        guard let (ticket, wait) = begin(since: changes) else { return }
        defer { state.withLock { _ = $0.waits.remove(ticket) } }
        try await wait.value(whenCancelled: .failure(CancellationError())).get()
    }
}

/// An admitted access of a shared store, with the pool that it uses, which stays open until the access ends.
struct StoreAccess: Sendable {
    let pool: DatabasePool
    /// The lease of an access during a suspension, when the store itself has none.
    let lease: Lease?

    @inline(__always)
    init(_ pool: DatabasePool, lease: Lease? = nil) {
        self.pool = pool
        self.lease = lease
    }
}
