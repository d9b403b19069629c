import PageFormat

/// Receives all changes that a connection makes, and passes them on: see `ObservationBroker`. A connection has one.
///
/// All functions are called on the thread of the access. Where it does not say otherwise they must not use the
/// connection.
package protocol ConnectionObserver: AnyObject {
    /// A statement that may change rows is about to run. The connection may be used to compile, not to write.
    func statementWillRun(_ statement: Statement, on db: Database)

    /// A statement that may have changed rows has ended. The connection may be used, not to write.
    func statementDidEnd(_ statement: Statement, hasFailed: Bool, on db: Database)

    /// A row has changed, perhaps inside savepoints.
    func rowDidChange(_ change: UpdateHookChange, on db: Database)

    /// The number of events that are kept back until the outermost savepoint ends.
    var keptEventCount: Int { get }

    /// A savepoint was rolled back: the events that were kept back after a number of them never happened.
    func savepointDidRollback(keepingEvents count: Int)

    /// The outermost savepoint has ended inside its transaction: nothing is kept back from then on.
    func savepointsDidEnd()

    /// A transaction is about to be committed. An error rolls it back, and becomes the error of the commit.
    func transactionWillCommit() throws

    /// A transaction has ended. The connection may be used.
    ///
    /// - Parameter isExplicit: Whether it had begun before its last statement, or a commit was tried. Otherwise one
    ///   statement has failed.
    func transactionDidEnd(_ completion: Database.TransactionCompletion, isExplicit: Bool, on db: Database)

    /// Whether each deleted row of a table must be reported.
    func observesDeletions(from table: String) -> Bool

    /// The connection is about to be closed, and another one is opened in its place later. It may be used to read.
    func connectionWillBeReplaced(_ db: Database)

    /// The connection was opened in place of another one. It may be used to read.
    func connectionDidReplace(_ db: Database)
}

/// Keeps the observer of a connection, and passes it on to a connection that is opened in its place.
// Safe because: it is used inside accesses of the connection, which run one at a time, and while none is open.
final class ObserverKeeper: @unchecked Sendable {
    @exclusivity(unchecked) var observer: (any ConnectionObserver)?
    /// For the commits of other connections; nil for a database that no other connection can change.
    let link: MonitorLink?

    init(link: MonitorLink? = nil) { self.link = link }
}

extension Database {
    /// The observer of the connection.
    package var observer: (any ConnectionObserver)? { features[StatementWatch.key]?.keeper.observer }

    /// Sets the observer; nil ends the reports, and what they cost.
    package func setObserver(_ observer: (any ConnectionObserver)?) {
        requireAccess()
        if isClosed { return }
        let isNew = self.observer == nil
        watch.keeper.observer = observer
        // Events that a former observer kept back do not belong to a new one.
        if isNew { for index in transaction.savepoints.indices { transaction.savepoints[index].keptEvents = 0 } }
        if observer == nil {
            endReports()
        } else if isNew {
            beginReports()
        }
    }

    /// Takes over the observer of a connection that this one replaces, or that was not closed after all.
    func adoptObserver(of keeper: ObserverKeeper) {
        requireAccess()
        watch.keeper = keeper
        writing.link = keeper.link
        if observer != nil { beginReports() }
    }

    private func beginReports() {
        let keeper = watch.keeper
        hooks.reportsDeletions = { keeper.observer?.observesDeletions(from: $0) == true }
        hooks.didChangeRow = { [unowned self] in keeper.observer?.rowDidChange($0, on: self) }
        handle.installUpdateHook(hooks)
        needHooks(for: .observer)
        updateWatching()
    }

    private func endReports() {
        hooks.reportsDeletions = nil
        hooks.didChangeRow = nil
        hooks.record = nil
        handle.installUpdateHook(nil)
        dropHooks(for: .observer)
        updateWatching()
    }

    // MARK: Statements

    /// The changes that were announced by compilations since the latest statement began: its own, where SQLite has
    /// compiled it again, and those of virtual tables.
    package var lateEventKinds: [DatabaseEventKind] { hooks.record?.kinds ?? [] }

    /// The columns of a table as far as they are known without reading the schema.
    package func knownColumns(of table: String) -> Set<String> {
        let name = table.lowercasedASCII
        return Set(schemaCache.schemas.values.flatMap { ($0.columns[name] ?? nil) ?? [] }.map(\.name))
    }

    /// Makes each deletion from these tables be reported, row by row, by statements that were compiled before that was
    /// needed.
    fileprivate func reportDeletions(from tables: [String]) {
        guard !hooks.plainDeletions.isEmpty, tables.contains(where: hooks.plainDeletions.contains) else { return }
        hooks.plainDeletions = []
        handle.expireStatements(hooks)
    }

