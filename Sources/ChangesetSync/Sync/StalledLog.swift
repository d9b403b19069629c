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
    /// Whether a person should look at it. What is missing may be on its way for a while, as on a folder that is synced; a
    /// damaged entry needs attention at once.
    public let needsAttention: Bool
}

/// The logs that stand still, as the last fetch has seen them. Inside a transaction.
struct StalledLogs {
    let db: Database

    private static let table = SyncTables.stall

    /// A store that an earlier version has set up has no such table until a log stands still.
    private var exists: Bool { get throws { try db.tableExists(Self.table, in: "main") } }

    /// Keeps those of a page of a remote. A log that still stands at the same entry keeps its date.
    func note(_ stalls: [RemoteStall], at remote: Int64) throws {
        let former = try logs(of: remote)
        if former.isEmpty && stalls.isEmpty { return }
        try SyncTables.create(db)
        try db.execute(sql: "DELETE FROM main.\(Self.table) WHERE remote = ?", arguments: [remote])
        let now = try db.transactionDate
        for stall in stalls {
            let since = former.first { $0.position == stall.position }?.since ?? now
            try db.execute(
                sql: "INSERT OR REPLACE INTO main.\(Self.table) (remote, author, sequence, damaged, since) "
                    + "VALUES (?, ?, ?, ?, ?)",
                arguments: [
                    remote, Data(stall.position.author.bytes), Int64(clamping: stall.position.sequence),
                    stall.reason == .entryDamaged, since.timeIntervalSince1970,
                ])
        }
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
            let (isDamaged, since): (Bool, Double) = (try row.stored(2), try row.stored(3))
            let date = Date(timeIntervalSince1970: since)
            return StalledLog(
                position: LogPosition(author: author, sequence: UInt64(clamping: try row.stored(1, as: Int64.self))),
                isDamaged: isDamaged, since: date,
                needsAttention: isDamaged || now.timeIntervalSince(date) >= Limits.stallSeconds)
        }
    }
}
