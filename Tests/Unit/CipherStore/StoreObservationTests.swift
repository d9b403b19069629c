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
        // What was committed during the switch is not known: observations are notified once.
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
