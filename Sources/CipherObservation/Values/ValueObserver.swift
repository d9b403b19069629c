import CipherDatabase
import Dispatch
import StorePlatform
import Synchronization

/// One observation that runs.
///
/// A fetch runs inside an access; its outcome goes to `fetched`, which one thread at a time converts, and from there to
/// `deliveries`, which the scheduler empties. Both keep the order of the fetches, which is that of the commits.
// Safe because: `region` and the flags beside it are used inside accesses of the writing connection, which run one at a
// time; `reducer` by the one thread that converts; all else is constant or has a lock.
final class ValueObserver<Reducer: ValueReducer>: RegionObserver, @unchecked Sendable {
    private let observation: ValueObservation<Reducer>
    private let fetching: Reducer
    private var reducer: Reducer
    private let scheduler: any ValueObservationScheduler
    /// Whether converting runs no function of the program.
    private let isPlain: Bool
    /// The suspension of the observed file; nil for a reader that has none.
    private let suspension: DatabaseSuspension?
    private let conversions = DispatchQueue(label: "CipherStore.ValueObservation")
    private let state: Mutex<State>
    private(set) var region = DatabaseRegion()
    private var isTracking = false
    private var isChanged = false
    private var isFetching = false
    /// Whether the region must be found again, because the schema has changed.
    private var isObsolete = false
    /// Set by ``start()``, and released with the observer.
    private var closingWait: ReaderClosing.Wait?

    private struct State {
        /// Nil when the observation has ended.
        var reader: (any DatabaseReader)?
        /// Whether a fetch or a conversion has failed: its error is the last that is delivered.
        var hasFailed = false
        var onError: @Sendable (any Error) -> Void
        var onChange: @Sendable (Reducer.Value) -> Void
        /// The fetched value that waits for its conversion.
        var fetched: [Result<Reducer.Fetched, any Error>] = []
        /// Whether a thread converts, or soon will.
        var isConverting = false
        var deliveries: [Result<Reducer.Value, any Error>] = []
        var isDelivering = false
        /// A fetch beside the writes, and whether another one must follow.
        var isFetchingBeside = false
        var mustFetchAgain = false
        /// Counts the fetches on the writing connection: what was begun beside an earlier one is discarded.
        var writerFetches = 0
        /// Whether one of them has begun and is not queued yet: what ends beside it is discarded, too.
        var isFetchingOnWriter = false
        /// How long the latest fetch took, in nanoseconds.
        var fetchTime = UInt64.max
        /// The version of the schema for which the region was found.
        var schemaVersion: Int32?
    }

    init(
        _ observation: ValueObservation<Reducer>, _ reader: any DatabaseReader,
        _ scheduler: any ValueObservationScheduler, _ onError: @escaping @Sendable (any Error) -> Void,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) {
        self.observation = observation
        fetching = observation.reducer
        reducer = observation.reducer
        isPlain = (observation.reducer as? any PlainReducer)?.isPlain == true
        self.scheduler = scheduler
        suspension = (reader.plainReader as? any SuspendableReader)?.suspensionOfFile
        state = Mutex(State(reader: reader, onError: onError, onChange: onChange))
    }

    // MARK: Starting and ending

    /// The reader, while there is anything to fetch for.
    private var reader: (any DatabaseReader)? { state.withLock { $0.hasFailed ? nil : $0.reader } }

    /// With what the observer follows changes; nil for a queue, a pool or a snapshot that only reads. A store that was
    /// opened for reading only has the connection of a writer too, and follows the commits of others.
    private var writer: (any DatabaseWriter)? {
        guard let reader else { return nil }
        let plain = reader.plainReader
        if reader.configuration.readonly && (plain is DatabaseQueue || plain is DatabasePool) { return nil }
        return plain as? any DatabaseWriter
    }

    func start() {
        for call in observation.events.willStart { call() }
        // First: a close that comes before the observer is added ends the observation too. If the reader is closed, the
        // first access throws, where it is made at once too.
        if let closing = reader?.closingOfReader, !closing.isClosed {
            closingWait = closing.whenClosed { [weak self] in self?.fail($0) }
        }
        if !observation.deliversInitialValue { return startWithoutValue() }
        let isImmediate = scheduler.immediateInitialValue()
        if let writer, observation.requiresWriteAccess || writer is DatabaseQueue {
            return isImmediate ? startNow(on: writer) : startLater(on: writer)
        }
        if isImmediate { readFirstNow() } else { readFirstLater() }
    }

    /// Ends the observation by its user.
    func cancel() {
        if end() { for call in observation.events.didCancel { call() } }
    }

