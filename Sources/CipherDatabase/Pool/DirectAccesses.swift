import Foundation
import StorePlatform
import Synchronization

/// Which accesses of tasks run at once on the thread of the task, because nothing has to be waited for.
///
/// The way to a queue and back wakes two threads, which takes several times as long as a short access. But the threads
/// of tasks are as few as the processors, and a thread that is busy with one access serves no other task. So an access
/// runs on the thread of its task only if
/// - its connection is free, and no lock has to be waited for,
/// - fewer than half of the threads do so, in this process,
/// - the latest accesses of tasks to this pool were short, and
/// - the task has no executor of its own, which may have one thread only.
///
/// All others wait for their connection without a thread, and run on its queue.
final class DirectAccesses: Sendable {
    private static let most = ProcessInfo.processInfo.activeProcessorCount / 2
    private static let underWay = Atomic<Int>(0)
    /// A moving average of the durations of accesses, in nanoseconds.
    private let average = Atomic<UInt64>(0)

    /// Counts an access that begins on this thread; ``end(since:)`` must follow.
    ///
    /// - Returns: The time of its beginning; nil where it must not run on this thread.
    func begin() -> UInt64? {
        guard average.load(ordering: .relaxed) <= DatabaseLimits.directAccessNanoseconds, !Self.hasOwnExecutor else {
            return nil
        }
        if Self.underWay.wrappingAdd(1, ordering: .relaxed).oldValue < Self.most { return MonotonicTime.now }
        abandon()
        return nil
    }

    /// Counts the end of an access that has begun on this thread.
    func end(since start: UInt64) {
        abandon()
        record(since: start)
    }

    /// Undoes ``begin()`` for an access that does not run here.
    func abandon() { Self.underWay.wrappingSubtract(1, ordering: .relaxed) }

    /// Records the duration of an access, wherever it ran.
    func record(since start: UInt64) {
        let duration = MonotonicTime.now &- start
        let former = average.load(ordering: .relaxed)
        // Which of two accesses that end at the same time counts does not matter.
        average.store(former - former / 8 + min(duration, DatabaseLimits.longestCountedAccess) / 8, ordering: .relaxed)
    }

    private static var hasOwnExecutor: Bool { withUnsafeCurrentTask { $0?.unownedTaskExecutor != nil } }
}

/// A write that would have to wait before it begins.
struct BeginWouldWait: Error {}
