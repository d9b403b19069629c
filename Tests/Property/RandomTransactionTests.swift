import CipherDatabase
import TestKit
import Testing

/// Random programs of transactions, savepoints and inserts leave the rows that a model of them leaves.
@Suite struct RandomTransactionTests {
    private struct Planned: Error {}

    /// The steps of a program; blocks hold the steps inside of them.
    private indirect enum Step {
        case insert(Int)
        /// An insert that SQLite refuses; the program goes on.
        case refusedInsert
        case savepoint([Step], End)

        enum End: CaseIterable { case commit, rollback, error }
    }

    private let seed = Seed()

    private static func steps(_ numbers: inout RandomNumbers, depth: Int) -> [Step] {
        (0..<Int.random(in: 0...5, using: &numbers)).map { _ in
            switch Int.random(in: 0..<(depth > 0 ? 4 : 3), using: &numbers) {
            case 0, 1: .insert(Int.random(in: 0..<1000, using: &numbers))
            case 2: .refusedInsert
            default: .savepoint(steps(&numbers, depth: depth - 1), end(&numbers))
            }
        }
    }

    private static func end(_ numbers: inout RandomNumbers) -> Step.End {
        Step.End.allCases.randomElement(using: &numbers) ?? .commit
    }

    // MARK: The model

    private static func run(_ steps: [Step], on rows: [Int]) -> [Int] {
        steps.reduce(into: rows) { rows, step in
            switch step {
            case .insert(let value): rows.append(value)
            case .refusedInsert: break
            case .savepoint(let inner, .commit): rows = run(inner, on: rows)
            case .savepoint(_, .rollback), .savepoint(_, .error): break
            }
        }
    }

    // MARK: The database

    private static func run(_ steps: [Step], on db: Database) throws {
        for step in steps {
            switch step {
            case .insert(let value): try db.execute(sql: "INSERT INTO t(a) VALUES (?)", arguments: [value])
            case .refusedInsert:
                #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t(a) VALUES (NULL)") }
            case .savepoint(let inner, let end):
                do {
                    try db.inSavepoint { try finish(inner, end, on: db) }
                } catch is Planned {}
            }
        }
    }

    private static func finish(
        _ steps: [Step], _ end: Step.End, on db: Database
    ) throws -> Database.TransactionCompletion {
        try run(steps, on: db)
        switch end {
        case .commit: return .commit
        case .rollback: return .rollback
        case .error: throw Planned()
        }
    }

    @Test("random programs of transactions and savepoints leave what the model leaves, and no open transaction")
    func programs() throws {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a NOT NULL)") }
        var expected: [Int] = []
        for index in 0..<400 {
            var numbers = seed.numbers(index)
            let steps = Self.steps(&numbers, depth: 4)
            let end = Self.end(&numbers)
            do {
                switch Int.random(in: 0..<3, using: &numbers) {
                case 0: try queue.inTransaction { try Self.finish(steps, end, on: $0) }
                case 1: try queue.inDatabase { db in try db.inSavepoint { try Self.finish(steps, end, on: db) } }
                default:
                    try queue.write { db in
                        if try Self.finish(steps, end, on: db) == .rollback { throw Planned() }
                    }
                }
            } catch is Planned {}
            if end == .commit { expected = Self.run(steps, on: expected) }
            let rows = try queue.read { try Int.fetchAll($0, sql: "SELECT a FROM t ORDER BY id") }
            try #require(rows == expected, "\(seed), program \(index)")
        }
        #expect(!expected.isEmpty)
    }
}