    /// - Returns: Whether it had not ended before.
    @discardableResult
    private func end() -> Bool {
        // They are released without the lock: that may close the reader, and run code of the program.
        let (reader, _, _, _, _) = state.withLock { state in
            let released = (state.reader, state.onChange, state.onError, state.fetched, state.deliveries)
            state.reader = nil
            state.onChange = { _ in }
            state.onError = { _ in }
            state.fetched = []
            state.deliveries = []
            return released
        }
        return reader != nil
    }

    // MARK: The first value

    /// The result of the first fetch of a pool.
    private struct First: Sendable {
        let value: Reducer.Fetched
        let region: DatabaseRegion
        let schemaVersion: Int32
        /// The last commit before the fetch.
        let position: CommitPosition?
    }

    /// With one connection the observer is added in the access of the first fetch: there is nothing in between.
    private func startNow(on writer: any DatabaseWriter) {
        var mustConvert = false
        do {
            try writer.unsafeReentrantWrite { db in
                // Queued inside the access: the values of later commits come after it.
                if let fetched = try self.addObserver(db, fetch: true) { mustConvert = self.enqueue(.success(fetched)) }
            }
        } catch {
            mustConvert = enqueue(.failure(error))
        }
        if mustConvert { convertAll(isImmediate: true) }
    }

    /// Starts at once, and delivers the changes that are committed from here on.
    private func startWithoutValue() {
        guard let reader else { return }
        do {
            if let writer, observation.requiresWriteAccess || writer is DatabaseQueue {
                try writer.unsafeReentrantWrite { db in
                    _ = try self.addObserver(db, fetch: true)
                    // Nothing is queued of this fetch.
                    self.state.withLock { $0.isFetchingOnWriter = false }
                }
            } else {
                follow(try reader.unsafeRead { try self.firstFetch($0) })
            }
        } catch {
            fail(error)
        }
    }

    private func startLater(on writer: any DatabaseWriter) {
        let suspensions = suspensions
        writer.asyncWriteWithoutTransaction { db in
            self.attempt(since: suspensions, again: { self.startLater(on: writer) }) {
                if let fetched = try self.addObserver(db, fetch: true) { self.convert(fetched) }
            }
        }
    }

    private func readFirstNow() {
        guard let reader else { return }
        do {
            let first = try reader.unsafeRead { try self.firstFetch($0) }
            if enqueue(.success(first.value)) { convertAll(isImmediate: true) }
            follow(first)
        } catch {
            if enqueue(.failure(error)) { convertAll(isImmediate: true) }
        }
    }

    private func readFirstLater() {
        let suspensions = suspensions
        reader?.asyncUnsafeRead { outcome in
            self.attempt(since: suspensions, again: { self.readFirstLater() }) {
                let first = try self.firstFetch(outcome.get())
                self.convert(first.value)
                self.follow(first)
            }
        }
    }

    private func firstFetch(_ db: Database) throws -> First {
        for attempt in 1... {
            // Before the snapshot of the fetch: a commit in between makes for one fetch too many, never for one too few.
            let position = db.commitPosition
            let first = try db.isolated(readOnly: true) { () -> First? in
                // Takes the snapshot.
                let schemaVersion = try db.schemaVersion()
                if attempt < 5, db.commitPosition != position { return nil }
                var region = DatabaseRegion()
                let value = try fetchRecording(db, &region)
                return First(
                    value: value, region: try region.observable(db), schemaVersion: schemaVersion, position: position)
            }
            if let first { return first }
        }
        throw DatabaseError(resultCode: .SQLITE_INTERNAL)
    }

    /// Adds the observer to the writer after a first fetch beside it. A commit in between is fetched then.
    private func follow(_ first: First) {
        let suspensions = suspensions
        // A reader alone has one value.
        writer?.asyncWriteWithoutTransaction { db in
            self.attempt(since: suspensions, again: { self.follow(first) }) {
                self.region = first.region
                self.state.withLock { $0.schemaVersion = first.schemaVersion }
                _ = try self.addObserver(db, fetch: false)
                if first.position != nil, db.commitPosition == first.position { return self.track(first.region) }
                for call in self.observation.events.databaseDidChange { call() }
                self.isObsolete = true
                self.convert(try self.fetch(db))
            }
        }
    }

    /// - Returns: The value, where it is to be fetched.
    private func addObserver(_ db: Database, fetch: Bool) throws -> Reducer.Fetched? {
        guard reader != nil else { return nil }
        try db.requireObservable()
        // After a suspension it may be there already.
        db.remove(transactionObserver: self)
        db.add(transactionObserver: self)
        return fetch ? try self.fetch(db) : nil
    }

    // MARK: Fetching

    private func fetchRecording(_ db: Database, _ region: inout DatabaseRegion) throws -> Reducer.Fetched {
        let start = MonotonicTime.now
        defer { note(fetchSince: start) }
        guard case .regions(let regions) = observation.tracking else {
            return try db.recordingRegion(&region) { try fetching.fetch(db) }
        }
        region = try db.withoutWatching { try regions(db) }
        return try fetching.fetch(db)
    }

