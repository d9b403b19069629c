import CipherDatabase
import CipherRecords
import Testing

/// A long list of values is one parameter, in JSON. It finds the rows that a short one finds.
@Suite struct LongListTests {
    private static let types = ["TEXT", "INTEGER", "REAL", "NUMERIC", "BLOB", ""]
    /// One value in several types and spellings.
    private static let values: [DatabaseValue] = [
        5.databaseValue, 5.0.databaseValue, "5".databaseValue, "5.0".databaseValue, "05".databaseValue,
    ]

    @Test("values are converted to the type of the column", arguments: types)
    func conversion(_ type: String) throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (stored \(type)); CREATE INDEX i ON t (stored)")
            for value in Self.values { try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [value]) }
            let stored = Column("stored")
            for value in Self.values {
                let short = [value, "-".databaseValue]
                // No other value is equal to one that is stored, whatever it is converted to.
                let long = [value] + (1...100).map { "- \($0)".databaseValue }
                for expression in [stored.sqlExpression, stored.collating(.nocase).sqlExpression, stored ?? 0] {
                    let found = try Table("t").filter(long.contains(expression)).fetchCount(db)
                    let wanted = try Table("t").filter(short.contains(expression)).fetchCount(db)
                    #expect(found == wanted, "\(type) \(value)")
                }
            }
        }
    }
}
