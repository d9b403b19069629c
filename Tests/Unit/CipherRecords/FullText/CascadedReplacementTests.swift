import CipherDatabase
import CipherRecords
import Testing

/// A synchronized full-text table follows a `REPLACE` in a table that refers to itself: an action of the foreign key
/// changes or deletes rows of the same statement.
@Suite("Full-text tables and actions of foreign keys")
struct CascadedReplacementTests {
    private static let statements = [
        "UPDATE OR REPLACE node SET id = 3 WHERE id = 6", "UPDATE OR REPLACE node SET tag = 's3' WHERE id = 6",
        "INSERT OR REPLACE INTO node (id, tag, body) VALUES (4, 'S3', 'hello new')",
        "INSERT OR REPLACE INTO node (id, tag, body) VALUES (9, 's4', 'hello new')",
        "INSERT OR REPLACE INTO node (id, pid, tag, body) VALUES (3, 6, 's7', 'hello new')",
        "UPDATE OR IGNORE node SET tag = 's4' WHERE id = 3; DELETE FROM node WHERE id = 4",
        "INSERT OR IGNORE INTO node (id, tag) VALUES (4, 's6'); UPDATE node SET body = 'hello again' WHERE id = 4; "
            + "INSERT OR REPLACE INTO node (id, tag, body) VALUES (10, 's4', 'hello ten')",
    ]
    private static let indexes = [
        "", "CREATE UNIQUE INDEX folded ON node (lower(tag))", "CREATE UNIQUE INDEX some ON node (tag) WHERE id > 3",
        "ALTER TABLE node ADD COLUMN size AS (length(body))",
        "CREATE TRIGGER grow BEFORE INSERT ON node BEGIN UPDATE node SET seen = seen + 1 WHERE tag = new.tag; END",
    ]

    private func prepare(_ db: Database, _ action: String, _ index: String) throws {
        try db.execute(
            sql: """
                CREATE TABLE node (id INTEGER PRIMARY KEY, pid INTEGER REFERENCES node(id) ON DELETE \(action),
                    tag TEXT UNIQUE, body TEXT, seen INTEGER DEFAULT 0);
                INSERT INTO node (id, pid, tag, body) VALUES (3, NULL, 's3', 'hello three'), (4, 3, 's4', 'hello four'),
                    (6, 3, 's6', 'hello six'), (7, 4, 's7', 'hello seven'), (8, NULL, 's8', 'hello eight');
                \(index)
                """)
    }

    /// Runs a statement that a foreign key, or FTS4, may refuse.
    private func executeUnlessRefused(_ sql: String, _ db: Database) throws {
        do {
            try db.execute(sql: sql)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            let isExpected = ["FOREIGN KEY", "cannot follow"].contains { error.message?.contains($0) == true }
            #expect(isExpected, "\(error)")
        }
    }

    @Test("FTS5 has the words of the rows that are there", arguments: ["CASCADE", "SET NULL", "SET DEFAULT"], indexes)
    func fts5(_ action: String, _ index: String) throws {
        for statement in Self.statements {
            try DatabaseQueue().write { db in
                try prepare(db, action, index)
                try db.create(virtualTable: "words", using: FTS5()) { t in
                    t.synchronize(withTable: "node")
                    t.column("body")
                }
                try executeUnlessRefused(statement, db)
                // Notes that are left must not count later.
                try db.execute(sql: "UPDATE node SET body = 'hello ' || id; DELETE FROM node WHERE id = 8")
                try db.execute(sql: "INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
                #expect(
                    try Int.fetchAll(db, sql: "SELECT rowid FROM words WHERE words MATCH 'hello' ORDER BY rowid")
                        == Int.fetchAll(db, sql: "SELECT id FROM node ORDER BY id"), "\(statement)")
            }
        }
    }

