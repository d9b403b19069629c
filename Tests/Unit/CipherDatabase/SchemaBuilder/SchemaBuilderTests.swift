import CipherDatabase
import Testing

/// Tables, indexes and views made in Swift, as migrations do.
@Suite struct SchemaBuilderTests {
    let queue = DatabaseQueue()

    /// The SQL that a definition becomes.
    private func sql(of name: String, _ make: (Database) throws -> Void) throws -> String? {
        try queue.write { db in
            try make(db)
            return try String.fetchOne(db, sql: "SELECT sql FROM sqlite_schema WHERE name = ?", arguments: [name])
        }
    }

    @Test("columns, constraints and keys become SQL in a fixed order")
    func table() throws {
        let text = try sql(of: "player") { db in
            try db.create(table: "player") { t in
                t.autoIncrementedPrimaryKey("id")
                t.column("name", .text).notNull().unique(onConflict: .replace).collate(.nocase)
                t.column("score", .integer).notNull().defaults(to: -3).check(sql: "score > -10")
                t.column("note").defaults(to: "it's")
                t.column("made", .datetime).defaults(sql: "CURRENT_TIMESTAMP")
                t.column("twice", .integer).generatedAs(sql: "score * 2", .stored)
                t.column(sql: "free TEXT")
                t.uniqueKey(["score", "name"])
                t.check(sql: "name <> ''")
                t.constraint(sql: "CHECK (free IS NULL)")
            }
        }
        #expect(
            text == #"CREATE TABLE "player" ("id" INTEGER PRIMARY KEY AUTOINCREMENT, "#
                + #""name" TEXT NOT NULL UNIQUE ON CONFLICT REPLACE COLLATE NOCASE, "#
                + #""score" INTEGER NOT NULL DEFAULT -3 CHECK (score > -10), "note" DEFAULT 'it''s', "#
                + #""made" DATETIME DEFAULT CURRENT_TIMESTAMP, "#
                + #""twice" INTEGER GENERATED ALWAYS AS (score * 2) STORED, free TEXT, "#
                + #"UNIQUE ("score", "name"), CHECK (name <> ''), CHECK (free IS NULL))"#)
        let row = try queue.write { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('Ann')")
            return try Row.fetchOne(db, sql: "SELECT score, note, twice, made IS NOT NULL AS dated FROM player")
        }
        #expect(row == ["score": -3, "note": "it's", "twice": -6, "dated": 1])
    }

