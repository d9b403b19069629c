import CipherDatabase
import Foundation
import StoreCrypto

/// What a store knows of one remote. Inside a transaction.
struct RemoteState: Sendable {
    let n: Int64
    let name: String
    /// Under whose name this store pushes there. It is another one after a reset, so that its log has no entry yet.
    let pusher: AuthorID
    var cursor: RemoteCursor
    /// Whether its logs were read to their end since setup or reset.
    var hasBeenRead: Bool
    /// Authors whose logs cannot be read on for now.
    var stalled: Int
    /// Why the last call failed; nil where it did not.
    let error: String?

    init?(named name: String, _ db: Database) throws {
        guard try db.tableExists(SyncTables.remote, in: "main") else { throw SyncError(.notEnabled) }
        let row = try Row.fetchOne(
            db, sql: "SELECT n, pusher, cursor, stalled, error FROM main.\(SyncTables.remote) WHERE name = ?",
            arguments: [name])
        guard let row else { return nil }
        guard let pusher = AuthorID(bytes: try row.stored(1, as: Data.self)),
            let cursor = RemoteCursor(decoding: Array(try row.stored(2, as: Data.self)))
        else { throw CommitStore.damaged("What is known of a remote has no valid content.") }
        (self.n, self.name, self.pusher, self.cursor) = (try row.stored(0), name, pusher, cursor)
        let stalled: Int = try row.stored(3)
        (hasBeenRead, self.stalled, error) = (stalled >= 0, max(0, stalled), try row.storedOrNil(4))
    }

    static func require(_ name: String, _ db: Database) throws -> RemoteState {
        guard let state = try RemoteState(named: name, db) else {
            throw SyncError(.notEnabled, "setup() was not called for this remote.")
        }
        return state
    }

    /// Adds a remote, to which everything is to be pushed.
    static func create(_ name: String, _ db: Database) throws {
        // Below a checkpoint may be what is on its way out.
        let lowest = Int64(clamping: try CheckpointStore(db: db).anchor()?.generation ?? 0)
        try db.execute(
            sql: """
                INSERT INTO main.\(SyncTables.remote) (name, pusher, cursor, sequence, stalled)
                VALUES (?, ?, ?, (SELECT count(*) FROM main.\(SyncTables.commit) WHERE generation > ?), -1)
                """,
            arguments: [name, Data(try AuthorID.random().bytes), Data(RemoteCursor().encoded), lowest])
        try db.execute(
            sql: """
                INSERT INTO main.\(SyncTables.outbox) (remote, sequence, n)
                SELECT ?, row_number() OVER (ORDER BY n), n FROM main.\(SyncTables.commit) WHERE generation > ?
                """,
            arguments: [db.lastInsertedRowID, lowest])
    }

    /// Whether it has acknowledged nothing, and given nothing: its outbox still begins with the first entry.
    func isUnused(_ db: Database) throws -> Bool {
        guard cursor == RemoteCursor() else { return false }
        let pushed = try Bool.fetchOne(
            db,
            sql: """
                SELECT sequence > 0 AND NOT EXISTS (
                    SELECT 1 FROM main.\(SyncTables.outbox) AS o WHERE o.remote = r.n AND o.sequence = 1)
                FROM main.\(SyncTables.remote) AS r WHERE r.n = ?
                """, arguments: [n])
        return pushed == false
    }

    /// Removes all that the store keeps of the exchange with this remote, but not what it has got from there.
    func remove(_ db: Database) throws {
        for name in [SyncTables.outbox, SyncTables.quarantine] {
            try db.execute(sql: "DELETE FROM main.\(name) WHERE remote = ?", arguments: [n])
        }
        try StalledLogs(db: db).note([], at: n)
        try CheckpointStore(db: db).removeReplicas(at: n)
        try db.execute(sql: "DELETE FROM main.\(SyncTables.remote) WHERE n = ?", arguments: [n])
    }

    /// Gives this store another name at every remote, with a log that begins with what is to be pushed.
    static func beginNewLogs(_ db: Database) throws {
        for n in try Int64.fetchAll(db, sql: "SELECT n FROM main.\(SyncTables.remote)") { try beginNewLog(at: n, db) }
    }

    /// The same at one remote.
    static func beginNewLog(at n: Int64, _ db: Database) throws {
        let commits = try Int64.fetchAll(
            db, sql: "SELECT n FROM main.\(SyncTables.outbox) WHERE remote = ? ORDER BY sequence", arguments: [n])
        try db.execute(sql: "DELETE FROM main.\(SyncTables.outbox) WHERE remote = ?", arguments: [n])
        for (index, commit) in commits.enumerated() {
            try db.execute(
                sql: "INSERT INTO main.\(SyncTables.outbox) (remote, sequence, n) VALUES (?, ?, ?)",
                arguments: [n, index + 1, commit])
        }
        try db.execute(
            sql: "UPDATE main.\(SyncTables.remote) SET pusher = ?, sequence = ? WHERE n = ?",
            arguments: [Data(try AuthorID.random().bytes), commits.count, n])
    }

