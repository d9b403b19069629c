import CipherDatabase
import Foundation
import StoreCrypto

/// What a store knows of its repository, beside the commits: the one row of `cipherstore_sync_state`, and what own commits
/// have changed since it was saved.
struct RepositoryState: Sendable {
    let repository: RepositoryID
    let epoch: UInt32
    /// This replica.
    var author: AuthorID
    /// The number of its author in the store.
    var authorNumber: Int64
    /// The number of its last commit.
    var sequence: UInt64
    /// The number of the commit that the rows of the tracked tables are the state of; nil before the first one.
    var head: Int64?
    /// The number of the last change in the history when the repository was last in step with the tables.
    var history: Int64
    /// Counts the changes of what is tracked.
    var revision: Int64
    /// The schema as it was then.
    var schema: SchemaID
    /// The digests of the tracked tables at the head.
    var digests: [String: RowDigest]
    /// The commits that are no parent, as they were read. ``save(_:)`` leaves them as they are in the store.
    var leaves: GraphLeaves
    /// The tables whose digests are others than in the saved row.
    private var grown: Set<String> = []

    private static let selection = """
        SELECT s.repository, s.epoch, s.author, a.id, s.sequence, s.head, s.history, s.revision, s.schema, s.digests,
            s.leaves, l.n, l.sequence, l.state
        FROM main.\(SyncTables.state) AS s JOIN main.\(SyncTables.author) AS a ON a.n = s.author
        \(SyncTables.lastOwn()) WHERE s.id = 1
        """

    /// - Throws: ``SyncError`` `.notEnabled` where there is no repository.
    init(_ db: Database) throws {
        guard try db.tableExists(SyncTables.state, in: "main"),
            let row = try Row.fetchOne(db.cachedStatement(sql: Self.selection))
        else { throw SyncError(.notEnabled) }
        guard let repository = RepositoryID(bytes: try row.stored(0, as: Data.self)),
            let epoch = UInt32(exactly: try row.stored(1, as: Int64.self)),
            let author = AuthorID(bytes: try row.stored(3, as: Data.self)),
            let sequence = UInt64(exactly: try row.stored(4, as: Int64.self)),
            let schema = SchemaID(bytes: try row.stored(8, as: Data.self)),
            let digests = [String: RowDigest](encoded: Array(try row.stored(9, as: Data.self))),
            let leaves = GraphLeaves(encoded: Array(try row.stored(10, as: Data.self)))
        else { throw CommitStore.damaged("The state of the repository has no valid content.") }
        (self.digests, self.leaves) = (digests, leaves)
        (self.repository, self.epoch, self.author, self.sequence) = (repository, epoch, author, sequence)
        (authorNumber, head, self.schema) = (try row.stored(2), try row.storedOrNil(5), schema)
        (history, revision) = (try row.stored(6), try row.stored(7))
        if let last = try row.storedOrNil(11, as: Int64.self) {
            try grow(to: last, sequence: row.stored(12), Growth(encoded: Array(row.stored(13, as: Data.self))))
        }
    }

    // MARK: Own commits

    /// What an own commit leaves of the state, in its row.
    struct Growth: Equatable {
        let history: Int64
        /// The commits that are no parent, beside the commit itself.
        let leaves: GraphLeaves
        /// The digests that are others than in the saved row.
        let digests: [String: RowDigest]

        init(history: Int64, leaves: GraphLeaves, digests: [String: RowDigest]) {
            (self.history, self.leaves, self.digests) = (history, leaves, digests)
        }

        /// The history's number as 64 bits, the number of leaves as 32 bits, the leaves, the digests.
        var encoded: [UInt8] {
            var bytes: [UInt8] = []
            bytes.append(bigEndian: history)
            bytes.append(bigEndian: UInt32(clamping: leaves.numbers.count))
            return bytes + leaves.encoded + digests.encoded
        }