    @Test(
        "FTS4 has their words too, or refuses the statement", arguments: ["CASCADE", "SET NULL", "SET DEFAULT"], indexes
    )
    func fts4(_ action: String, _ index: String) throws {
        for statement in Self.statements {
            try DatabaseQueue().write { db in
                try prepare(db, action, index)
                try db.create(virtualTable: "words", using: FTS4()) { t in
                    t.synchronize(withTable: "node")
                    t.column("body")
                }
                try executeUnlessRefused(statement, db)
                try db.execute(sql: "UPDATE node SET body = 'hello ' || id; DELETE FROM node WHERE id = 8")
                #expect(
                    try Int.fetchAll(db, sql: "SELECT docid FROM words WHERE words MATCH 'hello' ORDER BY docid")
                        == Int.fetchAll(db, sql: "SELECT id FROM node ORDER BY id"), "\(statement)")
            }
        }
    }

    // MARK: Rows that refer to themselves

    // SQLite runs an action before the AFTER triggers of the row: the index had no words, or those of before.
    private static let tables = [
        "id INTEGER PRIMARY KEY, pid INTEGER REFERENCES node(id) ON UPDATE CASCADE, x INTEGER UNIQUE, body TEXT",
        "id INTEGER PRIMARY KEY REFERENCES node(x) ON UPDATE CASCADE, pid INTEGER, x INTEGER UNIQUE, body TEXT",
        "id INTEGER PRIMARY KEY, pid INTEGER REFERENCES node(x) ON DELETE SET NULL ON UPDATE CASCADE, "
            + "x INTEGER UNIQUE, body TEXT",
        "id INTEGER PRIMARY KEY, pid INTEGER REFERENCES node(x) ON UPDATE SET NULL, "
            + "x INTEGER UNIQUE REFERENCES node(id) ON UPDATE CASCADE, body TEXT",
    ]

    /// Statements with small numbers, so that keys meet.
    private func statement(_ random: inout some RandomNumberGenerator) -> String {
        func key() -> Int { Int.random(in: 1...6, using: &random) }
        let clause = ["", " OR REPLACE", " OR IGNORE"].randomElement(using: &random) ?? ""
        let (one, other) = (key(), key())
        return switch Int.random(in: 0..<7, using: &random) {
        case 0: "INSERT\(clause) INTO node VALUES (\(one), \(one), \(one), 'hello \(other)')"
        case 1: "INSERT\(clause) INTO node VALUES (\(one), \(other), \(other), 'hello')"
        case 2: "UPDATE\(clause) node SET id = \(one), body = 'hello \(other)' WHERE id = \(other)"
        case 3: "UPDATE\(clause) node SET x = \(one), body = 'hello \(one)' WHERE id = \(other)"
        case 4: "UPDATE\(clause) node SET id = id + 1, x = x + 1 WHERE id > \(one)"
        case 5: "UPDATE\(clause) node SET pid = \(one) WHERE id = \(other)"
        default: "DELETE FROM node WHERE id = \(one)"
        }
    }

    private func createWords(_ version: Int, _ db: Database) throws {
        if version == 4 {
            try db.create(virtualTable: "words", using: FTS4()) { t in
                t.synchronize(withTable: "node")
                for name in ["pid", "x", "body"] { t.column(name) }
            }
        } else {
            try db.create(virtualTable: "words", using: FTS5()) { t in
                t.synchronize(withTable: "node")
                for name in ["pid", "x", "body"] { t.column(name) }
            }
        }
    }

    @Test("full-text tables follow rows that refer to themselves", arguments: tables, [4, 5])
    func rowsOfThemselves(_ table: String, _ version: Int) throws {
        let check = version == 4 ? "(words) VALUES ('integrity-check')" : "(words, rank) VALUES ('integrity-check', 1)"
        var random = Numbers(state: 1)
        for _ in 0..<15 {
            let queue = DatabaseQueue()
            try queue.write { db in
                try db.execute(sql: "CREATE TABLE node (\(table))")
                try createWords(version, db)
            }
            var done: [String] = []
            for _ in 0..<30 {
                let sql = statement(&random)
                done.append(sql)
                do {
                    try queue.write { db in try db.execute(sql: sql) }
                } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                    // Refused by a key, by FTS4, or at the commit: a row without a parent.
                }
                try queue.write { db in
                    #expect(throws: Never.self, "\(done)") { try db.execute(sql: "INSERT INTO words \(check)") }
                    let found = try Int.fetchAll(
                        db, sql: "SELECT rowid FROM words WHERE words MATCH 'hello' ORDER BY rowid")
                    let wanted = try Int.fetchAll(db, sql: "SELECT id FROM node ORDER BY id")
                    #expect(found == wanted, "\(done)")
                }
            }
        }
    }

    /// SplitMix64: the same numbers in each run.
    private struct Numbers: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var value = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
            value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
            return value ^ (value >> 31)
        }
    }
}
