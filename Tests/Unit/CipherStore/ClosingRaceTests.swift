import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Accesses that begin while another thread closes the store.
@Suite struct ClosingRaceTests {
    private let folder = TemporaryFolder()
    private let source = KeySource.rawKey([UInt8](repeating: 5, count: 32))

    /// Repeats an access until it throws; the error.
    private static func lastError(_ access: () throws -> Void) -> any Error {
        while true {
            do { try access() } catch { return error }
        }
    }

    // Story: it ended with CancellationError, though nobody had cancelled anything.
    @Test("an access that waits for a lease during a suspension ends with storeClosed")
    func waitingForLease() async throws {
        let path = folder.path("app.db")
        let store = try SharedStore.open(at: path, unlockedBy: source)
        _ = await store.suspend(deadline: .seconds(5))
        let intent = try #require(try LockFile(path: path + "-lock", likeFile: path).tryLock(.intent, .exclusive))
        defer { intent.release() }
        let hasBegun = Mutex(false)
        let ended = Mutex<(any Error)?>(nil)
        Thread.detachNewThread {
            hasBegun.withLock { $0 = true }
            let error = Self.lastError { _ = try store.read { try Int.fetchOne($0, sql: "SELECT 1") } }
            ended.withLock { $0 = error }
        }
        #expect(waitUntil { hasBegun.withLock { $0 } })
        let moment = ContinuousClock.now + .milliseconds(200)
        while ContinuousClock.now < moment {}
        try store.close()
        #expect(waitUntil { ended.withLock { $0 != nil } })
        #expect((ended.withLock { $0 } as? StoreError)?.code == .storeClosed)
    }

    @Test("each of them ends with storeClosed, in threads and in tasks")
    func race() async throws {
        // Story: an access that had begun found the connection closed, and threw SQLite's error 21 for it.
        let path = folder.path("app.db")
        for round in 0..<40 {
            let store = try SharedStore.open(at: path, unlockedBy: source)
            let errors = Mutex<[any Error]>([])
            // Threads of their own: on two processors they would take all those of the dispatch queues.
            for index in 0..<6 {
                Thread.detachNewThread {
                    let error = Self.lastError {
                        if index % 2 == 0 {
                            _ = try store.read { try Int.fetchOne($0, sql: "SELECT 1") }
                        } else {
                            try store.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") }
                        }
                    }
                    errors.withLock { $0.append(error) }
                }
            }
            let tasks = (0..<2).map { index in
                Task { () -> any Error in
                    while true {
                        do {
                            if index == 0 {
                                _ = try await store.read { try Int.fetchOne($0, sql: "SELECT 1") }
                            } else {
                                try await store.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") }
                            }
                        } catch {
                            return error
                        }
                    }
                }
            }
            // The close comes at another moment of the accesses each time.
            let moment = ContinuousClock.now + .milliseconds(round % 4)
            while ContinuousClock.now < moment {}
            try store.close()
            for task in tasks {
                let error = await task.value
                errors.withLock { $0.append(error) }
            }
            #expect(await eventually { errors.withLock { $0.count } == 8 })
            for error in errors.withLock({ $0 }) {
                #expect((error as? StoreError)?.code == .storeClosed, "\(round): \(error)")
            }
        }
    }
}
