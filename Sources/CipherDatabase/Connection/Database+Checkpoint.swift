extension Database {
    /// Copies the WAL into the database file. Outside of transactions, on a connection that writes.
    ///
    /// - Parameters:
    ///   - mode: The kind of checkpoint.
    ///   - name: The database; "main" is the only one.
    /// - Returns: The length of the WAL in frames, and how many of them are in the database file now; zero without WAL.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when another connection writes, or when `mode` asks for more than
    ///   readers allow; `.SQLITE_LOCKED` inside a transaction.
    @discardableResult
    public func checkpoint(
        _ mode: CheckpointMode = .passive, on name: String? = "main"
    ) throws -> (walFrameCount: Int, checkpointedFrameCount: Int) {
        let result = try copyWAL(mode, on: name)
        return (result.walFrameCount, result.checkpointedFrameCount)
    }

    /// The same, with its result in one value.
    func copyWAL(_ mode: CheckpointMode, on name: String? = "main") throws -> CheckpointResult {
        if let name, name.lowercased() != "main" { throw DatabaseError(message: "unknown database: \(name)") }
        // First, since it fails where the connection cannot be used at all.
        let journalMode = try String.fetchOne(self, sql: "PRAGMA journal_mode")
        guard let checkpointer = writing.checkpointer, !access.refusesWrites else {
            throw DatabaseError(resultCode: .SQLITE_READONLY, message: "a connection that only reads cannot checkpoint")
        }
        guard journalMode == "wal" else { return CheckpointResult(walFrameCount: 0, checkpointedFrameCount: 0) }
        guard !isInsideTransaction else { throw DatabaseError(resultCode: .SQLITE_LOCKED) }
        let result = try checkpointer.checkpoint(holding: self)
        if case .passive = mode { return result }
        guard result.isComplete else {
            throw DatabaseError(resultCode: .SQLITE_BUSY, message: "readers still use frames of the WAL")
        }
        return result
    }
}
