import CipherDatabase
import Testing

@testable import CipherRecords

/// `filter { $0.a == $0.b }` once became `WHERE 0`, and `deleteAll` with `!=` deleted every row: Swift preferred the `==`
/// of `Equatable`, whose Bool is a value to SQL. Each operator that Swift has too is tried for each type that is a column.
@Suite("Operators that Swift has too become SQL")
struct OperatorMatrixTests {
    static let sections = [
        RequestSection("columns", item),
        RequestSection("JSON columns", jsonItem),
        RequestSection("an enum of columns", enumItem),
        RequestSection("coding keys", keyItem),
        RequestSection("an enum without raw values", plainItem),
        RequestSection("a column type that is Hashable", hashItem),
        RequestSection("expressions", expressionItem),
        RequestSection("members that Swift finds by the type", impliedMembers),
        RequestSection("columns of aliases", aliases),
        RequestSection("other expressions", otherTypes),
    ]

    @Test("each operator on two columns becomes its SQL", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static func item(_ table: RequestTable) {
        table.rows(Item.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Item.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(Item.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(Item.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(Item.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(Item.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(Item.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(Item.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(Item.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(Item.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(Item.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(Item.filter { !$0.a }, #"NOT "a""#)
        table.rows(Item.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(Item.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(Item.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(Item.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(Item.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(Item.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(Item.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(Item.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(Item.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(Item.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(Item.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(Item.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            Item.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) }, #"("a" = "b") AND ("b" = "c")"#)
        table.delete(Item.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func jsonItem(_ table: RequestTable) {
        table.rows(JSONItem.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(JSONItem.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(JSONItem.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(JSONItem.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(JSONItem.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(JSONItem.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(JSONItem.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(JSONItem.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(JSONItem.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(JSONItem.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(JSONItem.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(JSONItem.filter { !$0.a }, #"NOT "a""#)
        table.rows(JSONItem.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(JSONItem.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(JSONItem.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(JSONItem.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(JSONItem.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(JSONItem.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(JSONItem.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(JSONItem.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(JSONItem.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(JSONItem.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(JSONItem.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(JSONItem.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            JSONItem.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) }, #"("a" = "b") AND ("b" = "c")"#)
        table.delete(JSONItem.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func enumItem(_ table: RequestTable) {
        table.rows(EnumItem.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(EnumItem.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(EnumItem.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(EnumItem.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(EnumItem.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(EnumItem.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(EnumItem.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(EnumItem.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(EnumItem.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(EnumItem.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(EnumItem.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(EnumItem.filter { !$0.a }, #"NOT "a""#)
        table.rows(EnumItem.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(EnumItem.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(EnumItem.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(EnumItem.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(EnumItem.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(EnumItem.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(EnumItem.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(EnumItem.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(EnumItem.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(EnumItem.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(EnumItem.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(EnumItem.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            EnumItem.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) }, #"("a" = "b") AND ("b" = "c")"#)
        table.delete(EnumItem.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func keyItem(_ table: RequestTable) {
        table.rows(KeyItem.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(KeyItem.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(KeyItem.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(KeyItem.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(KeyItem.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(KeyItem.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(KeyItem.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(KeyItem.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(KeyItem.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(KeyItem.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(KeyItem.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(KeyItem.filter { !$0.a }, #"NOT "a""#)
        table.rows(KeyItem.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(KeyItem.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(KeyItem.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(KeyItem.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(KeyItem.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(KeyItem.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(KeyItem.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(KeyItem.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(KeyItem.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(KeyItem.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(KeyItem.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(KeyItem.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            KeyItem.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) }, #"("a" = "b") AND ("b" = "c")"#)
        table.delete(KeyItem.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func plainItem(_ table: RequestTable) {
        table.rows(PlainItem.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(PlainItem.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(PlainItem.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(PlainItem.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(PlainItem.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(PlainItem.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(PlainItem.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(PlainItem.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(PlainItem.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(PlainItem.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(PlainItem.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(PlainItem.filter { !$0.a }, #"NOT "a""#)
        table.rows(PlainItem.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(PlainItem.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(PlainItem.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(PlainItem.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(PlainItem.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(PlainItem.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(PlainItem.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(PlainItem.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(PlainItem.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(PlainItem.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(PlainItem.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(PlainItem.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            PlainItem.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) }, #"("a" = "b") AND ("b" = "c")"#)
        table.delete(PlainItem.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func hashItem(_ table: RequestTable) {
        table.rows(HashItem.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(HashItem.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(HashItem.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(HashItem.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(HashItem.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(HashItem.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(HashItem.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(HashItem.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(HashItem.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(HashItem.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(HashItem.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(HashItem.filter { !$0.a }, #"NOT "a""#)
        table.rows(HashItem.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(HashItem.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(HashItem.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(HashItem.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(HashItem.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(HashItem.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(HashItem.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(HashItem.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(HashItem.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(HashItem.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(HashItem.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(HashItem.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            HashItem.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) }, #"("a" = "b") AND ("b" = "c")"#)
        table.delete(HashItem.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func expressionItem(_ table: RequestTable) {
        table.rows(ExpressionItem.filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(ExpressionItem.filter { $0.a != $0.b }, #""a" <> "b""#)
        table.rows(ExpressionItem.filter { $0.a === $0.b }, #""a" IS "b""#)
        table.rows(ExpressionItem.filter { $0.a !== $0.b }, #""a" IS NOT "b""#)
        table.rows(ExpressionItem.filter { $0.a < $0.b }, #""a" < "b""#)
        table.rows(ExpressionItem.filter { $0.a <= $0.b }, #""a" <= "b""#)
        table.rows(ExpressionItem.filter { $0.a > $0.b }, #""a" > "b""#)
        table.rows(ExpressionItem.filter { $0.a >= $0.b }, #""a" >= "b""#)
        table.rows(ExpressionItem.filter { $0.a && $0.b }, #""a" AND "b""#)
        table.rows(ExpressionItem.filter { $0.a || $0.b }, #""a" OR "b""#)
        table.rows(ExpressionItem.filter { $0.a ?? $0.b }, #"IFNULL("a", "b")"#)
        table.rows(ExpressionItem.filter { !$0.a }, #"NOT "a""#)
        table.rows(ExpressionItem.filter { !($0.a == $0.b) }, #""a" <> "b""#)
        table.rows(ExpressionItem.filter { !($0.a != $0.b) }, #""a" = "b""#)
        table.rows(ExpressionItem.filter { !($0.a < $0.b) }, #"NOT ("a" < "b")"#)
        table.rows(ExpressionItem.filter { [$0.a].contains($0.b) }, #""b" = "a""#)
        table.rows(ExpressionItem.filter { ![$0.a, $0.c].contains($0.b) }, #""b" NOT IN ("a", "c")"#)
        table.rows(ExpressionItem.filter { $0.a == nil && nil != $0.b }, #"("a" IS NULL) AND ("b" IS NOT NULL)"#)
        table.rows(ExpressionItem.filter { $0.a == $0.b && $0.c > 0 }, #"("a" = "b") AND ("c" > 0)"#)
        table.rows(ExpressionItem.filter { $0.c > 0 && $0.a == $0.b }, #"("c" > 0) AND ("a" = "b")"#)
        table.rows(ExpressionItem.filter { $0.a != $0.b || $0.b == $0.c }, #"("a" <> "b") OR ("b" = "c")"#)
        table.rows(ExpressionItem.filter { !($0.a == $0.b) && !($0.b < $0.c) }, #"("a" <> "b") AND (NOT ("b" < "c"))"#)
        table.rows(ExpressionItem.filter { !($0.a == $0.b && $0.b == $0.c) }, #"NOT (("a" = "b") AND ("b" = "c"))"#)
        table.rows(ExpressionItem.filter { ($0.a == $0.b) == true }, #"("a" = "b") = 1"#)
        table.rows(
            ExpressionItem.filter { [$0.a == $0.b, $0.b == $0.c].joined(operator: .and) },
            #"("a" = "b") AND ("b" = "c")"#)
        table.delete(ExpressionItem.filter { $0.a != $0.b }, #"DELETE FROM "item" WHERE "a" <> "b""#)
    }

    private static func impliedMembers(_ table: RequestTable) {
        table.rows(EnumItem.filter { $0.a == .b }, #""a" = "b""#)
        table.rows(EnumItem.filter { $0.a < .b && .a != $0.c }, #"("a" < "b") AND ("a" <> "c")"#)
        table.rows(PlainItem.filter { $0.a != .b && .a == $0.c }, #"("a" <> "b") AND ("a" = "c")"#)
        table.rows(PlainItem.filter { $0.a < .b }, #""a" < "b""#)
        table.rows(PlainItem.filter { ($0.a...$0.b).contains($0.c) }, #""c" BETWEEN "a" AND "b""#)
        table.rows(PlainItem.filter { ($0.a..<$0.b).contains($0.c) }, #"("c" >= "a") AND ("c" < "b")"#)
        table.rows(PlainItem.select { max($0.a, $0.b) }, selecting: #"MAX("a", "b")"#)
        table.rows(PlainItem.select { min($0.a, $0.b, $0.c) }, selecting: #"MIN("a", "b", "c")"#)
        table.rows(PlainItem.filter { $0.a == .b }, #""a" = "b""#)
        table.rows(KeyItem.filter { $0.a != .b }, #""a" <> "b""#)
    }

    private static func aliases(_ table: RequestTable) {
        let item = TableAlias<Item>(name: "i")
        func rows(_ request: QueryInterfaceRequest<Item>, _ sql: String, at location: SourceLocation = #_sourceLocation)
        {
            table(request.aliased(item), #"SELECT "i".* FROM "item" "i" WHERE \#(sql)"#, at: location)
        }
        rows(Item.filter { _ in item.a == item.b }, #""i"."a" = "i"."b""#)
        rows(Item.filter { item.a != $0.b }, #""i"."a" <> "i"."b""#)
        rows(Item.filter { !(item[$0.a] == item["b"]) }, #""i"."a" <> "i"."b""#)
        rows(Item.filter { _ in item.a == item.b && item.c > 0 }, #"("i"."a" = "i"."b") AND ("i"."c" > 0)"#)
        rows(Item.filter { [item.a].contains($0.b) }, #""i"."b" = "i"."a""#)
    }

    private static func otherTypes(_ table: RequestTable) {
        let (one, two) = (1.databaseValue, 2.databaseValue)
        table.rows(Item.filter { _ in one == two }, "1 = 2")
        table.rows(Item.filter { $0.a == one && one != two }, #"("a" = 1) AND (1 <> 2)"#)
        table.rows(Item.filter { _ in SQL("a") == SQL("b") }, "(a) = (b)")
        table.rows(Item.filter { _ in SQL("a") == "b" }, "(a) = 'b'")
        table.rows(Item.filter { _ in SQL("a") != SQL("b") && SQL("c") }, "((a) <> (b)) AND (c)")
        let (first, second) = (Item.select(Column("a")), Item.select(Column("b")))
        table.rows(Item.filter { _ in first == second }, #"(SELECT "a" FROM "item") = (SELECT "b" FROM "item")"#)
        let maybe: Column? = Column("a")
        table.rows(Item.filter { maybe == $0.b }, #""a" = "b""#)
        let text: EnumItem.Columns? = .a
        table.rows(EnumItem.filter { text == $0.b }, #""a" = "b""#)
        table.rows(Item.filter { _ in JSONColumn("a")["x"] == JSONColumn("b")["x"] }, #"("a" ->> 'x') = ("b" ->> 'x')"#)
        table.rows(Item.filter { $0.a.asJSON == $0.b.asJSON }, #""a" = "b""#)
        table.rows(
            Item.filter { Column("a") == JSONColumn("b") && EnumItem.Columns.a == $0.b },
            #"("a" = "b") AND ("a" = "b")"#)
        table.rows(
            Item.filter { Case().when($0.a == $0.b, then: 1).otherwise(0) }, #"CASE WHEN "a" = "b" THEN 1 ELSE 0 END"#)
    }

    @Test("columns can still be compared as values where Swift wants a Bool")
    func values() {
        let (a, b) = (PlainItem.Columns.a, PlainItem.Columns.b)
        #expect(a != b && !(a == b) && a < b && [a].contains(a) && Set([a, b]).count == 2)
        if a == b { Issue.record("they differ") }
        let same: Bool = HashItem.Columns.a == HashItem.Columns.a
        let stored = 1.databaseValue == 2.databaseValue
        #expect(same && stored == false)
        #expect(Column("a").name == Column(KeyItem.CodingKeys.a).name)
    }

    /// A `==` of Swift's is a trap for each of them. That of columns yields to the one of ``ColumnExpression``.
    @Test("no type of the library that stands in SQL is Equatable, values and columns aside")
    func notEquatable() {
        let expressions: [Any] = [
            Column("a").sqlExpression, Column("a").asJSON, SQL("a"), Case(),
            SQLDateModifier.day(1), Column("a").sqlSelection, Column("a").desc, AllColumns(),
            Item.all(), Item.all().sqlSubquery, SQLRequest<Item>(sql: "a"), Column("a").set(to: 1),
            Team.hasMany(Player.self).count, CommonTableExpression<Item>(named: "a", sql: "b"),
            AllColumnsExcluding(["a"]),
        ]
        for expression in expressions { #expect(!(expression is any Equatable), "\(type(of: expression))") }
        #expect(DatabaseValue.null as Any is any Equatable)
    }
}

extension RequestTable {
    /// A request for rows of the table `item`, and its condition.
    func rows<T>(_ request: QueryInterfaceRequest<T>, _ sql: String, at location: SourceLocation = #_sourceLocation) {
        self(request, #"SELECT * FROM "item" WHERE \#(sql)"#, at: location)
    }

    /// A request for a part of the rows of the table `item`.
    func rows<T>(
        _ request: QueryInterfaceRequest<T>, selecting sql: String, at location: SourceLocation = #_sourceLocation
    ) {
        self(request, #"SELECT \#(sql) FROM "item""#, at: location)
    }
}
