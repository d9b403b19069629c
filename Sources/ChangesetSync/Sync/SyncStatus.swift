import CipherDatabase
import Foundation
import Synchronization

/// A replica, as it is known at a remote.
public struct SyncReplica: Hashable, Sendable {
    /// Its name, as the author of commits.
    public let author: AuthorID
    /// The commit that its rows were the state of, when it said so last; nil before the first one.
    public let commit: CommitID?
    /// When it said so, by its clock; nil where nothing is known but that it is retired.
    public let date: Date?
    /// Whether checkpoints do not wait for it.
    public let isRetired: Bool
    /// Whether it is this store.
    public let isThisStore: Bool
}

/// Where a store stands to a remote.
public struct SyncStatus: Hashable, Sendable {
    /// Whether a fetch has read the remote to its end since it was set up. Until then nobody knows what it has.
    public let hasFetched: Bool
    /// Whether a tracked table is gone: ``RepositorySummary/missingTables`` names them.
    public let isTableMissing: Bool
    /// Commits of this store that the remote has not acknowledged.
    public let ahead: Int
    /// Commits that were fetched and are not under the head.
    public let behind: Int
    /// Commits that were fetched and wait for a parent.
    public let pending: Int
    /// Authors whose logs at the remote cannot be read on for now: an entry or an object is still on its way. Those
    /// that were given up do not count.
    public let stalled: Int
    /// Where these logs stand, and since when.
    public let stalledLogs: [StalledLog]
    /// Objects of the remote that were refused, and why.
    public let quarantined: [CommitID: String]
    /// Conflicts that nobody has looked at.
    public let conflicts: Int
    /// Tracked tables that were written outside of commits.
    public let foreignWrites: [String]
    /// The error of the last call; nil where it succeeded.
    public let lastError: String?
    /// How far the clock of an author was ahead of this one when it made its last commit; nil up to 24 hours.
    public let skew: Duration?
    /// The replicas that have acknowledged something at the remote, those that are retired too.
    public let replicas: [SyncReplica]

    /// Whether both have the same, as far as the last fetch has seen, and nothing is left to do: not even to look at
    /// conflicts (``ChangesetRepository/removeConflicts()``), or at a clock.
    public var isSettled: Bool { isInSync && conflicts == 0 && skew == nil }

    /// Whether both have the same, as far as the last fetch has seen. Conflicts that nobody has looked at, and a clock that
    /// is ahead, are no difference: see ``isSettled``.
    public var isInSync: Bool {
        hasFetched && ahead == 0 && behind == 0 && pending == 0 && stalled == 0 && quarantined.isEmpty
            && foreignWrites.isEmpty && !isTableMissing && lastError == nil
    }
}

extension SyncManager {
    /// Where the store stands to the remote, by what the store knows: it does not ask the remote.
    ///
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    public func status() throws -> SyncStatus {
        let name = remote.name
        return try writer.unsafeReentrantRead { db in
            try db.isolated {
                let remote = try RemoteState.require(name, db)
                let transaction = try RepositoryTransaction(db, isLooking: true)
                func count(_ table: String, _ condition: String = "1") throws -> Int {
                    try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(table) WHERE \(condition)") ?? 0
                }
                let quarantined = try Row.fetchAll(
                    db, sql: "SELECT id, reason FROM main.\(SyncTables.quarantine) WHERE remote = ?",
                    arguments: [remote.n])
                let reasons = try quarantined.compactMap { row -> (CommitID, String)? in
                    guard let id = CommitID(bytes: try row.stored(0, as: Data.self)) else { return nil }
                    return (id, try row.stored(1))
                }
                return SyncStatus(
                    hasFetched: remote.hasBeenRead, isTableMissing: !transaction.missingTables.isEmpty,
                    ahead: try count(SyncTables.outbox, "remote = \(remote.n)"),
                    behind: try ChangesetRepository.behind(transaction)
                        .count { $0.kind != .merge },
                    pending: try count(SyncTables.pending), stalled: remote.stalled,
                    stalledLogs: try StalledLogs(db: db).logs(of: remote.n),
                    quarantined: Dictionary(reasons, uniquingKeysWith: { first, _ in first }),
                    conflicts: try count(SyncTables.conflict), foreignWrites: try transaction.writtenTables(),
                    lastError: remote.error, skew: try Self.skew(db),
                    replicas: try Self.replicas(db, remote, transaction.state.author))
            }
        }
    }

