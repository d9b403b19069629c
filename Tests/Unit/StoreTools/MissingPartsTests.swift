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

    /// The settings that the program gives to each of its connections.
    private static var program: Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(collation: DatabaseCollation("prog") { $1.compare($0) })
            db.add(
                function: DatabaseFunction("prog_f", argumentCount: 1, pure: true) { values in
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
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(
                sql: "UPDATE sqlite_schema SET sql = 'CREATE INDEX item_t ON item (id + 1)' WHERE name = 'item_t'")
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
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
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

    @Test("doctor and conformance take what the program has, and find no damage without it")
    func otherChecks() throws {
        // Story: both had no way to get the program's functions.
        try makeProgramStore()
        for configuration in [Configuration(), Self.program] {
            var doctor = StoreExamination(fixture.store, unlockedBy: fixture.source)
            doctor.configuration = configuration
            #expect(try doctor.run().findings.allSatisfy { $0.severity != .problem })
        }
    }

    // MARK: Copies

    /// The columns of the copied table that every program can read.
    private func values(_ db: Database) throws -> [Row] {
        try Row.fetchAll(db, sql: "SELECT rowid, id, name, x, z FROM doc ORDER BY rowid")
    }

    @Test("an export and an import take rows as values, and name the indexes that they left out")
    func transfer() throws {
        // Story: both failed with "unknown function: uuid()".
        try makeProgramStore()
        let exported = try StoreExport(
            of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source
        ).run()
        #expect(exported.rowCount == 52 && exported.leftOut.map(\.name) == ["doc_name", "doc_f"])
        #expect(exported.notices == [], "the report has them already")
        let other = fixture.path("other.db")
        let imported = try StoreImport(of: fixture.plain, to: other, unlockedBy: fixture.source).run()
        #expect(imported.rowCount == 52 && imported.leftOut == [])
        let original = try SharedStore.open(
            at: fixture.store, unlockedBy: fixture.source, configuration: Self.program)
        let copy = try SharedStore.open(at: other, unlockedBy: fixture.source, configuration: Self.program)
        #expect(try copy.read(values) == original.read(values))
        try copy.write { db in
            #expect(try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"])
            #expect(try String.fetchOne(db, sql: "SELECT y FROM doc WHERE id = '7'") == "7x")
            // The default of the program's function works again.
            try db.execute(sql: "INSERT INTO doc (name, x) VALUES ('new', 'x')")
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO doc (id) VALUES ('7') ") }
        }
        try copy.close()
        try original.close()
    }

    @Test("with the program's configuration an export has every index")
    func transferWithProgram() throws {
        try makeProgramStore()
        var tool = StoreExport(of: fixture.store, toInsecurePlaintext: fixture.plain, unlockedBy: fixture.source)
        tool.configuration = Self.program
        #expect(try tool.run().leftOut == [])
    }

    @Test("tables of as many columns as SQLite takes are imported, exported and hashed")
    func wide() throws {
        // Story: the row id was one column too many.
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let columns = (1..<2000).map { "c\($0)" }
        let plain = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        try plain.inDatabase { db in
            try db.execute(sql: "CREATE TABLE w (id TEXT PRIMARY KEY NOT NULL, \(columns.joined(separator: ", ")))")
            try db.execute(sql: "INSERT INTO w (rowid, id, c1, c1999) VALUES (5, 'a', 1, 2), (9, 'b', 3, 'x')")
        }
        try plain.close()
        let report = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        #expect(report.rowCount == 2)
        let store = try fixture.openStore()
        let (rows, messages, rowID) = try store.read { db in
            (
                try String.fetchAll(db, sql: "SELECT rowid || id || c1 || c1999 FROM w ORDER BY rowid"),
                try String.fetchAll(db, sql: "PRAGMA integrity_check"),
                try Int.fetchOne(db, sql: "SELECT rowid FROM w WHERE id = 'b'")
            )
        }
        #expect(rows == ["5a12", "9b3x"] && messages == ["ok"] && rowID == 9)
        try store.close()
    }
}
