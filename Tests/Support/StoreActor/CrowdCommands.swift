import CipherStore
import Foundation
import Synchronization
import TestKit

extension Actor {
    /// Many writers in one process, each with a store of its own: `crowd-open PATH KEY COUNT SECONDS` opens them, to wait
    /// for so long at most; `crowd-write` lets each begin to write one row; `crowd-end` waits for all of them and answers
    /// how many have written.
    static let crowdCommands: [String: Command] = [
        "crowd-open": { actor, words in
            guard words.count > 3, let count = Int(words[2]), let seconds = Double(words[3]) else {
                throw ActorError.badArguments(words)
            }
            actor.crowd = try Crowd(path: words[0], key: words[1], count: count, seconds: seconds)
            return ""
        },
        "crowd-write": { actor, _ in
            actor.crowd?.begin()
            return ""
        },
        "crowd-end": { actor, _ in try actor.crowd?.end() ?? "0" },
    ]
}

/// Threads that each write one row by a store of their own.
final class Crowd: Sendable {
    private let stores: [SharedStore]
    private let waiting = DispatchGroup()
    private let outcome = Mutex<(written: Int, failures: [String])>((0, []))

    init(path: String, key: String, count: Int, seconds: Double) throws {
        var config = Configuration()
        config.busyMode = .timeout(seconds)
        stores = try (0..<count).map { _ in
            try SharedStore.open(at: path, unlockedBy: TestKeys.source(key), configuration: config)
        }
    }

    func begin() {
        for store in stores {
            waiting.enter()
            Thread.detachNewThread { [self] in
                defer { waiting.leave() }
                do {
                    try store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('crowd')") }
                    outcome.withLock { $0.written += 1 }
                } catch {
                    outcome.withLock { $0.failures.append("\(error)") }
                }
            }
        }
    }

    func end() throws -> String {
        waiting.wait()
        for store in stores { try store.close() }
        return outcome.withLock { ([String($0.written)] + $0.failures).joined(separator: " ") }
    }
}
