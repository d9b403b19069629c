import CipherDatabase
import Foundation
import TestKit
import Testing

/// Random programs that ask for cached statements, keep cursors open and change the schema, against a model: a cached
/// statement is free to run, belongs to its very text, and reads what a statement compiled for the purpose reads.
@Suite struct StatementCacheTests {
    private enum Step {
        /// Runs the cached statement of a text to its end.
        case fetch(Int)
        /// Begins to read the rows of the cached statement of a text, and keeps the cursor.
        case open(Int)
        /// Reads on in a cursor.
        case advance(Int)
        /// Lets go of a cursor.
        case drop(Int)
        case insert(Int)
        case addColumn
        case clear
    }

    private let seed = Seed()

    private static let sqls = [
        "SELECT * FROM t ORDER BY id", "SELECT * FROM t ORDER BY id ", "SELECT id FROM t WHERE id > 1 ORDER BY id",
        // Equal as Swift's strings, not as bytes: one has the letter composed, the other in two parts.
        "SELECT '\u{E9}' AS x FROM t ORDER BY id", "SELECT 'e\u{301}' AS x FROM t ORDER BY id",
    ]

    private static func step(_ numbers: inout RandomNumbers) -> Step {
        let number = Int.random(in: 0..<100, using: &numbers)
        return switch Int.random(in: 0..<20, using: &numbers) {
        case 0..<6: .fetch(number % sqls.count)
        case 6..<10: .open(number % sqls.count)
        case 10..<15: .advance(number)
        case 15..<17: .drop(number)
        case 17..<19: .insert(number)
        default: number.isMultiple(of: 4) ? .addColumn : .clear
        }
    }

    /// A cursor, and what the model expects of it.
    private struct Open {
        let statement: Statement
        let cursor: RowCursor
        var expected: ArraySlice<[DatabaseValue]>
    }

    private static func rows(_ db: Database, _ sql: String) throws -> [[DatabaseValue]] {
        try Row.fetchAll(db.makeStatement(sql: sql)).map(\.databaseValues)
    }

    private struct Program {
        /// Seed and case, for messages.
        let name: Comment
        var open: [Open] = []
        var columns = 0

        mutating func run(_ step: Step, on db: Database) throws {
            switch step {
            case .fetch(let index):
                let statement = try db.cachedStatement(sql: sqls[index])
                #expect(statement.sql.utf8.elementsEqual(sqls[index].utf8.reversed().drop { $0 == 32 }.reversed()))
                #expect(
                    !open.contains { $0.statement === statement }, name)
                #expect(try Row.fetchAll(statement).map(\.databaseValues) == rows(db, sqls[index]), name)
            case .open(let index):
                let statement = try db.cachedStatement(sql: sqls[index])
                #expect(
                    !open.contains { $0.statement === statement }, name)
                let expected = try rows(db, sqls[index])
                let cursor = try Row.fetchCursor(statement)
                open.append(Open(statement: statement, cursor: cursor, expected: expected[...]))
                // Until the first row, the cursor's statement is not in the middle of anything.
                try advance(open.count - 1)
            case .advance(let number): if !open.isEmpty { try advance(number % open.count) }
            case .drop(let number): if !open.isEmpty { open.remove(at: number % open.count) }
            case .insert(let number):
                // SQLite may or may not show the writes beside open cursors.
                open.removeAll()
                try db.execute(sql: "INSERT INTO t(a) VALUES (?)", arguments: [number])
            case .addColumn:
                open.removeAll()
                columns += 1
                try db.execute(sql: "ALTER TABLE t ADD COLUMN c\(columns) DEFAULT \(columns)")
            case .clear: db.clearSchemaCache()
            }
        }

        private mutating func advance(_ index: Int) throws {
            let row = try open[index].cursor.next()
            #expect(row?.databaseValues == open[index].expected.popFirst(), name)
            if row == nil { open.remove(at: index) }
        }

        private var sqls: [String] { StatementCacheTests.sqls }
        private func rows(_ db: Database, _ sql: String) throws -> [[DatabaseValue]] {
            try StatementCacheTests.rows(db, sql)
        }
    }

    @Test("cached statements are free, of their own text and up to date, whatever happens between their uses")
    func againstModel() throws {
        for index in 0..<60 {
            var numbers = seed.numbers(index)
            let steps = (0..<80).map { _ in Self.step(&numbers) }
            let queue = DatabaseQueue()
            try queue.inDatabase { db in
                try db.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t(a) VALUES (1), (2), (3)")
                var program = Program(name: "\(seed), case \(index)")
                for step in steps {
                    do {
                        try program.run(step, on: db)
                    } catch {
                        Issue.record("\(seed), case \(index): \(step) threw \(error)")
                        return
                    }
                }
            }
        }
    }

    @Test("a cached statement is the same object as long as it is free, for more texts than the cache keeps")
    func identity() throws {
        try DatabaseQueue().inDatabase { db in
            let first = try db.cachedStatement(sql: "SELECT 1")
            #expect(try db.cachedStatement(sql: "SELECT 1") === first)
            for number in 0..<1200 {
                #expect(try Int.fetchOne(db.cachedStatement(sql: "SELECT \(number)")) == number)
            }
            #expect(try Int.fetchOne(first) == 1)
            #expect(try Int.fetchOne(db.cachedStatement(sql: "SELECT 1")) == 1)
        }
    }
}
