import CipherDatabase
import Testing

@testable import CipherRecords

/// An SQL literal takes a Bool as a value. So an operator of columns in a literal must never be Swift's: `\(a == b)` would
/// be the same for every row. See ``OperatorMatrixTests``.
@Suite("An operator of columns in an SQL literal is SQL")
struct OperatorLiteralTests {
    static let sections = [
        RequestSection("columns", item),
        RequestSection("JSON columns", jsonItem),
        RequestSection("an enum of columns", enumItem),
        RequestSection("coding keys", keyItem),
        RequestSection("an enum that is Comparable", plainItem),
        RequestSection("a column type that is Hashable", hashItem),
        RequestSection("expressions", expressionItem),
        RequestSection("aliases, aggregates and columns of any type", others),
    ]

    @Test("each operator, alone and in a longer text", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static func item(_ table: RequestTable) {
        typealias C = Item.Columns
        typealias T = Item
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func jsonItem(_ table: RequestTable) {
        typealias C = JSONItem.Columns
        typealias T = JSONItem
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func enumItem(_ table: RequestTable) {
        typealias C = EnumItem.Columns
        typealias T = EnumItem
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func keyItem(_ table: RequestTable) {
        typealias C = KeyItem.Columns
        typealias T = KeyItem
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func plainItem(_ table: RequestTable) {
        typealias C = PlainItem.Columns
        typealias T = PlainItem
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func hashItem(_ table: RequestTable) {
        typealias C = HashItem.Columns
        typealias T = HashItem
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func expressionItem(_ table: RequestTable) {
        typealias C = ExpressionItem.Columns
        typealias T = ExpressionItem
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(T.filter(literal: "\(C.a != C.b)"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\(C.a === C.b)"), #""a" IS "b""#)
        table.rows(T.filter(literal: "\(C.a !== C.b)"), #""a" IS NOT "b""#)
        table.rows(T.filter(literal: "\(C.a < C.b)"), #""a" < "b""#)
        table.rows(T.filter(literal: "\(C.a <= C.b)"), #""a" <= "b""#)
        table.rows(T.filter(literal: "\(C.a > C.b)"), #""a" > "b""#)
        table.rows(T.filter(literal: "\(C.a >= C.b)"), #""a" >= "b""#)
        table.rows(T.filter(literal: "\(C.a && C.b)"), #""a" AND "b""#)
        table.rows(T.filter(literal: "\(C.a || C.b)"), #""a" OR "b""#)
        table.rows(T.filter(literal: "\(C.a ?? C.b)"), #"IFNULL("a", "b")"#)
        table.rows(T.filter(literal: "\(!C.a)"), #"NOT "a""#)
        table.rows(T.filter(literal: "\(!(C.a == C.b))"), #""a" <> "b""#)
        table.rows(T.filter(literal: "\([C.a, C.c].contains(C.b))"), #""b" IN ("a", "c")"#)
        table.rows(T.filter(literal: "\(C.a == nil)"), #""a" IS NULL"#)
        table.rows(T.filter(literal: "\(C.a == C.b && C.c > 0)"), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.filter(literal: "\(C.a == C.b || C.b == C.c)"), #"("a" = "b") OR ("b" = "c")"#)
        table.rows(T.filter(literal: "\((C.a == C.b) == true)"), #"("a" = "b") = 1"#)
        table.rows(T.filter(literal: "NOT (\(C.a == C.b)) OR \(C.b != C.c)"), #"NOT ("a" = "b") OR "b" <> "c""#)
        table.rows(T.filter(SQL("\(C.a == C.b)").sqlExpression && C.c == C.a), #"("a" = "b") AND ("c" = "a")"#)
        let literal: SQL = "\(C.a < C.b)"
        table.rows(T.filter(literal: literal), #""a" < "b""#)
    }

    private static func others(_ table: RequestTable) {
        let item = TableAlias<Item>(name: "i")
        let text: EnumItem.Columns? = .a
        table.rows(EnumItem.filter(literal: "\(text == EnumItem.Columns.b)"), #""a" = "b""#)
        table.rows(Item.filter(literal: "\(SQL("a") == SQL("b"))"), "(a) = (b)")
        table.rows(Item.filter(literal: "\(abs(Column("a")) == Column("b"))"), #"ABS("a") = "b""#)
        table.rows(
            Item.filter(literal: "\(JSONColumn("a")["x"] == JSONColumn("b")["x"])"), #"("a" ->> 'x') = ("b" ->> 'x')"#)
        table.rows(
            Item.filter(literal: "\(Item.select(Column("a")) == Item.select(Column("b")))"),
            #"(SELECT "a" FROM "item") = (SELECT "b" FROM "item")"#)
        table.rows(Item.filter(literal: "\(true.databaseValue && Column("a") == Column("b"))"), #"1 AND ("a" = "b")"#)
        table(
            Item.aliased(item).filter(literal: "\(item[Column("a")] == item[Column("b")])"),
            #"SELECT "i".* FROM "item" "i" WHERE "i"."a" = "i"."b""#)
    }
}