        /// - Throws: ``SyncError`` `.damagedRepository`
        init(encoded bytes: [UInt8]) throws {
            var reader = ByteReader(bytes[...])
            guard let history = reader.integer(as: Int64.self), let count = reader.integer(as: UInt32.self),
                let leaves = reader.take(8 * Int(count)).flatMap({ GraphLeaves(encoded: Array($0)) }),
                let digests = [String: RowDigest](encoded: Array(reader.bytes[reader.index...]))
            else { throw CommitStore.damaged("The state after a commit has no valid content.") }
            self.init(history: history, leaves: leaves, digests: digests)
        }
    }

    private mutating func grow(to last: Int64, sequence: Int64, _ growth: Growth) throws {
        guard let sequence = UInt64(exactly: sequence) else {
            throw CommitStore.damaged("The number of a commit is not valid.")
        }
        (self.sequence, head, history, leaves) = (sequence, last, growth.history, growth.leaves)
        leaves.replace([], by: last)
        digests.merge(growth.digests) { $1 }
        grown = Set(growth.digests.keys)
    }

    /// Notes an own commit that is about to be inserted.
    ///
    /// - Returns: What its row keeps; nil where that would be long, so that the state must be saved.
    mutating func advance(
        parents: [Int64], history: Int64, digests changed: [String: RowDigest]
    ) -> Growth? {
        sequence += 1
        self.history = history
        leaves.remove(parents)
        digests.merge(changed) { $1 }
        grown.formUnion(changed.keys)
        guard leaves.numbers.count <= Limits.leavesOfCommit, grown.count <= Limits.digestsOfCommit else { return nil }
        return Growth(history: history, leaves: leaves, digests: digests.filter { grown.contains($0.key) })
    }

    // MARK: Saving

    private static let update = """
        UPDATE main.\(SyncTables.state)
        SET author = ?, sequence = ?, head = ?, history = ?, revision = ?, schema = ?, digests = ?, leaves = ?,
            upto = (SELECT ifnull(max(n), 0) FROM main.\(SyncTables.commit))
        WHERE id = 1
        """

    /// Saves all but the leaves, which stay as they are in the store.
    func save(_ db: Database) throws { try save(db, leaves: CommitStore(db: db).graphLeaves()) }

    /// - Parameter leaves: The commits that are no parent.
    func save(_ db: Database, leaves: GraphLeaves) throws {
        try db.cachedStatement(sql: Self.update).execute(exact: [
            .integer(authorNumber), .integer(Int64(clamping: sequence)), head.map { .integer($0) } ?? .null,
            .integer(history), .integer(revision), .blob(schema.bytes[...]), .blob(digests.encoded[...]),
            .blob(leaves.encoded[...]),
        ])
    }

    /// The same replica under another name, with no commits of its own yet.
    func withNewAuthor(_ db: Database) throws -> RepositoryState {
        var state = self
        state.author = try AuthorID.random()
        state.authorNumber = try CommitStore(db: db).number(of: state.author)
        state.sequence = 0
        return state
    }

    /// Makes the row of a store that joins a repository.
    static func create(_ db: Database, key: RepositoryKey, schema: SchemaID) throws {
        let author = try CommitStore(db: db).number(of: AuthorID.random())
        let secret = key.secret.withBytes { Data($0) }
        try db.execute(
            sql: """
                INSERT INTO main.\(SyncTables.state)
                (id, repository, epoch, secret, author, sequence, head, history, revision, schema, leaves, digests, upto)
                VALUES (1, ?, ?, ?, ?, 0, NULL, 0, 0, ?, x'', x'', 0)
                """,
            arguments: [Data(key.repository.bytes), Int64(key.epoch), secret, author, Data(schema.bytes)])
    }

    /// Says that tables are tracked from now on. As far as commits know they have no rows.
    static func addTables(_ names: [String], _ db: Database) throws {
        var state = try RepositoryState(db)
        for name in names { state.digests[name] = RowDigest() }
        state.revision += 1
        try state.save(db)
    }

