import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// A store without an owner that nobody has closed.
@Suite struct DroppedStoreTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// Lives as long as the connection that has a function which uses it: SQLite drops functions when it has closed the
    /// files.
    private final class Witness: Sendable {
        private let whenClosed: @Sendable () -> Void

        init(_ whenClosed: @escaping @Sendable () -> Void) { self.whenClosed = whenClosed }

        deinit { whenClosed() }

        func use() {}
    }

    private func isLeaseHeld() throws -> Bool {
        try LockFile(path: StorePaths(path).lock, likeFile: path).isHeld(.lease, against: .exclusive)
    }

    @Test(
        "a store that is dropped without close() gives its lease back after its connections", arguments: [false, true])
    func leaseOfDroppedStore(hasSnapshot: Bool) throws {
        // Story: the lease went first. A key switch took the store for unused while its connections, and their locks,
        // were still there.
        let closings = Mutex<[Bool]>([])
        var config = Configuration()
        config.prepareDatabase { db in
            let witness = Witness {
                let isHeld = (try? isLeaseHeld()) ?? false
                closings.withLock { $0.append(isHeld) }
            }
            db.add(
                function: DatabaseFunction("witness", argumentCount: 0) { _ in
                    witness.use()
                    return nil
                })
        }
        var store: SharedStore? = try SharedStore.open(
            at: path, unlockedBy: TestKeys.source("raw"), configuration: config)
        try store?.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try store?.read { _ = try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
        try store?.checkpoint()
        var snapshot = hasSnapshot ? try store?.makeSnapshot() : nil
        closings.withLock { $0 = [] }
        #expect(try isLeaseHeld())
        store = nil
        if hasSnapshot {
            #expect(try snapshot?.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 0)
            #expect(try isLeaseHeld())
            snapshot = nil
        }
        #expect(try waitUntil { try !isLeaseHeld() })
        // The writer, the one that checkpoints, and a reader.
        #expect(closings.withLock { $0 } == Array(repeating: true, count: hasSnapshot ? 4 : 3))
        let again = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        #expect(try again.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 0)
    }
}
