import StorePlatform

// Reads of one snapshot that outlive the call that began them.

extension DatabasePool {
    /// A snapshot of the last commit, which does not change.
    ///
    /// Inside a write access it must be made outside of the access's transactions.
    public func makeSnapshot() throws -> DatabaseSnapshot {
        if writer.connection.isAccessedHere { writer.connection.requireAccessHere().requireNoTransaction() }
        return try openSnapshot()
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncConcurrentRead(value)
    }

    /// Reads the last commit concurrently with the writes that follow: see ``spawnConcurrentRead(_:)``.
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
                    // The transaction has no snapshot until its first read; the writer waits only for that.
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
