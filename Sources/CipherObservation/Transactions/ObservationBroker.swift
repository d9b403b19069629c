import CipherDatabase
import Foundation
import StorePlatform
import Synchronization

/// An observer of the library's own that wants to know once for each transaction whether a region was changed.
///
/// Its answer to ``TransactionObserver/observes(eventsOfKind:)`` follows from its region alone, so the broker asks
/// again only after a notice of another region. Unlike the observers of programs it is notified of changes that SQLite
/// does not report row by row, by ``TransactionObserver/databaseDidChange()``.
protocol RegionObserver: TransactionObserver {
    var region: DatabaseRegion { get }

    /// The observation cannot continue: its store was replaced or removed. Called on any thread.
    func observationDidFail(_ error: any Error)

    /// A table of the region was dropped, renamed or altered in the transaction under way: when it is committed, the
    /// region must be found again.
    func regionMayBeObsolete()

    /// Other connections have changed the region; called instead of ``TransactionObserver/databaseDidCommit(_:)``.
    ///
    /// - Parameter poll: The poll that has found it.
    func regionDidChangeExternally(_ db: Database, _ poll: ExternalPoll)
}

extension RegionObserver {
    func regionDidChangeExternally(_ db: Database, _ poll: ExternalPoll) { databaseDidCommit(db) }
}

/// An observer that is notified of every commit of another connection, whatever it changed.
protocol ExternalCommitObserver: RegionObserver {
    func didCommitExternally()
}

/// Passes the changes of one connection on to its observers.
///
/// For each statement it finds the observers of the changes that SQLite has announced. All rows of one table that a
/// statement changes have the same observers.
// Safe because: it is used inside accesses of one connection, which run one at a time. The list of brokers reads
// `reporting` of another one only on the thread that set it.
final class ObservationBroker: ConnectionObserver, @unchecked Sendable {
    var observations: [Observation] = []
    private var additions = 0
    /// The statements under way. There are several where a cursor that changes rows is stepped after another statement.
    private var runs: [Run] = []
    /// The run of the latest statement, when it is still valid for the next one.
    private var latestRun: Run?
    /// Stands for changes outside of statements: by C code.
    private let outside = Run(nil, [], [])
    /// The observers of the library's own that observe changes of a kind.
    private var regionObservers: [DatabaseEventKind: [Observation]] = [:]
    private var route: (run: Run, route: Route)?
    /// The known facts about observed tables, for one state of the schema.
    private var facts: (generation: Int, tables: [String: UnseenChanges]) = (0, [:])
    /// Changes inside savepoints, until the outermost one ends.
    private var kept: [(change: Change, targets: [Observation])] = []
    /// Whether events were reported since the last end of a transaction.
    private var hasReported = false
    /// The transactions that have ended since observers were looked for that are gone.
    private var endsSinceRemoval = 0
    /// The observer that is notified of a change at this moment, and the thread.
    private var reporting: Observation?
    private let reportingThread = Atomic<UInt>(0)
    /// The known facts about the commits of other connections.
    var external = ExternalCommits()
    /// Looks for them; nil while nobody wants to know.
    var monitor: CommitMonitor?

    /// One observer and how long it is notified.
    final class Observation {
        let number: Int
        let extent: Database.TransactionObservationExtent
        private weak var weakObserver: (any TransactionObserver)?
        private let keptObserver: (any TransactionObserver)?
        /// Whether it wants no more changes of this transaction.
        var isStopped = false
        var isRemoved = false
        let isRegionObserver: Bool
        let isExternalCommitObserver: Bool
        /// Whether it was notified of a change of this transaction.
        var wasTold = false
        /// Where its latest event is among those that are kept back.
        var keptIndex: Int?

