import CipherDatabase
import Dispatch
import Synchronization

/// Fetches a value, and fetches it again after each transaction that changes what it reads.
///
/// ```swift
/// let observation = ValueObservation.tracking { db in try Player.fetchAll(db) }
/// let cancellable = observation.start(in: pool) { error in ... } onChange: { players in ... }
/// for try await players in observation.values(in: pool) { ... }
/// ```
///
/// The first value is that of the start; then at least the last of the changes is delivered, in the order of the
/// commits. No change is missed in between. Values may be equal: see ``removeDuplicates()``. An error of the fetch or
/// of a conversion ends the observation; a fetch that a suspension has interrupted is made again when the store is
/// resumed. Changes are those that this connection makes, also of tables without rowid and by `REPLACE`, and those of
/// other connections and processes: by what the history of changes has recorded of them, and where nothing is recorded,
/// each of their commits counts as a change of everything. When a table is dropped or altered, the value is fetched
/// again too. If the store is replaced or removed, the observation ends with `StoreError` `storeMoved`. If the reader is
/// closed, it ends with the error of later accesses: `StoreError` `storeClosed` of a shared store, `DatabaseError`
/// `SQLITE_MISUSE` of a queue, a pool and a snapshot.
///
/// After ``AnyDatabaseCancellable/cancel()`` no function is called, if it is called in the place in which the values
/// are delivered, such as the main actor. From another thread it does not wait for a call that the scheduler has
/// already begun.
public struct ValueObservation<Reducer: ValueReducer>: Sendable {
    /// The tracked region.
    enum Tracking: Sendable {
        /// The region that the latest fetch has read.
        case latestFetch
        /// The region that the first fetch has read.
        case firstFetch
        case regions(@Sendable (Database) throws -> DatabaseRegion)
    }

    /// Functions that are notified of what the observation does.
    struct Events: Sendable {
        var willStart: [@Sendable () -> Void] = []
        var willTrackRegion: [@Sendable (DatabaseRegion) -> Void] = []
        var databaseDidChange: [@Sendable () -> Void] = []
        var didFail: [@Sendable (any Error) -> Void] = []
        var didCancel: [@Sendable () -> Void] = []
    }

    var reducer: Reducer
    let tracking: Tracking
    var events = Events()

    /// Whether the fetch needs an access that can write. It then runs in a savepoint, and its own changes start no
    /// other fetch.
    public var requiresWriteAccess = false

    /// Whether the value of the start is delivered. Default: true.
    ///
    /// If it is false, the first value is that of the first commit after the start that changes what is tracked. No
    /// change is missed that is committed after the start has returned. The start waits until the database was read
    /// once, which tells what is tracked; that value is neither converted nor compared with the next one.
    public var deliversInitialValue = true

    func with<Other: ValueReducer>(_ reducer: Other) -> ValueObservation<Other> {
        var other = ValueObservation<Other>(reducer: reducer, tracking: .converting(tracking))
        other.events = .converting(events)
        other.requiresWriteAccess = requiresWriteAccess
        other.deliversInitialValue = deliversInitialValue
        return other
    }
}

extension ValueObservation.Tracking {
    fileprivate static func converting<Other>(_ other: ValueObservation<Other>.Tracking) -> Self {
        switch other {
        case .latestFetch: .latestFetch
        case .firstFetch: .firstFetch
        case .regions(let region): .regions(region)
        }
    }
}

extension ValueObservation.Events {
    fileprivate static func converting<Other>(_ other: ValueObservation<Other>.Events) -> Self {
        Self(
            willStart: other.willStart, willTrackRegion: other.willTrackRegion,
            databaseDidChange: other.databaseDidChange, didFail: other.didFail, didCancel: other.didCancel)
    }
}

extension ValueObservation {
    // MARK: Making

    /// Tracks what a function reads, which may be something else each time.
    @preconcurrency
    public static func tracking<Value: Sendable>(
        _ fetch: @escaping @Sendable (Database) throws -> Value
    ) -> Self where Reducer == ValueReducers.Fetch<Value> {
        Self(reducer: ValueReducers.Fetch(fetching: fetch), tracking: .latestFetch)
    }

    /// Tracks what a function reads, which must be the same each time: tables, columns and rows. On a pool it is
    /// fetched beside the writes.
    @preconcurrency
    public static func trackingConstantRegion<Value: Sendable>(
        _ fetch: @escaping @Sendable (Database) throws -> Value
    ) -> Self where Reducer == ValueReducers.Fetch<Value> {
        Self(reducer: ValueReducers.Fetch(fetching: fetch), tracking: .firstFetch)
    }

