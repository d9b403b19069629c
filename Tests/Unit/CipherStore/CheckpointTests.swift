import CipherStore
import Foundation
import TestKit
import Testing

/// Checkpoints that nobody asks for.
@Suite struct CheckpointTests {
    // SQLite's own checkpoints are switched off by the call that also removes the hook by which commits are counted:
    // called in the wrong order, the log grew for as long as the store was open.
    @Test(
        "the log is copied into the database file as it grows, and does not grow without end",
        arguments: [Opening.sharedStore, .pool, .queue])
    func automatic(way: Opening) throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        // A queue that is told nothing keeps the journal mode of the file, and the others make it WAL.
        var config = Configuration()
        config.journalMode = .wal
        try way.open(path, .raw(1), config) { writer in
            try writer.write { try $0.execute(sql: "CREATE TABLE t (a BLOB)") }
            for _ in 0..<400 { try writer.write { try $0.execute(sql: "INSERT INTO t VALUES (randomblob(20000))") } }
            let main = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
            let log = try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int ?? 0
            #expect(main > 4 << 20, "\(main) bytes")
            #expect(log < 6 << 20, "\(log) bytes")
        }
    }
}
