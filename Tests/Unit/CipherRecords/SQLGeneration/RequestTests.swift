import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

@Suite("Requests become SQL")
struct RequestTests {
    private static let score = Column("score")
    private static let name = Column("name")

    static let sections = [
        RequestSection("rows, selections and names", selections),
        RequestSection("filters", filters),
        RequestSection("keys", keys),
        RequestSection("order and limit", order),
        RequestSection("SQL text in the opposite order", reversedText),
        RequestSection("groups", groups),
        RequestSection("the first row, the number of rows, and whether there is one", answers),
        RequestSection("deleting", deleting),
        RequestSection("updating", updating),
    ]

    @Test("each request becomes its SQL", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static func selections(_ table: RequestTable) {
        table(Player.all(), #"SELECT * FROM "player""#)
        table(Player.none(), #"SELECT * FROM "player" WHERE 0"#)
        table(PartialPlayer.all(), #"SELECT "id", "name" FROM "player""#)
        table(Table<Player>("player").all(), #"SELECT * FROM "player""#)
        table(Table("player").all(), #"SELECT * FROM "player""#)
        table(Order.all(), #"SELECT * FROM "order""#)
        table(Order.select { $0.weird }, #"SELECT "we""ird" FROM "order""#)
        table(Player.select(name), #"SELECT "name" FROM "player""#)
        table(Player.select(name, score), #"SELECT "name", "score" FROM "player""#)
        table(Player.select([name, score + 1]), #"SELECT "name", "score" + 1 FROM "player""#)
        table(Player.select { $0.name }, #"SELECT "name" FROM "player""#)
        table(Player.select { [$0.name, $0.score * 2] }, #"SELECT "name", "score" * 2 FROM "player""#)
        table(Team.select { $0.name }, #"SELECT "name" FROM "team""#)
        table(Player.select(.rowID), #"SELECT "rowid" FROM "player""#)
        table(Player.select(.allColumns), #"SELECT * FROM "player""#)
        table(Player.select(.allColumns, .rowID), #"SELECT *, "rowid" FROM "player""#)
        table(
            Player.select(.allColumns(excluding: ["SCORE", "email"])), #"SELECT "id", "name", "teamId" FROM "player""#)
        table(Player.select(sql: "name, id - ?", arguments: [1]), #"SELECT name, id - 1 FROM "player""#)
        table(Player.select(sql: "name, id - :n", arguments: ["n": 1]), #"SELECT name, id - 1 FROM "player""#)
        table(Player.select(literal: "UPPER(name), \(2) AS two"), #"SELECT UPPER(name), 2 AS two FROM "player""#)
        table(Player.select(name).select(score), #"SELECT "score" FROM "player""#)
        table(Player.select(name, as: String.self), #"SELECT "name" FROM "player""#)
        table(Player.select(max(score), as: Int.self), #"SELECT MAX("score") FROM "player""#)
        table(Player.all().select({ $0.name }, as: String.self), #"SELECT "name" FROM "player""#)
        table(Player.selectPrimaryKey(as: Int64.self), #"SELECT "id" FROM "player""#)
        table(Citizenship.selectPrimaryKey(as: Row.self), #"SELECT "citizenId", "countryCode" FROM "citizenship""#)
        table(Log.selectPrimaryKey(as: Int64.self), #"SELECT "rowid" FROM "log""#)
        table(Player.annotated(with: score + 1), #"SELECT *, "score" + 1 FROM "player""#)
        table(Player.annotated { $0.score + 1 }, #"SELECT *, "score" + 1 FROM "player""#)
        table(Player.select(name).annotated(with: [score]), #"SELECT "name", "score" FROM "player""#)
        table(
            Player.annotated(with: (score * 2).forKey("double")), #"SELECT *, "score" * 2 AS "double" FROM "player""#)
        table(Player.select(name.forKey("nom")), #"SELECT "name" AS "nom" FROM "player""#)
        table(Player.select(score).distinct(), #"SELECT DISTINCT "score" FROM "player""#)
        table(
            Player.annotated(with: name.forKey("alt")).filter(Column("alt").detached == "x"),
            #"SELECT *, "name" AS "alt" FROM "player" WHERE "alt" = 'x'"#)
        table(Player.select(5.databaseValue, DatabaseValue.null), #"SELECT 5, NULL FROM "player""#)
    }

    private static func filters(_ table: RequestTable) {
        table(Player.filter(score > 100), #"SELECT * FROM "player" WHERE "score" > 100"#)
        table(Player.filter { $0.score > 100 }, #"SELECT * FROM "player" WHERE "score" > 100"#)
        table(Player.filter { _ in true }, #"SELECT * FROM "player" WHERE 1"#)
        table(
            Player.filter(name != nil).filter(score > 100),
            #"SELECT * FROM "player" WHERE ("name" IS NOT NULL) AND ("score" > 100)"#)
        table(
            Player.filter(name == "a").filter(score == 1).filter { $0.id == 2 },
            #"SELECT * FROM "player" WHERE ("name" = 'a') AND ("score" = 1) AND ("id" = 2)"#)
        table(
            Player.filter(name == "a" && score == 1).filter(Column("id") == 2),
            #"SELECT * FROM "player" WHERE ("name" = 'a') AND ("score" = 1) AND ("id" = 2)"#)
        table(Player.filter(sql: "score > 10"), #"SELECT * FROM "player" WHERE score > 10"#)
        table(Player.filter(sql: "score > ?", arguments: [10]), #"SELECT * FROM "player" WHERE score > 10"#)
        table(Player.filter(sql: "score > :s", arguments: ["s": 10]), #"SELECT * FROM "player" WHERE score > 10"#)
        table(Player.filter(literal: "score > \(10)"), #"SELECT * FROM "player" WHERE score > 10"#)
        table(
            Player.filter(sql: "score OR name").filter(score == 1),
            #"SELECT * FROM "player" WHERE (score OR name) AND ("score" = 1)"#)
        table(Player.all().none(), #"SELECT * FROM "player" WHERE 0"#)
        table(Player.filter(score == 1).none(), #"SELECT * FROM "player" WHERE ("score" = 1) AND 0"#)
    }

    private static func keys(_ table: RequestTable) {
        table(
            Rate.filter(key: ["to": "EUR", "FROM": "USD"]),
            #"SELECT * FROM "rate" WHERE ("FROM" = 'USD') AND ("to" = 'EUR')"#)
        table(
            Rate.filter(key: ["to": "EUR", "from": "USD", "amount": nil]),
            #"SELECT * FROM "rate" WHERE ("from" = 'USD') AND ("to" = 'EUR') AND ("amount" IS NULL)"#)
        table(Player.filter(key: 1), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table(Player.filter(key: nil as Int?), #"SELECT * FROM "player" WHERE 0"#)
        table(Player.filter(keys: [1]), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table(Player.filter(keys: [1, 2, 3]), #"SELECT * FROM "player" WHERE "id" IN (1, 2, 3)"#)
        table(Player.filter(keys: [Int]()), #"SELECT * FROM "player" WHERE 0"#)
        table(Player.filter(keys: [1, nil, 3]), #"SELECT * FROM "player" WHERE "id" IN (1, 3)"#)
        table(Country.filter(key: "FR"), #"SELECT * FROM "country" WHERE "code" = 'FR'"#)
        table(Log.filter(key: 1), #"SELECT * FROM "log" WHERE "rowid" = 1"#)
        table(Player.filter(key: ["id": 1]), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table(Player.filter(key: ["email": "a@b"]), #"SELECT * FROM "player" WHERE "email" = 'a@b'"#)
        table(
            Citizenship.filter(key: ["countryCode": "FR", "citizenId": 1]),
            #"SELECT * FROM "citizenship" WHERE ("citizenId" = 1) AND ("countryCode" = 'FR')"#)
        table(
            Citizenship.filter(keys: [
                ["citizenId": 1, "countryCode": "FR"], ["countryCode": "US", "citizenId": 2],
            ]),
            #"SELECT * FROM "citizenship" WHERE (("citizenId" = 1) AND ("countryCode" = 'FR'))"#
                + #" OR (("citizenId" = 2) AND ("countryCode" = 'US'))"#)
        table(
            Player.filter(score > 1).filter(key: 1), #"SELECT * FROM "player" WHERE ("score" > 1) AND ("id" = 1)"#)
        table(
            Player.filter(score > 1).filter(keys: [1, 2]),
            #"SELECT * FROM "player" WHERE ("score" > 1) AND ("id" IN (1, 2))"#)
    }

    private static func reversedText(_ table: RequestTable) {
        let length = SQL("LENGTH(name)")
        table(Player.order(length.desc), #"SELECT * FROM "player" ORDER BY LENGTH(name) DESC"#)
        table(Player.order(length.desc).reversed(), #"SELECT * FROM "player" ORDER BY (LENGTH(name)) ASC"#)
        table(Player.order(length.asc).reversed(), #"SELECT * FROM "player" ORDER BY (LENGTH(name)) DESC"#)
        table(
            Player.order(length.ascNullsLast, name).reversed(),
            #"SELECT * FROM "player" ORDER BY (LENGTH(name)) DESC NULLS FIRST, "name" DESC"#)
        table(Player.order(SQL("score + id").sqlExpression), #"SELECT * FROM "player" ORDER BY score + id"#)
        table(
            Player.order(SQL("score + id").sqlExpression).reversed(),
            #"SELECT * FROM "player" ORDER BY (score + id) DESC"#)
        table(
            Player.order(length.collating(.nocase)).reversed(),
            #"SELECT * FROM "player" ORDER BY (LENGTH(name)) COLLATE NOCASE DESC"#)
        let alias = TableAlias<Player>(name: "p")
        table(
            Player.aliased(alias).order(alias[length]).reversed(),
            #"SELECT "p".* FROM "player" "p" ORDER BY (LENGTH(name)) DESC"#)
    }

    private static func order(_ table: RequestTable) {
        table(Player.order(score), #"SELECT * FROM "player" ORDER BY "score""#)
        table(Player.order(score.asc), #"SELECT * FROM "player" ORDER BY "score" ASC"#)
        table(Player.order(score.desc, name), #"SELECT * FROM "player" ORDER BY "score" DESC, "name""#)
        table(Player.order { $0.score.desc }, #"SELECT * FROM "player" ORDER BY "score" DESC"#)
        table(Player.order { [$0.score.desc, $0.name] }, #"SELECT * FROM "player" ORDER BY "score" DESC, "name""#)
        table(Player.order(\.score.desc), #"SELECT * FROM "player" ORDER BY "score" DESC"#)
        table(Player.order(\.score), #"SELECT * FROM "player" ORDER BY "score""#)
        table(Player.order(score.ascNullsLast), #"SELECT * FROM "player" ORDER BY "score" ASC NULLS LAST"#)
        table(Player.order(score.descNullsFirst), #"SELECT * FROM "player" ORDER BY "score" DESC NULLS FIRST"#)
        table(Player.order(name.collating(.nocase)), #"SELECT * FROM "player" ORDER BY "name" COLLATE NOCASE"#)
        table(
            Player.order(name.collating(.localizedCompare).desc),
            #"SELECT * FROM "player" ORDER BY "name" COLLATE swiftLocalizedCompare DESC"#)
        table(Player.order(abs(score)), #"SELECT * FROM "player" ORDER BY ABS("score")"#)
        table(Player.order(score).order(name), #"SELECT * FROM "player" ORDER BY "name""#)
        table(Player.order(sql: "score + ?", arguments: [1]), #"SELECT * FROM "player" ORDER BY score + 1"#)
        table(Player.order(literal: "\(score) DESC"), #"SELECT * FROM "player" ORDER BY "score" DESC"#)
        table(Player.orderByPrimaryKey(), #"SELECT * FROM "player" ORDER BY "id""#)
        table(
            Citizenship.orderByPrimaryKey(), #"SELECT * FROM "citizenship" ORDER BY "citizenId", "countryCode""#)
        table(Player.orderByPrimaryKey().reversed(), #"SELECT * FROM "player" ORDER BY "id" DESC"#)
        table(Player.order(score).reversed(), #"SELECT * FROM "player" ORDER BY "score" DESC"#)
        table(Player.order(score.desc).reversed(), #"SELECT * FROM "player" ORDER BY "score" ASC"#)
        table(Player.order(score, name.desc).reversed(), #"SELECT * FROM "player" ORDER BY "score" DESC, "name" ASC"#)
        table(
            Player.order(score.ascNullsLast).reversed(),
            #"SELECT * FROM "player" ORDER BY "score" DESC NULLS FIRST"#)
        table(Player.order(score).reversed().reversed(), #"SELECT * FROM "player" ORDER BY "score""#)
        table(Player.all().reversed(), #"SELECT * FROM "player""#)
        table(Player.order(score).unordered(), #"SELECT * FROM "player""#)
        table(Player.order(score).withStableOrder(), #"SELECT * FROM "player" ORDER BY "score", "id""#)
        table(Player.all().withStableOrder(), #"SELECT * FROM "player" ORDER BY "id""#)
        table(
            Player.order(score).withStableOrder().reversed(),
            #"SELECT * FROM "player" ORDER BY "score" DESC, "id" DESC"#)
        table(Player.limit(10), #"SELECT * FROM "player" LIMIT 10"#)
        table(Player.limit(10, offset: 20), #"SELECT * FROM "player" LIMIT 10 OFFSET 20"#)
        table(Player.limit(10).limit(5), #"SELECT * FROM "player" LIMIT 5"#)
        table(
            Player.filter(score > 1).order(name).limit(3),
            #"SELECT * FROM "player" WHERE "score" > 1 ORDER BY "name" LIMIT 3"#)
    }

    private static func groups(_ table: RequestTable) {
        table(Player.all().group(score), #"SELECT * FROM "player" GROUP BY "score""#)
        table(Player.all().group(score, name), #"SELECT * FROM "player" GROUP BY "score", "name""#)
        table(Player.all().group { $0.teamId }, #"SELECT * FROM "player" GROUP BY "teamId""#)
        table(Player.all().group { [$0.teamId, $0.name] }, #"SELECT * FROM "player" GROUP BY "teamId", "name""#)
        table(Player.all().group(sql: "score % ?", arguments: [2]), #"SELECT * FROM "player" GROUP BY score % 2"#)
        table(Player.all().groupByPrimaryKey(), #"SELECT * FROM "player" GROUP BY "id""#)
        table(Country.all().groupByPrimaryKey(), #"SELECT * FROM "country" GROUP BY "rowid""#)
        table(
            Citizenship.all().groupByPrimaryKey(),
            #"SELECT * FROM "citizenship" GROUP BY "citizenId", "countryCode""#)
        table(
            Player.select(Column("teamId"), max(score)).group(Column("teamId")),
            #"SELECT "teamId", MAX("score") FROM "player" GROUP BY "teamId""#)
        table(
            Player.all().group(name).having(max(score) > 10),
            #"SELECT * FROM "player" GROUP BY "name" HAVING MAX("score") > 10"#)
        table(
            Player.all().group { $0.name }.having { average($0.score) + 10 > 20 }.having { count($0.id) > 1 },
            #"SELECT * FROM "player" GROUP BY "name" HAVING ((AVG("score") + 10) > 20) AND (COUNT("id") > 1)"#)
        table(
            Player.select(max(score)).having(count(.allColumns) > 1),
            #"SELECT MAX("score") FROM "player" HAVING COUNT(*) > 1"#)
        table(
            Player.all().group(name).having(sql: "COUNT(*) > ?", arguments: [1]),
            #"SELECT * FROM "player" GROUP BY "name" HAVING COUNT(*) > 1"#)
    }

    private static func answers(_ table: RequestTable) {
        table.one(Player.all(), #"SELECT * FROM "player" LIMIT 1"#)
        table.one(Player.order(score), #"SELECT * FROM "player" ORDER BY "score" LIMIT 1"#)
        table.one(Player.limit(10), #"SELECT * FROM "player" LIMIT 10"#)
        table.one(Player.limit(10, offset: 5), #"SELECT * FROM "player" LIMIT 10 OFFSET 5"#)
        table.one(Player.filter(key: 1), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table.one(Player.filter(keys: [1, 2]), #"SELECT * FROM "player" WHERE "id" IN (1, 2) LIMIT 1"#)
        table.one(Player.filter { $0.email == "a" }, #"SELECT * FROM "player" WHERE "email" = 'a'"#)
        table.one(Player.filter { $0.name == "a" }, #"SELECT * FROM "player" WHERE "name" = 'a' LIMIT 1"#)
        table.one(Player.select(max(score), as: Int.self), #"SELECT MAX("score") FROM "player""#)
        table.one(
            Player.select(max(score), as: Int.self).group(name),
            #"SELECT MAX("score") FROM "player" GROUP BY "name" LIMIT 1"#)
        table.count(Player.all(), #"SELECT COUNT(*) FROM "player""#)
        table.count(Player.order(score), #"SELECT COUNT(*) FROM "player""#)
        table.count(Player.filter(score == 42), #"SELECT COUNT(*) FROM "player" WHERE "score" = 42"#)
        table.count(Player.limit(10), #"SELECT COUNT(*) FROM (SELECT * FROM "player" LIMIT 10)"#)
        table.count(Player.all().distinct(), #"SELECT COUNT(*) FROM (SELECT DISTINCT * FROM "player")"#)
        table.count(Player.select(name), #"SELECT COUNT(*) FROM "player""#)
        table.count(Player.select(name).distinct(), #"SELECT COUNT(*) FROM (SELECT DISTINCT "name" FROM "player")"#)
        table.count(
            Player.select((score * 2).forKey("x")).distinct(),
            #"SELECT COUNT(*) FROM (SELECT DISTINCT "score" * 2 AS "x" FROM "player")"#)
        table.count(
            Player.select(name, score).distinct(),
            #"SELECT COUNT(*) FROM (SELECT DISTINCT "name", "score" FROM "player")"#)
        table.count(
            Player.select(max(score)).group(name),
            #"SELECT COUNT(*) FROM (SELECT MAX("score") FROM "player" GROUP BY "name")"#)
        table.count(Player.select(max(score)), #"SELECT COUNT(*) FROM (SELECT MAX("score") FROM "player")"#)
        table.count(
            Player.annotated(with: name.forKey("alt")).filter(Column("alt").detached == 1),
            #"SELECT COUNT(*) FROM (SELECT *, "name" AS "alt" FROM "player" WHERE "alt" = 1)"#)
        table.count(Player.select(sql: "name"), #"SELECT COUNT(*) FROM (SELECT name FROM "player")"#)
        table.exists(Player.all(), #"SELECT EXISTS (SELECT * FROM "player")"#)
        table.exists(Player.filter(score > 1).order(name), #"SELECT EXISTS (SELECT * FROM "player" WHERE "score" > 1)"#)
    }

    private static func deleting(_ table: RequestTable) {
        table.delete(Player.all(), #"DELETE FROM "player""#)
        table.delete(Player.filter(score == 0), #"DELETE FROM "player" WHERE "score" = 0"#)
        table.delete(Player.filter(keys: [1, 2]), #"DELETE FROM "player" WHERE "id" IN (1, 2)"#)
        table.delete(Player.order(score), #"DELETE FROM "player""#)
        table.delete(
            Player.order(score).limit(3),
            #"DELETE FROM "player" WHERE "id" IN (WITH "grdb_rows" AS (SELECT *, "id" AS "grdb_key0" FROM "player" "#
                + #"ORDER BY "score" LIMIT 3) SELECT "grdb_key0" FROM "grdb_rows" LIMIT -1)"#)
        table.delete(
            Log.limit(1),
            #"DELETE FROM "log" WHERE "rowid" IN (WITH "grdb_rows" AS (SELECT *, "rowid" AS "grdb_key0" FROM "log" "#
                + #"LIMIT 1) SELECT "grdb_key0" FROM "grdb_rows" LIMIT -1)"#)
        table.delete(
            Citizenship.limit(1),
            #"DELETE FROM "citizenship" WHERE ("citizenId", "countryCode") IN "#
                + #"(WITH "grdb_rows" AS (SELECT *, "citizenId" AS "grdb_key0", "countryCode" AS "grdb_key1" "#
                + #"FROM "citizenship" LIMIT 1) SELECT "grdb_key0", "grdb_key1" FROM "grdb_rows" LIMIT -1)"#)
        table.delete(
            Player.all().groupByPrimaryKey().having(score > 1),
            #"DELETE FROM "player" WHERE "id" IN (SELECT "id" FROM "player" GROUP BY "id" HAVING "score" > 1)"#)
        table.delete(
            Player.filter(score == 0), returning: [Column("id")],
            #"DELETE FROM "player" WHERE "score" = 0 RETURNING "id""#)
        table.delete(Player.all(), returning: [AllColumns()], #"DELETE FROM "player" RETURNING *"#)
        table.delete(
            Player.aliased(TableAlias(name: "p")).filter(score == 0),
            #"DELETE FROM "player" AS "p" WHERE "p"."score" = 0"#)
    }

    private static func updating(_ table: RequestTable) {
        table.update(Player.all(), [score.set(to: 0)], #"UPDATE "player" SET "score" = 0"#)
        table.update(Player.all(), [score.set(to: nil)], #"UPDATE "player" SET "score" = NULL"#)
        table.update(Player.all(), [score += 1], #"UPDATE "player" SET "score" = "score" + 1"#)
        table.update(Player.all(), [score -= 1], #"UPDATE "player" SET "score" = "score" - 1"#)
        table.update(Player.all(), [score *= 2], #"UPDATE "player" SET "score" = "score" * 2"#)
        table.update(Player.all(), [score /= 2], #"UPDATE "player" SET "score" = "score" / 2"#)
        table.update(Player.all(), [score &= 2], #"UPDATE "player" SET "score" = "score" & 2"#)
        table.update(Player.all(), [score |= 2], #"UPDATE "player" SET "score" = "score" | 2"#)
        table.update(Player.all(), [score <<= 2], #"UPDATE "player" SET "score" = "score" << 2"#)
        table.update(Player.all(), [score >>= 2], #"UPDATE "player" SET "score" = "score" >> 2"#)
        table.update(
            Player.filter(name == "a"), [score.set(to: Column("id") * 2), name.set(to: "b")],
            #"UPDATE "player" SET "score" = "id" * 2, "name" = 'b' WHERE "name" = 'a'"#)
        table.update(
            Player.all(), [score.set(to: 1)], onConflict: .ignore, #"UPDATE OR IGNORE "player" SET "score" = 1"#)
        table.update(
            Player.all(), [score.set(to: 1)], onConflict: .abort, #"UPDATE "player" SET "score" = 1"#)
        table.update(
            Player.limit(1), [score.set(to: 1)],
            #"UPDATE "player" SET "score" = 1 WHERE "id" IN (WITH "grdb_rows" AS (SELECT *, "id" AS "grdb_key0" "#
                + #"FROM "player" LIMIT 1) SELECT "grdb_key0" FROM "grdb_rows" LIMIT -1)"#)
        table.update(
            Player.filter(score == 2), [score += 1], returning: [AllColumns()],
            #"UPDATE "player" SET "score" = "score" + 1 WHERE "score" = 2 RETURNING *"#)
    }
}
