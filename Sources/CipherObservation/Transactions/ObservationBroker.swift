import CipherDatabase
import Foundation
import StorePlatform
import Synchronization

/// An observer of the library's own that wants to know once for each transaction whether a region was changed.
///
/// What it answers to ``TransactionObserver/observes(eventsOfKind:)`` follows from its region alone, so the broker does
/// not ask again until it is told of another region.
protocol RegionObserver: TransactionObserver {
    var region: DatabaseRegion { get }

    /// The observation cannot continue: its store was replaced or removed. Called on any thread.
    func observationDidFail(_ error: any Error)
}

/// An observer that is told of every commit of another connection, whatever it changed.
protocol ForeignCommitObserver: RegionObserver {
    func othersDidCommit()
}

/// Passes the changes of one connection on to its observers.
///
/// For each statement it finds out who observes which of the changes that were announced for it. For each row it looks
/// up who is to be told, which is the same for all rows of one table that a statement changes.
// Safe because: it is used inside accesses of one connection, which run one at a time. The list of brokers reads
// `reporting` of another one only on the thread that set it.
final class ObservationBroker: ConnectionObserver, @unchecked Sendable {
    private var observations: [Observation] = []
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
    /// Events inside savepoints, until the outermost one ends.
    private var kept: [(event: DatabaseEvent, targets: [Observation])] = []
    /// Whether events were reported since the last end of a transaction.
    private var hasReported = false
    /// The transactions that have ended since observers were looked for that are gone.
    private var endsSinceRemoval = 0
    /// The observer that is told of a change at this moment, and the thread.
    private var reporting: Observation?
    private let reportingThread = Atomic<UInt>(0)
    /// What is known of the commits of other connections.
    private var others = ForeignCommits()
    /// Looks for them; nil while nobody wants to know.
    private(set) var monitor: ProcessMonitor?

    /// One observer and how long it is told.
    private final class Observation {
        let number: Int
        let extent: Database.TransactionObservationExtent
        private weak var weakObserver: (any TransactionObserver)?
        private let keptObserver: (any TransactionObserver)?
        /// Whether it wants no more changes of this transaction.
        var isStopped = false
        var isRemoved = false
        let isRegionObserver: Bool
        /// Whether it was told of a change of this transaction.
        var wasTold = false
        /// Where its latest event is among those that are kept back.
        var keptIndex: Int?

        init(_ observer: some TransactionObserver, _ extent: Database.TransactionObservationExtent, number: Int) {
            self.number = number
            self.extent = extent
            weakObserver = observer
            keptObserver = extent == .observerLifetime ? nil : observer
            isRegionObserver = observer is any RegionObserver
        }

        var observer: (any TransactionObserver)? { isRemoved ? nil : keptObserver ?? weakObserver }
    }

    /// What an observer observes of a statement's changes.
    private struct Interest {
        let observation: Observation
        var kinds: [DatabaseEventKind]
    }

    /// What was announced for a statement.
    private final class Run {
        weak var statement: Statement?
        let compilations: CInt
        var announced: [DatabaseEventKind]
        /// Who observes which of them, in the order in which they were added.
        var interests: [Interest]

        init(_ statement: Statement?, _ announced: [DatabaseEventKind], _ interests: [Interest]) {
            self.statement = statement
            compilations = statement?.compilations ?? 0
            self.announced = announced
            self.interests = interests
        }
    }

    /// Who is told of events of one kind in one table.
    private struct Route {
        let kind: DatabaseEvent.Kind
        let databaseName: String
        let tableName: String
        let targets: [Observation]
        let mayHaveMoved: Bool

        func leads(_ change: RowChange) -> Bool {
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
        if endsSinceRemoval * Limits.observersLookedAt >= observations.count { removeOld() }
    }

    private func removeOld() {
        endsSinceRemoval = 0
        let count = observations.count
        observations.removeAll { $0.observer == nil }
        if observations.count != count { forgetInterests() }
    }

    private func forgetInterests() {
        latestRun = nil
        regionObservers = [:]
        route = nil
    }

