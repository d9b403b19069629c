import CipherStore
import Foundation
import StoreTools
import TestKit
import Testing

/// Plain databases of a few pages that another person has made, so that a tool reads them for ever.
@Suite struct CraftedPlainTests {
    private let fixture = ToolFixture()

    private func make(_ sql: String) throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// Makes the root of a table a tree of four levels, in which each page has another one 400 times as its child.
    private func crossPages() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        let root = try queue.read { try Int.fetchOne($0, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 't'") }
        try queue.close()
        let rootOffset = try (#require(root) - 1) * 4096
        var file = try Data(contentsOf: URL(fileURLWithPath: fixture.plain))
        let first = file.count / 4096 + 1
        file += file[rootOffset..<rootOffset + 4096]
        for level in 0..<3 { file += interior(child: first + level) }
        file.replaceSubrange(rootOffset..<rootOffset + 4096, with: interior(child: first + 3))
        file.replaceSubrange(28..<32, with: bytes(first + 3, 4))
        try file.write(to: URL(fileURLWithPath: fixture.plain))
    }

    private func bytes(_ value: Int, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }

    /// An interior page of a table (https://www.sqlite.org/fileformat2.html#b_tree_pages).
    private func interior(child: Int) -> [UInt8] {
        let cells = 400
        var page = [UInt8](repeating: 0, count: 4096)
        let start = 4096 - cells * 5
        page.replaceSubrange(0..<12, with: [5, 0, 0] + bytes(cells, 2) + bytes(start, 2) + [0] + bytes(child, 4))
        for cell in 0..<cells {
            page.replaceSubrange(12 + cell * 2..<14 + cell * 2, with: bytes(start + cell * 5, 2))
            page.replaceSubrange(start + cell * 5..<start + cell * 5 + 5, with: bytes(child, 4) + [5])
        }
        return page
    }

    /// Cancels a tool that runs longer than a small file takes.
    private func run<T: StoreTool>(_ tool: T) -> (any Error)? {
        let deadline = ContinuousClock.now + .seconds(20)
        do {
            _ = try tool.run(isCancelled: { ContinuousClock.now > deadline })
            return nil
        } catch {
            return error
        }
    }

    // Story: 24 kilobytes filled the memory, or were read for ever. An import spoke of a constraint.
    @Test(
        "a tree whose pages refer to each other is damage",
        arguments: ["a", "rowid, oid, _rowid_", "a INTEGER PRIMARY KEY", "a, g AS (a || 'x')"])
    func crossedPages(_ columns: String) throws {
        try make(
            "CREATE TABLE t (\(columns)); WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c LIMIT 5) "
                + "INSERT INTO t SELECT \(columns.hasPrefix("rowid") ? "i, i, i" : "i") FROM c")
        try crossPages()
        let start = ContinuousClock.now
        let error = run(StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source))
        #expect((error as? ToolError)?.code == .notPlain, "\(error as Any)")
        #expect(ContinuousClock.now - start < .seconds(10))
        #expect(fixture.names() == ["plain.db"])
    }

    // Story: SQLite computes every generated column of a row that is inserted, and each value took a second.
    @Test(
        "the values of generated columns that are not stored are not computed",
        arguments: ["g", "g TEXT", "g TEXT NOT NULL", "g TEXT CHECK (length(g) > 1)"])
    func virtualColumns(_ column: String) throws {
        try make(
            "CREATE TABLE t (a TEXT); WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c LIMIT 20) "
                + "INSERT INTO t SELECT 'x' FROM c")
        let definition = "CREATE TABLE t (a TEXT, \(column) GENERATED ALWAYS AS (hex(zeroblob(400000000))) VIRTUAL)"
        try rewrite(definition)
        let start = ContinuousClock.now
        let error = run(StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source))
        #expect(error == nil, "\(error as Any)")
        #expect(ContinuousClock.now - start < .seconds(4), "\(ContinuousClock.now - start)")
    }

    @Test("a sound table with generated columns is imported whole, with its keys and rules")
    func sound() throws {
        try make(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT COLLATE NOCASE, r REAL, n NUMERIC, b BLOB,
                v TEXT AS (a || '-' || id), s INT AS (length(a)) STORED, UNIQUE (a), UNIQUE (v));
            CREATE INDEX byV ON t (v DESC, r);
            CREATE TABLE w (k TEXT PRIMARY KEY, v AS (k || k)) WITHOUT ROWID;
            INSERT INTO t (a, r, n, b) VALUES ('one', 1, 1.5, x'00'), ('two', 2.5, 3, NULL), ('three', NULL, 'x', x'ff');
            DELETE FROM t WHERE a = 'three';
            INSERT INTO w (k) VALUES ('b'), ('a');
            """)
        _ = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        let store = try fixture.openStore()
        defer { try? store.close() }
        try store.write { db in
            #expect(try String.fetchAll(db, sql: "SELECT v FROM t ORDER BY v") == ["one-1", "two-2"])
            #expect(
                try String.fetchAll(db, sql: "SELECT typeof(r) || typeof(n) FROM t ORDER BY id") == [
                    "realreal", "realinteger",
                ])
            #expect(try String.fetchAll(db, sql: "SELECT v FROM w") == ["aa", "bb"])
            #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
            try db.execute(sql: "INSERT INTO t (a) VALUES ('four')")
            #expect(try Int.fetchOne(db, sql: "SELECT max(id) FROM t") == 4)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t (a) VALUES ('ONE')") }
        }
    }

    // It was called damaged or cut, and the advice recovered nothing.
    @Test("a plain database with a definition that SQLite cannot parse is refused with SQLite's reason")
    func unparsableSchema() throws {
        try make("CREATE TABLE t (a INT PRIMARY KEY)")
        try rewrite("CREATE TABLE t (a INT, )")
        let error = #expect(throws: ToolError.self) {
            try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        }
        #expect(
            error?.code == .notPlain && error?.why.contains("malformed database schema (t)") == true, "\(error as Any)")
        #expect(error?.remedy.contains("writable_schema") == true, "\(error as Any)")
    }

    /// Replaces the definition of the table `t` as text.
    private func rewrite(_ definition: String) throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        try queue.inDatabase { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(sql: "UPDATE sqlite_schema SET sql = ? WHERE name = 't'", arguments: [definition])
        }
        try queue.close()
    }
}
