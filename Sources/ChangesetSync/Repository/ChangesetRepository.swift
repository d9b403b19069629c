import CipherDatabase
import Foundation
import StoreCrypto

/// The repository of a store: commits with the exact changes of their rows, in a history that branches and merges, for
/// exchange with other devices.
///
/// ```swift
/// let repository = ChangesetRepository(store)
/// try repository.migrate()
/// try repository.enable(["player"])
/// let player = try repository.commit { db in try Player(name: "Ann").inserted(db) }
/// ```
///
/// The rows of the tracked tables are the state of one commit, the head. ``commit(meta:_:)`` makes a new one; ``pull()``
/// moves the rows to the one that others have built on. Any process that has the store open may do so.
public final class ChangesetRepository: Sendable {
    let writer: any DatabaseWriter
    /// What merges choose. Its closures are called inside a write transaction, so they must not access the store
    /// but by what they are given.
    public let mergePolicy: MergePolicy

    /// Follows what pulls change: the connection, and the changes of the tracked tables, each row once.
    public typealias AfterApply = @Sendable (Database, [SyncRowChange]) throws -> Void
    private let afterApply: AfterApply?

    /// - Parameters:
    ///   - dbWriter: A shared store, a pool or a queue.
    ///   - mergePolicy: What merges choose; every device should have the same.
    ///   - afterApply: Called in each transaction of a pull that changes rows, after them: for tables that are derived
    ///     from the tracked ones, as a full-text index. A long pull has several transactions, each of which ends at a
    ///     commit. Triggers and foreign keys act on what it writes. An error undoes the transaction, and ``pull()``
    ///     throws it. It must not write tracked tables (`.trackedTableWritten`): every device would make a commit of its
    ///     own of the same pull, and pull those of the others, without end.
    public init(
        _ dbWriter: any DatabaseWriter, mergePolicy: MergePolicy = MergePolicy(), afterApply: AfterApply? = nil
    ) {
        (writer, self.mergePolicy, self.afterApply) = (dbWriter, mergePolicy, afterApply)
    }

    /// Reads the rows, and the records ``Changeset`` and ``Head``.
    public var reader: any DatabaseReader { writer }

    /// The name of the repository, by which remotes keep it. It is no secret.
    ///
    /// - Throws: ``SyncError`` `.notEnabled`
    public var id: RepositoryID {
        get throws { try writer.unsafeReentrantRead { try RepositoryState($0).repository } }
    }

    // MARK: Setting up

    /// Makes the tables of the repository, where there are none, and brings those of an earlier version up to date: call it
    /// at each start. They are the library's own: lists and comparisons of schemas leave them out.
    public func migrate() throws {
        try writer.unsafeReentrantWrite { db in
            try Self.inTransaction(db) {
                try SyncTables.create(db)
                let names = try String.fetchAll(db, sql: "SELECT name FROM main.\(SyncTables.table)")
                try db.letCommitsWriteHistory(of: names)
            }
        }
    }

    // MARK: Commits

    /// Writes in a transaction, and makes the changes of the tracked tables a commit.
    ///
    /// Where nothing has changed there is no commit. A commit inside another one is a part of it, with the description of
    /// the outer one; an error undoes the inner one alone.
    ///
    /// - Parameters:
    ///   - meta: What the program says of the commit, as JSON by convention.
    ///   - updates: Writes; it must not change the definitions of tracked tables.
    /// - Throws: The error of `updates`; ``SyncError`` `.foreignWrites`, `.nullKey`, `.inexactText`,
    ///   `.schemaChangedInCommit`, `.transactionEndedInCommit`, `.captureDisabled`, `.insideTransaction`; `DatabaseError`. Nothing is changed then.
    public func commit<T>(meta: String = "{}", _ updates: (Database) throws -> T) throws -> T {
        try writer.unsafeReentrantWrite { db in
            if db.syncSession.capture.isActive { return try Self.inSavepoint(db, updates) }
            return try Self.inTransaction(db) {
                var transaction = try RepositoryTransaction(db)
                try transaction.requireOwnWritesOnly()
                let (session, tables) = (transaction.session, transaction.tables)
                try CaptureInstallation.ensure(db, session, tables, revision: transaction.state.revision)
                session.capture.begin(tables)
                defer { session.capture.end() }
                let paused = try db.pauseHistory { tables[$0] != nil }
                defer { db.resumeHistory() }
                let result = try Self.withoutEnd { try db.runningProgram { try updates(db) } }
                guard db.isInsideTransaction else { throw SyncError(.transactionEndedInCommit) }
                try Self.requireSameSchema(db, transaction)
                let delta = try session.capture.delta(db, transaction.key) { table, growth in
                    try transaction.noteChange(of: table, by: growth)
                }
                try Self.recordHistory(delta, of: paused, transaction)
                _ = try transaction.record(delta, meta: meta)
                return result
            }
        }
    }