    /// Fetches on the writing connection.
    private func fetch(_ db: Database) throws -> Reducer.Fetched {
        try onWriter {
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
            if varies || isObsolete || !isTracking {
                let version = try db.withoutWatching { try db.schemaVersion() }
                state.withLock { $0.schemaVersion = version }
                isObsolete = false
                change(region: try region.observable(db), db)
            }
            return value
        }
    }

    /// Fetches on the writing connection where the region stays the same.
    private func fetchAgain(_ db: Database) throws -> Reducer.Fetched {
        try onWriter {
            let start = MonotonicTime.now
            defer { note(fetchSince: start) }
            return try db.isolated(readOnly: true) { try fetching.fetch(db) }
        }
    }

    /// Runs a fetch on the writing connection, whose value is queued next.
    ///
    /// Invariant: no value is queued after that of a later snapshot. A fetch on a reader may take its snapshot after
    /// this one and end before this value is queued; it is discarded. Nothing is lost by that: a commit after this
    /// snapshot is fetched for its own sake.
    private func onWriter(_ fetch: () throws -> Reducer.Fetched) throws -> Reducer.Fetched {
        isFetching = true
        defer { isFetching = false }
        state.withLock { $0.isFetchingOnWriter = true }
        do {
            return try fetch()
        } catch {
            state.withLock { $0.isFetchingOnWriter = false }
            throw error
        }
    }

    private func note(fetchSince start: UInt64) {
        let time = MonotonicTime.now &- start
        state.withLock { $0.fetchTime = time }
    }

    private var varies: Bool { if case .latestFetch = observation.tracking { true } else { false } }

    private func change(region: DatabaseRegion, _ db: Database) {
        if region == self.region && isTracking { return }
        self.region = region
        (db.observer as? ObservationBroker)?.regionDidChange()
        track(region)
    }

    private func track(_ region: DatabaseRegion) {
        isTracking = true
        for call in observation.events.willTrackRegion { call(region) }
    }

    /// Fetches on the writing connection, after the write under way, and finds the region again.
    private func fetchOnWriter() {
        let suspensions = suspensions
        writer?.asyncWriteWithoutTransaction { db in
            self.attempt(since: suspensions, again: { self.fetchOnWriter() }) {
                try db.requireObservable()
                self.isObsolete = true
                self.convert(try self.fetch(db))
            }
        }
    }

    /// Fetches on a reader, one fetch at a time: commits that come meanwhile are fetched together.
    private func fetchBeside() {
        let (reader, number) = state.withLock { state -> ((any DatabaseReader)?, Int) in
            if state.isFetchingBeside {
                state.mustFetchAgain = true
                return (nil, 0)
            }
            guard let reader = state.reader, !state.hasFailed else { return (nil, 0) }
            state.isFetchingBeside = true
            return (reader, state.writerFetches)
        }
        let suspensions = suspensions
        reader?.asyncUnsafeRead { outcome in
            self.attempt(since: suspensions, again: { self.endFetchBeside(mustFetch: true) }) {
                let db = try outcome.get()
                let start = MonotonicTime.now
                let (value, version) = try db.isolated(readOnly: true) {
                    (try self.fetching.fetch(db), try db.schemaVersion())
                }
                self.note(fetchSince: start)
                self.convert(value, unlessAfter: number)
                let isSame = self.state.withLock { $0.schemaVersion == version }
                // Another connection has changed the schema: the same requests may read something else.
                if !isSame { self.fetchOnWriter() }
                self.endFetchBeside(mustFetch: false)
            }
        }
    }

    private func endFetchBeside(mustFetch: Bool) {
        let isBehind = state.withLock { state in
            defer { (state.isFetchingBeside, state.mustFetchAgain) = (false, false) }
            return state.mustFetchAgain
        }
        if isBehind || mustFetch { fetchBeside() }
    }

    /// The suspensions of the file so far.
    private var suspensions: Int { suspension?.count ?? 0 }

    /// Runs a fetch, and fails with its error. A fetch that a suspension has interrupted, or that got no lease because
    /// of it, is made again afterwards.
    ///
    /// - Parameter suspensions: Their number before the access of the fetch was asked for.
    private func attempt(since suspensions: Int, again: @escaping @Sendable () -> Void, _ body: () throws -> Void) {
        do {
            try body()
        } catch {
            guard let suspension, suspension.explains(error, since: suspensions) else { return fail(error) }
            _ = suspension.whenResumed(again)
        }
    }

    // MARK: Converting and delivering