        init(_ observer: some TransactionObserver, _ extent: Database.TransactionObservationExtent, number: Int) {
            self.number = number
            self.extent = extent
            weakObserver = observer
            keptObserver = extent == .observerLifetime ? nil : observer
            isRegionObserver = observer is any RegionObserver
            isExternalCommitObserver = observer is any ExternalCommitObserver
        }

        var observer: (any TransactionObserver)? { isRemoved ? nil : keptObserver ?? weakObserver }
        var regionObserver: (any RegionObserver)? { isRegionObserver ? observer as? any RegionObserver : nil }
    }

    /// The part of a statement's changes that an observer observes.
    private struct Interest {
        let observation: Observation
        var kinds: [DatabaseEventKind]
    }

    /// The notices to observers.
    private enum Change {
        case row(DatabaseEvent)
        /// Rows that SQLite does not report.
        case unseenRows
        case schema
    }

    /// The announced changes of a statement.
    private final class Run {
        weak var statement: Statement?
        let compilations: CInt
        var announced: [DatabaseEventKind]
        /// Who observes which of them, in the order in which they were added.
        var interests: [Interest]
        /// The tables whose rows it may remove unseen, and the observers of regions that are concerned.
        var replacing: [String: [Observation]] = [:]
        /// Who is notified of changes of tables that report none, if it changes any row.
        var unseen: [Observation] = []
        /// Who is notified of changes of the schema's own tables.
        var schemaTables: [Observation] = []
        /// Who is notified that tables were dropped or altered.
        var redefined: [Observation] = []
        /// How many rows the connection had changed before.
        var changesBefore = 0

        init(_ statement: Statement?, _ announced: [DatabaseEventKind], _ interests: [Interest]) {
            self.statement = statement
            compilations = statement?.compilations ?? 0
            self.announced = announced
            self.interests = interests
        }

        /// Whether SQLite has compiled the statement again, because the schema was another one.
        var isCompiledAgain: Bool { statement.map { $0.compilations != compilations } ?? false }
    }

    /// Who is notified of events of one kind in one table.
    private struct Route {
        let kind: DatabaseEvent.Kind
        let databaseName: String
        let tableName: String
        let targets: [Observation]
        let concernsOtherRows: Bool

        func leads(_ change: UpdateHookChange) -> Bool {
            kind == change.kind && strcmp(change.tableName, tableName) == 0
                && strcmp(change.databaseName, databaseName) == 0
        }
    }

    deinit { monitor?.stop() }

    // MARK: Observers

    var isEmpty: Bool { observations.isEmpty }

    func add(_ observer: some TransactionObserver, _ extent: Database.TransactionObservationExtent) {
        additions += 1
        observations.append(Observation(observer, extent, number: additions))
        forgetInterests()
        Brokers.add(self)
    }

    func remove(_ observer: any TransactionObserver) {
        for observation in observations where observation.observer === observer { observation.isRemoved = true }
        removeOld()
    }

    /// Called when the region of an observer has changed.
    func regionDidChange() { forgetInterests() }

    /// Removes observers that are gone, in most calls without looking at each of many.
    private func removeOldSometimes() {
        endsSinceRemoval += 1
        if endsSinceRemoval * ObservationLimits.observersLookedAt >= observations.count { removeOld() }
    }

    func removeOld() {
        endsSinceRemoval = 0
        guard observations.contains(where: { $0.observer == nil }) else { return }
        observations.removeAll { $0.observer == nil }
        observersDidLeave()
    }

    private func observersDidLeave() {
        forgetInterests()
        if observations.contains(where: \.isRegionObserver) { return }
        // Not in the deinitializer: another thread may hold the broker until the next one has a monitor.
        monitor?.stop()
        monitor = nil
    }

    private func forgetInterests() {
        latestRun = nil
        regionObservers = [:]
        route = nil
    }

    // MARK: Statements

