import Dispatch
import StorePlatform
import StoreSharing

/// One manager at a time exchanges the commits of a store: of all threads of all processes that have it open. Two that do
/// so at once lose nothing, but they would put, get and merge the same twice.
extension SyncManager {
    /// Waits for the other managers of the store, and keeps them out while a call runs. The system releases the lock of a
    /// process that dies.
    ///
    /// - Throws: `StoreError` `.storeInUse`, with the process that syncs, where it goes on for longer than the limit;
    ///   `CancellationError`; `SystemError`; the error of `body`.
    func inTurn<T>(_ body: () async throws -> T) async throws -> T {
        let lock = try await acquireTurn()
        defer { lock?.release() }
        return try await body()
    }

    private func acquireTurn() async throws -> HeldLock? {
        let paths = StorePaths(writer.path)
        // A database in memory belongs to one process.
        guard try Files.entryExists(paths.database) else { return nil }
        let file = try LockFile(path: paths.lock, likeFile: paths.database)
        let deadline = ContinuousClock.now + turnLimit
        var pause = Limits.firstTurnPause
        while true {
            if let lock = try file.tryLock(.sync, .exclusive) { return lock }
            // Throws the error that names the other process.
            if ContinuousClock.now >= deadline { return try file.lock(.sync, .exclusive, deadline: .now) }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, Limits.longestTurnPause)
        }
    }

    /// Runs what waits for the locks of the database outside of the threads of tasks.
    func outsideTasks<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            Self.queue.async { continuation.resume(with: Result(catching: body)) }
        }
    }

    private static let queue = DispatchQueue(label: "CipherStore.SyncManager", attributes: .concurrent)
}