    /// Queues a fetched value, and converts all queued values later.
    ///
    /// - Parameters:
    ///   - number: `writerFetches` when this fetch began. If that has changed, a fetch on the writing connection is newer,
    ///     and this value is dropped.
    ///   - poll: The poll during which the value was fetched: then the thread of that poll converts a plain value.
    private func convert(_ fetched: Reducer.Fetched, unlessAfter number: Int? = nil, in poll: ExternalPoll? = nil) {
        guard enqueue(.success(fetched), unlessAfter: number) else { return }
        if let poll, isPlain {
            poll.afterAccess { self.convertAll(isImmediate: false) }
        } else {
            conversions.async { self.convertAll(isImmediate: false) }
        }
    }

    /// - Returns: Whether the caller must see to it that ``convertAll(isImmediate:)`` is called.
    private func enqueue(_ fetched: Result<Reducer.Fetched, any Error>, unlessAfter number: Int? = nil) -> Bool {
        // With the lock, so that the values are queued in the order of the fetches.
        state.withLock { state in
            guard state.reader != nil else { return false }
            if let number {
                if state.writerFetches != number || state.isFetchingOnWriter { return false }
            } else {
                // Counted here: a concurrent fetch may begin between the beginning of this fetch and its snapshot.
                state.writerFetches += 1
                state.isFetchingOnWriter = false
            }
            state.fetched.append(fetched)
            defer { state.isConverting = true }
            return !state.isConverting
        }
    }

    private func convertAll(isImmediate: Bool) {
        while true {
            let next = state.withLock { state -> Result<Reducer.Fetched, any Error>? in
                guard !state.fetched.isEmpty else {
                    state.isConverting = false
                    return nil
                }
                return state.fetched.removeFirst()
            }
            guard let next else { return }
            if let result = converted(next) { deliver(result, isImmediate: isImmediate) }
            if isImmediate { return convertRest() }
        }
    }

    /// Converts later what was fetched while the first value was delivered: a program that writes for each value would
    /// otherwise never return from the start of its observation.
    private func convertRest() {
        let isComplete = state.withLock { state in
            if state.fetched.isEmpty { state.isConverting = false }
            return state.fetched.isEmpty
        }
        if !isComplete { conversions.async { self.convertAll(isImmediate: false) } }
    }

    /// Called by one thread at a time.
    private func converted(_ fetched: Result<Reducer.Fetched, any Error>) -> Result<Reducer.Value, any Error>? {
        if reader == nil { return nil }
        do {
            return try reducer.value(fetched.get()).map { .success($0) }
        } catch {
            return .failure(error)
        }
    }

    private func fail(_ error: any Error) {
        // After the values that were fetched before.
        if enqueue(.failure(error)) { conversions.async { self.convertAll(isImmediate: false) } }
    }

    private func deliver(_ result: Result<Reducer.Value, any Error>, isImmediate: Bool) {
        let mustSchedule = state.withLock { state -> Bool in
            guard state.reader != nil, !state.hasFailed else { return false }
            if case .failure = result { state.hasFailed = true }
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
        if isFetching { return }
        isChanged = true
        stopObservingDatabaseChangesUntilNextTransaction()
    }

    func databaseDidChange(with event: DatabaseEvent) {
        if region.isModified(by: event) { databaseDidChange() }
    }

    func regionMayBeObsolete() { if !isFetching { isObsolete = true } }

    func databaseDidRollback(_ db: Database) { (isChanged, isObsolete) = (false, false) }

    func observationDidFail(_ error: any Error) { fail(error) }

    func databaseDidCommit(_ db: Database) {
        guard takeChange() else { return }
        if fetchesBeside && !isObsolete { return fetchBeside() }
        attempt(since: suspensions, again: { self.fetchOnWriter() }) { convert(try fetch(db)) }
    }

    /// Short fetches are made at once: waking another thread takes longer, and that would read the pages that this
    /// connection has just read once more.
    func regionDidChangeExternally(_ db: Database, _ poll: ExternalPoll) {
        let isShort = state.withLock { $0.fetchTime <= ObservationLimits.longestFetchInPoll } && !poll.isLong
        if fetchesBeside && !isObsolete && !isShort { return databaseDidCommit(db) }
        guard takeChange() else { return }
        let isKnown = fetchesBeside && !isObsolete && isTracking
        attempt(since: suspensions, again: { self.fetchOnWriter() }) {
            convert(try isKnown ? fetchAgain(db) : fetch(db), in: poll)
        }
    }

    /// Whether fetches are made on readers.
    private var fetchesBeside: Bool {
        guard !varies, !observation.requiresWriteAccess, let reader else { return false }
        return !(reader.plainReader is DatabaseQueue)
    }

    /// - Returns: Whether the value is to be fetched.
    private func takeChange() -> Bool {
        guard isChanged, !isFetching else { return false }
        isChanged = false
        guard reader != nil else { return false }
        for call in observation.events.databaseDidChange { call() }
        return true
    }
}
