import CipherDatabase
import FormerSimulation
import Testing

@testable import ChangesetSync

/// Stores whose tables differ in more than columns: nothing is taken up that would make other rows of it.
@Suite("Stores whose tables differ")
struct DifferentTablesTests {
    private struct Pair {
        let one: Replica
        let two: Replica

        init(_ schema: String, _ other: String? = nil) throws {
            one = try Replica(schema, tracking: ["t"])
            two = try Replica(other ?? schema, tracking: ["t"], key: one.key())
        }

        func take(_ from: Replica, _ into: Replica) throws {
            try into.fetch(from)
            _ = try into.repository.mergeAndPull()
        }
    }

    /// The value was converted, and the commits of that store had old values that no other state has: for ever.
    @Test(
        "a value that a column of another type would convert stops the pull, and nothing is changed",
        arguments: [
            ("INT", "REAL", "5"), ("REAL", "INT", "5.0"), ("TEXT", "NUMERIC", "'12'"), ("TEXT", "REAL", "' -1.5e3 '"),
            ("INT", "TEXT", "5"), ("REAL", "VARCHAR(9)", "1.5"), ("", "INTEGER", "'+7.'"), ("BLOB", "TEXT", "5"),
        ])
    func types(column: String, other: String, value: String) throws {
        let pair = try Pair(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v \(column))",
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v \(other))")
        try pair.one.run("INSERT INTO t VALUES ('0', x'00'), ('1', NULL)")
        try pair.take(pair.one, pair.two)
        #expect(try pair.one.state() == pair.two.state())
        for sql in ["UPDATE t SET v = \(value) WHERE id = '0'", "INSERT INTO t VALUES ('2', \(value))"] {
            try pair.one.run(sql)
            let before = try pair.two.state()
            var found: SyncError?
            do { try pair.take(pair.one, pair.two) } catch let error as SyncError { found = error }
            #expect(found?.code == .constraintViolation && found?.detail?.contains("\"v\"") == true, "\(sql)")
            #expect(try pair.two.state() == before && pair.two.repository.verify().isEmpty)
            try pair.one.run("UPDATE t SET v = NULL")
        }
        try pair.take(pair.one, pair.two)
        #expect(try pair.one.state() == pair.two.state())
    }

    @Test("what a column of another type stores as it is comes as it is")
    func fittingTypes() throws {
        let pair = try Pair(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a, b, c, d, e)",
            """
            CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a INT, b REAL, c TEXT, d NUMERIC, e BLOB)
            """)
        try pair.one.run(
            """
            INSERT INTO t VALUES ('1', 1.5, 2.0, '3', 'x1', 5), ('2', 'a', 'b', x'00', 1e300, '5'),
                ('3', '0x10', '1e', '', '.', 1.0), ('4', '', '- 1', 'x', 9e18 * 10, NULL)
            """)
        try pair.take(pair.one, pair.two)
        #expect(try pair.one.state() == pair.two.state() && pair.two.repository.verify().isEmpty)
    }

    /// SQLite itself says which values a column converts.
    @Test("the values that are held for converted are those that SQLite converts")
    func affinities() throws {
        let queue = DatabaseQueue()
        let values = [
            "1", "-5", "9223372036854775807", "1.0", "1.5", "-0.0", "1e300", "9223372036854775808.0",
            "-9223372036854775808.0", "9e999", "x'31'",
            "NULL",
            "''", "'1'", "' 1 '", "'1.'", "'.5'", "'.'", "'1e5'", "'1e'", "'+1'", "'+-1'", "'0x1F'", "'1_0'", "'1 2'",
            "'abc'",
            "'1a'", "'-'", "char(9) || '7' || char(10)", "'99999999999999999999'", "'1.0'", "'Infinity'", "'٣'",
        ]
        for type in [
            "INT", "INTEGER", "NUMERIC", "REAL", "DOUBLE", "TEXT", "VARCHAR(5)", "", "BLOB", "DATE", "BOOLEAN",
            "ANY", "any", "BLOBINT", "REALBLOB", "CLOB", "FLOATING POINT", "C\u{131}INT", "\u{131}NT",
            "double precision",
        ] {
            try queue.write { db in
                try db.execute(sql: "CREATE TABLE t (v \(type))")
                for value in values {
                    try db.execute(sql: "DELETE FROM t; INSERT INTO t VALUES (\(value))")
                    let given = try #require(try db.makeStatement(sql: "SELECT \(value)").records().first)
                    let stored = try #require(try db.makeStatement(sql: "SELECT v FROM t").records().first)
                    let affinity = TypeAffinity(type: type, isStrict: false)
                    let isConverted = given.contains { affinity.converts($0) }
                    #expect(isConverted == (given != stored), "\(type) \(value)")
                }
                try db.execute(sql: "DROP TABLE t")
            }
        }
        #expect(!TypeAffinity(type: "ANY", isStrict: true).converts(.text(Array("1".utf8)[...])))
    }

    /// Both had the same head, other rows, and nothing said so.
    @Test("a column that two stores have added with other defaults stops the pull", arguments: [false, true])
    func defaults(hasOwnCommit: Bool) throws {
        let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run("INSERT INTO t VALUES ('1', 1), ('2', 2)")
        try pair.take(pair.one, pair.two)
        try pair.one.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
        try pair.two.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 2")
        if hasOwnCommit { try pair.two.run("UPDATE t SET v = 7 WHERE id = '2'") }
        try pair.one.run("UPDATE t SET v = 5 WHERE id = '1'")
        let before = try pair.two.state()
        #expect(code { try pair.take(pair.one, pair.two) } == .digestMismatch)
        #expect(try pair.two.state() == before)
    }

    /// Every store ended without rows: commits contradicted the defaults that the store put into earlier ones.
    @Test(
        "where two stores have added a column with other defaults, one that corrects it lets all go on",
        arguments: [
            "UPDATE t SET n = n + 10 WHERE id = '2'", "UPDATE t SET n = n + 10", "DELETE FROM t WHERE id = '1'",
            "UPDATE t SET n = 7; INSERT INTO t VALUES ('3', 3, 3)",
            "DELETE FROM t; INSERT INTO t (id, v) VALUES ('1', 1)",
            "UPDATE t SET n = 1 WHERE id = '2'",
        ])
    func wayOutOfDefaults(write: String) throws {
        for way in ["two", "one", "both", "reset"] {
            let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
            let (one, two) = (pair.one, pair.two)
            try one.run("INSERT INTO t VALUES ('1', 1), ('2', 2)")
            try pair.take(one, two)
            try one.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
            try two.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 2")
            try two.run(write)
            try two.run("UPDATE t SET v = v + 1")
            try one.run("INSERT INTO t VALUES ('own', 0, 0)")
            // Where commits say all values, there is nothing to correct.
            let isStopped = code { try pair.take(two, one) } == .digestMismatch
            #expect(try isStopped == (one.repository.summary().leafCount > 1))
            try two.write("ALTER TABLE t DROP COLUMN n; ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
            try two.repository.commitForeignWrites()
            // Who merges first, or has its rows from the commits alone.
            if ["both", "reset"].contains(way) { try one.fetch(two) }
            if way == "reset" { try two.repository.reset() }
            try way == "one" ? pair.take(two, one) : pair.take(one, two)
            try way == "one" ? pair.take(one, two) : pair.take(two, one)
            if way == "both" { try pair.take(one, two) }
            #expect(try one.state() == two.state() && one.head == two.head, "\(write) \(way)")
            for replica in [one, two] { #expect(try replica.repository.verify().isEmpty, "\(write) \(way)") }
            let new = try Replica(
                "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 1)", tracking: ["t"],
                key: one.key())
            try pair.take(two, new)
            #expect(try new.state() == two.state(), "\(write) \(way)")
        }
    }

    /// It moved to the head and had other rows, in sync.
    @Test("a commit that says nothing but the digest of a table stops the pull where the rows are other ones")
    func digestAlone() throws {
        let schema = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 1)"
        let pair = try Pair(schema)
        try pair.one.run("INSERT INTO t VALUES ('1', 1, 8)")
        try pair.take(pair.one, pair.two)
        try pair.one.queue.write { db in
            var transaction = try RepositoryTransaction(db)
            try db.execute(sql: "UPDATE t SET n = 1")
            try transaction.noteDigests(of: transaction.tables.all)
            _ = try transaction.record(.empty, meta: "", always: true)
        }
        #expect(code { try pair.take(pair.one, pair.two) } == .digestMismatch)
        #expect(try pair.two.repository.verify().isEmpty)
    }

    /// The row kept what it had where it came in one part with its deletion; after the deletion alone the store stopped.
    @Test(
        "a row that a store without a column deletes, and inserts again, has its default on all devices",
        arguments: [false, true])
    func deletionWithoutColumn(inParts: Bool) throws {
        let schema = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 1)"
        let pair = try Pair(schema)
        try pair.two.run("INSERT INTO t VALUES ('1', 1, 5), ('2', 2, 5)")
        try pair.take(pair.two, pair.one)
        try pair.one.write("ALTER TABLE t DROP COLUMN n")
        try pair.one.run("DELETE FROM t")
        if inParts { try pair.take(pair.one, pair.two) }
        try pair.one.run("INSERT INTO t VALUES ('1', 9)")
        try pair.take(pair.one, pair.two)
        #expect(try pair.two.strings("SELECT * FROM t") == ["'1',9,1"])
        let new = try Replica(schema, tracking: ["t"], key: pair.one.key())
        try pair.take(pair.two, new)
        #expect(try new.state() == pair.two.state() && new.head == pair.two.head)
        for replica in [new, pair.two] { #expect(try replica.repository.verify().isEmpty) }
        try pair.two.run("UPDATE t SET n = 7")
        try pair.take(pair.two, new)
        #expect(try new.state() == pair.two.state())
    }

    @Test("a long pull goes on over commits that were made with another default, to the one that corrects it")
    func longWayOverDefaults() throws {
        let pair = try Pair("CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= \(Limits.pulledRows))
            INSERT INTO t SELECT i, 0 FROM n
            """)
        try pair.one.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 2")
        for value in 1...2 { try pair.one.run("UPDATE t SET v = \(value)") }
        let new = try Replica(
            "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 1)", tracking: ["t"],
            key: pair.one.key())
        #expect(code { try pair.take(pair.one, new) } == .digestMismatch)
        try pair.one.write("ALTER TABLE t DROP COLUMN n; ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
        try pair.one.repository.commitForeignWrites()
        try pair.take(pair.one, new)
        #expect(try new.state() == pair.one.state() && new.head == pair.one.head)
    }

    /// A merge of the store with the wrong default has said it of rows of others.
    @Test("a store that writes the right value before it corrects its default lets all go on, and new devices come")
    func wrongDefaultInMerge() throws {
        let schema = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)"
        let column = "ALTER TABLE t ADD COLUMN n INT DEFAULT"
        let one = try Replica(schema, tracking: ["t"])
        let others = try (0..<2).map { _ in try Replica(schema, tracking: ["t"], key: one.key()) }
        let (two, wrong) = (others[0], others[1])
        func take(_ from: Replica, _ into: Replica) throws {
            try into.fetch(from)
            _ = try into.repository.mergeAndPull()
        }
        try one.run("INSERT INTO t VALUES ('1', 1)")
        for other in others { try take(one, other) }
        try one.run("INSERT INTO t VALUES ('a', 1)")
        try wrong.write("\(column) 7")
        try wrong.run("INSERT INTO t (id, v) VALUES ('w', 1)")
        try take(one, wrong)
        try two.run("DELETE FROM t WHERE id = '1'")
        for other in [one, two] {
            try other.write("\(column) 1")
            try other.fetch(wrong)
            #expect(throws: SyncError.self) { try other.repository.mergeAndPull() }
        }
        try wrong.run("UPDATE t SET n = 1 WHERE n = 7")
        try wrong.write(
            """
            CREATE TABLE new (id TEXT PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 1); INSERT INTO new SELECT * FROM t;
            DROP TABLE t; ALTER TABLE new RENAME TO t
            """)
        try take(two, wrong)
        for other in [one, two] {
            try other.fetch(wrong)
            try other.fetch(one)
            // They have pushed all they have.
            try other.repository.reset()
            for from in [wrong, one, two] { try other.fetch(from) }
        }
        for other in [one, two, wrong] { try take(wrong, other) }
        let new = try Replica(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 1)", tracking: ["t"], key: one.key())
        try take(wrong, new)
        for other in [one, two, new] {
            #expect(try other.state() == wrong.state() && other.head == wrong.head)
            #expect(try other.repository.verify().isEmpty)
        }
    }

    @Test("where both stores have written all values of a column, other defaults stop nobody")
    func explicitValues() throws {
        let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run("INSERT INTO t VALUES ('1', 1), ('2', 2)")
        try pair.take(pair.one, pair.two)
        for (replica, value) in [(pair.one, 1), (pair.two, 2)] {
            try replica.write("ALTER TABLE t ADD COLUMN n INT DEFAULT \(value)")
            try replica.run("UPDATE t SET n = n + 10")
        }
        try pair.take(pair.one, pair.two)
        try pair.take(pair.two, pair.one)
        #expect(try pair.one.state() == pair.two.state() && pair.one.head == pair.two.head)
        #expect(try pair.one.repository.verify().isEmpty && pair.two.repository.verify().isEmpty)
    }

    @Test("after a default was changed on all devices, new ones come once the former value was written")
    func changedDefault() throws {
        let schema = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT"
        let one = try Replica("\(schema))", tracking: ["t"])
        try one.run("INSERT INTO t VALUES ('1', 1), ('2', 2)")
        try one.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
        try one.run("UPDATE t SET v = 3")
        try one.write(
            """
            CREATE TABLE new (id TEXT PRIMARY KEY NOT NULL, v INT, n INT DEFAULT 5); INSERT INTO new SELECT * FROM t;
            DROP TABLE t; ALTER TABLE new RENAME TO t
            """)
        let new = try Replica("\(schema), n INT DEFAULT 5)", tracking: ["t"], key: one.key())
        try new.fetch(one)
        #expect(code { try new.repository.pull() } == .digestMismatch)
        try one.run("UPDATE t SET n = n + 1")
        try one.run("UPDATE t SET n = n - 1")
        try new.fetch(one)
        try new.repository.pull()
        #expect(try new.state() == one.state() && new.strings("SELECT n FROM t") == ["1", "1"])
    }

    /// Both had the same head and other rows, and nothing said so.
    @Test("a pull without a net effect compares the rows too")
    func netNothing() throws {
        let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run("INSERT INTO t VALUES ('1', 1), ('2', 2)")
        try pair.take(pair.one, pair.two)
        try pair.one.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
        try pair.two.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 2")
        try pair.one.run("UPDATE t SET v = 5 WHERE id = '1'")
        try pair.one.run("UPDATE t SET v = 1 WHERE id = '1'")
        #expect(code { try pair.take(pair.one, pair.two) } == .digestMismatch)
    }

    /// The write of the other store was undone on all devices, although nothing was concurrent.
    @Test("a unique key that one store alone has stops the pull, and undoes nothing of others")
    func uniqueIndex() throws {
        let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run("INSERT INTO t VALUES ('1', 1), ('2', 2)")
        try pair.take(pair.one, pair.two)
        try pair.two.write("CREATE UNIQUE INDEX i ON t (v)")
        for sql in ["UPDATE t SET v = 1 WHERE id = '2'", "INSERT INTO t VALUES ('3', 1)"] {
            try pair.one.run(sql)
            let before = try pair.two.state()
            #expect(code { try pair.take(pair.one, pair.two) } == .constraintViolation, "\(sql)")
            #expect(try pair.two.state() == before && pair.two.repository.conflicts().isEmpty)
            #expect(try pair.two.repository.verify().isEmpty)
        }
        try pair.two.write("DROP INDEX i")
        try pair.take(pair.one, pair.two)
        #expect(try pair.one.state() == pair.two.state())
    }

    /// The write of the other store was gone on all devices, and was a conflict in this one alone.
    @Test(
        "a constraint that one store alone has stops its merges, and undoes nothing of others",
        arguments: [
            ("v INT UNIQUE, n INT", "INSERT INTO t VALUES ('3', 1, 0)"),
            ("v INT UNIQUE, n INT", "UPDATE t SET v = 1 WHERE id = '2'"),
            ("v INT, n INT, UNIQUE (v, n)", "INSERT INTO t VALUES ('3', 5, 0), ('4', 5, 0)"),
            ("v INT CHECK (v < 9), n INT", "UPDATE t SET v = 10 WHERE id = '1'"),
            ("v INT CHECK (v < 9), n INT", "INSERT INTO t VALUES ('3', 10, 0)"),
            ("v INT NOT NULL, n INT", "UPDATE t SET v = NULL WHERE id = '1'"),
            ("v TEXT COLLATE NOCASE UNIQUE, n INT", "INSERT INTO t VALUES ('3', 'x', 0), ('4', 'X', 0)"),
            ("v INT, n INT); CREATE UNIQUE INDEX i ON t (abs(v)", "INSERT INTO t VALUES ('3', -1, 0)"),
            ("v INT, n INT); CREATE UNIQUE INDEX i ON t (v) WHERE (v > 0", "INSERT INTO t VALUES ('3', 1, 0)"),
        ])
    func constraintsInMerges(columns: String, write: String) throws {
        for own in [
            "INSERT INTO t VALUES ('own', 7, 7)", "UPDATE t SET n = 7 WHERE id = '1'", "DELETE FROM t WHERE id = '2'",
        ] {
            let pair = try Pair(
                "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v \(columns.hasPrefix("v TEXT") ? "TEXT" : "INT"), n INT)",
                "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, \(columns))")
            try pair.one.run("INSERT INTO t VALUES ('1', 1, 0), ('2', 2, 0)")
            try pair.take(pair.one, pair.two)
            try pair.one.run(write)
            try pair.two.run(own)
            let before = try (pair.two.state(), pair.two.commitCount)
            #expect(code { try pair.take(pair.one, pair.two) } == .constraintViolation, "\(own)")
            #expect(try pair.two.state() == before.0 && pair.two.repository.conflicts().isEmpty, "\(own)")
            // It goes on where the author repairs the rows.
            try pair.one.run("DELETE FROM t WHERE id > '2'; UPDATE t SET v = id")
            try pair.take(pair.one, pair.two)
            try pair.take(pair.two, pair.one)
            #expect(try pair.two.repository.conflicts().allSatisfy { $0.reason == .deletedAndChanged }, "\(own)")
            #expect(try pair.two.repository.verify().isEmpty && pair.one.repository.verify().isEmpty, "\(own)")
            let rows = "SELECT * FROM t ORDER BY id"
            #expect(try pair.one.strings(rows) == pair.two.strings(rows), "\(own)")
        }
    }

    /// The process ended: the part was to be repeated with twice the length, for ever.
    @Test(
        "a part of a pull that is refused, and ends before a commit with a column that this store lacks, is refused",
        arguments: [
            ("v INT UNIQUE", "UPDATE t SET v = 1", SyncError.Code.constraintViolation),
            ("v INT REFERENCES t(id)", "UPDATE t SET v = 5", .foreignKeyViolation),
        ])
    func refusedBeforeObstacle(column: String, write: String, expected: SyncError.Code) throws {
        let pair = try Pair(
            "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, v INT)",
            "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, \(column))")
        try pair.one.run("INSERT INTO t VALUES (1, 1), (2, 2)")
        try pair.take(pair.one, pair.two)
        try pair.one.run(write)
        try pair.one.write("ALTER TABLE t ADD COLUMN z INT")
        try pair.one.run("UPDATE t SET z = 1")
        #expect(code { try pair.take(pair.one, pair.two) } == expected)
        #expect(code { try pair.two.repository.pull() } == expected)
        try pair.two.write("ALTER TABLE t ADD COLUMN z INT")
        try pair.one.run("UPDATE t SET v = id")
        try pair.take(pair.one, pair.two)
        #expect(try pair.one.strings("SELECT * FROM t") == pair.two.strings("SELECT * FROM t"))
    }

    @Test("a key that one store alone compares without case stops the pull")
    func collation() throws {
        let pair = try Pair(
            "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)",
            "CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run("INSERT INTO t VALUES ('a', 1), ('A', 2)")
        #expect(code { try pair.take(pair.one, pair.two) } == .constraintViolation)
        #expect(try pair.two.strings("SELECT count(*) FROM t") == ["0"])
    }

    /// It was told to merge, and could not, until another store had done so.
    @Test("a new store with a later schema merges what stores with an earlier one have left", arguments: [2, 3])
    func newStore(count: Int) throws {
        let schema = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)"
        let first = try Replica(schema, tracking: ["t"])
        var others = [first]
        for _ in 1..<count { others.append(try Replica(schema, tracking: ["t"], key: first.key())) }
        for (number, other) in others.enumerated() { try other.run("INSERT INTO t VALUES ('\(number)', \(number))") }
        let new = try Replica(
            schema.replacing("v INT", with: "v INT, n INT DEFAULT 5"), tracking: ["t"], key: first.key())
        for other in others { try new.fetch(other) }
        _ = try new.repository.mergeAndPull()
        #expect(try new.strings("SELECT count(*), min(n) FROM t") == ["\(count),5"])
        #expect(try new.repository.summary().leafCount == 1 && new.repository.verify().isEmpty)
        for other in others {
            try other.write("ALTER TABLE t ADD COLUMN n INT DEFAULT 5")
            try other.fetch(new)
            _ = try other.repository.mergeAndPull()
            #expect(try other.state() == new.state() && other.head == new.head)
        }
    }

    /// Commits of older stores did not fit any more, or counted as written outside of commits.
    @Test("rows that lack a new column get its default as the column stores it")
    func convertedDefaults() throws {
        let columns = [
            "DECIMAL(10,2) DEFAULT 0.0", "NUMERIC DEFAULT '0'", "INT DEFAULT 5.0", "INT DEFAULT 1e3",
            "INT DEFAULT '1e2'",
            "REAL DEFAULT '1.5'", "REAL DEFAULT -0.0", "REAL DEFAULT 7", "INT DEFAULT '7x'", "INT DEFAULT '0x10'",
            "TEXT DEFAULT 5", "TEXT DEFAULT 1.50", "DEFAULT \"dq\"", "BLOB DEFAULT x'00'", "BOOLEAN DEFAULT TRUE",
            "NUMERIC DEFAULT ' 12 '", "INT DEFAULT -9223372036854775808", "DATE DEFAULT '2026-11-27'",
            "INT DEFAULT NULL",
        ]
        for column in columns {
            let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
            try pair.one.run("INSERT INTO t VALUES ('1', 1)")
            try pair.take(pair.one, pair.two)
            try pair.two.write("ALTER TABLE t ADD COLUMN n \(column)")
            #expect(try pair.two.repository.verify().isEmpty, "\(column)")
            try pair.one.run("INSERT INTO t VALUES ('2', 2)")
            try pair.take(pair.one, pair.two)
            try pair.two.run("UPDATE t SET v = 3")
            try pair.one.write("ALTER TABLE t ADD COLUMN n \(column)")
            try pair.take(pair.two, pair.one)
            #expect(try pair.one.state() == pair.two.state(), "\(column)")
            #expect(try pair.one.repository.verify().isEmpty && pair.two.repository.verify().isEmpty, "\(column)")
        }
    }

    @Test("a commit of before a new column is reverted with it; stores without the column stop before it")
    func revertAfterMigration() throws {
        let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
        let first = try #require(try pair.one.run("INSERT INTO t VALUES ('1', 1)"))
        try pair.one.run("INSERT INTO t VALUES ('2', 2)")
        try pair.take(pair.one, pair.two)
        try pair.one.write("ALTER TABLE t ADD COLUMN z INT DEFAULT 5")
        try pair.one.repository.revert(first)
        #expect(try pair.one.repository.verify().isEmpty)
        #expect(code { try pair.take(pair.one, pair.two) } == .schemaAhead)
        try pair.two.write("ALTER TABLE t ADD COLUMN z INT DEFAULT 5")
        try pair.take(pair.one, pair.two)
        #expect(try pair.one.state() == pair.two.state() && pair.two.strings("SELECT * FROM t") == ["'2',2,5"])
    }

    /// All stores stopped, and resets emptied them.
    @Test("a table whose name has other letter case in one store is the same table")
    func letterCase() throws {
        let schema = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)"
        let pair = try Pair(schema, schema.replacing("TABLE t", with: "TABLE T"))
        try pair.one.run("INSERT INTO t VALUES ('1', 1)")
        try pair.take(pair.one, pair.two)
        try pair.two.run("UPDATE t SET v = 2; INSERT INTO t VALUES ('2', 2)")
        try pair.one.run("INSERT INTO t VALUES ('3', 3)")
        try pair.take(pair.two, pair.one)
        try pair.take(pair.one, pair.two)
        let rows = "SELECT * FROM t ORDER BY id"
        #expect(try pair.one.strings(rows) == pair.two.strings(rows) && pair.one.head == pair.two.head)
        #expect(try pair.one.repository.verify().isEmpty && pair.two.repository.verify().isEmpty)
    }

    @Test("a commit that the rows do not have yet is not reverted")
    func revertOfOthers() throws {
        let pair = try Pair("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INT)")
        try pair.one.run("INSERT INTO t VALUES ('1', 1)")
        try pair.two.run("INSERT INTO t VALUES ('1', 1)")
        let other = try #require(try pair.two.head)
        try pair.one.fetch(pair.two)
        #expect(code { try pair.one.repository.revert(other) } == .notPulled)
        #expect(try pair.one.strings("SELECT * FROM t") == ["'1',1"])
    }

    // MARK: Encodings

    private static let notes = "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, a TEXT, b)"

    /// The error of a step, which has no value of a row.
    private func refusal(_ body: () throws -> Void) -> SyncError? {
        do {
            try body()
            return nil
        } catch {
            #expect(!"\(error)".contains("\u{FFFD}") && !"\(error)".contains("word"))
            return error as? SyncError
        }
    }

    /// Half of a surrogate pair became another character in a store in UTF-8, and both stores said "in sync".
    @Test(
        "a text that UTF-8 cannot have is in no commit of a store in UTF-16, wherever it stands",
        arguments: ["UTF-16le", "UTF-16be"],
        [
            ["D800"], ["0061", "D800"], ["D800", "0061"], ["DC00", "0061"], ["DC00", "D800"], ["D83D", "D83D", "DE00"],
            ["FFFF"], ["0061", "FFFE"],
        ])
    func halfPairs(encoding: String, units: [String]) throws {
        let bytes = units.map { encoding == "UTF-16be" ? $0 : String($0.suffix(2) + $0.prefix(2)) }.joined()
        let bad = "CAST(x'\(bytes)' AS TEXT)"
        let replica = try Replica(Self.notes, tracking: ["note"], encoding: encoding)
        #expect(try replica.strings("PRAGMA encoding")[0].contains(encoding))
        try replica.run("INSERT INTO note VALUES ('k', 'word \u{1F600} \u{10FFFF} \u{FFFD}', x'D800')")
        let head = try replica.head
        for (sql, column) in [
            ("INSERT INTO note VALUES ('2', \(bad), 1)", "a"), ("INSERT INTO note VALUES (\(bad), 'word', 1)", "id"),
            ("UPDATE note SET b = \(bad)", "b"), ("UPDATE note SET id = \(bad)", "id"),
            ("REPLACE INTO note VALUES ('k', 'word', \(bad))", "b"),
            ("INSERT INTO note VALUES ('2', 'word', 1); UPDATE note SET a = \(bad) WHERE id = '2'", "a"),
        ] {
            let error = refusal { try replica.run(sql) }
            #expect(error?.code == .inexactText && error?.table == "note", "\(sql)")
            #expect(error?.detail?.contains("\"\(column)\"") == true, "\(sql)")
            #expect(try replica.head == head && replica.repository.verify().isEmpty, "\(sql)")
        }
        // A text that is gone before the commit, and rows that are deleted.
        try replica.run("UPDATE note SET a = \(bad); UPDATE note SET a = 'word'")
        try replica.run("INSERT INTO note VALUES ('3', \(bad), 1); DELETE FROM note WHERE id = '3'; DELETE FROM note")
        // Rows that were written outside of commits, or before the table was tracked.
        try replica.write("INSERT INTO note VALUES ('4', \(bad), 1)")
        #expect(refusal { try replica.repository.commitForeignWrites() }?.code == .inexactText)
        try replica.write("CREATE TABLE other (id INTEGER PRIMARY KEY NOT NULL, c)")
        try replica.write("INSERT INTO other VALUES (1, \(bad))")
        let tracking = refusal { try replica.repository.enable(["other"]) }
        #expect(tracking?.code == .inexactText && tracking?.table == "other")
    }

    @Test("texts go from one encoding to another and back, and a text that changes there stops the pull")
    func encodings() throws {
        let one = try Replica(Self.notes, tracking: ["note"])
        let two = try Replica(Self.notes, tracking: ["note"], key: one.key(), encoding: "UTF-16le")
        try one.run("INSERT INTO note VALUES ('\u{E9}\u{1F600}', 'word \u{10FFFF}\u{FFFD}', 'x')")
        try two.fetch(one)
        _ = try two.repository.mergeAndPull()
        #expect(try one.state() == two.state())
        try two.run("UPDATE note SET a = '\u{1F600}' || a")
        try one.fetch(two)
        _ = try one.repository.mergeAndPull()
        #expect(try one.state() == two.state())
        for (column, bytes) in [("a", "EDA080"), ("b", "61FF62"), ("id", "C3"), ("a", "EFBFBF"), ("a", "F0808080")] {
            try one.run("INSERT INTO note VALUES ('n', 'word', 1)")
            try one.run("UPDATE note SET \(column) = CAST(x'\(bytes)' AS TEXT) WHERE id = 'n'")
            let before = try two.state()
            try two.fetch(one)
            let error = refusal { _ = try two.repository.mergeAndPull() }
            #expect(error?.code == .inexactText && error?.table == "note", "\(bytes)")
            #expect(error?.detail?.contains("\"\(column)\"") == true, "\(bytes)")
            #expect(try two.state() == before && two.repository.verify().isEmpty, "\(bytes)")
            #expect(try two.repository.summary().pullObstacle?.code == .inexactText, "\(bytes)")
            // What the author has corrected comes.
            try one.run("DELETE FROM note WHERE b <> 'x'")
            try two.fetch(one)
            _ = try two.repository.mergeAndPull()
            #expect(try one.state() == two.state(), "\(bytes)")
        }
        // Stores in UTF-8 exchange all texts.
        let three = try Replica(Self.notes, tracking: ["note"], key: one.key())
        try one.run("INSERT INTO note VALUES ('n', CAST(x'EDA080FF' AS TEXT), 1)")
        try three.fetch(one)
        _ = try three.repository.mergeAndPull()
        #expect(try one.state() == three.state())
    }
}
