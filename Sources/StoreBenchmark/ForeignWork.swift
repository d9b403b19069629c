import CipherStore
import ChangesetSync

/// Rows of a tracked table that are written outside of commits.
enum ForeignWork {
    /// One statement inserts rows, another one changes them all; the repository makes commits of both.
    static func measure(rows: Int) throws -> [Figure] {
        let folder = try BenchmarkFolder()
        let store = try SyncedStore(folder)
        let steps: [(String, (Database) throws -> Void)] = [
            ("inserted", { db in for row in 0..<rows { try SyncedStore.insert(db, row) } }),
            ("changed", { try $0.execute(sql: "UPDATE t SET c1 = c1 + 1, c3 = c3 + 1") }),
        ]
        return try steps.flatMap { step, body in
            let plain = try seconds { try store.store.write(body) }
            let writer = try BesideWriter(store.path)
            let memory = PeakMemory()
            let time = try seconds { try store.repository.pull() }
            let (growth, longest) = (memory?.growth?.more, try writer.end())
            let name = "\(rows / 1_000)k rows \(step) outside of commits"
            return [
                Figure("\(name): written", plain, "s", goal: nil),
                Figure("\(name): made commits", time, "s", goal: nil),
                Figure("\(name): longest write elsewhere", longest, "ms", goal: 100),
                Figure("\(name): memory", growth ?? 0, "MB", goal: 100),
            ]
        }
    }
}
