import CipherDatabase
import Foundation
import Testing

@testable import CipherRecords

@Suite("Requests of one shape have one statement")
struct StatementReuseTests {
    private let score = Column("score")
    private let name = Column("name")

    /// How many requests found their SQL, and how many did not.
    private func statistics(_ db: Database) throws -> RequestStatistics { try db.requestStatistics() }

    private func compiled(_ queue: DatabaseQueue, _ body: (Database) throws -> Void) throws -> Set<String> {
        try queue.write { db in
            var texts: Set<String> = []
            db.trace(options: .statement) { event in
                if case .statement(let statement) = event { texts.insert(statement.sql) }
            }
            defer { db.trace(options: .statement) }
            try body(db)
            return texts
        }
    }

    @Test("10,000 requests with different values are generated and compiled once")
    func values() throws {
        let queue = try Schema.queue()
        let texts = try compiled(queue) { db in
            try db.execute(sql: "INSERT INTO player (id, name, score) VALUES (1, 'a', 5), (2, 'b', 7)")
            for index in 0..<10_000 {
                let request = Player.filter { $0.score > index % 10 }.filter(name != "x\(index)").order { $0.name }
                    .select(name, as: String.self)
                let expected = [(5, "a"), (7, "b")].filter { $0.0 > index % 10 }.map(\.1)
                let found = try request.fetchAll(db)
                if found != expected { Issue.record("\(index): \(found)") }
            }
            let statistics = try self.statistics(db)
            #expect(statistics.generated == 1)
            #expect(statistics.found == 9_999)
        }
        let queries = texts.filter { $0.hasPrefix("SELECT") }
        #expect(queries == [#"SELECT "name" FROM "player" WHERE ("score" > ?) AND ("name" <> ?) ORDER BY "name""#])
    }

    @Test("NULL is a part of the text, so its requests are another shape")
    func nulls() throws {
        try Schema.queue().write { db in
            for value in [1, nil, 2, nil, 3] { _ = try Player.filter(score == value).fetchCount(db) }
            #expect(try statistics(db).generated == 2)
            #expect(try statistics(db).found == 3)
        }
    }

    @Test("lists of any length have few statements: short ones one each, all long ones together")
    func lists() throws {
        try Schema.queue().write { db in
            for count in Array(1...100) + stride(from: 200, through: 2_000, by: 100) {
                _ = try Player.filter((0..<count).contains(score)).fetchCount(db)
                _ = try Player.filter(Array(0..<count).contains(score)).fetchCount(db)
            }
            #expect(try statistics(db).generated == 1 + ListedValues.mostParameters + 1)
        }
    }

    @Test("requests whose aliases have no names find the statement of the first, and two aliases stay apart")
    func aliases() throws {
        try Schema.queue().write { db in
            try db.execute(sql: "INSERT INTO player (id, name, score) VALUES (1, 'a', 5), (2, 'b', 7)")
            for index in 0..<600 {
                let (outer, inner) = (TableAlias(), TableAlias())
                let better = Player.aliased(inner).filter(inner[score] > outer[score])
                let best = Player.aliased(outer).filter(!better.exists()).filter(outer[score] > index % 2)
                    .select(outer[name], as: String.self)
                let found = try best.fetchAll(db)
                if found != ["b"] { Issue.record("\(index): \(found)") }
            }
            #expect(try statistics(db).generated == 1)
            #expect(try statistics(db).found == 599)
        }
    }

    @Test("a closure that needs a connection runs each time, and its requests share statements")
    func closures() throws {
        try Schema.queue().write { db in
            try db.execute(sql: "INSERT INTO player (id, score) VALUES (1, 5), (2, 7)")
            let limit = Box()
            let request = Player.all().filterWhenConnected { _ in Column("score") > limit.next() }
            let counts = try (0..<8).map { _ in try request.fetchCount(db) }
            #expect(counts == [2, 2, 2, 2, 1, 1, 0, 0])
            #expect(try statistics(db).generated == 1)
        }
    }

