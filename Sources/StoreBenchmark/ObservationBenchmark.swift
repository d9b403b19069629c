import CBaseline
import CipherStore
import Foundation

/// `make bench-observation`: what observing costs, and how soon other processes are notified of a commit.
struct ObservationBenchmark {
    /// The measurements, in this order.
    enum Part: String, CaseIterable {
        /// The cost of observing for reads and writes of one process.
        case tracking
        /// The cost of the history for writes of one process.
        case history
        /// From a commit to the callbacks of other processes.
        case latency
        /// The work of an observer while nothing concerns it.
        case idle
        /// Commits that come faster than an observer can take them.
        case burst
    }

    private let parts: [Part]
    private let comparison: Comparison
    private let observerCounts: [Int]
    private let idleSeconds: Double
    private let reportFolder: String?

    /// - Throws: ``BenchmarkError`` for what it does not know, and where a value is missing.
    init(_ arguments: [String]) throws {
        let options = try ModeOptions(
            arguments, mode: "--observation", names: ["--parts", "--runs", "--observers", "--seconds", "--report"],
            flags: ["--cpu"])
        parts = try options.parts()
        comparison = Comparison(
            runs: options["--runs"].flatMap { Int($0) } ?? 15, takesProcessorTime: options.has("--cpu"))
        observerCounts =
            options["--observers"].map { $0.split(separator: ",").compactMap { Int($0) } } ?? [1, 20, 100]
        idleSeconds = options["--seconds"].flatMap { Double($0) } ?? 60
        reportFolder = options["--report"]
    }

    func run() throws {
        var report = FigureReport(target: "bench-observation")
        for part in parts {
            switch part {
            case .tracking: report.ratios += try ratios(of: Work.observation)
            case .history: report.ratios += try ratios(of: Work.history)
            case .latency:
                for count in observerCounts {
                    report.add(try BareWake.latencies(count: count))
                    for role in [ObservingRole.region, .value] {
                        report.add(try ObservingCrowd(role, count: count).latencies(role))
                    }
                }
            case .idle:
                report.add(try Quiet.idle(seconds: idleSeconds))
                report.add(try Quiet.whileOthersOpen(times: 200))
                report.add(try Quiet.whileOtherTablesChange(commits: 1_000))
            case .burst: report.add(try Burst.run(commits: 10_000))
            }
        }
        if let reportFolder {
            let fixture = try Fixture()
            report.machine = try fixture.pool(at: fixture.path).read { try Machine($0) }
            try report.write(to: URL(fileURLWithPath: reportFolder))
        }
    }

    private func ratios(of works: [Work]) throws -> [Measurement] {
        let fixture = try Fixture()
        return try works.map { work in
            let measurement = try work.measure(comparison, fixture)
            print(measurement.line)
            fflush(nil)
            return measurement
        }
    }
}

/// A folder with a store, and processes that observe it.
private final class ObservingCrowd {
    let store: SharedStore
    let observers: [BenchmarkWorker]
    let path: String
    private let folder: URL
    private static let insert = "INSERT INTO stamped (stamp) VALUES (?)"

    init(_ role: ObservingRole, table: String = "stamped", count: Int = 1) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("observation-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appendingPathComponent("app.db").path
        let store = try ObservationWorker.open(path)
        try store.write { db in
            try db.execute(sql: ObservationWorker.createTables)
            try db.recordHistory(of: .allTables)
        }
        observers = try (0..<count).map { _ in try BenchmarkWorker("--observation-child", "\(role),\(table),\(path)") }
        for observer in observers {
            try BenchmarkError.require(observer.line() == "ready", "an observer did not start")
        }
        (self.store, self.path) = (store, path)
    }

    deinit {
        for observer in observers { observer.finish() }
        try? store.close()
        try? FileManager.default.removeItem(at: folder)
    }

    func begin() throws { for observer in observers { _ = try observer.ask("begin") } }

    func reports() throws -> [ObservingReport] { try observers.map { try ObservingReport($0.ask("report")) } }

    /// Commits a row with the time, which stands in for the time of the commit: it is taken just before.
    @discardableResult
    func commit() throws -> Int64 {
        try store.write { db in
            try db.cachedStatement(sql: Self.insert).execute(arguments: [Int64(ObservationWorker.now)])
            return db.lastInsertedRowID
        }
    }

    /// How many commits are measured, and the seconds between two of them.
    static func pace(_ observers: Int) -> (commits: Int, pause: Double) {
        (observers > 20 ? 200 : 500, 0.004 + 0.001 * Double(observers))
    }

