import CipherDatabase
import CipherRecords
import CipherSchema

extension Calls {
    /// Section 5: schema.
    static func schema(_ call: inout Calls) {
        tables(&call)
        tableDefinitions(&call)
        columnDefinitions(&call)
        columns(&call)
        references(&call)
        indexesAndViews(&call)
    }

    /// The SQL of a table that a block defines.
    private static func table(
        _ db: Database, options: TableOptions = [], _ body: (TableDefinition) throws -> Void
    ) throws -> String {
        try db.create(table: "t", options: options, body: body)
        return try Fleet.definition(db, of: "t").replacingOccurrences(of: "CREATE TABLE \"t\" ", with: "")
    }

    private static func tables(_ call: inout Calls) {
        call("create(table:options:)") { db in
            try db.create(table: "t", options: [.ifNotExists, .temporary]) { t in t.column("a") }
            try db.create(table: "u", options: [.withoutRowID, .strict]) { t in t.primaryKey("a", .text) }
            return try db.tableExists("t") && db.tableExists("u")
        }
        call("create(table:temporary:ifNotExists:withoutRowID:)") { db in
            try db.create(table: "t", temporary: true, ifNotExists: true, withoutRowID: true) { t in
                t.primaryKey("a", .text)
            }
            return try db.tableExists("t")
        }
        call("alter(table:)") { db in
            try db.alter(table: "berth") { t in
                t.add(column: "length", .integer)
                t.rename(column: "shipId", to: "vessel")
            }
            try db.alter(table: "berth") { t in t.drop(column: "length") }
            return try db.columns(in: "berth").map(\.name) == ["harbourCode", "number", "vessel"]
        }
        call("add(column:_:)") { db in
            try db.alter(table: "berth") { t in t.add(column: "length", .integer).notNull().defaults(to: 0) }
            return try db.columns(in: "berth").count == 4
        }
        call("rename(column:to:)") { db in
            try db.alter(table: "berth") { t in t.rename(column: "number", to: "place") }
            return try db.columns(in: "berth")[1].name == "place"
        }
        call("drop(column:)") { db in
            try db.alter(table: "berth") { t in t.drop(column: "shipId") }
            return try db.columns(in: "berth").count == 2
        }
        call("rename(table:to:)") { db in
            try db.rename(table: "berth", to: "place")
            return try db.tableExists("place")
        }
        call("drop(table:)") { db in
            try db.drop(table: "berth")
            return try !db.tableExists("berth")
        }
    }

