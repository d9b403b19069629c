import Testing

@testable import CipherDatabase
@testable import CipherRecords

/// A synchronized full-text table has the words of its table after every statement that a conflict clause ends.
///
/// The story: after `UPDATE OR IGNORE` of a row that a CHECK refused, FTS4 no longer found the row. SQLite had run the
/// trigger that removes the words, and then skipped the row.
///
/// FTS3 has no content of another table, and so no synchronization.
@Suite("Full-text tables and conflict clauses")
struct ConflictClauseTests {
    private static let hasFTS4 = (try? DatabaseQueue().write { try $0.create(virtualTable: "t", using: FTS4()) }) != nil
    private static let clauses = ["ROLLBACK", "ABORT", "FAIL", "IGNORE", "REPLACE"]

    private static func columns(_ declared: String) -> String {
        let clause = declared.isEmpty ? "" : "ON CONFLICT \(declared)"
        return """
            id INTEGER PRIMARY KEY \(clause), k TEXT COLLATE NOCASE UNIQUE \(clause),
            n TEXT NOT NULL \(clause) DEFAULT 'enn', body TEXT NOT NULL \(clause) DEFAULT 'preset'
                CHECK (body <> 'refused'), seen INTEGER DEFAULT 0 CHECK (seen >= 0 AND seen < 100 AND rowid < 1000),
            size INTEGER AS (length(body)) CHECK ("size" < 30 OR doc.body = 'none'), UNIQUE (k, n) \(clause)
            """
    }

    /// The assignments of an UPDATE or an UPSERT.
    private static let assignments = [
        "body = 'changed'", "body = 'changed', seen = 4", "k = 'B'", "k = 'new'", "id = 2", "id = 9", "id = 2000",
        "n = NULL", "body = NULL", "body = 'refused'", "seen = -1", "seen = -1, body = 'other'", "k = NULL",
        "body = 'a text that is too long for the table'", "body = CASE id WHEN 2 THEN 'refused' ELSE 'new' || id END",
        "n = CASE id WHEN 2 THEN NULL ELSE 'x' END, body = 'one' || id", "k = 'same'", "id = id + 1, body = 'moved'",
    ]

    private static let rows = [
        "(3, 'c', 'n', 'three')", "(3, 'A', 'n', 'three')", "(1, 'z', 'n', 'three')", "(1, 'b', 'n', 'three')",
        "(3, 'c', NULL, 'three')", "(3, 'c', 'n', NULL)", "(3, 'a', 'n', NULL)", "(3, 'c', 'n', 'refused')",
        "(1, 'b', 'n', 'refused')", "(NULL, 'b', NULL, NULL)",
        "(5, 'e', 'n', 'five'), (6, 'a', 'n', 'six'), (7, 'g', 'n', 'refused'), (8, 'h', 'n', 'eight')",
        "(5, 'e', 'n', 'five'), (7, 'g', NULL, 'seven'), (8, 'h', 'n', NULL)",
    ]

    private static var statements: [String] {
        let insert = "INTO doc (id, k, n, body) VALUES"
        return ([""] + clauses.map { "OR \($0) " }).flatMap { or in
            rows.map { "INSERT \(or)\(insert) \($0)" }
                + rows.map { "INSERT \(or)\(insert) \($0) ON CONFLICT DO NOTHING" }
                + assignments.flatMap { set in
                    [
                        "UPDATE \(or)doc SET \(set)", "UPDATE \(or)doc SET \(set) WHERE id = 1",
                        "INSERT \(or)\(insert) (3, 'a', 'n', 'three') ON CONFLICT (k) DO UPDATE SET \(set)",
                    ]
                }
        }
    }

    private func prepare(_ db: Database, declared: String, module: String?) throws {
        try db.execute(sql: "CREATE TABLE doc (\(Self.columns(declared)))")
        switch module {
        case "fts4":
            try db.create(virtualTable: "ft", using: FTS4()) { t in
                t.synchronize(withTable: "doc")
                t.column("body")
            }
        case "fts5":
            try db.create(virtualTable: "ft", using: FTS5()) { t in
                t.synchronize(withTable: "doc")
                t.column("body")
            }
        default: break
        }
    }