    private static func replicas(_ db: Database, _ remote: RemoteState, _ own: AuthorID) throws -> [SyncReplica] {
        try CheckpointStore(db: db).replicas().filter { $0.remote == remote.n }.map { replica in
            SyncReplica(
                author: replica.author, commit: replica.acknowledgement?.head,
                date: replica.acknowledgement.map { Date(timeIntervalSince1970: Double($0.time) / 1000) },
                isRetired: replica.isRetired, isThisStore: replica.author == own)
        }
    }

    private static func skew(_ db: Database) throws -> Duration? {
        let store = CommitStore(db: db)
        let now = try db.transactionDate.timeIntervalSince1970 * 1000
        guard now.isFinite, abs(now) < 9e15 else { return nil }
        // No commit is earlier than its parents.
        let latest = try store.leaves().map(\.time).max()
        guard (latest?.lead(overWallClock: Int64(now)) ?? .zero) > Limits.namedSkew else { return nil }
        let lead = try store.clocks().map { $0.lead(overWallClock: Int64(now)) }.max() ?? .zero
        return lead > Limits.namedSkew ? lead : nil
    }
}

extension SyncManager {
    /// Gives up objects of the remote that were refused, and the commits that wait for them: the next fetch does not ask
    /// for them again. ``reset()`` does.
    ///
    /// - Parameter id: The one object; nil for all that were refused.
    /// - Returns: The number of objects and commits that were given up.
    /// - Throws: ``SyncError`` `.notEnabled`, `.unknownCommit` where it was not refused; `DatabaseError`.
    @discardableResult
    public func removeQuarantined(_ id: CommitID? = nil) async throws -> Int {
        let count = try await inTransaction { db, remote in
            let state = try RemoteState.require(remote.name, db)
            let known = try Data.fetchAll(
                db, sql: "SELECT id FROM main.\(SyncTables.quarantine) WHERE remote = ?", arguments: [state.n])
            let removed = known.compactMap { CommitID(bytes: $0) }.filter { id == nil || $0 == id }
            if let id, removed.isEmpty { throw SyncError(.unknownCommit, commit: id, "No such object was refused.") }
            return try Inbox(db: db).giveUp(removed, at: state.n)
        }
        emitStatus()
        return count
    }
}

/// Those who follow the status of a manager.
final class StatusWatchers: Sendable {
    private struct State {
        var next = 0
        var watchers: [Int: Watcher] = [:]
    }

    private struct Watcher {
        let continuation: AsyncStream<SyncStatus>.Continuation
        /// Ends the sequence with the database.
        let closingWait: ReaderClosing.Wait?
    }

    private let state = Mutex(State())

    func add(_ continuation: AsyncStream<SyncStatus>.Continuation, endingWith closing: ReaderClosing?) {
        let closingWait = closing?.whenClosed { _ in continuation.finish() }
        let number = state.withLock { state in
            state.next += 1
            state.watchers[state.next] = Watcher(continuation: continuation, closingWait: closingWait)
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            let removed = self?.state.withLock { $0.watchers.removeValue(forKey: number) }
            withExtendedLifetime(removed) {}
        }
    }

    var isEmpty: Bool { state.withLock { $0.watchers.isEmpty } }

    func emit(_ status: SyncStatus) {
        let continuations = state.withLock { $0.watchers.values.map(\.continuation) }
        for continuation in continuations { continuation.yield(status) }
    }
}

extension SyncManager {
    /// The status now, and after each push and fetch of this manager. A reader that is slow gets the latest one. The
    /// sequence ends when the database of the repository is closed.
    public func statuses() -> AsyncStream<SyncStatus> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: SyncStatus.self, bufferingPolicy: .bufferingNewest(1))
        watchers.add(continuation, endingWith: repository.reader.closingOfReader)
        if let status = try? status() { continuation.yield(status) }
        return stream
    }

    func emitStatus() {
        if !watchers.isEmpty, let status = try? status() { watchers.emit(status) }
    }
}
