import CipherDatabase
import Foundation
import StoreCrypto

/// What a store knows of its repository, beside the commits: the one row of `cipherstore_sync_state`.
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

    private static let selection = """
        SELECT s.repository, s.epoch, s.author, a.id, s.sequence, s.head, s.history, s.revision, s.schema, s.digests,
            s.leaves
        FROM main.\(SyncTables.state) AS s JOIN main.\(SyncTables.author) AS a ON a.n = s.author WHERE s.id = 1
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
    }

    private static let assignments = """
        UPDATE main.\(SyncTables.state)
        SET author = ?, sequence = ?, head = ?, history = ?, revision = ?, schema = ?, digests = ?
        """
    private static let update = assignments + " WHERE id = 1"
    private static let updateWithLeaves = assignments + ", leaves = ? WHERE id = 1"

    private var values: [ExactValue] {
        [
            .integer(authorNumber), .integer(Int64(clamping: sequence)), head.map { .integer($0) } ?? .null,
            .integer(history), .integer(revision), .blob(schema.bytes[...]), .blob(digests.encoded[...]),
        ]
    }

    func save(_ db: Database) throws { try db.cachedStatement(sql: Self.update).execute(exact: values) }

    /// The same with the leaves, which must be those of the store where they were not changed here.
    func saveWithLeaves(_ db: Database) throws {
        try db.cachedStatement(sql: Self.updateWithLeaves).execute(exact: values + [.blob(leaves.encoded[...])])
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
                (id, repository, epoch, secret, author, sequence, head, history, revision, schema, leaves, digests)
                VALUES (1, ?, ?, ?, ?, 0, NULL, 0, 0, ?, x'', x'')
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

    func tables(_ state: RepositoryState, _ db: Database) throws -> TrackedTables {
        let version = try db.comparedSchemaVersion()
        if let tracked, tracked.schemaVersion == version, tracked.revision == state.revision { return tracked.tables }
        let names = try String.fetchAll(db, sql: "SELECT name FROM main.\(SyncTables.table) ORDER BY name")
        let tables = try TrackedTables(names.map { try TrackedTable(named: $0, in: db) })
        tracked = (tables, version, state.revision)
        return tables
    }
}

extension Database {
    /// What this connection keeps of the repository.
    var syncSession: SyncSession {
        if let session = syncStorage as? SyncSession { return session }
        let session = SyncSession()
        syncStorage = session
        return session
    }
}
