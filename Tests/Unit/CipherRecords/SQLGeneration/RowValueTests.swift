import CipherDatabase
import CipherRecords
import Testing

/// Tuples and arrays of columns, which Swift compares too; and mixed values in JSON and in SQL literals.
@Suite struct RowValueTests {
    private struct Plain: TableRecord {
        static let databaseTableName = "t"
        enum Columns { static let (a, b, c) = (Column("a"), Column("b"), Column("c")) }
    }

    private struct Cases: TableRecord {
        static let databaseTableName = "t"
        enum Columns: String, ColumnExpression { case a, b, c }
    }

    private func rows<T>(_ request: QueryInterfaceRequest<T>) throws -> [Int] {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c);
                    INSERT INTO t (a, b, c) VALUES (1, 1, 1), (1, 1, 2), (1, 2, 1), (1, NULL, NULL), (1, NULL, 3);
                    """)
            return try Int.fetchAll(db, request.select(Column("id")).order(Column("id")))
        }
    }

    // Story: `.filter { ($0.a, $0.b) != ($0.b, $0.c) && $0.a == 1 }.deleteAll(db)` deleted every row with a = 1.
    @Test("tuples of columns are row values of SQL")
    func tuples() throws {
        #expect(try rows(Plain.filter { ($0.a, $0.b) == ($0.b, $0.c) && $0.a == 1 }) == [1])
        #expect(try rows(Plain.filter { ($0.a, $0.b) != ($0.b, $0.c) && $0.a == 1 }) == [2, 3])
        #expect(try rows(Cases.filter { $0.a == 1 && ($0.a, $0.b) == ($0.b, $0.c) }) == [1])
        #expect(try rows(Cases.filter { ($0.a, $0.b) != ($0.b, $0.c) }) == [2, 3])
        #expect(try rows(Plain.filter { !(($0.a, $0.b) == ($0.b, $0.c)) }) == [2, 3])
        #expect(try rows(Cases.filter { ($0.a, $0.b, $0.c) == ($0.b, $0.c, $0.a) || $0.c == 3 }) == [1, 5])
        #expect(try rows(Cases.filter { ($0.a, $0.b, $0.c) != ($0.b, $0.c, $0.a) && $0.c == 2 }) == [2])
        #expect(try rows(Plain.filter { ($0.a, $0.b, $0.c, $0.a) == ($0.a, $0.b, $0.c, $0.a) }) == [1, 2, 3])
        #expect(try rows(Plain.filter { ($0.a, $0.b, $0.c, $0.a) != ($0.a, $0.b, $0.c, $0.b) && $0.b == 2 }) == [3])
        let (first, second) = ((Column("a"), Column("b")), (Column("b"), Column("c")))
        #expect(try rows(Plain.filter(first == second && Column("a") == 1)) == [1])
    }

    @Test("so are arrays, and the operator of patterns is a comparison")
    func arrays() throws {
        #expect(try rows(Plain.filter { [$0.a, $0.b] == [$0.b, $0.c] && $0.a == 1 }) == [1])
        #expect(try rows(Cases.filter { [$0.a, $0.b] != [$0.b, $0.c] && $0.a == 1 }) == [2, 3])
        #expect(try rows(Cases.filter { [$0.a] == [$0.c] }) == [1, 3])
        #expect(try rows(Cases.filter { $0.a ~= $0.b && $0.a == 1 }) == [1, 2])
        #expect(try rows(Plain.filter { $0.a ~= $0.b && $0.a == 1 }) == [1, 2])
        #expect(throws: DatabaseError.self) { try rows(Plain.filter { [$0.a] == [$0.b, $0.c] }) }
    }

    @Test("Swift's own comparisons are left where a Bool is wanted")
    func bools() {
        let columns = [Column("a"), Column("b")]
        let isSame: Bool = columns == [Column("a"), Column("b")]
        #expect(isSame)
        if (Column("a"), Column("b")) == (Column("b"), Column("a")) { Issue.record() }
        switch Column("a") {
        case Column("a"): break
        default: Issue.record()
        }
        #expect((1, 2) == (1, 2))
    }

    @Test("JSON takes values of different types, as its documentation shows")
    func json() throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(sql: #"CREATE TABLE t (n, j); INSERT INTO t VALUES (5, '{"a":1}')"#)
            let (n, j) = (Column("n"), JSONColumn("j"))
            let expressions: [(SQLExpression, String)] = [
                (Database.jsonObject(["name": n, "address": j]), #"{"address":{"a":1},"name":5}"#),
                (Database.jsonObject(["name": n, "total": n * 2]), #"{"name":5,"total":10}"#),
                (Database.jsonObject(["name": n, "one": 1, "text": "x"]), #"{"name":5,"one":1,"text":"x"}"#),
                (Database.jsonObject(["is": n == n]), #"{"is":1}"#),
                (Database.jsonArray([n, n * 2]), "[5,10]"), (Database.jsonArray([n, j, 1]), #"[5,{"a":1},1]"#),
                (Database.jsonArray([1, 2]), "[1,2]"),
                (Database.jsonInsert(j, ["$.b": n, "$.c": j]), #"{"a":1,"b":5,"c":{"a":1}}"#),
                (Database.jsonReplace(j, ["$.a": n, "$.c": j]), #"{"a":5}"#),
                (Database.jsonSet(j, ["$.a": n * 2, "$.c": j]), #"{"a":10,"c":{"a":1}}"#),
                (Database.jsonSet(j, ["$.a": n]), #"{"a":5}"#),
            ]
            for (expression, text) in expressions {
                #expect(try String.fetchOne(db, Table("t").select(expression)) == text)
            }
            let members: [String: Column] = ["n": n]
            #expect(try String.fetchOne(db, Table("t").select(Database.jsonObject(members))) == #"{"n":5}"#)
        }
    }

    @Test("an SQL literal takes stored values as a list")
    func lists() throws {
        let values: [DatabaseValue] = [1.databaseValue, "x".databaseValue]
        let optionals: [DatabaseValue?] = [1.databaseValue, nil]
        try DatabaseQueue().read { (db: Database) throws -> Void in
            let queries: [(SQL, Int)] = [
                ("SELECT 1 IN \(values)", 1), ("SELECT 'x' IN \(Set(values))", 1), ("SELECT 2 IN \(values)", 0),
                ("SELECT 1 IN \(optionals)", 1), ("SELECT 1 IN \([DatabaseValue]())", 0),
            ]
            for (query, found) in queries {
                #expect(try SQLRequest<Int>(literal: query).fetchOne(db) == found)
            }
        }
    }
}
