import CipherDatabase
import CipherObservation
import CipherRecords
import Testing

/// `DELETE FROM table` deletes all rows at once, and reports none of them, unless they are observed.
@Suite struct DeletionTests {
    private let queue: DatabaseQueue
    private let recorder = Recorder { if case .delete = $0 { true } else { false } }

    init() throws {
        queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: "CREATE TABLE crumb (a); CREATE TABLE dust (a)") }
    }

    private var deleted: [String] { recorder.take().filter { $0.hasPrefix("-") } }

    @Test("each row of an observed deletion is reported, of whichever statement")
    func observed() throws {
        queue.add(transactionObserver: recorder)
        try queue.writeWithoutTransaction { db in
            let prepared = try db.makeStatement(sql: "DELETE FROM crumb")
            for run in 1...3 {
                try db.execute(sql: "INSERT INTO crumb VALUES (1), (2)")
                if run == 1 { try db.execute(sql: "DELETE FROM crumb") } else { try prepared.execute() }
                #expect(deleted == ["-crumb 1", "-crumb 2"])
            }
        }
    }

    @Test("a statement that was compiled before the observer came reports its rows too")
    func earlierStatements() throws {
        try queue.writeWithoutTransaction { db in
            let own = try db.makeStatement(sql: "DELETE FROM crumb")
            for _ in 1...2 {
                try db.cachedStatement(sql: "DELETE FROM crumb").execute()
                _ = try Table("crumb").deleteAll(db)
                try own.execute()
            }
            db.add(transactionObserver: recorder)
            for run in 1...3 {
                try db.execute(sql: "INSERT INTO crumb VALUES (1), (2)")
                switch run {
                case 1: try own.execute()
                case 2: try db.cachedStatement(sql: "DELETE FROM crumb").execute()
                default: _ = try Table("crumb").deleteAll(db)
                }
                #expect(deleted == ["-crumb 1", "-crumb 2"], "\(run)")
            }
        }
    }

    @Test("an observer that comes to observe a table later sees the deletions of cached statements")
    func laterInterest() throws {
        recorder.observes = { $0 == .delete(tableName: "dust") }
        queue.add(transactionObserver: recorder)
        try queue.writeWithoutTransaction { db in
            try db.cachedStatement(sql: "DELETE FROM crumb").execute()
            try db.execute(sql: "INSERT INTO crumb VALUES (1)")
            recorder.observes = { $0 == .delete(tableName: "crumb") }
            try db.cachedStatement(sql: "DELETE FROM crumb").execute()
            #expect(deleted == ["-crumb 1"])
        }
    }

    @Test("deletions by triggers are reported too")
    func triggers() throws {
        queue.add(transactionObserver: recorder)
        try queue.write { db in
            try db.execute(sql: "CREATE TRIGGER t AFTER DELETE ON dust BEGIN DELETE FROM crumb; END")
            try db.execute(sql: "INSERT INTO dust VALUES (1); INSERT INTO crumb VALUES (1), (2); DELETE FROM dust")
            #expect(deleted == ["-dust 1", "-crumb 1", "-crumb 2"])
        }
    }

    @Test(
        "what is dropped is dropped, compiled and run at once or apart, observed or not",
        arguments: [
            ("CREATE TABLE x (a); INSERT INTO x VALUES (1)", "DROP TABLE x"),
            ("CREATE TEMP TABLE x (a); INSERT INTO x VALUES (1)", "DROP TABLE x"),
            ("CREATE VIRTUAL TABLE x USING fts5(a); INSERT INTO x VALUES (1)", "DROP TABLE x"),
            ("CREATE VIRTUAL TABLE x USING fts4(a); INSERT INTO x VALUES (1)", "DROP TABLE x"),
            ("CREATE VIEW x AS SELECT * FROM crumb", "DROP VIEW x"),
            ("CREATE TEMP VIEW x AS SELECT * FROM crumb", "DROP VIEW x"),
            ("CREATE INDEX x ON crumb (a)", "DROP INDEX x"),
            (
                "CREATE TABLE x (id INTEGER PRIMARY KEY); CREATE TABLE y (a REFERENCES x(id)); INSERT INTO x VALUES (1)",
                "DROP TABLE x"
            ),
        ])
    func drops(create: String, drop: String) throws {
        for isObserved in [false, true] {
            if isObserved { queue.add(transactionObserver: recorder) }
            try queue.writeWithoutTransaction { db in
                for isApart in [false, true] {
                    try db.execute(sql: create)
                    if isApart { try db.makeStatement(sql: drop).execute() } else { try db.execute(sql: drop) }
                    let left = try Int.fetchOne(
                        db,
                        sql:
                            "SELECT COUNT(*) FROM (SELECT name FROM sqlite_schema UNION ALL SELECT name FROM sqlite_temp_schema) WHERE name = 'x'"
                    )
                    #expect(left == 0)
                    try db.execute(sql: "DROP TABLE IF EXISTS y")
                }
            }
        }
    }

    @Test("deletions of other tables stay as fast as they were")
    func others() throws {
        recorder.observes = { $0 == .delete(tableName: "dust") }
        queue.add(transactionObserver: recorder)
        try queue.write { db in
            let plan = try String.fetchAll(db, sql: "EXPLAIN DELETE FROM crumb", adapter: RangeRowAdapter(1..<2))
            #expect(plan.contains("Clear"))
            let observed = try String.fetchAll(db, sql: "EXPLAIN DELETE FROM dust", adapter: RangeRowAdapter(1..<2))
            #expect(!observed.contains("Clear"))
        }
    }
}
