import CipherDatabase
import Foundation

/// The repository inside one write transaction.
struct RepositoryTransaction {
    let db: Database
    let session: SyncSession
    let tables: TrackedTables
    /// Tracked tables that are gone; none but where the transaction only looks.
    let missingTables: [String]
    let key: RepositoryKey
    let store: CommitStore
    private(set) var state: RepositoryState
    /// Whether foreign keys act on what the program writes, where they are suspended for what is applied.
    var enforcesForeignKeys = false
    /// The digests of the tables that have changed in this transaction.
    private var digests: [String: RowDigest] = [:]

    /// - Parameter isLooking: Whether it works without tables that are gone, to report what there is.
    /// - Throws: ``SyncError`` `.notEnabled`, and where the tables cannot be tracked any more.
    init(_ db: Database, isLooking: Bool = false) throws {
        self.db = db
        store = CommitStore(db: db)
        session = db.syncSession
        state = try RepositoryState(db)
        (tables, missingTables) =
            try isLooking ? session.presentTables(state, db) : (session.tables(state, db), [])
        key = try session.key(state, db)
    }

    /// The commit that the rows are the state of; nil before the first one.
    func head() throws -> CommitNode? { try state.head.map(store.node) }

    var hasOtherSchema: Bool { state.schema != tables.schema }

    // MARK: Writes outside of commits

    /// Throws when rows of tracked tables were written outside of commits, and takes up a change of the schema.
    ///
    /// A table that somebody has written is compared with its digest: what was written and undone is no difference.
    mutating func requireOwnWritesOnly() throws {
        let foreign = try foreignTables()
        guard foreign.isEmpty else {
            throw SyncError(.foreignWrites, table: foreign[0], foreign.count > 1 ? "So were others." : nil)
        }
        guard hasOtherSchema else { return }
        let present = try tables.all.map { table in
            let digest = try digestOfRows(table)
            // They would be taken for rows of the head.
            if try hasUnseenWrites(table, digest) { throw SyncError(.foreignWrites, table: table.name) }
            return (table.name, digest)
        }
        digests.merge(present) { $1 }
    }

    /// Whether a table has rows of which nothing was recorded, as after an incremental write of a blob.
    ///
    /// - Parameter present: The digest of the rows as they are.
    private func hasUnseenWrites(_ table: TrackedTable, _ present: RowDigest) throws -> Bool {
        if try present == digest(of: table.name) { return false }
        return try !hasOtherSchema || ForeignWrites(self).differsFromHead(table)
    }

    /// Whether rows of tracked tables were perhaps written outside of commits, without reading them.
    func mayHaveForeignWrites() throws -> Bool {
        try !restartHistory().isEmpty || db.lastHistoryNumber() != state.history
    }

    /// The tracked tables that were written outside of commits.
    mutating func foreignTables() throws -> [String] {
        let restarted = try restartHistory()
        // The last change of the history is the one up to which the repository is in step.
        if try restarted.isEmpty && state.history > 0 && db.lastHistoryNumber() == state.history { return [] }
        let found = try db.tablesInHistory(after: state.history)
        if restarted.isEmpty && found?.changed.isEmpty == true && found?.uncertain.isEmpty == true { return [] }
        let foreign = try tables.all.filter { table in
            let name = table.name.lowercasedASCII
            if hasOtherSchema, found?.changed.contains(name) ?? true { return true }
            let isSuspect = found.map { $0.changed.union($0.uncertain).contains(name) } ?? true
            return try (isSuspect || restarted.contains(name)) && differsFromHead(table)
        }
        if foreign.isEmpty {
            state.history = try db.lastHistoryNumber()
            try state.save(db)
        }
        return foreign.map(\.name)
    }

    /// Whether the rows of a table are others than at the head, whose columns may have been others.
    func differsFromHead(_ table: TrackedTable) throws -> Bool {
        if hasOtherSchema { return try ForeignWrites(self).differsFromHead(table) }
        return try digestOfRows(table) != digest(of: table.name)
    }

    /// The tracked tables that somebody has written outside of commits, whether rows differ or not. Where it was not
    /// recorded what was written, as in a table that was dropped and created again, those whose rows differ.
    func writtenTables() throws -> [String] {
        guard let found = try db.tablesInHistory(after: state.history), let recorded = try db.recordedTables() else {
            return tables.all.map(\.name)
        }
        return try tables.all.filter { table in
            let name = table.name.lowercasedASCII
            if found.changed.contains(name) { return true }
            return try (found.uncertain.contains(name) || !recorded.contains(name)) && differsFromHead(table)
        }.map(\.name)
    }

    /// Records the history of tracked tables again, where the program has ended it. Where tables have been altered, its
    /// triggers follow: another program may have done that.
    ///
    /// - Returns: These tables, in lower case: what was written to them in between is not recorded.
    private func restartHistory() throws -> Set<String> {
        if hasOtherSchema { try db.updateHistory() }
        return try Set(db.startHistoryOfCommits(of: tables.all.map(\.name)).map(\.lowercasedASCII))
    }

