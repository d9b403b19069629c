import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// A table whose unique key is computed from other columns.
struct ComputedKey: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let sql: String
    /// The values that two devices write into column `a` of rows of their own. Their unique values are equal.
    var values = ("7", "7")

    static let all = [
        ComputedKey(testDescription: "virtual", sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a, x AS (a * 2) UNIQUE)"),
        ComputedKey(
            testDescription: "stored",
            sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a INT, x INT GENERATED ALWAYS AS (a * 2) STORED UNIQUE)"),
        ComputedKey(
            testDescription: "generated from generated ones",
            sql:
                "CREATE TABLE g (id TEXT PRIMARY KEY, a INT, x AS (y + 1) UNIQUE, y AS (\"as (\" * 2), \"as (\" AS (a))"
        ),
        ComputedKey(
            testDescription: "an expression over a generated column",
            sql: """
                CREATE TABLE g (id TEXT PRIMARY KEY, a INT, x AS (a * 2)); CREATE UNIQUE INDEX i ON g (abs(x) + a DESC)
                """),
        ComputedKey(
            testDescription: "a partial index by a generated column",
            sql: """
                CREATE TABLE g (id TEXT PRIMARY KEY, a INT, x AS (a > 5) STORED); CREATE UNIQUE INDEX i ON g (a) WHERE x
                """),
        ComputedKey(
            testDescription: "a collation",
            sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a, x TEXT COLLATE NOCASE AS ('p' || a) UNIQUE)",
            values: ("'Q'", "'q'")),
        ComputedKey(
            testDescription: "the affinity of a generated column",
            sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a TEXT, x INTEGER AS (a || '0') UNIQUE)",
            values: ("'7.'", "'7.0'")),
        ComputedKey(
            testDescription: "a generated column of texts",
            sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a, x TEXT AS (a) UNIQUE)", values: ("7", "'7'")),
        ComputedKey(
            testDescription: "several columns",
            sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a INT, x AS (a * 2), UNIQUE (x, a))"),
        ComputedKey(
            testDescription: "WITHOUT ROWID",
            sql: "CREATE TABLE g (id TEXT PRIMARY KEY, a INT, x INT AS (a * 2) UNIQUE) WITHOUT ROWID, STRICT"),
        ComputedKey(
            testDescription: "a column that was added",
            sql: """
                CREATE TABLE g (id TEXT PRIMARY KEY, a INT CHECK (CAST(a AS INT) > 0)); ALTER TABLE g ADD COLUMN x AS (a * 2);
                CREATE UNIQUE INDEX i ON g (x)
                """),
        ComputedKey(
            testDescription: "a condition on the row id",
            sql: """
                CREATE TABLE g (n INTEGER PRIMARY KEY, id TEXT, a INT); CREATE UNIQUE INDEX i ON g (a) WHERE rowid <> 3
                """),
    ]
}

