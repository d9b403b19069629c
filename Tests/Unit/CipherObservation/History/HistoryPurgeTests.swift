import CipherObservation
import Foundation
import Testing

@testable import CipherDatabase

/// Purging goes in parts, which are bounded by number and by time.
@Suite struct HistoryPurgeTests {
    private let file = TemporaryFile()

    /// A database with as many changes, all of them beyond the limits.
    private func recorded(_ count: Int) throws -> DatabasePool {
        let pool = try file.pool()
        try pool.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
            try db.recordHistory(of: .tables(["t"]))
        }
        try insert(1...count, pool)
        // By a connection that records nothing: the other one purges by itself after few changes.
        let other = try file.pool()
        try other.write { try $0.setHistoryLimits(HistoryLimits(count: 0)) }
        try other.close()
        return pool
    }

    private func insert(_ ids: ClosedRange<Int>, _ pool: DatabasePool) throws {
        try pool.write { db in
            for id in ids { try db.execute(sql: "INSERT INTO t (id) VALUES (?)", arguments: [id]) }
        }
    }

    private func count(_ pool: DatabasePool) throws -> Int64 {
        try pool.read { try Int64.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_history") ?? 0 }
    }

    @Test("a part ends when it has as many changes, and when its time is over")
    func parts() throws {
        let pool = try recorded(3_000)
        #expect(try count(pool) == 3_001)
        // No time at all: one step, so that there is progress.
        var part = try pool.writeWithoutTransaction { try $0.purgeHistory(count: 100_000, for: .zero) }
        #expect(part.count == DatabaseLimits.historyPurgeStep)
        part = try pool.writeWithoutTransaction { try $0.purgeHistory(count: 777, for: .seconds(600)) }
        #expect(part.count == 777)
        #expect(try count(pool) == 3_001 - DatabaseLimits.historyPurgeStep - 777)
        part = try pool.writeWithoutTransaction { try $0.purgeHistory(count: 100_000, for: .seconds(600)) }
        #expect(try count(pool) == 1)
        part = try pool.writeWithoutTransaction { try $0.purgeHistory(count: 100_000, for: .seconds(600)) }
        #expect(part.count == 0)
        #expect(try pool.read { try $0.oldestHistoryToken() != $0.historyToken() })
    }

    // Story: a limit of 100 changes kept 2,000, because each connection purged after 5,000.
    @Test("a small limit is exceeded by as many changes as it allows, not by thousands")
    func smallLimit() throws {
        let pool = try recorded(10)
        try pool.write { try $0.setHistoryLimits(HistoryLimits(count: 100)) }
        for id in 11...2_000 {
            try insert(id...id, pool)
            if id % 97 == 0 { #expect(try count(pool) <= 201) }
        }
        #expect(try count(pool) <= 201)
        // A limit that is raised later is kept.
        try pool.write { try $0.setHistoryLimits(HistoryLimits(count: 1_000)) }
        for id in 2_001...3_500 { try insert(id...id, pool) }
        #expect(try (1_000...2_001).contains(count(pool)))
    }

    @Test("between the parts others write, and what they record meanwhile is kept in order")
    func betweenParts() throws {
        let pool = try recorded(2_500)
        let other = try file.pool()
        let start = try pool.read { try $0.historyToken() }
        try pool.write { try $0.setHistoryLimits(HistoryLimits(count: 100)) }
        var parts = 0
        while try pool.writeWithoutTransaction({ try $0.purgeHistory(count: 500, for: .seconds(600)).count }) > 0 {
            parts += 1
            // Each row that is recorded makes another one that may be purged.
            if parts > 6 { break }
            try insert((9_000 + parts)...(9_000 + parts), other)
        }
        #expect(parts == 7)
        let later = try pool.history(since: start).transactions.flatMap(\.changes).compactMap(\.rowID)
        #expect(later == (1...6).map { Int64(9_000 + $0) })
    }

    @Test("a reader just after the last purged change continues, and one just before it has expired")
    func readers() throws {
        let pool = try recorded(1_000)
        for id in 2_000...2_020 { try insert(id...id, pool) }
        try pool.writeWithoutTransaction { db in
            try db.setHistoryLimits(HistoryLimits(count: 10))
            try db.registerHistoryReader("last", at: db.historyToken(beforeLast: 10))
            try db.registerHistoryReader("lost", at: db.historyToken(beforeLast: 11))
        }
        let kept = try pool.read { try $0.historyToken(beforeLast: 10) }
        try pool.purgeHistory()
        #expect(try count(pool) == 10)
        #expect(try pool.read { try $0.historyReaders() }.map(\.isExpired) == [false, true])
        #expect(try pool.history(since: kept).transactions.flatMap(\.changes).count == 10)
        #expect(try pool.read { try $0.historyToken(ofReader: "last") } == kept)
    }

    @Test("where parts are small, the next one is due before as many changes were recorded as this one has purged")
    func pace() throws {
        let pool = try recorded(100)
        pool.writeWithoutTransaction { $0.hooks.history.purgeCount = 100 }
        try insert(10_000...(10_000 + DatabaseLimits.historyPurgeInterval), pool)
        let before = try count(pool)
        try insert(20_000...20_050, pool)
        #expect(try count(pool) < before)
    }
}
