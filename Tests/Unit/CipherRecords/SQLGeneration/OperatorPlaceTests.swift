import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

/// The comparison of two columns, in every place that takes an expression: see ``OperatorMatrixTests``.
@Suite("A comparison of columns is SQL in every place")
struct OperatorPlaceTests {
    static let sections = [
        RequestSection("columns", item),
        RequestSection("JSON columns", jsonItem),
        RequestSection("an enum of columns", enumItem),
        RequestSection("coding keys", keyItem),
        RequestSection("an enum without raw values", plainItem),
        RequestSection("a column type that is Hashable", hashItem),
        RequestSection("expressions", expressionItem),
    ]

    @Test("in every part of a request", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private typealias Definitions = [String]

    /// The content of the schema after tables and indexes were made.
    private static func definitions(_ make: (Database) throws -> Void) throws -> Definitions {
        try DatabaseQueue().write { db in
            try make(db)
            return try String.fetchAll(db, sql: "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
        }
    }

    private static let expectedDefinitions = [
        #"CREATE INDEX "k1" ON "t"("a") WHERE ("a" = "b") AND ("c" > 0)"#,
        #"CREATE INDEX "k2" ON "t"("a" <> "b") WHERE "a" = "b""#,
        #"CREATE INDEX "k3" ON "t"("a") WHERE "a" <> "b""#,
        #"CREATE TABLE "t" ("a", "b", "c" CHECK ("c" = "a"), "#
            + #""d" GENERATED ALWAYS AS ("a" = "b") VIRTUAL, "e" GENERATED ALWAYS AS ("a" <> "b") STORED, "#
            + #"CHECK ("a" <> "b"), CHECK (("a" = "b") AND ("c" > 0)))"#,
    ]

    private static func item(_ table: RequestTable) {
        typealias C = Item.Columns
        typealias T = Item
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: columns")
    func itemDefinitions() throws {
        typealias C = Item.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    private static func jsonItem(_ table: RequestTable) {
        typealias C = JSONItem.Columns
        typealias T = JSONItem
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: JSON columns")
    func jsonItemDefinitions() throws {
        typealias C = JSONItem.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    private static func enumItem(_ table: RequestTable) {
        typealias C = EnumItem.Columns
        typealias T = EnumItem
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: an enum of columns")
    func enumItemDefinitions() throws {
        typealias C = EnumItem.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    private static func keyItem(_ table: RequestTable) {
        typealias C = KeyItem.Columns
        typealias T = KeyItem
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: coding keys")
    func keyItemDefinitions() throws {
        typealias C = KeyItem.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    private static func plainItem(_ table: RequestTable) {
        typealias C = PlainItem.Columns
        typealias T = PlainItem
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: an enum without raw values")
    func plainItemDefinitions() throws {
        typealias C = PlainItem.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    private static func hashItem(_ table: RequestTable) {
        typealias C = HashItem.Columns
        typealias T = HashItem
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: a column type that is Hashable")
    func hashItemDefinitions() throws {
        typealias C = HashItem.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    private static func expressionItem(_ table: RequestTable) {
        typealias C = ExpressionItem.Columns
        typealias T = ExpressionItem
        table.rows(T.filter(C.a == C.b), #""a" = "b""#)
        table.rows(T.filter(C.a == C.b && C.c > 0), #"("a" = "b") AND ("c" > 0)"#)
        table.rows(T.all().filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(Table<T>("item").filter { $0.a == $0.b }, #""a" = "b""#)
        table.rows(T.all().filterWhenConnected { _ in C.a == C.b }, #""a" = "b""#)
        table.rows(T.filter { Case().when($0.a == $0.b, then: 1) }, #"CASE WHEN "a" = "b" THEN 1 END"#)
        table.rows(T.filter { T.select($0.a).contains($0.a == $0.b) }, #"("a" = "b") IN (SELECT "a" FROM "item")"#)
        let grouped = T.select(C.a).group(C.a)
        let having = #"SELECT "a" FROM "item" GROUP BY "a" HAVING "#
        table(grouped.having(C.a == C.b), having + #""a" = "b""#)
        table(grouped.having(C.a != C.b && C.c > 0), having + #"("a" <> "b") AND ("c" > 0)"#)
        table(grouped.having { $0.a == $0.b }, having + #""a" = "b""#)
        table(grouped.havingWhenConnected { _ in C.a == C.b }, having + #""a" = "b""#)
        let group = #"SELECT "a" FROM "item" GROUP BY "#
        table(T.select(C.a).group(C.a == C.b), group + #""a" = "b""#)
        table(T.select(C.a).group([C.a == C.b, C.b != C.c]), group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).group { $0.a == $0.b }, group + #""a" = "b""#)
        table(T.select(C.a).group { [$0.a == $0.b, $0.b != $0.c] }, group + #""a" = "b", "b" <> "c""#)
        table(T.select(C.a).groupWhenConnected { _ in [C.a == C.b] }, group + #""a" = "b""#)
        table.rows(T.select(C.a == C.b), selecting: #""a" = "b""#)
        table.rows(T.select { $0.a == $0.b }, selecting: #""a" = "b""#)
        table.rows(T.select { ($0.a != $0.b).forKey("n") }, selecting: #""a" <> "b" AS "n""#)
        table.rows(T.select(count(C.a == C.b)), selecting: #"COUNT("a" = "b")"#)
        table.rows(T.select(sum(C.a, filter: C.a == C.b)), selecting: #"SUM("a") FILTER (WHERE "a" = "b")"#)
        table.rows(T.annotated { $0.a == $0.b }, selecting: #"*, "a" = "b""#)
        table(T.order(C.a == C.b), #"SELECT * FROM "item" ORDER BY "a" = "b""#)
        table(T.order { ($0.a != $0.b).desc }, #"SELECT * FROM "item" ORDER BY "a" <> "b" DESC"#)
        table.update(T.all(), [Column("c").set(to: C.a == C.b)], #"UPDATE "item" SET "c" = "a" = "b""#)
        table.update(T.all(), [Column("c") += (C.a == C.b)], #"UPDATE "item" SET "c" = "c" + ("a" = "b")"#)
        table.rows(T.filter(literal: "\(C.a == C.b)"), #""a" = "b""#)
        table.rows(
            T.filter(literal: "\(C.a != C.b && C.c > 0) OR \(!(C.a == C.b))"),
            #"("a" <> "b") AND ("c" > 0) OR "a" <> "b""#)
        let cte = CommonTableExpression(named: "x", request: T.all())
        let joined = T.with(cte).joining(required: T.association(to: cte, on: { _, _ in C.a == C.b }))
        table(joined, #"WITH "x" AS (SELECT * FROM "item") SELECT "item".* FROM "item" JOIN "x" ON "x"."a" = "x"."b""#)
    }

    @Test("in definitions: expressions")
    func expressionItemDefinitions() throws {
        typealias C = ExpressionItem.Columns
        let made = try Self.definitions { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
                t.column("c").check { $0 == C.a }
                t.column("d").generatedAs(C.a == C.b)
                t.column("e").generatedAs(C.a != C.b, .stored)
                t.check(C.a != C.b)
                t.check(C.a == C.b && C.c > 0)
            }
            try db.create(index: "k1", on: "t", columns: ["a"], condition: C.a == C.b && C.c > 0)
            try db.create(index: "k2", on: "t", expressions: [C.a != C.b], condition: C.a == C.b)
            try db.create(index: "k3", on: "t", columns: ["a"], unique: false, condition: C.a != C.b)
        }
        #expect(made == Self.expectedDefinitions)
    }

    @Test("in the calls of aggregates of associations")
    func aggregates() throws {
        let (team, players) = (Team.self, Team.hasMany(Player.self, using: ForeignKey(["teamId"])))
        let table = RequestTable()
        let start =
            #"SELECT "team".* FROM "team" LEFT JOIN "player" ON "player"."teamId" = "team"."id" "#
            + #"GROUP BY "team"."id" HAVING "#
        let count = #"COUNT(DISTINCT "player"."id")"#
        let most = #"MAX("player"."score")"#
        table(team.having(players.count == players.count), start + "\(count) = \(count)")
        table(team.having(players.count != players.max(Column("score"))), start + "\(count) <> \(most)")
        table(team.having(!(players.count == players.count)), start + "\(count) <> \(count)")
        table(team.having(players.isEmpty == false && players.count > 2), start + "(\(count) > 0) AND (\(count) > 2)")
        table(team.having(players.count === nil || players.isEmpty), start + "(\(count) IS NULL) OR (\(count) = 0)")
        table(
            team.having(players.isEmpty && Team.Columns.id == Team.Columns.name),
            start + #"(\#(count) = 0) AND ("team"."id" = "team"."name")"#)
        table(
            team.having(players.sum(Team.Columns.id == Team.Columns.name) > 1),
            start + #"SUM("player"."id" = "player"."name") > 1"#)
        try table.check()
    }
}