    /// Counts from 1.
    // Safe because: one thread uses it.
    private final class Box: @unchecked Sendable {
        private var value = 0
        func next() -> Int {
            value += 1
            return value
        }
    }

    // MARK: Long lists

    @Test("100,000 keys in one filter")
    func keys() throws {
        let queue = try Schema.queue()
        try queue.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                    INSERT INTO player (id, name, email, score) SELECT i, 'n' || i, 'e' || i, i % 7 FROM n;
                    INSERT INTO citizenship SELECT id, 'c' || (id % 3), 0 FROM player;
                    INSERT INTO country SELECT name, NULL FROM player;
                    """)
            let numbers = Array(901...100_900)
            #expect(try Player.filter(keys: numbers).fetchCount(db) == 100)
            #expect(try Player.filter(numbers.contains(Column("id"))).fetchCount(db) == 100)
            #expect(try Player.filter(!numbers.contains(Column("id"))).fetchCount(db) == 900)
            #expect(try Country.filter(keys: numbers.map { "n\($0)" }).fetchCount(db) == 100)
            #expect(try Player.filter(keys: numbers.map { ["email": "e\($0)"] }).fetchCount(db) == 100)
            let pairs: [[String: (any DatabaseValueConvertible)?]] = numbers.map {
                ["citizenId": $0, "countryCode": "c\($0 % 3)"]
            }
            #expect(try Citizenship.filter(keys: pairs).fetchCount(db) == 100)
            let mixed = pairs + [["citizenId": 1, "countryCode": "c1"], ["citizenId": 2, "countryCode": nil]]
            #expect(try Citizenship.filter(keys: mixed).fetchCount(db) == 101)
            #expect(try Player.filter(keys: numbers).deleteAll(db) == 100)
            #expect(try Player.all().fetchCount(db) == 900)
        }
    }

    @Test("values of all kinds in a long list are found, each exactly")
    func kinds() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE thing (id INTEGER PRIMARY KEY, value)")
            var generator = SystemRandomNumberGenerator()
            var values: [DatabaseValue] = (0..<3_000).map { _ in
                (Double.random(in: 0..<1, using: &generator) * pow(10, Double.random(in: -20...20))).databaseValue
            }
            values += [0.1, -0.0, 5.0, 1e30, -2.459373598181539, .infinity].map(\.databaseValue)
            values += ["", "it's", "a\"b\\c", "a\u{0}b", "\u{1f}", "ä🙂", "5", "null"].map(\.databaseValue)
            values += [Int64.min, Int64.max, 0, 1 << 53 + 1].map(\.databaseValue)
            values += [Data(), Data([0, 255]), Data("5".utf8)].map(\.databaseValue)
            for value in values { try db.execute(sql: "INSERT INTO thing (value) VALUES (?)", arguments: [value]) }
            try db.execute(sql: "INSERT INTO thing (value) VALUES (NULL), ('other'), (12345)")
            let things = Table("thing")
            #expect(try things.filter(values.contains(Column("value"))).fetchCount(db) == values.count)
            #expect(try things.filter(!values.contains(Column("value"))).fetchCount(db) == 2)
            #expect(try things.filter((values + [.null]).contains(Column("value"))).fetchCount(db) == values.count)
            #expect(try things.filter(!(values + [.null]).contains(Column("value"))).fetchCount(db) == 0)
        }
    }

    @Test("numbers that no quotient of powers of two says stay parameters")
    func extremes() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE thing (value REAL); INSERT INTO thing VALUES (1e-300), (1e300), (5e-324)")
            let values = [1e-300, 1e300, Double.leastNonzeroMagnitude] + (0..<200).map { Double($0) * 1e-280 }
            #expect(try Table("thing").filter(values.contains(Column("value"))).fetchCount(db) == 3)
        }
    }
}
