import CipherDatabase
import Foundation
import Testing

@testable import CipherRecords

@Suite("Selections, tables, aliases, collations and closures become SQL")
struct SelectionTests {
    private static let id = Column("id")
    private static let name = Column("name")
    private static let score = Column("score")

    static let sections = [
        RequestSection("a table without a record type", tables),
        RequestSection("collations", collations),
        RequestSection("expressions of an aliased table", aliases),
        RequestSection("closures that need a connection", connected),
        RequestSection("bits, bounds, sums in an order", bits),
        RequestSection("one row at most", oneRow),
        RequestSection("SQL text of expressions", text),
        RequestSection("queries that are SQL text", queries),
        RequestSection("dates", dates),
        RequestSection("lists that are one parameter", lists),
    ]

    @Test("each selection becomes its SQL", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static func tables(_ table: RequestTable) {
        let players = Table("player")
        table(players.none(), #"SELECT * FROM "player" WHERE 0"#)
        table(players.select(id, name), #"SELECT "id", "name" FROM "player""#)
        table(players.select([id, name]), #"SELECT "id", "name" FROM "player""#)
        table(players.select(sql: "id, ?", arguments: ["it's"]), #"SELECT id, 'it''s' FROM "player""#)
        table(players.select(literal: "id, \("it's")"), #"SELECT id, 'it''s' FROM "player""#)
        table(players.select(id, as: Int64.self), #"SELECT "id" FROM "player""#)
        table(players.select([name], as: String.self), #"SELECT "name" FROM "player""#)
        table(players.select(sql: "id", as: Int64.self), #"SELECT id FROM "player""#)
        table(players.select(literal: "id", as: Int64.self), #"SELECT id FROM "player""#)
        table(players.selectPrimaryKey(as: Int64.self), #"SELECT "id" FROM "player""#)
        table(Table<Named>("player").selectID(), #"SELECT "id" FROM "player""#)
        table(Table<Named?>("player").all(), #"SELECT * FROM "player""#)
        table(Table<Named>("player").filter(id: 1), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table(Table<Named>("player").filter(ids: [1, 2]), #"SELECT * FROM "player" WHERE "id" IN (1, 2)"#)
        table(Table<Player>("player").select { $0.name }, #"SELECT "name" FROM "player""#)
        table(Table<Player>("player").select({ $0.name }, as: String.self), #"SELECT "name" FROM "player""#)
        table(Table<Player>("player").select { [$0.id, $0.name] }, #"SELECT "id", "name" FROM "player""#)
        table(Table<Player>("player").annotated { $0.score + 1 }, #"SELECT *, "score" + 1 FROM "player""#)
        table(players.annotated(with: Column.rowID), #"SELECT *, "rowid" FROM "player""#)
        table(players.filter(score > 10), #"SELECT * FROM "player" WHERE "score" > 10"#)
        table(players.filter(key: ["id": 1]), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table(
            players.filter(keys: [["id": 1], ["id": 2]]), #"SELECT * FROM "player" WHERE ("id" = 1) OR ("id" = 2)"#)
        table(players.order(id, name.desc), #"SELECT * FROM "player" ORDER BY "id", "name" DESC"#)
        table(
            players.order(literal: "IFNULL(name, \("x"))"), #"SELECT * FROM "player" ORDER BY IFNULL(name, 'x')"#)
        table(players.aliased(TableAlias(name: "p")), #"SELECT "p".* FROM "player" "p""#)
        table(
            players.with(CommonTableExpression(named: "c", literal: "SELECT \("x")")),
            #"WITH "c" AS (SELECT 'x') SELECT * FROM "player""#)
        table(Member.selectID(), #"SELECT "id" FROM "player""#)
        table(Member.filter(ids: Set([3])), #"SELECT * FROM "player" WHERE "id" = 3"#)
        table(
            Player.select(.allColumns(excluding: [Column("email")])),
            #"SELECT "id", "name", "score", "teamId" FROM "player""#)
    }

    private struct Named: Identifiable { var id: Int64 }

    private struct Member: TableRecord, Identifiable {
        static let databaseTableName = "player"
        var id: Int64
    }

    private static func collations(_ table: RequestTable) {
        let folded = name.collating(.nocase)
        table.filter(folded == "a", #""name" = 'a' COLLATE NOCASE"#)
        table.filter(folded == nil as String?, #""name" IS NULL COLLATE NOCASE"#)
        table.filter(folded != "a", #""name" <> 'a' COLLATE NOCASE"#)
        table.filter(!(folded == "a"), #""name" <> 'a' COLLATE NOCASE"#)
        table.filter(folded === "a", #""name" IS 'a' COLLATE NOCASE"#)
        table.filter(folded !== "a", #""name" IS NOT 'a' COLLATE NOCASE"#)
        table.filter(folded < "a", #""name" < 'a' COLLATE NOCASE"#)
        table.filter(folded <= "a", #""name" <= 'a' COLLATE NOCASE"#)
        table.filter(folded > "a", #""name" > 'a' COLLATE NOCASE"#)
        table.filter(folded >= "a", #""name" >= 'a' COLLATE NOCASE"#)
        table.filter(!(folded > "a"), #"NOT ("name" > 'a' COLLATE NOCASE)"#)
        table.filter(folded == "a" && score > 1, #"("name" = 'a' COLLATE NOCASE) AND ("score" > 1)"#)
        table.filter(["a", "b"].contains(folded), #"("name" COLLATE NOCASE) IN ('a', 'b')"#)
        table.filter(!["a", "b"].contains(folded), #"("name" COLLATE NOCASE) NOT IN ('a', 'b')"#)
        table.filter(["a"].contains(folded), #""name" = 'a' COLLATE NOCASE"#)
        table.filter([String]().contains(folded), "0")
        table.filter(["a", "b"].contains(name).collating(.nocase), #"("name" COLLATE NOCASE) IN ('a', 'b')"#)
        table.filter([String]().contains(name).collating(.nocase), "0 COLLATE NOCASE")
        table.filter(("a"..."b").contains(folded), #"("name" COLLATE NOCASE) BETWEEN 'a' AND 'b'"#)
        table.filter(
            ("a"..<"b").contains(folded), #"("name" >= 'a' COLLATE NOCASE) AND ("name" < 'b' COLLATE NOCASE)"#)
        table.filter(
            ("a"..<"b").contains(name).collating(.nocase),
            #"("name" >= 'a' COLLATE NOCASE) AND ("name" < 'b' COLLATE NOCASE)"#)
        table.filter((name == "a").collating(.nocase), #""name" = 'a' COLLATE NOCASE"#)
        table.filter(
            name.collating(.unicodeCompare) == "a", #""name" = 'a' COLLATE swiftCompare"#)
        table(Player.order(folded.desc), #"SELECT * FROM "player" ORDER BY "name" COLLATE NOCASE DESC"#)
        table(Player.order(folded.asc).reversed(), #"SELECT * FROM "player" ORDER BY "name" COLLATE NOCASE DESC"#)
        table(
            Player.order(folded.ascNullsLast), #"SELECT * FROM "player" ORDER BY "name" COLLATE NOCASE ASC NULLS LAST"#)
    }

    private static func aliases(_ table: RequestTable) {
        let alias = TableAlias<Player>(name: "p")
        let players = Player.aliased(alias)
        table(players.select(alias[id]), #"SELECT "p"."id" FROM "player" "p""#)
        table(players.select(alias["id"]), #"SELECT "p"."id" FROM "player" "p""#)
        table(players.select(alias.score), #"SELECT "p"."score" FROM "player" "p""#)
        table(players.select(alias[.allColumns]), #"SELECT "p".* FROM "player" "p""#)
        table(players.select(alias[score + 1]), #"SELECT "p"."score" + 1 FROM "player" "p""#)
        table(players.select(alias[(score + 1).forKey("more")]), #"SELECT "p"."score" + 1 AS "more" FROM "player" "p""#)
        table(
            players.select(alias[.allColumns(excluding: ["score", "email", "teamId"])]),
            #"SELECT "p"."id", "p"."name" FROM "player" "p""#)
        table(players.order(alias[score.desc]), #"SELECT "p".* FROM "player" "p" ORDER BY "p"."score" DESC"#)
        table(players.order(alias[score].desc), #"SELECT "p".* FROM "player" "p" ORDER BY "p"."score" DESC"#)
        table(players.filter(alias[score > 1]), #"SELECT "p".* FROM "player" "p" WHERE "p"."score" > 1"#)
        table(
            Team.filter(players.filter(alias[score > 1]).exists()),
            #"SELECT * FROM "team" WHERE EXISTS (SELECT "p".* FROM "player" "p" WHERE "p"."score" > 1)"#)
        let outer = TableAlias<Team>()
        table(
            Team.aliased(outer).filter(
                SQLRequest<Row>("SELECT 1 FROM player WHERE teamId = \(outer[Column("id")])").exists()),
            #"SELECT * FROM "team" WHERE EXISTS (SELECT 1 FROM player WHERE teamId = "team"."id")"#)
        table(
            Team.aliased(outer).filter(
                Player.select(count(.allColumns)).filter { $0.teamId == outer[Column("id")] } > 1),
            #"SELECT * FROM "team" WHERE (SELECT COUNT(*) FROM "player" WHERE "teamId" = "team"."id") > 1"#)
        table.count(players.select(alias[id]), #"SELECT COUNT(*) FROM "player" "p""#)
    }

    private static func connected(_ table: RequestTable) {
        table(
            Player.all().selectWhenConnected { _ in [name, score + 1] }, #"SELECT "name", "score" + 1 FROM "player""#)
        table(
            Player.all().annotatedWhenConnected { _ in [score + 1] }, #"SELECT *, "score" + 1 FROM "player""#)
        table(Player.all().filterWhenConnected { _ in true }, #"SELECT * FROM "player" WHERE 1"#)
        table(
            Player.filter(name == "a").filterWhenConnected { db in
                score > (try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM player") ?? 0)
            }, #"SELECT * FROM "player" WHERE ("name" = 'a') AND ("score" > 0)"#)
        table(
            Player.all().groupWhenConnected { _ in [name, score] }.havingWhenConnected { _ in max(score) > 1 },
            #"SELECT * FROM "player" GROUP BY "name", "score" HAVING MAX("score") > 1"#)
        table(
            Player.all().orderWhenConnected { _ in [name, score.desc] }.reversed(),
            #"SELECT * FROM "player" ORDER BY "name" DESC, "score" ASC"#)
        table(
            Team.filter(Player.all().filterWhenConnected { _ in score == 5 }.exists()),
            #"SELECT * FROM "team" WHERE EXISTS (SELECT * FROM "player" WHERE "score" = 5)"#)
        table.count(
            Player.all().filterWhenConnected { _ in score == 5 }, #"SELECT COUNT(*) FROM "player" WHERE "score" = 5"#)
        table.delete(
            Player.all().filterWhenConnected { _ in score == 5 }, #"DELETE FROM "player" WHERE "score" = 5"#)
    }

    private static func bits(_ table: RequestTable) {
        table.select(2 & (score & score), #"2 & "score" & "score""#)
        table.select(2 | (score | score), #"2 | "score" | "score""#)
        table.select((score << score) << 1, #"("score" << "score") << 1"#)
        table.select(~(~score + 1), #"~((~"score") + 1)"#)
        table.select([].joined(operator: .bitwiseAnd), "-1")
        table.select([].joined(operator: .bitwiseOr), "0")
        table.select([].joined(operator: .concat), "''")
        table.select([score, 1.databaseValue].joined(operator: .bitwiseOr), #""score" | 1"#)
        table.select(
            [[score, id].joined(operator: .add), [id, score].joined(operator: .add)].joined(operator: .add),
            #"("score" + "id") + ("id" + "score")"#)
        table.select(
            [[name, "-".databaseValue].joined(operator: .concat), name].joined(operator: .concat),
            #""name" || '-' || "name""#)
        table.select(max(score, 10), #"MAX("score", 10)"#)
        table.select(max(score, 10, id), #"MAX("score", 10, "id")"#)
        table.select(min(score, 10), #"MIN("score", 10)"#)
        table.select(min(score, id, 10), #"MIN("score", "id", 10)"#)
        table.select(sum(score, orderBy: id), #"SUM("score" ORDER BY "id")"#)
        table.select(
            sum(score / 2, orderBy: id.desc, filter: score > 0),
            #"SUM("score" / 2 ORDER BY "id" DESC) FILTER (WHERE "score" > 0)"#)
        table.select(total(score, orderBy: id), #"TOTAL("score" ORDER BY "id")"#)
        table.select(total(score, filter: score > 0), #"TOTAL("score") FILTER (WHERE "score" > 0)"#)
        table.select(coalesce([]), "NULL")
        table.filter(name.like("a") == true, #"("name" LIKE 'a') = 1"#)
        table.filter(name.like("a") == false, #"("name" LIKE 'a') = 0"#)
        table.filter(score != true, #""score" <> 1"#)
        table.filter(true != score, #""score" <> 1"#)
        table.filter(!(score == false), #""score" <> 0"#)
    }

    private static func oneRow(_ table: RequestTable) {
        table.one(Player.filter(id == 1), #"SELECT * FROM "player" WHERE "id" = 1"#)
        table.one(Player.filter(1 == id), #"SELECT * FROM "player" WHERE 1 = "id""#)
        table.one(Player.filter(id == nil), #"SELECT * FROM "player" WHERE "id" IS NULL"#)
        table.one(Player.filter(id === 1), #"SELECT * FROM "player" WHERE "id" IS 1"#)
        table.one(
            Player.filter(id == 1 && name == "a"), #"SELECT * FROM "player" WHERE ("id" = 1) AND ("name" = 'a')"#)
        table.one(
            Player.filter(id == 1).filter(name == "a"), #"SELECT * FROM "player" WHERE ("id" = 1) AND ("name" = 'a')"#)
        table.one(
            Player.filter(id == 1 || name == "a"), #"SELECT * FROM "player" WHERE ("id" = 1) OR ("name" = 'a') LIMIT 1"#
        )
        table.one(Player.filter(id), #"SELECT * FROM "player" WHERE "id" LIMIT 1"#)
        table.one(Player.filter(id != 1), #"SELECT * FROM "player" WHERE "id" <> 1 LIMIT 1"#)
        table.one(Player.filter(id == score), #"SELECT * FROM "player" WHERE "id" = "score" LIMIT 1"#)
        table.one(
            Citizenship.filter(Column("citizenId") == 1 && Column("countryCode") == "FR"),
            #"SELECT * FROM "citizenship" WHERE ("citizenId" = 1) AND ("countryCode" = 'FR')"#)
        table.one(
            Player.select(max(score).forKey("m"), min(score)),
            #"SELECT MAX("score") AS "m", MIN("score") FROM "player""#)
        table.one(Player.select(max(score) + 1), #"SELECT MAX("score") + 1 FROM "player""#)
    }

    private static func text(_ table: RequestTable) {
        let pieces = [SQL(name), SQL("!".databaseValue), SQL(score + 1)]
        table.select(pieces.joined(separator: " || "), #""name" || '!' || ("score" + 1)"#)
        let all: any SQLSelectable = AllColumns()
        table(Player.select(literal: "\(all), \(2)"), #"SELECT *, 2 FROM "player""#)
        let order: any SQLOrderingTerm = score.desc
        table(Player.order(literal: "\(order)"), #"SELECT * FROM "player" ORDER BY "score" DESC"#)
        table(Player.select(literal: "\(nil as Int?)"), #"SELECT NULL FROM "player""#)
        table(Player.select(literal: "\(DatabaseValue.null)"), #"SELECT NULL FROM "player""#)
        table(
            Player.select(literal: "\(.allColumns(excluding: ["score", "email", "teamId"]) as AllColumnsExcluding)"),
            #"SELECT "id", "name" FROM "player""#)
        table(
            Player.filter(literal: "\(name.collating(.nocase)) = \("a")"),
            #"SELECT * FROM "player" WHERE "name" COLLATE NOCASE = 'a'"#)
        table(
            Player.filter(SQL("DATE(\(name))") == "2026-01-31"),
            #"SELECT * FROM "player" WHERE (DATE("name")) = '2026-01-31'"#)
        table(
            Player.aliased(TableAlias(name: "p")).select(SQL("\(name) || \("x")").forKey("both")),
            #"SELECT "p"."name" || 'x' AS "both" FROM "player" "p""#)
    }

    private static func queries(_ table: RequestTable) {
        let highest: SQLRequest<Int> = "SELECT MAX(\(score)) FROM \(Player.self)"
        table(
            Player.aliased(TableAlias(name: "p")).filter(literal: "\(score) = (\(highest))"),
            #"SELECT "p".* FROM "player" "p" WHERE "p"."score" = (SELECT MAX("score") FROM "player")"#)
        let best: SQLRequest<Int> = "SELECT MAX(score) FROM player WHERE name <> \("x")"
        table.filter(score == best, #""score" = (SELECT MAX(score) FROM player WHERE name <> 'x')"#)
        table.filter(best.contains(score), #""score" IN (SELECT MAX(score) FROM player WHERE name <> 'x')"#)
        table.filter(!best.exists(), #"NOT EXISTS (SELECT MAX(score) FROM player WHERE name <> 'x')"#)
        table(
            Player.annotated(with: best), #"SELECT *, (SELECT MAX(score) FROM player WHERE name <> 'x') FROM "player""#)
        let named = CommonTableExpression<Void>(named: "best", request: best)
        table(
            Player.all().with(named).filter(named.contains(score)),
            #"WITH "best" AS (SELECT MAX(score) FROM player WHERE name <> 'x') "#
                + #"SELECT * FROM "player" WHERE "score" IN "best""#)
        let unnamed = CommonTableExpression<Void>(named: "n", columns: [], literal: "SELECT 1 AS id")
        table(unnamed.all().with(unnamed), #"WITH "n" AS (SELECT 1 AS id) SELECT * FROM "n""#)
        let columns = CommonTableExpression(named: "n", columns: ["a", "b"], sql: "SELECT ?, 2", arguments: [1])
        table(columns.all().with(columns), #"WITH "n"("a", "b") AS (SELECT 1, 2) SELECT * FROM "n""#)
        table(
            Player.all().with(named).annotated(with: named.all()),
            #"WITH "best" AS (SELECT MAX(score) FROM player WHERE name <> 'x') "#
                + #"SELECT *, (SELECT * FROM "best") FROM "player""#)
        table.update(
            Player.all().with(unnamed), [score.set(to: unnamed.all())],
            #"WITH "n" AS (SELECT 1 AS id) UPDATE "player" SET "score" = (SELECT * FROM "n")"#)
    }

    private static func dates(_ table: RequestTable) {
        table.select(dateTime(name), #"DATETIME("name")"#)
        table.select(dateTime(name, .day(1), .hour(-2)), #"DATETIME("name", '1 days', '-2 hours')"#)
        table.select(dateTime(name, .minute(3), .second(1.5)), #"DATETIME("name", '3 minutes', '1.5 seconds')"#)
        table.select(dateTime(name, .month(-1), .year(2)), #"DATETIME("name", '-1 months', '2 years')"#)
        table.select(
            dateTime(name, .startOfMonth, .startOfYear, .startOfDay),
            #"DATETIME("name", 'start of month', 'start of year', 'start of day')"#)
        table.select(
            julianDay(name, .weekday(0), .unixEpoch, .localTime, .utc),
            #"JULIANDAY("name", 'weekday 0', 'unixepoch', 'localtime', 'utc')"#)
        table.select(SQLDateModifier.day(2), "'2 days'")
    }

    private static func lists(_ table: RequestTable) {
        let numbers = Array(1...65)
        let json = "[" + numbers.map(String.init).joined(separator: ",") + "]"
        table.filter(numbers.contains(score), #""score" IN (SELECT +value FROM json_each('\#(json)'))"#)
        table.filter(!numbers.contains(score), #""score" NOT IN (SELECT +value FROM json_each('\#(json)'))"#)
        table(
            Player.filter(keys: numbers),
            #"SELECT * FROM "player" WHERE "id" IN (SELECT +value FROM json_each('\#(json)'))"#)
        let short = numbers.dropLast().map(String.init).joined(separator: ", ")
        table.filter(numbers.dropLast().contains(score), #""score" IN (\#(short))"#)
    }
}