    // MARK: Statements

    func statementWillRun(_ statement: Statement, on db: Database) {
        runs.removeAll { $0.statement == nil || $0.statement === statement }
        if let latestRun, latestRun.statement === statement { return runs.append(latestRun) }
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
        // Others may change their minds.
        latestRun = observations.allSatisfy(\.isRegionObserver) ? run : nil
    }

    func statementDidEnd(_ statement: Statement) {
        runs.removeAll { $0.statement == nil || $0.statement === statement }
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
        let known = regionObservers[kind]
        var asked: [Observation] = []
        for observation in observations where !observation.isRegionObserver || known == nil {
            if observation.observer?.observes(eventsOfKind: kind) == true { asked.append(observation) }
        }
        if let known { return known + asked }
        // Programs that write values into SQL text would otherwise fill it without limit.
        if regionObservers.count >= 1_000 { regionObservers = [:] }
        regionObservers[kind] = asked.filter(\.isRegionObserver)
        return asked
    }

    func observesDeletions(from table: String) -> Bool { !observers(of: .delete(tableName: table)).isEmpty }

    // MARK: Changes

    func rowDidChange(_ change: RowChange, on db: Database) {
        let route = route(of: change, db)
        if route.targets.allSatisfy(\.isStopped) { return }
        let event = DatabaseEvent(
            kind: route.kind, rowID: change.rowID, databaseName: route.databaseName, tableName: route.tableName,
            mayHaveMoved: route.mayHaveMoved)
        if db.isInsideSavepoint { keep(event, for: route.targets) } else { report(event, to: route.targets) }
    }

    private func route(of change: RowChange, _ db: Database) -> Route {
        let run = runs.count == 1 ? runs[0] : outside
        if let known = route, known.run === run, runs.count <= 1, known.route.leads(change) { return known.route }
        let table = String(cString: change.tableName)
        var targets: [Int: Observation] = [:]
        var mayHaveMoved = false
        for run in runs.isEmpty ? [outside] : runs {
            let (found, kinds) = self.targets(of: change.kind, table, run, db)
            for observation in found { targets[observation.number] = observation }
            mayHaveMoved = mayHaveMoved || kinds.isEmpty || kinds.contains { db.changesRowID($0) }
        }
        let route = Route(
            kind: change.kind, databaseName: String(cString: change.databaseName), tableName: table,
            targets: targets.values.sorted { $0.number < $1.number },
            mayHaveMoved: mayHaveMoved && change.kind == .update)
        if runs.count <= 1 { self.route = (run, route) }
        return route
    }

    /// Who is told of the events of one kind in one table that a statement causes, and the kinds that were announced.
    private func targets(
        of kind: DatabaseEvent.Kind, _ table: String, _ run: Run, _ db: Database
    ) -> ([Observation], [DatabaseEventKind]) {
        let matching = run.announced.filter { $0.matches(kind, tableName: table) }
        if !matching.isEmpty {
            let interests = run.interests.filter { $0.kinds.contains(where: matching.contains) }
            return (interests.map(\.observation), matching)
        }
        // SQLite compiles a statement again where another connection has changed the schema. Otherwise the change was
        // not announced: it is that of a virtual table's hidden one, or of C code. Whoever observes anything that the
        // statement was to change, or the table itself, is told.
        let isCompiledAgain = run.statement.map { $0.compilations != run.compilations } ?? false
        let late = isCompiledAgain ? db.lateEventKinds.filter { $0.matches(kind, tableName: table) } : []
        let columns = late.isEmpty ? db.knownColumns(of: table) : []
        let asked =
            late.isEmpty
            ? [
                .insert(tableName: table), .delete(tableName: table),
                .update(tableName: table, columnNames: columns),
            ] : late
        return (run.interests.map(\.observation) + asked.flatMap { observers(of: $0) }, late)
    }