    /// Commits with pauses in which all observers go to sleep again.
    func latencies(_ role: ObservingRole) throws -> [Figure] {
        let (commits, pause) = Self.pace(observers.count)
        try begin()
        var last: Int64 = 0
        for _ in 0..<commits {
            Thread.sleep(forTimeInterval: pause * Double.random(in: 0.7...1.3))
            last = try commit()
        }
        let reports = try observers.map { try ObservingReport($0.ask("await \(last)")) }
        try BenchmarkError.require(reports.allSatisfy { $0.last == last }, "an observer missed the last commit")
        let sorted = reports.flatMap(\.latencies).sorted()
        let count = observers.count
        let name =
            "commit to \(role == .region ? "region callback" : "value"), "
            + (count == 1 ? "1 process" : "\(count) processes")
        func figure(_ percent: Int, _ goal: Double?) -> Figure {
            let value = Double(sorted[min(sorted.count - 1, sorted.count * percent / 100)]) / 1e6
            return Figure("\(name): p\(percent)", value, "ms", goal: goal)
        }
        let work = reports.map(\.processorSeconds).reduce(0, +) / Double(count * commits) * 1e6
        return [
            figure(50, count <= 20 ? 0.2 : nil), figure(99, count <= 20 ? 1 : 20),
            Figure("\(name): processor time each", work, "us", goal: nil),
        ]
    }
}

/// Processes that sleep and are woken, and do nothing else: what the latencies of observations cannot undercut.
private enum BareWake {
    static func latencies(count: Int) throws -> [Figure] {
        let (wakes, pause) = ObservingCrowd.pace(count)
        var nanoseconds = [Int64](repeating: 0, count: count * wakes)
        let code = baseline_wakes(Int32(count), Int32(wakes), Int64(pause * 1e9), &nanoseconds)
        try BenchmarkError.require(code == 0, "processes could not be woken: \(code)")
        let sorted = nanoseconds.sorted()
        let name = "bare wake of \(count == 1 ? "1 process" : "\(count) processes") in C"
        return [50, 99].map { percent in
            let value = Double(sorted[min(sorted.count - 1, sorted.count * percent / 100)]) / 1e6
            return Figure("\(name): p\(percent)", value, "ms", goal: nil)
        }
    }
}

/// The work of an observer while nothing concerns it, beside a process that observes nothing.
private enum Quiet {
    private static func figures(
        _ name: String, _ report: ObservingReport, _ control: ObservingReport, goal: Double?, wakeGoal: Double?
    ) -> [Figure] {
        [
            Figure(
                "\(name): processor time", max(0, report.processorSeconds - control.processorSeconds) * 1e3, "ms",
                goal: goal),
            Figure("\(name): wake-ups", Double(max(0, report.sleeps - control.sleeps)), "", goal: wakeGoal),
        ]
    }

    /// Measures an observer, and the same process without an observation, while something else happens.
    private static func measure(
        table: String, _ body: (ObservingCrowd) throws -> Void
    ) throws -> (observer: ObservingReport, control: ObservingReport) {
        let crowd = try ObservingCrowd(.value, table: table)
        let control = try BenchmarkWorker("--observation-child", "none,\(table),\(crowd.path)")
        try BenchmarkError.require(control.line() == "ready", "a worker did not start")
        // The work that an opening leaves for later.
        Thread.sleep(forTimeInterval: 1)
        try crowd.begin()
        _ = try control.ask("begin")
        try body(crowd)
        let figures = try (crowd.reports()[0], ObservingReport(control.ask("report")))
        control.finish()
        return figures
    }

    static func idle(seconds: Double) throws -> [Figure] {
        let (observer, control) = try measure(table: "stamped") { _ in Thread.sleep(forTimeInterval: seconds) }
        return figures("idle for \(Int(seconds)) s", observer, control, goal: 1, wakeGoal: nil)
    }

    static func whileOthersOpen(times: Int) throws -> [Figure] {
        let (observer, control) = try measure(table: "stamped") { crowd in
            let opener = try BenchmarkWorker("--observation-child", "opener,stamped,\(crowd.path)")
            try BenchmarkError.require(opener.line() == "ready", "a worker did not start")
            _ = try opener.ask("begin \(times)")
            opener.finish()
        }
        return figures(
            "another process opens, reads and closes \(times) times", observer, control, goal: nil, wakeGoal: 0)
    }

    static func whileOtherTablesChange(commits: Int) throws -> [Figure] {
        let (observer, control) = try measure(table: "untouched") { crowd in
            for _ in 0..<commits {
                Thread.sleep(forTimeInterval: 0.002)
                try crowd.commit()
            }
            Thread.sleep(forTimeInterval: 0.5)
        }
        let name = "\(commits) commits to another table"
        return [Figure("\(name): fetches", Double(observer.fetches + observer.callbacks), "", goal: 0)]
            + figures(name, observer, control, goal: nil, wakeGoal: nil)
    }
}

/// Commits that come faster than an observer can take them.
private enum Burst {
    static func run(commits: Int) throws -> [Figure] {
        let crowd = try ObservingCrowd(.value)
        try crowd.begin()
        let start = ObservationWorker.now
        var last: Int64 = 0
        for _ in 0..<commits { last = try crowd.commit() }
        let end = ObservationWorker.now
        let report = try ObservingReport(crowd.observers[0].ask("await \(last)"))
        try BenchmarkError.require(report.last == last, "the last state was not delivered")
        let name = "\(commits) commits in \(String(format: "%.2f", Double(end - start) / 1e9)) s"
        let delay = Double(report.lastTime - min(report.lastTime, end)) / 1e6
        return [
            Figure("\(name): fetches", Double(report.fetches), "", goal: nil),
            Figure("\(name): the last state after the last commit", delay, "ms", goal: nil),
        ]
    }
}
