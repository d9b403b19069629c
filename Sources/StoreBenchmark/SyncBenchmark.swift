import CipherStore
import ChangesetSync
import Foundation

/// `make bench-sync`: the cost of commits beside writes, and the speed and size of their exchange.
struct SyncBenchmark {
    /// The measurements, in this order.
    enum Part: String, CaseIterable {
        /// The cost of a commit beside a write, in time and in bytes.
        case capture
        /// The bytes that the engine adds to a table of many rows.
        case metadata
        /// A first copy of many rows, from commits and from a snapshot.
        case copy
        /// The same work by another program, if `--peer PROGRAM` names one.
        case peer
        /// Long commits, and rows that both sides have changed, while another connection writes; a long blob.
        case pull
        /// Short commits each way, and five stores whose syncs overlap.
        case short
        /// Short commits by a server, if `--server URL` names one.
        case server
        /// Many devices.
        case crowd
        /// Rows that were written outside of commits.
        case foreign
    }

    private let parts: [Part]
    private let comparison: Comparison
    private let rows: Int
    private let server: String?
    private let peer: String?
    private let reportFolder: String?

    /// - Throws: ``BenchmarkError`` for unknown options, and for options without a value.
    init(_ arguments: [String]) throws {
        let options = try ModeOptions(
            arguments, mode: "--sync",
            names: ["--parts", "--runs", "--rows", "--server", "--peer", "--report", "--time"])
        parts = try options.parts()
        comparison = Comparison(
            runs: options["--runs"].flatMap { Int($0) } ?? 9, takesProcessorTime: options["--time"] == "processor")
        rows = options["--rows"].flatMap { Int($0) } ?? 1_000_000
        server = options["--server"]
        peer = options["--peer"]
        reportFolder = options["--report"]
    }

    func run() throws {
        var report = FigureReport(target: "bench-sync")
        for part in parts {
            switch part {
            case .capture:
                let fixture = try Fixture()
                for work in Work.capture {
                    let measurement = try work.measure(comparison, fixture)
                    print(measurement.line)
                    report.ratios.append(measurement)
                }
                report.add(try SizeWork.shortCommits())
            case .metadata: report.add(try SizeWork.metadata(rows: rows))
            case .copy: report.add(try CopyWork(rows: rows).measure())
            case .peer: if let peer { report.add(try PeerWork(program: peer, rows: rows).measure()) }
            case .pull:
                report.add(try PullWork.longCommit(rows: rows / 2))
                report.add(try PullWork.bothSides(rows: rows * 2 / 5))
                report.add(try PullWork.blob(megabytes: 200))
            case .short:
                for count in [1_000, 10_000] { report.add(try ShortWork.eachWay(count)) }
                report.add(try ShortWork.overlapping(commits: 10_000))
            case .server: if let server { report.add(try ShortWork.server(server, commits: 50_000)) }
            case .crowd:
                report.add(try CrowdWork.carriedBytes())
                report.add(try CrowdWork.atOnce(200))
                report.add(try CrowdWork.atOnce(800))
                report.add(try CrowdWork.nothingNew(authors: 1_000))
            case .foreign: report.add(try ForeignWork.measure(rows: 100_000))
            }
        }
        if let reportFolder {
            let fixture = try Fixture()
            report.machine = try fixture.pool(at: fixture.path).read { try Machine($0) }
            try report.write(to: URL(fileURLWithPath: reportFolder))
        }
    }
}

func seconds(_ body: () throws -> Void) rethrows -> Double {
    let (seconds, attoseconds) = try ContinuousClock().measure(body).components
    return Double(seconds) + Double(attoseconds) * 1e-18
}

func milliseconds(_ body: () throws -> Void) rethrows -> Double { try seconds(body) * 1_000 }

/// The bytes of commits and of the engine's tables.
enum SizeWork {
    static func shortCommits() throws -> [Figure] {
        let count = 2_000
        let (folder, remote) = (try BenchmarkFolder(), SharedMemory())
        let (plain, tracked) = (try SyncedStore(folder, tracked: false), try SyncedStore(folder))
        try tracked.push(to: remote)
        let (former, stored) = ((plain: try plain.bytes(), tracked: try tracked.bytes()), remote.storedBytes)
        for row in 0..<count {
            try plain.store.write { try SyncedStore.insert($0, row) }
            try tracked.commit { try SyncedStore.insert($0, row) }
        }
        let added = try (tracked.bytes() - former.tracked) - (plain.bytes() - former.plain)
        try tracked.push(to: remote)
        let name = "commits of one row of 10 integers"
        return [
            Figure("\(name): each in the store, beside the row", Double(added / count), "bytes", goal: 400),
            Figure("\(name): each at the remote", Double((remote.storedBytes - stored) / count), "bytes", goal: 300),
        ]
    }

