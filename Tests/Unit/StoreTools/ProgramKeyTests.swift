import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

/// Copies and salvages of tables that need what only their program has, held against the program's own check.
@Suite("Tables that only their program can evaluate, copied and salvaged")
struct ProgramKeyTests {
    private let fixture = ToolFixture()

    private static var program: Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            // The reverse order: an index in the order of bytes is wrong for it.
            db.add(collation: DatabaseCollation("prog") { $1.compare($0) })
            db.add(
                function: DatabaseFunction("prog_f", argumentCount: 1, pure: true) { values in
                    String((String.fromDatabaseValue(values[0]) ?? "").reversed())
                })
            db.add(function: DatabaseFunction("uuid", argumentCount: 0) { _ in UUID().uuidString })
            db.add(function: DatabaseFunction("regexp", argumentCount: 2, pure: true) { _ in true })
            db.add(function: DatabaseFunction("lower", argumentCount: 2, pure: true) { values in values[0] })
        }
        return configuration
    }

    private func make(_ shape: Shape) throws {
        var configuration = Self.program
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA encoding = '\(shape.encoding)'") }
        let store = try SharedStore.open(at: fixture.store, unlockedBy: fixture.source, configuration: configuration)
        try store.write { try $0.execute(sql: shape.sql) }
        try store.checkpoint(.truncate)
        try store.close()
    }

    private func open(_ path: String) throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: fixture.source, configuration: Self.program)
    }

    /// All rows, with types and generated columns.
    private func rows(_ db: Database, _ shape: Shape) throws -> [String] {
        let columns = try Row.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo('t')")
            .map { name in
                let column = (name[0] as String).quotedIdentifier
                return "quote(\(column)) || typeof(\(column)) || ifnull(hex(CAST(\(column) AS BLOB)), '')"
            }
        let rowID = shape.sql.contains("WITHOUT ROWID") ? "''" : "rowid"
        return try String.fetchAll(
            db,
            sql: "SELECT \(rowID) || ' ' || \(columns.joined(separator: " || ' ' || ")) FROM t "
                + "ORDER BY \(shape.order)")
    }

    private func sequence(_ db: Database) throws -> [String] {
        guard try db.tableExists("sqlite_sequence") else { return [] }
        return try String.fetchAll(db, sql: "SELECT name || seq FROM sqlite_sequence ORDER BY name")
    }

    /// Expects that the program finds the same rows in both, and everything in order.
    private func expectSame(_ path: String, _ shape: Shape, without leftOut: Set<String>) throws {
        let expected = try content(of: fixture.store, shape)
        let found = try content(of: path, shape)
        #expect(found.rows == expected.rows)
        #expect(found.sequence == expected.sequence)
        #expect(found.integrity == ["ok"])
        #expect(
            found.schema
                == expected.schema.filter { entry in !leftOut.contains { entry.hasPrefix("\($0)CREATE INDEX") } })
    }

    private struct Content {
        let rows, sequence, integrity, schema: [String]
    }

    // The copies had other indexes than the source, and nothing said so.
    @Test("a copy names the tables whose indexes a program has made by functions in the places of SQLite's")
    func replacedFunctions() throws {
        var program = Configuration()
        program.prepareDatabase { db in
            db.add(collation: DatabaseCollation("NOCASE") { $1.compare($0) })
            db.add(
                function: DatabaseFunction("lower", argumentCount: 1, pure: true) { values in
                    String((String.fromDatabaseValue(values[0]) ?? "").reversed())
                })
        }
        let store = try SharedStore.open(at: fixture.store, unlockedBy: fixture.source, configuration: program)
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE key (a TEXT COLLATE NOCASE UNIQUE); INSERT INTO key VALUES ('ab'), ('ca'), ('dc');
                    CREATE TABLE call (a); CREATE INDEX c ON call (lower(a)); INSERT INTO call SELECT a FROM key;
                    CREATE TABLE made (a, l AS (lower(a)) UNIQUE); INSERT INTO made (a) SELECT a FROM key;
                    CREATE TABLE plain (a UNIQUE, b COLLATE NOCASE); INSERT INTO plain SELECT a, a FROM key;
                    """)
        }
        try store.close()
        func named(_ indexes: [DamagedIndex]) -> [String] {
            ["key", "call", "made", "plain"].filter { name in
                indexes.contains { $0.table == name && $0.dependsOnProgram && $0.textOfCopy.contains("REINDEX") }
            }
        }
        var export = StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
        #expect(try named(export.run().damagedIndexes) == ["key", "call", "made"])
        try FileManager.default.removeItem(atPath: fixture.plain)
        export.configuration = program
        #expect(try named(export.run().damagedIndexes) == [])
        var tool = StoreImport(of: fixture.plain, to: fixture.path("copy.db"), unlockedBy: fixture.source)
        #expect(try named(tool.run().damagedIndexes) == ["key", "call", "made"])
        tool = StoreImport(of: fixture.plain, to: fixture.path("other.db"), unlockedBy: fixture.source)
        tool.configuration = program
        #expect(try named(tool.run().damagedIndexes) == [])
    }

    // The error was SQLite's: UNIQUE constraint failed.
    @Test("rows that only a replaced collation or function tells apart are refused by name")
    func replacedKeys() throws {
        var program = Configuration()
        program.prepareDatabase { db in
            db.add(collation: DatabaseCollation("NOCASE") { $0.compare($1) })
            db.add(function: DatabaseFunction("lower", argumentCount: 1, pure: true) { $0[0] })
        }
        for sql in ["t (a COLLATE NOCASE UNIQUE)", "t (a); CREATE UNIQUE INDEX l ON t (lower(a))"] {
            let path = fixture.path("\(sql.utf8.count).db")
            let store = try SharedStore.open(at: path, unlockedBy: fixture.source, configuration: program)
            try store.write { try $0.execute(sql: "CREATE TABLE \(sql); INSERT INTO t VALUES ('a'), ('A')") }
            try store.close()
            var export = StoreExport(of: path, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
            try expectRefusal("NOCASE") { _ = try export.run() }
            export.configuration = program
            #expect(try export.run().rowCount == 2)
            try FileManager.default.removeItem(atPath: fixture.plain)
        }
    }

    // It named what the other indexes of the table need too.
    @Test("an index that is left out names all that it and its table lack, and nothing else")
    func needsOfIndexes() throws {
        let shape = Shape(
            name: "several parts",
            sql: """
                CREATE TABLE t (a COLLATE prog, b DEFAULT (uuid()));
                CREATE INDEX t_f ON t (prog_f(b));
                CREATE INDEX t_regexp ON t (b) WHERE b REGEXP a;
                INSERT INTO t VALUES ('a', 'b');
                """)
        try make(shape)
        let exported = try StoreExport(
            of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source
        ).run()
        let salvaged = try StoreSalvage(of: fixture.store, to: fixture.path("s.db"), unlockedBy: fixture.source).run()
        for leftOut in [exported.leftOut, salvaged.leftOut] {
            let needs = Dictionary(leftOut.map { ($0.name, $0.needs) }) { first, _ in first }
            #expect(
                needs == [
                    "t_f": ["collation prog", "function prog_f", "function uuid"],
                    "t_regexp": ["collation prog", "function regexp", "function uuid"],
                ])
            #expect(leftOut.allSatisfy { index in index.needs.allSatisfy(index.text.contains) })
        }
    }

    /// The content that the program finds in a store.
    private func content(of path: String, _ shape: Shape) throws -> Content {
        let store = try open(path)
        defer { try? store.close() }
        return try store.read { db in
            Content(
                rows: try rows(db, shape), sequence: try sequence(db),
                integrity: try String.fetchAll(db, sql: "PRAGMA integrity_check"),
                schema: try String.fetchAll(
                    db,
                    sql: """
                        SELECT name || ifnull(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'cipherstore_%' ORDER BY name
                        """))
        }
    }

    @Test("an export and an import keep keys in the order that only the program knows", arguments: keys + definitions)
    func transfer(_ shape: Shape) throws {
        // Story: "no such collation sequence: prog" ended both.
        try make(shape)
        let exported = try StoreExport(
            of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source
        ).run()
        #expect(Set(exported.leftOut.map(\.name)) == shape.leftOut)
        let path = fixture.path("copy.db")
        let imported = try StoreImport(of: fixture.plain, to: path, unlockedBy: fixture.source).run()
        #expect(imported.contentHash == exported.contentHash)
        try expectSame(path, shape, without: shape.leftOut)
    }

    @Test("a table that only its program can copy is refused by name, and nothing is made", arguments: refused)
    func refusal(_ shape: Shape, needs: String) throws {
        // Story: an import failed with "no such column: v", without a word of the function that was missing.
        try make(shape)
        var export = StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
        try expectRefusal(needs) { _ = try export.run() }
        export.configuration = Self.program
        _ = try export.run()
        let path = fixture.path("copy.db")
        var tool = StoreImport(of: fixture.plain, to: path, unlockedBy: fixture.source)
        try expectRefusal(needs) { _ = try tool.run() }
        #expect(!fixture.names().contains { $0.hasPrefix("copy.db") })
        tool.configuration = Self.program
        #expect(try tool.run().leftOut == [])
        // A salvage lists what it cannot place. The values of a key that only the program computes are in its index.
        let saved = fixture.path("saved.db")
        let report = try StoreSalvage(of: fixture.store, to: saved, unlockedBy: fixture.source).run()
        if shape.isListed {
            #expect(report.notCreated.count == 1 && report.notCreated[0].contains(needs), "\(report.notCreated)")
            #expect(report.listings.reduce(0) { $0 + $1.rowCount } == 2)
        } else {
            #expect(!report.hasLosses, "\(report.notCreated) \(report.listings)")
            try expectSame(saved, shape, without: [])
        }
    }

    @Test("with the program's configuration each step of a tool has its functions")
    func functionOfOtherArguments() throws {
        // Story: the import ended with "could not be opened afterwards": SQLite reads no schema with such a function.
        let shape = Shape(
            name: "a function of SQLite with other arguments",
            sql: "CREATE TABLE t (a, v AS (lower(a, 1)), UNIQUE (a)); INSERT INTO t VALUES ('ab'), ('cd')")
        try make(shape)
        var export = StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
        export.configuration = Self.program
        _ = try export.run()
        var tool = StoreImport(of: fixture.plain, to: fixture.path("copy.db"), unlockedBy: fixture.source)
        tool.configuration = Self.program
        #expect(try tool.run().leftOut == [])
        try expectSame(fixture.path("copy.db"), shape, without: [])
        var salvage = StoreSalvage(of: fixture.store, to: fixture.path("saved.db"), unlockedBy: fixture.source)
        salvage.configuration = Self.program
        #expect(try !salvage.run().needsAttention)
        try expectSame(fixture.path("saved.db"), shape, without: [])
    }

    private func expectRefusal(_ needs: String, _ body: () throws -> Void) throws {
        let error = #expect(throws: ToolError.self, performing: body)
        #expect(error?.code.rawValue == "missingPart" && error?.what.contains("\"t\"") == true)
        #expect(error?.why.contains(needs) == true && error?.remedy.contains("prepareDatabase") == true)
    }

    @Test("a key with a program's collation refuses a second row after a copy")
    func uniqueness() throws {
        try make(Self.keys[0])
        _ = try StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source).run()
        _ = try StoreImport(of: fixture.plain, to: fixture.path("copy.db"), unlockedBy: fixture.source).run()
        let store = try open(fixture.path("copy.db"))
        defer { try? store.close() }
        try store.write { db in
            let found = try Int.fetchOne(db, sql: "SELECT b FROM t WHERE a = 'k1'")
            #expect(found != nil)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t VALUES ('a', 1, 1)") }
        }
    }

    // MARK: Salvage

    @Test("a salvage keeps each row of tables that it cannot evaluate", arguments: definitions)
    func salvage(_ shape: Shape) throws {
        // Story: the salvage failed with "unknown function: uuid()", or lost the table.
        try make(shape)
        let path = fixture.path("copy.db")
        let report = try StoreSalvage(of: fixture.store, to: path, unlockedBy: fixture.source).run()
        #expect(!report.hasLosses, "\(report.notCreated) \(report.listings)")
        #expect(Set(report.leftOut.map(\.name)) == shape.leftOut)
        #expect(report.needsAttention == (!report.notChecked.isEmpty || !report.leftOut.isEmpty))
        try expectSame(path, shape, without: shape.leftOut)
    }

    @Test("a table whose key only the program can order is salvaged with the order of its index", arguments: keys)
    func salvageOfKey(_ shape: Shape) throws {
        // Story: its rows were listed, and the table was not there.
        try make(shape)
        let path = fixture.path("copy.db")
        let report = try StoreSalvage(of: fixture.store, to: path, unlockedBy: fixture.source).run()
        if shape.isListed {
            #expect(report.notCreated.count == 1 && report.notCreated[0].contains("prog"), "\(report.notCreated)")
            let store = try open(fixture.store)
            let count = try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            try store.close()
            #expect(report.listings.reduce(0) { $0 + $1.rowCount } == count)
        } else {
            #expect(!report.hasLosses, "\(report.notCreated) \(report.listings)")
            try expectSame(path, shape, without: [])
        }
        // With the program the table is there.
        var tool = StoreSalvage(of: fixture.store, to: fixture.path("whole.db"), unlockedBy: fixture.source)
        tool.configuration = Self.program
        let whole = try tool.run()
        #expect(!whole.needsAttention, "\(whole.notCreated) \(whole.notChecked)")
        try expectSame(fixture.path("whole.db"), shape, without: [])
    }

    @Test(
        "a salvage keeps the order of a key whatever page is lost, and each row is kept, listed or named",
        arguments: [keys[0], keys[2], keys[3], keys[8]])
    func damagedKey(_ shape: Shape) throws {
        try make(shape)
        let store = try open(fixture.store)
        let (count, pages) = try store.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM t") ?? 0,
                try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            )
        }
        try store.close()
        let whole = try Data(contentsOf: URL(fileURLWithPath: fixture.store))
        for page in Sweep.sample(Array(2...pages), oneIn: 3, offset: shape.sql.utf8.count) {
            try fixture.damage(page: page)
            let path = fixture.path("\(page).db")
            let report = try StoreSalvage(of: fixture.store, to: path, unlockedBy: fixture.source).run()
            let kept = report.tables.first { $0.name == "t" }?.rowCount ?? 0
            let listed = report.listings.filter { !$0.mayBeEntries }.reduce(0) { $0 + $1.rowCount }
            let isOfTable = report.tables.contains { !$0.lostPages.isEmpty }
            #expect(isOfTable ? kept + listed <= count : kept + listed == count, "page \(page): \(kept) \(listed)")
            let copy = try open(path)
            #expect(try copy.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") } == ["ok"], "page \(page)")
            try copy.close()
            try whole.write(to: URL(fileURLWithPath: fixture.store))
        }
    }

    @Test("virtual tables without their module or tokenizer are kept as text, with the rows of their tables")
    func virtualTables() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE VIRTUAL TABLE ft USING fts5(body, tokenize = 'porter');
                    INSERT INTO ft VALUES ('one'), ('two');
                    CREATE TABLE emb_chunks (id INTEGER PRIMARY KEY, b BLOB);
                    INSERT INTO emb_chunks VALUES (1, x'01');
                    """)
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(
                sql: """
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET sql = replace(sql, 'porter', 'mytok') WHERE name = 'ft';
                    INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
                    VALUES ('table', 'emb', 'emb', 0, 'CREATE VIRTUAL TABLE emb USING vec0(v float[3])');
                    PRAGMA writable_schema = RESET;
                    """)
        }
        try store.close()
        let path = fixture.path("copy.db")
        let report = try StoreSalvage(of: fixture.store, to: path, unlockedBy: fixture.source).run()
        #expect(!report.hasLosses && report.needsAttention, "\(report.notCreated)")
        #expect(report.notChecked.contains("module vec0"), "\(report.notChecked)")
        let copy = try SharedStore.open(at: path, unlockedBy: fixture.source)
        defer { try? copy.close() }
        try copy.read { db in
            let texts = try String.fetchAll(
                db, sql: "SELECT sql FROM sqlite_schema WHERE name IN ('ft', 'emb') ORDER BY 1")
            #expect(texts.count == 2 && texts.contains { $0.contains("mytok") })
            let counts = try Row.fetchOne(
                db, sql: "SELECT (SELECT count(*) FROM ft_content), (SELECT count(*) FROM emb_chunks)")
            #expect(counts?[0] == 2 && counts?[1] == 1)
        }
    }

    @Test("a table of as many columns as SQLite takes is salvaged")
    func wide() throws {
        let columns = (1..<2000).map { "c\($0)" }
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(sql: "CREATE TABLE w (id TEXT PRIMARY KEY NOT NULL, \(columns.joined(separator: ", ")))")
            try db.execute(sql: "INSERT INTO w (rowid, id, c1, c1999) VALUES (5, 'a', 1, 2), (9, 'b', 3, 'x')")
        }
        try store.close()
        let path = fixture.path("copy.db")
        let report = try StoreSalvage(of: fixture.store, to: path, unlockedBy: fixture.source).run()
        #expect(!report.needsAttention, "\(report.notCreated) \(report.notChecked)")
        let copy = try SharedStore.open(at: path, unlockedBy: fixture.source)
        defer { try? copy.close() }
        let rows = try copy.read {
            try String.fetchAll($0, sql: "SELECT rowid || id || c1 || c1999 FROM w ORDER BY rowid")
        }
        #expect(rows == ["5a12", "9b3x"])
    }

    // MARK: Adoption

    @Test("an adoption of an older version takes rows as values, and names the indexes that it left out")
    func adoption() throws {
        var configuration = Self.program
        configuration.prepareDatabase { db in
            try db.useRawKey(Data(TestKeys.rawKey))
            try db.execute(sql: "PRAGMA cipher_compatibility = 3")
        }
        let queue = try DatabaseQueue(path: fixture.store, configuration: configuration)
        try queue.inDatabase { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL ON CONFLICT REPLACE DEFAULT (uuid()),
                        name TEXT COLLATE prog UNIQUE, x CHECK (prog_f(x) <> 'x'));
                    CREATE INDEX t_f ON t (prog_f(x));
                    INSERT INTO t VALUES ('1', 'a', 'ab'), ('2', 'c', 'cd'), ('3', 'b', NULL);
                    """)
        }
        try queue.close()
        var tool = StoreAdoption(fixture.store, unlockedBy: fixture.source)
        tool.sqlCipherVersion = 3
        let report = try tool.run()
        #expect(report.leftOut.map(\.name) == ["t_f"])
        let store = try open(fixture.store)
        defer { try? store.close() }
        try store.read { db in
            let messages = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            let ordered = try String.fetchAll(db, sql: "SELECT id FROM t ORDER BY name")
            #expect(messages == ["ok"] && ordered == ["2", "3", "1"])
        }
    }

    // MARK: Verification

    @Test(
        "an index that does not fit its table is damage, also where the table needs what only the program has",
        arguments: ["CREATE INDEX t_b ON t (c)", "CREATE INDEX t_b ON t (b) WHERE b > 2"])
    func damage(_ definition: String) throws {
        // Story: integrity_check refuses such a table as a whole, and nothing of it was checked.
        let store = try open(fixture.store)
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (a TEXT COLLATE prog, b INT, c INT);
                    CREATE INDEX t_b ON t (b);
                    CREATE INDEX t_a ON t (a);
                    INSERT INTO t VALUES ('a', 1, 7), ('b', 2, 8), ('c', 3, 9);
                    """)
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(sql: "UPDATE sqlite_schema SET sql = ? WHERE name = 't_b'", arguments: [definition])
            try db.execute(sql: "PRAGMA writable_schema = RESET")
            if definition.contains("WHERE") {
                // Entries that a partial index has, and an index of all rows lacks.
                try db.execute(
                    sql: """
                        INSERT INTO t VALUES ('d', 1, 1);
                        PRAGMA writable_schema = ON;
                        UPDATE sqlite_schema SET sql = 'CREATE INDEX t_b ON t (b)' WHERE name = 't_b';
                        PRAGMA writable_schema = RESET;
                        """)
            }
        }
        try store.close()
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.problems.contains { $0.contains("t_b") }, "\(report.problems) \(report.notChecked)")
    }

    // MARK: Texts in double quotes

    @Test(
        "an import names the triggers and views whose texts in double quotes fail in a store; checks and indexes work")
    func doubleQuotes() throws {
        // Story: the import was silent, and the next insertion failed with "no such column: n".
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        configuration.acceptsDoubleQuotedStringLiterals = true
        let plain = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        try plain.inDatabase { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT CHECK (k <> "none"), n INTEGER DEFAULT 0,
                        d TEXT DEFAULT "text", g AS (k || "x"));
                    CREATE INDEX t_k ON t (k || "y");
                    CREATE INDEX t_n ON t (n) WHERE k <> "z";
                    CREATE TABLE fine (id INTEGER PRIMARY KEY, k TEXT);
                    INSERT INTO t (id, k) VALUES (1, 'n');
                    CREATE TRIGGER t_ai AFTER INSERT ON t WHEN new.k = "n" BEGIN
                        UPDATE t SET n = n + 1 WHERE id = new.id; END;
                    CREATE TRIGGER t_au AFTER UPDATE OF k ON t BEGIN UPDATE fine SET k = "changed"; END;
                    CREATE TRIGGER fine_ad AFTER DELETE ON "fine" BEGIN DELETE FROM "t" WHERE "id" = old."id"; END;
                    CREATE VIEW v AS SELECT id, "word" AS w FROM t;
                    CREATE VIEW names AS SELECT "id" FROM "t";
                    CREATE TABLE parent (a, b);
                    CREATE TABLE child (p, q REFERENCES parent (a));
                    CREATE TRIGGER parent_au AFTER UPDATE ON parent BEGIN UPDATE fine SET k = "b" WHERE k = "dq"; END;
                    """)
        }
        try plain.close()
        let report = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        let named = report.notices.filter { $0.contains("double quotes") }.map {
            $0.prefix { $0 != " " } + " "
                + $0.split(separator: "\"")[1]
        }
        #expect(named == ["view v", "trigger t_ai", "trigger t_au", "trigger parent_au"], "\(report.notices)")
        let store = try fixture.openStore()
        defer { try? store.close() }
        try store.write { db in
            try db.execute(sql: "DROP TRIGGER t_ai; DROP TRIGGER t_au; INSERT INTO t (id, k) VALUES (2, 'm')")
            let row = try String.fetchOne(db, sql: "SELECT d || g FROM t WHERE id = 2")
            #expect(row == "textmx")
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t (k) VALUES ('none')") }
            let messages = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            #expect(messages == ["ok"])
        }
    }
}
