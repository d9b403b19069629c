import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit

extension Actor {
    /// Giving a store up for others: `busy` begins to write and read on three threads and a task, `busy-end` reports
    /// the work and the first error; `epoch` tells which key the store has; `ask PATH` asks for the store and keeps
    /// that, `take-lease SECONDS` then takes the lease alone, `end-request` gives both back; `snapshot`,
    /// `snapshot-total`, `snapshot-end`; `long-read` runs a statement that never ends, in the background, and
    /// `long-read-end` tells how it ended.
    static let yieldCommands: [String: Command] = [
        "busy": { actor, _ in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            actor.busyWork = BusyWork(store)
            return ""
        },
        "busy-end": { actor, _ in actor.busyWork?.end() ?? "" },
        "epoch": { actor, _ in String(actor.store?.epoch ?? 0) },
        "ask": { actor, words in
            actor.request = try YieldRequest.ask(StorePaths(words[0]))
            return actor.request == nil ? "busy" : "asked"
        },
        "take-lease": { actor, words in
            let deadline = ContinuousClock.now + .seconds(Double(words[0]) ?? 0)
            actor.requestedLease = try actor.request?.exclusiveLease(until: deadline)
            return actor.requestedLease == nil ? "late" : "alone"
        },
        "end-request": { actor, _ in
            actor.requestedLease = nil
            actor.request?.end()
            return ""
        },
        "snapshot": { actor, _ in
            actor.snapshot = try actor.store?.makeSnapshot()
            return ""
        },
        "snapshot-total": { actor, _ in
            guard let snapshot = actor.snapshot else { throw ActorError.nothingIsOpen }
            return String(try snapshot.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") ?? 0 })
        },
        "snapshot-end": { actor, _ in
            actor.snapshot = nil
            return ""
        },
        "long-read": { actor, _ in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            // Told only when it has begun: a request that comes before would keep it out instead of ending it.
            let isInside = DispatchSemaphore(value: 0)
            actor.longRead = BackgroundAccess {
                try store.read { db in
                    isInside.signal()
                    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT MAX(x) FROM c"
                    _ = try Int.fetchOne(db, sql: endless)
                }
            }
            isInside.wait()
            return ""
        },
        "long-read-end": { actor, _ in actor.longRead?.ending() ?? "" },
    ]
}

/// An access on a thread of its own.
final class BackgroundAccess: Sendable {
    private let outcome = Mutex("")
    private let isOver = DispatchSemaphore(value: 0)

    init(_ access: @escaping @Sendable () throws -> Void) {
        Thread.detachNewThread { [self] in
            do {
                try access()
                outcome.withLock { $0 = "ended" }
            } catch {
                outcome.withLock { $0 = StoreActor.errorLine(error) }
            }
            isOver.signal()
        }
    }

    /// Waits for its end.
    func ending() -> String {
        isOver.wait()
        return outcome.withLock { $0 }
    }
}

/// Threads and a task that write and read all the time, in every form, and take down each error.
final class BusyWork: Sendable {
    private let store: SharedStore
    private let isStopped = Flag()
    private let running = DispatchGroup()
    private let writes = Atomic<Int>(0)
    private let reads = Atomic<Int>(0)
    private let errors = Mutex<[String]>([])

    init(_ store: SharedStore) {
        self.store = store
        repeatOnThread { [self] in
            try store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('busy')") }
            writes.add(1, ordering: .relaxed)
        }
        repeatOnThread { [self] in
            _ = try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") }
            reads.add(1, ordering: .relaxed)
        }
        repeatOnThread { [self] in
            // Without a thread that waits: the next one begins when this one has ended.
            let isOver = DispatchSemaphore(value: 0)
            store.asyncWrite { db in
                try db.execute(sql: "INSERT INTO mark (text) VALUES ('busy')")
            } completion: { [self] _, result in
                if case .failure(let error) = result { note(error) } else { writes.add(1, ordering: .relaxed) }
                isOver.signal()
            }
            isOver.wait()
        }
        running.enter()
        Task.detached { [self] in
            while !isStopped.isSet {
                do {
                    _ = try await store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") }
                    reads.add(1, ordering: .relaxed)
                } catch { note(error) }
            }
            running.leave()
        }
    }

    private func repeatOnThread(_ body: @escaping @Sendable () throws -> Void) {
        running.enter()
        Thread.detachNewThread { [self] in
            while !isStopped.isSet {
                do { try body() } catch { note(error) }
            }
            running.leave()
        }
    }

    private func note(_ error: any Error) { errors.withLock { $0.append(StoreActor.errorLine(error)) } }

    func end() -> String {
        isStopped.set()
        running.wait()
        let first = errors.withLock { $0.first } ?? "-"
        return "\(writes.load(ordering: .relaxed)) \(reads.load(ordering: .relaxed)) \(first)"
    }
}
