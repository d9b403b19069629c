import CipherDatabase
import Foundation

/// The steps of an exchange, and the remotes that a store remembers.
extension ChangesetRepository {
    /// Begins to exchange with a remote.
    ///
    /// - Parameter name: The name under which the store remembers the remote.
    package func makeExchange(_ remote: any ObjectStore, named name: String) throws -> Exchange {
        try prepare()
        return try Exchange(store(), with: remote, named: name)
    }

    /// Runs an exchange with a remote, notes the result for ``status()``, and joins nothing.
    ///
    /// - Throws: ``RemoteFailure`` if the listing fails; `DatabaseError`. Other failures are in the report.
    package func perform(_ exchange: Exchange, _ direction: Exchange.Direction) throws -> ExchangeReport {
        try prepare()
        return try run(exchange, direction)
    }

    /// Another number after each change of what an exchange sends.
    package func revision() throws -> UInt64 { try looking { UInt64($0.state.revision) } }

    /// The name of the repository, under which remotes keep its objects.
    package func repositoryID() throws -> RepositoryID { try looking { $0.state.repository } }

    /// The names of the remotes that the store remembers.
    package func remoteNames() throws -> [String] { try looking { try RemoteRows(db: $0.db).all().map(\.name) } }

    /// Remembers a remote before the first exchange with it.
    package func remember(remote name: String) throws {
        try writer.unsafeReentrantWrite { db in
            try db.writingOwnRows {
                try db.execute(
                    sql: "INSERT OR IGNORE INTO \(EngineTables.remote) (name, upto, time) VALUES (?, 0, 0)",
                    arguments: [name])
            }
        }
    }

    /// Whether a store has a repository.
    ///
    /// - Throws: `DatabaseError`.
    public static func isPresent(in reader: any DatabaseReader) throws -> Bool { try reader.read(exists) }

    /// The tables that a store tracks, as the program calls them; none without a repository.
    package static func trackedTables(of reader: any DatabaseReader) throws -> [String] {
        try reader.read { db in
            guard try exists(db) else { return [] }
            return try String.fetchAll(
                db, sql: "SELECT local FROM \(EngineTables.table) WHERE local IS NOT NULL ORDER BY local")
        }
    }

    /// The repository that a store has; nil if it has none.
    package static func repositoryID(of reader: any DatabaseReader) throws -> RepositoryID? {
        try reader.read { db in
            guard try exists(db) else { return nil }
            return try db.isolated { try ReplicaState(db, CommitIndex(db)).repository }
        }
    }
}

extension ChangesetRepository {
    /// Writes in a transaction, as ``commit(meta:_:)``.
    ///
    /// - Returns: The commit; nil if no row of a tracked table has changed.
    package func commitReturningRecord(meta: String, _ updates: (Database) throws -> Void) throws -> Changeset? {
        try prepare()
        let hash = try writer.unsafeReentrantWrite { db in
            try replica.record(db, clock: clock(), meta: meta, updates).commit?.hash
        }
        return try hash.map { hash in try looking { try Changeset.named(hash.description, $0.db) } }
    }
}

/// A joined commit as a list shows it.
package struct LogEntry: Sendable {
    package let changeset: Changeset
    /// ``RepositoryMember/id``
    package let author: String
    /// The number among the commits of the author, from 1.
    package let number: UInt64
    package let time: Date
}

/// Commits as people name them.
extension ChangesetRepository {
    /// The joined commits, the latest first, each before those that it knew.
    ///
    /// - Parameter limit: The most commits.
    package func logEntries(limit: Int) throws -> [LogEntry] {
        try looking { work in
            try work.latestCommits(limit).map { n in
                let entry = try work.index.entry(n)
                return LogEntry(
                    changeset: try Changeset.joined(n, work.db), author: entry.authorID.description,
                    number: entry.number,
                    time: Date(timeIntervalSince1970: Double(entry.time.milliseconds) / 1_000))
            }
        }
    }

    /// The record of a commit or union by the beginning of its name.
    ///
    /// - Parameter text: `HEAD`, or four hexadecimal digits at least.
    /// - Throws: ``EngineError`` `.noSuchCommit`, also for a commit that is not joined; `.ambiguousCommit`.
    package func changeset(named text: String) throws -> Changeset {
        try looking { work in
            if text == "HEAD" {
                guard let head = try Changeset.head(work) else { throw EngineError(.noSuchCommit) }
                return head
            }
            let digits = text.lowercased()
            guard digits.count >= 4, digits.allSatisfy(\.isHexDigit) else { throw EngineError(.noSuchCommit) }
            let names = try String.fetchAll(
                work.db,
                sql: """
                    SELECT DISTINCT uuid FROM main.\(EngineTables.changesetView)
                    WHERE substr(uuid, 1, ?) = ? AND kind <> \(EngineTables.RecordKind.waiting) LIMIT 2
                    """, arguments: [digits.count, digits])
            guard let name = names.first else { throw EngineError(.noSuchCommit) }
            if names.count > 1 { throw EngineError(.ambiguousCommit) }
            return try Changeset.named(name, work.db)
        }
    }
}