    /// Writes the history of the tables whose triggers have paused.
    private static func recordHistory(
        _ delta: Delta, of paused: [String: Int64], _ transaction: RepositoryTransaction
    ) throws {
        for entry in delta.tables {
            guard let recording = paused[entry.table.name.lowercasedASCII],
                let table = transaction.tables[entry.table.name],
                let history = try RowHistory(of: table, in: transaction.db)
            else { continue }
            if history.recording == recording {
                for change in entry.changes { try history.record(change) }
            } else {
                // It began inside the commit, and its triggers may have recorded some of the changes.
                try transaction.db.resetHistory(of: [table.name])
            }
        }
    }

    /// Runs the block of a commit, which cannot commit the transaction itself: what it has written would be in no commit.
    private static func withoutEnd<T>(_ updates: () throws -> T) throws -> T {
        do {
            return try updates()
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_COMMITHOOK {
            throw SyncError(.transactionEndedInCommit)
        }
    }

    private static func requireSameSchema(_ db: Database, _ transaction: RepositoryTransaction) throws {
        if try CaptureInstallation.isIntact(db, transaction.session) { return }
        try CaptureInstallation.requireFiring(db, transaction.session)
        try CaptureInstallation.requireTriggers(db, transaction.tables)
        let names = transaction.tables.all.map(\.name)
        let now = try? TrackedTables(names.map { try TrackedTable(named: $0, in: db) })
        guard let now, now.schema == transaction.tables.schema else { throw SyncError(.schemaChangedInCommit) }
    }

    /// Makes a commit of what was written to tracked tables outside of commits, as by a migration or a program without
    /// this library. It compares the written tables with the state of the head, row by row; where none is known to be
    /// written, all of them, by their digests: what SQLite reports to no trigger, as an incremental write of a blob, is
    /// found here alone.
    ///
    /// - Returns: The commit; nil where nothing differs.
    /// - Throws: ``SyncError`` `.nullKey`, `.inexactText`, `.damagedCommit`, `.insideTransaction`; `DatabaseError`.
    @discardableResult
    public func commitForeignWrites(meta: String = "{}") throws -> Changeset? {
        try writer.unsafeReentrantWrite { db in
            try Self.inTransaction(db) {
                var transaction = try RepositoryTransaction(db)
                for table in transaction.tables.all {
                    try table.requireKeys(in: db)
                    try ConvertibleTexts.requireAll(of: table, in: db)
                }
                guard let node = try transaction.recordForeignWrites(meta: meta) else { return nil }
                return try Self.changeset(node, db)
            }
        }
    }

    /// Makes a commit that undoes another one, and changes the rows accordingly.
    ///
    /// - Parameter parent: Of a merge, the parent that stays: what the other side has brought is undone. Nil for other
    ///   commits.
    /// - Throws: ``SyncError`` `.unknownCommit`, also where `parent` is none; `.isMerge` for a merge without `parent`;
    ///   `.notPulled` where the rows do not have it yet; `.changedLater` where a row of it was changed later, is referred to,
    ///   or has a unique value that was taken since; `.schemaAhead`, `.columnRemoved`. Nothing is changed then.
    @discardableResult
    public func revert(_ id: CommitID, keeping parent: CommitID? = nil, meta: String = "{}") throws -> Changeset? {
        try applying { transaction in
            let node = try transaction.store.requireNode(id)
            guard node.kind != .checkpoint else {
                throw SyncError(.unknownCommit, commit: id, "A checkpoint stands for it and what was before it.")
            }
            let graph = CommitGraph(transaction.store)
            let isUnderHead = try transaction.state.head.map { try $0 == node.n || graph.isAncestor(node.n, of: $0) }
            guard isUnderHead == true else {
                throw SyncError(.notPulled, commit: id)
            }
            let side = try Self.side(of: node, keeping: parent, transaction.store)
            // With the columns of now, which the digests of the commit are about.
            let delta = try transaction.tables.fitting(transaction.store.delta(node.n, fromParent: side)).inverted
            do {
                try Pull.applyDelta(delta, in: &transaction)
            } catch let error as SyncError {
                // The rows are those of the head, in which the commit is.
                throw Self.standsAgainst(error).map { SyncError(.changedLater, table: error.table, commit: id, $0) }
                    ?? error
            }
            guard let node = try transaction.record(delta, meta: meta) else { return nil }
            return try Self.changeset(node, transaction.db)
        }
    }

    /// Which parent of a commit stays when it is undone.
    private static func side(of node: CommitNode, keeping parent: CommitID?, _ store: CommitStore) throws -> Int {
        guard let parent else {
            if node.kind == .merge { throw SyncError(.isMerge, commit: node.id) }
            return 0
        }
        guard let side = try node.parents.firstIndex(where: { try store.node($0).id == parent }) else {
            throw SyncError(.unknownCommit, commit: parent, "It is no parent of the commit.")
        }
        return side
    }

    /// What prevents that a commit is undone, as a sentence; nil for another error.
    private static func standsAgainst(_ error: SyncError) -> String? {
        switch error.code {
        case .workingStateDiverged: "A row that it has changed was changed again."
        case .foreignKeyViolation: "Without it a row would refer to one that does not exist."
        default: error.isTakenValue ? "A unique value that would come back belongs to another row now." : nil
        }
    }

    // MARK: Pulling

    /// Moves the rows to the one leaf of the graph that has all work of the head.
    ///
    /// It never fetches. A long way is gone in several transactions, each of which ends at a commit, so that other
    /// writers wait a short time only. Observers are notified as for any other write; the triggers of the database do
    /// not fire, as what they did is in the commits.
    ///
    /// - Returns: The new head; nil where it is the same as before, as where the head is a leaf beside others: only
    ///   ``mergeAll()`` unites them.
    /// - Throws: ``SyncError`` `.needsMerge`, `.schemaAhead`, `.columnRemoved`, `.workingStateDiverged`,
    ///   `.digestMismatch`, `.foreignKeyViolation`, `.constraintViolation` where a table of this store has another
    ///   constraint or type, `.foreignWrites`, `.damagedCommit`, `.insideTransaction`, `.tableMissing` where a tracked
    ///   table is gone, `.trackedTableWritten`; what the block after a pull throws; `DatabaseError`. The transaction in which
    ///   it is thrown changes nothing.
    @discardableResult
    public func pull() throws -> Changeset? {
        try notingObstacle {
            var last = try pullCheckpoint()
            var progress = PullProgress()
            while true {
                progress.way = try progress.way ?? findWay()
                guard progress.way != nil else { return last }
                do {
                    guard let step = try applying({ try pullSlice(&$0, &progress) }) else { return last }
                    last = step
                } catch is PullProgress.Repetition {}
            }
        }
    }

    /// One transaction's part of a pull.
    ///
    /// - Parameter progress: With the way, which is found again where it does not hold any more.
    /// - Throws: `PullProgress.Repetition` where the rows are refused before the end of the way.
    func pullSlice(
        _ transaction: inout RepositoryTransaction, _ progress: inout PullProgress
    ) throws -> Changeset? {
        let known = try progress.way.flatMap { try $0.goesOn(in: transaction) ? $0 : nil }
        progress.way = nil
        guard var pull = try known ?? Pull(transaction) else { return nil }
        do {
            let slice = try pull.applyNext(in: &transaction, length: progress.length)
            try PullObstacle(db: transaction.db).remove()
            try follow(slice.delta, transaction)
            progress = PullProgress(way: pull.isAtEnd ? nil : pull)
            return try Self.changeset(slice.end, transaction.db)
        } catch let error as SyncError
            where [.foreignKeyViolation, .constraintViolation, .digestMismatch].contains(error.code)
            && pull.canGoFurther
        {
            progress.length *= 2
            throw PullProgress.Repetition()
        }
    }

    /// Runs the block of the program after rows were moved. What it writes to tracked tables is captured, and refused.
    func follow(_ delta: Delta, _ transaction: RepositoryTransaction) throws {
        guard let afterApply, !delta.isEmpty else { return }
        let (db, session, tables) = (transaction.db, transaction.session, transaction.tables)
        try CaptureInstallation.ensure(db, session, tables, revision: transaction.state.revision)
        session.capture.begin(tables)
        defer { session.capture.end() }
        try db.withForeignKeysAndTriggersResumed(foreignKeys: transaction.enforcesForeignKeys) {
            try db.runningProgram { try afterApply(db, Self.changes(delta)) }
        }
        try Self.requireSameSchema(db, transaction)
        let written = try session.capture.delta(db, transaction.key) { _, _ in }
        if let table = written.tables.first?.table.name { throw SyncError(.trackedTableWritten, table: table) }
    }

    /// The way of a pull, found without the write lock: a long one takes long to find.
    private func findWay() throws -> Pull? {
        try writer.unsafeReentrantRead { db in try db.isolated { try Pull(RepositoryTransaction(db)) } }
    }

    // MARK: Looking

    /// The commits under the head, itself first, each before its ancestors.
    ///
    /// - Parameter limit: The most commits.
    public func log(limit: Int = 100) throws -> [Changeset] {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let graph = CommitGraph(CommitStore(db: db))
                guard let head = try RepositoryState(db).head else { return [] }
                let nodes = try graph.ancestors(of: head, notBelow: 0).map(graph.node)
                    .sorted { CommitNode.precedes($1, $0) }
                return try nodes.prefix(max(0, limit)).map { try Self.changeset($0, db) }
            }
        }
    }

    /// Compares the rows with the digests of the head.
    ///
    /// - Returns: The tables that differ; empty where the rows are the state of the head.
    public func verify() throws -> [String] {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let transaction = try RepositoryTransaction(db)
                return try transaction.tables.all.filter { try transaction.differsFromHead($0) }.map(\.name)
            }
        }
    }

    static func changeset(_ node: CommitNode, _ db: Database) throws -> Changeset {
        let changeset = try Changeset.fetchOne(
            db, sql: "SELECT * FROM main.\(SyncTables.changesetView) WHERE n = ?", arguments: [node.n])
        guard let changeset else { throw CommitStore.damaged("A commit is missing.") }
        return changeset
    }

    // MARK: Starting anew

    /// Removes all commits and the rows of the tracked tables, as if the store had just joined the repository: fetching and
    /// pulling bring back what the remotes have. **What was not pushed is lost.**
    public func reset() throws {
        try applying(takesForeignWrites: true) { transaction in
            let db = transaction.db
            try transaction.removeRows()
            for name in [SyncTables.pending, SyncTables.conflict] {
                try db.execute(sql: "DELETE FROM main.\(name)")
            }
            try db.execute(sql: "DELETE FROM main.\(SyncTables.commit)")
            try db.execute(sql: "UPDATE main.\(SyncTables.state) SET leaves = x''")
            try CheckpointStore(db: db).removeAll(except: nil)
            try PullObstacle(db: db).remove()
            let names = try String.fetchAll(db, sql: "SELECT name FROM main.\(SyncTables.remote)")
            for name in names { try RemoteState.require(name, db).remove(db) }
            let former = transaction.state.author
            for name in names { try RemoteState.create(name, db) }
            // Checkpoints would wait for a name under which nobody works any more.
            for name in names { try CheckpointStore(db: db).noteRetired(former, at: RemoteState.require(name, db).n) }
            try transaction.beginAsNewAuthor()
        }
    }

    // MARK: Transactions

    /// Runs a block in a transaction in which neither the triggers of the database nor foreign keys act.
    func applying<T>(
        takesForeignWrites: Bool = false, _ body: (inout RepositoryTransaction) throws -> T
    ) throws -> T {
        try writer.unsafeReentrantWrite { db in
            if db.isInsideTransaction { throw SyncError(.insideTransaction) }
            let enforcesForeignKeys = try afterApply != nil && Bool.fetchOne(db, sql: "PRAGMA foreign_keys") == true
            return try db.withForeignKeysAndTriggersSuspended {
                try Self.inTransaction(db) {
                    var transaction = try RepositoryTransaction(db)
                    transaction.enforcesForeignKeys = enforcesForeignKeys
                    if !takesForeignWrites { try transaction.requireOwnWritesOnly() }
                    do {
                        return try body(&transaction)
                    } catch let error as SyncError where error.code == .schemaAhead {
                        throw try transaction.whichSchemaIsNewer(error)
                    }
                }
            }
        }
    }

    static func inTransaction<T>(_ db: Database, _ body: () throws -> T) throws -> T {
        if db.isInsideTransaction { throw SyncError(.insideTransaction) }
        var result: T?
        try db.writingOwnRows {
            try db.inTransaction(.immediate) {
                result = try body()
                return .commit
            }
        }
        guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return result
    }

    private static func inSavepoint<T>(_ db: Database, _ body: (Database) throws -> T) throws -> T {
        var result: T?
        try db.inSavepoint {
            result = try body(db)
            return .commit
        }
        guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return result
    }
}
