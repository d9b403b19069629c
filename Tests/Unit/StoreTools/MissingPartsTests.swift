import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

/// Tools at work on a database that needs what only its program has.
@Suite("Functions, collations and modules that only the program has")
struct MissingPartsTests {
    private let fixture = ToolFixture()

    /// What the program gives to each of its connections.
    private static var program: Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(collation: DatabaseCollation("prog") { $1.compare($0) })
            db.add(function: DatabaseFunction("prog_f", argumentCount: 1, pure: true) { values in
                String((String.fromDatabaseValue(values[0]) ?? "").reversed())
            })
            db.add(function: DatabaseFunction("uuid", argumentCount: 0) { _ in UUID().uuidString })
        }
        return configuration
    }

    private static let schema = """
        CREATE TABLE doc (id TEXT PRIMARY KEY NOT NULL ON CONFLICT REPLACE DEFAULT (uuid()), name TEXT COLLATE prog,
            x VARCHAR(20), y AS (prog_f(x)), z AS (prog_f(x)) STORED);
        CREATE INDEX doc_name ON doc (name);
        CREATE INDEX doc_f ON doc (prog_f(x));
        CREATE TABLE item (id INTEGER PRIMARY KEY, t TEXT);
        CREATE INDEX item_t ON item (t);
        INSERT INTO item VALUES (1, 'a'), (2, 'b');
        """

    private func makeProgramStore() throws {
        let store = try SharedStore.open(
            at: fixture.store, unlockedBy: fixture.source, configuration: Self.program)
        try store.write { db in
            try db.execute(sql: Self.schema)
            for number in 0..<50 {
                try db.execute(
                    sql: "INSERT INTO doc (id, name, x) VALUES (?, ?, ?)",
                    arguments: ["\(number)", "n\(number)", "x\(number)"])
            }
        }
        try store.checkpoint(.truncate)
        try store.close()
    }

    @Test("a store whose functions and collations are missing is sound, and what was not checked is named")
    func verification() throws {
        // Story: verify called such a store damaged, and its hint was to restore a backup.
        try makeProgramStore()
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.problems == [] && report.isSound && report.needsAttention)
        #expect(report.notChecked.contains("collation prog") && report.notChecked.contains("function prog_f"))
        #expect(report.notChecked.contains { $0.hasPrefix("table \"doc\"") }, "\(report.notChecked)")
        #expect(!report.notChecked.contains { $0.contains("VARCHAR") || $0.contains("item") })
        #expect(report.unchecked.contains("not checked: collation prog"))
    }

    @Test("with the program's configuration everything is checked")
    func verificationWithProgram() throws {
        try makeProgramStore()
        var tool = StoreVerification(fixture.store, unlockedBy: fixture.source)
        tool.configuration = Self.program
        let report = try tool.run()
        #expect(report.isSound && !report.needsAttention && report.notChecked == [] && report.integrity == ["ok"])
    }

    @Test("an index that lacks a row is still found in the tables that need nothing")
    func damageBeside() throws {
        try makeProgramStore()
        let store = try SharedStore.open(
            at: fixture.store, unlockedBy: fixture.source, configuration: Self.program)
        try store.write { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(sql: "UPDATE sqlite_schema SET sql = 'CREATE INDEX item_t ON item (id + 1)' WHERE name = 'item_t'")
            try db.execute(sql: "PRAGMA writable_schema = RESET")
        }
        try store.close()
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.problems.contains { $0.contains("item_t") }, "\(report.problems)")
    }

    @Test("a virtual table whose module is missing is no damage")
    func module() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(
                sql: """
                    INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
                    VALUES ('table', 'emb', 'emb', 0, 'CREATE VIRTUAL TABLE emb USING vec0(v float[3])')
                    """)
            try db.execute(sql: "PRAGMA writable_schema = RESET")
        }
        try store.close()
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.isSound && report.notChecked == ["module vec0"], "\(report)")
    }

    @Test("a row without a parent is a finding that names table, row and parent, and no damage")
    func orphans() throws {
        // Story: verify said "damaged", and named neither table nor row.
        let store = try fixture.openStore()
        try store.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA foreign_keys = OFF;
                    CREATE TABLE parent (id INTEGER PRIMARY KEY);
                    CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id));
                    INSERT INTO child VALUES (7, 99);
                    PRAGMA foreign_keys = ON;
                    """)
        }
        try store.close()
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.isSound && report.needsAttention && report.foreignKeyViolations == 1)
        #expect(
            report.orphans.map(\.text)
                == ["row 7 of table \"child\" refers to a row of table \"parent\" that does not exist"])
    }
}
