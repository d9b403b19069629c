import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Accesses of a store that is given up for one who asks: each form waits, and none is lost.
@Suite struct YieldedAccessTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func open(_ configuration: Configuration = Configuration()) throws -> SharedStore {
        let store = try SharedStore.open(
            at: path, unlockedBy: TestKeys.source("raw"), configuration: configuration)
        try store.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") }
        return store
    }

    private func count(_ db: Database) throws -> Int { try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") ?? 0 }

    private func rows(_ store: SharedStore) throws -> Int { try store.read(count) }

    private func numbers(_ store: SharedStore) throws -> [Int] {
        try store.read { try Int.fetchAll($0, sql: "SELECT a FROM t ORDER BY rowid") }
    }

    private func ask() throws -> YieldRequest { try #require(try YieldRequest.ask(StorePaths(path))) }

    /// A request that has the store for itself.
    private func takeOver() throws -> (request: YieldRequest, lease: HeldLock) {
        let request = try ask()
        return (request, try #require(try request.exclusiveLease(until: .now + .seconds(30))))
    }

    private func end(_ holder: (request: YieldRequest, lease: HeldLock)) {
        holder.lease.release()
        holder.request.end()
    }

    @Test("accesses in every form wait for the end of a request, and run in the end")
    func allForms() async throws {
        let store = try open()
        let holder = try takeOver()
        let results = Mutex<[String]>([])
        let note: @Sendable (String) -> Void = { name in results.withLock { $0.append(name) } }
        let insert = "INSERT INTO t VALUES (1)"
        let forms: [(String, @Sendable () throws -> Void)] = [
            ("read", { _ = try store.read(count) }),
            ("unsafeRead", { _ = try store.unsafeRead(count) }),
            ("unsafeReentrantRead", { _ = try store.unsafeReentrantRead(count) }),
            ("write", { try store.write { try $0.execute(sql: insert) } }),
            ("writeWithoutTransaction", { try store.writeWithoutTransaction { try $0.execute(sql: insert) } }),
            ("unsafeReentrantWrite", { try store.unsafeReentrantWrite { try $0.execute(sql: insert) } }),
            ("barrier", { try store.barrierWriteWithoutTransaction { try $0.execute(sql: insert) } }),
            ("checkpoint", { _ = try store.checkpoint() }),
            ("vacuum", { try store.vacuum() }),
            ("vacuum into", { try store.vacuum(into: folder.path("copy.db")) }),
            ("snapshot", { _ = try store.makeSnapshot().read(count) }),
        ]
        for (name, run) in forms {
            Thread.detachNewThread {
                do {
                    try run()
                    note(name)
                } catch { note("\(name): \(error)") }
            }
        }
        store.asyncRead { note((try? count($0.get())) == nil ? "asyncRead failed" : "asyncRead") }
        store.asyncUnsafeRead { note((try? count($0.get())) == nil ? "asyncUnsafeRead failed" : "asyncUnsafeRead") }
        store.asyncBarrierWriteWithoutTransaction { note((try? $0.get()) == nil ? "failed" : "asyncBarrier") }
        store.asyncWriteWithoutTransaction { note((try? count($0)) == nil ? "failed" : "asyncWrite") }
        let tasks = [
            Task { _ = try await store.read { try count($0) } },
            Task { try await store.write { try $0.execute(sql: insert) } },
            Task { try await store.writeWithoutTransaction { try $0.execute(sql: insert) } },
            Task { try await store.barrierWriteWithoutTransaction { try $0.execute(sql: insert) } },
        ]
        #expect(results.withLock { $0 } == [])
        end(holder)
        for task in tasks { try await task.value }
        let all = forms.map(\.0) + ["asyncRead", "asyncUnsafeRead", "asyncBarrier", "asyncWrite"]
        #expect(await eventually { results.withLock { $0.count } == all.count })
        #expect(results.withLock { Set($0) } == Set(all))
        #expect(try rows(store) == 7)
        try store.close()
    }

    @Test("tasks that wait block no thread, and one that is cancelled stops waiting")
    func tasks() async throws {
        let store = try open()
        let holder = try takeOver()
        // Many more than there are threads for tasks.
        let tasks = (0..<100).map { _ in
            Task { try await store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
        }
        let cancelled = Task { try await store.read { try count($0) } }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        end(holder)
        for task in tasks { try await task.value }
        #expect(try rows(store) == 100)
    }

    @Test("writes that nobody waits for keep their order through a request")
    func order() async throws {
        let store = try open()
        let holder = try takeOver()
        for number in 1...50 {
            store.asyncWriteWithoutTransaction { try? $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [number]) }
        }
        end(holder)
        for number in 51...100 {
            store.asyncWriteWithoutTransaction { try? $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [number]) }
        }
        #expect(await eventually { (try? rows(store)) == 100 })
        #expect(try numbers(store) == Array(1...100))
    }

    @Test("an access inside an access goes on while the store is drained, and so does what it spawns")
    func nested() async throws {
        let store = try open()
        let results = Mutex<[String]>([])
        let request = try ask()
        // Nobody is let in from the moment at which somebody waits outside; so the request is begun inside.
        request.end()
        let (isInside, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            do {
                try store.writeWithoutTransaction { db in
                    isInside.signal()
                    mayGoOn.wait()
                    _ = try store.read { try count($0) }
                    try store.unsafeReentrantWrite { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
                    store.spawnConcurrentRead { result in
                        let found = try? count(result.get())
                        results.withLock { $0.append("spawned \(found ?? -1)") }
                    }
                }
                results.withLock { $0.append("ended") }
            } catch { results.withLock { $0.append("\(error)") } }
        }
        #expect(await eventually { isInside.wait(timeout: .now()) == .success })
        let second = try ask()
        #expect(try second.exclusiveLease(until: .now + .milliseconds(50)) == nil)
        mayGoOn.signal()
        let lease = try #require(try second.exclusiveLease(until: .now + .seconds(30)))
        // The thread tells of the end only behind it.
        #expect(await eventually { results.withLock { Set($0) } == ["ended", "spawned 1"] })
        lease.release()
        second.end()
        #expect(try rows(store) == 1)
    }

    @Test("closing a store that is given up ends every wait with storeClosed")
    func closing() async throws {
        let store = try open()
        let holder = try takeOver()
        let thread = Mutex<StoreError.Code?>(nil)
        let kept = Mutex<StoreError.Code?>(nil)
        Thread.detachNewThread {
            let code = storeError { try rows(store) }
            thread.withLock { $0 = code }
        }
        store.asyncRead { result in
            let code = storeError { try result.get() }
            kept.withLock { $0 = code }
        }
        let task = Task { try await store.read { try count($0) } }
        try store.close()
        #expect(await eventually { thread.withLock { $0 } == .storeClosed && kept.withLock { $0 } == .storeClosed })
        let error = await #expect(throws: StoreError.self) { try await task.value }
        #expect(error?.code == .storeClosed)
        end(holder)
        #expect(storeError { try rows(store) } == .storeClosed)
        #expect(throws: DatabaseError.self) { try store.writeWithoutTransaction { try $0.execute(sql: "SELECT 1") } }
    }

    @Test("statistics, label and notices go through a pause")
    func carryOver() throws {
        var configuration = Configuration()
        configuration.label = "importer"
        let store = try open(configuration)
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        try store.checkpoint()
        let (writes, checkpoints, notices) = (
            store.writeStatistics.count, store.checkpointStatistics.count, store.notices
        )
        end(try takeOver())
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        try store.checkpoint()
        #expect(store.writeStatistics.count > writes && store.writeStatistics.usesWriterQueue)
        #expect(store.checkpointStatistics.count == checkpoints + 1)
        #expect(store.notices == notices)
        let holders = Array(try StoreHolders(of: path))
        #expect(holders.count == 1)
        #expect(holders.first?.label == "importer" && holders.first?.uses == [.lease, .writer])
    }

    @Test("a store that cannot be opened again throws why, and the next access tries again")
    func transientFailure() throws {
        let mayOpen = Flag()
        var configuration = Configuration()
        let openings = Mutex(0)
        configuration.prepareDatabase { _ in
            let number = openings.withLock { count in
                count += 1
                return count
            }
            if number > 1 && !mayOpen.isSet { throw DatabaseError(resultCode: .SQLITE_CANTOPEN) }
        }
        let store = try open(configuration)
        end(try takeOver())
        #expect(throws: DatabaseError.self) { try store.read(count) }
        #expect(throws: DatabaseError.self) { try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
        mayOpen.set()
        #expect(try rows(store) == 0)
    }

    @Test("a connection that cannot be closed keeps the lease, and the store goes on")
    func stuck() throws {
        let store = try open()
        var kept: Statement? = try store.writeWithoutTransaction { try $0.makeStatement(sql: "SELECT 1") }
        let request = try ask()
        #expect(try request.exclusiveLease(until: .now + .milliseconds(100)) == nil)
        #expect(try rows(store) == 0)
        request.end()
        #expect(kept != nil)
        kept = nil
        end(try takeOver())
        #expect(try rows(store) == 0)
    }
}
