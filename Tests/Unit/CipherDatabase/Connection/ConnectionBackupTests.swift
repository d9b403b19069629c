import CipherDatabase
import Foundation
import StorePlatform
import TestKit
import Testing

@Suite struct ConnectionBackupTests {
    let folder = TemporaryFolder()

    private func encrypted(_ passphrase: String) -> Configuration {
        var config = Configuration()
        config.busyMode = .timeout(30)
        config.prepareDatabase { db in
            try db.usePassphrase(passphrase)
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        return config
    }

    private func fill(_ writer: some DatabaseWriter, rows: Int, text: String) throws {
        try writer.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (a, b);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
                    INSERT INTO t SELECT i, ? || randomblob(900) FROM n
                    """, arguments: [text])
        }
    }

    private func count(_ reader: some DatabaseReader) throws -> Int? {
        try reader.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    }

    @Test("a store of one key is copied into a store of another, which keeps its key")
    func differentKeys() throws {
        let path = folder.path("copy.db")
        let source = try DatabasePool(path: folder.path("source.db"), configuration: encrypted("one"))
        let copy = try DatabasePool(path: path, configuration: encrypted("two"))
        try fill(source, rows: 500, text: "from the source")
        try fill(copy, rows: 3, text: "what was there")
        #expect(try count(copy) == 3)
        var reports: [DatabaseBackupProgress] = []
        try source.backup(to: copy, pagesPerStep: 10) { reports.append($0) }
        #expect(try count(copy) == 500)
        #expect(try copy.write { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 500)
        #expect(reports.count > 5)
        #expect(reports.map(\.isCompleted).filter { $0 }.count == 1)
        let last = try #require(reports.last)
        #expect(last.isCompleted && last.remainingPageCount == 0 && last.completedPageCount == last.totalPageCount)
        #expect(zip(reports, reports.dropFirst()).allSatisfy { $0.remainingPageCount > $1.remainingPageCount })
        try copy.write { try $0.execute(sql: "INSERT INTO t VALUES (0, 'behind')") }
        try copy.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)).range(of: Data("from the source".utf8)) == nil)
        let again = try DatabaseQueue(path: path, configuration: encrypted("two"))
        #expect(try count(again) == 501)
        #expect(try again.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        #expect(storeError { try DatabaseQueue(path: path, configuration: encrypted("one")) } == .wrongKey)
    }

    @Test("a copy that the progress function ends leaves the destination as it was")
    func abandoned() throws {
        let source = try DatabasePool(path: folder.path("source.db"), configuration: encrypted("one"))
        let copy = try DatabasePool(path: folder.path("copy.db"), configuration: encrypted("two"))
        try fill(source, rows: 500, text: "new")
        try fill(copy, rows: 300, text: "old")
        #expect(throws: PlannedFailure.self) {
            try source.backup(to: copy, pagesPerStep: 10) { progress in
                if progress.completedPageCount >= 50 { throw PlannedFailure() }
            }
        }
        #expect(try count(copy) == 300)
        try copy.write { db throws in
            #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
            try db.execute(sql: "DELETE FROM t WHERE a > 100")
        }
        #expect(try count(copy) == 100)
        try source.backup(to: copy) { progress in if progress.isCompleted { throw PlannedFailure() } }
        #expect(try count(copy) == 500)
    }

    @Test("databases in memory are copied into each other, and schema caches notice")
    func inMemory() throws {
        let (source, copy) = (DatabaseQueue(), DatabaseQueue())
        try fill(source, rows: 10, text: "x")
        #expect(try copy.read { try !$0.tableExists("t") })
        try source.backup(to: copy)
        #expect(try copy.read { try $0.tableExists("t") })
        #expect(try count(copy) == 10)
        try source.writeWithoutTransaction { sourceDb in
            try sourceDb.execute(sql: "DELETE FROM t")
            try copy.writeWithoutTransaction { try sourceDb.backup(to: $0) }
        }
        #expect(try count(copy) == 0)
    }

    @Test("between an encrypted database and a plain one there is no copy, and the error says what to do")
    func mixed() throws {
        let source = try DatabasePool(path: folder.path("source.db"), configuration: encrypted("one"))
        try fill(source, rows: 10, text: "x")
        let plain = try DatabaseQueue(path: folder.path("plain.db"), configuration: MigrationScratch.plain)
        for (from, to) in [(source as any DatabaseWriter, plain as any DatabaseWriter), (plain, source)] {
            let error = databaseError { try from.backup(to: to) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
            #expect(error?.message?.contains("give both a key in prepareDatabase") == true)
        }
        #expect(try count(source) == 10)
        #expect(databaseError { try source.backup(to: DatabaseQueue()) }?.resultCode == .SQLITE_MISUSE)
    }

    @Test("a keyed database in memory takes a copy of an encrypted store")
    func keyedMemory() throws {
        let source = try DatabasePool(path: folder.path("source.db"), configuration: encrypted("one"))
        try fill(source, rows: 10, text: "x")
        var config = Configuration()
        config.prepareDatabase { try $0.usePassphrase("memory") }
        let memory = DatabaseQueue(configuration: config)
        try source.backup(to: memory)
        #expect(try count(memory) == 10)
        try memory.write { try $0.execute(sql: "DELETE FROM t WHERE a > 4") }
        try memory.backup(to: source)
        #expect(try count(source) == 4)
    }

    @Test("a destination inside a transaction, and a copy onto itself, are refused")
    func misuse() throws {
        let queue = DatabaseQueue()
        let other = DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            #expect(databaseError { try db.backup(to: db) } != nil)
            try other.write { destination in
                try destination.execute(sql: "CREATE TABLE mine (a)")
                #expect(databaseError { try db.backup(to: destination) } != nil)
                #expect(try destination.tableExists("mine"))
            }
        }
        #expect(try other.read { try $0.tableExists("mine") })
    }
}
