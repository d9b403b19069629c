@testable import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct MemoryPressureTests {
    /// Tells when the test says so.
    private final class FakeSource: MemoryPressureSource {
        let tellers = Mutex<[@Sendable () -> Void]>([])
        func start(_ tell: @escaping @Sendable () -> Void) { tellers.withLock { $0.append(tell) } }
        func tell() { for teller in tellers.withLock({ $0 }) { teller() } }
        var startCount: Int { tellers.withLock { $0.count } }
    }

    private final class Holder: MemoryHolder {
        let calls = Mutex(0)
        func releaseMemoryEventually() { calls.withLock { $0 += 1 } }
    }

    @Test("the source is started with the first database, and every database that lives is asked")
    func monitor() {
        let source = FakeSource()
        let monitor = MemoryPressureMonitor(source: source)
        #expect(source.startCount == 0)
        let first = Holder()
        var second: Holder? = Holder()
        monitor.add(first)
        if let second { monitor.add(second) }
        #expect(source.startCount == 1)
        source.tell()
        #expect(first.calls.withLock { $0 } == 1 && second?.calls.withLock { $0 } == 1)
        weak let gone = second
        second = nil
        #expect(gone == nil)
        source.tell()
        #expect(first.calls.withLock { $0 } == 2)
    }

    /// How many connections were prepared.
    private final class Count: Sendable {
        private let value = Mutex(0)
        func add() { value.withLock { $0 += 1 } }
        var now: Int { value.withLock { $0 } }
    }

    private func readersOpened(
        folder: TemporaryFolder, _ change: (inout Configuration) -> Void, _ told: (DatabasePool) -> Void
    ) throws -> Int {
        let count = Count()
        let pool = try Databases.pool(folder) { config in
            config.prepareDatabase { _ in count.add() }
            change(&config)
        }
        try pool.read { _ in }
        let before = count.now
        told(pool)
        try pool.read { _ in }
        try pool.close()
        return count.now - before
    }

    @Test("a pool gives its readers back when memory is short, unless it is told to keep them, or to do nothing")
    func pool() throws {
        let shared = MemoryPressureMonitor.shared
        #expect(try readersOpened(folder: TemporaryFolder(), { _ in }, { _ in shared.releaseMemory() }) == 1)
        #expect(try readersOpened(folder: TemporaryFolder(), { _ in }, { $0.releaseMemoryEventually() }) == 1)
        let keeping = try readersOpened(
            folder: TemporaryFolder(), { $0.persistentReadOnlyConnections = true }, { _ in shared.releaseMemory() })
        #expect(keeping == 0)
        let manual = try readersOpened(
            folder: TemporaryFolder(), { $0.automaticMemoryManagement = false }, { _ in shared.releaseMemory() })
        #expect(manual == 0)
    }

    @Test("giving memory back keeps what a database in memory holds, and does nothing to a closed one")
    func keepsData() throws {
        let queue = try Databases.queueWithTable()
        try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        queue.releaseMemoryEventually()
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 1)
        try queue.close()
        queue.releaseMemoryEventually()
        queue.releaseMemory()
        #expect(throws: DatabaseError.self) { try queue.read { _ in } }
    }

    @Test("many threads read while memory is given back again and again")
    func besideReads() throws {
        for keeping in [false, true] {
            let folder = TemporaryFolder()
            let pool = try Databases.poolWithTable(folder) { $0.persistentReadOnlyConnections = keeping }
            try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (7)") }
            DispatchQueue.concurrentPerform(iterations: 6) { number in
                for _ in 0..<50 {
                    if number == 0 { pool.releaseMemoryEventually() }
                    #expect((try? pool.read { try Int.fetchOne($0, sql: "SELECT a FROM t") }) == 7)
                }
            }
            try pool.close()
            withExtendedLifetime(folder) {}
        }
    }
}
