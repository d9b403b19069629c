import CipherDatabase
import CipherObservation
import Foundation
import Synchronization

struct PlannedFailure: Error {}

/// An observer that writes down its calls: `+shelf 1` for an insertion, `-` a deletion, `*` an update.
final class Recorder: TransactionObserver {
    var calls: [String] = []
    /// The kinds that were asked about, in order.
    var asked: [DatabaseEventKind] = []
    var observes: (DatabaseEventKind) -> Bool
    var veto: (any Error)?
    var onEvent: (DatabaseEvent) -> Void = { _ in }
    var onCommit: (Database) -> Void = { _ in }
    var onRollback: (Database) -> Void = { _ in }
    private let name: String

    init(_ name: String = "", observes: @escaping (DatabaseEventKind) -> Bool = { _ in true }) {
        self.name = name
        self.observes = observes
    }

    /// The calls since the last request.
    func take() -> [String] {
        defer { calls = [] }
        return calls
    }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        asked.append(eventKind)
        return observes(eventKind)
    }

    func databaseDidChange() { calls.append(name + "?") }

    func databaseDidChange(with event: DatabaseEvent) {
        let sign = [DatabaseEvent.Kind.insert: "+", .delete: "-", .update: "*"][event.kind] ?? "!"
        calls.append("\(name)\(sign)\(event.copy().tableName) \(event.rowID)")
        onEvent(event)
    }

    func databaseWillCommit() throws {
        calls.append(name + "will")
        if let veto { throw veto }
    }

    func databaseDidCommit(_ db: Database) {
        calls.append(name + "commit")
        onCommit(db)
    }

    func databaseDidRollback(_ db: Database) {
        calls.append(name + "rollback")
        onRollback(db)
    }
}

extension DatabaseQueue {
    /// A database in memory with the tables `shelf` and `jar`, of which a shelf has many; they go with their shelf.
    static func pantry() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE shelf (id INTEGER PRIMARY KEY, label TEXT, height INTEGER);
                    CREATE TABLE jar (
                        id INTEGER PRIMARY KEY, shelfID INTEGER REFERENCES shelf(id) ON DELETE CASCADE ON UPDATE CASCADE,
                        content TEXT NOT NULL DEFAULT 'plums');
                    """)
        }
        return queue
    }
}

/// The `DatabaseError` of a block; nil when it throws nothing or another error.
func databaseError(_ body: () throws -> some Any) -> DatabaseError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? DatabaseError
    }
}

/// A file for one test.
final class TemporaryFile {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("observation-\(UUID().uuidString).db").path

    /// A pool with a raw key, which costs no derivation.
    func pool(_ change: (inout Configuration) -> Void = { _ in }) throws -> DatabasePool {
        var config = Configuration()
        config.prepareDatabase { db in try db.useRawKey(Data(repeating: 0x2a, count: 32)) }
        change(&config)
        return try DatabasePool(path: path, configuration: config)
    }

    deinit {
        for suffix in ["", "-wal", "-shm", "-lock", "-sidecar", "-sidecar.bak"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
        }
    }
}

/// Values that tests collect on any thread.
final class Collected<Value: Sendable>: Sendable {
    private let mutex = Mutex<[Value]>([])
    private let arrivals = DispatchSemaphore(value: 0)

    func add(_ value: Value) {
        mutex.withLock { $0.append(value) }
        arrivals.signal()
    }

    var all: [Value] { mutex.withLock { $0 } }

    /// Waits until the values fulfil a condition, for 20 seconds at most.
    func wait(until condition: ([Value]) -> Bool) {
        let deadline = DispatchTime.now() + 20
        while !condition(all), arrivals.wait(timeout: deadline) == .success {}
    }
}

/// Random numbers that a seed determines.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    // SplitMix64: https://prng.di.unimi.it/splitmix64.c
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