    /// Runs a statement on two rows.
    ///
    /// - Returns: Its error, and the rows after it.
    private func run(_ sql: String, in db: Database, transaction: Bool) throws -> (ResultCode?, [Row]) {
        try db.execute(sql: "DELETE FROM doc")
        try db.execute(sql: "INSERT INTO doc (id, k, n, body) VALUES (1, 'a', 'n', 'one'), (2, 'b', 'n', 'two')")
        var code: ResultCode?
        if transaction { try db.execute(sql: "BEGIN") }
        do { try db.execute(sql: sql) } catch let error as DatabaseError { code = error.extendedResultCode }
        if db.isInsideTransaction { try db.execute(sql: "COMMIT") }
        return (code, try Row.fetchAll(db, sql: "SELECT * FROM doc ORDER BY id"))
    }

    private func found(_ db: Database) throws -> [String: [Int64]] {
        let texts = try String.fetchAll(db, sql: "SELECT body FROM doc")
        let words = ["one", "two", "three", "refused"] + texts
        return try Dictionary(words.map { ($0, $0) }, uniquingKeysWith: { first, _ in first }).mapValues { word in
            try Int64.fetchAll(
                db, sql: "SELECT rowid FROM ft WHERE ft MATCH ? ORDER BY rowid", arguments: ["\"\(word)\""])
        }
    }

    @Test("every clause, of the statement and of the definition", arguments: ["fts4", "fts5"])
    func matrix(module: String) throws {
        guard module == "fts5" || Self.hasFTS4 else { return }
        var (followed, refused) = (0, 0)
        for (place, declared) in ([""] + Self.clauses).enumerated() {
            let (plain, indexed) = (DatabaseQueue(), DatabaseQueue())
            try plain.writeWithoutTransaction { try prepare($0, declared: declared, module: nil) }
            try indexed.writeWithoutTransaction { try prepare($0, declared: declared, module: module) }
            for (number, sql) in Self.statements.enumerated() where Sample.takes(number + place, oneIn: 3) {
                for transaction in declared.isEmpty ? [false, true] : [number.isMultiple(of: 2)] {
                    let expected = try plain.writeWithoutTransaction { try run(sql, in: $0, transaction: transaction) }
                    try indexed.writeWithoutTransaction { db in
                        let outcome = try run(sql, in: db, transaction: transaction)
                        let context: Comment = "declared \(declared), transaction \(transaction): \(sql)"
                        if module == "fts4", outcome.0 == .SQLITE_CONSTRAINT_TRIGGER {
                            refused += 1
                        } else {
                            #expect(outcome == expected, context)
                            followed += 1
                        }
                        let before = try found(db)
                        try db.execute(sql: "INSERT INTO ft(ft) VALUES ('rebuild')")
                        try #expect(before == found(db), context)
                    }
                }
            }
        }
        #expect(followed > refused && (module == "fts4") == (refused > 0))
    }

    @Test("a CHECK that ALTER TABLE adds", .enabled(if: ConflictClauseTests.hasFTS4))
    func alteredTable() throws {
        try DatabaseQueue().writeWithoutTransaction { db in
            try prepare(db, declared: "", module: "fts4")
            try db.execute(sql: "INSERT INTO doc (id, k, n, body) VALUES (1, 'a', 'n', 'one')")
            try db.execute(sql: "ALTER TABLE doc ADD COLUMN mark TEXT CHECK (mark <> body)")
            try db.execute(sql: "UPDATE OR IGNORE doc SET body = 'other', mark = 'other'")
            try #expect(found(db)["one"] == [1])
            try db.execute(sql: "ALTER TABLE doc RENAME COLUMN mark TO \"a mark\"")
            try db.execute(sql: "UPDATE OR IGNORE doc SET body = 'other', \"a mark\" = 'other'")
            try #expect(found(db)["one"] == [1])
            try db.execute(sql: "UPDATE OR IGNORE doc SET body = 'other', \"a mark\" = 'mark'")
            try #expect(found(db)["other"] == [1] && found(db)["one"] == [])
        }
    }
}
