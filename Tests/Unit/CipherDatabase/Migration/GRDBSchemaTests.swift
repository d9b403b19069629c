import CipherDatabase
import CipherSchema
import Foundation
import TestKit
import Testing

/// Databases whose schema GRDB wrote, opened by the same migrations here.
///
/// `primaryKey("id", .integer)` added NOT NULL, `references("p")` left the column out, `defaults(sql:)` added parentheses,
/// and the comparison was one of texts: with `eraseDatabaseOnSchemaChange` a database that GRDB had made was erased.
@Suite struct GRDBSchemaTests {
    struct Definition: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The text that GRDB 7 writes.
        let sql: [String]
        let make: @Sendable (Database) throws -> Void
    }

    static let definitions = keys + references + columns + objects

    static let keys: [Definition] = [
        Definition(
            testDescription: "integer key", sql: [#"CREATE TABLE "t" ("id" INTEGER PRIMARY KEY, "name" TEXT)"#]
        ) { db in
            try db.create(table: "t") { t in
                t.primaryKey("id", .integer)
                t.column("name", .text)
            }
        },
        Definition(
            testDescription: "counting key",
            sql: [#"CREATE TABLE "t" ("id" INTEGER PRIMARY KEY ON CONFLICT FAIL AUTOINCREMENT)"#]
        ) { db in try db.create(table: "t") { $0.autoIncrementedPrimaryKey("id", onConflict: .fail) } },
        Definition(
            testDescription: "text key", sql: [#"CREATE TABLE "t" ("id" TEXT PRIMARY KEY NOT NULL)"#]
        ) { db in try db.create(table: "t") { $0.primaryKey("id", .text) } },
        Definition(
            testDescription: "key of several columns",
            sql: [
                #"CREATE TABLE "t" ("other", "a" TEXT NOT NULL DEFAULT 'O''Reilly', "b" INTEGER NOT NULL, "#
                    + #"PRIMARY KEY ("a", "b") ON CONFLICT FAIL) WITHOUT ROWID"#
            ]
        ) { db in
            try db.create(table: "t", options: .withoutRowID) { t in
                t.column("other")
                t.primaryKey(onConflict: .fail) {
                    t.column("a", .text).defaults(to: "O'Reilly")
                    t.column("b", .integer)
                }
            }
        },
        Definition(
            testDescription: "strict table without rowids",
            sql: [
                #"CREATE TABLE "t" ("a" TEXT, "b" ANY, PRIMARY KEY ("a"), UNIQUE ("b", "a") ON CONFLICT REPLACE, "#
                    + #"CHECK (a <> '')) STRICT, WITHOUT ROWID"#
            ]
        ) { db in
            try db.create(table: "t", options: [.strict, .withoutRowID]) { t in
                t.check(sql: "a <> ''")
                t.uniqueKey(["b", "a"], onConflict: .replace)
                t.primaryKey(["a"])
                t.column("a", .text)
                t.column("b", .any)
            }
        },
    ]

    static let references: [Definition] = [
        Definition(
            testDescription: "references",
            sql: [
                #"CREATE TABLE "parent" ("name" TEXT PRIMARY KEY NOT NULL, "email" TEXT UNIQUE)"#,
                #"CREATE TABLE "keyless" ("email" TEXT)"#,
                #"CREATE TABLE "t" ("a" TEXT REFERENCES "parent"("name") ON DELETE CASCADE ON UPDATE CASCADE, "#
                    + #""b" TEXT REFERENCES "parent"("email") ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED, "#
                    + #""c" REFERENCES "keyless"("rowid"), "d" INTEGER REFERENCES "t"("rowid"))"#,
            ]
        ) { db in
            try db.create(table: "parent") { t in
                t.primaryKey("name", .text)
                t.column("email", .text).unique()
            }
            try db.create(table: "keyless") { $0.column("email", .text) }
            try db.create(table: "t") { t in
                t.column("a", .text).references("parent", onDelete: .cascade, onUpdate: .cascade)
                t.column("b", .text).references("parent", column: "email", onDelete: .restrict, deferred: true)
                t.column("c").references("keyless")
                t.column("d", .integer).references("t")
            }
        },
        Definition(
            testDescription: "foreign keys of several columns",
            sql: [
                #"CREATE TABLE "parent" ("a" TEXT NOT NULL, "b" TEXT NOT NULL, PRIMARY KEY ("a", "b"))"#,
                #"CREATE TABLE "t" ("c" TEXT, "d" TEXT, FOREIGN KEY ("c", "d") REFERENCES "parent"("a", "b") "#
                    + #"ON UPDATE SET NULL, FOREIGN KEY ("d", "c") REFERENCES "parent"("b", "a") "#
                    + #"ON DELETE SET DEFAULT DEFERRABLE INITIALLY DEFERRED)"#,
            ]
        ) { db in
            try db.create(table: "parent") { t in
                t.primaryKey {
                    t.column("a", .text)
                    t.column("b", .text)
                }
            }
            try db.create(table: "t") { t in
                t.foreignKey(["c", "d"], references: "parent", onUpdate: .setNull)
                t.foreignKey(
                    ["d", "c"], references: "parent", columns: ["b", "a"], onDelete: .setDefault, deferred: true)
                t.column("c", .text)
                t.column("d", .text)
            }
        },
        Definition(
            testDescription: "belongsTo",
            sql: [
                #"CREATE TABLE "teams" ("id" INTEGER PRIMARY KEY AUTOINCREMENT)"#,
                #"CREATE TABLE "t" ("teamId" INTEGER NOT NULL REFERENCES "teams"("id") ON DELETE CASCADE, "#
                    + #""guestId" INTEGER UNIQUE REFERENCES "teams"("id"))"#,
                #"CREATE INDEX "t_on_teamId" ON "t"("teamId")"#,
            ]
        ) { db in
            try db.create(table: "teams") { $0.autoIncrementedPrimaryKey("id") }
            try db.create(table: "t") { t in
                t.belongsTo("team", onDelete: .cascade).notNull()
                t.belongsTo("guest", inTable: "teams").unique()
            }
        },
    ]

    static let columns: [Definition] = [
        Definition(
            testDescription: "default values",
            sql: [
                #"CREATE TABLE "t" ("a" INTEGER DEFAULT 1, "b" DEFAULT -1.5, "c" TEXT DEFAULT '''x''', "#
                    + #""d" BLOB DEFAULT X'666F6F', "e" DEFAULT NULL, "f" DATETIME DEFAULT CURRENT_TIMESTAMP, "#
                    + #""g" BOOLEAN NOT NULL DEFAULT 0, "h" DEFAULT (1 + 1), "i" DEFAULT 'it''s', "j" DEFAULT -2)"#
            ]
        ) { db in
            try db.create(table: "t") { t in
                t.column("a", .integer).defaults(to: 1)
                t.column("b").defaults(to: -1.5)
                t.column("c", .text).defaults(to: "'x'")
                t.column("d", .blob).defaults(to: Data("foo".utf8))
                t.column("e").defaults(sql: "NULL")
                t.column("f", .datetime).defaults(sql: "CURRENT_TIMESTAMP")
                t.column("g", .boolean).notNull().defaults(to: false)
                t.column("h").defaults(sql: "(1 + 1)")
                t.column("i").defaults(sql: "'it''s'")
                t.column("j").defaults(sql: "-2")
            }
        },
        Definition(
            testDescription: "constraints in another order",
            sql: [
                #"CREATE TABLE "t" ("a" TEXT NOT NULL ON CONFLICT IGNORE UNIQUE ON CONFLICT REPLACE "#
                    + #"CHECK (a > 0) CHECK (a < 9) DEFAULT 1 COLLATE NOCASE, "b" INTEGER NOT NULL UNIQUE, "#
                    + #""c" GENERATED ALWAYS AS (b * 2) VIRTUAL, "d" TEXT GENERATED ALWAYS AS (a) STORED)"#
            ]
        ) { db in
            try db.create(table: "t") { t in
                t.column("a", .text).collate(.nocase).defaults(to: 1).check(sql: "a > 0").check(sql: "a < 9")
                    .unique(onConflict: .replace).notNull(onConflict: .ignore)
                t.column("b", .integer).unique(onConflict: .abort).notNull(onConflict: .abort)
                t.column("c").generatedAs(sql: "b * 2")
                t.column("d", .text).generatedAs(sql: "a", .stored)
            }
        },
        Definition(
            testDescription: "altered table",
            sql: [
                #"CREATE TABLE "old" ("a" TEXT, "gone", CHECK (a <> 'b'))"#, #"ALTER TABLE "old" RENAME TO "t""#,
                #"ALTER TABLE "t" ADD COLUMN "b" TEXT REFERENCES "t"("rowid")"#, #"CREATE INDEX "t_on_b" ON "t"("b")"#,
                #"ALTER TABLE "t" ADD COLUMN c TEXT DEFAULT 'O''Brien'"#,
                #"ALTER TABLE "t" RENAME COLUMN "a" TO "first""#, #"ALTER TABLE "t" DROP COLUMN "gone""#,
            ]
        ) { db in
            try db.create(table: "old") { t in
                t.column("a", .text)
                t.column("gone")
                t.constraint(literal: "CHECK (a <> \("b"))")
            }
            try db.rename(table: "old", to: "t")
            try db.alter(table: "t") { t in
                t.add(column: "b", .text).references("t").indexed()
                t.addColumn(literal: "c TEXT DEFAULT \("O'Brien")")
                t.rename(column: "a", to: "first")
                t.drop(column: "gone")
            }
        },
    ]

    static let objects: [Definition] = [
        Definition(
            testDescription: "indexes",
            sql: [
                #"CREATE TABLE "t" ("a", "b")"#, #"CREATE INDEX "t_on_a" ON "t"("a")"#,
                #"CREATE UNIQUE INDEX "named" ON "t"("a", "b") WHERE a = 1"#,
                #"CREATE INDEX "index_t_on_b_a" ON "t"("b", "a")"#,
                #"CREATE INDEX "expressions" ON "t"(a + 1, b COLLATE NOCASE)"#,
            ]
        ) { db in
            try db.create(table: "t") { t in
                t.column("a").indexed()
                t.column("b")
            }
            try db.create(index: "named", on: "t", columns: ["a", "b"], options: .unique, condition: "a = \(1)")
            try db.create(indexOn: "t", columns: ["b", "a"])
            try db.create(index: "expressions", on: "t", expressions: ["a + 1", "b COLLATE NOCASE"])
        },
        Definition(
            testDescription: "views",
            sql: [
                #"CREATE TABLE "t" ("a")"#, #"CREATE VIEW "v" AS SELECT * FROM t WHERE a = 'O''Brien'"#,
                #"CREATE VIEW "w" ("x") AS SELECT 1"#,
            ]
        ) { db in
            try db.create(table: "t") { $0.column("a") }
            try db.create(view: "v", as: SQLRequest(literal: "SELECT * FROM t WHERE a = \("O'Brien")"))
            try db.create(view: "w", columns: ["x"], asLiteral: "SELECT 1")
        },
    ]

    @Test("a database that GRDB made keeps its rows, and its text is what is written here", arguments: definitions)
    func opened(_ definition: Definition) throws {
        var config = Configuration()
        // SQLite checks no keys that refer to a rowid, and says so.
        config.foreignKeysEnabled = false
        let queue = DatabaseQueue(configuration: config)
        try queue.writeWithoutTransaction { db in
            for statement in definition.sql { try db.execute(sql: statement) }
            try db.execute(
                sql: """
                    CREATE TABLE kept (a); INSERT INTO kept VALUES ('of GRDB');
                    CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
                    INSERT INTO grdb_migrations VALUES ('v1');
                    """)
        }
        var migrator = DatabaseMigrator()
        migrator.eraseDatabaseOnSchemaChange = true
        migrator.registerMigration("v1") { db in
            try definition.make(db)
            try db.execute(sql: "CREATE TABLE kept (a)")
        }
        try migrator.migrate(queue)
        #expect(try queue.read { try String.fetchOne($0, sql: "SELECT a FROM kept") } == "of GRDB")

        let fresh = DatabaseQueue(configuration: config)
        try migrator.migrate(fresh)
        let texts = "SELECT name, sql FROM sqlite_schema WHERE name <> 'grdb_migrations' ORDER BY name"
        #expect(try fresh.read { try Row.fetchAll($0, sql: texts) } == queue.read { try Row.fetchAll($0, sql: texts) })
    }
}