    /// The tables of the engine without the bodies of commits.
    static func metadata(rows: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let (plain, tracked) = (try SyncedStore(folder, tracked: false), try SyncedStore(folder))
        let former = try tracked.bytes() - plain.bytes()
        func extra() throws -> Int {
            try tracked.repository.forgetHistory(tombstones: true)
            return try tracked.bytes() - plain.bytes() - former
        }
        let writes: (Database) throws -> Void = { db in for row in 0..<rows { try SyncedStore.insert(db, row) } }
        try plain.store.write(writes)
        try tracked.commit(writes)
        let inserted = try extra()
        let (updated, commits) = (rows / 5, 50)
        for commit in 0..<commits {
            let update: (Database) throws -> Void = { db in
                let statement = try db.cachedStatement(sql: "UPDATE t SET c3 = c3 + 1 WHERE id = ?")
                for row in 0..<updated / commits {
                    try statement.execute(arguments: [1 + (commit * (updated / commits) + row) * 7_919 % rows])
                }
            }
            try plain.store.write(update)
            try tracked.commit(update)
        }
        let more = try extra() - inserted
        let name = rows == 1_000_000 ? "1M rows" : "\(rows) rows"
        return [
            Figure("metadata of \(name) inserted in one commit", Double(inserted) / 1024, "KB", goal: 1),
            Figure("metadata of each row updated at random", Double(more) / Double(updated), "bytes", goal: 24),
        ]
    }
}

/// First copies of many rows.
struct CopyWork {
    let rows: Int

    func measure() throws -> [Figure] {
        let (folder, remote) = (try BenchmarkFolder(), SharedMemory())
        let one = try SyncedStore(folder)
        try one.commit { db in for row in 0..<rows { try SyncedStore.insert(db, row) } }
        let push = try seconds { try one.push(to: remote) }
        let two = try SyncedStore(folder, invitedBy: one, at: remote)
        let copy = try seconds { try two.sync(with: remote) }
        try BenchmarkError.require(try two.count() == rows, "the copy has not all rows")
        let writer = try BesideWriter(one.path)
        let snapshot = try seconds { _ = try one.repository.compact(remote, named: "remote") }
        let longest = try writer.end()
        let three = try SyncedStore(folder, invitedBy: one, at: remote)
        let memory = PeakMemory()
        let second = try seconds { try three.sync(with: remote) }
        try BenchmarkError.require(try three.count() == rows, "the copy has not all rows")
        let name = rows == 1_000_000 ? "1M rows" : "\(rows) rows"
        return [
            Figure("push of \(name) in one commit", push, "s", goal: nil),
            Figure("first copy of \(name) from a commit: fetched, verified, joined", copy, "s", goal: 5),
            Figure("snapshot of \(name): made and put", snapshot, "s", goal: nil),
            Figure("snapshot of \(name): longest write elsewhere", longest, "ms", goal: 100),
            Figure("first copy of \(name) from a snapshot", second, "s", goal: 5),
            Figure("first copy of \(name) from a snapshot: memory", memory?.growth?.more ?? 0, "MB", goal: nil),
        ]
    }
}

/// Long joins beside another connection that writes.
enum PullWork {
    private static func pull(_ store: SyncedStore, _ name: String, memoryGoal: Double?) throws -> [Figure] {
        let writer = try BesideWriter(store.path)
        let memory = PeakMemory()
        let time = try seconds { try store.repository.pull() }
        let (growth, longest) = (memory?.growth?.more, try writer.end())
        return [
            Figure("\(name): time", time, "s", goal: nil),
            Figure("\(name): longest write elsewhere", longest, "ms", goal: 100),
            Figure("\(name): memory", growth ?? 0, "MB", goal: memoryGoal),
        ]
    }

