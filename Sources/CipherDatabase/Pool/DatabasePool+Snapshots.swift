import StorePlatform

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
        let view = SingleWait<Void>()
        reader.async { db in
            do {
                try db.inReadTransaction { db in
                    // The transaction has no view of its own until it reads; the writer waits for that alone.
                    try db.run(.view)
                    view.end(())
                    value(.success(db))
                }
            } catch {
                view.end(())
                value(.failure(error))
            }
        } finally: { [readers] in
            readers.release(reader)
        }
        view.wait()
    }
}
