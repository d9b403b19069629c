import CipherDatabase
import Foundation

/// A log at a remote that goes on and cannot be read on: what its author pushes is not received.
public struct StalledLog: Hashable, Sendable {
    /// The entry at which it stands.
    public let position: LogPosition
    /// Whether the entry is damaged, or something else is in its place. Otherwise it or its object is missing.
    public let isDamaged: Bool
    /// When a fetch has found it there for the first time, by the clock of this store.
    public let since: Date
    /// Whether a person has given it up (``SyncManager/giveUpStalledLogs()``).
    public let isGivenUp: Bool
    /// Whether a person should look at it. What is missing may be on its way for a while, as on a folder that is synced; a
    /// damaged entry needs attention at once, and one that was given up none.
    public let needsAttention: Bool
}

/// The logs that stand still, as the last fetch has seen them. Inside a transaction.
struct StalledLogs {
    let db: Database

    private static let table = SyncTables.stall

    /// A store that an earlier version has set up has no such table until a log stands still.
    private var exists: Bool { get throws { try db.tableExists(Self.table, in: "main") } }

    /// What is known of an entry, as `stall.damaged` has it: its bits.
    private struct Flags: OptionSet {
        let rawValue: Int
        static let damaged = Flags(rawValue: 1)
        static let givenUp = Flags(rawValue: 2)
    }

    /// Keeps those of a page of a remote. A log that still stands at the same entry keeps its date, and stays given up.
    func note(_ stalls: [RemoteStall], at remote: Int64) throws {
        let former = try logs(of: remote)
        if former.isEmpty && stalls.isEmpty { return }
        try SyncTables.create(db)
        try db.execute(sql: "DELETE FROM main.\(Self.table) WHERE remote = ?", arguments: [remote])
        let now = try db.transactionDate
        for stall in stalls {
            let known = former.first { $0.position == stall.position }
            var flags: Flags = stall.reason == .entryDamaged ? .damaged : []
            if known?.isGivenUp == true { flags.insert(.givenUp) }
            try db.execute(
                sql: "INSERT OR REPLACE INTO main.\(Self.table) (remote, author, sequence, damaged, since) "
                    + "VALUES (?, ?, ?, ?, ?)",
                arguments: [
                    remote, Data(stall.position.author.bytes), Int64(clamping: stall.position.sequence),
                    flags.rawValue, (known?.since ?? now).timeIntervalSince1970,
                ])
        }
    }

    /// Those of a remote that may go on, as far as anybody hopes.
    func awaited(at remote: Int64) throws -> [StalledLog] { try logs(of: remote).filter { !$0.isGivenUp } }

    /// Gives up those that need attention.
    ///
    /// - Returns: How many there were.
    func giveUp(at remote: Int64) throws -> Int {
        let found = try logs(of: remote).filter(\.needsAttention)
        for log in found {
            try db.execute(
                sql: "UPDATE main.\(Self.table) SET damaged = damaged | ? WHERE remote = ? AND author = ?",
                arguments: [Flags.givenUp.rawValue, remote, Data(log.position.author.bytes)])
        }
        return found.count
    }

    /// Those of a remote, in the order of their authors.
    func logs(of remote: Int64) throws -> [StalledLog] {
        guard try exists else { return [] }
        let now = try db.transactionDate
        return try Row.fetchAll(
            db,
            sql: "SELECT author, sequence, damaged, since FROM main.\(Self.table) WHERE remote = ? ORDER BY author",
            arguments: [remote]
        ).compactMap { row in
            guard let author = AuthorPseudonym(bytes: try row.stored(0, as: Data.self)) else { return nil }
            let (flags, since) = (Flags(rawValue: try row.stored(2)), try row.stored(3, as: Double.self))
            let (isDamaged, isGivenUp) = (flags.contains(.damaged), flags.contains(.givenUp))
            let date = Date(timeIntervalSince1970: since)
            return StalledLog(
                position: LogPosition(author: author, sequence: UInt64(clamping: try row.stored(1, as: Int64.self))),
                isDamaged: isDamaged, since: date, isGivenUp: isGivenUp,
                needsAttention: !isGivenUp && (isDamaged || now.timeIntervalSince(date) >= Limits.stallSeconds))
        }
    }
}

extension SyncManager {
    /// Gives up the logs that need attention: where the entry cannot be restored, and its author has pushed again after a
    /// ``reset()``, or does not come back. Each is read on when its entry is whole after all, and needs attention again
    /// when it stands at another one.
    ///
    /// - Returns: The number of logs that were given up.
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    @discardableResult
    public func giveUpStalledLogs() async throws -> Int {
        let count = try await inTransaction { db, remote in
            var state = try RemoteState.require(remote.name, db)
            let logs = StalledLogs(db: db)
            let count = try logs.giveUp(at: state.n)
            state.stalled = try logs.awaited(at: state.n).count
            if count > 0 { try state.save(db) }
            return count
        }
        emitStatus()
        return count
    }
}
