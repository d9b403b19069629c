import CipherDatabase
import CipherRecords
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// Full-text tables with `synchronize(withTable:)` follow the rows that a join writes.
///
/// The story: their triggers do not fire while a pull writes rows. The other device found no row of a pull, and FTS5
/// reported the index as corrupt.
@Suite("Full-text tables and sync")
struct FullTextFollowerTests {
    private static let hasFTS4 = (try? DatabaseQueue().write { try $0.create(virtualTable: "t", using: FTS4()) }) != nil
    private static let tables = ["number", "word", "bytes"]
    private static let sql = """
        CREATE TABLE number (id INTEGER PRIMARY KEY, body TEXT, tag TEXT UNIQUE, other TEXT);
        CREATE TABLE word (body TEXT, id TEXT PRIMARY KEY COLLATE NOCASE, tag TEXT UNIQUE, other TEXT);
        CREATE TABLE bytes (id BLOB PRIMARY KEY, tag TEXT UNIQUE ON CONFLICT REPLACE, body TEXT, other TEXT);
        """

    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    /// The key of a row in SQL.
    private func key(_ number: Int, _ table: String) -> String {
        switch table {
        case "number": "\(number)"
        case "word": "'Key\(number)'"
        default: "x'00\(String(format: "%02x", number))'"
        }
    }

    private func insert(_ number: Int, _ body: String, tag: String? = nil) -> String {
        Self.tables.map { table in
            "INSERT INTO \(table) (id, body, tag) VALUES (\(key(number, table)), '\(body)', '\(tag ?? "tag\(number)")')"
        }.joined(separator: ";")
    }

    private func update(_ number: Int, _ settings: String) -> String {
        Self.tables.map { "UPDATE \($0) SET \(settings) WHERE id = \(key(number, $0))" }.joined(separator: ";")
    }

    private func delete(_ number: Int) -> String {
        Self.tables.map { "DELETE FROM \($0) WHERE id = \(key(number, $0))" }.joined(separator: ";")
    }

    /// Makes full-text tables that follow each table.
    private static func index(_ pool: DatabasePool) throws {
        try pool.write { db in
            for table in tables {
                try db.create(virtualTable: table + "5", using: FTS5()) { t in
                    t.synchronize(withTable: table)
                    t.column("body")
                    t.column("tag")
                }
                if !hasFTS4 { continue }
                try db.create(virtualTable: table + "4", using: FTS4()) { t in
                    t.synchronize(withTable: table)
                    t.column("body")
                    t.column("other").asLanguageId()
                }
            }
        }
    }

    /// A device whose full-text tables are there before it joins.
    private func device(_ name: String, invitedBy other: Device? = nil, sliceRows: Int = 50_000) throws -> Device {
        let path = folder.path(name)
        let pool = try Device.open(path, Self.sql)
        try Self.index(pool)
        try pool.close()
        guard let other else { return try Device(path, sliceRows: sliceRows, sql: "") }
        return try Device(path, invitedBy: other, at: remote, sliceRows: sliceRows, sql: "")
    }

