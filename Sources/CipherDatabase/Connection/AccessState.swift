import StorePlatform
import Synchronization

/// The access under way: who runs it, what ends it early, and what its statements may do.
final class AccessState {
    /// The thread of the access under way; 0 between accesses.
    let thread = Atomic<UInt>(0)
    // Unchecked, as the next ones: one thread at a time uses them, with each statement.
    /// Whether the task of the access was cancelled.
    @exclusivity(unchecked) var cancellation: CancellationFlag?
    /// Why the access under way must end, as another thread has set it.
    let withdrawal = AccessWithdrawal()
    /// Whether the access under way refuses statements that write.
    @exclusivity(unchecked) var refusesWrites = false
    /// Whether a block of the library's own has begun a transaction that it still must end.
    @exclusivity(unchecked) var expectsTransaction = false

    /// Whether the calling thread runs the access.
    var isOfThisThread: Bool { thread.load(ordering: .relaxed) == CurrentThread.id }
}
