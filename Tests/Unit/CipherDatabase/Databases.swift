import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

/// Databases for tests: in memory, or on files with a raw key, which costs no derivation.
enum Databases {
    /// A configuration that gives the raw key; the file is a standard one, with its salt inside.
    static func configuration(_ change: (inout Configuration) -> Void = { _ in }) -> Configuration {
        var config = Configuration()
        config.prepareDatabase { db in try db.useRawKey(Data(repeating: 0x2a, count: 32)) }
        change(&config)
        return config
    }

    /// A pool on `app.db` of a folder.
    static func pool(
        _ folder: TemporaryFolder, _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> DatabasePool {
        try DatabasePool(path: folder.path("app.db"), configuration: configuration(change))
    }

    /// A pool with a table `t` of one column `a`.
    static func poolWithTable(
        _ folder: TemporaryFolder, _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> DatabasePool {
        let pool = try pool(folder, change)
        try pool.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        return pool
    }

    /// A database in memory with a table `t` of one column `a`.
    static func queueWithTable(_ change: (inout Configuration) -> Void = { _ in }) throws -> DatabaseQueue {
        var config = Configuration()
        change(&config)
        let queue = DatabaseQueue(configuration: config)
        try queue.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        return queue
    }
}

extension Database {
    /// How many rows table `t` has.
    func rowCount() throws -> Int { try Int.fetchOne(self, sql: "SELECT COUNT(*) FROM t") ?? -1 }

    /// Inserts one row into table `t`.
    func insert(_ value: (any DatabaseValueConvertible)?) throws {
        try execute(sql: "INSERT INTO t VALUES (?)", arguments: [value])
    }
}

/// SQL that runs until it is interrupted.
let endlessSQL = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"

/// Threads of a test, each with its own error.
final class Threads: Sendable {
    private let group = DispatchGroup()
    private let errors = Mutex<[String]>([])

    /// Whether all that were started have ended.
    var haveEnded: Bool { group.wait(timeout: .now()) == .success }

    func start(_ body: @escaping @Sendable () throws -> Void) {
        group.enter()
        Thread.detachNewThread { [self] in
            do { try body() } catch { errors.withLock { $0.append("\(error)") } }
            group.leave()
        }
    }

    /// Waits for all threads; records their errors, and a failure when they do not end.
    func join(within limit: TimeInterval = 30, sourceLocation: SourceLocation = #_sourceLocation) {
        let ended = group.wait(timeout: .now() + limit) == .success
        #expect(ended, "the threads do not end", sourceLocation: sourceLocation)
        #expect(errors.withLock { $0 } == [], sourceLocation: sourceLocation)
    }
}

/// A gate that threads wait at until it is opened.
final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func open(_ count: Int = 1) { for _ in 0..<count { semaphore.signal() } }

    /// Waits; false when nobody opens the gate.
    @discardableResult
    func wait(within limit: TimeInterval = 30) -> Bool { semaphore.wait(timeout: .now() + limit) == .success }

    /// Waits without blocking the thread of a task.
    func pass() async -> Bool { await eventually { self.semaphore.wait(timeout: .now()) == .success } }
}

/// A value that tasks share.
final class Shared<Value: Sendable>: Sendable {
    private let mutex: Mutex<Value>

    init(_ value: Value) { mutex = Mutex(value) }

    var value: Value { mutex.withLock { $0 } }

    func change(_ body: (inout Value) -> Void) { mutex.withLock { body(&$0) } }
}
