import StorePlatform
import Synchronization

/// The access under way: who runs it, what ends it early, and what its statements may do.
final class AccessState {
    /// The thread of the access under way; 0 between accesses.
    let thread = Atomic<UInt>(0)
    // Unchecked, as those below: one thread at a time uses them, with each statement.
    /// Whether the task of the access was cancelled.
    @exclusivity(unchecked) var cancellation: CancellationFlag?
    /// Why the access under way must end, as another thread has set it.
    let withdrawal = AccessWithdrawal()
    /// The access under way, if its age is watched.
    @exclusivity(unchecked) var watchedRead: WatchedRead?
    /// Whether the access under way refuses statements that write.
    @exclusivity(unchecked) var refusesWrites = false
    /// Whether a block of the library's own has begun a transaction that it still must end.
    @exclusivity(unchecked) var expectsTransaction = false

    /// Whether the calling thread runs the access.
    var isOfThisThread: Bool { thread.load(ordering: .relaxed) == CurrentThread.id }
}

/// Why an access must end that another process no longer waits for; set from any thread.
final class AccessWithdrawal: Sendable {
    private let flag = Atomic<Bool>(false)
    private let error = Mutex<(any Error)?>(nil)

    @inline(__always)
    var isSet: Bool { flag.load(ordering: .relaxed) }

    /// The error that the access throws; nil where it continues.
    var reason: (any Error)? { isSet ? error.withLock { $0 } : nil }

    /// Lets the access end with an error, or continue.
    func set(_ reason: (any Error)?) {
        error.withLock { $0 = reason }
        flag.store(reason != nil, ordering: .releasing)
    }
}
