import CipherStore
import Foundation
import Synchronization

/// Writes single rows to another table by a connection of its own, and notes the longest time.
final class BesideWriter {
    private struct State {
        var isEnding = false
        var longest = 0.0
        var error: (any Error)?
    }

    private final class Shared: Sendable {
        let state = Mutex(State())
    }

    private let shared = Shared()
    private let ended = DispatchSemaphore(value: 0)

    init(_ path: String) throws {
        var configuration = Configuration()
        // It waits as long as it takes: that is the figure.
        configuration.busyMode = .timeout(600)
        let store = try SharedStore.open(at: path, unlockedBy: Fixture.keySource, configuration: configuration)
        let (shared, ended) = (shared, ended)
        Thread.detachNewThread {
            defer { ended.signal() }
            while !shared.state.withLock({ $0.isEnding }) {
                let begin = DispatchTime.now().uptimeNanoseconds
                do {
                    try store.write { try $0.execute(sql: "INSERT INTO other (value) VALUES (1)") }
                } catch {
                    shared.state.withLock { $0.error = error }
                    return
                }
                let time = Double(DispatchTime.now().uptimeNanoseconds - begin) / 1e6
                shared.state.withLock { $0.longest = max($0.longest, time) }
            }
        }
    }

    /// - Returns: The longest write, in milliseconds.
    func end() throws -> Double {
        shared.state.withLock { $0.isEnding = true }
        ended.wait()
        let state = shared.state.withLock { $0 }
        if let error = state.error { throw error }
        return state.longest
    }
}
