import CipherDatabase
import CipherObservation
import CipherRecords
import Testing

/// Changes that SQLite's update hook does not report: observations of regions count them as well.
@Suite struct UnseenChangesTests {
    private let queue: DatabaseQueue
    private let calls = Collected<String>()

    init() throws {
        queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE bare (code TEXT PRIMARY KEY, note TEXT, other TEXT) WITHOUT ROWID;
                    CREATE TABLE user (id INTEGER PRIMARY KEY, email TEXT UNIQUE, name TEXT);
                    CREATE TABLE picky (id INTEGER PRIMARY KEY, email TEXT UNIQUE ON CONFLICT REPLACE);
                    CREATE TABLE post (id INTEGER PRIMARY KEY, userID REFERENCES user(id) ON DELETE CASCADE);
                    INSERT INTO user VALUES (1, 'a', 'Ann'), (2, 'b', 'Ben'), (3, 'c', 'Cid');
                    INSERT INTO picky SELECT id, email FROM user;
                    """)
        }
    }

    private func execute(_ sql: String) throws { try queue.writeWithoutTransaction { try $0.execute(sql: sql) } }

    private func observe(_ region: any DatabaseRegionConvertible, by name: String = "x") throws
        -> AnyDatabaseCancellable
    {
        try DatabaseRegionObservation(tracking: region).start(in: queue) { [calls] _ in calls.add(name) }
    }

    /// How often an observer of a region is notified of a statement.
    private func count(_ region: any DatabaseRegionConvertible, _ sql: String) throws -> Int {
        let before = calls.all.count
        let observation = try observe(region)
        try execute(sql)
        observation.cancel()
        return calls.all.count - before
    }

    private func columns(_ sql: String) -> SQLRequest<Row> { SQLRequest<Row>(sql: sql) }

    // MARK: Without rowid

    @Test(
        "a change of a table without rowid is reported once for each commit",
        arguments: [
            ("INSERT INTO bare VALUES ('x', 1, 1)", 1), ("UPDATE bare SET note = 2", 1), ("DELETE FROM bare", 1),
            ("REPLACE INTO bare VALUES ('k', 2, 2)", 1), ("INSERT OR IGNORE INTO bare VALUES ('k', 2, 2)", 0),
            ("UPDATE bare SET note = 2 WHERE code = 'none'", 0), ("DELETE FROM bare WHERE code = 'none'", 0),
            ("INSERT INTO bare VALUES ('k', 1, 1) ON CONFLICT DO UPDATE SET note = 7", 1),
            ("BEGIN; INSERT INTO bare VALUES ('x', 1, 1); INSERT INTO bare VALUES ('y', 1, 1); COMMIT", 1),
            ("BEGIN; INSERT INTO bare VALUES ('x', 1, 1); ROLLBACK", 0),
            ("SAVEPOINT s; INSERT INTO bare VALUES ('x', 1, 1); ROLLBACK TO s; RELEASE s", 0),
            ("SAVEPOINT s; INSERT INTO bare VALUES ('x', 1, 1); RELEASE s", 1),
            ("BEGIN; SAVEPOINT s; INSERT INTO bare VALUES ('x', 1, 1); COMMIT", 1),
            ("INSERT INTO user (name) VALUES ('x')", 0),
        ])
    func withoutRowID(sql: String, expected: Int) throws {
        try execute("INSERT INTO bare VALUES ('k', 1, 1)")
        #expect(try count(Table("bare"), sql) == expected)
        #expect(try count(.fullDatabase, "REPLACE INTO bare VALUES ('k', 1, 1); DELETE FROM bare") == 2)
    }

    @Test("of a table without rowid only the columns that are read count, unless rows may go")
    func withoutRowIDColumns() throws {
        try execute("INSERT INTO bare VALUES ('k', 1, 1)")
        let notes = columns("SELECT note FROM bare")
        #expect(try count(notes, "UPDATE bare SET other = 2") == 0)
        #expect(try count(notes, "UPDATE bare SET note = 2") == 1)
        #expect(try count(notes, "UPDATE OR REPLACE bare SET code = 'm'") == 1)
    }

    @Test("a trigger that changes a table without rowid is reported, and one row of several with RETURNING too")
    func triggers() throws {
        try execute("CREATE TRIGGER t AFTER UPDATE ON user BEGIN INSERT INTO bare VALUES (new.id, 1, 1); END")
        #expect(try count(Table("bare"), "UPDATE user SET name = 'z' WHERE id = 1") == 1)
        let observation = try observe(Table("bare"))
        let before = calls.all.count
        try queue.writeWithoutTransaction { db in
            let cursor = try String.fetchCursor(
                db, sql: "INSERT INTO bare VALUES ('p', 1, 1), ('q', 1, 1) RETURNING code")
            _ = try cursor.next()
        }
        try execute("SELECT 1")
        #expect(calls.all.count - before == 1)
        withExtendedLifetime(observation) {}
    }

    @Test("a statement that fails tells only what it has kept")
    func failures() throws {
        try execute("INSERT INTO bare VALUES ('k', 1, 1)")
        let observation = try observe(Table("bare"))
        #expect(throws: DatabaseError.self) { try execute("INSERT INTO bare VALUES ('x', 1, 1), ('k', 1, 1)") }
        #expect(calls.all == [])
        #expect(throws: DatabaseError.self) { try execute("INSERT OR FAIL INTO bare VALUES ('x', 1, 1), ('k', 1, 1)") }
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM bare") } == 2)
        #expect(calls.all == ["x"])
        withExtendedLifetime(observation) {}
    }

    // MARK: REPLACE

    // Story: SQLite reports the deletion of row 6 alone, and the observation of row 3 stayed as it was.
    @Test(
        "a row that a REPLACE removes is a change where its cascade deletes the row that is written",
        arguments: [
            "UPDATE OR REPLACE node SET id = 3 WHERE id = 6", "UPDATE OR REPLACE node SET tag = 'x' WHERE id = 6",
        ])
    func cascade(_ sql: String) throws {
        try execute(
            """
            CREATE TABLE node (id INTEGER PRIMARY KEY, pid REFERENCES node(id) ON DELETE CASCADE, tag TEXT UNIQUE);
            INSERT INTO node VALUES (3, NULL, 'x'), (6, 3, 'y');
            """)
        #expect(try count(Table<Row>("node").filter(key: 3), sql) == 1)
    }

    @Test(
        "a row that a REPLACE removes is a change for who observes that row, or columns that were not set",
        arguments: [
            "REPLACE INTO user VALUES (9, 'a', 'Zoe')", "INSERT OR REPLACE INTO user (email) VALUES ('a')",
            "UPDATE OR REPLACE user SET email = 'a' WHERE id = 2", "UPDATE OR REPLACE user SET id = 1 WHERE id = 2",
        ])
    func replaced(sql: String) throws {
        let first = Table("user").filter(Column("id") == 1)
        for region in [first as any DatabaseRegionConvertible, columns("SELECT name FROM user")] {
            try execute("DELETE FROM user; INSERT INTO user VALUES (1, 'a', 'Ann'), (2, 'b', 'Ben')")
            #expect(try count(region, sql) == 1)
        }
        #expect(try count(first, "UPDATE user SET name = 'y' WHERE id = 2") == 0)
    }

    @Test("tables and triggers that replace are known too")
    func replacingSchema() throws {
        let first = Table("picky").filter(Column("id") == 1)
        #expect(try count(first, "INSERT INTO picky VALUES (9, 'a')") == 1)
        #expect(try count(Table("user").filter(Column("id") == 1), "INSERT INTO user (name) VALUES ('x')") == 0)
        try execute("CREATE TRIGGER t AFTER INSERT ON post BEGIN REPLACE INTO user VALUES (20, 'c', 'x'); END")
        #expect(try count(Table("user").filter(Column("id") == 3), "INSERT INTO post VALUES (1, NULL)") == 1)
    }

    @Test("a replacing trigger that came back by a rollback is known again")
    func rolledBackTrigger() throws {
        try execute("CREATE TRIGGER t AFTER INSERT ON post BEGIN REPLACE INTO user VALUES (20, 'c', 'x'); END")
        let third = try observe(Table("user").filter(Column("id") == 3))
        try execute("BEGIN; DROP TRIGGER t; INSERT INTO post VALUES (1, NULL); UPDATE user SET name = 'q'; ROLLBACK")
        #expect(calls.all == [])
        try execute("INSERT INTO post VALUES (2, NULL)")
        #expect(calls.all == ["x"])
        withExtendedLifetime(third) {}
    }

    @Test("a table and a trigger that another connection has changed are known")
    func foreignSchema() throws {
        let file = TemporaryFile()
        let (pool, other) = (try file.pool(), try file.pool())
        try pool.write {
            try $0.execute(sql: "CREATE TABLE a (id INTEGER PRIMARY KEY, e UNIQUE); INSERT INTO a VALUES (1, 'e')")
            try $0.execute(sql: "CREATE TABLE b (x); CREATE TABLE w (k)")
        }
        let cancellables = [Table("a").filter(Column("id") == 1) as any DatabaseRegionConvertible, Table("w")].map {
            DatabaseRegionObservation(tracking: $0).start(in: pool, onError: { _ in }) { [calls] _ in calls.add("x") }
        }
        for _ in 1...2 { try pool.write { try $0.cachedStatement(sql: "INSERT INTO b VALUES (1)").execute() } }
        try pool.write { try $0.execute(sql: "INSERT INTO a VALUES (7, 'f'); DELETE FROM a WHERE id = 7") }
        #expect(calls.all == [])
        try other.write {
            try $0.execute(sql: "CREATE TRIGGER t AFTER INSERT ON b BEGIN REPLACE INTO a VALUES (2, 'e'); END")
            try $0.execute(sql: "DROP TABLE w; CREATE TABLE w (k PRIMARY KEY) WITHOUT ROWID")
        }
        // The commit of the other connection is reported to both.
        calls.wait { $0.count == 2 }
        try pool.write { try $0.cachedStatement(sql: "INSERT INTO b VALUES (1)").execute() }
        #expect(calls.all.count == 3)
        try pool.write { try $0.execute(sql: "INSERT INTO w VALUES (1)") }
        #expect(calls.all.count == 4)
        withExtendedLifetime(cancellables) {}
    }

    @Test("what a REPLACE deletes by a foreign key is reported, with recursive triggers or without")
    func cascades() throws {
        for recursive in [false, true] {
            try execute("PRAGMA recursive_triggers = \(recursive); DELETE FROM user")
            try execute("INSERT INTO user VALUES (1, 'a', 'Ann'), (2, 'b', 'Ben'); INSERT INTO post VALUES (5, 1)")
            let post = Table("post").filter(Column("id") == 5)
            #expect(try count(post, "REPLACE INTO user VALUES (7, 'a', 'Zoe')") == 1)
            #expect(try queue.read { try Table("post").fetchCount($0) } == 0)
        }
    }

    @Test("an upsert is an insertion or an update of its row alone")
    func upsert() throws {
        let upsert = "INSERT INTO user VALUES (1, 'q', 'z') ON CONFLICT (id) DO UPDATE SET name = 'up'"
        #expect(try count(Table("user").filter(Column("id") == 1), upsert) == 1)
        #expect(try count(Table("user").filter(Column("id") == 2), upsert) == 0)
        #expect(try count(columns("SELECT email FROM user"), upsert) == 0)
    }

    @Test("programs' own observers are notified of what SQLite reports, as before")
    func ownObservers() throws {
        let recorder = Recorder()
        queue.add(transactionObserver: recorder)
        let region = try observe(.fullDatabase)
        try execute("INSERT INTO bare VALUES ('x', 1, 1)")
        try execute("REPLACE INTO user VALUES (9, 'a', 'Zoe')")
        #expect(recorder.take() == ["will", "commit", "+user 9", "will", "commit"])
        try execute("UPDATE OR REPLACE user SET email = 'b' WHERE id = 9")
        #expect(recorder.take() == ["*user 9", "will", "commit"])
        withExtendedLifetime(region) {}
    }

    // MARK: The schema

    @Test("who observes a table is notified when it is dropped, renamed or altered, if that is committed")
    func schema() throws {
        let observation = try observe(Table("user"))
        try execute("BEGIN; ALTER TABLE user ADD COLUMN age; ROLLBACK")
        try execute("SAVEPOINT s; ALTER TABLE user ADD COLUMN age; ROLLBACK TO s; RELEASE s")
        #expect(throws: DatabaseError.self) { try execute("ALTER TABLE user ADD COLUMN name") }
        try execute("CREATE TABLE more (a); CREATE INDEX i ON more (a); ALTER TABLE more ADD COLUMN b; DROP TABLE more")
        try execute("CREATE INDEX i ON user (name)")
        #expect(calls.all == [])
        try execute("ALTER TABLE user ADD COLUMN age")
        #expect(calls.all == ["x"])
        try execute("ALTER TABLE user RENAME TO person")
        #expect(calls.all == ["x", "x"])
        // It has that name no more; a table of the name is observed when it comes.
        try execute("INSERT INTO person (name) VALUES ('Zoe')")
        #expect(calls.all.count == 2)
        try execute("CREATE TABLE user (a); INSERT INTO user VALUES (1)")
        #expect(calls.all.count == 3)
        try execute("DROP TABLE user")
        #expect(calls.all.count == 4)
        withExtendedLifetime(observation) {}
    }

    @Test("columns that come later belong to a region that has all of them")
    func addedColumn() throws {
        let observation = try observe(columns("SELECT * FROM user"))
        try execute("ALTER TABLE user ADD COLUMN age")
        #expect(calls.all == ["x"])
        try execute("UPDATE user SET age = 1")
        #expect(calls.all == ["x", "x"])
        withExtendedLifetime(observation) {}
    }

    @Test("who observes the table of the schema is notified of its changes")
    func schemaTable() throws {
        let schema = columns("SELECT name FROM sqlite_master")
        #expect(try count(schema, "CREATE TABLE more (a)") == 1)
        #expect(try count(schema, "INSERT INTO more VALUES (1)") == 0)
        #expect(try count(.fullDatabase, "CREATE TABLE another (a)") == 0)
    }

    // MARK: Generated columns

    @Test(
        "a generated column is observed with the columns that it reads",
        arguments: ["VIRTUAL", "STORED"],
        [
            "SELECT sum(total) FROM sale", "SELECT sum(TOTAL) FROM sale", "SELECT sum(twice) FROM sale",
            "SELECT count(*) FROM sale WHERE total > 5", "SELECT s FROM sums", "SELECT id FROM sale ORDER BY total",
            "SELECT total FROM sale WHERE id = 1", "SELECT 1 FROM user WHERE id < (SELECT max(twice) FROM sale)",
            "SELECT t FROM (SELECT total AS t FROM sale)",
        ])
    func generatedColumn(storage: String, request: String) throws {
        try execute(
            """
            CREATE TABLE sale (
                id INTEGER PRIMARY KEY, qty, price, note,
                total AS (qty * price) \(storage), twice AS (total * 2) \(storage));
            CREATE INDEX sale_twice ON sale(twice + 1);
            CREATE VIEW sums AS SELECT sum(total) AS s FROM sale;
            INSERT INTO sale (qty, price) VALUES (2, 3);
            """)
        #expect(try count(columns(request), "UPDATE sale SET qty = qty + 1") == 1)
        let region = try queue.read { try columns(request).databaseRegion($0) }
        #expect(region.isModified(byEventsOfKind: .update(tableName: "sale", columnNames: ["qty"])))
        #expect(try count(columns("SELECT qty FROM sale"), "UPDATE sale SET note = 'x'") == 0)
    }

    @Test("a region of a generated column that the program names, and one in a temporary table")
    func namedGeneratedColumn() throws {
        try execute("CREATE TABLE sale (qty, total AS (qty * 2)); INSERT INTO sale (qty) VALUES (1)")
        try execute("CREATE TEMP TABLE cart (qty, total AS (qty * 2)); INSERT INTO cart (qty) VALUES (1)")
        for table in ["sale", "cart"] {
            let region = DatabaseRegion(table: table, columns: ["Total"])
            #expect(try count(region, "UPDATE \(table) SET qty = 4") == 1)
            #expect(try count(columns("SELECT total FROM \(table)"), "UPDATE \(table) SET qty = 5") == 1)
        }
        // A table that has the name later, with a generated column that it did not have.
        try execute(
            "DROP TABLE sale; CREATE TABLE sale (note, qty, extra AS (qty * 2)); INSERT INTO sale (qty) VALUES (1)")
        #expect(try count(columns("SELECT extra FROM sale"), "UPDATE sale SET qty = 4") == 1)
    }

    @Test("a report of changes of the whole database reaches temporary and attached tables")
    func reportOfTemporaryTables() throws {
        try execute("CREATE TEMP TABLE cart (a); ATTACH ':memory:' AS beside; CREATE TABLE beside.far (a)")
        for table in ["cart", "far", "user"] {
            let observation = try observe(DatabaseRegion(table: table), by: table)
            try queue.writeWithoutTransaction { try $0.notifyChanges(in: .fullDatabase) }
            observation.cancel()
        }
        #expect(calls.all == ["cart", "far", "user"])
    }

    @Test("a report of changes does not reach observers of other tables, nor of tables that do not exist")
    func reportsOfNoTable() throws {
        var observations: [AnyDatabaseCancellable] = []
        for name in ["user", "none", "sqlite_master", "SQLITE_SCHEMA"] {
            observations.append(try observe(DatabaseRegion(table: name), by: name))
        }
        observations.append(try observe(.fullDatabase, by: "full"))
        let recorder = Recorder { $0.tableName == "none" }
        queue.add(transactionObserver: recorder)
        /// Who is notified of a report.
        func notified(_ region: DatabaseRegion) throws -> [String] {
            let before = calls.all.count
            try queue.writeWithoutTransaction { try $0.notifyChanges(in: region) }
            return calls.all.dropFirst(before).sorted()
        }
        #expect(try notified(.fullDatabase) == ["full", "user"])
        #expect(try notified(DatabaseRegion(table: "USER")) == ["full", "user"])
        for missing in ["none", "NONE", "user2", "sqlite_none", ""] {
            #expect(try notified(DatabaseRegion(table: missing)) == [], "\(missing)")
        }
        #expect(try notified(DatabaseRegion()) == [])
        for schema in ["sqlite_master", "sqlite_schema", "SQLITE_MASTER"] {
            #expect(try notified(DatabaseRegion(table: schema)) == ["SQLITE_SCHEMA", "full", "sqlite_master"])
        }
        #expect(!recorder.take().contains("?"))
        withExtendedLifetime(observations) {}
    }

    @Test(
        "observations see what generated columns, triggers and indexes of expressions depend on",
        arguments: [
            ("CREATE TABLE g (id INTEGER PRIMARY KEY, q, v AS (q * 2))", "SELECT v FROM g", "UPDATE g SET q = 3"),
            (
                "CREATE TABLE g (id INTEGER PRIMARY KEY, q, v AS (q * 2) STORED)", "SELECT v FROM g",
                "UPDATE g SET q = 3"
            ),
            // A generated column of a generated column.
            (
                "CREATE TABLE g (id INTEGER PRIMARY KEY, q, w AS (q + 1), v AS (w * 2))", "SELECT v FROM g",
                "UPDATE g SET q = 3"
            ),
            // Through a trigger of another table.
            (
                """
                CREATE TABLE g (id INTEGER PRIMARY KEY, q, v AS (q * 2));
                CREATE TABLE h (a);
                CREATE TRIGGER tr AFTER INSERT ON h BEGIN UPDATE g SET q = NEW.a; END
                """, "SELECT v FROM g", "INSERT INTO h VALUES (9)"
            ),
            // Through a trigger that writes the table of a covering index over an expression.
            (
                """
                CREATE TABLE g (id INTEGER PRIMARY KEY, q, v AS (q * 2));
                CREATE INDEX gi ON g (v, q + 1);
                CREATE TABLE h (a);
                CREATE TRIGGER tr AFTER UPDATE ON h BEGIN UPDATE g SET q = NEW.a; END;
                INSERT INTO h VALUES (1)
                """, "SELECT v FROM g INDEXED BY gi WHERE v > 0", "UPDATE h SET a = 4"
            ),
            (
                "CREATE TABLE g (id INTEGER PRIMARY KEY, q, r); CREATE INDEX gi ON g (q + 1)",
                "SELECT id FROM g INDEXED BY gi WHERE q + 1 > 5", "UPDATE g SET q = 8"
            ),
            (
                "CREATE TABLE g (id INTEGER PRIMARY KEY, q, r); CREATE INDEX gi ON g (q + 1)",
                "SELECT q + 1 FROM g INDEXED BY gi ORDER BY q + 1", "UPDATE g SET q = 8"
            ),
            (
                "CREATE TABLE g (id INTEGER PRIMARY KEY, q, r); CREATE INDEX gi ON g (q) WHERE r > 0",
                "SELECT q FROM g INDEXED BY gi WHERE r > 0", "UPDATE g SET r = 0"
            ),
            (
                "CREATE TABLE g (id INTEGER PRIMARY KEY, q, v AS (q * 2)); CREATE INDEX gi ON g (v)",
                "SELECT count(*) FROM g INDEXED BY gi WHERE v > 1", "UPDATE g SET q = 8"
            ),
            // In a view, a subquery and a foreign key with an action.
            (
                """
                CREATE TABLE g (id INTEGER PRIMARY KEY, q, v AS (q * 2));
                CREATE VIEW gw AS SELECT (SELECT max(v) FROM g) AS m
                """, "SELECT m FROM gw", "UPDATE g SET q = 8"
            ),
            (
                """
                CREATE TABLE p (id INTEGER PRIMARY KEY);
                INSERT INTO p VALUES (1);
                CREATE TABLE g (id INTEGER PRIMARY KEY, q REFERENCES p ON DELETE SET NULL, v AS (q * 2))
                """, "SELECT v FROM g", "DELETE FROM p"
            ),
        ])
    func indirectColumns(schema: String, request: String, change: String) throws {
        try execute(schema + "; INSERT INTO g (id, q) VALUES (1, 1)")
        #expect(try count(columns(request), change) == 1)
    }

    private struct Whole: TableRecord {
        static let databaseTableName = "whole"
        static let parts = hasMany(Part.self)
    }

    private struct Part: TableRecord {
        static let databaseTableName = "part"
        static let whole = belongsTo(Whole.self)
    }

    @Test("requests by keys and with associations are observed by what their generated columns depend on")
    func generatedInRequests() throws {
        try execute(
            """
            CREATE TABLE whole (id INTEGER PRIMARY KEY, q, r, v AS (q * 2), UNIQUE (id, r));
            CREATE TABLE part (id INTEGER PRIMARY KEY, wholeID REFERENCES whole, q, r, v AS (q * 2) STORED);
            INSERT INTO whole (id, q, r) VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3);
            INSERT INTO part (id, wholeID, q) VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3)
            """)
        let (id, value) = (Column("id"), Column("v"))
        let (changesWhole, changesPart) = ("UPDATE whole SET q = q + 1", "UPDATE part SET q = q + 1")
        let keyed = Whole.select(value).filter(keys: [1, 2])
        #expect(try count(keyed, changesWhole) == 1)
        #expect(try count(keyed, changesWhole + " WHERE id = 2") == 1)
        #expect(try count(keyed, changesWhole + " WHERE id = 3") == 0)
        for number in [2, 70] {
            let keys = (1...number).map { ["id": $0, "r": $0] }
            #expect(try count(Whole.select(value).filter(keys: keys), changesWhole) == 1)
            #expect(try count(Whole.select(id).filter(value > 1).filter(keys: keys), changesWhole) == 1)
        }
        let prefetching = Whole.select(id).including(all: Whole.parts.select(value))
        #expect(try count(prefetching, changesPart) == 1)
        #expect(try count(prefetching.filter(keys: [1]), changesPart) == 1)
        #expect(try count(Whole.select(id).including(all: Whole.parts.filter(value > 1)), changesPart) == 1)
        #expect(try count(Part.select(id).including(required: Part.whole.select(value)), changesWhole) == 1)
        #expect(try count(Part.select(id).joining(required: Part.whole.filter(value > 1)), changesWhole) == 1)
        #expect(try count(Whole.select(id).annotated(with: Whole.parts.max(value)), changesPart) == 1)
        #expect(try count(Whole.select(id).having(Whole.parts.sum(value) > 1), changesPart) == 1)
        #expect(try count(Whole.select(id).order(value.desc).limit(1), changesWhole) == 1)
        // No row has another value.
        #expect(try count(Part.select(id, Column("r")), changesPart) == 0)
    }
}
