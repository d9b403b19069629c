import CipherDatabase
import CipherRecords
import Testing

/// Aggregates of the program, and aggregates in SQL text.
@Suite struct OwnAggregateTests {
    private struct Longest: DatabaseAggregate {
        private var longest = 0
        mutating func step(_ values: [DatabaseValue]) { longest = max(longest, Int.fromDatabaseValue(values[0]) ?? 0) }
        func finalize() -> (any DatabaseValueConvertible)? { longest }
    }

    private static let longest = DatabaseFunction("longest", argumentCount: 1, aggregate: Longest.self)

    private func withTable<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            db.add(function: Self.longest)
            try db.execute(sql: "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2), (2)")
            return try body(db)
        }
    }

    // Story: the count was that of the table's rows, where one row is fetched.
    @Test("a request of an aggregate has one row, by whichever means the aggregate is named")
    func counts() throws {
        let a = Column("a")
        let selections: [any SQLSelectable] = [
            Self.longest(a), Self.longest(a) + 1, Self.longest(a).forKey("best"), SQL("max(a)").sqlExpression,
            SQL("max(a)") + 1, SQL("max(a)") ?? 0, SQL("\(max(a)) + 1").sqlExpression, abs(SQL("max(a)")),
            SQL("max(a)").forKey("best"), max(a),
        ]
        try withTable { (db: Database) throws -> Void in
            for (index, selection) in selections.enumerated() {
                let requests = [
                    Table("t").select(selection), Table("t").none().select(selection),
                    Table("t").select(selection).distinct(), Table("t").select([selection, Self.longest(a)]),
                ]
                for request in requests {
                    #expect(try Row.fetchAll(db, request).count == 1, "\(index)")
                    #expect(try request.fetchCount(db) == 1, "\(index)")
                    #expect(try !request.isEmpty(db))
                }
            }
            let rows = Table("t").select(SQL("a + 1").sqlExpression)
            #expect(try rows.fetchCount(db) == 3)
            #expect(try rows.distinct().fetchCount(db) == 2)
        }
    }

    @Test("it can be chosen by a condition on the aggregate")
    func having() throws {
        let a = Column("a")
        try withTable { (db: Database) throws -> Void in
            for selection in [Self.longest(a), SQL("max(a)").sqlExpression] {
                #expect(try Table("t").select(selection).having(Self.longest(a) > 1).fetchCount(db) == 1)
                #expect(try Table("t").select(selection).having(Self.longest(a) > 100).fetchCount(db) == 0)
            }
            #expect(throws: DatabaseError.self) {
                try Table("t").select(Column("a")).having(Self.longest(a) > 1).fetchCount(db)
            }
        }
    }
}
