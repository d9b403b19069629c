import StorePlatform
import Synchronization

/// Distributes a row of work in batches to several threads, until it is done or cancelled, or a thread fails.
final class BatchQueue: Sendable {
    private let count: Int
    private let batch: Int
    private let isCancelled: @Sendable () -> Bool
    private let next = Atomic<Int>(0)
    private let finished = Atomic<Int>(0)
    private let stop = Mutex<Stop?>(nil)

    /// Why the work ended early.
    private enum Stop {
        case cancelled
        case failed(any Error)
    }

    init(count: Int, batch: Int, isCancelled: @escaping @Sendable () -> Bool) {
        self.count = count
        self.batch = max(1, batch)
        self.isCancelled = isCancelled
    }

    /// The next indexes to work on; nil when there are none or the work must end.
    func take() -> Range<Int>? {
        if stop.withLock({ $0 != nil }) { return nil }
        if isCancelled() {
            stop.withLock { $0 = $0 ?? .cancelled }
            return nil
        }
        let start = next.wrappingAdd(batch, ordering: .relaxed).oldValue
        return start < count ? start..<min(start + batch, count) : nil
    }

    /// Counts finished work, and returns how much is finished in total.
    func finish(_ items: Int) -> Int { finished.wrappingAdd(items, ordering: .relaxed).newValue }

    /// Runs `worker` on this many threads, this one included, and waits for all of them.
    ///
    /// - Returns: False when the work was cancelled.
    /// - Throws: The first error that a worker threw.
    func run(workers: Int, _ worker: @Sendable (BatchQueue) throws -> Void) throws -> Bool {
        Workers.run(max(1, workers)) { _ in
            do { try worker(self) } catch { stop.withLock { $0 = $0 ?? .failed(error) } }
        }
        switch stop.withLock({ $0 }) {
        case nil: return true
        case .cancelled: return false
        case .failed(let error): throw error
        }
    }
}
