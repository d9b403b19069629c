import Dispatch
import Synchronization

/// Runs a task for a thread that is none of the tasks' own.
enum TaskWait {
    /// Waits for it once.
    static func run<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) throws -> T {
        let end = DispatchSemaphore(value: 0)
        let outcome = Mutex<Result<T, any Error>?>(nil)
        Task {
            do {
                let value = try await body()
                outcome.withLock { $0 = .success(value) }
            } catch {
                outcome.withLock { $0 = .failure(error) }
            }
            end.signal()
        }
        end.wait()
        guard let result = outcome.withLock({ $0 }) else {
            throw BenchmarkError(description: "a task has ended without a result")
        }
        return try result.get()
    }
}
