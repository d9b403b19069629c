import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

private let living = Mutex(0)

/// Joins texts, and counts how many of itself are alive.
private struct Joined: DatabaseAggregate {
    final class Life: Sendable {
        init() { living.withLock { $0 += 1 } }
        deinit { living.withLock { $0 -= 1 } }
    }
    let life = Life()
    var parts: [String] = []

    mutating func step(_ dbValues: [DatabaseValue]) throws {
        guard let part = String.fromDatabaseValue(dbValues[0]) else {
            throw DatabaseError(resultCode: .SQLITE_MISMATCH, message: "no text")
        }
        parts.append(part)
    }

    func finalize() throws -> (any DatabaseValueConvertible)? {
        if parts.contains("bad end") { throw DatabaseError(resultCode: .SQLITE_CONSTRAINT, message: "bad end") }
        return parts.isEmpty ? nil : parts.joined(separator: "+")
    }
}

@Suite(.serialized) struct AggregateTests {
    let queue = DatabaseQueue()

    init() throws {
        try queue.write { db in
            db.add(function: DatabaseFunction("joined", argumentCount: 1, aggregate: Joined.self))
            try db.execute(
                sql:
                    "CREATE TABLE t(g, a); INSERT INTO t VALUES (1, 'a'), (1, 'b'), (2, 'c'), (3, NULL), (4, 'bad end')"
            )
        }
    }

    private func fetch(_ condition: String) throws -> [String?] {
        try queue.read { try String?.fetchAll($0, sql: "SELECT joined(a) FROM t WHERE \(condition) GROUP BY g") }
    }

    @Test("an aggregate makes one value of each group")
    func groups() throws {
        #expect(try fetch("g < 3") == ["a+b", "c"])
        #expect(living.withLock { $0 } == 0)
    }

    @Test("an aggregate of no rows is finished without a step")
    func empty() throws {
        #expect(try queue.read { try Row.fetchOne($0, sql: "SELECT joined(a) FROM t WHERE 0") } == ["joined(a)": nil])
        #expect(living.withLock { $0 } == 0)
    }

    @Test("errors of a step and of the end fail the statement with their codes, and nothing of the aggregate is left")
    func errors() throws {
        let step = databaseError { try fetch("g = 3") }
        #expect(step?.resultCode == .SQLITE_MISMATCH)
        #expect(step?.message == "no text")
        let end = databaseError { try fetch("g = 4") }
        #expect(end?.resultCode == .SQLITE_CONSTRAINT)
        #expect(end?.message == "bad end")
        #expect(living.withLock { $0 } == 0)
        #expect(try fetch("g = 2") == ["c"])
    }

    @Test("an aggregation that is left in the middle is let go")
    func abandoned() throws {
        try queue.read { db in
            let cursor = try Row.fetchCursor(db, sql: "SELECT g, joined(a) FROM t WHERE g < 3 GROUP BY g")
            _ = try cursor.next()
        }
        #expect(living.withLock { $0 } == 0)
    }
}
