import CipherDatabase

/// The exchange with remotes.
extension ChangesetRepository {
    /// The result of one call of ``sync(_:named:)``.
    package struct SyncReport: Sendable {
        package let exchange: ExchangeReport
        /// Whether rows were joined.
        let hasJoined: Bool
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
        var report = try run(exchange)
        let revision = try store().revision()
        let hasJoined = try join()
        // Joining may make commits: revivals of rows.
        if hasJoined, try store().revision() != revision { report.add(try run(exchange)) }
        return SyncReport(exchange: report, hasJoined: hasJoined)
    }

    /// Runs an exchange and notes its result for the status.
    package func run(_ exchange: Exchange, _ direction: Exchange.Direction = .both) throws -> ExchangeReport {
        let last = try looking { try RemoteRows(db: $0.db).lastCommit() }
        do {
            let report = try exchange.run(now: clock().milliseconds, direction)
            try note(report, exchange, last: direction == .fetching ? nil : last)
            if direction != .fetching { try keepLimits(exchange, report) }
            return report
        } catch let failure as RemoteFailure {
            var report = ExchangeReport()
            report.failures = [failure]
            try note(report, exchange, last: nil)
            throw failure
        }
    }

    /// Notes for the status that an exchange with a remote could not begin, as where its folder is missing.
    package func noteFailure(of call: String, at remote: String) throws {
        try writer.unsafeReentrantWrite { db in
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    try RemoteRows(db: db).noteFailure(of: call, at: remote)
                    return .commit
                }
            }
        }
    }

    private func note(_ report: ExchangeReport, _ exchange: Exchange, last: Int64?) throws {
        let time = Int64(clamping: clock().milliseconds)
        try writer.unsafeReentrantWrite { db in
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    try RemoteRows(db: db).note(
                        report, of: exchange.remoteName, last: last, time: time, snapshot: exchange.greatestSnapshot)
                    return .commit
                }
            }
        }
    }

    /// Forgets what is known of a remote: the next exchange reads it from the beginning. Nothing else is lost.
    ///
    /// - Returns: Whether it was known.
    @discardableResult
    package func forget(remote name: String) throws -> Bool {
        try writer.unsafeReentrantWrite { db in
            var isKnown = false
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    for table in [EngineTables.problem, EngineTables.object, EngineTables.segmentPart] {
                        try db.execute(sql: "DELETE FROM \(table) WHERE remote = ?", arguments: [name])
                    }
                    try db.execute(sql: "DELETE FROM \(EngineTables.remote) WHERE name = ?", arguments: [name])
                    isKnown = db.changesCount > 0
                    return .commit
                }
            }
            return isKnown
        }
    }

    /// Ends the attention for objects of remotes that cannot be used: damaged ones, and those with a content that no member
    /// makes, of a later version, or of an unknown author or secret. The status has them as ``RemoteStatus/evidence`` from then
    /// on. Those that another store or program may make usable are tried again by each exchange.
    ///
    /// It is for this store alone. If somebody deletes such an object from the remote, no store needs attention for it.
    ///
    /// - Returns: The number of objects.
    /// - Throws: `DatabaseError`.
    @discardableResult
    public func acknowledgeObjects() throws -> Int {
        try writer.unsafeReentrantWrite { db in
            var count = 0
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    count = try RemoteRows(db: db).acknowledge()
                    return .commit
                }
            }
            return count
        }
    }

    /// Forgets the contents of commits: snapshots stand for them. Rows stay as they are.
    ///
    /// - Parameter tombstones: Whether deleted rows are forgotten too, before their grace period ends.
    package func forgetHistory(tombstones: Bool) throws {
        try prepare()
        try writer.unsafeReentrantWrite { try replica.forget($0, clock: clock(), tombstones: tombstones) }
    }

    /// Puts a snapshot, and deletes the objects that it covers.
    @discardableResult
    package func compact(_ remote: any ObjectStore, named name: String) throws -> ExchangeReport {
        try prepare()
        return try Exchange(store(), with: remote, named: name).compact(now: clock().milliseconds)
    }
}