    /// Tracks regions, whatever the function reads.
    @preconcurrency
    public static func tracking<Value: Sendable>(
        region: any DatabaseRegionConvertible, _ otherRegions: any DatabaseRegionConvertible...,
        fetch: @escaping @Sendable (Database) throws -> Value
    ) -> Self where Reducer == ValueReducers.Fetch<Value> {
        tracking(regions: [region] + otherRegions, fetch: fetch)
    }

    /// Tracks regions, whatever the function reads.
    @preconcurrency
    public static func tracking<Value: Sendable>(
        regions: [any DatabaseRegionConvertible], fetch: @escaping @Sendable (Database) throws -> Value
    ) -> Self where Reducer == ValueReducers.Fetch<Value> {
        Self(
            reducer: ValueReducers.Fetch(fetching: fetch), tracking: .regions { try DatabaseRegion.union(regions, $0) })
    }

    // MARK: Converting

    /// Converts the values, outside of accesses.
    @preconcurrency
    public func map<Value: Sendable>(
        _ transform: @escaping @Sendable (Reducer.Value) throws -> Value
    ) -> ValueObservation<ValueReducers.Map<Reducer, Value>> {
        with(ValueReducers.Map(base: reducer, transform: transform))
    }

    /// Leaves out values that are equal to the one before.
    @preconcurrency
    public func removeDuplicates(
        by areEqual: @escaping @Sendable (Reducer.Value, Reducer.Value) -> Bool
    ) -> ValueObservation<ValueReducers.RemoveDuplicates<Reducer>> {
        with(ValueReducers.RemoveDuplicates(base: reducer, areEqual: areEqual))
    }

    /// Leaves out values that are equal to the one before.
    public func removeDuplicates() -> ValueObservation<ValueReducers.RemoveDuplicates<Reducer>>
    where Reducer.Value: Equatable {
        removeDuplicates { $0 == $1 }
    }

    /// Leaves out the value of the start: see ``deliversInitialValue``.
    public func withoutInitialValue() -> Self {
        var observation = self
        observation.deliversInitialValue = false
        return observation
    }

    // MARK: Watching

    /// Calls functions as the observation proceeds, on any thread.
    @preconcurrency
    public func handleEvents(
        willStart: (@Sendable () -> Void)? = nil, willFetch: (@Sendable () -> Void)? = nil,
        willTrackRegion: (@Sendable (DatabaseRegion) -> Void)? = nil,
        databaseDidChange: (@Sendable () -> Void)? = nil,
        didReceiveValue: (@Sendable (Reducer.Value) -> Void)? = nil,
        didFail: (@Sendable (any Error) -> Void)? = nil, didCancel: (@Sendable () -> Void)? = nil
    ) -> ValueObservation<ValueReducers.Trace<Reducer>> {
        var observation = with(
            ValueReducers.Trace(
                base: reducer, willFetch: willFetch ?? {}, didReceiveValue: didReceiveValue))
        if let willStart { observation.events.willStart.append(willStart) }
        if let willTrackRegion { observation.events.willTrackRegion.append(willTrackRegion) }
        if let databaseDidChange { observation.events.databaseDidChange.append(databaseDidChange) }
        if let didFail { observation.events.didFail.append(didFail) }
        if let didCancel { observation.events.didCancel.append(didCancel) }
        return observation
    }

    /// Prints what the observation does.
    ///
    /// - Parameters:
    ///   - prefix: Begins each line.
    ///   - stream: Where to print, one call of `write` for each line, without a line feed; nil for the standard output.
    public func print(
        _ prefix: String = "", to stream: sending (any TextOutputStream)? = nil
    ) -> ValueObservation<ValueReducers.Trace<Reducer>> {
        let output = PrintedEvents(prefix: prefix, stream: stream)
        return handleEvents(
            willStart: { output.print("start") }, willFetch: { output.print("fetch") },
            willTrackRegion: { output.print("tracked region: \($0)") },
            databaseDidChange: { output.print("database did change") },
            didReceiveValue: { output.print("value: \($0)") }, didFail: { output.print("failure: \($0)") },
            didCancel: { output.print("cancel") })
    }

    // MARK: Starting

