import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// A page snapshot, while another process writes and checkpoints.
@Suite("A page snapshot among processes")
struct PageSnapshotProcessTests {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    @Test("another process that writes, vacuums and checkpoints changes no page of the moment")
    func peer() throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a BLOB)")
            for _ in 0..<100 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(2000))") }
        }
        try store.checkpoint(.full)
        try store.write { try $0.execute(sql: "UPDATE t SET a = randomblob(2000) WHERE rowid < 20") }
        let view = try store.makePageSnapshot()
        let expected = try FoldedFiles.fold(path)
        #expect(try FoldedFiles.pages(of: view) == expected)
        let peer = try ActorProcess()
        #expect(peer.ask("open \(path) raw")?.hasPrefix("ok") == true)
        var pages = expected
        var position = view.position
        for sql in [
            "UPDATE t SET a = randomblob(2100)", "DELETE FROM t WHERE rowid > 30", "VACUUM",
            "INSERT INTO t SELECT randomblob(900) FROM t",
        ] {
            #expect(peer.ask("run \(sql)")?.hasPrefix("ok") == true)
            #expect(peer.ask("checkpoint")?.hasPrefix("ok") == true)
            #expect(try FoldedFiles.pages(of: view) == expected)
            let delta = try view.delta(since: position)
            pages = try FoldedFiles.apply(delta, of: view, to: pages)
            #expect(try pages == FoldedFiles.fold(path))
            position = delta.position
        }
        peer.kill()
        #expect(try FoldedFiles.pages(of: view) == expected)
        try view.close()
        try store.close()
    }
}