    /// Whether the log of this store at the remote has something else than this store has put there, or is about to put: it
    /// was restored from a backup, or copied.
    func isOvertaken(by entries: [RemoteEntry], _ db: Database) throws -> Bool {
        let log = try log(db)
        let statement = try db.cachedStatement(
            sql: """
                SELECT r.sequence, c.id FROM main.\(SyncTables.remote) AS r
                LEFT JOIN main.\(SyncTables.outbox) AS o ON o.remote = r.n AND o.sequence = ?2
                LEFT JOIN main.\(SyncTables.commit) AS c ON c.n = o.n WHERE r.n = ?1
                """)
        return try entries.contains { entry in
            guard entry.position.author == log else { return false }
            let sequence = Int64(clamping: entry.position.sequence)
            guard let row = try Row.fetchOne(statement, arguments: [n, sequence]) else { return false }
            if let id = try row.storedOrNil(1, as: Data.self) { return id != Data(entry.id.bytes) }
            return try row.stored(0, as: Int64.self) < sequence
        }
    }

    /// The log of this store at the remote.
    func log(_ db: Database) throws -> AuthorPseudonym {
        let key = try RepositoryState.key(db)
        return try pusher.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
    }

    func save(_ db: Database) throws {
        try db.execute(
            sql: "UPDATE main.\(SyncTables.remote) SET cursor = ?, stalled = ? WHERE n = ?",
            arguments: [Data(cursor.encoded), hasBeenRead ? stalled : -1, n])
    }

    /// How the reason begins for which an object of a checkpoint was refused. It is not asked for as a commit.
    static let ofCheckpoint = "checkpoint: "
    private static let isOfCheckpoint = "substr(reason, 1, \(ofCheckpoint.utf8.count)) = '\(ofCheckpoint)'"

    func forgetQuarantinedOfCheckpoints(_ db: Database) throws {
        try db.execute(
            sql: "DELETE FROM main.\(SyncTables.quarantine) WHERE remote = ? AND \(Self.isOfCheckpoint)", arguments: [n]
        )
    }

    /// Commits that were refused, as many as are asked for at once, in the order of their identifiers.
    ///
    /// - Parameter last: The object after which they begin; nil for the first ones.
    func quarantined(after last: ObjectID?, _ db: Database) throws -> [ObjectID] {
        try Data.fetchAll(
            db,
            sql: """
                SELECT id FROM main.\(SyncTables.quarantine)
                WHERE remote = ? AND id > ? AND NOT (\(Self.isOfCheckpoint)) ORDER BY id LIMIT ?
                """,
            arguments: [n, Data(last?.bytes ?? []), Limits.commitsAtOnce]
        ).compactMap { ObjectID(bytes: $0) }
    }
}

/// What is to be pushed to a remote.
struct Outbox {
    let db: Database
    let remote: RemoteState

    /// The first place of a batch.
    struct Place: Sendable {
        let remote: Int64
        /// Whose log it is in; another one after a reset.
        let pusher: AuthorID
        let first: Int64
    }

    /// One commit: its chunks, and last the object that is entered in the log.
    struct Item: Sendable {
        let remote: Place
        let id: CommitID
        let objects: [RemoteObject]
    }

    /// The next commits, as many as are put at once.
    func next() throws -> [Item] {
        let state = try RepositoryState(db)
        let key = try db.syncSession.key(state, db)
        let store = CommitStore(db: db)
        let pusher = try remote.pusher.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        let rows = try Row.fetchAll(
            db, sql: "SELECT sequence, n FROM main.\(SyncTables.outbox) WHERE remote = ? ORDER BY sequence LIMIT ?",
            arguments: [remote.n, Limits.commitsAtOnce])
        guard let first = rows.first else { return [] }
        let place = Place(remote: remote.n, pusher: remote.pusher, first: try first.stored(0))
        var (items, byteCount) = ([Item](), 0)
        for row in rows where byteCount < Limits.bytesAtOnce {
            let (sequence, n): (Int64, Int64) = (try row.stored(0), try row.stored(1))
            let node = try store.node(n)
            let author = try store.author(node.author)
            let pseudonym =
                author == .none
                ? AuthorPseudonym.nobody : try author.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
            let content = CommitContent(
                parents: try node.parents.map { try store.node($0).id }, author: pseudonym,
                generation: node.generation, canonical: try store.canonical(n))
            let envelopes = try key.seal(content)
            let objects = envelopes.enumerated().map { index, envelope in
                RemoteObject(
                    repository: state.repository, id: envelope.id,
                    position: index == envelopes.count - 1
                        ? LogPosition(author: pusher, sequence: UInt64(clamping: sequence)) : nil,
                    bytes: envelope.bytes)
            }
            items.append(Item(remote: place, id: node.id, objects: objects))
            byteCount += objects.reduce(0) { $0 + $1.bytes.count }
        }
        return items
    }

    /// How many commits of a batch the remote has, from the first one on.
    static func acknowledged(_ batch: [Item], _ results: [PutResult]) -> Int {
        var rest = results.prefix { if case .collision = $0 { false } else { true } }
        var count = 0
        for item in batch {
            guard rest.count >= item.objects.count else { break }
            rest = rest.dropFirst(item.objects.count)
            count += 1
        }
        return count
    }

    /// The object in whose place something else was.
    static func occupied(_ batch: [Item], _ results: [PutResult]) -> ObjectID? {
        let objects = batch.flatMap(\.objects)
        for (object, result) in zip(objects, results) where result == .collision(.object) { return object.id }
        return nil
    }

    /// The error of a batch in which something else was in the place of an object.
    static func collision(_ batch: [Item], _ results: [PutResult]) -> SyncError? {
        for result in results {
            guard case .collision(let collision) = result else { continue }
            let done = acknowledged(batch, results)
            return SyncError(
                .collision, commit: done < batch.count ? batch[done].id : nil,
                collision == .position ? "Another store pushes under the name of this one: call reset()." : nil)
        }
        return nil
    }
}
