import CipherDatabase

/// How long a store keeps what its rows do not need, and when a remote gets a snapshot.
///
/// No row is lost by any of it, and no member has to agree: a member that was away longer joins a snapshot.
public struct SyncHistoryLimits: Hashable, Sendable {
    /// How long a store knows that a row was deleted. An update that arrives later brings the row back on the device of its
    /// author.
    public var deletions: Duration = .seconds(30 * 86_400)
    /// How long the changes of a commit can be shown and reverted. They go only if every remote has a snapshot for them.
    public var changes: Duration = .seconds(90 * 86_400)
    /// The latest commits whose changes stay, however old they are.
    public var commits = 10_000
    /// A store that sends commits makes a snapshot if the remote has so many beyond the last snapshot; nil for never. A
    /// snapshot of several parts waits for 1,000 commits for each of them.
    public var commitsBetweenSnapshots: Int? = 10_000

    public init() {}
}

/// Forgetting by age and number, after an exchange: at most once a day, in slices.
extension ChangesetRepository {
    private static let dayMilliseconds: Int64 = 86_400_000
    /// The most commits or deleted rows of one transaction.
    private static let slice = 10_000

    func keepLimits(_ exchange: Exchange, _ report: ExchangeReport) throws {
        let limits = historyLimits
        if report.failures.isEmpty, report.sentCommits > 0, let count = limits.commitsBetweenSnapshots,
            exchange.needsSnapshot(after: count)
        {
            do {
                _ = try exchange.compact(now: clock().milliseconds)
            } catch is RemoteFailure {
                // The exchange itself has succeeded, and the next one tries it again.
            }
        }
        let now = Int64(clamping: clock().milliseconds)
        let last = try looking { work in
            try work.db.cachedStatement(sql: "SELECT tidied FROM \(EngineTables.state)").first([]) { $0.integer(0) }
                ?? 0
        }
        if now - last >= Self.dayMilliseconds || now < last { try forgetOld(limits, now, last) }
    }

    /// - Parameter former: The time of the last call. Ages are those at this time, so that one wrong clock, once, forgets
    ///   nothing.
    private func forgetOld(_ limits: SyncHistoryLimits, _ now: Int64, _ former: Int64) throws {
        func limit(_ age: Duration) -> Int64 {
            let milliseconds = max(0, min(now, former) - Int64(clamping: Int(age / .milliseconds(1))))
            return Int64(HybridTime(wallClock: milliseconds).rawValue)
        }
        var last: Int64 = 0
        let (changes, deletions) = (limit(limits.changes), limit(limits.deletions))
        while try forgetting({ try $0.forgetBodies(after: &last, limits.commits, before: changes, Self.slice) }) {}
        var place: DeadPlace?
        while try forgetting({ try $0.forgetTombstones(after: &place, before: deletions, Self.slice) }) {}
        _ = try forgetting { work in
            try UnknownValues(db: work.db).forgetKnown()
            try work.base.stored.removeUnusedVectors()
            try ReceivedSnapshots(db: work.db).removePartial()
            try work.db.cachedStatement(sql: "UPDATE \(EngineTables.state) SET tidied = ?")
                .execute(exact: [.integer(now)])
            return false
        }
    }

    private func forgetting(_ body: (Work) throws -> Bool) throws -> Bool {
        try writer.unsafeReentrantWrite { db in
            if db.isInsideTransaction { throw EngineError(.insideTransaction) }
            return try replica.inTransaction(db, clock(), body)
        }
    }
}

extension Work {
    /// Forgets the changes of the next commits that are old and for which every remote has a snapshot.
    ///
    /// - Parameters:
    ///   - last: The commit before them, by its local number.
    ///   - kept: The latest commits stay.
    ///   - time: The raw value of a ``HybridTime``: later commits stay.
    /// - Returns: Whether there may be more.
    fileprivate func forgetBodies(
        after last: inout Int64, _ kept: Int, before time: Int64, _ limit: Int
    ) throws -> Bool {
        let snapshots = try RemoteRows(db: db).snapshots().map { try $0.flatMap { try LocalVector($0, index) } }
        if snapshots.isEmpty { return false }
        var old: [Int64] = []
        try db.cachedStatement(
            sql: """
                SELECT n FROM \(EngineTables.commit)
                WHERE n > ? AND n <= (SELECT max(n) FROM \(EngineTables.commit)) - ? AND time < ? AND body IS NOT NULL
                ORDER BY n LIMIT ?
                """
        ).forEach([.integer(last), .integer(Int64(kept)), .integer(time), .integer(Int64(limit))]) {
            old.append($0.integer(0))
        }
        for n in old where try snapshots.allSatisfy({ try $0?.covers(n, index) == true }) {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.commit) SET body = NULL WHERE n = ?")
                .execute(exact: [.integer(n)])
        }
        last = old.last ?? last
        return old.count == limit
    }

    /// Forgets the next deletions that were joined before a time, unless an update is owed to them.
    ///
    /// - Parameter last: The deletion before them.
    /// - Returns: Whether there may be more.
    fileprivate func forgetTombstones(after last: inout DeadPlace?, before time: Int64, _ limit: Int) throws -> Bool {
        var dead: [DeadPlace] = []
        let start = last ?? DeadPlace(place: RowPlace(table: 0, key: RowKey(stored: [])), incarnation: 0)
        try db.cachedStatement(
            sql: """
                SELECT tbl, key, incarnation FROM \(EngineTables.dead)
                WHERE (tbl, key, incarnation) > (?, ?, ?) AND since < ? ORDER BY tbl, key, incarnation LIMIT ?
                """
        ).forEach([
            .integer(start.place.table), ExactValue(start.place.key.stored), .integer(start.incarnation),
            .integer(time), .integer(Int64(limit)),
        ]) { row in
            let place = RowPlace(table: row.integer(0), key: RowKey(stored: row.bytes(1)))
            dead.append(DeadPlace(place: place, incarnation: row.integer(2)))
        }
        for (place, dead) in Dictionary(grouping: dead, by: \.place) {
            try forgetTombstones(of: place, Set(dead.map(\.incarnation)), graves: true)
        }
        last = dead.last ?? last
        return dead.count == limit
    }
}

/// A deleted insertion of a row.
private struct DeadPlace {
    let place: RowPlace
    let incarnation: Int64
}
