import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing
import TestKit
import Testing

@testable import KeyRotation

/// The copying of pages, without the other steps of a rotation.
@Suite struct PageCopierTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    @Test("a throttled copy, and reading it back, take as long as their bytes at the bound")
    func keepsTheBound() throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a)")
            for _ in 0..<1000 { try db.execute(sql: "INSERT INTO t VALUES (hex(randomblob(2000)))") }
        }
        let view = try store.makePageSnapshot()
        let file = try LockFile(path: path + "-lock", likeFile: path)
        let locks = try [LockByte.admin, .opening].map { try #require(try file.tryLock($0, .exclusive)) }
        defer { for lock in locks { lock.release() } }
        let journal = RotationJournal(databasePath: path) { try TestKeys.material("raw").unlock($0) }
        var options = KeyRotation.Options()
        options.throttleBytesPerSecond = 1_000_000
        options.workers = 1
        let still = StillClock()
        let copier = try PageCopier(
            StorePaths(path), of: view, keys: journal.begin(.newDataKey), options: options,
            reporter: ProgressReporter(nil), isCancelled: { false }, clock: still.clock)
        let span = Duration.microseconds(Int(view.databasePages) * view.pageBytes)
        #expect(span > .seconds(4))
        // Granted bytes delay only the next batch, so the last batch takes no time, and an idle period allows a small
        // burst.
        let slack = Duration.milliseconds(400)
        for pass in 1...2 {
            if pass == 1 { try copier.copyAll(of: view) } else { try copier.verifyAll() }
            #expect(still.now <= span * pass)
            #expect(still.now > span * pass - slack, "\(still.now) of \(span * pass)")
        }
        copier.copy.close()
        try view.close()
        try journal.abandon()
        try store.close()
    }
}
