import CBaseline
import CipherStore
import Foundation

/// Opening, by the library and by plain C.
enum OpeningWork {
    /// A pool with 5 readers open at once, by passphrase, beside one derivation of SQLCipher's own.
    static func poolByPassphrase(_ name: String, _ fixture: Fixture) throws -> Measurement {
        let path = fixture.folder.appendingPathComponent("opening.db").path
        try fixture.pool(byPassphrase: true, path: path).close()
        return try Measurement.compare(
            name, goal: 1.1,
            library: {
                let pool = try fixture.pool(byPassphrase: true, path: path)
                try openReaders(pool, count: 5)
                try pool.close()
            },
            baseline: {
                let code = baseline_open_by_passphrase(path, fixture.passphrase, fixture.saltLiteral)
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
