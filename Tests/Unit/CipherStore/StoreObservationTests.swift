import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestHarness
import TestKit
import Testing

/// Observers of a shared store, whose connections are closed and opened again.
@Suite(.serialized, .exclusive(.suspension)) struct StoreObservationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let calls = Calls()

    private final class Calls: Sendable {
        private let list = Mutex<[String]>([])
        func add(_ call: String) { list.withLock { $0.append(call) } }
        var count: Int { list.withLock { $0.count } }
        func take() -> [String] {
            list.withLock { list in
                defer { list = [] }
                return list
            }
        }
    }

    private final class Observer: TransactionObserver {
        let calls: Calls
        init(_ calls: Calls) { self.calls = calls }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {
            calls.add("\(event.tableName) \(event.rowID)")
        }
        func databaseDidCommit(_ db: Database) { calls.add("commit") }
        func databaseDidRollback(_ db: Database) { calls.add("rollback") }
    }

    private func open() throws -> SharedStore {
        var config = Configuration()
        config.observesSuspensionNotifications = true
        let store = try SharedStore.open(
            at: path, unlockedBy: TestKeys.source("raw"), configuration: config)
        try store.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") }
        return store
    }

    private func insert(_ store: SharedStore) throws {
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
    }

    @Test(
        "a store's observers stay when it was yielded, when it got another key, and when it was suspended"
    )
    func replacedConnections() async throws {
        let store = try open()
        let observer = Observer(calls)
        store.add(transactionObserver: observer)
        store.add(transactionObserver: Observer(calls), extent: .databaseLifetime)
        let region = try DatabaseRegionObservation(tracking: Table("t")).start(in: store) { [calls] _ in
            calls.add("region")
        }
        func expected(_ row: Int) -> [String] { ["t \(row)", "t \(row)", "commit", "commit", "region"] }
        try insert(store)
        #expect(calls.take() == expected(1))
        let request = try #require(try YieldRequest.ask(StorePaths(path)))
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(30)))
        lease.release()
        request.end()
        try insert(store)
        #expect(calls.take() == expected(2))
        #expect(try KeySwitch(path).run())
        // Commits during the switch are unknown: observations are notified once.
        #expect(waitUntil { calls.count == 1 })
        #expect(calls.take() == ["region"])
        try insert(store)
        #expect(calls.take() == expected(3))
        _ = await store.suspend(deadline: .seconds(10))
        #expect((try? insert(store)) == nil)
        store.resume()
        try insert(store)
        #expect(calls.take() == expected(4))
        withExtendedLifetime((region, observer)) {}
        try store.close()
    }

    @Test("a suspension rolls a transaction back, which observers hear")
    func suspension() throws {
        let store = try open()
        let observer = Observer(calls)
        store.add(transactionObserver: observer)
        let error = Result {
            try store.write { db in
                try db.execute(sql: "INSERT INTO t VALUES (1)")
                NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
                try db.execute(sql: "INSERT INTO t VALUES (2)")
            }
        }
        #expect(throws: DatabaseError.self) { try error.get() }
        #expect(calls.take() == ["t 1", "rollback"])
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        try insert(store)
        #expect(calls.take() == ["t 1", "commit"])
        withExtendedLifetime(observer) {}
    }

    // The function ran inside an access of the writing connection: a write in it trapped, and closing waited for ever.
    @Test("the function that is called when the store was moved may write, and may close the store")
    func lossHandler() async throws {
        let store = try open()
        let handled = Mutex<StoreError.Code?>(nil)
        let hasReturned = Flag()
        let cancellable = DatabaseRegionObservation(tracking: Table("t")).start(
            in: store,
            onError: { error in
                handled.withLock { $0 = (error as? StoreError)?.code }
                _ = try? insert(store)
                try? store.close()
                hasReturned.set()
            }, onChange: { _ in })
        try FileManager.default.moveItem(atPath: path, toPath: folder.path("old.db"))
        let isReturned = await eventually { hasReturned.isSet }
        #expect(isReturned)
        #expect(handled.withLock { $0 } == .storeMoved)
        withExtendedLifetime(cancellable) {}
    }

    // The monitor was stopped when its broker was deallocated. Another thread may hold that a moment longer than the
    // next observation takes to start: then the next one was not woken.
    @Test("an observer is woken although another thread still holds what the former one used")
    func lateRelease() throws {
        let store = try open()
        func isWatching() -> Bool { store.unsafeReentrantWrite { $0.monitorLink?.holderRow()?.isWatching == true } }
        func observe() throws -> AnyDatabaseCancellable {
            try DatabaseRegionObservation(tracking: Table("t")).start(in: store) { _ in }
        }
        let former = try observe()
        var held = store.unsafeReentrantWrite { $0.observer }
        #expect(held != nil && isWatching())
        former.cancel()
        try store.write { try $0.execute(sql: "DELETE FROM t") }
        let hasLeft = waitUntil { store.unsafeReentrantWrite { $0.observer == nil } }
        #expect(hasLeft)
        #expect(!isWatching())
        let next = try observe()
        held = nil
        #expect(isWatching())
        #expect(held == nil)
        withExtendedLifetime(next) {}
        try store.close()
    }

    // MARK: Changes of others

    /// Suspends the process inside a statement.
    private final class Interruption: Sendable {
        private let sql: String
        private let isArmed = Flag()
        private let hasBegun = Flag()
        /// Whether the process is suspended: a test that resumes it waits for this, or the suspension might come last.
        let isOver = Flag()

        /// - Parameter sql: A part of the statement.
        init(of sql: String) { self.sql = sql }

        /// Suspends inside the next such statement, and inside no later one.
        func arm() { isArmed.set() }

        func pass(_ sql: String) {
            guard isArmed.isSet, !hasBegun.isSet, sql.contains(self.sql) else { return }
            hasBegun.set()
            NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
            isOver.set()
        }
    }

    private func openQueue(_ interruption: Interruption? = nil) throws -> DatabaseQueue {
        var config = Configuration()
        config.journalMode = .wal
        config.observesSuspensionNotifications = interruption != nil
        config.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0x2a, count: 32))
            if let interruption { db.trace { interruption.pass("\($0)") } }
        }
        return try DatabaseQueue(path: path, configuration: config)
    }

    /// Another object that writes to a recorded table, a queue whose read of the change is interrupted, and the token
    /// before it.
    private func interruptedQueue(
        _ interruption: Interruption
    ) throws -> (other: DatabaseQueue, queue: DatabaseQueue, token: HistoryToken) {
        let other = try openQueue()
        try other.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            try db.recordHistory(of: .tables(["t"]))
        }
        let queue = try openQueue(interruption)
        let token = try queue.read { try $0.historyToken() }
        try other.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") }
        interruption.arm()
        return (other, queue, token)
    }

    // The sequence ended with the error of the interrupted read, and the program never heard of changes again.
    @Test("a sequence of changes continues when a suspension that interrupted its read has ended")
    func interruptedChanges() async throws {
        let interruption = Interruption(of: "WHERE seq > ? ORDER BY seq LIMIT")
        let (other, queue, token) = try interruptedQueue(interruption)
        let task = Task {
            var keys: [Set<[String: DatabaseValue]>] = []
            for try await changes in queue.externalChanges(since: token) {
                keys.append(changes.tables["t"]?.inserted ?? [])
                if keys.count == 2 { break }
                try await other.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") }
            }
            return keys
        }
        let isInterrupted = await eventually { interruption.isOver.isSet }
        #expect(isInterrupted)
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        let keys = try await task.value
        #expect(keys == [[["id": 1.databaseValue]], [["id": 2.databaseValue]]])
    }

    @Test("a sequence of changes begins with its iterator although a suspension interrupts its first read")
    func interruptedBeginning() async throws {
        let interruption = Interruption(of: "ORDER BY seq DESC LIMIT 1")
        let (other, queue, _) = try interruptedQueue(interruption)
        var iterator = queue.externalChanges.makeAsyncIterator()
        #expect(interruption.isOver.isSet)
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        try await other.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") }
        let changes = try await iterator.next()
        #expect(changes?.tables["t"]?.inserted == [["id": 2.databaseValue]])
    }

    @Test("a sequence of changes that waits for the end of a suspension ends with its task")
    func cancelledChanges() async throws {
        let interruption = Interruption(of: "WHERE seq > ? ORDER BY seq LIMIT")
        let (other, queue, token) = try interruptedQueue(interruption)
        let task = Task {
            var iterator = queue.externalChanges(since: token).makeAsyncIterator()
            return try await iterator.next() == nil
        }
        let isInterrupted = await eventually { interruption.isOver.isSet }
        #expect(isInterrupted)
        task.cancel()
        let hasEnded = try await task.value
        #expect(hasEnded)
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        try other.close()
    }

    @Test("a store that is closed cannot be observed")
    func closed() throws {
        let store = try open()
        try store.close()
        store.add(transactionObserver: Observer(calls), extent: .databaseLifetime)
        #expect(throws: DatabaseError.self) {
            try DatabaseRegionObservation(tracking: .fullDatabase).start(in: store) { _ in }
        }
    }
}
