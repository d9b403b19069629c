import CBaseline
import CipherStore
import Foundation
import Synchronization

/// The work of a process of the benchmark with the store.
enum ObservingRole: String {
    /// A `DatabaseRegionObservation`: its callback reads the last row.
    case region
    /// A `ValueObservation` that fetches the last row.
    case value
    /// The store is open, and nothing is observed.
    case none
    /// Opens the store, reads and closes it, again and again.
    case opener
}

/// A process that observes a table of a store, beside one that writes.
///
/// It prints `ready` when it observes, and answers the lines that it reads until its input ends: `begin` forgets what
/// was counted, `report` prints ``ObservingReport``, and `await N` answers when row N was delivered.
final class ObservationWorker: Sendable {
    static let createTables = """
        CREATE TABLE stamped (id INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
        CREATE TABLE untouched (id INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
        """
    private static let lastRow = "SELECT id, stamp FROM "

    private let role: ObservingRole
    private let table: String
    private let path: String
    private let counted = Mutex(Counted())
    private let arrivals = DispatchSemaphore(value: 0)

    private struct Counted {
        var callbacks = 0
        var fetches = 0
        /// The row that was delivered last, and when.
        var last: Int64 = 0
        var lastTime: UInt64 = 0
        var latencies: [UInt64] = []
        var processorSeconds = 0.0
        var sleeps: Int64 = 0
    }

    /// - Parameter work: The role, the table and the path, with commas between.
    init(_ work: String) throws {
        let words = work.split(separator: ",", maxSplits: 2).map(String.init)
        guard words.count == 3, let role = ObservingRole(rawValue: words[0]) else {
            throw BenchmarkError(description: "--observation-child ROLE,TABLE,PATH")
        }
        self.role = role
        table = words[1]
        path = words[2]
    }

    /// The clock of all processes of the machine, in nanoseconds.
    static var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    static func open(_ path: String) throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: Fixture.keySource)
    }

    // MARK: Work

    func run() throws {
        if role == .opener { return try openAgainAndAgain() }
        let store = try Self.open(path)
        let observation = try observe(store)
        answer("ready")
        while let line = readLine() {
            let words = line.split(separator: " ")
            switch words.first {
            case "begin":
                counted.withLock { $0 = Counted(processorSeconds: processor_seconds(), sleeps: sleep_count()) }
                answer("begun")
            case "report": answer(report().line)
            case "await":
                let row = Int64(words.last ?? "") ?? 0
                while counted.withLock({ $0.last < row }), arrivals.wait(timeout: .now() + 30) == .success {}
                answer(report().line)
            default: throw BenchmarkError(description: "unknown line: \(line)")
            }
        }
        observation?.cancel()
        try store.close()
    }

    private func observe(_ store: SharedStore) throws -> AnyDatabaseCancellable? {
        let sql = Self.lastRow + table + " ORDER BY id DESC LIMIT 1"
        switch role {
        case .none, .opener: return nil
        case .region:
            return try DatabaseRegionObservation(tracking: DatabaseRegion(table: table)).start(in: store) { db in
                let now = Self.now
                guard let row = try? Row.fetchOne(db, sql: sql) else { return }
                self.note(row[0], stamp: row[1], at: now)
            }
        case .value:
            let first = DispatchSemaphore(value: 0)
            let observation = ValueObservation.trackingConstantRegion { db -> [Int64] in
                guard let row = try Row.fetchOne(db, sql: sql) else { return [0, 0] }
                return [row[0], row[1]]
            }
            let cancellable = observation.handleEvents(willFetch: { self.counted.withLock { $0.fetches += 1 } })
                .start(
                    in: store, scheduling: .async(onQueue: DispatchQueue(label: "values")),
                    onError: { self.answer("error: \($0)") },
                    onChange: { value in
                        self.note(value[0], stamp: value[1], at: Self.now)
                        first.signal()
                    })
            first.wait()
            // The observer is added to the writing connection after the first value.
            store.unsafeReentrantWrite { _ in }
            return cancellable
        }
    }

    private func note(_ row: Int64, stamp: Int64, at now: UInt64) {
        counted.withLock { counted in
            counted.callbacks += 1
            (counted.last, counted.lastTime) = (row, now)
            if counted.latencies.count < 1_000_000 { counted.latencies.append(now - min(now, UInt64(stamp))) }
        }
        arrivals.signal()
    }

    private func report() -> ObservingReport {
        counted.withLock { counted in
            ObservingReport(
                callbacks: counted.callbacks, fetches: counted.fetches, last: counted.last, lastTime: counted.lastTime,
                processorSeconds: processor_seconds() - counted.processorSeconds,
                sleeps: Int(sleep_count() - counted.sleeps), latencies: counted.latencies)
        }
    }

    private func answer(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    /// `begin N` opens, reads and closes the store N times.
    private func openAgainAndAgain() throws {
        answer("ready")
        while let line = readLine() {
            for _ in 0..<(Int(line.split(separator: " ").last ?? "") ?? 0) {
                let store = try Self.open(path)
                _ = try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM stamped") }
                try store.close()
            }
            answer("done")
        }
    }
}

/// The counts of a process of the benchmark.
struct ObservingReport {
    var callbacks: Int
    var fetches: Int
    /// The row that was delivered last.
    var last: Int64
    var lastTime: UInt64
    var processorSeconds: Double
    /// How often its threads went to sleep.
    var sleeps: Int
    /// From the stamp in the row to the callback, in nanoseconds.
    var latencies: [UInt64]

    var line: String {
        ([callbacks, fetches].map(String.init) + ["\(last)", "\(lastTime)", "\(processorSeconds)", "\(sleeps)"]
            + latencies.map(String.init)).joined(separator: " ")
    }

    /// - Throws: ``BenchmarkError`` for a line of another form, as of an error.
    init(_ line: String) throws {
        let words = line.split(separator: " ").map(String.init)
        guard words.count >= 6, let callbacks = Int(words[0]), let fetches = Int(words[1]), let last = Int64(words[2]),
            let lastTime = UInt64(words[3]), let seconds = Double(words[4]), let sleeps = Int(words[5])
        else { throw BenchmarkError(description: "a worker reports: \(line.prefix(200))") }
        self.init(
            callbacks: callbacks, fetches: fetches, last: last, lastTime: lastTime, processorSeconds: seconds,
            sleeps: sleeps, latencies: words[6...].compactMap { UInt64($0) })
    }

    init(
        callbacks: Int, fetches: Int, last: Int64, lastTime: UInt64, processorSeconds: Double, sleeps: Int,
        latencies: [UInt64]
    ) {
        self.callbacks = callbacks
        self.fetches = fetches
        self.last = last
        self.lastTime = lastTime
        self.processorSeconds = processorSeconds
        self.sleeps = sleeps
        self.latencies = latencies
    }
}
