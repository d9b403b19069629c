import CipherDatabase
import Testing

@testable import CipherObservation

/// The sum of the changes of each row.
struct ExternalChangeSetTests {
    /// Pseudo-random numbers from a seed.
    private struct Numbers: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state >> 11 ^ state << 21
        }
    }

    @Test("the sum of random changes says what has become of each row", arguments: 0..<50)
    func sums(seed: Int) throws {
        print("seed \(seed)")
        var numbers = Numbers(state: UInt64(seed))
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, value INTEGER)")
            try db.execute(sql: "INSERT INTO item VALUES (1, 0), (2, 0), (3, 0)")
            try db.recordHistory(of: .tables(["item"]))
        }
        let content: (Database) throws -> [Int: Int] = { db in
            let rows = try Row.fetchAll(db, sql: "SELECT id, value FROM item")
            return Dictionary(rows.map { ($0[0], $0[1]) }, uniquingKeysWith: { first, _ in first })
        }
        let (before, token) = try queue.read { (try content($0), try $0.historyToken()) }
        for step in 1...Int.random(in: 1...30, using: &numbers) {
            let id = Int.random(in: 1...6, using: &numbers)
            let statements = [
                "INSERT OR IGNORE INTO item VALUES (\(id), \(step))", "REPLACE INTO item VALUES (\(id), \(step))",
                "UPDATE item SET value = \(step) WHERE id = \(id)", "DELETE FROM item WHERE id = \(id)",
            ]
            let sql = statements[Int.random(in: 0..<4, using: &numbers)]
            try queue.write { try $0.execute(sql: sql) }
        }
        let (after, page) = try queue.read { (try content($0), try $0.history(since: token)) }
        let sets = ExternalChangeSet.sets(of: page.transactions)
        // One author, without a break.
        #expect(sets.count <= 1)
        let changes = sets.first?.tables["item"] ?? ExternalChangeSet.TableChanges()
        #expect(!changes.isReset)
        for id in 1...6 {
            let key = ["id": id.databaseValue]
            let found = [changes.inserted, changes.updated, changes.deleted].map { $0.contains(key) }
            #expect(found.count { $0 } <= 1)
            switch (before[id], after[id]) {
            case (nil, nil), (_?, nil): #expect(found[2] || before[id] == nil)
            case (nil, _?): #expect(found[0] || found[1])
            case (let old?, let new?): #expect(found[0] || found[1] || old == new && !found[2])
            }
        }
    }
}
