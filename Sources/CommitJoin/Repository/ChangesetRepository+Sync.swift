import CipherDatabase

/// The exchange with remotes.
extension ChangesetRepository {
    /// The result of one call of ``sync(_:named:)``.
    package struct SyncReport: Sendable {
        package let exchange: ExchangeReport
        /// Whether rows were joined.
        package let hasJoined: Bool
    }

    /// Fetches what is new, joins it, and puts what the remote lacks: also what others have written.
    ///
    /// - Parameter name: The name under which the store remembers the remote.
    /// - Throws: ``RemoteFailure`` if the listing fails; `DatabaseError`. Other failures are in the report, and the next call
    ///   repeats what has failed.
    @discardableResult
    package func sync(_ remote: any ObjectStore, named name: String) throws -> SyncReport {
        try prepare()
        let exchange = try Exchange(store(), with: remote, named: name)
        var report = try exchange.run(now: clock().milliseconds)
        let revision = try store().revision()
        let hasJoined = try join()
        // Joining may make commits: revivals of rows.
        if hasJoined, try store().revision() != revision {
            report.add(try exchange.run(now: clock().milliseconds))
        }
        return SyncReport(exchange: report, hasJoined: hasJoined)
    }

    /// Puts a snapshot, and deletes the objects that it covers.
    @discardableResult
    package func compact(_ remote: any ObjectStore, named name: String) throws -> ExchangeReport {
        try prepare()
        return try Exchange(store(), with: remote, named: name).compact(now: clock().milliseconds)
    }
}