    /// The error where a commit does not fit the tables: this store has removed a column if one of its own latest commits
    /// does not fit either.
    func whichSchemaIsNewer(_ error: SyncError) throws -> SyncError {
        guard let head = state.head, let name = error.table, let table = tables[name] else { return error }
        let nodes = try CommitGraph(store).ancestors(of: head, notBelow: 0).map(store.node)
            .sorted { CommitNode.precedes($1, $0) }
        for node in nodes.prefix(Limits.comparedCommits) {
            let own = try Delta(store.delta(node.n).tables.filter { DeltaTable.areSame($0.table.name, table.name) })
            if tables.obstacle(to: own) != nil {
                return SyncError(.columnRemoved, table: error.table, commit: error.commit, error.detail)
            }
        }
        return error
    }

    // MARK: Digests

    /// The digest of a table at the head, with what has changed since in this transaction.
    func digest(of name: String) throws -> RowDigest {
        guard let digest = digests[name] ?? state.digests[name] else {
            throw CommitStore.damaged("A digest is missing.")
        }
        return digest
    }

    /// The digest of the rows as they are.
    func digestOfRows(_ table: TrackedTable) throws -> RowDigest {
        var digest = RowDigest()
        let statement = try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)")
        try statement.forEachRecord { try digest.add($0, key) }
        return digest
    }

    mutating func noteChange(of table: TrackedTable, from old: DeltaRecord?, to new: DeltaRecord?) throws {
        var digest = try digest(of: table.name)
        if let old { try digest.remove(old, key) }
        if let new { try digest.add(new, key) }
        digests[table.name] = digest
    }

    /// - Parameter growth: The digest of the rows that are new, less that of the rows that are gone.
    mutating func noteChange(of table: TrackedTable, by growth: RowDigest) throws {
        var digest = try digest(of: table.name)
        digest.add(growth)
        digests[table.name] = digest
    }

    /// Compares the digests of tables with those that are expected.
    ///
    /// - Throws: ``SyncError`` `.digestMismatch`
    func requireDigests(_ expected: [String: RowDigest]) throws {
        for (name, wanted) in expected where try digest(of: name) != wanted {
            throw SyncError(.digestMismatch, table: name)
        }
    }

    private func tableDigests() throws -> [TableDigest] {
        try digests.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map { name, digest in
            guard let entry = TableDigest(table: name, bytes: digest.bytes) else {
                throw CommitStore.damaged("A digest has another length.")
            }
            return entry
        }
    }

    // MARK: Commits

    /// Makes an ordinary commit of changes that the rows have, and moves the head to it.
    ///
    /// - Parameter always: Whether to make it where nothing has changed, to say with which schema or digests the store goes
    ///   on.
    /// - Returns: Nil where nothing has changed.
    mutating func record(_ delta: Delta, meta: String, always: Bool = false) throws -> CommitNode? {
        if delta.isEmpty && !hasOtherSchema && !always {
            let number = try db.lastHistoryNumber()
            if number != state.history {
                state.history = number
                try state.save(db)
            }
            return nil
        }
        // A commit beside the checkpoint could not be merged with it.
        if try state.head == nil && CheckpointStore(db: db).unfinished() != nil { throw SyncError(.checkpointPending) }
        guard meta.utf8.count <= Limits.commitMetaBytes else {
            throw SyncError(.payloadTooLarge, "A description may have \(Limits.commitMetaBytes) bytes.")
        }
        let body = delta.encoded()
        guard body.count <= Limits.deltaBytes else {
            throw SyncError(.payloadTooLarge, "The changes of a commit may take \(Limits.deltaBytes) bytes.")
        }
        let parents = try head().map { [$0] } ?? []
        let now = try Int64(clamping: db.transactionDate.timeIntervalSince1970 * 1000)
        let commit = Commit(
            kind: .ordinary, parents: parents.map(\.id), generation: (parents.first?.generation ?? 0) + 1,
            author: state.author, authorSequence: state.sequence + 1,
            time: try HybridTime(wallClock: now, after: parents.map(\.time)), schema: tables.schema,
            meta: meta, digests: try tableDigests(), deltas: [body[...]])
        let node = try insertOwn(commit, parents: parents.map(\.n))
        digests = [:]
        return node
    }

    /// Inserts an ordinary commit of the rows as they are, and moves the head to it.
    private mutating func insertOwn(_ commit: Commit, parents: [Int64]) throws -> CommitNode {
        let canonical = try commit.encoded()
        var growth = state.advance(parents: parents, history: try db.lastHistoryNumber(), digests: digests)
        if hasOtherSchema { growth = nil }
        state.schema = tables.schema
        // No other commit has this author and this number: nothing is looked for.
        let node = try store.insertNew(
            commit, id: canonical.withUnsafeBytes { try key.commitID(of: $0) }, canonical: canonical, parents: parents,
            author: state.authorNumber, growth)
        try enqueue(node.n)
        state.head = node.n
        state.leaves.replace([], by: node.n)
        if growth == nil { try state.save(db, leaves: state.leaves) }
        return node
    }

    /// Makes a commit of what was written outside of commits.
    mutating func recordForeignWrites(meta: String) throws -> CommitNode? {
        var names = try Set(foreignTables())
        if names.isEmpty || hasOtherSchema {
            for table in tables.all where !names.contains(table.name) {
                if try hasUnseenWrites(table, digestOfRows(table)) { names.insert(table.name) }
            }
        }
        var deltas: [TableDelta] = []
        for table in tables.all {
            digests[table.name] = hasOtherSchema || names.contains(table.name) ? try digestOfRows(table) : nil
            guard names.contains(table.name) else { continue }
            deltas.append(try table.changes(from: ForeignWrites(self).rowsAtHead(of: table), in: db))
        }
        // Where no row differs, the digest does: rows have another default of a column than at the last commit.
        return try record(Delta(deltas), meta: meta, always: !names.isEmpty)
    }

    /// Inserts a commit that this store has made, to be pushed to every remote.
    @discardableResult
    func add(_ commit: Commit) throws -> CommitNode {
        let canonical = try commit.encoded()
        let id = try canonical.withUnsafeBytes { try key.commitID(of: $0) }
        if let known = try store.node(id) { return known }
        guard let node = try store.insert(commit, id: id, canonical: canonical) else {
            throw CommitStore.damaged("A commit was inserted twice.")
        }
        try enqueue(node.n)
        return node
    }

    /// Takes up what the tables have now, before a commit of rows that were not tracked so far.
    mutating func noteDigests(of tables: [TrackedTable]) throws {
        for table in tables { digests[table.name] = try digestOfRows(table) }
    }

    /// Says that the tables have the schema that they have, without a commit: no row has been committed with it.
    mutating func takeUpSchema() throws {
        state.schema = tables.schema
        state.digests.merge(digests) { $1 }
        state.history = try db.lastHistoryNumber()
        try state.save(db)
    }

    /// Removes all rows of the tracked tables; whoever follows the history reads the tables again.
    func removeRows() throws {
        for table in tables.all { try db.execute(sql: "DELETE FROM \(table.qualifiedName)") }
        try db.resetHistory(of: tables.all.map(\.name))
    }

    /// Goes back before the first commit. What another author commits cannot be taken for what this one had committed.
    mutating func beginAsNewAuthor() throws {
        state = try state.withNewAuthor(db)
        state.schema = tables.schema
        digests = state.digests.mapValues { _ in RowDigest() }
        try moveHead(to: nil)
    }

    /// Says that there are no rows and no commits, as before the rows of a checkpoint come.
    mutating func beginWithoutRows(isRenamed: Bool) throws {
        if isRenamed { state = try state.withNewAuthor(db) }
        digests = state.digests.mapValues { _ in RowDigest() }
        try moveHead(to: nil)
    }

    /// Puts the work of this store onto another commit, to be recorded there: the rows are those that the commit shall
    /// have.
    ///
    /// - Parameters:
    ///   - names: The tables that differ from that commit.
    ///   - isRenamed: Whether the store goes on under another name.
    mutating func rebase(onto node: CommitNode, changing names: [String], isRenamed: Bool) throws {
        if isRenamed { state = try state.withNewAuthor(db) }
        state.head = node.n
        // The commits that it knows are gone.
        state.leaves = try store.graphLeaves()
        try state.save(db, leaves: state.leaves)
        for name in names { digests[name] = try digest(of: name) }
    }

    private static let insertionIntoOutbox = """
        INSERT INTO main.\(SyncTables.outbox) (remote, sequence, n)
        SELECT n, sequence + 1, ? FROM main.\(SyncTables.remote)
        """

    private func enqueue(_ n: Int64) throws {
        try db.cachedStatement(sql: Self.insertionIntoOutbox).execute(arguments: [n])
        if db.changesCount > 0 { try db.execute(sql: "UPDATE main.\(SyncTables.remote) SET sequence = sequence + 1") }
    }

    /// Says that the rows are now the state of a commit.
    ///
    /// - Parameter passesHistory: Whether all changes that the history has are in commits.
    mutating func moveHead(to node: CommitNode?, passingHistory passesHistory: Bool = true) throws {
        state.digests.merge(digests) { $1 }
        state.head = node?.n
        if passesHistory { state.history = try db.lastHistoryNumber() }
        try state.save(db)
        digests = [:]
    }
}

extension Int64 {
    fileprivate init(clamping number: Double) {
        self = number.isNaN ? 0 : Int64(exactly: Swift.max(-9e15, Swift.min(9e15, number)).rounded(.down)) ?? 0
    }
}