    private static let start = Result {
        try MadeStores { folder, remote in
            for name in ["a.db", "b.db"] {
                let pool = try Device.open(folder.path(name), sql)
                try index(pool)
                try pool.close()
            }
            let a = try Device(folder.path("a.db"), sql: "")
            let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: "")
            for device in [a, b] { try device.close() }
        }
    }

    /// Two devices whose full-text tables were there before the second one joined.
    private func devices() throws -> (Device, Device) {
        try Self.start.get().write(to: folder, remote)
        return (try Device(folder.path("a.db"), sql: ""), try Device(folder.path("b.db"), sql: ""))
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    /// SQLite compares each index with its table.
    private func check(
        _ device: Device, _ words: [String: Int], sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        try device.pool.write { db in
            for index in try FullTextIndex.all(db) {
                #expect(try index.fits(db), "\(index.name)", sourceLocation: sourceLocation)
                guard let table = Self.tables.first(where: index.name.hasPrefix) else { continue }
                for (word, rows) in words {
                    let found = try Int.fetchOne(
                        db, sql: "SELECT count(*) FROM \(index.name) WHERE body MATCH ?", arguments: [word])
                    let stored = try Int.fetchOne(
                        db, sql: "SELECT count(*) FROM \(table) WHERE ' ' || body || ' ' LIKE ?",
                        arguments: ["% \(word) %"])
                    #expect(
                        found == rows && stored == rows,
                        "\(index.name): \(word) \(String(describing: found)) \(String(describing: stored))",
                        sourceLocation: sourceLocation)
                }
            }
        }
    }

    @Test("they follow rows that a pull inserts, updates and deletes")
    func pull() throws {
        let (a, b) = try devices()
        try a.write(insert(1, "red apple") + ";" + insert(2, "red cherry") + ";" + insert(3, "blue plum"))
        try settle(a, b)
        try check(b, ["red": 2, "blue": 1])
        try a.write(update(1, "body = 'green apple'") + ";" + update(2, "tag = 'changed'") + ";" + delete(3))
        try settle(a, b)
        for device in [a, b] { try check(device, ["red": 1, "green": 1, "blue": 0]) }
        // NULL in the place of a text, and back.
        try b.write(update(1, "body = NULL"))
        try settle(a, b)
        try check(a, ["red": 1, "green": 0])
        try b.write(update(1, "body = 'yellow'") + ";" + delete(2))
        try settle(a, b)
        for device in [a, b] { try check(device, ["red": 0, "yellow": 1]) }
        // After a reopening the program's own writes fit too.
        try b.close()
        let again = try Device(folder.path("b.db"), sql: "")
        try again.write(update(1, "body = 'black'"))
        try check(again, ["yellow": 0, "black": 1])
    }

    @Test("they follow two members' updates of one row")
    func merge() throws {
        let (a, b) = try devices()
        try a.write(insert(1, "red"))
        try settle(a, b)
        try a.write(update(1, "body = 'green'"))
        try b.write(update(1, "tag = 'other'"))
        try b.write(insert(2, "white"))
        try a.write(insert(2, "black"))
        try settle(a, b)
        for device in [a, b] { try check(device, ["red": 0, "green": 1]) }
        #expect(try a.texts("SELECT body FROM number ORDER BY id") == b.texts("SELECT body FROM number ORDER BY id"))
    }

    @Test("they follow a row that a conflict hides, and that appears again")
    func hidden() throws {
        let (a, b) = try devices()
        try settle(a, b)
        try a.write(insert(1, "red", tag: "one"))
        try b.write(insert(2, "blue", tag: "one"))
        try settle(a, b)
        let shown = try a.texts("SELECT body FROM number")
        #expect(shown.count == 1)
        for device in [a, b] {
            try check(device, ["red": shown == ["red"] ? 1 : 0, "blue": shown == ["blue"] ? 1 : 0])
        }
        try a.write(delete(shown == ["red"] ? 1 : 2))
        try settle(a, b)
        for device in [a, b] {
            try check(device, ["red": shown == ["red"] ? 0 : 1, "blue": shown == ["blue"] ? 0 : 1])
        }
    }

    @Test("they follow rows that exchange unique values, after refused updates")
    func exchangedValues() throws {
        let (a, b) = try devices()
        try a.write(insert(1, "red", tag: "one") + ";" + insert(2, "blue", tag: "two"))
        try settle(a, b)
        try a.write(
            [
                update(1, "tag = 'three'"), update(2, "tag = 'one', body = 'green'"),
                update(1, "tag = 'two', body = 'white'"),
            ].joined(separator: ";"))
        try settle(a, b)
        for device in [a, b] { try check(device, ["red": 0, "blue": 0, "white": 1, "green": 1]) }
        #expect(try b.texts("SELECT tag FROM number ORDER BY id") == ["two", "one"])
    }

    @Test("they have the rows of a snapshot that a new device joins in slices")
    func snapshot() throws {
        let (a, b) = try devices()
        for number in 1...30 { try a.write(insert(number, number % 2 == 0 ? "even row" : "odd row")) }
        try a.write(update(2, "body = 'odd'") + ";" + delete(3))
        try settle(a, b)
        #expect(try a.repository.compact(remote, named: "remote").deletedObjects > 0)
        let c = try device("c.db", invitedBy: a, sliceRows: 7)
        try settle(a, c)
        for device in [a, b, c] { try check(device, ["even": 14, "odd": 15]) }
    }

    @Test("they follow revert, reset, and a reset to an earlier head")
    func reversal() throws {
        let a = try device("a.db")
        try a.write(insert(1, "red"))
        let head = try #require(try a.repository.reader.read { try Head.fetchOne($0) })
        try a.write(update(1, "body = 'green'") + ";" + insert(2, "blue"))
        let second = try #require(try a.repository.reader.read { try Head.fetchOne($0) })
        try a.write(insert(3, "white"))
        try a.repository.revert(second.uuid)
        try check(a, ["red": 1, "green": 0, "blue": 0, "white": 1])
        try a.repository.reset(to: head.uuid)
        try check(a, ["red": 1, "white": 0])
        try a.repository.reset()
        try check(a, ["red": 0])
    }

    /// A pull of an earlier version left an index behind. A later pull would have ended as SQLITE_CORRUPT for ever.
    @Test("an index that did not fit is made again when a pull finds it out")
    func misfit() throws {
        let (a, b) = try devices()
        try a.write(insert(1, "red") + ";" + insert(2, "red"))
        try settle(a, b)
        try b.pool.write { db in
            for index in try FullTextIndex.all(db) where index.module == .fts5 {
                try db.execute(sql: "INSERT INTO \(index.name)(\(index.name)) VALUES ('delete-all')")
            }
        }
        try a.write(update(1, "body = 'green'") + ";" + delete(2))
        try settle(a, b)
        try check(b, ["red": 0, "green": 1])
    }

    @Test("they follow generated columns, a renamed column, and an index that is made or dropped between two pulls")
    func definitions() throws {
        let sql = """
            CREATE TABLE number (id INTEGER PRIMARY KEY, first TEXT, body TEXT GENERATED ALWAYS AS (first || ' sum'));
            """
        let a = try Device(folder.path("a.db"), sql: sql)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
        try a.write("INSERT INTO number (id, first) VALUES (1, 'red')")
        try settle(a, b)
        try b.pool.write { db in
            try db.create(virtualTable: "number5", using: FTS5()) { t in
                t.synchronize(withTable: "number")
                t.column("body")
            }
        }
        try a.write("INSERT INTO number (id, first) VALUES (2, 'red'); UPDATE number SET first = 'blue' WHERE id = 1")
        try settle(a, b)
        try check(b, ["red": 1, "blue": 1, "sum": 2])
        try b.pool.writeWithoutTransaction { db in
            try db.execute(sql: "ALTER TABLE number RENAME COLUMN first TO name")
            try b.repository.replica.rename(db, clock: b.repository.clock(), "first", to: "name", of: "number")
            try b.repository.replica.track(db, clock: b.repository.clock(), TrackedTable("number"))
        }
        try a.write("UPDATE number SET first = 'green' WHERE id = 2")
        try settle(a, b)
        try check(b, ["red": 0, "blue": 1, "green": 1])
        try b.pool.write { db in
            try db.execute(sql: "DROP TABLE number5")
            try db.dropFTS5SynchronizationTriggers(forTable: "number5")
        }
        try a.write("DELETE FROM number WHERE id = 2")
        try settle(a, b)
        #expect(try b.texts("SELECT count(*) FROM number") == ["1"])
    }

    /// A tokenizer that only programs with its class have.
    private final class OwnTokenizer: FTS5WrapperTokenizer {
        static let name = "own"
        let wrappedTokenizer: any FTS5Tokenizer

        init(db: Database, arguments: [String]) throws { wrappedTokenizer = try db.makeTokenizer(.unicode61()) }

        func accept(
            token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
            tokenCallback: FTS5WrapperTokenCallback
        ) throws { try tokenCallback(token, flags) }
    }

    private func openWithTokenizer(_ path: String) throws -> DatabasePool {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(tokenizer: OwnTokenizer.self)
            try db.useRawKey(Data(repeating: 7, count: 32))
        }
        return try DatabasePool(path: path, configuration: configuration)
    }

    /// A command without the tokenizers of the program would leave the index behind.
    @Test("a process without a tokenizer shows the other tables, and one with it shows the rest")
    func tokenizer() throws {
        let a = try Device(folder.path("a.db"), sql: Self.sql)
        var b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: Self.sql)
        try a.write(insert(1, "red") + ";" + insert(2, "red") + ";" + insert(3, "red"))
        try settle(a, b)
        try b.close()
        var pool = try openWithTokenizer(b.path)
        try pool.write { db in
            try db.create(virtualTable: "number5", using: FTS5()) { t in
                t.tokenizer = OwnTokenizer.tokenizerDescriptor()
                t.synchronize(withTable: "number")
                t.column("body")
            }
        }
        try pool.close()
        b = try Device(b.path, sql: "")
        try a.write(insert(4, "green") + ";" + update(1, "body = 'green'") + ";" + delete(2))
        try settle(a, b)
        #expect(try b.texts("SELECT count(*) FROM word WHERE body = 'green'") == ["2"])
        #expect(try b.texts("SELECT id, body FROM number ORDER BY id") == ["1 red", "2 red", "3 red"])
        try b.close()
        pool = try openWithTokenizer(b.path)
        try ChangesetRepository(pool, named: b.path).sync(remote, named: "remote")
        try pool.write { db in
            let found = try String.fetchAll(
                db, sql: "SELECT rowid FROM number5 WHERE body MATCH 'green' ORDER BY rowid")
            #expect(found == ["1", "4"])
            #expect(try FullTextIndex.all(db).allSatisfy { try $0.fits(db) })
        }
        try pool.close()
    }

    @Test("they follow a pull of many rows, in slices")
    func manyRows() throws {
        let a = try device("a.db")
        let b = try device("b.db", invitedBy: a, sliceRows: 600)
        let many = Self.tables.map { table in
            let id = ["number": "n", "word": "'key' || n", "bytes": "CAST('key' || n AS BLOB)"][table] ?? ""
            return """
                WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2400)
                INSERT INTO \(table) (id, body, tag)
                SELECT \(id), 'word' || (n % 10) || ' of row ' || n, 'tag' || n FROM c
                """
        }
        try a.write(many.joined(separator: ";"))
        try settle(a, b)
        try check(b, ["word7": 240, "2400": 1])
    }
}