    /// The key of the repository, from the encrypted store.
    static func key(_ db: Database) throws -> RepositoryKey {
        let row = try Row.fetchOne(
            db, sql: "SELECT repository, epoch, secret FROM main.\(SyncTables.state) WHERE id = 1")
        guard let row else { throw SyncError(.notEnabled) }
        guard let repository = RepositoryID(bytes: try row.stored(0, as: Data.self)),
            let epoch = UInt32(exactly: try row.stored(1, as: Int64.self))
        else {
            throw CommitStore.damaged("The key of the repository has no valid content.")
        }
        return try RepositoryKey(
            repository: repository, epoch: epoch, secret: SecretBytes(copying: Array(try row.stored(2, as: Data.self))))
    }
}

/// What a connection keeps of the repository between its transactions.
final class SyncSession {
    let capture = Capture()
    /// The triggers of the capture, as they were made.
    var installed: CaptureInstallation?
    /// Whether the connection has the function that they call.
    var hasFunction = false
    private var key: RepositoryKey?
    private var tracked: (tables: TrackedTables, schemaVersion: Int32, revision: Int64)?

    func key(_ state: RepositoryState, _ db: Database) throws -> RepositoryKey {
        if let key, key.repository == state.repository, key.epoch == state.epoch { return key }
        let fresh = try RepositoryState.key(db)
        key = fresh
        return fresh
    }

    /// For a transaction that was rolled back, and with it what the tables are known by.
    func forgetTables() { tracked = nil }

    func tables(_ state: RepositoryState, _ db: Database) throws -> TrackedTables {
        let version = try db.comparedSchemaVersion()
        if let tracked, tracked.schemaVersion == version, tracked.revision == state.revision { return tracked.tables }
        let tables = try TrackedTables(names(db).map { try TrackedTable(named: $0, in: db, isTracked: true) })
        tracked = (tables, version, state.revision)
        return tables
    }

    private func names(_ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM main.\(SyncTables.table) ORDER BY name")
    }

    /// The tracked tables that are there, and the names of those that are gone.
    func presentTables(_ state: RepositoryState, _ db: Database) throws -> (TrackedTables, missing: [String]) {
        do {
            return (try tables(state, db), [])
        } catch let error as SyncError where error.code == .tableMissing {
            var (present, missing) = ([TrackedTable](), [String]())
            for name in try names(db) {
                do {
                    present.append(try TrackedTable(named: name, in: db, isTracked: true))
                } catch let error as SyncError where error.code == .tableMissing {
                    missing.append(name)
                }
            }
            return (try TrackedTables(present), missing)
        }
    }
}

extension SyncSession: ConnectionFeature {
    static let key = FeatureKey<SyncSession>(.sync)

    func willChangeSchema(_ statement: Statement, on db: Database) throws {
        guard db.acceptsWrites, let (name, dropsColumn) = statement.alteredTable else { return }
        try CaptureInstallation.makeWay(db, self, forAltering: name, dropsColumn: dropsColumn)
    }

    /// Drops the triggers of the capture, where a statement does not compile because of them: another connection has
    /// dropped or renamed a column that they name. They are made again when they are needed.
    func didNotCompile(because message: String, on db: Database) -> Bool {
        // They must stay while they capture.
        guard hasFunction, !capture.isActive, message.hasPrefix("no such column") else { return false }
        let names = db.runWithoutAccess(
            "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB '\(CaptureTriggers.prefix)*'")
        for name in names { _ = db.runWithoutAccess("DROP TRIGGER temp.\(name.quotedDatabaseIdentifier)") }
        db.forgetSchema()
        installed = nil
        return !names.isEmpty
    }

    func willClose(_ db: Database) { db.features[Self.key] = nil }
}

extension Database {
    /// What this connection keeps of the repository.
    var syncSession: SyncSession {
        if let session = features[SyncSession.key] { return session }
        let session = SyncSession()
        features.add(session, for: SyncSession.key, at: [.willChangeSchema, .didNotCompile, .close])
        return session
    }
}