    static func longCommit(rows: Int) throws -> [Figure] {
        let (folder, remote) = (try BenchmarkFolder(), SharedMemory())
        let one = try SyncedStore(folder)
        let two = try SyncedStore(folder, invitedBy: one, at: remote)
        try one.commit { db in for row in 0..<rows { try SyncedStore.insert(db, row) } }
        try one.push(to: remote)
        try two.fetch(from: remote)
        let figures = try pull(two, "pull of a commit of \(rows / 1_000)k rows", memoryGoal: nil)
        try BenchmarkError.require(try two.count() == rows, "not all rows were pulled")
        return figures
    }

    static func bothSides(rows: Int) throws -> [Figure] {
        let (folder, remote) = (try BenchmarkFolder(), SharedMemory())
        let one = try SyncedStore(folder)
        try one.commit { db in for row in 0..<rows { try SyncedStore.insert(db, row) } }
        let two = try SyncedStore(folder, invitedBy: one, at: remote)
        try two.sync(with: remote)
        for (store, column) in [(one, "c1"), (two, "c2")] {
            try store.commit { try $0.execute(sql: "UPDATE t SET \(column) = \(column) + 1, c3 = c3 + 1") }
        }
        try one.push(to: remote)
        try two.fetch(from: remote)
        return try pull(two, "pull of \(rows / 1_000)k rows that both sides have changed", memoryGoal: 100)
    }

    static func blob(megabytes: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let one = try SyncedStore(folder)
        // In memory the remote would be a part of the figure.
        let remote = FolderStore(path: folder.url.path, repository: try one.repository.store().repository)
        let two = try SyncedStore(folder, invitedBy: one, at: remote)
        try one.commit { db in
            try db.execute(sql: "INSERT INTO file VALUES (1, randomblob(?))", arguments: [megabytes << 20])
        }
        let name = "blob of \(megabytes) MB"
        var figures: [Figure] = []
        let steps: [(String, () throws -> Void)] = [
            ("push", { try one.push(to: remote) }), ("fetch", { try two.fetch(from: remote) }),
            ("pull", { try two.repository.pull() }),
        ]
        for (step, body) in steps {
            let memory = PeakMemory()
            let time = try seconds(body)
            let growth = (memory?.growth?.more ?? 0) / Double(megabytes)
            figures += [
                Figure("\(step) of a \(name): time", time, "s", goal: nil),
                Figure("\(step) of a \(name): memory in sizes of it", growth, "x", goal: 2.2),
            ]
        }
        return figures
    }
}

/// Commits of one row.
enum ShortWork {
    /// Each of two stores has commits that the other one lacks.
    static func eachWay(_ count: Int) throws -> [Figure] {
        let (folder, remote) = (try BenchmarkFolder(), SharedMemory())
        let one = try SyncedStore(folder)
        let two = try SyncedStore(folder, invitedBy: one, at: remote)
        try two.sync(with: remote)
        for row in 0..<count {
            try one.commit { try SyncedStore.insert($0, row) }
            try two.commit { try SyncedStore.insert($0, count + row) }
        }
        let time = try seconds { for store in [one, two, one] { try store.sync(with: remote) } }
        try BenchmarkError.require(try one.head() == two.head() && one.count() == 2 * count, "rows were lost")
        let each = time * 1e6 / Double(2 * count)
        return [
            Figure("\(count / 1_000)k commits of one row each way: put, fetched, joined, each", each, "us", goal: nil)
        ]
    }

    /// Five stores commit and sync in turns, each before it has the last commits of the others.
    static func overlapping(commits: Int) throws -> [Figure] {
        let remote = SharedMemory()
        let first = try CrowdStore(invitedBy: nil, at: remote)
        let stores = [first] + (try (0..<4).map { _ in try CrowdStore(invitedBy: first, at: remote) })
        for store in stores + stores { try store.sync() }
        var times: [Double] = []
        for row in 0..<commits {
            let store = stores[row % 5]
            times.append(
                try milliseconds {
                    try store.insert(row)
                    try store.sync()
                })
        }
        func median(_ range: Range<Int>) -> Double { times[range].sorted()[range.count / 2] }
        let (early, late) = (median(50..<150), median(commits - 100..<commits))
        let name = "five stores with overlapping syncs"
        return [
            Figure("\(name): a commit and its sync after 100 commits", early, "ms", goal: nil),
            Figure("\(name): the same after \(commits) commits", late, "ms", goal: 1.3 * early),
            Figure("\(name): the longest", times.max() ?? 0, "ms", goal: nil),
        ]
    }

