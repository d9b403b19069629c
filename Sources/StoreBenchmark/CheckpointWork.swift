import ChangesetSync
import CipherStore
import Foundation

#if PostgreSQL
    import PostgreSQLRemote
#endif

/// A checkpoint of many rows: it is made, a new store begins with it, and one that was away returns to it.
struct CheckpointWork {
    let rows: Int

    func measure() throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let key = try RepositoryKey.random()
        let remote = DirectoryRemote(path: folder.url.path, repository: key.repository)
        let name = rows == 1_000_000 ? "1M rows" : "\(rows) rows"
        let one = try SyncedStore(folder, key: key, rows: rows)
        try one.sync(with: remote)
        let away = try SyncedStore(folder, key: key)
        let copying = try Self.measured(away.path) {
            try away.fetch(from: remote)
            try away.repository.pull()
        }
        try away.sync(with: remote)
        try away.commit { try SyncedStore.insert($0, rows + 1) }
        // Both change rows, so that each has what the other lacks.
        try one.commit { try $0.execute(sql: "UPDATE t SET c2 = c2 + 1 WHERE id % 1000 = 0") }
        try one.sync(with: remote)
        try one.with(remote) { manager in
            for replica in try manager.status().replicas where !replica.isThisStore {
                try await manager.retire(replica.author)
            }
        }
        let making = try Self.measured(one.path) {
            let made = try one.with(remote) { try await $0.checkpoint() }
            try BenchmarkError.require(made?.rowCount == rows, "the checkpoint has not all rows")
        }
        let two = try SyncedStore(folder, key: key)
        let cloning = try Self.measured(two.path) {
            try two.fetch(from: remote)
            try two.repository.pull()
        }
        try BenchmarkError.require(try two.count() == rows, "the copy has not all rows")
        let returning = try Self.measured(away.path) { _ = try away.with(remote) { try await $0.rejoin() } }
        try BenchmarkError.require(try away.count() == rows + 1, "the store has lost rows as it returned")
        return copying.figures("first copy of \(name) from its commits") + making.figures("checkpoint of \(name)")
            + cloning.figures("first copy of \(name) from a checkpoint", goal: 30)
            + returning.figures("rejoin with \(name)")
    }

    /// The time of a call, and the time that others of the store waited for it.
    private struct Cost {
        let seconds: Double
        /// The longest write of another connection, in milliseconds.
        let longestWrite: Double
        let memory: PeakMemory.Growth?

        func figures(_ name: String, goal: Double? = nil) -> [Figure] {
            let memory = memory.map { growth in
                Figure("\(name): memory beyond the \(growth.before) MB before", growth.more, "MB", goal: nil)
            }
            return [
                Figure("\(name): time", seconds, "s", goal: goal),
                Figure("\(name): longest write elsewhere", longestWrite, "ms", goal: 250),
            ] + (memory.map { [$0] } ?? [])
        }
    }

    private static func measured(_ path: String, _ body: () throws -> Void) throws -> Cost {
        let writer = try BesideWriter(path)
        let memory = PeakMemory()
        let clock = ContinuousClock()
        let (seconds, attoseconds) = try clock.measure(body).components
        let growth = memory?.growth
        return Cost(
            seconds: Double(seconds) + Double(attoseconds) * 1e-18, longestWrite: try writer.end(), memory: growth)
    }
}

/// The most memory that this process has had since the value was made, as Linux counts it.
struct PeakMemory {
    struct Growth {
        /// In MB, at the beginning.
        let before: Int
        /// In MB, beyond that.
        let more: Double
    }

    private let before: Int

    /// Nil where the system does not say.
    init?() {
        // Sets the peak to what the process has now. https://www.kernel.org/doc/html/latest/filesystems/proc.html
        guard (try? Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs"))) != nil,
            let now = Self.kilobytes("VmRSS:")
        else { return nil }
        before = now
    }

    var growth: Growth? {
        Self.kilobytes("VmHWM:").map { Growth(before: before / 1024, more: Double($0 - before) / 1024) }
    }

    private static func kilobytes(_ name: String) -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
    }
}

/// Commits of one row each that come from a server.
struct ServerWork {
    let address: String
    let commits: Int

    #if PostgreSQL
        func measure() throws -> [Figure] {
            let folder = try BenchmarkFolder()
            let key = try RepositoryKey.random()
            let remote = try PostgreSQLRemote(url: address, repository: key.repository, sharedWithOthers: true)
            try TaskWait.run { try await remote.setup() }
            let one = try SyncedStore(folder, key: key)
            let two = try SyncedStore(folder, key: key)
            for row in 0..<commits { try one.commit { try SyncedStore.insert($0, row) } }
            let clock = ContinuousClock()
            let times = try [
                ("push", nil, { try one.push(to: remote) }), ("fetch", 5, { try two.fetch(from: remote) }),
                ("pull", nil, { _ = try two.repository.pull() }),
            ].map { (name: String, goal: Double?, body: () throws -> Void) in
                let (seconds, attoseconds) = try clock.measure(body).components
                return Figure(
                    "\(name) of \(commits / 1000)k commits of one row by a local PostgreSQL",
                    Double(seconds) + Double(attoseconds) * 1e-18, "s", goal: goal)
            }
            try BenchmarkError.require(try two.count() == commits, "not all rows were pulled")
            return times
        }
    #else
        func measure() throws -> [Figure] {
            throw BenchmarkError(description: "a server needs a build with --traits PostgreSQL")
        }
    #endif
}
