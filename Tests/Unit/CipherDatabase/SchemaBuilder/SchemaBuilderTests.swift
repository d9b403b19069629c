import CipherDatabase
import CipherSchema
import Foundation
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
                t.column("score", .integer).check(sql: "score > -10").defaults(to: -3).notNull()
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
                + #""score" INTEGER NOT NULL CHECK (score > -10) DEFAULT -3, "note" DEFAULT 'it''s', "#
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
            text == #"CREATE TABLE "book" ("author" INTEGER NOT NULL REFERENCES "author"("id") ON DELETE CASCADE, "#
                + #""other" INTEGER REFERENCES "author"("id") ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED, "#
                + #"FOREIGN KEY ("author") REFERENCES "author"("id") ON DELETE SET DEFAULT)"#)
    }

    // A key that is written as SQL was overlooked, and the table was made to refer to its own rowid, as a table without
    // a key is: SQLite refused the first row for a mismatch of the foreign key.
    @Test(
        "a table refers to its own key where that is written as SQL",
        arguments: ["column", "literal", "constraint"], ["references", "foreignKey", "belongsTo", "inTable"])
    func keyAsText(key: String, reference: String) throws {
        try queue.write { db in
            try db.create(table: "nodes") { t in
                switch key {
                case "column": t.column(sql: "id INTEGER PRIMARY KEY")
                case "literal": t.column(literal: "id INTEGER DEFAULT \(1) PRIMARY KEY")
                default:
                    t.column("id", .integer)
                    t.constraint(sql: "PRIMARY KEY (id)")
                }
                switch reference {
                case "references": t.column("nodeId", .integer).references("nodes", onDelete: .cascade)
                case "foreignKey":
                    t.column("nodeId", .integer)
                    t.foreignKey(["nodeId"], references: "Nodes", onDelete: .cascade)
                case "belongsTo": t.belongsTo("node", onDelete: .cascade)
                default: t.belongsTo("node", inTable: "nodes", onDelete: .cascade)
                }
            }
            try db.execute(sql: "INSERT INTO nodes (id, nodeId) VALUES (1, NULL), (2, 1)")
            let orphan = databaseError { try db.execute(sql: "INSERT INTO nodes (id, nodeId) VALUES (3, 9)") }
            #expect(orphan?.message == "FOREIGN KEY constraint failed")
            try db.execute(sql: "DELETE FROM nodes WHERE id = 1")
            #expect(try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM nodes") == 0)
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
            // It threw where there was no index; GRDB's does not, and its migrations count on that.
            try db.drop(indexOn: "t", columns: ["a", "b"])
            #expect(databaseError { try db.drop(indexOn: "t", columns: ["b"]) } != nil, "a constraint's index stays")
            #expect(databaseError { try db.drop(indexOn: "u", columns: ["b"]) }?.message == "no such table: u")
        }
    }

    @Test("indexes are made on expressions, with values as literals")
    func expressionIndexes() throws {
        let text = try sql(of: "byExpression") { db in
            try db.create(table: "t") { t in
                t.column("a")
                t.column("b")
            }
            try db.create(
                index: "byExpression", on: "t", expressions: ["a + \(-1)", "b COLLATE NOCASE DESC"],
                options: [.unique, .ifNotExists], condition: "b <> \("O'Brien")")
        }
        #expect(
            text == #"CREATE UNIQUE INDEX "byExpression" ON "t"(a + -1, b COLLATE NOCASE DESC) "#
                + "WHERE b <> 'O''Brien'")
    }

    @Test("views are made of literals and of requests")
    func views() throws {
        try queue.write { db throws in
            try db.create(view: "v", columns: ["one"], asLiteral: "SELECT 1")
            try db.create(view: "v", options: .ifNotExists, asLiteral: "SELECT 2")
            try db.create(view: "w", options: .temporary, as: SQLRequest(literal: "SELECT \(3) AS three"))
            #expect(try Row.fetchOne(db, sql: "SELECT one, three FROM v, w") == ["one": 1, "three": 3])
            let typed: SQLRequest<String> = "SELECT \("O'Brien") AS name"
            try db.create(view: "x", columns: ["a"], as: typed)
            #expect(
                try String.fetchOne(db, sql: "SELECT sql FROM sqlite_schema WHERE name = 'x'")
                    == #"CREATE VIEW "x" ("a") AS SELECT 'O''Brien' AS name"#)
            try db.drop(view: "v")
            #expect(try !db.viewExists("v"))
        }
    }

    // Values within definitions were refused; a program had to write them as SQL text itself, quotes and all.
    @Test("values in definitions become SQL literals that say the same")
    func literals() throws {
        try queue.write { db throws in
            let texts = ["O'Brien", "", "a\0b", "?", "-- no comment"]
            let data = Data([0, 0x27, 0xff])
            try db.create(table: "t") { t in
                t.column("id")
                for (index, text) in texts.enumerated() { t.column(literal: "text\(sql: "\(index)") DEFAULT \(text)") }
                t.column(literal: "data DEFAULT \(data)")
                t.column(literal: "least DEFAULT \(Int64.min)")
                t.column(literal: "real DEFAULT \(0.1)")
                t.column(literal: "tiny DEFAULT \(Double.leastNonzeroMagnitude)")
                t.column(literal: "endless DEFAULT \(-Double.infinity)")
                t.column(literal: "missing DEFAULT \(nil as String?)")
                t.column(literal: "question DEFAULT '?' /* ? */")
                t.constraint(literal: "CHECK (id IN \([1, 2]) AND id -\(-1) > 0)")
            }
            try db.alter(table: "t") { t in t.addColumn(literal: "added DEFAULT \("it's")") }
            try db.execute(sql: "INSERT INTO t (id) VALUES (1)")
            let refused = databaseError { try db.execute(sql: "INSERT INTO t (id) VALUES (3)") }
            #expect(refused?.resultCode == .SQLITE_CONSTRAINT)
            let row = try #require(try Row.fetchOne(db, sql: "SELECT * FROM t"))
            for (index, text) in texts.enumerated() { #expect(row["text\(index)"] == text) }
            #expect(row["data"] == data)
            #expect(row["least"] == Int64.min && row["tiny"] == Double.leastNonzeroMagnitude)
            #expect(row["real"] == 0.1 && row["endless"] == -Double.infinity)
            #expect(row["missing"] as String? == nil && row["question"] == "?" && row["added"] == "it's")
        }
    }

    @Test("parameters take their values by number and by name, and every value is used")
    func parameters() throws {
        func sql(_ text: String, _ arguments: StatementArguments) throws -> String? {
            try self.sql(of: "v") { db in
                if try db.viewExists("v") { try db.drop(view: "v") }
                try db.create(view: "v", asLiteral: SQL(sql: text, arguments: arguments))
            }
        }
        let start = #"CREATE VIEW "v" AS "#
        #expect(try sql("SELECT ?, ?", [1, 2]) == start + "SELECT 1, 2")
        #expect(try sql("SELECT ?2, ?1, ?2", ["a", "b"]) == start + "SELECT 'b', 'a', 'b'")
        #expect(try sql("SELECT :a, @b, $a, :a", ["a": 1, "b": 2]) == start + "SELECT 1, 2, 1, 1")
        let quoted = "SELECT '?' AS \"?\", 2 AS [a?], 3 AS `b?` -- ?\n, "
        #expect(try sql(quoted + "?", [1]) == start + quoted + "1")
        for (text, arguments) in [("SELECT ?, ?", [1]), ("SELECT ?", [1, 2]), ("SELECT 1", [1])] {
            let error = databaseError { try sql(text, StatementArguments(arguments)) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
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
