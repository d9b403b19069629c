import CipherDatabase
import CipherObservation
import CipherRecords
import Dispatch
import Synchronization
import Testing

/// One observation for several clients.
@Suite struct SharedValueObservationTests {
    private typealias Lines = ValueObservationEventsTests.Lines
    private typealias Unscheduled = ValueObservationEventsTests.Unscheduled

    private let queue = DatabaseQueue()
    private let lines = Lines()
    private let failure = Flag()
    private let began = ["start", "fetch", "tracked region: shelf(*)"]

    private final class Flag: Sendable {
        private let value = Mutex(false)
        var isSet: Bool {
            get { value.withLock { $0 } }
            set { value.withLock { $0 = newValue } }
        }
    }

    init() throws { try queue.write { try $0.execute(sql: "CREATE TABLE shelf (id INTEGER PRIMARY KEY)") } }

    private func insert() throws { try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") } }

    private func shared(
        _ extent: SharedValueObservationExtent, _ scheduler: some ValueObservationScheduler = Unscheduled()
    ) -> SharedValueObservation<Int> {
        ValueObservation.tracking { [failure] db in
            if failure.isSet { throw PlannedFailure() }
            return try Table("shelf").fetchCount(db)
        }.print(to: lines).shared(in: queue, scheduling: scheduler, extent: extent)
    }

    private func client(
        _ shared: SharedValueObservation<Int>, onChange: @escaping @Sendable (Int) -> Void = { _ in }
    ) -> (values: Collected<Int>, errors: Collected<String>, cancellable: AnyDatabaseCancellable) {
        let (values, errors) = (Collected<Int>(), Collected<String>())
        let cancellable = shared.start(
            onError: { errors.add("\($0)") },
            onChange: {
                values.add($0)
                onChange($0)
            })
        return (values, errors, cancellable)
    }

    @Test("with the lifetime of the observation it ends with its object and its clients")
    func observationLifetime() throws {
        var observation: SharedValueObservation<Int>? = shared(.observationLifetime)
        #expect(lines.lines.all == [])
        for _ in 1...2 {
            let client = try client(#require(observation))
            #expect(client.values.all == [0])
            client.cancellable.cancel()
            lines.expect(began + ["value: 0"])
        }
        let last = try client(#require(observation))
        observation = nil
        try insert()
        last.values.wait { $0.count == 2 }
        #expect(last.values.all == [0, 1])
        last.cancellable.cancel()
        lines.expect(began + ["value: 0", "database did change", "fetch", "value: 1", "cancel"])
    }

    @Test("while it is observed: it ends with the last client, and starts again with the next")
    func whileObserved() throws {
        let observation = shared(.whileObserved)
        let (first, second) = (client(observation), client(observation))
        #expect(first.values.all == [0] && second.values.all == [0])
        first.cancellable.cancel()
        lines.expect(began + ["value: 0"])
        second.cancellable.cancel()
        lines.expect(began + ["value: 0", "cancel"])
        try insert()
        let third = client(observation)
        #expect(third.values.all == [1])
        third.cancellable.cancel()
        lines.expect(began + ["value: 0", "cancel"] + began + ["value: 1", "cancel"])
    }

    @Test("clients that come later get the last value first, then the same as the others")
    func laterClients() throws {
        let delivery = DispatchQueue(label: "delivery")
        let observation = shared(.whileObserved, .async(onQueue: delivery))
        let first = client(observation)
        first.values.wait { $0 == [0] }
        try insert()
        first.values.wait { $0 == [0, 1] }
        let second = client(observation)
        second.values.wait { $0 == [1] }
        try insert()
        first.values.wait { $0.count == 3 }
        second.values.wait { $0.count == 2 }
        first.cancellable.cancel()
        try insert()
        second.values.wait { $0.count == 3 }
        #expect(first.values.all == [0, 1, 2] && second.values.all == [1, 2, 3])
        second.cancellable.cancel()
    }

    @Test("a client may be added and cancelled by a value", arguments: [false, true])
    func reentrancy(isKept: Bool) throws {
        let observation = shared(isKept ? .observationLifetime : .whileObserved)
        let inner = Collected<Int>()
        let outer = client(observation) { _ in
            observation.start(onError: { _ in }, onChange: { inner.add($0) }).cancel()
        }
        #expect(outer.values.all == [0] && inner.all == [0])
        lines.expect(began + ["value: 0"])
        outer.cancellable.cancel()
    }

    @Test("a client that another one cancels by a value does not get that value")
    func cancelledByAnother() throws {
        let observation = shared(.whileObserved)
        let second = Mutex<AnyDatabaseCancellable?>(nil)
        let first = client(observation) { if $0 == 1 { second.withLock { $0 }?.cancel() } }
        let other = client(observation)
        second.withLock { $0 = other.cancellable }
        try insert()
        first.values.wait { $0.count == 2 }
        try insert()
        first.values.wait { $0.count == 3 }
        #expect(other.values.all == [0])
        first.cancellable.cancel()
    }

    @Test("an error is reported to all; only what is observed anew recovers from it")
    func errors() throws {
        for extent in [SharedValueObservationExtent.whileObserved, .observationLifetime] {
            failure.isSet = false
            let observation = shared(extent)
            let (first, second) = (client(observation), client(observation))
            let count = try queue.read { try Table("shelf").fetchCount($0) }
            failure.isSet = true
            try insert()
            first.errors.wait { !$0.isEmpty }
            second.errors.wait { !$0.isEmpty }
            #expect(first.values.all == [count] && second.values.all == [count])
            let third = client(observation)
            #expect(third.errors.all == ["PlannedFailure()"] && third.values.all == [])
            failure.isSet = false
            let fourth = client(observation)
            let isRecovered = extent == .whileObserved
            #expect(fourth.values.all == (isRecovered ? [count + 1] : []))
            #expect(fourth.errors.all.count == (isRecovered ? 0 : 1))
            #expect(first.errors.all.count == 1)
            for client in [first, second, third, fourth] { client.cancellable.cancel() }
        }
    }

    @Test("a sequence is a client")
    func sequences() async throws {
        let observation = shared(.whileObserved, .task)
        for try await value in observation.values() {
            if value == 2 { break }
            try await queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        }
        lines.lines.wait { $0.last == "cancel" }
        #expect(lines.lines.all.last == "cancel")
        func compiles(reader: any DatabaseReader) -> SharedValueObservation<Void> {
            ValueObservation.trackingConstantRegion { _ in }.shared(in: reader)
        }
        _ = compiles(reader: queue)
    }

    @Test("clients that come and go on several threads get values in order, each once, and the last")
    func manyThreads() throws {
        let file = TemporaryFile()
        let pool = try file.pool()
        try pool.write { try $0.execute(sql: "CREATE TABLE shelf (id INTEGER PRIMARY KEY)") }
        for extent in [SharedValueObservationExtent.whileObserved, .observationLifetime] {
            let observation = ValueObservation.trackingConstantRegion { try Table("shelf").fetchCount($0) }
                .shared(in: pool, scheduling: .task, extent: extent)
            let isWrong = Flag()
            DispatchQueue.concurrentPerform(iterations: 4) { thread in
                for _ in 1...40 {
                    if thread == 0 {
                        try? pool.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
                        continue
                    }
                    let values = Collected<Int>()
                    let before = (try? pool.read { try Table("shelf").fetchCount($0) }) ?? 0
                    let cancellable = observation.start(onError: { _ in isWrong.isSet = true }, onChange: values.add)
                    values.wait { $0.last ?? -1 >= before }
                    cancellable.cancel()
                    let all = values.all
                    if all.isEmpty || zip(all, all.dropFirst()).contains(where: >) { isWrong.isSet = true }
                }
            }
            #expect(!isWrong.isSet)
        }
    }
}
