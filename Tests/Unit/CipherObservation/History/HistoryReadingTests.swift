import CSQLCipher
import CipherDatabase
import CipherObservation
import Foundation
import Testing

/// Reading the history: tokens, pages, authors, registered readers, purging.
@Suite struct HistoryReadingTests {
    private let queue = DatabaseQueue()
    private let start: HistoryToken

    init() throws {
        start = try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, file)")
            try db.recordHistory(of: .tables(["t"]), keeping: ["t": ["file"]])
            return try db.historyToken()
        }
    }

    private func insert(_ ids: ClosedRange<Int>) throws {
        try queue.write { db in
            for id in ids { try db.execute(sql: "INSERT INTO t (id) VALUES (?)", arguments: [id]) }
        }
    }

    private func token() throws -> HistoryToken { try queue.read { try $0.historyToken() } }

    @Test("pages have whole transactions, and a long transaction is continued with the same number")
    func pages() throws {
        try insert(1...2)
        try insert(3...9)
        try insert(10...10)
        var token = start
        var parts: [[Int64]] = []
        var numbers: [Int64] = []
        var complete: [Bool] = []
        while true {
            let page = try queue.history(since: token, limit: 3)
            for transaction in page.transactions {
                parts.append(transaction.changes.compactMap(\.rowID))
                numbers.append(transaction.number)
                complete.append(transaction.isComplete)
            }
            let text = page.token.description
            token = try #require(HistoryToken(text))
            if !page.hasMore { break }
        }
        #expect(parts == [[1, 2], [3, 4, 5], [6, 7, 8], [9], [10]])
        #expect(complete == [true, false, false, true, true])
        #expect(numbers[1] == numbers[2] && numbers[2] == numbers[3] && Set(numbers).count == 3)
        #expect(try queue.history(since: token).transactions.isEmpty)
        #expect(try token == self.token())
    }

    @Test("a token is taken in the transaction of the first fetch, and is the same as text and as JSON")
    func tokens() throws {
        try insert(1...1)
        let (count, token) = try queue.read { db in
            (try Int.fetchOne(db, sql: "SELECT count(*) FROM t"), try db.historyToken())
        }
        try insert(2...2)
        #expect(count == 1)
        let decoded = try JSONDecoder().decode(HistoryToken.self, from: JSONEncoder().encode(token))
        #expect(
            try queue.history(since: decoded).transactions.flatMap(\.changes).map(\.key) == [["id": 2.databaseValue]])
        for text in ["", "x", "a-1", "a-1-b", "-1-2", "a-1-2-3-4"] { #expect(HistoryToken(text) == nil, "\(text)") }
    }

    @Test("a token of another history, of a transaction that was rolled back, or of a lost future has expired")
    func expiredTokens() throws {
        let other = DatabaseQueue()
        let foreign = try other.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            try db.recordHistory(of: .allTables)
            return try db.historyToken()
        }
        var lost = foreign
        try queue.inTransaction { db in
            try db.execute(sql: "INSERT INTO t (id) VALUES (77)")
            lost = try db.historyToken()
            return .rollback
        }
        for token in [foreign, lost] {
            let error = #expect(throws: HistoryError.self) { try queue.history(since: token) }
            #expect(error?.code == .expired)
        }
        try insert(5...5)
        let error = #expect(throws: HistoryError.self) { try queue.history(since: lost) }
        #expect(error?.code == .expired)
        let unrecorded = #expect(throws: HistoryError.self) { try DatabaseQueue().read { try $0.historyToken() } }
        #expect(unrecorded?.code == .notRecorded)
    }

    @Test("an author is left out when it is excluded, and named otherwise")
    func authors() throws {
        let file = TemporaryFile()
        let first = try file.pool { $0.label = "first" }
        let second = try file.pool { $0.label = "second" }
        let token = try first.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            try db.recordHistory(of: .allTables)
            return try db.historyToken()
        }
        for (id, pool) in [first, second, first].enumerated() {
            try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [id]) }
        }
        let all = try second.history(since: token).transactions
        #expect(all.map { $0.author?.label } == ["first", "second", "first"])
        #expect(all.allSatisfy { abs($0.date?.timeIntervalSinceNow ?? 999) < 60 })
        let others = try second.history(since: token, excluding: second.historyAuthor).transactions
        #expect(others.flatMap(\.changes).map(\.rowID) == [0, 2])
        #expect(try first.history(since: token, excluding: first.historyAuthor).transactions.count == 1)
        let byReader = try first.read { try $0.history(since: token, excluding: $0.historyAuthor).transactions.count }
        #expect(byReader == 1)
        #expect(try first.read { try $0.historyEntries(after: 0, limit: 9) }.map(\.isOwn) == [true, true, false, true])
    }

    /// The changes after a token, read in pages, as `deleted 1 f1`.
    private func changes(since token: HistoryToken, _ limit: Int) throws -> [String] {
        var (token, found) = (token, [String]())
        while true {
            let page = try queue.history(since: token, limit: limit)
            for change in page.transactions.flatMap(\.changes) {
                let file = change.formerValues["file"].flatMap { String.fromDatabaseValue($0) } ?? ""
                found.append("\(change.kind) \(change.rowID ?? 0) \(file)")
            }
            token = page.token
            if !page.hasMore { return found }
        }
    }

    @Test("a row that REPLACE has removed is a deletion, one that it has not is nothing, and a row comes back")
    func replaced() throws {
        try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 'a', 'f1'), (2, 'b', 'f2')") }
        let token = try token()
        try queue.write { db in
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO t VALUES (9, 'a', 'f9');
                    INSERT INTO t VALUES (9, 'b', 'f9') ON CONFLICT (a) DO UPDATE SET file = 'f3';
                    INSERT OR REPLACE INTO t VALUES (3, 'a', 'f4');
                    INSERT INTO t VALUES (1, 'c', 'f5');
                    """)
        }
        let expected = ["updated 2 ", "deleted 1 f1", "inserted 3 ", "inserted 1 "]
        for limit in [1, 2, 3, 100] { #expect(try changes(since: token, limit) == expected, "\(limit)") }
    }

    // A page told of a deletion at the place where a statement could have removed the row, and a later page where it was
    // deleted: twice, and the first time of the wrong author.
    @Test(
        "a row that was not replaced, and was deleted later, is deleted once, whatever is between",
        arguments: [1, 2000])
    func deletedLater(between: Int) throws {
        try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 'a', 'f1'), (2, 'b', 'f2'), (3, 'c', 'f3')") }
        let token = try token()
        try queue.write { db in
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO t VALUES (9, 'a', 'f9');
                    INSERT INTO t VALUES (9, 'b', 'f9') ON CONFLICT DO NOTHING;
                    INSERT OR IGNORE INTO t VALUES (9, 'a', 'f9');
                    REPLACE INTO t VALUES (4, 'c', 'f4');
                    """)
        }
        try insert(1_001...(1_000 + between))
        try queue.write { try $0.execute(sql: "DELETE FROM t WHERE id = 1; REPLACE INTO t VALUES (5, 'b', 'f5')") }
        let expected =
            ["deleted 3 f3", "inserted 4 "] + (1_001...(1_000 + between)).map { "inserted \($0) " }
            + ["deleted 1 f1", "deleted 2 f2", "inserted 5 "]
        for limit in [1, 2, 3, 500, 10_000] {
            let isSame = try changes(since: token, limit) == expected
            #expect(isSame, "\(limit)")
        }
    }

    // Two processes of one reader: each looked at the place first and stored its own afterwards.
    @Test("of two acknowledgements at the same moment, the later place stays")
    func simultaneousAcknowledgements() throws {
        let file = TemporaryFile()
        let (first, second) = (try file.pool(), try file.pool())
        let insert = { (id: Int) in
            try first.write { db in
                try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [id])
                return try db.historyToken()
            }
        }
        try first.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            try db.recordHistory(of: .allTables)
            try db.registerHistoryReader("r")
        }
        let (middle, last) = (try insert(1), try insert(2))
        try first.writeWithoutTransaction { db in
            var looks = 0
            db.trace(options: .profile) { event in
                guard case .profile(let statement, _) = event,
                    statement.sql.hasPrefix("SELECT"), statement.sql.contains("cipherstore_history_reader")
                else { return }
                looks += 1
                if looks > 1 { return }
                do {
                    try second.writeWithoutTransaction { try $0.acknowledgeHistory(upTo: last, by: "r") }
                } catch {
                    Issue.record(error)
                }
            }
            try db.acknowledgeHistory(upTo: middle, by: "r")
            db.trace()
            #expect(looks > 0)
        }
        #expect(try first.read { try $0.historyToken(ofReader: "r") } == last)
    }

    @Test("what registered readers have acknowledged is purged, and the rest is kept for them")
    func readers() throws {
        try queue.writeWithoutTransaction { db in
            try db.registerHistoryReader("slow", at: start)
            try db.registerHistoryReader("quick", at: start)
        }
        try insert(1...2_000)
        let middle = try token()
        try insert(2_001...4_000)
        try queue.writeWithoutTransaction { try $0.acknowledgeHistory(upTo: $0.historyToken(), by: "quick") }
        try queue.purgeHistory()
        #expect(try count() == 4_001)
        try queue.writeWithoutTransaction { try $0.acknowledgeHistory(upTo: middle, by: "slow") }
        #expect(try queue.read { try $0.historyReaders() }.map(\.lag) == [0, 2_000])
        try queue.purgeHistory()
        // Some stay for readers that are not registered.
        #expect(try count() == 3_000)
        #expect(try queue.history(since: middle, limit: 9_999).transactions.flatMap(\.changes).count == 2_000)
        let error = #expect(throws: HistoryError.self) { try queue.history(since: start) }
        #expect(error?.code == .expired)
        let oldest = try queue.read { try $0.oldestHistoryToken() }
        #expect(try queue.history(since: oldest, limit: 9_999).transactions.flatMap(\.changes).count == 3_000)
        let status = try #require(try queue.read { try $0.historyStatus() })
        #expect(status.tableNames == ["t"] && status.changeCount == 3_000 && status.readers.count == 2)
        #expect(status.byteCount > 60_000 && status.byteCount < 150_000)
        #expect(try DatabaseQueue().read { try $0.historyStatus() } == nil)
        // An older token does not move the reader back.
        try queue.writeWithoutTransaction { db in
            try db.registerHistoryReader("late")
            let last = try db.historyToken(ofReader: "late")
            try db.acknowledgeHistory(upTo: middle, by: "late")
            #expect(try db.historyToken(ofReader: "late") == last)
        }
    }

    @Test("a reader beyond the limits expires by name, and can be registered again")
    func limits() throws {
        try queue.writeWithoutTransaction { db in
            try db.registerHistoryReader("slow", at: start)
            try db.setHistoryLimits(HistoryLimits(count: 500))
        }
        try insert(1...2_000)
        try queue.purgeHistory()
        #expect(try count() == 500)
        let readers = try queue.read { try $0.historyReaders() }
        #expect(readers.map(\.isExpired) == [true])
        #expect(readers[0].expirationReason?.contains("500 changes") == true)
        for use in [
            { (db: Database) in _ = try db.historyToken(ofReader: "slow") },
            { (db: Database) in try db.acknowledgeHistory(upTo: db.historyToken(), by: "slow") },
        ] {
            let error = #expect(throws: HistoryError.self) { try queue.writeWithoutTransaction { try use($0) } }
            #expect(error?.code == .expired && error?.message.contains("\"slow\"") == true)
        }
        try queue.writeWithoutTransaction { db in
            try db.registerHistoryReader("slow")
            #expect(try db.historyToken(ofReader: "slow") == db.historyToken())
            try db.removeHistoryReader("slow")
        }
        let missing = #expect(throws: HistoryError.self) {
            try queue.writeWithoutTransaction { try $0.removeHistoryReader("slow") }
        }
        #expect(missing?.code == .noSuchReader)
    }

    @Test(
        "limits of bytes and age purge, the token after the last purged change stays valid, and the last change stays")
    func otherLimits() throws {
        try insert(1...2_000)
        let last = try token()
        try queue.writeWithoutTransaction { try $0.setHistoryLimits(HistoryLimits(bytes: 30_000)) }
        try queue.purgeHistory()
        let kept = try count()
        #expect(kept > 200 && kept < 1_500)
        try queue.writeWithoutTransaction { try $0.setHistoryLimits(HistoryLimits(age: .seconds(0))) }
        // Later than the changes.
        let passed = ContinuousClock.now + .milliseconds(5)
        while ContinuousClock.now < passed {}
        try queue.purgeHistory()
        #expect(try count() == 1)
        #expect(try queue.history(since: last).transactions.isEmpty)
        try insert(3_000...3_000)
        try queue.purgeHistory()
        #expect(try queue.history(since: last).transactions.flatMap(\.changes).map(\.rowID) == [3_000])
    }

    @Test("a connection that records many changes purges by itself")
    func automaticPurge() throws {
        try queue.writeWithoutTransaction { try $0.setHistoryLimits(HistoryLimits(count: 100)) }
        for round in 0..<8 { try insert((round * 2_000 + 1)...((round + 1) * 2_000)) }
        #expect(try count() < 10_000)
    }

    private func count() throws -> Int {
        try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_history") ?? 0 }
    }

    @Test("a full disk fails the write as a whole, and the history goes on after it")
    func fullDisk() throws {
        try insert(1...1)
        try queue.writeWithoutTransaction { db in
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(pages)")
            #expect(throws: DatabaseError.self) {
                try db.execute(
                    sql: """
                        WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
                        INSERT INTO t (id) SELECT i FROM n
                        """)
            }
            try db.execute(sql: "PRAGMA max_page_count = 100000")
        }
        try insert(2...2)
        #expect(try queue.history(since: start).transactions.flatMap(\.changes).map(\.rowID) == [1, 2])
    }
}