    /// Whether changes of a kind may give rows other rowids.
    // Called while a statement runs: what is not known of the schema then counts as such a change.
    package func changesRowID(_ kind: DatabaseEventKind) -> Bool {
        guard case .update(let table, let columns) = kind else { return false }
        if columns.contains("ROWID") { return true }
        let name = table.lowercasedASCII
        let keys = schemaCache.schemas.values.compactMap { $0.primaryKeys[name] }
        guard !keys.isEmpty else { return true }
        return keys.contains { key in key?.rowIDColumn.map { columns.contains($0) } ?? false }
    }

    /// Reads the schema for ``changesRowID(_:)``.
    package func learnRowID(of table: String) { _ = withoutWatching { try? primaryKey(table) } }

    /// The suspension of the file, after which what it has interrupted is done again.
    package var suspension: DatabaseSuspension { connectionKey.suspension }

    /// How often the connection may have made a `REPLACE` fire no delete triggers.
    package var recursiveTriggersEnds: Int { hooks.recursiveTriggersEnds }

    /// Runs a block in which each commit of the transaction fails with `SQLITE_CONSTRAINT_COMMITHOOK`. A feature of the
    /// connection must want the ends of transactions.
    package func refusingCommits<T>(_ body: () throws -> T) rethrows -> T {
        hooks.refusesCommits = true
        defer { hooks.refusesCommits = false }
        return try body()
    }

    /// Whether there is a connection to be observed.
    package var isClosedForObservers: Bool { isClosed }

    /// - Throws: The error of a connection that is closed.
    package func requireObservable() throws {
        if isClosed { throw closedError }
    }

    /// Whether statements that write are run at the moment.
    package var acceptsWrites: Bool { !access.refusesWrites && !health.hasFailedToSync }

    /// Whether the access refuses to write.
    package var isReadonlyNow: Bool { access.refusesWrites || configuration.readonly }

    // MARK: Savepoints

    /// Whether a savepoint is open, so that events are kept back.
    package var isInsideSavepoint: Bool { !transaction.savepoints.isEmpty }

    /// Called after a statement that opened, released or rolled back a savepoint.
    func noteSavepoint(_ change: SavepointChange) {
        if handle.isInAutocommit { return }
        switch change.operation {
        case .begin:
            pendingCallbacks.insert(.savepoints)
            transaction.savepoints.append(
                TransactionTracker.Savepoint(name: change.name, keptEvents: observer?.keptEventCount ?? 0))
        case .release:
            guard let index = transaction.savepoints.lastIndex(where: { $0.name == change.name }) else { return }
            transaction.savepoints.removeSubrange(index...)
            if index == 0 { observer?.savepointsDidEnd() }
        case .rollback:
            // The row of the author may be gone with the rest.
            hooks.history.stamp = 0
            guard let index = transaction.savepoints.lastIndex(where: { $0.name == change.name }) else { return }
            observer?.savepointDidRollback(keepingEvents: transaction.savepoints[index].keptEvents)
            transaction.savepoints.removeSubrange((index + 1)...)
        }
    }
}

extension Statement {
    /// How often SQLite has compiled the statement again.
    package var compilations: CInt { handle.recompilationCount }

    /// Makes each deletion from these tables be reported, row by row, also when the statement was compiled before that
    /// was needed.
    package func reportDeletions(from tables: [String]) { database.reportDeletions(from: tables) }
}

/// A moment in the history of a database in WAL mode, for comparison with a later one.
package struct CommitPosition: Equatable, Sendable {
    private let index: WALIndex

    fileprivate init(_ index: WALIndex) { self.index = index }

    /// Whether it can be compared with a position of a connection that was opened later. While no connection is open the
    /// WAL may be checkpointed and removed: then every position in an empty WAL looks alike.
    var lastsBeyondConnections: Bool { index.salts.first != 0 || index.salts.second != 0 }

    /// The last committed frame of the WAL.
    package var frame: UInt32 { index.frames }

    /// Whether the database file contained all of it.
    package var isInFile: Bool { index.checkpointedFrames >= index.frames }

    /// Whether the frames up to it are those of a WAL, which was not reset since.
    package func isOf(_ header: WALHeader) -> Bool { index.salts == header.salts }

    package static func == (left: CommitPosition, right: CommitPosition) -> Bool {
        left.index.salts == right.index.salts && left.index.frames == right.index.frames
    }
}

extension Database {
    /// The position of the last commit of any process; nil without WAL. Equal positions have no commit between them.
    package var commitPosition: CommitPosition? { isClosed ? nil : handle.walIndex.map(CommitPosition.init) }
}
