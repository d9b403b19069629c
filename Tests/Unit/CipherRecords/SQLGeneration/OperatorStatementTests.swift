import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

/// `filter { let isSame = $0.a == $0.b; return !isSame }` once was true for every row: a statement of its own says not
/// what type it wants, and Swift took the `==` of `Equatable`. See ``OperatorMatrixTests``.
@Suite("A comparison of columns is SQL in a statement of its own")
struct OperatorStatementTests {
    static let sections = [
        RequestSection("columns", item),
        RequestSection("JSON columns", jsonItem),
        RequestSection("an enum of columns", enumItem),
        RequestSection("coding keys", keyItem),
        RequestSection("an enum without raw values", plainItem),
        RequestSection("a column type that is Hashable", hashItem),
        RequestSection("expressions", expressionItem),
        RequestSection("columns of any type", anyColumns),
    ]

    @Test("each operator, and what is made of it", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static let function = DatabaseFunction("nullif", argumentCount: 2, pure: true) { _ in nil }

    private static func item(_ table: RequestTable) {
        typealias C = Item.Columns
        typealias T = Item
        let isSame = C.a == C.b
        let differs = C.a != C.b
        let isLess = C.a < C.b
        let isMore = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func jsonItem(_ table: RequestTable) {
        typealias C = JSONItem.Columns
        typealias T = JSONItem
        let isSame = C.a == C.b
        let differs = C.a != C.b
        let isLess = C.a < C.b
        let isMore = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func enumItem(_ table: RequestTable) {
        typealias C = EnumItem.Columns
        typealias T = EnumItem
        let isSame = C.a == C.b
        let differs = C.a != C.b
        let isLess = C.a < C.b
        let isMore = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func keyItem(_ table: RequestTable) {
        typealias C = KeyItem.Columns
        typealias T = KeyItem
        let isSame = C.a == C.b
        let differs = C.a != C.b
        let isLess = C.a < C.b
        let isMore = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func plainItem(_ table: RequestTable) {
        typealias C = PlainItem.Columns
        typealias T = PlainItem
        let isSame = C.a == C.b
        let differs = C.a != C.b
        // The type is Comparable: see ColumnExpression.
        let isLess: SQLExpression = C.a < C.b
        let isMore: SQLExpression = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func hashItem(_ table: RequestTable) {
        typealias C = HashItem.Columns
        typealias T = HashItem
        let isSame = C.a == C.b
        let differs = C.a != C.b
        let isLess = C.a < C.b
        let isMore = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func expressionItem(_ table: RequestTable) {
        typealias C = ExpressionItem.Columns
        typealias T = ExpressionItem
        let isSame = C.a == C.b
        let differs = C.a != C.b
        let isLess = C.a < C.b
        let isMore = C.a >= C.b
        let isEither = [C.a, C.c].contains(C.b)
        let isMissing = C.a == nil
        let both = C.a == C.b && C.b == C.c
        let list = [C.a == C.b, C.b != C.c]
        table.rows(T.filter(isSame), #""a" = "b""#)
        table.rows(T.filter(!isSame && differs), #"("a" <> "b") AND ("a" <> "b")"#)
        table.rows(T.filter(isLess || isMore), #"("a" < "b") OR ("a" >= "b")"#)
        table.rows(T.filter(isEither), #""b" IN ("a", "c")"#)
        table.rows(T.filter(isMissing), #""a" IS NULL"#)
        table.rows(T.filter(both), #"("a" = "b") AND ("b" = "c")"#)
        table.rows(T.filter(list.joined(operator: .or)), #"("a" = "b") OR ("b" <> "c")"#)
        table.rows(
            T.filter {
                let isSame = $0.a == $0.b
                return !isSame
            }, #""a" <> "b""#)
        table.rows(
            Table<T>("item").filter {
                let isSame = $0.a == $0.b
                return isSame
            }, #""a" = "b""#)
        table.rows(
            T.all().filterWhenConnected { _ in
                let isSame = C.a == C.b
                return isSame
            }, #""a" = "b""#)
        table.rows(T.select(function(C.a == C.b, 1)), selecting: #"nullif("a" = "b", 1)"#)
        table.rows(T.select(function([C.a == C.b, C.c])), selecting: #"nullif("a" = "b", "c")"#)
        table.update(T.all(), [Column("c").set(to: isSame)], #"UPDATE "item" SET "c" = "a" = "b""#)
    }

    private static func anyColumns(_ table: RequestTable) {
        func compared<C: ColumnExpression>(_ left: C, _ right: C) -> SQLExpression {
            let isSame = left == right
            let isLess = left < right
            return isSame || isLess
        }
        let expected = #"("a" = "b") OR ("a" < "b")"#
        table.rows(Item.filter(compared(Column("a"), Column("b"))), expected)
        table.rows(Item.filter(compared(EnumItem.Columns.a, .b)), expected)
        table.rows(Item.filter(compared(PlainItem.Columns.a, .b)), expected)
        table.rows(Item.filter(compared(KeyItem.Columns.a, .b)), expected)
    }

    @Test("a comparison kept in a constant is SQL in a definition")
    func definitions() throws {
        typealias C = EnumItem.Columns
        try DatabaseQueue().write { db in
            try db.create(table: "t") { t in
                t.column("a").check { column in
                    let isSame = C.a == C.b
                    return isSame
                }
                t.column("b")
                let differs = C.a != C.b
                t.column("d").generatedAs(differs)
                t.check(differs)
            }
            try db.create(index: "k", on: "t", expressions: [C.a == C.b])
            let sql = try String.fetchAll(
                db, sql: "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
            #expect(
                sql == [
                    #"CREATE INDEX "k" ON "t"("a" = "b")"#,
                    #"CREATE TABLE "t" ("a" CHECK ("a" = "b"), "b", "d" GENERATED ALWAYS AS ("a" <> "b") VIRTUAL, "#
                        + #"CHECK ("a" <> "b"))"#,
                ])
        }
    }
}
