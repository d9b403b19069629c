import CipherDatabase
import CipherObservation
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// In a commit and in a pull the triggers of the change history pause, and the engine writes what has changed.
@Suite("The change history of commits and pulls")
struct CommitEntryTests {
    private static let seed = Seed()
    private static let programs = ProcessInfo.processInfo.environment["CIPHERSTORE_SCHEDULES"].flatMap { Int($0) } ?? 15

    private func end(_ store: CaptureStore) throws -> Int64 { try store.queue.read { try $0.lastHistoryNumber() } }

    private func entries(_ store: CaptureStore, after number: Int64) throws -> [HistoryEntry] {
        try store.queue.read { try $0.historyEntries(after: number, limit: 100_000) }
    }

    /// How many rows of the history follow a number.
    private func rowCount(_ store: CaptureStore, after number: Int64) throws -> Int {
        try store.queue.read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_history WHERE seq > ?", arguments: [number])
                ?? 0
        }
    }

    /// Changes as texts, by the exact key.
    private func texts(_ entries: [HistoryEntry]) -> Set<String> {
        Set(
            entries.map { entry in
                let key = zip(entry.keyColumns, entry.key).map { "\($0.0.lowercased())=\($0.1.storage)" }.sorted()
                return "\(entry.operation) \(entry.tableName) \(key)"
            })
    }

    private func texts(_ changes: [CaptureStore.Place: [[CellValue]?]], _ store: CaptureStore) throws -> Set<String> {
        try store.queue.read { db in
            Set(
                try changes.map { place, rows in
                    let table = try #require(try TableDefinition(named: place.table, in: db))
                    let operation: HistoryOperation =
                        rows[0] == nil ? .inserted : rows[1] == nil ? .deleted : .updated
                    let values = place.key.values.map(\.databaseValue)
                    let key = zip(table.keyColumns.map { table.columns[$0].name.lowercased() }, values)
                        .map { "\($0.0)=\($0.1.storage)" }.sorted()
                    return "\(operation) \(place.table) \(key)"
                })
        }
    }

    @Test("commits and pulls record each changed row once and nothing else, for random schemas and statements")
    func random() throws {
        var count = 0
        for index in 3_000_000..<(3_000_000 + Self.programs) {
            var numbers = Self.seed.numbers(index)
            let schema = RandomSchema(&numbers)
            let one = try CaptureStore("a", schema.sql.joined(separator: ";"), tracking: schema.names)
            let other = try CaptureStore("b", schema.sql.joined(separator: ";"), tracking: schema.names)
            for _ in 0..<5 {
                var run: [String] = []
                for (store, step) in [
                    (
                        one,
                        { store in
                            _ = try store.commit { db in
                                for _ in 0..<Int.random(in: 1...12, using: &numbers) {
                                    run.append(schema.statement(&numbers))
                                    do { try db.execute(sql: run[run.count - 1]) } catch is DatabaseError {}
                                }
                            }
                        }
                    ), (other, { store in try store.join(one) }),
                ] as [(CaptureStore, (CaptureStore) throws -> Void)] {
                    let (before, number) = (try store.rows(), try end(store))
                    try step(store)
                    let entries = try entries(store, after: number)
                    let name: Comment =
                        "\(Self.seed), program \(index): \(schema.sql.joined(separator: "; ")) -> \(run)"
                    let expected = try texts(store.difference(before, store.rows()), store)
                    #expect(texts(entries) == expected && entries.count == expected.count, name)
                    #expect(Set(entries.map(\.origin)).count == (entries.isEmpty ? 0 : 1), name)
                    #expect(try rowCount(store, after: number) <= schema.names.count, name)
                    if texts(entries) != expected { return }
                    count += entries.count
                }
                if try one.queue.read({ try $0.foreignKeyViolations().next() != nil }) { break }
            }
        }
        #expect(count > Self.programs)
    }

    @Test("a commit is one entry for each table, which readers expand, with the columns and values that are recorded")
    func oneEntry() throws {
        let sql = "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER)"
        let store = try CaptureStore("a", sql, tracking: ["player"])
        try store.queue.write {
            try $0.recordHistory(of: .tables(["player"]), columns: true, keeping: ["player": ["name"]])
        }
        var number = try end(store)
        try store.commit(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
            INSERT INTO player SELECT i, 'p' || i, i FROM n
            """)
        #expect(try rowCount(store, after: number) == 3)
        #expect(try entries(store, after: number).map(\.rowID) == (1...2_500).map { $0 })
        number = try end(store)
        try store.commit("UPDATE player SET score = 0 WHERE id < 4; DELETE FROM player WHERE id IN (7, 8)")
        let found = try entries(store, after: number)
        #expect(try rowCount(store, after: number) == 1)
        #expect(found.map(\.rowID) == [7, 8, 1, 2, 3])
        #expect(found.map(\.columns) == [nil, nil, ["score"], ["score"], ["score"]])
        #expect(found.prefix(2).map(\.former) == [["name": "p7".databaseValue], ["name": "p8".databaseValue]])
        // One change is an ordinary row.
        number = try end(store)
        try store.commit("UPDATE player SET name = 'x' WHERE id = 2")
        #expect(try entries(store, after: number).map(\.columns) == [["name"]])
        // Pages of any size and places inside of an entry have each change once. An entry has up to 1,000 changes: the small
        // pages are at the ends of entries, since each page expands one.
        let (token, all) = try store.queue.read { db in
            (try db.oldestHistoryToken(), try db.history(since: db.oldestHistoryToken(), limit: 100_000))
        }
        let ones = Array(repeating: 1, count: 12) + [321]
        for limits in [ones, [7, 7, 7, 312], [999], [1_000], [1_001]] {
            var (place, kinds, pages) = (token, [String](), 0)
            while true {
                let limit = limits[pages % limits.count]
                let page = try store.queue.history(since: place, limit: limit)
                kinds += page.transactions.flatMap(\.changes).map { "\($0.kind) \($0.key)" }
                #expect(page.transactions.reduce(0) { $0 + $1.changes.count } <= limit)
                // A token is valid as text, too.
                place = try #require(HistoryToken(page.token.description))
                pages += 1
                if !page.hasMore { break }
            }
            #expect(kinds == all.transactions.flatMap(\.changes).map { "\($0.kind) \($0.key)" }, "\(limits)")
        }
        // Three commits, and the beginnings of the two recordings.
        #expect(all.transactions.count == 5)
    }

    @Test("rows that are adopted have not changed")
    func adoption() throws {
        let folder = TemporaryFolder()
        let pool = try Device.open(folder.path("a.db"))
        try pool.write { try $0.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Bob', 2)") }
        _ = try ChangesetRepository(pool)
        let entries = try pool.read { try $0.historyEntries(after: 0, limit: 100) }
        #expect(entries.allSatisfy { $0.operation == .reset } && entries.count == 2)
        try pool.close()
    }

    @Test("a program's own triggers, a savepoint that is rolled back and a failed commit leave no entry too many")
    func rolledBack() throws {
        let sql = """
            CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE TABLE log (id INTEGER PRIMARY KEY, t);
            CREATE TRIGGER note AFTER INSERT ON t BEGIN INSERT INTO log (t) VALUES (NEW.id); END
            """
        let store = try CaptureStore("a", sql, tracking: ["t", "log"])
        var number = try end(store)
        try store.commit(
            "INSERT INTO t VALUES (1, 1); SAVEPOINT s; INSERT INTO t VALUES (2, 2); ROLLBACK TO s; RELEASE s")
        #expect(try texts(entries(store, after: number)).count == 2)
        number = try end(store)
        struct Refusal: Error {}
        #expect(throws: Refusal.self) {
            try store.commit { db in
                try db.execute(sql: "INSERT INTO t VALUES (3, 3)")
                throw Refusal()
            }
        }
        #expect(try end(store) == number)
        // The triggers record again after it.
        try store.run("INSERT INTO t VALUES (4, 4)")
        #expect(try entries(store, after: number).count == 2)
    }
}