    @Test("primary keys refuse NULL, but for an integer, which counts; names are quoted")
    func primaryKeys() throws {
        try queue.write { db throws in
            try db.create(table: "country") { t in t.primaryKey("code", .text) }
            #expect(databaseError { try db.execute(sql: "INSERT INTO country VALUES (NULL)") } != nil)
            try db.create(table: "od\"d name") { t in t.primaryKey("a \"key\"", .integer) }
            try db.execute(sql: #"INSERT INTO "od""d name" VALUES (NULL)"#)
            #expect(try db.primaryKey("od\"d name").rowIDColumn == "a \"key\"")
            try db.create(table: "citizenship", options: [.withoutRowID, .strict]) { t in
                t.primaryKey {
                    t.column("person", .integer)
                    t.column("country", .text)
                }
            }
            #expect(try db.primaryKey("citizenship").columns == ["person", "country"])
            #expect(try db.columns(in: "citizenship").allSatisfy(\.isNotNull))
            #expect(databaseError { try db.execute(sql: "INSERT INTO citizenship VALUES ('x', 'fr')") } != nil)
            try db.create(table: "plain") { t in t.primaryKey { t.column("a") } }
            #expect(try db.columns(in: "plain").map(\.isNotNull) == [true])
            try db.create(table: "pair") { t in
                t.column("a")
                t.column("b")
                t.primaryKey(["b", "a"], onConflict: .ignore)
            }
            #expect(try db.primaryKey("pair").columns == ["b", "a"])
        }
    }

    @Test("tables are temporary, or left alone where they exist, in both spellings")
    func options() throws {
        try queue.write { db throws in
            try db.create(table: "t", options: .temporary) { $0.column("a", .text).indexed() }
            #expect(try db.tableExists("t", in: "temp"))
            try db.create(table: "u") { $0.column("a") }
            for _ in 0..<2 {
                try db.create(table: "u", options: .ifNotExists) { $0.column("b") }
                try db.create(table: "u", ifNotExists: true) { $0.column("b") }
                try db.create(table: "v", temporary: false, ifNotExists: true, withoutRowID: true) { t in
                    t.primaryKey("k", .text)
                    t.column("b").indexed()
                }
            }
            #expect(try db.columns(in: "u").map(\.name) == ["a"])
            #expect(databaseError { try db.create(table: "u") { $0.column("b") } }?.resultCode == .SQLITE_ERROR)
            #expect(databaseError { try db.create(table: "w") { _ in } } != nil, "a table needs a column")
        }
    }

    @Test("references and foreign keys act as they are told")
    func foreignKeys() throws {
        let text = try sql(of: "book") { db in
            try db.create(table: "author") { $0.autoIncrementedPrimaryKey("id") }
            try db.create(table: "book") { t in
                t.column("author", .integer).notNull().references("author", onDelete: .cascade)
                t.column("other", .integer).references("author", column: "id", onUpdate: .setNull, deferred: true)
                t.foreignKey(["author"], references: "author", columns: ["id"], onDelete: .setDefault)
            }
        }
        #expect(
            text == #"CREATE TABLE "book" ("author" INTEGER NOT NULL REFERENCES "author" ON DELETE CASCADE, "#
                + #""other" INTEGER REFERENCES "author"("id") ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED, "#
                + #"FOREIGN KEY ("author") REFERENCES "author"("id") ON DELETE SET DEFAULT)"#)
    }

    @Test("belongsTo finds table, key and type, and adds an index")
    func belongsTo() throws {
        try queue.write { db throws in
            try db.create(table: "team") { $0.primaryKey("id", .text) }
            try db.create(table: "cities") { t in
                t.primaryKey {
                    t.column("zip", .text)
                    t.column("country", .text)
                }
            }
            try db.create(table: "player") { t in
                t.autoIncrementedPrimaryKey("id")
                try t.belongsTo("team", onDelete: .cascade).notNull()
                try t.belongsTo("city")
                try t.belongsTo("captain", inTable: "player", indexed: false)
            }
            let columns = try db.columns(in: "player")
            #expect(columns.map(\.name) == ["id", "teamId", "cityZip", "cityCountry", "captainId"])
            #expect(columns.map(\.type) == ["INTEGER", "TEXT", "TEXT", "TEXT", "INTEGER"])
            #expect(columns[1].isNotNull)
            let keys = try db.foreignKeys(on: "player").map { "\($0.destinationTable) \($0.mapping)" }.sorted()
            #expect(keys.count == 3 && keys[0].hasPrefix("cities") && keys[2].hasPrefix("team"))
            #expect(try db.indexes(on: "player").map { $0.columns }.contains(["cityZip", "cityCountry"]))
            #expect(try db.indexes(on: "player").map(\.name).contains("player_on_teamId"))
            let missing = databaseError { try db.create(table: "x") { _ = try $0.belongsTo("nothing") } }
            #expect(missing?.message == "no such table: nothing")
            try db.create(table: "loose") { $0.column("a") }
            #expect(databaseError { try db.create(table: "x") { _ = try $0.belongsTo("loose") } } != nil)
        }
    }

    @Test("a table is altered step by step, renamed and dropped")
    func altering() throws {
        try queue.write { db throws in
            try db.create(table: "t") { t in
                t.column("a", .integer)
                t.column("gone")
            }
            try db.alter(table: "t") { t in
                t.add(column: "b", .text).notNull().defaults(to: "x").indexed()
                t.addColumn(sql: "c DEFAULT 3")
                t.rename(column: "a", to: "first")
                t.drop(column: "gone")
            }
            #expect(try db.columns(in: "t").map(\.name) == ["first", "b", "c"])
            #expect(try db.indexes(on: "t").map(\.name) == ["t_on_b"])
            try db.rename(table: "t", to: "u")
            #expect(try db.tableExists("u") && !db.tableExists("t"))
            try db.drop(table: "u")
            #expect(try !db.tableExists("u"))
            #expect(databaseError { try db.drop(table: "u") }?.message == "no such table: u")
        }
    }

    @Test("indexes are made by name, or named after their columns, and dropped by either")
    func indexes() throws {
        let text = try sql(of: "byName") { db in
            try db.create(table: "t") { t in
                t.column("a").indexed()
                t.column("b").unique().indexed()
            }
            try db.create(
                index: "byName", on: "t", columns: ["b", "a"], options: [.unique, .ifNotExists], condition: "a > 0")
            try db.create(index: "earlier", on: "t", columns: ["a"], unique: true, ifNotExists: true)
            try db.create(indexOn: "t", columns: ["a", "b"])
        }
        #expect(text == #"CREATE UNIQUE INDEX "byName" ON "t"("b", "a") WHERE a > 0"#)
        try queue.write { db throws in
            let names = try db.indexes(on: "t").filter { $0.origin == .createIndex }.map(\.name)
            #expect(Set(names) == ["t_on_a", "byName", "earlier", "index_t_on_a_b"])
            try db.drop(index: "earlier")
            try db.drop(indexOn: "t", columns: ["A", "b"])
            #expect(databaseError { try db.drop(indexOn: "t", columns: ["a", "b"]) }?.message == "no index on t(a, b)")
            #expect(databaseError { try db.drop(indexOn: "t", columns: ["b"]) } != nil, "a constraint's index stays")
        }
    }

    @Test("views are made of literals without arguments")
    func views() throws {
        try queue.write { db throws in
            try db.create(view: "v", columns: ["one"], asLiteral: "SELECT 1")
            try db.create(view: "v", options: .ifNotExists, asLiteral: "SELECT 2")
            try db.create(view: "w", options: .temporary, asLiteral: "SELECT 3 AS three")
            #expect(try Row.fetchOne(db, sql: "SELECT one, three FROM v, w") == ["one": 1, "three": 3])
            let error = databaseError { try db.create(view: "x", asLiteral: "SELECT \(1)") }
            #expect(error?.message?.contains("takes no arguments") == true)
            let column = databaseError { try db.create(table: "y") { try $0.column(literal: "a DEFAULT \(1)") } }
            #expect(column?.resultCode == .SQLITE_MISUSE)
            try db.create(table: "y") { t in
                try t.column(literal: "a DEFAULT 1")
                try t.constraint(literal: "CHECK (a > 0)")
            }
            try db.alter(table: "y") { try $0.addColumn(literal: "b") }
            try db.drop(view: "v")
            #expect(try !db.viewExists("v"))
        }
    }

    @Test("a migration builds its schema, and an error of it leaves nothing")
    func migration() throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("player") { db in
            try db.create(table: "player") { t in t.autoIncrementedPrimaryKey("id") }
        }
        try migrator.migrate(queue)
        migrator.registerMigration("broken") { db in
            try db.create(table: "half") { t in t.column("a") }
            try db.create(table: "player") { t in t.column("a") }
        }
        #expect(databaseError { try migrator.migrate(queue) }?.resultCode == .SQLITE_ERROR)
        #expect(try queue.read { try $0.tableExists("player") && !$0.tableExists("half") })
    }
}