    #if PostgreSQL
        static func server(_ url: String, commits: Int) throws -> [Figure] {
            let folder = try BenchmarkFolder()
            let one = try SyncedStore(folder)
            let remote = try ServerStore.make(url, one)
            let two = try SyncedStore(folder, invitedBy: one, at: remote)
            for row in 0..<commits { try one.commit { try SyncedStore.insert($0, row) } }
            let steps: [(String, Double?, () throws -> Void)] = [
                ("push", nil, { try one.push(to: remote) }), ("fetch", 2.5, { try two.fetch(from: remote) }),
                ("pull", nil, { try two.repository.pull() }),
            ]
            let figures = try steps.map { name, goal, body in
                Figure(
                    "\(name) of \(commits / 1_000)k commits of one row by a local PostgreSQL", try seconds(body), "s",
                    goal: goal)
            }
            try BenchmarkError.require(try two.count() == commits, "not all rows were pulled")
            return figures
        }
    #else
        static func server(_ url: String, commits: Int) throws -> [Figure] {
            throw BenchmarkError(description: "this program was built without PostgreSQL")
        }
    #endif
}

/// Many devices of one repository.
enum CrowdWork {
    private static func stores(_ count: Int, at remote: SharedMemory) throws -> [CrowdStore] {
        let first = try CrowdStore(invitedBy: nil, at: remote)
        let stores = [first] + (try (1..<count).map { _ in try CrowdStore(invitedBy: first, at: remote) })
        for store in stores + stores { try store.sync() }
        return stores
    }

    /// The bytes that are stored for each row, and those that each device fetches for it.
    static func carriedBytes() throws -> [Figure] {
        var figures: [Figure] = []
        var former: (stored: Double, fetched: Double)?
        for devices in [2, 10, 60] {
            let remote = SharedMemory()
            let stores = try stores(devices, at: remote)
            let (stored, fetched) = (remote.storedBytes, remote.fetchedBytes)
            let (rounds, batch) = (20, 10)
            for round in 0..<rounds {
                for (place, store) in stores.enumerated() {
                    for row in 0..<batch { try store.insert((round * devices + place) * batch + row) }
                    try store.sync()
                }
            }
            for store in stores { try store.sync() }
            let written = Double(rounds * devices * batch)
            let each = Double(remote.storedBytes - stored) / written
            let got = Double(remote.fetchedBytes - fetched) / written / Double(devices - 1)
            figures += [
                Figure("\(devices) devices: bytes stored for each row", each, "", goal: former.map { $0.stored * 1.2 }),
                Figure(
                    "\(devices) devices: bytes fetched by each other one for a row", got, "",
                    goal: former.map { $0.fetched * 1.2 }),
            ]
            if former == nil { former = (each, got) }
        }
        return figures
    }

    /// Each device has one commit that the others lack.
    static func atOnce(_ count: Int) throws -> [Figure] {
        let remote = SharedMemory()
        let stores = try stores(count, at: remote)
        for (place, store) in stores.enumerated() {
            try store.insert(place)
            try store.push()
        }
        let time = try seconds { try stores[1].sync() }
        try BenchmarkError.require(try stores[1].count() == count, "rows were lost")
        let name = "\(count) stores that worked at once: one of them fetches and joins all"
        return [Figure(name, time * 1_000, "ms", goal: nil)]
    }

    static func nothingNew(authors: Int) throws -> [Figure] {
        let remote = SharedMemory()
        let stores = try stores(authors, at: remote)
        for (place, store) in stores.enumerated() {
            try store.insert(place)
            try store.sync()
        }
        for _ in 0..<2 { try stores[0].sync() }
        let (calls, start, runs) = (remote.calls, ProcessorTime.now, 50)
        for _ in 0..<runs { try stores[0].sync() }
        let time = (ProcessorTime.now - start) * 1_000 / Double(runs)
        let name = "sync with nothing new, \(authors) authors"
        return [
            Figure("\(name): processor time", time, "ms", goal: 2),
            Figure("\(name): calls of the remote", Double((remote.calls - calls) / runs), "", goal: 2),
        ]
    }
}
