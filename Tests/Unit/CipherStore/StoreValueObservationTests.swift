@testable import CipherStore
import Dispatch
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestHarness
import TestKit
import Testing

/// Values that follow a shared store, whose connections are closed and opened again.
@Suite(.serialized, .exclusive(.suspension)) struct StoreValueObservationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// Values from any thread.
    private final class Values<Value: Sendable>: Sendable {
        private let list = Mutex<[Value]>([])
        private let arrivals = DispatchSemaphore(value: 0)

        func add(_ value: Value) {
            list.withLock { $0.append(value) }
            arrivals.signal()
        }

        var all: [Value] { list.withLock { $0 } }

        func wait(until condition: ([Value]) -> Bool) {
            let deadline = DispatchTime.now() + 20
            while !condition(all), arrivals.wait(timeout: deadline) == .success {}
        }
    }

    private typealias Observed = (values: Values<Int>, errors: Values<String>, cancellable: AnyDatabaseCancellable)

    private static let count = ValueObservation.tracking { try Table("t").fetchCount($0) }
    private static let constantCount = ValueObservation.trackingConstantRegion { try Table("t").fetchCount($0) }

    private func open(_ configuration: Configuration = Configuration()) throws -> SharedStore {
        let store = try SharedStore.open(
            at: path, unlockedBy: TestKeys.source("raw"), configuration: configuration)
        try store.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") }
        return store
    }

    private func insert(_ store: SharedStore) throws {
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
    }

    private func start<Reducer: ValueReducer>(_ observation: ValueObservation<Reducer>, _ store: some DatabaseWriter)
        -> Observed where Reducer.Value == Int
    {
        let (values, errors) = (Values<Int>(), Values<String>())
        let cancellable = observation.start(
            in: store, scheduling: .async(onQueue: DispatchQueue(label: "delivery")),
            onError: { errors.add("\($0)") }, onChange: { values.add($0) })
        return (values, errors, cancellable)
    }

    private func expect(_ observed: Observed, _ last: Int, at location: SourceLocation = #_sourceLocation) {
        observed.values.wait { $0.last == last }
        #expect(observed.values.all.last == last, sourceLocation: location)
        #expect(observed.values.all == observed.values.all.sorted(), sourceLocation: location)
        #expect(observed.errors.all == [], sourceLocation: location)
    }

    @Test("values go on when the store was yielded, when it got another key, and when it was suspended")
    func replacedConnections() async throws {
        let store = try open()
        let all = [start(Self.count, store), start(Self.constantCount, store)]
        for observed in all { expect(observed, 0) }
        try insert(store)
        for observed in all { expect(observed, 1) }
        let request = try #require(try YieldRequest.ask(StorePaths(path)))
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(30)))
        lease.release()
        request.end()
        try insert(store)
        for observed in all { expect(observed, 2) }
        #expect(try KeySwitch(path).run())
        try insert(store)
        for observed in all { expect(observed, 3) }
        _ = await store.suspend(deadline: .seconds(10))
        #expect((try? insert(store)) == nil)
        store.resume()
        try insert(store)
        for observed in all { expect(observed, 4) }
        for observed in all { observed.cancellable.cancel() }
        try store.close()
    }

    @Test("what starts while the store is suspended has its first value, and follows when it is resumed")
    func startedSuspended() async throws {
        let store = try open()
        try insert(store)
        _ = await store.suspend(deadline: .seconds(10))
        let all = [start(Self.count, store), start(Self.constantCount, store)]
        for observed in all { expect(observed, 1) }
        store.resume()
        try insert(store)
        for observed in all { expect(observed, 2) }
        for observed in all { observed.cancellable.cancel() }
        try store.close()
    }

    @Test("a fetch that a suspension interrupts is made again when the store is resumed")
    func interruptedFetch() async throws {
        let isSlow = Mutex(false)
        let hasBegun = DispatchSemaphore(value: 0)
        // It is the statement itself that says it has begun: one that begins after the suspension is not interrupted.
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(
                function: DatabaseFunction("begun", argumentCount: 0) { _ in
                    hasBegun.signal()
                    return 1
                })
        }
        let slow = """
            WITH RECURSIVE n(i) AS (SELECT begun() UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000)
            SELECT COUNT(*) FROM n
            """
        let store = try open(configuration)
        let observed = start(
            ValueObservation.tracking { db in
                let mustWait = isSlow.withLock { value in
                    defer { value = false }
                    return value
                }
                if mustWait { _ = try Int.fetchOne(db, sql: slow) }
                return try Table("t").fetchCount(db)
            }, store)
        expect(observed, 0)
        try insert(store)
        expect(observed, 1)
        isSlow.withLock { $0 = true }
        let hasWritten = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? insert(store)
            hasWritten.signal()
        }
        await wait(for: hasBegun)
        _ = await store.suspend(deadline: .seconds(10))
        await wait(for: hasWritten)
        #expect(observed.values.all == [0, 1] && observed.errors.all == [])
        store.resume()
        expect(observed, 2)
        try insert(store)
        expect(observed, 3)
        observed.cancellable.cancel()
        try store.close()
    }

    // During a suspension each read acquires a lease of its own. While another process rotates the key it may get none
    // in time: that was the last error of the observation.
    @Test("a fetch that gets no lease during a suspension is made again afterwards", arguments: [false, true])
    func refusedFetch(isFirst: Bool) async throws {
        let store = try open()
        let writer = HoldingWriter(store)
        if isFirst { writer.hold() }
        let observed = start(Self.constantCount, writer)
        if !isFirst {
            expect(observed, 0)
            // With this value the observation follows the commits: the next fetch is one beside them.
            try insert(store)
            expect(observed, 1)
            writer.hold()
            try insert(store)
        }
        let isHeld = await eventually { writer.holdsRead }
        #expect(isHeld)
        _ = await store.suspend(deadline: .seconds(10))
        writer.refuse()
        store.resume()
        expect(observed, isFirst ? 0 : 2)
        try insert(store)
        expect(observed, isFirst ? 1 : 3)
        observed.cancellable.cancel()
        try store.close()
    }

    @Test("a fetch that gets no lease although nobody has suspended the store ends the observation")
    func refusedWithoutSuspension() async throws {
        let store = try open()
        let writer = HoldingWriter(store)
        writer.hold()
        let observed = start(Self.constantCount, writer)
        let isHeld = await eventually { writer.holdsRead }
        #expect(isHeld)
        writer.refuse()
        observed.errors.wait { !$0.isEmpty }
        #expect(observed.errors.all.count == 1 && observed.values.all == [])
        try store.close()
    }

    private func wait(for semaphore: DispatchSemaphore) async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                _ = semaphore.wait(timeout: .now() + 30)
                continuation.resume()
            }
        }
    }

    @Test("clients share one observation of a store", arguments: [false, true])
    func shared(isWhileObserved: Bool) throws {
        let store = try open()
        let fetches = Values<Int>()
        let shared = Self.constantCount.handleEvents(willFetch: { fetches.add(1) }).shared(
            in: store, scheduling: .async(onQueue: DispatchQueue(label: "delivery")),
            extent: isWhileObserved ? .whileObserved : .observationLifetime)
        func client() -> Observed {
            let (values, errors) = (Values<Int>(), Values<String>())
            let cancellable = shared.start(onError: { errors.add("\($0)") }, onChange: { values.add($0) })
            return (values, errors, cancellable)
        }
        let first = client()
        expect(first, 0)
        try insert(store)
        expect(first, 1)
        let count = fetches.all.count
        let second = client()
        expect(second, 1)
        #expect(fetches.all.count == count)
        first.cancellable.cancel()
        second.cancellable.cancel()
        #expect(try KeySwitch(path).run())
        let third = client()
        expect(third, 1)
        #expect(fetches.all.count == (isWhileObserved ? count + 1 : count))
        try insert(store)
        expect(third, 2)
        third.cancellable.cancel()
        try store.close()
    }

    @Test("a burst of commits is fetched as often as the fetches can follow, and its last state is delivered")
    func burst() throws {
        let store = try open()
        let (fetches, mayEnd) = (Values<Int>(), DispatchSemaphore(value: 0))
        let isBlocked = Mutex(false)
        let tracked = Values<DatabaseRegion>()
        let observed = start(
            ValueObservation.trackingConstantRegion { db in
                fetches.add(1)
                if isBlocked.withLock({ $0 }) { mayEnd.wait() }
                return try Table("t").fetchCount(db)
            }.handleEvents(willTrackRegion: { tracked.add($0) }), store)
        expect(observed, 0)
        // The observer is added after the first value.
        tracked.wait { $0.count == 1 }
        isBlocked.withLock { $0 = true }
        for _ in 1...200 { try insert(store) }
        isBlocked.withLock { $0 = false }
        mayEnd.signal()
        expect(observed, 200)
        // The one that was blocked, and the one that followed for all the others.
        #expect(fetches.all.count <= 4)
        observed.cancellable.cancel()
        try store.close()
    }

    @Test("the store is not closed by an observation, and a closed store is an error")
    func closed() throws {
        let store = try open()
        let observed = start(Self.count, store)
        expect(observed, 0)
        try store.close()
        let late = start(Self.count, store)
        late.errors.wait { !$0.isEmpty }
        #expect(late.errors.all.count == 1 && late.values.all == [])
        observed.cancellable.cancel()
    }
}

