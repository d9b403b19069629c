import CipherDatabase
import Foundation
import StorePlatform
import TestKit
import Testing

@Suite struct VacuumTests {
    let folder = TemporaryFolder()

    private func configuration(header: Int) -> Configuration {
        Databases.configuration { config in
            config.prepareDatabase { try $0.execute(sql: "PRAGMA cipher_plaintext_header_size = \(header)") }
        }
    }

    private func fill(_ writer: some DatabaseWriter) throws {
        try writer.write { db in
            try db.execute(sql: "CREATE TABLE t(a); CREATE TABLE gone(a)")
            let text = String(repeating: "x", count: 1000)
            for value in 0..<100 { try db.execute(sql: "INSERT INTO gone VALUES (?)", arguments: [text + "\(value)"]) }
            try db.insert("kept row")
            try db.execute(sql: "PRAGMA user_version = 12")
        }
        try writer.write { try $0.execute(sql: "DROP TABLE gone") }
    }

    private func freePages(_ writer: some DatabaseReader) throws -> Int? {
        try writer.read { try Int.fetchOne($0, sql: "PRAGMA freelist_count") }
    }

    @Test("vacuum gives free pages back, for a queue and a pool", arguments: [0, 32])
    func vacuum(header: Int) throws {
        let queue = try DatabaseQueue(path: folder.path("q.db"), configuration: configuration(header: header))
        let pool = try DatabasePool(path: folder.path("p.db"), configuration: configuration(header: header))
        for writer in [queue as any DatabaseWriter, pool] {
            try fill(writer)
            #expect(try freePages(writer) ?? 0 > 0)
            try writer.vacuum()
            #expect(try freePages(writer) == 0)
            #expect(try writer.read { try $0.rowCount() } == 1)
        }
    }

    @Test("vacuum(into:) writes an encrypted file that opens as the first does", arguments: [0, 32])
    func into(header: Int) throws {
        let pool = try DatabasePool(path: folder.path("p.db"), configuration: configuration(header: header))
        try fill(pool)
        let path = folder.path("copy.db")
        try pool.vacuum(into: path)
        #expect(try pool.read { try $0.rowCount() } == 1)
        #expect(FileManager.default.fileExists(atPath: path + "-sidecar") == (header == 32))
        let bytes = try #require(FileManager.default.contents(atPath: path))
        #expect(bytes.range(of: Data("kept row".utf8)) == nil)
        #expect(bytes.range(of: Data("CREATE TABLE".utf8)) == nil)
        let copy = try DatabasePool(path: path, configuration: configuration(header: header))
        try copy.read { db throws in
            #expect(try String.fetchAll(db, sql: "SELECT a FROM t") == ["kept row"])
            #expect(try Int.fetchOne(db, sql: "PRAGMA user_version") == 12)
            #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
        }
        #expect(try freePages(copy) == 0)
        try copy.write { try $0.insert("another") }
        #expect(try pool.read { try $0.rowCount() } == 1)
    }

    @Test("a keyed database in memory and one that only reads are written into files too")
    func intoFromMemory() throws {
        let memory = DatabaseQueue(configuration: Databases.configuration())
        try fill(memory)
        try memory.vacuum(into: folder.path("one.db"))
        let reader = try DatabaseQueue(
            path: folder.path("one.db"), configuration: Databases.configuration { $0.readonly = true })
        try reader.vacuum(into: folder.path("two.db"))
        let copy = try DatabaseQueue(path: folder.path("two.db"), configuration: Databases.configuration())
        #expect(try copy.read { try String.fetchOne($0, sql: "SELECT a FROM t") } == "kept row")
    }

    @Test("no file is written over, and nothing is written readable")
    func refusals() throws {
        let queue = try DatabaseQueue(path: folder.path("q.db"), configuration: Databases.configuration())
        try fill(queue)
        let taken = folder.path("taken")
        try Data("mine".utf8).write(to: URL(fileURLWithPath: taken))
        #expect(databaseError { try queue.vacuum(into: taken) }?.message == "output file already exists")
        #expect(FileManager.default.contents(atPath: taken) == Data("mine".utf8))
        let plain = folder.path("plain.db")
        #expect(storeError { try DatabaseQueue().vacuum(into: plain) } == .keyMissing)
        let error = databaseError { try queue.inDatabase { try $0.execute(sql: "VACUUM INTO '\(plain)'") } }
        #expect(error?.message?.contains("vacuum(into:)") == true)
        #expect((FileManager.default.contents(atPath: plain) ?? Data()).isEmpty)
    }

    @Test("who may have readable files may make readable copies")
    func plain() throws {
        var config = Configuration()
        config.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: folder.path("plain.db"), configuration: config)
        try fill(queue)
        try queue.vacuum(into: folder.path("copy.db"))
        try queue.inDatabase { try $0.execute(sql: "VACUUM INTO '\(folder.path("copy2.db"))'") }
        for name in ["copy.db", "copy2.db"] {
            let copy = try DatabaseQueue(path: folder.path(name), configuration: config)
            #expect(try copy.read { try $0.rowCount() } == 1)
        }
    }
}
