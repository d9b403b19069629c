import CipherDatabase
import Foundation
import Testing

@testable import CipherRecords

@Suite("Expressions become SQL")
struct ExpressionTests {
    private static let score = Column("score")
    private static let name = Column("name")
    private static let id = Column("id")

    static let sections = [
        RequestSection("comparisons", comparisons),
        RequestSection("arithmetic and bits", arithmetic),
        RequestSection("logic, and what is negated", logic),
        RequestSection("values among others, ranges, patterns", membership),
        RequestSection("functions", functions),
        RequestSection("queries within queries", subqueries),
        RequestSection("SQL text with columns, values and requests in it", interpolation),
        RequestSection("SQL text with names and numbers of parameters", parameters),
        RequestSection("common table expressions", commonTables),
    ]

    @Test("each expression becomes its SQL", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static func comparisons(_ table: RequestTable) {
        table.filter(score == 10, #""score" = 10"#)
        table.filter(10 == score, #"10 = "score""#)
        table.filter(score == score, #""score" = "score""#)
        table.filter(score == nil, #""score" IS NULL"#)
        table.filter(nil == score, #""score" IS NULL"#)
        table.filter(score == DatabaseValue.null, #""score" IS NULL"#)
        table.filter(score == nil as Int?, #""score" IS NULL"#)
        table.filter(score == 10 as Int?, #""score" = 10"#)
        table.filter(score == true, #""score" = 1"#)
        table.filter(false == score, #""score" = 0"#)
        table.filter(score != 10, #""score" <> 10"#)
        table.filter(score != nil, #""score" IS NOT NULL"#)
        table.filter(nil != score, #""score" IS NOT NULL"#)
        table.filter(score === 10, #""score" IS 10"#)
        table.filter(score === nil, #""score" IS NULL"#)
        table.filter(score !== 10, #""score" IS NOT 10"#)
        table.filter(score !== score, #""score" IS NOT "score""#)
        table.filter(score < 10, #""score" < 10"#)
        table.filter(10 < score, #"10 < "score""#)
        table.filter(score <= 10, #""score" <= 10"#)
        table.filter(score > 1.5, #""score" > 1.5"#)
        table.filter(score >= score, #""score" >= "score""#)
        table.filter(name == "O'Brien", #""name" = 'O''Brien'"#)
        table.filter(name > "B", #""name" > 'B'"#)
        table.filter((score + 1) == 2, #"("score" + 1) = 2"#)
        table.filter(SQL("score") == 2, #"(score) = 2"#)
        table.filter(name.collating(.nocase) == "a", #""name" = 'a' COLLATE NOCASE"#)
        table.filter((name.collating(.nocase) == "a") == true, #"("name" = 'a' COLLATE NOCASE) = 1"#)
        table.filter((name.collating(.nocase) != "a") < score, #"("name" <> 'a' COLLATE NOCASE) < "score""#)
        table.filter(["a"].contains(name.collating(.nocase)) == false, #"("name" = 'a' COLLATE NOCASE) = 0"#)
        table.filter(name.collating(.nocase).collating(.binary) == "a", #""name" = 'a' COLLATE BINARY"#)
    }

    private static func arithmetic(_ table: RequestTable) {
        table.select(score + 2, #""score" + 2"#)
        table.select(2 + score, #"2 + "score""#)
        table.select(score + score, #""score" + "score""#)
        table.select((score + 1) + 2, #"("score" + 1) + 2"#)
        table.select(score - 2, #""score" - 2"#)
        table.select((score - 1) - 2, #"("score" - 1) - 2"#)
        table.select(score * 2, #""score" * 2"#)
        table.select(2 * (score + 1), #"2 * ("score" + 1)"#)
        table.select(score / 2, #""score" / 2"#)
        table.select(-score, #"-"score""#)
        table.select(-(score + 1), #"-("score" + 1)"#)
        table.select(-(-score + 1), #"-((-"score") + 1)"#)
        table.select(score & 1, #""score" & 1"#)
        table.select(score | 1, #""score" | 1"#)
        table.select(~score, #"~"score""#)
        table.select(score << 1, #""score" << 1"#)
        table.select(score >> 1, #""score" >> 1"#)
        table.select([score, 2.databaseValue, score].joined(operator: .add), #""score" + 2 + "score""#)
        table.select([name, name].joined(operator: .concat), #""name" || "name""#)
        table.select([SQLExpression]().joined(operator: .add), "0")
        table.select([SQLExpression]().joined(operator: .multiply), "1")
        table.select(score ?? 0, #"IFNULL("score", 0)"#)
    }

    private static func logic(_ table: RequestTable) {
        table.filter(score && true, #""score" AND 1"#)
        table.filter(false || score, #"0 OR "score""#)
        table.filter(
            score != nil || name != nil && Column("id") != nil,
            #"("score" IS NOT NULL) OR (("name" IS NOT NULL) AND ("id" IS NOT NULL))"#)
        table.filter(
            (score == 1 || score == 2) || score == 3, #"("score" = 1) OR ("score" = 2) OR ("score" = 3)"#)
        table.filter(!score, #"NOT "score""#)
        table.filter(!(!score), #"NOT (NOT "score")"#)
        table.filter(!(score == 1), #""score" <> 1"#)
        table.filter(!(score != 1), #""score" = 1"#)
        table.filter(!(score == nil), #""score" IS NOT NULL"#)
        table.filter(!(score === 1), #""score" IS NOT 1"#)
        table.filter(!(score > 1), #"NOT ("score" > 1)"#)
        table.filter(!(score > 1 && score < 9), #"NOT (("score" > 1) AND ("score" < 9))"#)
        table.filter(![1, 2].contains(score), #""score" NOT IN (1, 2)"#)
        table.filter(![1].contains(score), #""score" <> 1"#)
        table.filter(!([nil] as [Int?]).contains(score), #""score" NOT IN (NULL)"#)
        table.filter(![Int]().contains(score), "1")
        table.filter(!(1...9).contains(score), #""score" NOT BETWEEN 1 AND 9"#)
        table.filter(!name.like("a%"), #""name" NOT LIKE 'a%'"#)
        table.filter(!Player.all().exists(), #"NOT EXISTS (SELECT * FROM "player")"#)
        table.filter([score == 1, name == "a"].joined(operator: .and), #"("score" = 1) AND ("name" = 'a')"#)
        table.filter([score == 1, name == "a"].joined(operator: .or), #"("score" = 1) OR ("name" = 'a')"#)
        table.filter([SQLExpression]().joined(operator: .and), "1")
        table.filter([SQLExpression]().joined(operator: .or), "0")
        table.filter([score == 1].joined(operator: .and), #""score" = 1"#)
    }

    private static func membership(_ table: RequestTable) {
        table.filter([Int]().contains(score), "0")
        table.filter([1].contains(score), #""score" = 1"#)
        // NULL is equal to nothing, in a list of any length.
        table.filter(([nil] as [Int?]).contains(score), #""score" IN (NULL)"#)
        table.filter(([nil, 1] as [Int?]).contains(score), #""score" IN (NULL, 1)"#)
        table.filter([DatabaseValue.null].contains(score), #""score" IN (NULL)"#)
        table.filter(([DatabaseValue.null] as [any SQLExpressible]).contains(score), #""score" IN (NULL)"#)
        table.filter(![1].contains(DatabaseValue.null), "NULL NOT IN (1)")
        table.filter(
            ([nil] as [String?]).contains(name.collating(.nocase)), #"("name" COLLATE NOCASE) IN (NULL)"#)
        table.filter([1, 2, 3].contains(score), #""score" IN (1, 2, 3)"#)
        table.filter(["a", "b"].contains(name), #""name" IN ('a', 'b')"#)
        table.filter([score].contains(score), #""score" = "score""#)
        table.filter([1, 2].contains(score + 1), #"("score" + 1) IN (1, 2)"#)
        table.filter(AnySequence([1, 2]).contains(score), #""score" IN (1, 2)"#)
        table.filter(([1, score] as [any SQLExpressible]).contains(score), #""score" IN (1, "score")"#)
        table.filter((1...9).contains(score), #""score" BETWEEN 1 AND 9"#)
        table.filter((1..<9).contains(score), #"("score" >= 1) AND ("score" < 9)"#)
        table.filter(("a"..."z").contains(name), #""name" BETWEEN 'a' AND 'z'"#)
        table.filter((1.5..<2.5).contains(score), #"("score" >= 1.5) AND ("score" < 2.5)"#)
        table.filter(name.like("%foo"), #""name" LIKE '%foo'"#)
        table.filter(name.like("%foo", escape: "\\"), #""name" LIKE '%foo' ESCAPE '\'"#)
        table.filter(Column("score").match(nil), "0")
        table(Document.filter(Column("title").match("swift")), #"SELECT * FROM "document" WHERE "title" MATCH 'swift'"#)
        table(
            Document.matching(FTS5Pattern(matchingAllTokensIn: "swift")),
            #"SELECT * FROM "document" WHERE "document" MATCH 'swift'"#)
        table(Document.matching(nil), #"SELECT * FROM "document" WHERE 0"#)
        table(
            Document.matching(FTS5Pattern(matchingAllTokensIn: "a")).order(Column.rank),
            #"SELECT * FROM "document" WHERE "document" MATCH 'a' ORDER BY "rank""#)
    }

    private static func functions(_ table: RequestTable) {
        table.select(abs(score), #"ABS("score")"#)
        table.select(average(score), #"AVG("score")"#)
        table.select(average(score, filter: score > 0), #"AVG("score") FILTER (WHERE "score" > 0)"#)
        table.select(count(score), #"COUNT("score")"#)
        table.select(count(distinct: score), #"COUNT(DISTINCT "score")"#)
        table.select(count(.allColumns), "COUNT(*)")
        table.select(length(name), #"LENGTH("name")"#)
        table.select(max(score), #"MAX("score")"#)
        table.select(max(score, filter: name == "a"), #"MAX("score") FILTER (WHERE "name" = 'a')"#)
        table.select(min(score), #"MIN("score")"#)
        table.select(sum(score), #"SUM("score")"#)
        table.select(total(score + 1), #"TOTAL("score" + 1)"#)
        table.select(cast(score, as: .text), #"CAST("score" AS TEXT)"#)
        table.select(cast(score + 1, as: .real), #"CAST("score" + 1 AS REAL)"#)
        table.select(coalesce([score, 0.databaseValue]), #"COALESCE("score", 0)"#)
        table.select(coalesce([score]), #""score""#)
        table.select(name.lowercased, #"swiftLowercaseString("name")"#)
        table.select(name.uppercased, #"swiftUppercaseString("name")"#)
        table.select(name.capitalized, #"swiftCapitalizedString("name")"#)
        table.select(DatabaseFunction.lowercase(name), #"swiftLowercaseString("name")"#)
        table.select(dateTime(name, .day(-1), .startOfDay), #"DATETIME("name", '-1 days', 'start of day')"#)
        table.select(julianDay(name, .month(2), .utc), #"JULIANDAY("name", '2 months', 'utc')"#)
        table.select(
            Case().when(score > 9, then: "high").otherwise("low"), #"CASE WHEN "score" > 9 THEN 'high' ELSE 'low' END"#)
        table.select(
            Case(score).when(1, then: "one").when(2, then: "two"),
            #"CASE "score" WHEN 1 THEN 'one' WHEN 2 THEN 'two' END"#)
        table.select(JSONColumn("name")["$.a"], #""name" ->> '$.a'"#)
        table.select(name.asJSON["a"], #""name" ->> 'a'"#)
        table.select(name.jsonExtract(atPath: "$.a"), #"JSON_EXTRACT("name", '$.a')"#)
        table.select(name.jsonRepresentation(atPath: "$.a"), #""name" -> '$.a'"#)
    }

    private static func subqueries(_ table: RequestTable) {
        let best = Player.select(max(score))
        table.filter(score == best, #""score" = (SELECT MAX("score") FROM "player")"#)
        table.filter(score + 1 > best, #"("score" + 1) > (SELECT MAX("score") FROM "player")"#)
        table.filter(
            Player.select(score).filter(name != nil).distinct().contains(score),
            #""score" IN (SELECT DISTINCT "score" FROM "player" WHERE "name" IS NOT NULL)"#)
        table.filter(Team.all().exists(), #"EXISTS (SELECT * FROM "team")"#)
        table.filter(
            SQLRequest<Int>(sql: "SELECT ? UNION SELECT ?", arguments: [1, 2]).contains(score),
            #""score" IN (SELECT 1 UNION SELECT 2)"#)
        let team = TableAlias<Team>()
        table(
            Team.aliased(team).filter(Player.filter(Column("teamId") == team[Column("id")]).exists()),
            #"SELECT * FROM "team" WHERE EXISTS (SELECT * FROM "player" WHERE "teamId" = "team"."id")"#)
        let player = TableAlias<Player>()
        table(
            Player.aliased(player).filter(Player.filter { $0.score > player.score }.exists()),
            #"SELECT * FROM "player" WHERE EXISTS "#
                + #"(SELECT "player1".* FROM "player" "player1" WHERE "player1"."score" > "player"."score")"#)
        table(
            Player.aliased(TableAlias(name: "p")).filter(score > 1).order(name),
            #"SELECT "p".* FROM "player" "p" WHERE "p"."score" > 1 ORDER BY "p"."name""#)
        table(Player.aliased(player).filter(player["score"] > 1), #"SELECT * FROM "player" WHERE "score" > 1"#)
        table(
            Player.select(best.forKey("best"), name),
            #"SELECT (SELECT MAX("score") FROM "player") AS "best", "name" FROM "player""#)
    }

    private static func interpolation(_ table: RequestTable) {
        let day = "2026-01-31"
        table(
            Player.filter(literal: "DATE(\(name)) = \(day)"),
            #"SELECT * FROM "player" WHERE DATE("name") = '2026-01-31'"#)
        table(
            Player.aliased(TableAlias(name: "p")).filter(literal: "\(score) > \(1)"),
            #"SELECT "p".* FROM "player" "p" WHERE "p"."score" > 1"#)
        table(Player.filter(literal: "\(score + 1) > \(2)"), #"SELECT * FROM "player" WHERE ("score" + 1) > 2"#)
        table(Player.filter(literal: "score IN \([1, 2])"), #"SELECT * FROM "player" WHERE score IN (1,2)"#)
        table(
            Player.filter(literal: "score IN \([score, score])"),
            #"SELECT * FROM "player" WHERE score IN ("score","score")"#)
        table(
            Player.filter(literal: "score IN \([Int]())"),
            #"SELECT * FROM "player" WHERE score IN (SELECT NULL WHERE NULL)"#)
        table(
            Player.filter(literal: "score = (\(Player.select(max(score))))"),
            #"SELECT * FROM "player" WHERE score = (SELECT MAX("score") FROM "player")"#)
        table(
            Player.filter(literal: "EXISTS (SELECT 1 FROM \(Team.self))"),
            #"SELECT * FROM "player" WHERE EXISTS (SELECT 1 FROM "team")"#)
        table(
            Player.filter(literal: "\(identifier: "score") = \(nil as Int?)"),
            #"SELECT * FROM "player" WHERE "score" = NULL"#)
        table(Player.order(literal: "\(score.desc), \(name)"), #"SELECT * FROM "player" ORDER BY "score" DESC, "name""#)
        table(Player.select(literal: "\(max(score).forKey("m"))"), #"SELECT MAX("score") AS "m" FROM "player""#)
        table(
            Player.select(literal: "\(columnsOf: PartialPlayer.self)"),
            #"SELECT "player"."id", "player"."name" FROM "player""#)
        table(
            Player.filter(SQL("score > \(1)") && SQL("score < \(9)")),
            #"SELECT * FROM "player" WHERE (score > 1) AND (score < 9)"#)
        table.update(
            Player.all(), [score.set(to: SQL("\(score) + \(5)"))],
            #"UPDATE "player" SET "score" = "score" + 5"#)
    }

    /// The values of names in a text were lost where an expression stood in it too.
    private static func parameters(_ table: RequestTable) {
        func condition(_ literal: SQL, _ sql: String, at location: SourceLocation = #_sourceLocation) {
            table(Player.filter(literal: literal), #"SELECT * FROM "player" WHERE \#(sql)"#, at: location)
        }
        let x = "x"
        let least = SQL(sql: "score > :min", arguments: ["min": 10])
        condition(least + " AND \(name) = \(x)", #"score > 10 AND "name" = 'x'"#)
        condition("\(name) = \(x) AND " + least, #""name" = 'x' AND score > 10"#)
        condition(
            "\(name) = \(x) AND \(literal: least) OR \(score + 1) > \(3)",
            #""name" = 'x' AND score > 10 OR ("score" + 1) > 3"#)
        condition(["\(score)", least].joined(separator: " AND "), #""score" AND score > 10"#)
        condition(least + " AND " + SQL(sql: "id > :min", arguments: ["min": 2]), "score > 10 AND id > 2")
        condition(least + " OR score = :min AND \(name)", #"score > 10 OR score = 10 AND "name""#)
        let twice = SQL(sql: "id = ?1 OR teamId = ?1", arguments: [7])
        condition("\(score) = \(2) AND " + twice, #""score" = 2 AND id = 7 OR teamId = 7"#)
        condition(twice + " AND " + twice, "id = 7 OR teamId = 7 AND id = 7 OR teamId = 7")
        condition(twice + " AND \(name)", #"id = 7 OR teamId = 7 AND "name""#)
        table(
            Player.filter(score == 3).filter(sql: "id = ?1 OR teamId = ?1", arguments: [7]),
            #"SELECT * FROM "player" WHERE ("score" = 3) AND (id = 7 OR teamId = 7)"#)
        table(
            Player.order(literal: "\(name) = " + SQL(sql: ":n", arguments: ["n": "x"])),
            #"SELECT * FROM "player" ORDER BY "name" = 'x'"#)
    }

    private static func commonTables(_ table: RequestTable) {
        let best = CommonTableExpression<Player>(named: "best", request: Player.order(score.desc).limit(3))
        table(
            best.all().with(best),
            #"WITH "best" AS (SELECT * FROM "player" ORDER BY "score" DESC LIMIT 3) SELECT * FROM "best""#)
        let scores = CommonTableExpression<Int>(named: "best", request: Player.select(score).filter(name == "a"))
        table(
            Player.all().with(best).with(scores).filter(scores.contains(score)),
            #"WITH "best" AS (SELECT "score" FROM "player" WHERE "name" = 'a') "#
                + #"SELECT * FROM "player" WHERE "score" IN "best""#)
        let numbers = CommonTableExpression<Row>(
            recursive: true, named: "n", columns: ["i"],
            sql: "SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?", arguments: [1, 5])
        table(
            numbers.all().with(numbers).filter(Column("i") > 2),
            #"WITH RECURSIVE "n"("i") AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) "#
                + #"SELECT * FROM "n" WHERE "i" > 2"#)
        let names = CommonTableExpression<Row>(named: "names", literal: "SELECT \(name) AS score FROM \(Player.self)")
        table.delete(
            Player.all().with(names).filter(names.contains(score)),
            #"WITH "names" AS (SELECT "name" AS score FROM "player") DELETE FROM "player" WHERE "score" IN "names""#)
    }

    @Test("a statement of such text has the values of its names and numbers")
    func parametersOfStatements() throws {
        try Schema.queue().write { db in
            try db.execute(sql: "INSERT INTO player (id, name, score) VALUES (1, 'x', 5), (2, 'x', 50), (3, 'y', 50)")
            let least = SQL(sql: "score > :min", arguments: ["min": 10])
            let query: SQL = "SELECT id FROM player WHERE \(Self.name) = \("x") AND \(least)"
            #expect(try SQLRequest<Int>(literal: query).fetchAll(db) == [2])
            let twice = SQL(sql: "score > ?1 AND id > ?1 - 9", arguments: [11])
            try db.execute(literal: "UPDATE player SET \(Self.score) = 0 WHERE \(Self.id - 1) = \(2) AND \(twice)")
            #expect(try Int.fetchAll(db, sql: "SELECT id FROM player WHERE score = 0") == [3])
            // Both texts have a value of the name.
            try db.execute(
                literal: "DELETE FROM player WHERE id = 1 OR " + least + " AND "
                    + SQL(sql: "id > :min", arguments: ["min": 2]))
            #expect(try Int.fetchAll(db, sql: "SELECT id FROM player") == [2, 3])
        }
    }
}