/// A store whose asynchronous reads can be held back, and then refused as a read that got no lease.
private final class HoldingWriter: DatabaseWriter, SuspendableReader {
    private typealias Read = @Sendable (Result<Database, any Error>) -> Void

    private enum State {
        case passing
        case holding([Read])
    }

    private let store: SharedStore
    private let state = Mutex(State.passing)

    init(_ store: SharedStore) { self.store = store }

    func hold() { state.withLock { $0 = .holding([]) } }

    var holdsRead: Bool { state.withLock { if case .holding(let reads) = $0 { !reads.isEmpty } else { false } } }

    /// Refuses the reads that are held back, and passes later ones.
    func refuse() {
        let reads = state.withLock { state -> [Read] in
            defer { state = .passing }
            if case .holding(let reads) = state { return reads } else { return [] }
        }
        for read in reads { read(.failure(StoreError(.storeInUse, what: "No lease.", why: "Test.", remedy: "None."))) }
    }

    func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        let isHeld = state.withLock { state in
            guard case .holding(let reads) = state else { return false }
            state = .holding(reads + [value])
            return true
        }
        if !isHeld { store.asyncUnsafeRead(value) }
    }

    // MARK: The store's own

    var suspensionOfFile: DatabaseSuspension? { store.suspensionOfFile }
    var configuration: Configuration { store.configuration }
    var path: String { store.path }
    func close() throws { try store.close() }
    func interrupt() { store.interrupt() }
    func read<T>(_ value: (Database) throws -> T) throws -> T { try store.read(value) }
    func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await store.read(value)
    }
    func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try store.unsafeRead(value) }
    func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await store.unsafeRead(value)
    }
    func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T { try store.unsafeReentrantRead(value) }
    func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) { store.asyncRead(value) }
    func write<T>(_ updates: (Database) throws -> T) throws -> T { try store.write(updates) }
    func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await store.write(updates)
    }
    func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try store.writeWithoutTransaction(updates)
    }
    func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await store.writeWithoutTransaction(updates)
    }
    func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try store.unsafeReentrantWrite(updates)
    }
    func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try store.barrierWriteWithoutTransaction(updates)
    }
    func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await store.barrierWriteWithoutTransaction(updates)
    }
    func asyncBarrierWriteWithoutTransaction(_ updates: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        store.asyncBarrierWriteWithoutTransaction(updates)
    }
    func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        store.asyncWriteWithoutTransaction(updates)
    }
    func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        store.spawnConcurrentRead(value)
    }
    func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult { try store.checkpoint(mode) }
    func vacuum(into path: String) throws { try store.vacuum(into: path) }
}
