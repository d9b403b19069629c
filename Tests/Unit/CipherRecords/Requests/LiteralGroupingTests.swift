import CipherDatabase
import CipherRecords
import Testing

/// Expressions in SQL literals.
@Suite struct LiteralGroupingTests {
    private static let (a, b) = (Column("a"), Column("b"))

    private func value(_ sql: SQL) throws -> Int? {
        try DatabaseQueue().read { db in
            let literal: SQL = "WITH t (a, b) AS (VALUES (2, 5)) SELECT \(sql) FROM t"
            let direct = try SQLRequest<Int?>(literal: literal).fetchOne(db)
            // The query interface writes the same.
            let table = CommonTableExpression<Row>(named: "t", sql: "SELECT 2 AS a, 5 AS b")
            let request = table.all().with(table).select(sql)
            #expect(try Row.fetchOne(db, request)?[0] == direct ?? nil)
            return direct ?? nil
        }
    }

    // Story: `"DELETE FROM m WHERE \(mine) AND tenant = 5"`, where `mine` is an OR, deleted rows of other tenants.
    @Test("operators beside an expression take all of it")
    func operators() throws {
        let (a, b) = (Self.a, Self.b)
        #expect(try value("\(a == 2 || b == 2) AND 0") == 0)
        #expect(try value("0 AND \(b == 2 || a == 2)") == 0)
        #expect(try value("NOT \(a == 2 || b == 5)") == 0)
        #expect(try value("\(a + b) * 2") == 14)
        #expect(try value("2 * \(a + b)") == 14)
        #expect(try value("10 - \(b - a)") == 7)
        #expect(try value("- \(a + b)") == -7)
        #expect(try value("\(a + b)*\(b - a)") == 21)
        #expect(try value("CASE WHEN \(a == 3 || b == 5) AND 0 THEN 1 ELSE 2 END") == 2)
        #expect(try value("\(SQL("\(a + b)")) * 2") == 14)
        #expect(try value(SQL("\(a + b)") + " * 2") == 14)
        #expect(try value(["\(a + b)", "2"].joined(separator: " * ")) == 14)
        #expect(try value("\(a + b) -- sum\n * 2") == 14)
        #expect(try value("\(a + b) /* sum */ * 2") == 14)
    }

    @Test("in other places the text has no parentheses that the program did not write")
    func texts() throws {
        let (a, b) = (Self.a, Self.b)
        func text(_ literal: SQL) throws -> String { try DatabaseQueue().read { try literal.build($0).sql } }
        #expect(
            try text("SELECT \(a + b), \(a == b) AS c FROM t WHERE \(a == 1) GROUP BY \(a + b) HAVING \(a == 2)")
                == #"SELECT "a" + "b", "a" = "b" AS c FROM t WHERE "a" = ? GROUP BY "a" + "b" HAVING "a" = ?"#)
        #expect(try text("\(a + b)") == #""a" + "b""#)
        #expect(try text("(\(a + b))") == #"("a" + "b")"#)
        #expect(try text("\(a) AND \(max(a, b)) + 1") == #""a" AND MAX("a", "b") + 1"#)
        #expect(
            try text("UPDATE t SET c = \(a + b) WHERE \(a == b) ORDER BY \((a + b).desc) LIMIT 1")
                == #"UPDATE t SET c = ("a" + "b") WHERE "a" = "b" ORDER BY "a" + "b" DESC LIMIT 1"#)
        // A collation is that of the comparison, and an escape character that of its LIKE.
        #expect(try text("WHERE \(a == b) COLLATE NOCASE") == #"WHERE "a" = "b" COLLATE NOCASE"#)
        #expect(try text("WHERE \(a.like("x")) ESCAPE '!'") == #"WHERE "a" LIKE ? ESCAPE '!'"#)
        #expect(try text("\(a == b || a == 1) AND \(b == 2)") == #"(("a" = "b") OR ("a" = ?)) AND ("b" = ?)"#)
        #expect(try text("\(a == b) OR \(b == 2 && a > 1)") == #""a" = "b" OR ("b" = ?) AND ("a" > ?)"#)
        #expect(try text("\(a.collating(.nocase)) = 'x' OR t.\(SQL("b").sqlExpression)").hasSuffix("OR t.b"))
    }