    func statementWillRun(_ statement: Statement, on db: Database) {
        // One that is still there did not come to its end.
        endRuns(hasFailed: true, on: db) { $0 === statement }
        if let latestRun, latestRun.statement === statement, latestRun.compilations == statement.compilations {
            latestRun.changesBefore = db.totalChangesCount
            return runs.append(latestRun)
        }
        route = nil
        let kinds = statement.databaseEventKinds
        let interests = interests(in: kinds)
        let run = Run(statement, kinds, interests)
        runs.append(run)
        for kind in Set(interests.flatMap(\.kinds)) {
            switch kind {
            case .insert: break
            case .delete(let table): statement.reportDeletions(from: [table])
            case .update(let table, _): db.learnRowID(of: table)
            }
        }
        findUnseenChanges(of: statement, run, on: db)
        run.changesBefore = db.totalChangesCount
        // Another observer may answer `observes(eventsOfKind:)` in another way later.
        latestRun = observations.allSatisfy(\.isRegionObserver) ? run : nil
    }

    func statementDidEnd(_ statement: Statement, hasFailed: Bool, on db: Database) {
        endRuns(hasFailed: hasFailed, on: db) { $0 === statement }
    }

    /// Ends the runs of some statements, and of those that are gone.
    private func endRuns(hasFailed: Bool, on db: Database, _ isEnding: (Statement) -> Bool) {
        var ended: [Run] = []
        runs.removeAll { run in
            if let statement = run.statement, !isEnding(statement) { return false }
            ended.append(run)
            return true
        }
        for run in ended { reportUnseenChanges(of: run, hasFailed: hasFailed, on: db) }
    }

    // MARK: Changes that SQLite does not report

    /// Finds out which observers of regions must be told of what a statement may change unseen.
    private func findUnseenChanges(of statement: Statement, _ run: Run, on db: Database) {
        guard observations.contains(where: \.isRegionObserver) else { return }
        for (index, kind) in run.announced.enumerated() {
            let table = kind.tableName
            if run.announced[..<index].contains(where: { $0.tableName == table }) { continue }
            // Deletions concern everybody who observes the table, whichever columns.
            let concerned = regionObservers(of: .delete(tableName: table))
            if concerned.isEmpty { continue }
            if Database.isSchemaTable(table) {
                run.schemaTables += concerned.filter { $0.regionObserver?.region.names(table) == true }
                continue
            }
            let kinds = run.announced.filter { $0.tableName == table }
            let facts = facts(of: table, db)
            let replaces = kinds.contains { !$0.deletes } && (facts.replaces || statement.namesReplace)
            if !facts.reportsRows {
                run.unseen += replaces ? concerned : kinds.flatMap { regionObservers(of: $0) }
            } else if replaces {
                run.replacing[table] = concerned
            }
        }
        run.redefined =
            statement.redefinesViews
            ? observations.filter(\.isRegionObserver)
            : statement.redefinedTables.flatMap { regionObservers(of: .delete(tableName: $0)) }
    }

    /// The facts about a table in the present schema.
    private func facts(of table: String, _ db: Database) -> UnseenChanges {
        let generation = db.withoutWatching { try? db.schemaGeneration() }
        if generation == nil || facts.generation != generation { facts = (generation ?? 0, [:]) }
        if let known = facts.tables[table] { return known }
        let found = db.unseenChanges(of: table)
        facts.tables[table] = found
        return found
    }

    private func reportUnseenChanges(of run: Run, hasFailed: Bool, on db: Database) {
        var run = run
        if let statement = run.statement, run.isCompiledAgain {
            // Another connection has changed the schema since.
            let later = Run(statement, statement.databaseEventKinds, [])
            later.changesBefore = run.changesBefore
            findUnseenChanges(of: statement, later, on: db)
            run = later
        }
        if !hasFailed { tell(run.redefined, .schema, on: db) }
        if !hasFailed { tell(run.schemaTables, .unseenRows, on: db) }
        // A statement that has failed may have kept what it had changed.
        if !run.unseen.isEmpty, db.totalChangesCount != run.changesBefore { tell(run.unseen, .unseenRows, on: db) }
    }

