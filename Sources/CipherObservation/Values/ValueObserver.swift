import CipherDatabase
import Dispatch
import Synchronization

/// One observation that runs.
///
/// A fetch runs inside an access; its result goes to `conversions`, a serial queue, and from there to `deliveries`,
/// which the scheduler empties. Both keep the order of the fetches, which is that of the commits.
// Safe because: `region`, `isChanged` and `isFetching` are used inside accesses of the writing connection, which run one
// at a time; `reducer` on the serial queue; all else is constant or has a lock.
final class ValueObserver<Reducer: ValueReducer>: RegionObserver, @unchecked Sendable {
    private let observation: ValueObservation<Reducer>
    private let fetching: Reducer
    private var reducer: Reducer
    private let scheduler: any ValueObservationScheduler
    private let conversions = DispatchQueue(label: "CipherStore.ValueObservation")
    private let state: Mutex<State>
    private(set) var region = DatabaseRegion()
    private var isChanged = false
    private var isFetching = false

    private struct State {
        /// Nil when the observation has ended.
        var reader: (any DatabaseReader)?
        var onError: @Sendable (any Error) -> Void
        var onChange: @Sendable (Reducer.Value) -> Void
        var deliveries: [Result<Reducer.Value, any Error>] = []
        var isDelivering = false
        /// A fetch beside the writes, and whether another one must follow.
        var isFetchingBeside = false
        var mustFetchAgain = false
    }

    init(
        _ observation: ValueObservation<Reducer>, _ reader: any DatabaseReader,
        _ scheduler: any ValueObservationScheduler, _ onError: @escaping @Sendable (any Error) -> Void,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) {
        self.observation = observation
        fetching = observation.reducer
        reducer = observation.reducer
        self.scheduler = scheduler
        state = Mutex(State(reader: reader, onError: onError, onChange: onChange))
    }

    // MARK: Starting and ending

    private var reader: (any DatabaseReader)? { state.withLock { $0.reader } }

    func start() {
        for call in observation.events.willStart { call() }
        guard let reader else { return }
        let isImmediate = scheduler.immediateInitialValue()
        let writer = reader.plainReader as? any DatabaseWriter
        if let writer, observation.requiresWriteAccess || writer is DatabaseQueue {
            return isImmediate ? startNow(on: writer) : startLater(on: writer)
        }
        if isImmediate {
            let outcome = Result { try reader.unsafeRead { try self.firstFetch($0) } }
            continueStart(outcome, isImmediate: true, writer)
        } else {
            reader.asyncUnsafeRead { outcome in
                let first = Result { try self.firstFetch(outcome.get()) }
                self.continueStart(first, isImmediate: false, writer)
            }
        }
    }

    /// Ends the observation by its user.
    func cancel() {
        if end() { for call in observation.events.didCancel { call() } }
    }

    /// - Returns: Whether it had not ended before.
    @discardableResult
    private func end() -> Bool {
        // The reader is released without the lock: that may close it.
        let reader = state.withLock { state in
            defer {
                state.reader = nil
                state.onChange = { _ in }
                state.onError = { _ in }
                state.deliveries = []
            }
            return state.reader
        }
        return reader != nil
    }

    // MARK: The first value

    /// What the first fetch of a pool has found.
    private struct First: Sendable {
        let value: Reducer.Fetched
        let region: DatabaseRegion
        /// The last commit before the fetch.
        let position: CommitPosition?
    }

    /// With one connection the observer is added in the access of the first fetch: there is nothing in between.
    private func startNow(on writer: any DatabaseWriter) {
        let outcome = Result { try writer.unsafeReentrantWrite { db in try self.addObserver(db, fetch: true) } }
        if case .success(let fetched?) = outcome { return convert(fetched, isImmediate: true) }
        if case .failure(let error) = outcome { fail(error, isImmediate: true) }
    }

    private func startLater(on writer: any DatabaseWriter) {
        writer.asyncWriteWithoutTransaction { db in
            do {
                if let fetched = try self.addObserver(db, fetch: true) { self.convert(fetched) }
            } catch {
                self.fail(error)
            }
        }
    }

    private func firstFetch(_ db: Database) throws -> First {
        // Before the snapshot of the fetch: a commit in between makes for one fetch too many, never for one too few.
        let position = db.commitPosition
        return try db.isolated(readOnly: true) {
            var region = DatabaseRegion()
            let value = try fetchRecording(db, &region)
            return First(value: value, region: try region.observable(db), position: position)
        }
    }

    /// Delivers the first value, and adds the observer to the writer. What was committed in between is fetched then.
    private func continueStart(_ outcome: Result<First, any Error>, isImmediate: Bool, _ writer: (any DatabaseWriter)?)
    {
        switch outcome {
        case .failure(let error): fail(error, isImmediate: isImmediate)
        case .success(let first):
            convert(first.value, isImmediate: isImmediate)
            guard let writer else {
                return track(first.region)
            }
            writer.asyncWriteWithoutTransaction { db in
                do {
                    self.region = first.region
                    _ = try self.addObserver(db, fetch: false)
                    let isSame = first.position != nil && db.commitPosition == first.position
                    self.track(first.region)
                    if !isSame { try self.fetchAndConvert(db) }
                } catch {
                    self.fail(error)
                }
            }
        }
    }

