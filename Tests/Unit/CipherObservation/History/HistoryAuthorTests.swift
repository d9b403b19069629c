import CipherObservation
import Testing

@testable import CipherDatabase

/// The identity of the author separates own changes from those of others: a number may have several authors, one after
/// the other.
@Suite struct HistoryAuthorTests {
    private let file = TemporaryFile()

    /// Two pools of a database with the recorded tables `p` and `q`, that have not written yet.
    private func pools() throws -> (DatabasePool, DatabasePool) {
        let third = try file.pool()
        try third.write { db in
            try db.execute(sql: "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE q (id INTEGER PRIMARY KEY)")
            try db.recordHistory(of: .allTables)
        }
        try third.close()
        return (try file.pool(), try file.pool())
    }

    private func insert(_ rows: ClosedRange<Int>, into table: String, _ pool: DatabasePool) throws {
        try pool.write { db in
            for row in rows { try db.execute(sql: "INSERT INTO \(table) VALUES (?)", arguments: [row]) }
        }
    }

    /// The notices to an observer of a pool, for commits that a function makes.
    private func changes(_ pool: DatabasePool, _ body: () throws -> Void) throws -> RecordedChanges? {
        var commits = ExternalCommits()
        pool.writeWithoutTransaction { commits.begin($0) }
        try body()
        guard case .recorded(let changes) = try pool.writeWithoutTransaction({ try commits.poll($0) }) else {
            return nil
        }
        return changes
    }

    // The number of an author outlived the rollback of its row, and the next author got the same: until the first one
    // wrote again, its observers missed what the other wrote.
    @Test(
        "after a rollback of its first write, an author sees the changes of the one that gets its number",
        arguments: [
            "BEGIN; INSERT INTO p VALUES (77); ROLLBACK",
            "BEGIN; SAVEPOINT s; INSERT INTO p VALUES (77); ROLLBACK TO s; COMMIT",
        ])
    func numberAfterRollback(sql: String) throws {
        let (first, second) = try pools()
        let found = try changes(first) {
            try first.writeWithoutTransaction { try $0.execute(sql: sql) }
            try insert(1...1, into: "p", second)
        }
        #expect(found?.entries.map(\.rowID) == [1])
        let later = try changes(first) {
            try insert(2...2, into: "p", first)
            try insert(3...3, into: "p", second)
        }
        #expect(later?.entries.map(\.rowID) == [3])
    }

    @Test("an author whose number was freed by a purge sees the changes of the one that gets it")
    func purgedNumber() throws {
        let (first, second) = try pools()
        try insert(1...1, into: "p", second)
        try insert(2...2, into: "p", first)
        try insert(3...3, into: "p", second)
        try second.write { db in
            try db.writingOwnRows {
                try db.execute(
                    sql: """
                        WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
                        INSERT INTO cipherstore_history_author (id, identity, label) SELECT i, i, 'gone' FROM n
                        """)
            }
            try db.setHistoryLimits(HistoryLimits(count: 1))
        }
        try second.purgeHistory()
        let count = try second.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_history_author") }
        #expect(count == 1)
        let third = try file.pool()
        let found = try changes(first) { try insert(4...4, into: "p", third) }
        #expect(found?.entries.map(\.rowID) == [4])
        // The first one has another number now.
        try insert(5...5, into: "p", first)
        let authors = try second.read { try $0.historyEntries(after: 4, limit: 9) }.map(\.author)
        #expect(authors.count == 3 && Set(authors).count == 3)
    }

    @Test("own changes are left out also where there are too many to be listed")
    func manyOwnChanges() throws {
        let (first, second) = try pools()
        let found = try changes(first) {
            try insert(1...1_001, into: "p", first)
            try insert(1...1, into: "q", second)
        }
        #expect(found?.changedTables == ["q"])
        let others = try changes(first) { try insert(1_002...2_500, into: "p", second) }
        #expect(others?.changedTables == ["p"])
    }
}
