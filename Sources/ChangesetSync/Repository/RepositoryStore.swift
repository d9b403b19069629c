import CipherDatabase
import CipherStore
import StoreCrypto

/// The part of a store that an exchange sees: its commits, members, snapshots, and its memory of remotes.
///
/// Each call is one transaction, so a kill at any call leaves what the calls before it have stored.
package final class RepositoryStore: ExchangeStore {
    package let repository: RepositoryID
    package let keys: ReplicaKeys
    package let rosterSecret: SecretBytes
    let writer: any DatabaseWriter
    private let replica: Replica
    private let clock: @Sendable () -> HybridTime
    /// The commits of the store, with what was read of their names.
    private var held: (revision: Int64, commits: HeldCommits)?

    /// - Parameters:
    ///   - replica: The one that joins on the same connection.
    ///   - clock: The clock of the device.
    package init(
        _ writer: any DatabaseWriter, _ replica: Replica, clock: @escaping @Sendable () -> HybridTime
    ) throws {
        (self.writer, self.replica, self.clock) = (writer, replica, clock)
        (repository, keys, rosterSecret) = try writer.read { db in
            let index = CommitIndex(db)
            let state = try ReplicaState(db, index)
            let identity = try MemberRows(db: db).identity(index.authorID(state.author))
            return (state.repository, identity.keys, identity.roster)
        }
    }

    // MARK: Transactions

    private func read<T>(_ body: (Database) throws -> T) throws -> T {
        try writer.writeWithoutTransaction { db in
            var result: T?
            try db.inTransaction(.deferred) {
                result = try body(db)
                return .commit
            }
            guard let result else { throw EngineError(.damagedStore) }
            return result
        }
    }

    /// Reads commits. Their names are read anew only after a change.
    private func readCommits<T>(_ body: (HeldCommits) throws -> T) throws -> T {
        try read { db in
            let revision = try Self.revision(db)
            if let held, held.revision == revision, held.commits.db === db { return try body(held.commits) }
            let commits = try HeldCommits(db)
            held = (revision, commits)
            return try body(commits)
        }
    }

    /// - Parameter body: Returns whether something of the protocol has changed.
    private func write(_ body: (Database) throws -> Bool) throws {
        try writer.writeWithoutTransaction { db in
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    if try body(db) {
                        try db.execute(sql: "UPDATE \(EngineTables.state) SET revision = revision + 1")
                    }
                    return .commit
                }
            }
        }
    }

    private static func revision(_ db: Database) throws -> Int64 {
        try db.cachedStatement(sql: "SELECT revision FROM \(EngineTables.state)").first([]) { $0.integer(0) } ?? 0
    }

    package func revision() throws -> UInt64 { try read { UInt64(try Self.revision($0)) } }

    // MARK: Members

    package func memberRecords() throws -> [MemberRecord] { try read { try MemberRows(db: $0).records() } }
    package func add(_ records: [MemberRecord]) throws {
        try writer.writeWithoutTransaction { try replica.add($0, clock: clock(), records) }
    }
    package func epochSecrets() throws -> EpochSecrets { try read { try MemberRows(db: $0).secrets() } }
    package func keep(_ secrets: EpochSecrets) throws { try write { try MemberRows(db: $0).keep(secrets) } }

    // MARK: Commits

    package func branches() throws -> [CommitBranch] { try readCommits { try $0.branches() } }

    package func hashes(of author: ReplicaID, _ number: UInt64) throws -> [CommitHash] {
        try readCommits { try $0.hashes(of: author, number) }
    }

    package func hash(of branch: CommitBranch, at number: UInt64) throws -> CommitHash? {
        try readCommits { try $0.hash(of: branch, at: number) }
    }

    package func commits(of branch: CommitBranch, from first: UInt64, limitBytes: Int) throws -> [StoredCommit] {
        try readCommits { try $0.commits(of: branch, from: first, limitBytes: limitBytes) }
    }

    package func addToInbox(_ commits: [VerifiedCommit]) throws {
        try writer.writeWithoutTransaction { try replica.receive($0, clock: clock(), commits) }
    }

    package func keep(_ signature: [UInt8], of commit: StoredCommit) throws {
        try write { db in
            guard let n = try CommitIndex(db).find(commit.author, Tip(number: commit.number, tag: commit.hash.tag))
            else {
                throw EngineError(.unknownCommit)
            }
            try CommitRows(db: db, index: CommitIndex(db)).keepSignature(signature, of: n)
            return false
        }
    }

    // MARK: Snapshots

    package func lacks(_ vector: VersionVector) throws -> Bool {
        let received = try read { try ReceivedSnapshots(db: $0).vectors() }
        return try readCommits { try $0.lacks(vector, received: received) }
    }

    package func lacksValues() throws -> Bool {
        try read { try UnknownValues(db: $0).hasAny() }
    }

    package func receive(_ snapshot: SnapshotManifest, part: (Int) throws -> [UInt8]) throws {
        // Each part has a transaction of its own: nobody waits for the remote. After a kill or a failure of the remote, the
        // parts that are here stay.
        var (number, partCount) = (Int64(0), 0)
        try write { db in
            (number, partCount) = try ReceivedSnapshots(db: db).begin(snapshot.identity)
            return false
        }
        do {
            var reader = SnapshotReader()
            for index in snapshot.parts.indices {
                let isHere = index < partCount
                let kept = isHere ? try read { try ReceivedSnapshots(db: $0).part(index, of: number) } : nil
                let content = try kept ?? part(index)
                do {
                    try reader.add(content) { _ in }
                    if index == snapshot.parts.count - 1, !reader.isComplete { throw CommitError(.truncated) }
                } catch let error as CommitError {
                    throw Self.objectError(error)
                }
                if isHere { continue }
                try write { db in
                    try ReceivedSnapshots(db: db).add(content, index, to: number)
                    return false
                }
            }
            if snapshot.parts.isEmpty { throw ObjectError.malformed(CommitError(.truncated)) }
            try write { db in
                try ReceivedSnapshots(db: db).end(number, snapshot.vector)
                return true
            }
        } catch let failure as RemoteFailure {
            throw failure
        } catch {
            try write { db in
                try ReceivedSnapshots(db: db).remove(number)
                return false
            }
            throw error
        }
    }

    private static func objectError(_ error: CommitError) -> ObjectError {
        if case .unsupportedVersion(let version) = error.code { .laterVersion(version) } else { .malformed(error) }
    }

    package func makeSnapshot() throws -> (any SnapshotSource)? {
        guard writer is DatabasePool || writer is SharedStore else {
            return try StoredSnapshotSource(writer, replica, clock())
        }
        // Rows that were written outside of commits become a commit first.
        try writer.writeWithoutTransaction { db in try replica.inTransaction(db, clock()) { _ in } }
        if let pool = writer as? DatabasePool {
            return try PooledSnapshotSource(pool.makeSnapshot(), replica.settings, clock())
        }
        if let store = writer as? SharedStore {
            return try StoredSnapshotSource(writer, store.makeSnapshot(), replica.settings, clock())
        }
        return try StoredSnapshotSource(writer, replica, clock())
    }

    // MARK: Parts of long segments

    package func part(_ name: String, of remote: String) throws -> [UInt8]? {
        try read { db in
            try db.cachedStatement(sql: "SELECT content FROM \(EngineTables.segmentPart) WHERE remote = ? AND name = ?")
                .first([ExactValue(text: remote), ExactValue(text: name)]) { $0.bytes(0) }
        }
    }

    package func keepPart(_ content: [UInt8], _ name: String, of remote: String) throws {
        try write { db in
            try db.cachedStatement(
                sql: "INSERT OR REPLACE INTO \(EngineTables.segmentPart) (remote, name, content) VALUES (?, ?, ?)"
            ).execute(exact: [ExactValue(text: remote), ExactValue(text: name), .blob(content[...])])
            return false
        }
    }

    package func removeParts(except names: Set<String>, of remote: String) throws {
        let kept = try read { db in
            try String.fetchAll(
                db, sql: "SELECT name FROM \(EngineTables.segmentPart) WHERE remote = ?", arguments: [remote])
        }
        let removed = kept.filter { !names.contains($0) }
        if removed.isEmpty { return }
        try write { db in
            for name in removed {
                try db.cachedStatement(sql: "DELETE FROM \(EngineTables.segmentPart) WHERE remote = ? AND name = ?")
                    .execute(exact: [ExactValue(text: remote), ExactValue(text: name)])
            }
            return false
        }
    }

    // MARK: The known facts about a remote

    package func remembered(_ remote: String) throws -> [String: RememberedObject] {
        try read { db in
            var found: [String: RememberedObject] = [:]
            try db.cachedStatement(sql: "SELECT name, state FROM \(EngineTables.object) WHERE remote = ?")
                .forEach([ExactValue(text: remote)]) { row in
                    found[row.text(0)] = UInt8(exactly: row.integer(1)).flatMap { RememberedObject(rawValue: $0) }
                }
            return found
        }
    }

    package func remember(_ changes: [String: RememberedObject?], of remote: String) throws {
        try write { db in
            for (name, state) in changes {
                let key = [ExactValue(text: remote), ExactValue(text: name)]
                if let state {
                    try db.cachedStatement(
                        sql: "INSERT OR REPLACE INTO \(EngineTables.object) (remote, name, state) VALUES (?, ?, ?)"
                    ).execute(exact: key + [.integer(Int64(state.rawValue))])
                } else {
                    try db.cachedStatement(sql: "DELETE FROM \(EngineTables.object) WHERE remote = ? AND name = ?")
                        .execute(exact: key)
                }
            }
            return false
        }
    }
}
