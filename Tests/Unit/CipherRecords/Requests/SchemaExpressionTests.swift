import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

@Suite("Tables, indexes and views are defined by expressions")
struct SchemaExpressionTests {
    private func definition(of name: String, _ db: Database) throws -> String? {
        try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = ?", arguments: [name])
    }

    @Test("checks of columns and of tables")
    func checks() throws {
        try DatabaseQueue().write { db in
            try db.create(table: "offer") { t in
                t.column("price", .integer).check { $0 > 0 }.check { $0 < 1_000 }
                t.column("label", .text).check { length($0) > 1 && $0 != "it's" }
                t.column("code", .text).check(sql: "code <> '?'")
                t.check(Column("price") + 1 < Column("price") * 2 + 5)
            }
            #expect(
                try definition(of: "offer", db)
                    == #"CREATE TABLE "offer" ("price" INTEGER CHECK ("price" > 0) CHECK ("price" < 1000), "#
                    + #""label" TEXT CHECK ((LENGTH("label") > 1) AND ("label" <> 'it''s')), "#
                    + #""code" TEXT CHECK (code <> '?'), CHECK (("price" + 1) < (("price" * 2) + 5)))"#)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO offer VALUES (0, 'ab', 'c')") }
            try db.execute(sql: "INSERT INTO offer VALUES (1, 'ab', 'c')")
        }
    }

    @Test("expressions define generated columns")
    func generated() throws {
        try DatabaseQueue().write { db in
            try db.create(table: "line") { t in
                t.column("price", .integer)
                t.column("double", .integer).generatedAs(Column("price") * 2)
                t.column("kept", .text).generatedAs("it's", .stored)
                t.column("name", .text).generatedAs(JSONColumn("data").jsonExtract(atPath: "$.name")).indexed()
                t.column("data", .jsonText)
            }
            #expect(
                try definition(of: "line", db)
                    == #"CREATE TABLE "line" ("price" INTEGER, "#
                    + #""double" INTEGER GENERATED ALWAYS AS ("price" * 2) VIRTUAL, "#
                    + #""kept" TEXT GENERATED ALWAYS AS ('it''s') STORED, "#
                    + #""name" TEXT GENERATED ALWAYS AS (JSON_EXTRACT("data", '$.name')) VIRTUAL, "data" TEXT)"#)
            try db.alter(table: "line") { t in
                t.add(column: "half", .integer).generatedAs(Column("price") / 2).check { $0 >= 0 }
            }
            try db.execute(sql: #"INSERT INTO line (price, data) VALUES (4, '{"name": "x"}')"#)
            let row = try Row.fetchOne(db, sql: "SELECT double, kept, name, half FROM line")
            #expect(row == ["double": 8, "kept": "it's", "name": "x", "half": 2])
        }
    }

    @Test("indexes on expressions, and on some rows")
    func indexes() throws {
        try Schema.queue().write { db in
            let (name, score) = (Column("name"), Column("score"))
            try db.create(index: "a", on: "player", expressions: [name.collating(.nocase), score * 2])
            #expect(try definition(of: "a", db) == #"CREATE INDEX "a" ON "player"("name" COLLATE NOCASE, "score" * 2)"#)
            try db.create(index: "b", on: "player", columns: ["name"], options: .unique, condition: score > 1)
            #expect(try definition(of: "b", db) == #"CREATE UNIQUE INDEX "b" ON "player"("name") WHERE "score" > 1"#)
            try db.create(
                index: "c", on: "player", columns: ["name", "score"], unique: true, ifNotExists: true,
                condition: name == "it's")
            #expect(
                try definition(of: "c", db)
                    == #"CREATE UNIQUE INDEX "c" ON "player"("name", "score") WHERE "name" = 'it''s'"#)
            try db.create(index: "d", on: "player", columns: ["name"])
            try db.create(index: "e", on: "player", columns: ["name"], condition: "score > 1")
            #expect(try definition(of: "e", db) == #"CREATE INDEX "e" ON "player"("name") WHERE score > 1"#)
            try db.create(index: "f", on: "player", columns: ["name"], condition: score == nil)
            #expect(try definition(of: "f", db) == #"CREATE INDEX "f" ON "player"("name") WHERE "score" IS NULL"#)
            try db.create(indexOn: "player", columns: ["score"], condition: score > 5)
            #expect(
                try definition(of: "index_player_on_score", db)
                    == #"CREATE INDEX "index_player_on_score" ON "player"("score") WHERE "score" > 5"#)
            try db.create(
                index: "g", on: "player", expressions: ["name COLLATE NOCASE", "score DESC"], condition: "id > \(3)")
            #expect(
                try definition(of: "g", db)
                    == #"CREATE INDEX "g" ON "player"(name COLLATE NOCASE, score DESC) WHERE id > 3"#)
            try db.create(
                index: "h", on: "player", expressions: [abs(score), name], options: [.unique, .ifNotExists],
                condition: score != 0)
            #expect(
                try definition(of: "h", db)
                    == #"CREATE UNIQUE INDEX "h" ON "player"(ABS("score"), "name") WHERE "score" <> 0"#)
        }
    }

    @Test("views of requests and of SQL")
    func views() throws {
        try Schema.queue().write { db in
            let best = Player.filter { $0.score > 10 }.select { [$0.name, $0.score] }
            try db.create(view: "best", as: best)
            #expect(
                try definition(of: "best", db)
                    == #"CREATE VIEW "best" AS SELECT "name", "score" FROM "player" WHERE "score" > 10"#)
            try db.create(view: "named", columns: ["n"], as: SQLRequest<Row>(sql: "SELECT ?", arguments: ["it's"]))
            #expect(try definition(of: "named", db) == #"CREATE VIEW "named" ("n") AS SELECT 'it''s'"#)
            try db.create(
                view: "text", options: .ifNotExists, asLiteral: "SELECT \(Column("name")) FROM \(Player.self)")
            #expect(try definition(of: "text", db) == #"CREATE VIEW "text" AS SELECT "name" FROM "player""#)
            try db.execute(sql: "INSERT INTO player (name, score) VALUES ('a', 9), ('b', 11)")
            #expect(try Table("best").select(Column("name"), as: String.self).fetchAll(db) == ["b"])
            // A view has no primary key.
            #expect(throws: DatabaseError.self) { try Table("best").filter(key: 1).fetchOne(db) }
        }
    }
}
