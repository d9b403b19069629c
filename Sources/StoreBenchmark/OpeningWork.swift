import CBaseline
import CipherStore
import Foundation

/// Opening by passphrase, by the library and by plain C.
enum OpeningWork {
    /// A pool with 5 readers open at once, beside plain C opening connections that derive the key themselves.
    ///
    /// - Parameter connections: How many C opens, each on a thread of its own.
    static func poolByPassphrase(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, connections: Int32
    ) throws -> Measurement {
        let path = fixture.path(of: "opening.db")
        try fixture.pool(at: path, byPassphrase: true).close()
        return try comparison.measure(
            work.name, goal: work.goal,
            library: {
                let pool = try fixture.pool(at: path, byPassphrase: true)
                try openReaders(pool, count: 5)
                try pool.close()
            },
            baseline: {
                let code = baseline_open_by_passphrase(path, fixture.passphrase, fixture.saltLiteral, connections)
                try BenchmarkError.require(code == 0, "C could not open the file: \(code)")
            })
    }

    /// Holds reads until as many readers as asked for have been needed at the same moment.
    private static func openReaders(_ pool: DatabasePool, count: Int) throws {
        let arrived = DispatchSemaphore(value: 0)
        let leave = DispatchSemaphore(value: 0)
        let group = DispatchGroup()
        for _ in 0..<count {
            group.enter()
            Thread.detachNewThread {
                try? pool.read { _ in
                    arrived.signal()
                    leave.wait()
                }
                group.leave()
            }
        }
        for _ in 0..<count { arrived.wait() }
        for _ in 0..<count { leave.signal() }
        group.wait()
    }
}
