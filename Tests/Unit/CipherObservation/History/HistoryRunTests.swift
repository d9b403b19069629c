import CipherObservation
import Foundation
import Testing

@testable import CipherDatabase

/// Several changes of a table in one row of the history.
@Suite struct HistoryRunTests {
    private let file = TemporaryFile()

    private func pool(_ sql: String = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)") throws -> DatabasePool {
        let pool = try file.pool()
        try pool.write { db in
            try db.execute(sql: sql)
            try db.recordHistory(of: .tables(["t"]), columns: true, keeping: ["t": ["a"]])
        }
        return pool
    }

    private func write(_ pool: DatabasePool, _ body: (HistoryRuns) throws -> Void) throws {
        try pool.write { db in
            try db.writingOwnRows {
                let runs = try HistoryRuns(#require(try db.historyRecorder(of: "t")), db)
                try body(runs)
                try runs.flush()
            }
        }
    }

    private func entries(_ pool: DatabasePool, after number: Int64 = 1) throws -> [HistoryEntry] {
        try pool.read { try $0.historyEntries(after: number, limit: 10_000) }
    }

    @Test("values of every kind come back as they were, in keys and in what deletions keep")
    func values() throws {
        let pool = try pool("CREATE TABLE t (k, a, PRIMARY KEY (k))")
        let values: [ExactValue] = [
            .null, .integer(0), .integer(-1), .integer(.max), .integer(.min), .real(-0.0), .real(.infinity),
            .real(1e-300), .text([]), .text(Array("häß\0lich".utf8)[...]), .blob([]), .blob([0, 255, 127][...]),
        ]
        try write(pool) { runs in
            for value in values { try runs.add(.deleted, key: [value], kept: [value]) }
        }
        let found = try entries(pool)
        let expected: [DatabaseValue] = [
            .null, 0.databaseValue, (-1).databaseValue, Int64.max.databaseValue, Int64.min.databaseValue,
            (-0.0).databaseValue, Double.infinity.databaseValue, 1e-300.databaseValue, "".databaseValue,
            "häß\0lich".databaseValue, Data().databaseValue, Data([0, 255, 127]).databaseValue,
        ]
        #expect(found.map(\.key) == expected.map { [$0] })
        #expect(found.map { $0.former["a"] } == expected)
        #expect(found.map(\.number) == (2...13).map { $0 })
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_history") } == 2)
    }

    @Test("ranges of row ids are divided, also at the ends of the numbers")
    func ranges() throws {
        let pool = try pool()
        try write(pool) { runs in
            try runs.add(.updated, key: [.integer(3)], changed: [2])
            try runs.add(inserted: 1...1_500)
            try runs.add(inserted: (Int64.max - 1)...Int64.max)
            try runs.add(inserted: Int64.min...Int64.min)
        }
        let found = try entries(pool)
        #expect(found.map(\.rowID) == [3] + (1...1_500).map { $0 } + [.max - 1, .max, .min])
        #expect(found[0].columns == ["b"] && found[0].operation == .updated)
        #expect(found.dropFirst().allSatisfy { $0.operation == .inserted })
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_history") } == 3)
        // Numbers have no gaps, and each is found alone.
        for entry in [found[0], found[700], found[1_503]] {
            let alone = try pool.read { try $0.historyEntry(entry.number) }
            #expect(alone?.rowID == entry.rowID && alone?.fingerprint == entry.fingerprint)
        }
        #expect(try pool.read { try $0.historyEntry(found[1_503].number + 1) } == nil)
    }

    @Test("a reader that is registered inside a run goes on there, and a purge keeps the run until it is read")
    func readers() throws {
        let pool = try pool()
        let start = try pool.read { try $0.historyToken() }
        try write(pool) { try $0.add(inserted: 1...900) }
        try write(pool) { try $0.add(inserted: 901...5_000) }
        let page = try pool.history(since: start, limit: 500)
        try pool.write { try $0.registerHistoryReader("r", at: page.token) }
        try pool.write { try $0.setHistoryLimits(HistoryLimits(count: 1_000_000)) }
        try pool.purgeHistory()
        let token = try pool.read { try $0.historyToken(ofReader: "r") }
        let rest = try pool.history(since: token, limit: 10_000)
        #expect(rest.transactions.flatMap(\.changes).compactMap(\.rowID) == (501...5_000).map { $0 })
        try pool.write { try $0.acknowledgeHistory(upTo: rest.token, by: "r") }
        try pool.purgeHistory()
        #expect(try pool.read { try $0.historyStatus() }?.changeCount ?? 0 < 2_001)
        // A place in a purged run has expired.
        #expect(throws: HistoryError.self) { try pool.history(since: token) }
    }

    @Test("a deletion that is not sure is decided by a later run")
    func perhapsDeleted() throws {
        let pool = try pool()
        try pool.write { try $0.execute(sql: "INSERT INTO t (id) VALUES (1), (2)") }
        let number = try pool.read { try $0.lastHistoryNumber() }
        try write(pool) { runs in
            try runs.add(.perhapsDeleted, key: [.integer(1)], kept: [.null])
            try runs.add(.perhapsDeleted, key: [.integer(2)], kept: [.null])
        }
        try write(pool) { runs in
            try runs.add(.inserted, key: [.integer(1)])
            try runs.add(.updated, key: [.integer(2)], changed: [])
        }
        for isEnd in [true, false] {
            let found = try pool.read { db in
                try db.resolvingDeletions(in: db.historyEntries(after: number, limit: 2), isEnd: isEnd)
            }
            // At the end of the history, rows that are there were not changed.
            #expect(found.map(\.operation) == (isEnd ? [] : [.deleted]))
        }
    }

    @Test("bytes that are no run are damage, and never end the process")
    func damaged() throws {
        let definition = RecordedTable.Definition(
            key: ["id"], isRowID: true, columns: ["id", "a"], notesColumns: true, kept: ["a"])
        var run = HistoryRun()
        run.append(inserted: 5...9)
        run.append(.updated, key: [.integer(300)], columns: 3, kept: [])
        run.append(.deleted, key: [.text(Array("abc".utf8)[...])], columns: nil, kept: [.real(2.5)])
        #expect(HistoryRun.changes(run.bytes, count: 7, of: definition)?.count == 7)
        for count in [Int64.min, -1, 0, 6, 8, 1_001, .max] {
            #expect(HistoryRun.changes(run.bytes, count: count, of: definition) == nil)
        }
        for length in 0..<run.bytes.count {
            #expect(HistoryRun.changes(Array(run.bytes.prefix(length)), count: 7, of: definition) == nil)
        }
        var numbers = SeededGenerator(seed: 7)
        for _ in 0..<20_000 {
            var bytes = run.bytes
            for _ in 0...(numbers.next() % 3) {
                bytes[Int(numbers.next() % UInt64(bytes.count))] = UInt8(numbers.next() % 256)
            }
            let found = HistoryRun.changes(bytes, count: 7, of: definition)
            #expect(found == nil || found?.count == 7)
        }
    }
}
