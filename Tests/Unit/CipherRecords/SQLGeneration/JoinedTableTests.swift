import CipherDatabase
import Testing

@testable import CipherRecords

@Suite("Joined tables")
struct JoinedTableTests {
    private func team(selecting selection: [Selection] = [.allColumns(.request)]) -> Relation {
        Relation(table: "team", selection: selection)
    }

    private func players(_ joins: Join...) -> Relation {
        var players = Relation(table: "player")
        players.joins = joins
        return players
    }

    private func join(_ key: String, _ kind: Join.Kind, _ relation: Relation) -> Join {
        Join(
            key: key, kind: kind, link: .columns([Join.ColumnPair(left: "teamId", right: "id")]), relation: relation)
    }

    private func sql(_ relation: Relation) throws -> SQLGenerator {
        try SQLGenerator.generate(
            .select(relation, singleResult: false), facts: SchemaFacts(tables: Schema.tables))
    }

    @Test("columns are qualified, the filters of a joined table stand in its ON, orders follow each other")
    func qualification() throws {
        var team = team()
        team.filters = [Term(Column("name") == "Reds")]
        team.ordering.elements = [.term(Term(Column("name")), .ascending)]
        var relation = players(join("team", .required, team))
        relation.filters = [Term(Column("score") > 1)]
        relation.ordering.elements = [.term(Term(Column("score")), .descending)]
        try #expect(
            sql(relation).text
                == #"SELECT "player".*, "team".* FROM "player" JOIN "team" ON ("team"."id" = "player"."teamId") "#
                + #"AND ("team"."name" = ?) WHERE "player"."score" > ? ORDER BY "player"."score" DESC, "team"."name""#)
        try #expect(sql(relation).values == ["Reds".databaseValue, 1.databaseValue])
    }

    @Test("a table that is used twice is numbered, and one with an alias keeps it")
    func names() throws {
        let captain = players()
        var named = captain
        named.alias = AliasID(name: "boss")
        try #expect(
            sql(players(join("captain", .optional, captain))).text
                == #"SELECT "player1".*, "player2".* FROM "player" "player1" LEFT JOIN "player" "player2" "#
                + #"ON "player2"."id" = "player1"."teamId""#)
        try #expect(
            sql(players(join("captain", .optional, named))).text
                == #"SELECT "player".*, "boss".* FROM "player" LEFT JOIN "player" "boss" "#
                + #"ON "boss"."id" = "player"."teamId""#)
        named.joins = [join("deputy", .optional, named)]
        #expect(throws: DatabaseError.self) { try sql(named) }
    }

    @Test("a column of an alias belongs to its table, wherever the expression stands")
    func aliases() throws {
        let alias = TableAlias<Team>()
        var team = team(selecting: [])
        team.alias = alias.id
        var relation = players(join("team", .required, team))
        relation.filters = [Term(alias["name"] == Column("name")), Term(alias.exists)]
        try #expect(
            sql(relation).text
                == #"SELECT "player".* FROM "player" JOIN "team" ON "team"."id" = "player"."teamId" "#
                + #"WHERE ("team"."name" = "player"."name") AND ("team"."id" IS NOT NULL)"#)
    }

    @Test("the columns of joined tables are scopes of the row")
    func scopes() throws {
        let queue = try Schema.queue()
        try queue.write { db in
            try db.execute(
                sql: """
                    INSERT INTO team VALUES (1, 'Reds');
                    INSERT INTO player (id, name, teamId) VALUES (1, 'Ann', 1), (2, 'Bob', NULL)
                    """)
            var captain = players(join("team", .optional, team(selecting: [.expression(Term(Column("name")))])))
            captain.selection = []
            var relation = players(join("team", .optional, team()), join("captain", .optional, captain))
            relation.ordering.elements = [.term(Term(Column("id")), .ascending)]
            let rows = try Row.fetchAll(db, QueryInterfaceRequest<Row>(relation: relation))
            #expect(rows.map { $0["name"] as String } == ["Ann", "Bob"])
            #expect(rows.map(\.count) == [5, 5])
            #expect(rows[0].scopes["team"] == ["id": 1, "name": "Reds"])
            #expect(rows[1].scopes["team"]?.containsNonNullValue == false)
            #expect(rows[0].scopes["captain"]?.scopes["team"] == ["name": "Reds"])
        }
    }

    @Test("rows of a joined request are deleted by their keys")
    func changes() throws {
        var team = team()
        team.filters = [Term(Column("name") == "Reds")]
        let generated = try SQLGenerator.generate(
            .delete(players(join("team", .required, team)), returning: []), facts: SchemaFacts(tables: Schema.tables))
        #expect(
            generated.text
                == #"DELETE FROM "player" WHERE "id" IN (SELECT "player"."id" FROM "player" "#
                + #"JOIN "team" ON ("team"."id" = "player"."teamId") AND ("team"."name" = ?))"#)
    }

    @Test("joined rows are reversed and unordered with the others")
    func orders() throws {
        var team = team(selecting: [])
        team.ordering.elements = [.term(Term(Column("name")), .ascending)]
        var relation = players(join("team", .required, team))
        relation.ordering.elements = [.primaryKey]
        let request = QueryInterfaceRequest<Row>(relation: relation)
        let text = #"SELECT "player".* FROM "player" JOIN "team" ON "team"."id" = "player"."teamId""#
        #expect(
            try sql(request.reversed().relation).text == text + #" ORDER BY "player"."id" DESC, "team"."name" DESC"#)
        #expect(try sql(request.reversed().reversed().relation).text == sql(relation).text)
        #expect(try sql(request.unordered().relation).text == text)
        let facts = SchemaFacts(tables: Schema.tables)
        #expect(try SQLGenerator.generate(.count(relation), facts: facts).text == "SELECT COUNT(*) FROM (\(text))")
        #expect(try SQLGenerator.generate(.exists(relation), facts: facts).text == "SELECT EXISTS (\(text))")
    }
}