    /// - Returns: The value, where it is to be fetched.
    private func addObserver(_ db: Database, fetch: Bool) throws -> Reducer.Fetched? {
        guard reader != nil else { return nil }
        try db.requireObservable()
        db.add(transactionObserver: self)
        return fetch ? try self.fetch(db) : nil
    }

    // MARK: Fetching

    private func fetchRecording(_ db: Database, _ region: inout DatabaseRegion) throws -> Reducer.Fetched {
        guard case .regions(let regions) = observation.tracking else {
            return try db.recordingRegion(&region) { try fetching.fetch(db) }
        }
        region = try db.withoutWatching { try regions(db) }
        return try fetching.fetch(db)
    }

    /// Fetches on the writing connection.
    private func fetch(_ db: Database) throws -> Reducer.Fetched {
        isFetching = true
        defer { isFetching = false }
        var region = DatabaseRegion()
        let value: Reducer.Fetched
        if observation.requiresWriteAccess {
            var fetched: Reducer.Fetched?
            try db.inSavepoint {
                fetched = try fetchRecording(db, &region)
                return .commit
            }
            guard let fetched else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
            value = fetched
        } else {
            value = try db.isolated(readOnly: true) { try fetchRecording(db, &region) }
        }
        let isFirst = self.region.isEmpty
        if isFirst || varies { try change(region: region.observable(db), db) }
        return value
    }

    private var varies: Bool { if case .latestFetch = observation.tracking { true } else { false } }

    private func change(region: DatabaseRegion, _ db: Database) {
        if region == self.region { return }
        self.region = region
        (db.observer as? ObservationBroker)?.regionDidChange()
        track(region)
    }

    private func track(_ region: DatabaseRegion) {
        for call in observation.events.willTrackRegion { call(region) }
    }

    private func fetchAndConvert(_ db: Database) throws { convert(try fetch(db)) }

    /// Fetches on a reader, one fetch at a time: commits that come meanwhile are fetched together.
    private func fetchBeside() {
        let reader = state.withLock { state -> (any DatabaseReader)? in
            if state.isFetchingBeside {
                state.mustFetchAgain = true
                return nil
            }
            state.isFetchingBeside = state.reader != nil
            return state.reader
        }
        reader?.asyncUnsafeRead { outcome in
            do {
                let db = try outcome.get()
                self.convert(try db.isolated(readOnly: true) { try self.fetching.fetch(db) })
            } catch {
                return self.fail(error)
            }
            let isBehind = self.state.withLock { state in
                defer { (state.isFetchingBeside, state.mustFetchAgain) = (false, false) }
                return state.mustFetchAgain
            }
            if isBehind { self.fetchBeside() }
        }
    }

    // MARK: Converting and delivering

    private func convert(_ fetched: Reducer.Fetched, isImmediate: Bool = false) {
        let convert: @Sendable () -> Void = {
            guard self.reader != nil else { return }
            do {
                if let value = try self.reducer.value(fetched) { self.deliver(.success(value), isImmediate) }
            } catch {
                self.fail(error, isImmediate: isImmediate)
            }
        }
        if isImmediate { conversions.sync(execute: convert) } else { conversions.async(execute: convert) }
    }

    private func fail(_ error: any Error, isImmediate: Bool = false) { deliver(.failure(error), isImmediate) }

    private func deliver(_ result: Result<Reducer.Value, any Error>, _ isImmediate: Bool) {
        let mustSchedule = state.withLock { state -> Bool in
            guard state.reader != nil else { return false }
            state.deliveries.append(result)
            defer { state.isDelivering = true }
            return !state.isDelivering
        }
        guard mustSchedule else { return }
        if isImmediate { deliverAll() } else { scheduler.schedule { self.deliverAll() } }
    }

    private func deliverAll() {
        while true {
            let next = state.withLock { state -> (Result<Reducer.Value, any Error>, State)? in
                guard !state.deliveries.isEmpty else {
                    state.isDelivering = false
                    return nil
                }
                return (state.deliveries.removeFirst(), state)
            }
            guard let (result, functions) = next else { return }
            switch result {
            case .success(let value): functions.onChange(value)
            case .failure(let error):
                end()
                for call in observation.events.didFail { call(error) }
                functions.onError(error)
            }
        }
    }

    // MARK: Changes

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { region.isModified(byEventsOfKind: eventKind) }

    func databaseDidChange() {
        isChanged = true
        stopObservingDatabaseChangesUntilNextTransaction()
    }

    func databaseDidChange(with event: DatabaseEvent) {
        if !isFetching && region.isModified(by: event) { databaseDidChange() }
    }

    func databaseDidRollback(_ db: Database) { isChanged = false }

    func observationDidFail(_ error: any Error) { fail(error) }

    func databaseDidCommit(_ db: Database) {
        guard isChanged, !isFetching else { return }
        isChanged = false
        guard let reader else { return }
        for call in observation.events.databaseDidChange { call() }
        if !varies, !observation.requiresWriteAccess, !(reader.plainReader is DatabaseQueue) { return fetchBeside() }
        do {
            try fetchAndConvert(db)
        } catch {
            fail(error)
        }
    }
}