    private static func tableDefinitions(_ call: inout Calls) {
        call("t.autoIncrementedPrimaryKey(_:)") { db in
            try table(db) { t in t.autoIncrementedPrimaryKey("id") } == #"("id" INTEGER PRIMARY KEY AUTOINCREMENT)"#
        }
        call("t.primaryKey(_:_:)") { db in
            try table(db) { t in t.primaryKey("id", .text) } == #"("id" TEXT PRIMARY KEY NOT NULL)"#
        }
        call("t.primaryKey { }") { db in
            try table(db) { t in
                t.primaryKey {
                    t.column("a", .text)
                    t.column("b", .integer)
                }
            } == #"("a" TEXT NOT NULL, "b" INTEGER NOT NULL, PRIMARY KEY ("a", "b"))"#
        }
        call("t.primaryKey(_:)") { db in
            try table(db) { t in
                t.column("a")
                t.primaryKey(["a"])
            } == #"("a", PRIMARY KEY ("a"))"#
        }
        call("t.uniqueKey(_:)") { db in
            try table(db) { t in
                t.column("a")
                t.uniqueKey(["a"], onConflict: .ignore)
            } == #"("a", UNIQUE ("a") ON CONFLICT IGNORE)"#
        }
        call("t.foreignKey(_:references:columns:onDelete:onUpdate:deferred:)") { db in
            try table(db) { t in
                t.column("a")
                t.foreignKey(
                    ["a"], references: "harbour", columns: ["code"], onDelete: .cascade, onUpdate: .setNull,
                    deferred: true)
            }.contains(
                #"FOREIGN KEY ("a") REFERENCES "harbour"("code") ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE"#)
        }
    }

    private static func columnDefinitions(_ call: inout Calls) {
        call("check { }") { db in
            try table(db) { t in t.column("a", .integer).check { $0 > 1 } }.contains(#"CHECK ("a" > 1)"#)
        }
        call("t.check(_:)") { db in
            try table(db) { t in
                t.column("a", .integer)
                t.check(Column("a") > 1)
            }.contains(#"CHECK ("a" > 1)"#)
        }
        call("generatedAs(_:_:)") { db in
            try table(db) { t in
                t.column("a", .integer)
                t.column("b", .integer).generatedAs(Column("a") + 1, .stored)
            }.contains(#"AS ("a" + 1) STORED"#)
        }
        call("t.check(sql:)") { db in
            try table(db) { t in
                t.column("a").check(sql: "a > 0")
                t.check(sql: "a < 9")
            }.contains("CHECK (a < 9)")
        }
        call("t.column(_:_:)") { db in
            try table(db) { t in
                t.column("a")
                t.column("b", .text)
            } == #"("a", "b" TEXT)"#
        }
        call("t.column(sql:)") { db in try table(db) { t in t.column(sql: "a TEXT UNIQUE") }.contains("a TEXT UNIQUE") }
        call("t.constraint(sql:)") { db in
            try table(db) { t in
                t.column("a")
                t.constraint(sql: "CHECK (a > 1)")
            }.contains("CHECK (a > 1)")
        }
        call(
            ".text .integer .real .double .numeric .boolean .blob .date .datetime .any .jsonText .jsonb"
        ) { _ in
            let all: [Database.ColumnType] = [
                .text, .integer, .real, .double, .numeric, .boolean, .blob, .date, .datetime, .any, .jsonText, .jsonb,
            ]
            return all.count == 12
        }
    }

    private static func columns(_ call: inout Calls) {
        call("notNull()") { db in try table(db) { t in t.column("a").notNull() } == #"("a" NOT NULL)"# }
        call("notNull(onConflict:)") { db in
            try table(db) { t in t.column("a").notNull(onConflict: .ignore) } == #"("a" NOT NULL ON CONFLICT IGNORE)"#
        }
        call("unique(onConflict:)") { db in
            try table(db) { t in t.column("a").unique(onConflict: .replace) } == #"("a" UNIQUE ON CONFLICT REPLACE)"#
        }
        call("primaryKey(onConflict:)") { db in
            try table(db) { t in t.column("a").primaryKey(onConflict: .replace) }.contains("ON CONFLICT REPLACE")
        }
        call("indexed()") { db in
            _ = try table(db) { t in t.column("a").indexed() }
            return try db.indexes(on: "t").first?.name == "t_on_a"
        }
        call("defaults(to:)") { db in try table(db) { t in t.column("a").defaults(to: 1) } == #"("a" DEFAULT 1)"# }
        call("defaults(sql:)") { db in
            try table(db) { t in t.column("a").defaults(sql: "CURRENT_TIMESTAMP") }
                == #"("a" DEFAULT CURRENT_TIMESTAMP)"#
        }
        call("collate(_:)") { db in
            try table(db) { t in
                t.column("a").collate(.nocase)
                t.column("b").collate(.localizedCompare)
            }.contains(#""a" COLLATE NOCASE"#)
        }
        call("references(_:column:onDelete:onUpdate:deferred:)") { db in
            try table(db) { t in
                t.column("a").references(
                    "harbour", column: "code", onDelete: .cascade, onUpdate: .cascade, deferred: true)
            }.contains(#"REFERENCES "harbour"("code")"#)
        }
        call("generatedAs(sql:_:)") { db in
            try table(db) { t in
                t.column("a", .integer)
                t.column("b").generatedAs(sql: "a + 1", .stored)
                t.column("c").generatedAs(sql: "a + 1", .virtual)
            }.contains("GENERATED ALWAYS AS (a + 1) STORED")
        }
    }

    private static func references(_ call: inout Calls) {
        call("t.belongsTo(_:)") { db in
            _ = try table(db) { t in t.belongsTo("harbour") }
            return try db.columns(in: "t").map(\.name) == ["harbourCode"]
                && db.indexes(on: "t").map(\.name) == ["t_on_harbourCode"]
        }
        call("t.belongsTo(_:inTable:onDelete:onUpdate:deferred:indexed:)") { db in
            _ = try table(db) { t in
                t.belongsTo(
                    "home", inTable: "harbour", onDelete: .cascade, onUpdate: .cascade, deferred: true, indexed: false)
            }
            return try db.columns(in: "t").map(\.name) == ["homeCode"] && db.indexes(on: "t").isEmpty
        }
        call("t.belongsTo(_:).notNull()") { db in
            try table(db) { t in t.belongsTo("harbour").notNull() }.contains("NOT NULL")
        }
        call("t.belongsTo(_:).unique()") { db in
            try table(db) { t in t.belongsTo("harbour").unique() }.contains("UNIQUE")
        }
    }

    private static func indexesAndViews(_ call: inout Calls) {
        call("create(index:on:columns:options:condition:)") { db in
            try db.create(
                index: "i", on: "ship", columns: ["tons"], options: [.unique, .ifNotExists],
                condition: Column("tons") > 0)
            return try db.indexes(on: "ship").contains { $0.name == "i" }
        }
        call("create(index:on:expressions:options:condition:)") { db in
            try db.create(
                index: "i", on: "ship", expressions: [abs(Column("tons")), Column("name")], options: [.ifNotExists],
                condition: Column("tons") > 0)
            return try Fleet.definition(db, of: "i").contains(#"ABS("tons")"#)
        }
        call("create(index:on:columns:unique:ifNotExists:)") { db in
            try db.create(index: "i", on: "ship", columns: ["tons"], unique: true, ifNotExists: true)
            return try db.indexes(on: "ship").contains { $0.name == "i" && $0.isUnique }
        }
        call("create(indexOn:columns:)") { db in
            try db.create(indexOn: "ship", columns: ["tons", "name"])
            return try db.indexes(on: "ship").contains { $0.name == "index_ship_on_tons_name" }
        }
        call("drop(index:)") { db in
            try db.create(index: "i", on: "ship", columns: ["tons"])
            try db.drop(index: "i")
            return try !db.indexes(on: "ship").contains { $0.name == "i" }
        }
        call("drop(indexOn:columns:)") { db in
            try db.create(indexOn: "ship", columns: ["tons"])
            try db.drop(indexOn: "ship", columns: ["tons"])
            return try !db.indexes(on: "ship").contains { $0.columns == ["tons"] }
        }
        call("create(view:as:)") { db in
            try db.create(view: "v", as: Fleet.Ship.filter { $0.tons > 150 })
            return try Table("v").fetchCount(db) == 2
        }
        call("create(view:asLiteral:)") { db in
            try db.create(view: "v", asLiteral: "SELECT * FROM ship WHERE tons > \(150)")
            return try Table("v").fetchCount(db) == 2
        }
        call("drop(view:)") { db in
            try db.drop(view: "bigShip")
            return try !db.viewExists("bigShip")
        }
    }
}