    private func tell(_ targets: [Observation], _ change: Change, on db: Database) {
        if targets.isEmpty { return }
        if db.isInsideSavepoint { keep(change, for: targets) } else { report(change, to: targets) }
    }

    private func interests(in kinds: [DatabaseEventKind]) -> [Interest] {
        var found: [Int: Interest] = [:]
        for kind in kinds {
            for observation in observers(of: kind) {
                found[observation.number, default: Interest(observation: observation, kinds: [])].kinds.append(kind)
            }
        }
        return found.values.sorted { $0.observation.number < $1.observation.number }
    }

    private func observers(of kind: DatabaseEventKind) -> [Observation] {
        regionObservers(of: kind)
            + observations.filter { !$0.isRegionObserver && $0.observer?.observes(eventsOfKind: kind) == true }
    }

    private func regionObservers(of kind: DatabaseEventKind) -> [Observation] {
        if let known = regionObservers[kind] { return known }
        let found = observations.filter { $0.isRegionObserver && $0.observer?.observes(eventsOfKind: kind) == true }
        // Programs that write values into SQL text would otherwise fill it without limit.
        if regionObservers.count >= 1_000 { regionObservers = [:] }
        regionObservers[kind] = found
        return found
    }

    func observesDeletions(from table: String) -> Bool { !observers(of: .delete(tableName: table)).isEmpty }

    // MARK: Changes

    func rowDidChange(_ change: UpdateHookChange, on db: Database) {
        let route = route(of: change, db)
        if route.targets.allSatisfy(\.isStopped) { return }
        let event = DatabaseEvent(
            kind: route.kind, rowID: change.rowID, databaseName: route.databaseName, tableName: route.tableName,
            concernsOtherRows: route.concernsOtherRows)
        tell(route.targets, .row(event), on: db)
    }

    private func route(of change: UpdateHookChange, _ db: Database) -> Route {
        let run = runs.count == 1 ? runs[0] : outside
        if let known = route, known.run === run, runs.count <= 1, known.route.leads(change) { return known.route }
        let table = String(cString: change.tableName)
        var targets: [Int: Observation] = [:]
        var mayHaveMoved = false
        var mayReplace = false
        for run in runs.isEmpty ? [outside] : runs {
            let (found, kinds) = self.targets(of: change.kind, table, run, db)
            for observation in found { targets[observation.number] = observation }
            mayHaveMoved = mayHaveMoved || kinds.isEmpty || kinds.contains { db.changesRowID($0) }
            // Of what was not announced, and of what was compiled again, nothing is known.
            let isKnown = run.announced.contains { $0.tableName == table } && !run.isCompiledAgain
            mayReplace = mayReplace || !isKnown || run.replacing[table] != nil
        }
        let route = Route(
            kind: change.kind, databaseName: String(cString: change.databaseName), tableName: table,
            targets: targets.values.sorted { $0.number < $1.number },
            // Of a REPLACE whose cascade deletes the row that is written, SQLite reports that deletion alone.
            concernsOtherRows: mayReplace || change.kind == .update && mayHaveMoved)
        if runs.count <= 1 { self.route = (run, route) }
        return route
    }

    /// Who is notified of the events of one kind in one table that a statement causes, and the kinds that were
    /// announced.
    private func targets(
        of kind: DatabaseEvent.Kind, _ table: String, _ run: Run, _ db: Database
    ) -> ([Observation], [DatabaseEventKind]) {
        let matching = run.announced.filter { $0.matches(kind, tableName: table) }
        if !matching.isEmpty {
            let interests = run.interests.filter { $0.kinds.contains(where: matching.contains) }
            let replacing = kind == .delete ? [] : run.replacing[table] ?? []
            return (interests.map(\.observation) + replacing, matching)
        }
        // SQLite compiles a statement again where another connection has changed the schema. Otherwise the change was
        // not announced: it is that of a virtual table's hidden one, or of C code. Every observer of the changes of the
        // statement, or of the table itself, is notified.
        let late = run.isCompiledAgain ? db.lateEventKinds.filter { $0.matches(kind, tableName: table) } : []
        let columns = late.isEmpty ? db.knownColumns(of: table) : []
        let asked =
            late.isEmpty
            ? [
                .insert(tableName: table), .delete(tableName: table),
                .update(tableName: table, columnNames: columns),
            ] : late
        return (run.interests.map(\.observation) + asked.flatMap { observers(of: $0) }, late)
    }

