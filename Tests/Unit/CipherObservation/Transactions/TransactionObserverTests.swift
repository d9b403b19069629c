import CSQLCipher
import CipherDatabase
import CipherObservation
import Foundation
import Testing

/// Who is notified of what, and when.
@Suite struct TransactionObserverTests {
    private let queue: DatabaseQueue
    private let recorder = Recorder()

    init() throws {
        queue = try .pantry()
        queue.add(transactionObserver: recorder)
    }

    // MARK: Changes

    @Test("each row that changes is reported, then the commit is asked for and reported")
    func order() throws {
        try queue.write { db in
            try db.execute(sql: "INSERT INTO shelf (label) VALUES ('top'), ('low')")
            try db.execute(sql: "UPDATE shelf SET label = 'middle' WHERE id = 2")
            try db.execute(sql: "DELETE FROM shelf WHERE id = 1")
            let calls = recorder.take()
            #expect(calls == ["+shelf 1", "+shelf 2", "*shelf 2", "-shelf 1"])
        }
        #expect(recorder.take() == ["will", "commit"])
    }

    @Test("an event names schema, table and kind, by SQLite's codes")
    func event() throws {
        var events: [DatabaseEvent] = []
        recorder.onEvent = { events.append($0) }
        try queue.write { db in
            try db.execute(sql: "CREATE TEMP TABLE basket (a)")
            try db.execute(sql: "INSERT INTO basket VALUES (1)")
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
        }
        #expect(events.map(\.databaseName) == ["temp", "main"])
        #expect(events.map(\.tableName) == ["basket", "shelf"])
        #expect(events.map(\.kind.rawValue) == [18, 18])
    }

