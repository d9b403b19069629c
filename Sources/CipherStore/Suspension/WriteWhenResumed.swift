import CipherDatabase
import StorePlatform

extension SharedStore {
    /// Writes in a transaction as soon as the store is not suspended, and again when a suspension rolls it back.
    ///
    /// `updates` may run several times, each time in a new transaction; its effects outside the database must allow
    /// that.
    ///
    /// - Parameters:
    ///   - attempts: How often a suspension may roll back `updates` before its error is rethrown.
    ///   - updates: Writes.
    /// - Throws: The error of `updates`, `DatabaseError`, `CancellationError`; `StoreError` when the store was closed,
    ///   moved or given another key meanwhile.
    public func writeWhenResumed<T: Sendable>(
        attempts: Int = 5, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        var left = max(1, attempts)
        while true {
            try await waitUntilResumed()
            let suspensions = suspension.count
            do {
                return try await write(updates)
            } catch let error as DatabaseError where error.isInterruptionError {
                left -= 1
                // Interrupted by something else, or rolled back too often.
                if left == 0 || (suspension.count == suspensions && !suspension.isSuspended) { throw error }
            }
        }
    }

    /// Suspensions of the store so far.
    package var suspensionCount: Int { suspension.count }

    /// Blocks the thread until the store is not suspended.
    package func waitUntilResumedBlocking() {
        let wait = SingleWait<Void>()
        _ = suspension.whenResumed { wait.end(()) }
        wait.wait()
    }

    /// Waits until the store is not suspended.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func waitUntilResumed() async throws { try await suspension.waitUntilResumed() }
}

extension SharedStore: ClosableReader, SuspendableReader {
    package var closing: ReaderClosing { connections.closing }
    package var suspensionOfFile: DatabaseSuspension? { suspension }
}
