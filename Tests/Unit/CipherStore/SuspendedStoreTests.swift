import Foundation
import StoreSharing
import Synchronization
import TestHarness
import TestKit
import Testing

@testable import CipherStore

/// A shared store that is suspended and resumed, by its own methods and by notifications.
@Suite(.serialized, .exclusive(.suspension)) struct SuspendedStoreTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    private func open(observing: Bool = false, at path: String? = nil, scheme: KeyScheme = .slots) throws -> SharedStore
    {
        var config = Configuration()
        config.keyScheme = scheme
        config.observesSuspensionNotifications = observing
        let store = try SharedStore.open(at: path ?? self.path, unlockedBy: source, configuration: config)
        if path == nil { try store.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") } }
        return store
    }

    private func insert(_ store: SharedStore) throws {
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
    }

    private func count(_ store: SharedStore) throws -> Int? {
        try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    }

    private func message(_ body: () throws -> some Any) -> String? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? DatabaseError)?.message ?? "\(error)"
        }
    }

    @Test("a suspension of a store that observes nothing is proven, refuses writes and lets reads go on")
    func report() async throws {
        let store = try open()
        let report = await store.suspend(deadline: .seconds(5))
        #expect(report.isReleased)
        #expect(report.heldLocks == [])
        #expect(report.proof == .systemLockTable || !FileManager.default.fileExists(atPath: "/proc/locks"))
        #expect("\(report)".contains("released"))
        #expect(message { try insert(store) } == "Database is suspended")
        #expect(try count(store) == 0)
        #expect(try await store.read { try $0.tableExists("t") })
        let again = await store.suspend()
        #expect(again.isReleased && again.rolledBackTransactions == 0)
        store.resume()
        store.resume()
        try insert(store)
        #expect(try count(store) == 1)
    }

    @Test("a report counts what was rolled back and what was interrupted")
    func counts() async throws {
        let store = try open()
        let (isOpen, isOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let result = Mutex<String?>(nil)
        let thread = Thread {
            let text = message {
                try store.write { db in
                    try db.execute(sql: "INSERT INTO t VALUES (1)")
                    isOpen.signal()
                    isOver.wait()
                }
            }
            result.withLock { $0 = text ?? "none" }
        }
        thread.start()
        #expect(await eventually { isOpen.wait(timeout: .now()) == .success })
        let report = await store.suspend()
        #expect(report.isReleased && report.rolledBackTransactions == 1)
        isOver.signal()
        #expect(await eventually { result.withLock { $0 } == "Database is suspended" })
        store.resume()
        #expect(try count(store) == 0)
    }

    @Test("a store observes notifications only when it is told to, and the last word holds")
    func notifications() async throws {
        let store = try open(observing: true)
        NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
        defer { NotificationCenter.default.post(name: Database.resumeNotification, object: nil) }
        #expect(store.isSuspended)
        let late = try open(observing: true, at: path)
        #expect(late.isSuspended)
        #expect(message { try insert(late) } == "Database is suspended")
        #expect(try count(late) == 0)
        #expect(await late.suspend().isReleased)
        #expect(message { try open(observing: true, at: folder.path("new.db")) } == "Database is suspended")
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        try insert(late)
        try insert(store)
        _ = try open(observing: true, at: folder.path("new.db"))
    }

    @Test("a direct store that got another key during its suspension throws keyRotated behind it")
    func rotated() async throws {
        let store = try open(scheme: .direct)
        await store.suspend()
        let files = SidecarFiles(databasePath: path)
        var sidecar = try #require(files.read()[.main].parsed?.claimed.next(.ready))
        sidecar.epoch = 2
        let material = try source.read()
        try files.write(sidecar, dataKey: material.dataKey(salt: sidecar.salt, settings: sidecar.settings))
        store.resume()
        let error = #expect(throws: StoreError.self) { try count(store) }
        #expect(error?.code == .keyRotated(from: 1, to: 2))
        #expect(storeError { try insert(store) } == .keyRotated(from: 1, to: 2))
    }

    @Test("a read that comes while another one opens a suspended store goes on beside it")
    func readBesideOpening() async throws {
        let store = try open()
        await store.suspend()
        let connections = store.connections
        let isDone = Flag()
        let outcome = Mutex<Bool?>(nil)
        connections.work.withLock { _ in
            Thread.detachNewThread {
                // It opens the connections, and lasts until the other one has ended.
                let wentOn = try? store.read { _ in waitUntil { isDone.isSet } }
                outcome.withLock { $0 = wentOn ?? false }
            }
            #expect(waitUntil { connections.state.withLock { $0.connections } == .reopening(.suspension) })
            Thread.detachNewThread {
                if (try? count(store)) == 0 { isDone.set() }
            }
            #expect(waitUntil { connections.waiters.count == 1 })
        }
        #expect(await eventually(within: .seconds(60)) { outcome.withLock { $0 } != nil })
        #expect(outcome.withLock { $0 } == true)
        store.resume()
        try store.close()
    }

    @Test("a suspension that is over at once ends an opening that waits with SQLITE_ABORT, never as a cancellation")
    func openingThatWaits() throws {
        // Story: what had ended the wait was asked for after it, when the store had been resumed.
        try open().close()
        let held = try #require(try LockFile(path: path + "-lock", likeFile: path).tryLock(.opening, .exclusive))
        defer { held.release() }
        let (isOver, ended) = (Flag(), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            while !isOver.isSet {
                NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
                NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
            }
            ended.signal()
        }
        var aborted = 0
        for number in 0..<400 where number < 120 || aborted == 0 {
            do {
                // Where it is suspended at its beginning it waits for nothing.
                try open(observing: true, at: path).close()
            } catch DatabaseError.SQLITE_ABORT, DatabaseError.SQLITE_INTERRUPT {
                aborted += 1
            } catch {
                Issue.record("\(error)")
                break
            }
        }
        isOver.set()
        ended.wait()
        #expect(aborted > 0)
    }

    @Test("closing a suspended store ends it, and those who wait for its resumption hear of it")
    func closing() async throws {
        let store = try open()
        await store.suspend()
        let task = Task { try await store.writeWhenResumed { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
        try store.close()
        let error = await #expect(throws: StoreError.self) { try await task.value }
        #expect(error?.code == .storeClosed)
    }

    @Test("a write waits for the resumption, and runs again when a suspension undoes it")
    func writeWhenResumed() async throws {
        let store = try open()
        await store.suspend()
        let runs = Mutex(0)
        let (isInside, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let task = Task {
            try await store.writeWhenResumed { db in
                let run = runs.withLock { runs in
                    runs += 1
                    return runs
                }
                try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [run])
                if run == 1 {
                    isInside.signal()
                    mayGoOn.wait()
                }
                return try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t")
            }
        }
        #expect(runs.withLock { $0 } == 0)
        store.resume()
        #expect(await eventually { isInside.wait(timeout: .now()) == .success })
        await store.suspend()
        mayGoOn.signal()
        store.resume()
        #expect(try await task.value == 1)
        #expect(runs.withLock { $0 } == 2)
    }

    @Test("a write that is undone again and again gives up; its own errors and cancellations come at once")
    func limits() async throws {
        struct Mine: Error {}
        let store = try open()
        let runs = Mutex(0)
        await #expect(throws: DatabaseError.self) {
            try await store.writeWhenResumed(attempts: 3) { db in
                runs.withLock { $0 += 1 }
                try db.execute(sql: "INSERT INTO t VALUES (1)")
                store.suspendAndResumeHere()
                try db.execute(sql: "INSERT INTO t VALUES (2)")
            }
        }
        #expect(runs.withLock { $0 } == 3)
        await #expect(throws: Mine.self) { try await store.writeWhenResumed { _ in throw Mine() } }
        await store.suspend()
        let task = Task { try await store.writeWhenResumed { try $0.execute(sql: "INSERT INTO t VALUES (3)") } }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        store.resume()
        #expect(try count(store) == 0)
    }
}

extension SharedStore {
    /// Suspends the store from inside an access, as a notification's handler might.
    fileprivate func suspendAndResumeHere() {
        let isOver = DispatchSemaphore(value: 0)
        Task.detached {
            await self.suspend()
            self.resume()
            isOver.signal()
        }
        isOver.wait()
    }
}