@Suite("Constraints over values that are computed")
struct ComputedConstraintTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private static let other = "CREATE TABLE other (id INTEGER PRIMARY KEY, v);"

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    /// Sync of the whole store ended for ever with "no such column".
    @Test(
        "of rows with one computed value the oldest is shown, and the others are conflicts", arguments: ComputedKey.all)
    func uniqueValues(_ key: ComputedKey) throws {
        let sql = Self.other + key.sql
        let a = try Device(folder.path("a.db"), sql: sql)
        try a.write("INSERT INTO g (id, a) VALUES ('k', 1)")
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
        try settle(a, b)
        try a.write("UPDATE g SET a = 2; INSERT INTO g (id, a) VALUES ('a', \(key.values.0))")
        // On one device the younger row is there first.
        let second =
            sql.contains("INTEGER PRIMARY KEY, id TEXT") ? "(n, id, a) VALUES (9, 'b'," : "(id, a) VALUES ('b',"
        try b.write("INSERT INTO g \(second) \(key.values.1)); INSERT INTO other VALUES (1, 'b')")
        try settle(a, b)
        for device in [a, b] {
            #expect(try device.texts("SELECT id FROM g ORDER BY id") == ["a", "k"])
            #expect(try device.texts("SELECT * FROM other") == ["1 b"])
            #expect(try device.repository.conflicts().map { "\($0.reason)" } == ["unique"])
        }
        // The reason is gone.
        try a.write("UPDATE g SET a = '3' WHERE id = 'a'")
        try settle(a, b)
        for device in [a, b] {
            #expect(try device.texts("SELECT id FROM g ORDER BY id") == ["a", "b", "k"])
            #expect(try device.repository.status().isSettled)
        }
        #expect(try a.repository.verify() == b.repository.verify())
    }

    /// The error of one row stopped the sync of all tables for ever.
    @Test(
        "an expression that fails for a row hides the row, and stops nothing",
        arguments: [
            "CREATE TABLE g (id TEXT PRIMARY KEY, v TEXT, CHECK (json_extract(v, '$.a') IS NULL))",
            "CREATE TABLE g (id TEXT PRIMARY KEY, v TEXT, x AS (json_extract(v, '$.a')) STORED)",
            "CREATE TABLE g (id TEXT PRIMARY KEY, v TEXT, x AS (json_extract(v, '$.a')) UNIQUE)",
            "CREATE TABLE g (id TEXT PRIMARY KEY, v TEXT); CREATE UNIQUE INDEX i ON g (json_extract(v, '$.a'))",
            "CREATE TABLE g (id TEXT PRIMARY KEY, v TEXT); CREATE INDEX i ON g (id) WHERE json_extract(v, '$.a') = 1",
        ])
    func failingExpression(_ table: String) throws {
        let a = try Device(
            folder.path("a.db"), sql: Self.other + "CREATE TABLE g (id TEXT PRIMARY KEY, v TEXT)")
        try a.write("INSERT INTO g VALUES ('k', '{}'), ('l', '{}')")
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: Self.other + table)
        try settle(a, b)
        try a.write(
            """
            UPDATE g SET v = 'no JSON' WHERE id = 'k'; INSERT INTO g VALUES ('m', '[]'), ('n', '{');
            INSERT INTO other VALUES (1, 'a')
            """)
        try settle(a, b)
        #expect(try b.texts("SELECT id, v FROM g ORDER BY id") == ["l {}", "m []"])
        #expect(try b.texts("SELECT * FROM other") == ["1 a"])
        #expect(try b.repository.conflicts().map { "\($0.key.map { "\($0)" }) \($0.reason)" }.count == 2)
        #expect(try !b.repository.status().isSettled && b.repository.status().obstacles.count == 1)
        try a.write("UPDATE g SET v = '{\"b\": 1}'")
        try settle(a, b)
        #expect(try b.texts("SELECT id, v FROM g ORDER BY id") == a.texts("SELECT id, v FROM g ORDER BY id"))
        #expect(try b.repository.status().isSettled)
        #expect(try a.repository.verify() == b.repository.verify())
    }

    /// A command without the functions of the program could join nothing.
    @Test(
        "a process without a function of the program shows the other tables, and one with it shows the rest",
        arguments: ["CREATE INDEX i ON g (twice(v))", "CREATE UNIQUE INDEX i ON g (twice(v)) WHERE v <> 0"])
    func missingFunction(_ index: String) throws {
        let sql = Self.other + "CREATE TABLE g (id INTEGER PRIMARY KEY, v INT)"
        let twice = DatabaseFunction("twice", argumentCount: 1, pure: true) { values in
            Int.fromDatabaseValue(values[0]).map { $0 * 2 }
        }
        let a = try Device(folder.path("a.db"), sql: sql)
        try a.write("INSERT INTO g VALUES (1, 1), (2, 2), (3, 3)")
        let path = folder.path("b.db")
        let first = try Device(path, invitedBy: a, at: remote, sql: "\(sql); \(index)", functions: [twice])
        try settle(a, first)
        try first.close()
        try a.write("INSERT INTO other VALUES (1, 'a'); INSERT INTO g VALUES (4, 4)")
        try a.write("DELETE FROM g WHERE id = 1; UPDATE g SET v = 5 WHERE id = 2")
        let b = try Device(path, sql: "")
        for _ in 0..<2 {
            try settle(a, b)
            #expect(try b.texts("SELECT * FROM other") == ["1 a"])
            let status = try b.repository.status()
            #expect(!status.isSettled && status.obstacles.allSatisfy { "\($0)".contains("\"g\"") })
        }
        try b.close()
        let c = try Device(path, sql: "", functions: [twice])
        try settle(a, c)
        #expect(try c.texts("SELECT * FROM g ORDER BY id") == ["2 5", "3 3", "4 4"])
        #expect(try c.repository.status().isSettled)
        #expect(try a.repository.verify() == c.repository.verify())
        #expect(try a.texts("SELECT * FROM g ORDER BY id") == ["2 5", "3 3", "4 4"])
    }

    @Test("foreign keys from and to generated columns stop nothing")
    func foreignKeys() throws {
        let sql =
            Self.other + """
                CREATE TABLE p (id TEXT PRIMARY KEY, a INT, x AS (a * 2) STORED UNIQUE);
                CREATE TABLE q (id TEXT PRIMARY KEY, v INT REFERENCES p (x), w AS (v) REFERENCES p (x))
                """
        let a = try Device(folder.path("a.db"), sql: sql)
        try a.write("INSERT INTO p (id, a) VALUES ('k', 1), ('l', 2); INSERT INTO q (id, v) VALUES ('k', 2)")
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
        try settle(a, b)
        try a.write("DELETE FROM p WHERE id = 'l'; INSERT INTO other VALUES (1, 'a')")
        try b.write("INSERT INTO q (id, v) VALUES ('b', 4)")
        try settle(a, b)
        for query in ["SELECT id FROM p ORDER BY id", "SELECT id FROM q ORDER BY id", "SELECT * FROM other"] {
            #expect(try a.texts(query) == b.texts(query))
        }
        #expect(try a.texts("SELECT * FROM other") == ["1 a"])
    }
}