    /// Starts the observation on the main actor.
    ///
    /// - Parameters:
    ///   - reader: A queue, a pool, a shared store; also one that was opened for reading only. A snapshot delivers one
    ///     value.
    ///   - scheduler: `.mainActor`, or `.immediate` for the first value before the function returns.
    ///   - onError: Called once, when the observation has failed.
    ///   - onChange: Called with each value.
    /// - Returns: What keeps the observation running. After a cancellation nothing is called.
    @preconcurrency @MainActor
    public func start(
        in reader: some DatabaseReader, scheduling scheduler: some ValueObservationMainActorScheduler = .mainActor,
        onError: @escaping @MainActor (any Error) -> Void, onChange: @escaping @MainActor (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        run(
            in: reader, scheduler, { error in MainActor.assumeIsolated { onError(error) } },
            { value in MainActor.assumeIsolated { onChange(value) } })
    }

    /// Starts the observation.
    ///
    /// - Parameters:
    ///   - reader: A queue, a pool, a shared store; also one that was opened for reading only. A snapshot delivers one
    ///     value.
    ///   - scheduler: Where values and the error are delivered.
    ///   - onError: Called once, when the observation has failed.
    ///   - onChange: Called with each value.
    /// - Returns: What keeps the observation running. After a cancellation no call begins.
    @preconcurrency
    public func start(
        in reader: some DatabaseReader, scheduling scheduler: some ValueObservationScheduler,
        onError: @escaping @Sendable (any Error) -> Void, onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        run(in: reader, scheduler, onError, onChange)
    }

    func run(
        in reader: any DatabaseReader, _ scheduler: any ValueObservationScheduler,
        _ onError: @escaping @Sendable (any Error) -> Void, _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        let observer = ValueObserver(self, reader, scheduler, onError, onChange)
        observer.start()
        return AnyDatabaseCancellable { observer.cancel() }
    }

    /// The values as a sequence. The observation starts with each iteration, and ends with it.
    ///
    /// - Parameters:
    ///   - reader: A queue, a pool, a shared store.
    ///   - scheduler: Where values are made ready.
    ///   - bufferingPolicy: What is kept while the iteration is slower than the changes; `.bufferingNewest(1)` keeps
    ///     the last value alone.
    public func values(
        in reader: some DatabaseReader, scheduling scheduler: some ValueObservationScheduler = .task,
        bufferingPolicy: AsyncValueObservation<Reducer.Value>.BufferingPolicy = .unbounded
    ) -> AsyncValueObservation<Reducer.Value> {
        AsyncValueObservation(bufferingPolicy: bufferingPolicy) { onError, onChange in
            self.run(in: reader, scheduler, onError, onChange)
        }
    }

    /// An observation of which all clients share the fetches and the values.
    ///
    /// - Parameters:
    ///   - reader: A queue, a pool, a shared store.
    ///   - scheduler: Where values and errors are delivered.
    ///   - extent: When it ends.
    public func shared(
        in reader: some DatabaseReader,
        scheduling scheduler: some ValueObservationScheduler = .async(onQueue: .main),
        extent: SharedValueObservationExtent = .whileObserved
    ) -> SharedValueObservation<Reducer.Value> {
        SharedValueObservation(scheduler, extent) { onError, onChange in
            self.run(in: reader, scheduler, onError, onChange)
        }
    }
}

/// Prints events, one line each.
// Safe because: the stream was handed over by the caller, and is used with the lock.
private final class PrintedEvents: @unchecked Sendable {
    private let prefix: String
    private let lock = Mutex(())
    private var stream: (any TextOutputStream)?

    init(prefix: String, stream: sending (any TextOutputStream)?) {
        self.prefix = prefix.isEmpty ? "" : prefix + ": "
        self.stream = stream
    }

    func print(_ event: String) {
        let line = prefix + event
        lock.withLock { _ in if stream == nil { Swift.print(line) } else { stream?.write(line) } }
    }
}

/// The values of an observation, as a sequence.
public struct AsyncValueObservation<Element: Sendable>: AsyncSequence, Sendable {
    public typealias BufferingPolicy = AsyncThrowingStream<Element, any Error>.Continuation.BufferingPolicy
    typealias Start =
        @Sendable (
            _ onError: @escaping @Sendable (any Error) -> Void, _ onChange: @escaping @Sendable (Element) -> Void
        ) -> AnyDatabaseCancellable

    let bufferingPolicy: BufferingPolicy
    let start: Start

    public typealias AsyncIterator = Iterator

    public struct Iterator: AsyncIteratorProtocol {
        private var iterator: AsyncThrowingStream<Element, any Error>.Iterator
        // Released with the iterator, which ends the observation.
        private let cancellable: AnyDatabaseCancellable

        init(_ iterator: AsyncThrowingStream<Element, any Error>.Iterator, _ cancellable: AnyDatabaseCancellable) {
            self.iterator = iterator
            self.cancellable = cancellable
        }

        public mutating func next() async throws -> Element? { try await iterator.next() }
    }

    public func makeAsyncIterator() -> Iterator {
        let (stream, continuation) = AsyncThrowingStream.makeStream(
            of: Element.self, throwing: (any Error).self, bufferingPolicy: bufferingPolicy)
        let cancellable = start({ continuation.finish(throwing: $0) }, { continuation.yield($0) })
        // When the task is cancelled.
        continuation.onTermination = { [weak cancellable] _ in cancellable?.cancel() }
        return Iterator(stream.makeAsyncIterator(), cancellable)
    }
}
