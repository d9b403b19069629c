import CipherDatabase
import CipherSchema
import TestKit
import Testing

/// References of one row to another: their columns, constraints and indexes are those that GRDB makes.
@Suite struct BelongsToTests {
    let queue = DatabaseQueue()

    /// The definitions of the objects of a table, those that SQLite makes apart.
    private func definitions(of table: String, _ make: (Database) throws -> Void) throws -> [String] {
        try queue.write { db in
            try make(db)
            return try String.fetchAll(
                db, sql: "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL ORDER BY rowid",
                arguments: [table])
        }
    }

    private func makeParents() throws {
        try queue.write { db in
            try db.create(table: "bare") { $0.column("name", .text) }
            try db.create(table: "country") { $0.primaryKey("code", Database.ColumnType(rawValue: "CUSTOM TYPE")) }
            try db.create(table: "teams") { $0.primaryKey("id", .integer) }
            try db.create(table: "people") { t in
                t.primaryKey {
                    t.column("first", .text)
                    t.column("last")
                }
            }
        }
    }

    @Test("a reference has the name, the type and the index of the key that it refers to")
    func singleColumns() throws {
        try makeParents()
        let found = try definitions(of: "child") { db in
            try db.create(table: "child") { t in
                t.column("a")
                t.belongsTo("bare")
                t.belongsTo("COUNTRY")
                t.belongsTo("team", onDelete: .cascade, onUpdate: .setNull, deferred: true)
                t.belongsTo("home", inTable: "country", indexed: false)
                t.column("b")
            }
        }
        #expect(
            found == [
                #"CREATE TABLE "child" ("a", "bareId" INTEGER REFERENCES "bare"("rowid"), "#
                    + #""COUNTRYCode" CUSTOM TYPE REFERENCES "COUNTRY"("code"), "#
                    + #""teamId" INTEGER REFERENCES "teams"("id") ON DELETE CASCADE ON UPDATE SET NULL "#
                    + #"DEFERRABLE INITIALLY DEFERRED, "homeCode" CUSTOM TYPE REFERENCES "country"("code"), "b")"#,
                #"CREATE INDEX "child_on_bareId" ON "child"("bareId")"#,
                #"CREATE INDEX "child_on_COUNTRYCode" ON "child"("COUNTRYCode")"#,
                #"CREATE INDEX "child_on_teamId" ON "child"("teamId")"#,
            ])
    }

    // Both changed the first column alone: NULL and doubles passed in all the others.
    @Test("notNull and unique are for every column of a reference")
    func compositeConstraints() throws {
        try makeParents()
        let found = try definitions(of: "child") { db in
            try db.create(table: "child", options: .ifNotExists) { t in
                t.belongsTo("person").notNull().unique()
                t.belongsTo("friend", inTable: "people", onDelete: .cascade).notNull(onConflict: .ignore)
                t.belongsTo("team").unique()
                t.belongsTo("other", inTable: "people", indexed: false)
            }
        }
        #expect(
            found == [
                #"CREATE TABLE "child" ("personFirst" TEXT NOT NULL, "personLast" NOT NULL, "#
                    + #""friendFirst" TEXT NOT NULL ON CONFLICT IGNORE, "friendLast" NOT NULL ON CONFLICT IGNORE, "#
                    + #""teamId" INTEGER UNIQUE REFERENCES "teams"("id"), "otherFirst" TEXT, "otherLast", "#
                    + #"FOREIGN KEY ("personFirst", "personLast") REFERENCES "people"("first", "last"), "#
                    + #"FOREIGN KEY ("friendFirst", "friendLast") REFERENCES "people"("first", "last") "#
                    + #"ON DELETE CASCADE, FOREIGN KEY ("otherFirst", "otherLast") "#
                    + #"REFERENCES "people"("first", "last"))"#,
                #"CREATE UNIQUE INDEX "index_child_on_personFirst_personLast" "#
                    + #"ON "child"("personFirst", "personLast")"#,
                #"CREATE INDEX "index_child_on_friendFirst_friendLast" ON "child"("friendFirst", "friendLast")"#,
            ])
        try queue.write { db throws in
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            let insert = "INSERT INTO child (personFirst, personLast, friendFirst, friendLast) VALUES (?, ?, 'x', 'y')"
            try db.execute(sql: "INSERT INTO people VALUES ('a', 'b'), ('a', 'c'), ('x', 'y')")
            try db.execute(sql: insert, arguments: ["a", "b"])
            try db.execute(sql: insert, arguments: ["a", "c"])
            #expect(databaseError { try db.execute(sql: insert, arguments: ["a", "b"]) } != nil, "unique as a pair")
            #expect(databaseError { try db.execute(sql: insert, arguments: ["a", nil]) } != nil)
        }
    }

    @Test("a table refers to itself, before its key is defined too, and under its name in the singular")
    func selfReferences() throws {
        let found = try definitions(of: "employees") { db in
            try db.create(table: "employees") { t in
                t.belongsTo("employee")
                t.belongsTo("boss", inTable: "Employees", indexed: false)
                t.column("also", .integer).references("employees")
                t.foreignKey(["also"], references: "employees")
                t.autoIncrementedPrimaryKey("id")
            }
        }
        #expect(
            found == [
                #"CREATE TABLE "employees" ("employeeId" INTEGER REFERENCES "employees"("id"), "#
                    + #""bossId" INTEGER REFERENCES "Employees"("id"), "#
                    + #""also" INTEGER REFERENCES "employees"("id"), "id" INTEGER PRIMARY KEY AUTOINCREMENT, "#
                    + #"FOREIGN KEY ("also") REFERENCES "employees"("id"))"#,
                #"CREATE INDEX "employees_on_employeeId" ON "employees"("employeeId")"#,
            ])
        let node = try definitions(of: "node") { db in
            try db.create(table: "node") { t in
                t.column("left")
                t.column("right")
                t.belongsTo("node")
                t.primaryKey(["left", "right"])
            }
        }
        #expect(
            node == [
                #"CREATE TABLE "node" ("left", "right", "nodeLeft", "nodeRight", PRIMARY KEY ("left", "right"), "#
                    + #"FOREIGN KEY ("nodeLeft", "nodeRight") REFERENCES "node"("left", "right"))"#,
                #"CREATE INDEX "index_node_on_nodeLeft_nodeRight" ON "node"("nodeLeft", "nodeRight")"#,
            ])
    }

    @Test("references inside a primary key are parts of it, and need no index of their own")
    func primaryKeys() throws {
        try makeParents()
        let found = try definitions(of: "membership") { db in
            try db.create(table: "membership") { t in
                t.primaryKey {
                    t.belongsTo("person")
                    t.belongsTo("team", onDelete: .cascade)
                    t.column("year", .integer)
                }
            }
        }
        #expect(
            found == [
                #"CREATE TABLE "membership" ("personFirst" TEXT NOT NULL, "personLast" NOT NULL, "#
                    + #""teamId" INTEGER NOT NULL REFERENCES "teams"("id") ON DELETE CASCADE, "#
                    + #""year" INTEGER NOT NULL, PRIMARY KEY ("personFirst", "personLast", "teamId", "year"), "#
                    + #"FOREIGN KEY ("personFirst", "personLast") REFERENCES "people"("first", "last"))"#
            ])
    }

    @Test("a reference to a table that does not exist is an error of the creation")
    func missing() throws {
        try queue.write { db throws in
            let message = "no such table: nothing"
            #expect(databaseError { try db.create(table: "x") { $0.belongsTo("nothing") } }?.message == message)
            #expect(
                databaseError { try db.create(table: "x") { $0.belongsTo("y", inTable: "nothing") } }?.message
                    == message)
            let circular = databaseError {
                try db.create(table: "x") { t in t.primaryKey { t.belongsTo("x") } }
            }
            #expect(circular?.message == "no such table: x")
            #expect(try !db.tableExists("x"))
        }
    }

    @Test("tables are found by irregular plurals, and by those of the program")
    func plurals() throws {
        let words = [
            "person": "people", "child": "children", "company": "companies", "day": "days", "box": "boxes",
            "index": "indices", "mouse": "mice", "bus": "buses", "analysis": "analyses", "wife": "wives",
            "series": "series", "news": "news", "human": "humans", "specimen": "specimens", "leaf": "leaves",
            "playerScore": "playerScores", "sales_person": "sales_people", "Woman": "Women", "stadium": "stadia",
            "query1": "queries1", "hero": "heroes", "address": "addresses", "datum": "data", "status": "statuses",
            "move": "moves", "movie": "movies", "database": "databases", "quiz": "quizzes",
        ]
        let inflections = Inflections.default
        for (singular, plural) in words {
            #expect(inflections.pluralize(singular) == plural)
            #expect(inflections.pluralize(plural) == plural)
            #expect(inflections.singularize(plural) == singular)
            #expect(inflections.singularize(singular) == singular)
        }
        for name in ["", " ", "_", "1"] {
            #expect(inflections.singularize(name) == name)
        }
        var own = inflections
        own.irregularSuffix("virus", "viruses")
        own.uncountableWords(["Staff"])
        #expect(own.pluralize("computerVirus") == "computerViruses" && own.singularize("viruses") == "virus")
        #expect(own.pluralize("staff") == "staff" && inflections.pluralize("staff") == "staffs")
        // The capital that begins a word stays, whatever the word becomes.
        own.irregularSuffix("cow", "kine")
        let cows = [("cow", "kine"), ("Cow", "Kine"), ("prefixedCow", "prefixedKine"), ("my_Cow1", "my_Kine1")]
        for (singular, plural) in cows {
            #expect(own.pluralize(singular) == plural && own.singularize(plural) == singular)
        }
    }
}
