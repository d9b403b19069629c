import CipherDatabase
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

/// Connections that were opened before a new file had its first page.
@Suite struct NewFileTests {
    let folder = TemporaryFolder()

    private func queue(_ form: String, _ name: String = "new.db") throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            if form == "passphrase" {
                try db.usePassphrase("correct horse")
            } else {
                try db.useRawKey(Data(repeating: 7, count: 32))
            }
            if form == "plaintext header" { try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32") }
        }
        return try DatabaseQueue(path: folder.path(name), configuration: configuration)
    }

    // Story: one in two of such openings failed with wrongKey.
    @Test("queues that open one new file at the same moment all open it", arguments: ["raw key", "plaintext header"])
    func atOnce(form: String) throws {
        for round in 0..<10 {
            let failures = Mutex<[String]>([])
            DispatchQueue.concurrentPerform(iterations: 4) { index in
                do {
                    let queue = try queue(form, "\(round).db")
                    try queue.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a)") }
                    try queue.close()
                } catch let error as StoreError {
                    failures.withLock { $0.append("\(error)") }
                } catch {
                    // SQLITE_BUSY, and SQLITE_NOTADB once: the next access has another connection.
                }
            }
            #expect(failures.withLock { $0 }.isEmpty)
        }
    }

    // Story: each had made a salt of its own. The second one said "no such table", then "file is not a database".
    @Test(
        "two queues on one new file read and write what the other one has written first",
        arguments: ["passphrase", "raw key", "plaintext header"], [true, false])
    func twoQueues(form: String, readsFirst: Bool) throws {
        let (first, second) = (try queue(form), try queue(form))
        try first.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        if readsFirst { #expect(try second.read { try Int.fetchAll($0, sql: "SELECT a FROM t") } == [1]) }
        try second.write { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
        try first.write { try $0.execute(sql: "INSERT INTO t VALUES (3)") }
        for queue in [first, second, try self.queue(form)] {
            #expect(try queue.read { try Int.fetchAll($0, sql: "SELECT a FROM t") } == [1, 2, 3])
            try queue.close()
        }
    }
}