    @Test("observers are asked about the changes of triggers and foreign keys too")
    func announced() throws {
        try queue.write { db in
            try db.execute(
                sql: "CREATE TABLE log (a); INSERT INTO shelf (id) VALUES (1); INSERT INTO jar (shelfID) VALUES (1)")
            try db.execute(
                sql: "CREATE TRIGGER note AFTER UPDATE OF label ON shelf BEGIN INSERT INTO log VALUES (1); END")
            recorder.asked = []
            try db.execute(sql: "UPDATE shelf SET label = 'x', height = 3")
            let asked = Set(recorder.asked)
            #expect(
                asked == [.update(tableName: "shelf", columnNames: ["label", "height"]), .insert(tableName: "log")])
            recorder.calls = []
            try db.execute(sql: "DELETE FROM shelf")
            let calls = Set(recorder.take())
            #expect(calls == ["-shelf 1", "-jar 1"])
        }
    }

    @Test("who observes nothing still hears of commits and rollbacks")
    func nothingObserved() throws {
        recorder.observes = { _ in false }
        try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        #expect(recorder.take() == ["will", "commit"])
        try queue.inTransaction { db in
            try db.execute(sql: "DELETE FROM shelf")
            return .rollback
        }
        #expect(recorder.take() == ["rollback"])
    }

    @Test("of a statement's changes each observer is notified of those that it observes")
    func filtered() throws {
        recorder.observes = { if case .delete(tableName: "jar") = $0 { true } else { false } }
        let shelves = Recorder("s ") { $0.tableName == "shelf" }
        let labels = Recorder("l ") {
            if case .update("shelf", let columns) = $0 { columns.contains("label") } else { false }
        }
        queue.add(transactionObserver: shelves)
        queue.add(transactionObserver: labels)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1)")
            try db.execute(sql: "INSERT INTO jar (shelfID) VALUES (1), (1)")
            try db.execute(sql: "UPDATE shelf SET height = 2; UPDATE shelf SET label = 'a'")
            try db.execute(sql: "DELETE FROM shelf")
        }
        let isRow: (String) -> Bool = { !$0.contains("will") && !$0.contains("commit") }
        #expect(recorder.calls.filter(isRow) == ["-jar 1", "-jar 2"])
        #expect(shelves.calls.filter(isRow) == ["s +shelf 1", "s *shelf 1", "s *shelf 1", "s -shelf 1"])
        #expect(labels.calls.filter(isRow) == ["l *shelf 1"])
    }

    @Test("an observer that changes its mind is asked again, by a cached statement too")
    func changedMind() throws {
        recorder.observes = { _ in false }
        try queue.writeWithoutTransaction { db in
            let insert = try db.cachedStatement(sql: "INSERT INTO shelf DEFAULT VALUES")
            try insert.execute()
            recorder.calls = []
            recorder.observes = { _ in true }
            try insert.execute()
            #expect(recorder.calls == ["+shelf 2", "will", "commit"])
        }
    }

    @Test("the hidden tables of a full-text table count as changes of that table")
    func fullText() throws {
        recorder.observes = { $0.tableName == "recipe" }
        try queue.write { db in
            try db.execute(sql: "CREATE VIRTUAL TABLE recipe USING fts5(text)")
            recorder.calls = []
            try db.execute(sql: "INSERT INTO recipe VALUES ('plum jam')")
            let tables = Set(recorder.take().compactMap { $0.split(separator: " ").first })
            #expect(tables.contains("+recipe_content"))
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
            let calls = recorder.take()
            #expect(calls == [])
        }
    }

    @Test("rows that C code changes are reported, by the table alone")
    func byC() throws {
        recorder.observes = { $0 == .insert(tableName: "shelf") }
        queue.writeWithoutTransaction { db in
            _ = sqlite3_exec(db.sqliteConnection, "INSERT INTO shelf DEFAULT VALUES", nil, nil, nil)
            _ = sqlite3_exec(db.sqliteConnection, "INSERT INTO jar DEFAULT VALUES", nil, nil, nil)
        }
        #expect(recorder.take() == ["+shelf 1", "will", "will", "commit"])
    }

    @Test("a cursor that is stepped after another statement has its own changes reported")
    func interleaved() throws {
        recorder.observes = { if case .update(_, let columns) = $0 { columns.contains("label") } else { false } }
        try queue.write { db in
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1)")
            let cursor = try Row.fetchCursor(db, sql: "UPDATE shelf SET label = 'a' RETURNING id")
            try db.execute(sql: "UPDATE shelf SET height = 1")
            recorder.calls = []
            while try cursor.next() != nil {}
            let calls = recorder.take()
            #expect(calls == ["*shelf 1"])
        }
    }

    @Test("a trigger that another connection has made is asked about before its changes are reported")
    func foreignTrigger() throws {
        let file = TemporaryFile()
        let (first, second) = (try file.pool(), try file.pool())
        try first.write { try $0.execute(sql: "CREATE TABLE a (x); CREATE TABLE b (x)") }
        recorder.observes = { $0 == .insert(tableName: "b") }
        first.add(transactionObserver: recorder)
        try first.write { try $0.cachedStatement(sql: "INSERT INTO a VALUES (1)").execute() }
        try second.write {
            try $0.execute(sql: "CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT INTO b VALUES (new.x); END")
        }
        recorder.calls = []
        try first.write { try $0.cachedStatement(sql: "INSERT INTO a VALUES (1)").execute() }
        #expect(recorder.take() == ["+b 1", "will", "commit"])
    }

    @Test("changes of the schema, of tables without rowid and the rows that REPLACE removes are not seen")
    func unseen() throws {
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE bare (a PRIMARY KEY) WITHOUT ROWID; INSERT INTO bare VALUES (1)")
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1); REPLACE INTO shelf (id) VALUES (1)")
            let calls = recorder.take()
            #expect(calls == ["+shelf 1", "+shelf 1"])
        }
    }

    // MARK: Observers

    @Test("an observer ends with its own life, with the next transaction, or with the database")
    func extents() throws {
        weak var weakObserver: Recorder?
        weak var keptObserver: Recorder?
        weak var nextObserver: Recorder?
        var kept: [String] = []
        var next: [String] = []
        do {
            let (first, second, third) = (Recorder(), Recorder(), Recorder())
            (weakObserver, keptObserver, nextObserver) = (first, second, third)
            second.onCommit = { _ in kept.append("commit") }
            third.onCommit = { _ in next.append("commit") }
            queue.add(transactionObserver: first)
            queue.add(transactionObserver: second, extent: .databaseLifetime)
            queue.add(transactionObserver: third, extent: .nextTransaction)
        }
        #expect(weakObserver == nil)
        #expect(keptObserver != nil && nextObserver != nil)
        for _ in 1...2 { try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") } }
        #expect(kept == ["commit", "commit"])
        #expect(next == ["commit"])
        #expect(keptObserver != nil && nextObserver == nil)
        try queue.close()
        #expect(keptObserver == nil)
    }

    @Test("an observer that is removed hears nothing more, in the middle of a transaction too")
    func removal() throws {
        try queue.write { db in
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
            db.remove(transactionObserver: recorder)
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
        }
        #expect(recorder.take() == ["+shelf 1"])
    }

    @Test("one that is added in the middle of a transaction hears the rest of it")
    func addedInside() throws {
        let late = Recorder()
        try queue.write { db in
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
            db.add(transactionObserver: late)
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
        }
        #expect(late.take() == ["+shelf 2", "will", "commit"])
    }

    @Test("all are notified in the order in which they were added")
    func addingOrder() throws {
        let calls = Collected<String>()
        let observers = ["1 ", "2 ", "3 "].map { Recorder($0) }
        for (number, observer) in observers.enumerated() {
            observer.onEvent = { _ in calls.add("row \(number)") }
            observer.onCommit = { _ in calls.add("commit \(number)") }
            queue.add(transactionObserver: observer)
        }
        try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        #expect(calls.all == ["row 0", "row 1", "row 2", "commit 0", "commit 1", "commit 2"])
    }

    @Test("stopping lasts to the end of the transaction")
    func stopping() throws {
        recorder.onEvent = { [recorder] event in
            if event.tableName == "jar" { recorder.stopObservingDatabaseChangesUntilNextTransaction() }
        }
        for _ in 1...2 {
            try queue.write { db in
                try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES; INSERT INTO jar DEFAULT VALUES")
                try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES; DELETE FROM jar")
                let calls = recorder.take()
                #expect(calls.count == 2 && calls[1].hasPrefix("+jar"))
            }
            #expect(recorder.take() == ["will", "commit"])
        }
    }

    @Test("after a commit and a rollback the observer may write, which others hear before it returns")
    func writingObserver() throws {
        recorder.onCommit = { [recorder] db in
            recorder.onCommit = { _ in }
            try? db.execute(sql: "INSERT INTO jar DEFAULT VALUES")
        }
        try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        #expect(recorder.take() == ["+shelf 1", "will", "commit", "+jar 1", "will", "commit"])
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM jar") } == 1)
    }

    // MARK: Reported by the program

    @Test("a program reports what no connection sees, inside of a transaction or in one of its own")
    func notify() throws {
        recorder.observes = { $0 == .insert(tableName: "sqlite_master") }
        let other = Recorder { $0 == .update(tableName: "jar", columnNames: ["content"]) }
        queue.add(transactionObserver: other)
        try queue.write { db in
            try db.notifyChanges(in: DatabaseRegion(table: "sqlite_master"))
            let calls = recorder.take()
            #expect(calls == ["?"])
        }
        #expect(other.take() == ["will", "commit"])
        #expect(recorder.take() == ["will", "commit"])
        // The description of the schema is no table of the program.
        try queue.writeWithoutTransaction { try $0.notifyChanges(in: .fullDatabase) }
        #expect(recorder.take() == ["will", "commit"])
        try queue.read { try $0.notifyChanges(in: .fullDatabase) }
        #expect(recorder.take() == [])
    }
}
