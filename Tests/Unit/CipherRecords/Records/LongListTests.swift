import CipherDatabase
import CipherRecords
import Foundation
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

    /// A long list of blobs once needed `unhex`, which the SQLite of older SQLCipher 4 does not have.
    @Test("blobs and UUIDs are found without functions of newer SQLite", arguments: [1, 64, 65, 300])
    func blobs(_ count: Int) throws {
        let blobs = [Data()] + (0..<count).map { Data([UInt8($0 % 256), 0, UInt8($0 / 256)]) }
        let identifiers = (0..<count).map { _ in UUID() }
        try DatabaseQueue().write { db in
            try db.execute(
                sql: "CREATE TABLE t (blob BLOB, uuid BLOB PRIMARY KEY, n ANY); CREATE UNIQUE INDEX i ON t (blob, uuid)"
            )
            for (blob, identifier) in zip(blobs, identifiers) {
                try db.execute(sql: "INSERT INTO t VALUES (?, ?, 'a')", arguments: [blob, identifier])
            }
            try db.execute(sql: "INSERT INTO t VALUES (x'ff', x'01', 'a'), (NULL, x'02', 'a'), ('', x'03', x'61')")
            func count(_ request: QueryInterfaceRequest<Row>) throws -> Int {
                let sql = try request.makePreparedRequest(db).statement.sql
                #expect(!sql.lowercased().contains("unhex"))
                return try request.fetchCount(db)
            }
            let table = Table("t")
            #expect(try count(table.filter(blobs.contains(Column("blob")))) == identifiers.count)
            #expect(try count(table.filter(keys: identifiers)) == identifiers.count)
            #expect(try count(table.filter((identifiers + [UUID()]).contains(Column("uuid")))) == identifiers.count)
            let keys = zip(blobs, identifiers).map {
                ["blob": $0, "uuid": $1] as [String: (any DatabaseValueConvertible)?]
            }
            #expect(try count(table.filter(keys: keys)) == identifiers.count)
            let mixed = blobs.map(\.databaseValue) + ["".databaseValue, 1.5.databaseValue, 7.databaseValue]
            #expect(try count(table.filter(mixed.contains(Column("blob")))) == identifiers.count + 1)
        }
    }

    /// It was infinity in a long list, and NULL in a short one.
    @Test("a number that is none is NULL", arguments: [1, 100])
    func notANumber(_ count: Int) throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE t (n REAL, m REAL, UNIQUE (n, m))")
            for n in [Double.infinity, -Double.infinity, 1] {
                try db.execute(sql: "INSERT INTO t VALUES (?, ?)", arguments: [n, n])
            }
            func found(_ first: Double) throws -> Int {
                let list = [first] + (0..<count).map { Double($0) + 1_000 }
                let keys = list.map { ["n": $0, "m": $0] as [String: (any DatabaseValueConvertible)?] }
                let rows = try Table("t").filter(list.contains(Column("n"))).fetchCount(db)
                #expect(try Table("t").filter(keys: keys).fetchCount(db) == rows)
                return rows
            }
            #expect(try found(.nan) == 0)
            #expect(try found(.infinity) == 1)
            #expect(try found(-Double.infinity) == 1)
            #expect(try found(1) == 1)
        }
    }
}

/// Lists of numbers that no double stands for: a short list and a long one find the same rows.
@Suite struct LongNumberListTests {
    private static let types = ["TEXT", "INTEGER", "REAL", "NUMERIC", "BLOB", "", "INTEGER PRIMARY KEY", "REAL UNIQUE"]
    private static let numbers = [Int64(1) << 53, 1 << 53 + 1, -(1 << 53) - 1, .max, .min, .max - 1, 7]

    /// The first value, and others that no row has.
    private func list(_ value: DatabaseValue, _ count: Int) -> [DatabaseValue] {
        [value]
            + (1..<count).map { number in
                switch number % 3 {
                case 0: (1_000_000 + number).databaseValue
                case 1: "- \(number)".databaseValue
                default: (Double(number) + 0.25).databaseValue
                }
            }
    }

    // Story: 9007199254740993 found the double 9007199254740992 if the list had more than 64 values.
    @Test("a column is compared with them alike", arguments: types)
    func columns(_ type: String) throws {
        let spellings: [(Int64) -> DatabaseValue] = [
            { $0.databaseValue }, { "\($0)".databaseValue }, { Double($0).databaseValue }, { " \($0) ".databaseValue },
            { "\($0).0".databaseValue }, { "+\($0)".databaseValue },
        ]
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(sql: "CREATE TABLE t (x \(type))")
            for number in Self.numbers {
                for spelling in spellings {
                    try? db.execute(sql: "INSERT OR IGNORE INTO t VALUES (?)", arguments: [spelling(number)])
                }
            }
            let x = Column("x")
            for value in Self.numbers.flatMap({ number in spellings.map { $0(number) } }) {
                for expression in [x.sqlExpression, x ?? 0, cast(x, as: .real), cast(x, as: .text)] {
                    func found(_ count: Int) throws -> [Int] {
                        let values = list(value, count)
                        let request = Table("t").filter(values.contains(expression)).select(Column("rowid"))
                        // SQLite has a rowid neither in a list of the greatest double that is an integer nor outside of it.
                        if type != "INTEGER PRIMARY KEY" {
                            let others = try Table("t").filter(!values.contains(expression)).fetchCount(db)
                            #expect(try request.fetchCount(db) + others == Table("t").fetchCount(db))
                        }
                        return try Int.fetchAll(db, request.order(Column("rowid")))
                    }
                    let (short, long) = (try found(3), try found(100))
                    #expect(short == long, "\(type) \(value)")
                }
            }
        }
    }

    @Test("so are keys of one column and of several", arguments: ["REAL", "INTEGER", "NUMERIC", "TEXT", ""])
    func keys(_ type: String) throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(sql: "CREATE TABLE t (x \(type) PRIMARY KEY, y \(type), UNIQUE (x, y))")
            for number in Self.numbers {
                try db.execute(sql: "INSERT OR IGNORE INTO t VALUES (?, ?)", arguments: [number, number])
            }
            for number in Self.numbers {
                for value in [number.databaseValue, "\(number)".databaseValue] {
                    func found(_ count: Int) throws -> [Int] {
                        let values = list(value, count)
                        let pairs = values.map { ["x": $0, "y": $0] as [String: (any DatabaseValueConvertible)?] }
                        return [
                            try Table("t").filter(keys: values).fetchCount(db),
                            try Table("t").filter(keys: pairs).fetchCount(db),
                        ]
                    }
                    let (short, long) = (try found(3), try found(100))
                    #expect(short == long, "\(type) \(value)")
                }
            }
        }
    }

    @Test("a list of large keys of a table is searched by its index")
    func plan() throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL UNIQUE)")
            let numbers = (0..<100).map { Int64.max - $0 }
            for request in [Table("t").filter(keys: numbers), Table("t").filter(numbers.contains(Column("x")))] {
                let statement = try request.makePreparedRequest(db).statement
                let plan = try Row.fetchAll(
                    db, sql: "EXPLAIN QUERY PLAN \(statement.sql)", arguments: statement.arguments)
                #expect(plan.contains { ($0["detail"] as String).contains("SEARCH t") })
            }
        }
    }
}
