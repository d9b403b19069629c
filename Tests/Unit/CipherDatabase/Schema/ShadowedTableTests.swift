import Foundation
import TestKit
import Testing

@testable import CipherDatabase

/// A kept statement reads the table that its text names now.
///
/// The story: SQLite compiles a statement again when the schemas that it uses have changed. A table that appears in a
/// schema before them in the order of names changes none of them, and the statement went on reading the hidden one.
@Suite("Kept statements and tables that hide others")
struct ShadowedTableTests {
    /// Every way in which a connection keeps statements.
    private struct Readers {
        let own: Statement
        let cached = "SELECT x FROM item"

        init(_ db: Database) throws { own = try db.makeStatement(sql: "SELECT x FROM item WHERE 1") }

        func all(_ db: Database) throws -> Set<String> {
            try db.execute(sql: "INSERT INTO seen SELECT x FROM item WHERE x <> ?", arguments: [""])
            return try [
                String.fetchOne(db, sql: cached) ?? "", String.fetchOne(db.cachedStatement(sql: cached)) ?? "",
                String.fetchOne(own) ?? "",
                String.fetchOne(db, sql: "SELECT x FROM seen ORDER BY rowid DESC LIMIT 1") ?? "",
            ]
        }
    }

    /// Runs statements, and compares after each what is read then.
    private func expect(_ start: String, _ steps: [(sql: String, expected: String)], inTransaction: Bool) throws {
        try DatabaseQueue().writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TEMP TABLE seen (x); ATTACH ':memory:' AS m; ATTACH ':memory:' AS n; \(start)")
            defer { if db.isInsideTransaction { try? db.rollback() } }
            if inTransaction { try db.execute(sql: "BEGIN") }
            let readers = try Readers(db)
            let first = try readers.all(db)
            #expect(first.count == 1, "\(first)")
            for (sql, expected) in steps {
                try db.execute(sql: sql)
                try #expect(readers.all(db) == [expected], "\(sql)")
                try #expect(db.columns(in: "item").map(\.name) == ["x"], "\(sql)")
            }
        }
    }

    @Test("a table of main that an attached one was read instead of", arguments: [false, true])
    func mainTable(inTransaction: Bool) throws {
        try expect(
            "CREATE TABLE m.item AS SELECT 'm' AS x",
            [
                ("CREATE TABLE main.item AS SELECT 'main' AS x", "main"), ("DROP TABLE main.item", "m"),
                ("CREATE VIEW main.item AS SELECT 'view' AS x", "view"), ("DROP VIEW main.item", "m"),
                ("CREATE TABLE main.other AS SELECT 'renamed' AS x", "m"),
                ("ALTER TABLE main.other RENAME TO item", "renamed"), ("ALTER TABLE main.item RENAME TO other", "m"),
            ], inTransaction: inTransaction)
    }

    @Test("temporary tables and views", arguments: [false, true])
    func temporaryTable(inTransaction: Bool) throws {
        try expect(
            "CREATE TABLE main.item AS SELECT 'main' AS x",
            [
                ("CREATE TEMP TABLE item AS SELECT 'temp' AS x", "temp"), ("DROP TABLE temp.item", "main"),
                ("CREATE TEMP VIEW item AS SELECT 'view' AS x", "view"), ("DROP VIEW temp.item", "main"),
                ("CREATE TEMP TABLE other AS SELECT 'renamed' AS x", "main"),
                ("ALTER TABLE temp.other RENAME TO item", "renamed"), ("ALTER TABLE temp.item RENAME TO other", "main"),
            ], inTransaction: inTransaction)
    }

    @Test("databases that are attached and detached, and a rollback")
    func attachedDatabases() throws {
        try expect(
            "CREATE TABLE n.item AS SELECT 'n' AS x",
            [
                ("CREATE TABLE m.item AS SELECT 'm' AS x", "m"), ("DETACH m", "n"), ("ATTACH ':memory:' AS m", "n"),
                ("CREATE TABLE m.item AS SELECT 'later' AS x", "n"), ("DETACH n", "later"),
                ("BEGIN; CREATE TABLE main.item AS SELECT 'main' AS x", "main"), ("ROLLBACK", "later"),
                ("SAVEPOINT s; CREATE TEMP TABLE item AS SELECT 'temp' AS x", "temp"), ("ROLLBACK TO s", "later"),
            ], inTransaction: false)
    }

    @Test("a table that another connection makes")
    func otherConnection() throws {
        let folder = TemporaryFolder()
        let path = folder.path("item.db")
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let first = try DatabaseQueue(path: path, configuration: configuration)
        let second = try DatabaseQueue(path: path, configuration: configuration)
        try first.writeWithoutTransaction { db in
            try db.execute(sql: "ATTACH ':memory:' AS m; CREATE TABLE m.item AS SELECT 'm' AS x")
            let statement = try db.makeStatement(sql: "SELECT x FROM item WHERE 1")
            let read = {
                try [
                    String.fetchOne(db, sql: "SELECT x FROM item"),
                    String.fetchOne(db.cachedStatement(sql: "SELECT x FROM item")), String.fetchOne(statement),
                ]
            }
            try #expect(read() == ["m", "m", "m"])
            try second.write { try $0.execute(sql: "CREATE TABLE item AS SELECT 'main' AS x") }
            try #expect(read() == ["main", "main", "main"])
            try second.write { try $0.execute(sql: "DROP TABLE item") }
            try #expect(read() == ["m", "m", "m"])
        }
    }

    // It went on comparing the versions of all schemas before each statement.
    @Test("after the last DETACH no versions are compared")
    func detached() throws {
        try DatabaseQueue().writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE item (x); CREATE TEMP TABLE other (x)")
            #expect(db.features[HiddenTables.key]?.mayBeElsewhere == false)
            for _ in 0..<2 {
                try db.execute(sql: "ATTACH ':memory:' AS m; ATTACH ':memory:' AS n")
                try db.execute(sql: "DETACH m; INSERT INTO item VALUES (1)")
                #expect(db.features[HiddenTables.key]?.mayBeElsewhere == true)
                try db.execute(sql: "DETACH n; INSERT INTO item VALUES (2)")
                #expect(db.features[HiddenTables.key]?.mayBeElsewhere == false)
            }
        }
    }
}
