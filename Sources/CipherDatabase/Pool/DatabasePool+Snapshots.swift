import Dispatch

// Reads of one moment that outlive the call that began them.

extension DatabasePool {
    /// A view of the last commit that stays as it is.
    ///
    /// Made from inside a write access it must be asked for outside of the access's transactions.
    public func makeSnapshot() throws -> DatabaseSnapshot {
        if writer.connection.isAccessedHere { writer.connection.requireAccessHere().requireNoTransaction() }
        return try openSnapshot()
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncConcurrentRead(value)
    }

    /// Reads what was committed last beside the writes that follow: see ``spawnConcurrentRead(_:)``.
    public func asyncConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        writer.connection.requireAccessHere().requireNoTransaction()
        let reader: SerialConnection
        do {
            reader = try readers.acquire(isInsideWrite: true)
        } catch {
            return value(.failure(error))
        }
        let hasView = DispatchSemaphore(value: 0)
        reader.async { db in
            do {
                try db.inReadTransaction { db in
                    // The transaction has no view of its own until it reads; the writer waits for that alone.
                    do {
                        try db.run(.view)
                    } catch {
                        hasView.signal()
                        throw error
                    }
                    hasView.signal()
                    value(.success(db))
                }
            } catch {
                hasView.signal()
                value(.failure(error))
            }
        } finally: { [readers] in
            readers.release(reader)
        }
        hasView.wait()
    }
}
