import CipherDatabase
import CipherRecords
import CipherSchema
import Testing

/// Tables of which a column is called like the rowid.
@Suite struct HiddenRowIDTests {
    private struct Audit: Codable, FetchableRecord, PersistableRecord {
        var k: String?
        var rowid: Int?
        var message: String
    }

    private struct Item: TableRecord {
        static let audits = hasMany(Audit.self, using: ForeignKey(["message"], to: ["name"]))
    }

    /// - Parameter columns: Of the table `audit`, besides `message`.
    private func withTable<T>(_ columns: String, _ body: (Database) throws -> T) throws -> T {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        return try DatabaseQueue(configuration: configuration).write { db in
            try db.execute(
                sql: """
                    CREATE TABLE audit (\(columns), message TEXT);
                    INSERT INTO audit (k, rowid, message)
                    VALUES ('k1', 1, 'a'), ('k2', 1, 'b'), ('k3', NULL, 'c'), ('k4', 2, 'd');
                    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
                    INSERT INTO item (name) VALUES ('a'), ('b');
                    """)
            return try body(db)
        }
    }

    private func keys(_ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT k FROM audit ORDER BY k")
    }

    static let tables = [
        "k TEXT PRIMARY KEY, rowid INTEGER", "k TEXT, rowid INTEGER", "k TEXT, ROWID INTEGER, oid TEXT",
        "k TEXT PRIMARY KEY, rowid INTEGER, _rowid_ TEXT",
    ]

    // Story: the rows of a limited deletion were found by `"rowid"`, a column of the program: rows that the request did not
    // have were deleted.
    @Test("a limit, a join and a group delete and update the rows of the request alone", arguments: tables)
    func changes(_ columns: String) throws {
        try withTable(columns) { (db: Database) throws -> Void in
            #expect(try Audit.order(Column("message")).limit(1).updateAll(db, Column("message").set(to: "x")) == 1)
            #expect(try String.fetchAll(db, sql: "SELECT message FROM audit ORDER BY k") == ["x", "b", "c", "d"])
            #expect(try Audit.order(Column("message").desc).limit(1).deleteAll(db) == 1)
            #expect(try keys(db) == ["k2", "k3", "k4"])
            let named = Audit.joining(
                required: Audit.belongsTo(Item.self, using: ForeignKey(["message"], to: ["name"])))
            #expect(try named.deleteAll(db) == 1)
            #expect(try keys(db) == ["k3", "k4"])
            #expect(try Audit.all().groupByPrimaryKey().fetchCount(db) == 2)
            #expect(try Audit.all().groupByPrimaryKey().deleteAll(db) == 2)
        }
    }

    @Test("an aggregate counts rows, and not the values of such a column")
    func aggregates() throws {
        try withTable("k TEXT PRIMARY KEY, rowid INTEGER") { (db: Database) throws -> Void in
            try db.execute(sql: "UPDATE audit SET message = 'a'")
            let counts = try Row.fetchAll(db, Item.annotated(with: Item.audits.count).order(Column("name")))
            #expect(counts.map { $0["auditCount"] as Int } == [4, 0])
        }
    }

    @Test("a record of a table without a key is no other row that has the same value there")
    func records() throws {
        try withTable("k TEXT, rowid INTEGER") { (db: Database) throws -> Void in
            #expect(try Audit.deleteOne(db, key: 2))
            #expect(try keys(db) == ["k1", "k3", "k4"])
            let record = Audit(k: "k4", rowid: 2, message: "x")
            #expect(throws: (any Error).self) { try record.update(db) }
            #expect(try !record.delete(db))
            #expect(try String.fetchAll(db, sql: "SELECT message FROM audit ORDER BY k") == ["a", "c", "d"])
        }
    }

    @Test("where columns hide all names of the rowid, rows that cannot be told apart are not changed")
    func allHidden() throws {
        try withTable("k TEXT PRIMARY KEY, rowid INTEGER, oid, _rowid_") { (db: Database) throws -> Void in
            let error = #expect(throws: DatabaseError.self) { try Audit.limit(1).deleteAll(db) }
            #expect(error?.message?.contains("hide its rowid") == true)
            #expect(try keys(db).count == 4)
            #expect(try Audit.filter(Column("message") == "a").deleteAll(db) == 1)
        }
        try withTable("k TEXT PRIMARY KEY NOT NULL, rowid INTEGER, oid, _rowid_") { (db: Database) throws -> Void in
            try db.execute(
                sql:
                    "ALTER TABLE audit RENAME TO other; CREATE TABLE audit (k TEXT PRIMARY KEY, rowid, oid, _rowid_, message) WITHOUT ROWID; INSERT INTO audit SELECT * FROM other"
            )
            #expect(try Audit.order(Column("message")).limit(1).deleteAll(db) == 1)
            #expect(try keys(db) == ["k2", "k3", "k4"])
        }
    }

    @Test("a request of a common table expression with the name of a table changes no row of that table")
    func commonTable() throws {
        try withTable("k TEXT PRIMARY KEY, rowid INTEGER") { (db: Database) throws -> Void in
            let some = CommonTableExpression<Row>(named: "audit", sql: "SELECT * FROM main.audit WHERE k = 'k1'")
            let request = Table("audit").all().with(some)
            #expect(try request.fetchCount(db) == 1)
            for changed in [request, request.limit(10)] {
                let error = #expect(throws: DatabaseError.self) { try changed.deleteAll(db) }
                #expect(error?.resultCode == .SQLITE_MISUSE)
            }
            #expect(try keys(db).count == 4)
        }
    }

    @Test("an observed row is the one that the key names")
    func region() throws {
        try withTable("k TEXT, rowid INTEGER") { (db: Database) throws -> Void in
            #expect(try "\(Audit.filter(key: 2).databaseRegion(db))".contains("[2]"))
            #expect(try Audit.filter(key: 2).fetchAll(db).map(\.k) == ["k2"])
            #expect(try !"\(Audit.filter(Column("rowid") == 2).databaseRegion(db))".contains("[2]"))
        }
    }

    @Test("an upsert reports the rowid, and no column of that name")
    func upsert() throws {
        try withTable("k TEXT PRIMARY KEY, rowid INTEGER") { (db: Database) throws -> Void in
            struct Heard: Codable, PersistableRecord {
                static let databaseTableName = "audit"
                var k: String
                var rowid: Int
                func didInsert(_ inserted: InsertionSuccess) { #expect(inserted.rowID == 5) }
            }
            try Heard(k: "k5", rowid: 1000).upsert(db)
        }
    }
}