    // Story: `SQL("s = 'a' OR id = 4").sqlExpression` lost its grouping, and `s == "a" || id == 4` did not.
    @Test("an expression of SQL text is grouped like one of operators")
    func expressionsOfText() throws {
        func part(_ sql: SQL) -> SQLExpression { sql.sqlExpression }
        #expect(try value("\(part("a = 2 OR b = 2")) AND 0") == 0)
        #expect(try value("0 AND \(part("b = 2 OR a = \(2)"))") == 0)
        #expect(try value("NOT \(part("a = 2 OR b = 5"))") == 0)
        #expect(try value("2 * \(part("a + b"))") == 14)
        #expect(try value("10 - \(part("b - \(Self.a)")) * 2") == 4)
        #expect(try value("\(part("\(Self.a == 2 || Self.b == 2)")) AND 0") == 0)
        #expect(try value("CASE WHEN \(part("a = 3 OR b = 5")) AND 0 THEN 1 ELSE 2 END") == 2)
    }

    @Test("SQL text that may be no expression has no parentheses that the program did not write")
    func partsOfText() throws {
        func text(_ literal: SQL) throws -> String { try DatabaseQueue().read { try literal.build($0).sql } }
        func part(_ sql: SQL) -> SQLExpression { sql.sqlExpression }
        let unchanged: [(SQL, String)] = [
            ("a = t.\(part("b = 1"))", "a = t.b = 1"), ("a BETWEEN \(part("1 AND 2"))", "a BETWEEN 1 AND 2"),
            ("\(part("a BETWEEN 1")) AND 2", "a BETWEEN 1 AND 2"), ("a \(part("NOT NULL")) AND b", "a NOT NULL AND b"),
            ("a IS \(part("NOT 5"))", "a IS NOT 5"), ("a IN \(part("(1, 2)")) AND b", "a IN (1, 2) AND b"),
            ("\(part("a LIKE 'x'")) ESCAPE '!'", "a LIKE 'x' ESCAPE '!'"),
            ("\(part("a = b")) COLLATE x", "a = b COLLATE x"),
            ("PRAGMA p = \(part("-1"))", "PRAGMA p = -1"), ("SET \(part("a = 1")) WHERE b", "SET a = 1 WHERE b"),
            ("SELECT * \(part("FROM t WHERE a = 1")) AND b", "SELECT * FROM t WHERE a = 1 AND b"),
            ("SET a = \(part("b + 1, c = 2"))", "SET a = b + 1, c = 2"), ("\(part("a = 1 AND")) b", "a = 1 AND b"),
            ("\(part("a + b -- sum")) \n* 2", "a + b -- sum \n* 2"), ("\(part("max(a, b)")) + 1", "max(a, b) + 1"),
            ("\(part("(a + b)")) * 2", "(a + b) * 2"),
            (
                "\(part("CASE WHEN a = 1 THEN 2 END")) + 1",
                "CASE WHEN a = 1 THEN 2 END + 1"
            ),
            ("ORDER BY \(part("a + b DESC"))", "ORDER BY a + b DESC"),
            ("WHERE \(part("a = 1 OR b"))", "WHERE a = 1 OR b"),
        ]
        for (literal, expected) in unchanged { #expect(try text(literal) == expected) }
    }

    @Test("a deletion with a literal keeps the rows that it does not name")
    func deletion() throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(sql: "CREATE TABLE m (a, tenant); INSERT INTO m VALUES (1, 5), (1, 6), (NULL, 6), (2, 5)")
            let mine = Column("a") == 1 || Column("a") == nil
            try db.execute(literal: "DELETE FROM m WHERE \(mine) AND tenant = \(5)")
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM m") == 3)
            #expect(try Table("m").filter(literal: "\(mine) AND tenant = \(6)").fetchCount(db) == 2)
            #expect(try Table("m").filter(SQL("\(mine) AND tenant = \(6)")).deleteAll(db) == 2)
        }
    }
}