    private func report(_ change: Change, to targets: [Observation]) {
        for target in targets {
            guard let observer = target.observer else { continue }
            if case .schema = change { target.regionObserver?.regionMayBeObsolete() }
            if target.isStopped { continue }
            hasReported = true
            telling(target) {
                switch change {
                case .row(let event): observer.databaseDidChange(with: event)
                case .unseenRows, .schema: observer.databaseDidChange()
                }
            }
        }
    }

    /// Tells observers of changes that SQLite did not report.
    func reportUnseenChanges(_ kinds: [DatabaseEventKind]) {
        for observation in observations where !observation.isStopped {
            guard let observer = observation.observer, kinds.contains(where: observer.observes(eventsOfKind:)) else {
                continue
            }
            hasReported = true
            telling(observation) { observer.databaseDidChange() }
        }
    }

    // MARK: Savepoints

    var keptEventCount: Int { kept.count }

    private func keep(_ change: Change, for targets: [Observation]) {
        let targets = targets.filter { target in
            if case .schema = change { return true }
            if target.isStopped { return false }
            guard let observer = target.regionObserver else { return true }
            // One change is enough for those, and it is dropped together with all later ones only.
            if let index = target.keptIndex, index < kept.count { return false }
            if case .row(let event) = change { return observer.region.isModified(by: event) }
            return true
        }
        if targets.isEmpty { return }
        for target in targets where target.keptIndex == nil { target.keptIndex = kept.count }
        kept.append((change, targets))
    }

    func savepointDidRollback(keepingEvents count: Int) {
        if count < kept.count { kept.removeSubrange(count...) }
        for observation in observations {
            if let index = observation.keptIndex, index >= count { observation.keptIndex = nil }
        }
    }

    func savepointsDidEnd() {
        let changes = kept
        dropKept()
        for (change, targets) in changes { report(change, to: targets) }
    }

    private func dropKept() {
        if kept.isEmpty { return }
        kept = []
        for observation in observations { observation.keptIndex = nil }
    }

    // MARK: The end

    func transactionWillCommit() throws {
        savepointsDidEnd()
        // Those of the library's own do not veto.
        for observation in observations where !observation.isRegionObserver {
            try observation.observer?.databaseWillCommit()
        }
    }

    func transactionDidEnd(_ completion: Database.TransactionCompletion, isExplicit: Bool, on db: Database) {
        // Statements that are still between rows: their changes are committed too.
        if completion == .commit { endRuns(hasFailed: true, on: db) { _ in true } }
        // One statement that failed: nobody was notified of anything.
        if completion == .rollback && !isExplicit && !hasReported { return dropKept() }
        dropKept()
        hasReported = false
        runs = []
        route = nil
        // The library's own observers need the end only if they were notified of a change.
        let told = observations.filter { $0.wasTold || !$0.isRegionObserver }
        for observation in told { (observation.isStopped, observation.wasTold) = (false, false) }
        if told.contains(where: { $0.extent == .nextTransaction }) {
            observations.removeAll { $0.extent == .nextTransaction }
            observersDidLeave()
        }
        removeOldSometimes()
        // Before the calls, which may add observers.
        if observations.isEmpty { db.setObserver(nil) }
        for observation in told {
            guard let observer = observation.observer else { continue }
            completion == .commit ? observer.databaseDidCommit(db) : observer.databaseDidRollback(db)
        }
    }

