import ChangesetSync
import CipherStore
import Foundation

/// `make bench-sync`: what commits add to writes, and how fast replicas exchange them.
struct SyncBenchmark {
    /// The measurements, in this order.
    enum Part: String, CaseIterable {
        /// The cost of a commit beside a write, in time and in bytes.
        case capture
        /// A table of many rows: its first commit, one commit more, its first copy, a merge.
        case large
        /// The same by another program, where `--peer PROGRAM` names one.
        case peer
        /// A checkpoint of many rows, in a folder.
        case checkpoint
        /// Long commits and short ones, fetched and pulled.
        case pull
        /// Short commits by way of a server, where `--server URL` names one.
        case server
        /// Many replicas.
        case crowd
    }

    private let parts: [Part]
    private let comparison: Comparison
    private let rows: Int
    private let server: String?
    private let peer: String?
    private let reportFolder: String?

    /// - Throws: ``BenchmarkError`` for what it does not know, and where a value is missing.
    init(_ arguments: [String]) throws {
        let options = try ModeOptions(
            arguments, mode: "--sync", names: ["--parts", "--runs", "--rows", "--server", "--peer", "--report"])
        parts = try options.parts()
        comparison = Comparison(runs: options["--runs"].flatMap { Int($0) } ?? 9, takesProcessorTime: false)
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
                report.add(try CommitSize.measure())
            case .large: report.add(try LargeTable(rows: rows).measure())
            case .peer: if let peer { report.add(try PeerWork(program: peer, rows: rows).measure()) }
            case .checkpoint: report.add(try CheckpointWork(rows: rows).measure())
            case .server:
                if let server { report.add(try ServerWork(address: server, commits: 50_000).measure()) }
            case .pull:
                report.add(try PullWork.longCommit(rows: 20_000))
                report.add(try PullWork.besideWriters(commits: 10, rows: 10_000))
                for count in [1_000, 10_000, 100_000] { report.add(try PullWork.shortCommits(count)) }
            case .crowd: report.add(try Crowd.measure(replicas: 100, commits: 100))
            }
        }
        if let reportFolder {
            let fixture = try Fixture()
            report.machine = try fixture.pool(at: fixture.path).read { try Machine($0) }
            try report.write(to: URL(fileURLWithPath: reportFolder))
        }
    }
}

/// The bytes of a commit in a store and at a remote.
private enum CommitSize {
    static func measure() throws -> [Figure] {
        let count = 2_000
        let folder = try BenchmarkFolder()
        let (key, name) = (try RepositoryKey.random(), "commits of one row of 10 integers")
        let plain = try SyncedStore(folder, key: nil)
        let tracked = try SyncedStore(folder, key: key)
        let former = try (plain.bytes(), tracked.bytes())
        for row in 0..<count {
            try plain.store.write { try SyncedStore.insert($0, row) }
            try tracked.commit { try SyncedStore.insert($0, row) }
        }
        let added = try (tracked.bytes() - former.1) - (plain.bytes() - former.0)
        let remote = SharedMemory(repository: key.repository)
        try tracked.push(to: remote)
        let sizes = remote.sizes.sorted()
        return [
            Figure(
                "\(name): in the store, beside the row, with its history", Double(added / count), "bytes", goal: 1024),
            Figure("\(name): at the remote", Double(sizes[sizes.count / 2]), "bytes", goal: 512),
        ]
    }
}

/// A table of many rows and two replicas that change it.
private struct LargeTable {
    let rows: Int

    func measure() throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let key = try RepositoryKey.random()
        let remote = SharedMemory(repository: key.repository)
        let one = try SyncedStore(folder, key: key, rows: rows)
        try one.push(to: remote)
        let two = try SyncedStore(folder, key: key)
        let clone = try seconds {
            try two.fetch(from: remote)
            try two.repository.pull()
        }
        try BenchmarkError.require(try two.count() == rows, "the copy has not all rows")
        let commits = try (0..<51).map { row in
            try milliseconds { try one.commit { try SyncedStore.insert($0, rows + row) } }
        }
        try one.sync(with: remote)
        try two.sync(with: remote)
        let size = rows == 1_000_000 ? "1M rows" : "\(rows) rows"
        return [
            Figure("first copy of \(size): fetched, verified, applied", clone, "s", goal: 30),
            Figure("one commit onto a table of \(size)", commits.sorted()[commits.count / 2], "ms", goal: 10),
        ] + (try merges(one, two, remote, size))
    }

    /// Each side changes 1,000 rows of its own.
    private func merges(
        _ one: SyncedStore, _ two: SyncedStore, _ remote: SharedMemory, _ size: String
    ) throws -> [Figure] {
        var times: [Double] = []
        var pulls: [Double] = []
        for run in 0..<7 {
            for (side, replica) in [one, two].enumerated() {
                try replica.commit { db in
                    let update = try db.cachedStatement(sql: "UPDATE t SET c1 = c1 + 1 WHERE id = ?")
                    for row in 0..<1_000 { try update.execute(arguments: [1 + (row * 997 + side + run * 2) % rows]) }
                }
                try replica.push(to: remote)
            }
            try one.fetch(from: remote)
            times.append(try milliseconds { try one.repository.mergeAll() })
            pulls.append(try milliseconds { try one.repository.pull() })
            try one.push(to: remote)
            try two.sync(with: remote)
        }
        let tables = try [one, two].flatMap { try $0.repository.verify() }
        try BenchmarkError.require(tables.isEmpty, "rows differ from their digests")
        let head = try (one.head(), two.head())
        try BenchmarkError.require(head.0 == head.1, "the replicas have other heads")
        return [
            Figure("merge of 1,000 changed rows a side on \(size)", times.sorted()[3], "ms", goal: 50),
            Figure("pull of that merge", pulls.sorted()[3], "ms", goal: nil),
        ]
    }
}