    private func report(_ event: DatabaseEvent, to targets: [Observation]) {
        for target in targets where !target.isStopped {
            guard let observer = target.observer else { continue }
            hasReported = true
            telling(target) { observer.databaseDidChange(with: event) }
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

    private func keep(_ event: DatabaseEvent, for targets: [Observation]) {
        let targets = targets.filter { target in
            if target.isStopped { return false }
            guard target.isRegionObserver, let observer = target.observer as? any RegionObserver else { return true }
            // One event is enough for those, and it is dropped together with all later ones only.
            if let index = target.keptIndex, index < kept.count { return false }
            return observer.region.isModified(by: event)
        }
        if targets.isEmpty { return }
        for target in targets { target.keptIndex = kept.count }
        kept.append((event, targets))
    }

    func savepointDidRollback(keepingEvents count: Int) {
        if count < kept.count { kept.removeSubrange(count...) }
        for observation in observations {
            if let index = observation.keptIndex, index >= count { observation.keptIndex = nil }
        }
    }

    func savepointsDidEnd() {
        let events = kept
        dropKept()
        for (event, targets) in events { report(event, to: targets) }
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
        // One statement that failed: nobody was told of anything.
        if completion == .rollback && !isExplicit && !hasReported { return dropKept() }
        dropKept()
        hasReported = false
        runs = []
        route = nil
        // To those of the library's own that were not told of a change, the end means nothing.
        let told = observations.filter { $0.wasTold || !$0.isRegionObserver }
        for observation in told { (observation.isStopped, observation.wasTold) = (false, false) }
        let count = observations.count
        if told.contains(where: { $0.extent == .nextTransaction }) {
            observations.removeAll { $0.extent == .nextTransaction }
        }
        removeOldSometimes()
        if observations.count != count { forgetInterests() }
        // Before the calls, which may add observers.
        if observations.isEmpty { db.setObserver(nil) }
        for observation in told {
            guard let observer = observation.observer else { continue }
            switch completion {
            case .commit: observer.databaseDidCommit(db)
            case .rollback: observer.databaseDidRollback(db)
            }
        }
    }

    // MARK: Commits of other connections

    /// Begins to look for commits of other connections, where an observer wants to know of them.
    func followOthers(_ observer: any TransactionObserver, on db: Database) {
        guard let observer = observer as? any RegionObserver, let link = db.processLink else { return }
        if let monitor, !monitor.isStopped { return monitor.add(observer) }
        let monitor = ProcessMonitor(link)
        monitor.add(observer)
        // After the monitor is noticed of commits: what comes in between is seen by its first look.
        others.begin(db)
        self.monitor = monitor
        monitor.start()
    }

    /// Tells the observers of regions of commits of other connections since the last call, where there were any.
    ///
    /// - Returns: Whether there were.
    func lookForOthers(_ db: Database) -> Bool {
        removeOld()
        guard observations.contains(where: \.isRegionObserver) else {
            monitor?.stop()
            monitor = nil
            if observations.isEmpty { db.setObserver(nil) }
            return false
        }
        if let loss = db.lossOfFile {
            monitor?.fail(loss)
            return false
        }
        // An error, as of a lock that somebody holds, comes back at the next look, or is gone then.
        guard !db.isInsideTransaction, let change = try? others.look(db) else { return false }
        if case .nothing = change { return false }
        report(change, on: db)
        return true
    }

    private func report(_ change: ForeignChange, on db: Database) {
        for observation in observations { (observation.observer as? any ForeignCommitObserver)?.othersDidCommit() }
        let told = observations.filter { observation in
            guard observation.isRegionObserver, let observer = observation.observer as? any RegionObserver else {
                return false
            }
            return change.touches(observer.region)
        }
        for observation in told {
            guard let observer = observation.observer else { continue }
            telling(observation) { observer.databaseDidChange() }
            observation.isStopped = false
        }
        for observation in told { observation.observer?.databaseDidCommit(db) }
    }

    func connectionWillBeReplaced(_ db: Database) { others.connectionWillClose(db) }
    func connectionDidReplace(_ db: Database) { others.connectionDidOpen(db) }

    // MARK: Whom it is telling

    private func telling(_ observation: Observation, _ body: () -> Void) {
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