    func connectionWillBeReplaced(_ db: Database) { external.connectionWillClose(db) }
    func connectionDidReplace(_ db: Database) { external.connectionDidOpen(db) }

    // MARK: Whom it is telling

    func telling(_ observation: Observation, _ body: () -> Void) {
        observation.wasTold = true
        let (outer, outerThread) = (reporting, reportingThread.load(ordering: .relaxed))
        reporting = observation
        reportingThread.store(CurrentThread.id, ordering: .relaxed)
        body()
        reporting = outer
        reportingThread.store(outerThread, ordering: .relaxed)
    }

    /// The broker that tells an observer of a change at this moment, on this thread.
    static func reporting(to observer: any TransactionObserver) -> ObservationBroker? {
        let thread = CurrentThread.id
        return Brokers.all.first {
            $0.reportingThread.load(ordering: .relaxed) == thread && $0.reporting?.observer === observer
        }
    }

    func stopReporting() { reporting?.isStopped = true }
}

/// The brokers of the process that have had observers.
private enum Brokers {
    private struct Entry {
        weak var broker: ObservationBroker?
    }

    private static let entries = Mutex<[Entry]>([])

    static var all: [ObservationBroker] { entries.withLock { $0.compactMap(\.broker) } }

    static func add(_ broker: ObservationBroker) {
        entries.withLock { entries in
            entries.removeAll { $0.broker == nil }
            if !entries.contains(where: { $0.broker === broker }) { entries.append(Entry(broker: broker)) }
        }
    }
}

extension ObservationBroker {
    /// Begins to poll for commits of other connections, where an observer wants to know of them.
    func followExternalCommits(_ observer: any TransactionObserver, on db: Database) {
        guard let observer = observer as? any RegionObserver, let link = db.monitorLink else { return }
        if let monitor, !monitor.isStopped { return monitor.add(observer) }
        let monitor = CommitMonitor(link)
        monitor.add(observer)
        // After the registration of the monitor: its first poll sees every commit in between.
        external.begin(db)
        self.monitor = monitor
        monitor.start()
    }

    /// Tells the observers of regions of commits of other connections since the last call, where there were any.
    func pollForExternalCommits(_ db: Database, _ poll: ExternalPoll) {
        removeOld()
        guard observations.contains(where: \.isRegionObserver) else {
            if observations.isEmpty { db.setObserver(nil) }
            return
        }
        if let loss = db.lossOfFile {
            // Not in the access: functions for errors may use the store.
            poll.afterAccess { [monitor] in monitor?.fail(loss) }
            return
        }
        let schema = external.schemaVersion
        // An error, as of a lock that somebody holds, comes back at the next poll, or is gone then.
        guard !db.isInsideTransaction, let change = try? external.poll(db) else { return }
        if case .nothing = change { return }
        poll.isFound = true
        // No row needs to have changed for other values then, and the regions of observers may lack columns.
        let isSchemaChanged = external.schemaVersion != schema
        if isSchemaChanged {
            for observation in observations { observation.regionObserver?.regionMayBeObsolete() }
        }
        report(isSchemaChanged ? .everything : change, poll, on: db)
    }

    private func report(_ change: PollFinding, _ poll: ExternalPoll, on db: Database) {
        for observation in observations where observation.isExternalCommitObserver {
            (observation.observer as? any ExternalCommitObserver)?.didCommitExternally()
        }
        let told = observations.filter { observation in
            guard let observer = observation.regionObserver else { return false }
            return change.touches(observer.region)
        }
        for observation in told {
            guard let observer = observation.observer else { continue }
            telling(observation) { observer.databaseDidChange() }
            observation.isStopped = false
        }
        for observation in told { observation.regionObserver?.regionDidChangeExternally(db, poll) }
    }
}