/// The commits of another replica, fetched and pulled.
private enum PullWork {
    /// One commit of four cells in each row.
    static func longCommit(rows: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let key = try RepositoryKey.random()
        let remote = SharedMemory(repository: key.repository)
        let one = try SyncedStore(folder, key: key, rows: rows)
        let two = try SyncedStore(folder, key: key)
        try one.push(to: remote)
        try two.sync(with: remote)
        var times: [Double] = []
        for _ in 0..<7 {
            try one.commit { db in
                try db.execute(sql: "UPDATE t SET c1 = c1 + 1, c2 = c2 + 1, c3 = c3 + 1, c4 = c4 + 1")
            }
            try one.push(to: remote)
            times.append(
                try seconds {
                    try two.fetch(from: remote)
                    try two.repository.pull()
                })
        }
        let name = "pull of \(rows * 4 / 1000)k cells in \(rows / 1000)k rows: fetched, verified, applied"
        return [Figure(name, times.sorted()[3], "s", goal: 0.3)]
    }

    /// How long other writers wait while a long way is pulled.
    static func besideWriters(commits: Int, rows: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let key = try RepositoryKey.random()
        let remote = SharedMemory(repository: key.repository)
        let one = try SyncedStore(folder, key: key)
        let two = try SyncedStore(folder, key: key)
        for commit in 0..<commits {
            try one.commit { db in for row in 0..<rows { try SyncedStore.insert(db, commit * rows + row) } }
        }
        try one.push(to: remote)
        try two.fetch(from: remote)
        let writer = try BesideWriter(two.path)
        let time = try seconds { try two.repository.pull() }
        let longest = try writer.end()
        try BenchmarkError.require(try two.count() == commits * rows, "not all rows were pulled")
        let name = "pull of \(commits * rows / 1000)k rows"
        return [
            Figure("\(name): longest write elsewhere", longest, "ms", goal: 250),
            Figure("\(name): time", time, "s", goal: nil),
        ]
    }

    /// Commits of one row each.
    static func shortCommits(_ count: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let key = try RepositoryKey.random()
        let remote = SharedMemory(repository: key.repository)
        let one = try SyncedStore(folder, key: key)
        let two = try SyncedStore(folder, key: key)
        for row in 0..<count { try one.commit { try SyncedStore.insert($0, row) } }
        let push = try seconds { try one.push(to: remote) }
        let fetch = try seconds { try two.fetch(from: remote) }
        let pull = try seconds { try two.repository.pull() }
        try BenchmarkError.require(try two.count() == count, "not all rows were pulled")
        func each(_ seconds: Double) -> Double { seconds * 1e6 / Double(count) }
        let name = "\(count / 1000)k commits of one row"
        return [
            Figure("\(name): push of each", each(push), "us", goal: nil),
            Figure("\(name): fetch of each", each(fetch), "us", goal: nil),
            Figure("\(name): pull of each", each(pull), "us", goal: nil),
        ]
    }
}

/// Many replicas of one repository.
private enum Crowd {
    static func measure(replicas count: Int, commits: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let key = try RepositoryKey.random()
        let remote = SharedMemory(repository: key.repository)
        let replicas = try (0..<count).map { _ in try SyncedStore(folder, key: key, readers: 1) }
        for (number, replica) in replicas.enumerated() {
            for row in 0..<commits { try replica.commit { try SyncedStore.insert($0, number * commits + row) } }
        }
        var rounds = 0
        let time = try seconds {
            repeat {
                rounds += 1
                try BenchmarkError.require(rounds <= 5, "the replicas do not come to rest")
                for replica in replicas { try replica.sync(with: remote) }
            } while try Set(replicas.map { try $0.head() }).count > 1
        }
        try BenchmarkError.require(try replicas[0].count() == count * commits, "rows were lost")
        let name = "\(count) replicas of \(commits) commits each"
        return [
            Figure("\(name): rounds until all are equal", Double(rounds), "", goal: 2),
            Figure("\(name): time of all rounds", time, "s", goal: nil),
        ]
    }
}

private func seconds(_ body: () throws -> Void) rethrows -> Double {
    let (seconds, attoseconds) = try ContinuousClock().measure(body).components
    return Double(seconds) + Double(attoseconds) * 1e-18
}

private func milliseconds<T>(_ body: () throws -> T) rethrows -> Double { try seconds { _ = try body() } * 1000 }
