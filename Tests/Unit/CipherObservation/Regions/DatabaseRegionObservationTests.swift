import CipherDatabase
import CipherObservation
import CipherRecords
import Dispatch
import Foundation
import Testing

/// Observations of parts of a database.
@Suite struct DatabaseRegionObservationTests {
    private let queue: DatabaseQueue
    private let calls = Collected<String>()

    init() throws { queue = try .pantry() }

    private func execute(_ sql: String) throws { try queue.write { try $0.execute(sql: sql) } }

    private func observe(_ regions: any DatabaseRegionConvertible..., by name: String = "x") throws
        -> AnyDatabaseCancellable
    {
        try DatabaseRegionObservation(tracking: regions).start(in: queue) { [calls] _ in calls.add(name)
        }
    }

    @Test("each commit that changes one of the regions is reported once")
    func forms() throws {
        let (shelves, jars) = (SQLRequest<Row>(sql: "SELECT id FROM shelf"), Table("jar").all())
        let observations = [
            DatabaseRegionObservation(tracking: shelves, jars),
            DatabaseRegionObservation(tracking: [shelves, jars]),
            DatabaseRegionObservation(tracking: .fullDatabase),
        ]
        let cancellables = observations.enumerated().map { index, observation in
            observation.start(
                in: queue, onError: { Issue.record($0) }, onChange: { [calls] _ in calls.add("\(index)") })
        }
        #expect(calls.all == [])
        try execute("INSERT INTO shelf DEFAULT VALUES; INSERT INTO shelf DEFAULT VALUES")
        try execute("INSERT INTO jar DEFAULT VALUES; DELETE FROM shelf")
        #expect(calls.all == ["0", "1", "2", "0", "1", "2"])
        withExtendedLifetime(cancellables) {}
    }

    @Test("only what is read counts: columns, rows, and not what is rolled back")
    func precise() throws {
        try execute("INSERT INTO shelf (id) VALUES (1), (2)")
        let label = try observe(SQLRequest<Row>(sql: "SELECT label FROM shelf"), by: "label")
        let first = try observe(Table("shelf").filter(Column("id") == 1), by: "first")
        try execute("UPDATE shelf SET height = 1 WHERE id = 2; INSERT INTO jar DEFAULT VALUES")
        #expect(calls.all == [])
        try execute("UPDATE shelf SET label = 'x' WHERE id = 2")
        #expect(calls.all == ["label"])
        try execute("UPDATE shelf SET height = 2 WHERE id = 1")
        #expect(calls.all == ["label", "first"])
        try queue.inTransaction { db in
            try db.execute(sql: "DELETE FROM shelf")
            return .rollback
        }
        try execute("SAVEPOINT s; DELETE FROM shelf; ROLLBACK TO s; RELEASE s")
        #expect(calls.all == ["label", "first"])
        try execute("SAVEPOINT s; DELETE FROM shelf; RELEASE s")
        #expect(calls.all == ["label", "first", "label", "first"])
        withExtendedLifetime((label, first)) {}
    }

    @Test("a row that gets the rowid of another one changes, and so does the one that it had")
    func movedRows() throws {
        try execute("INSERT INTO shelf (id) VALUES (1), (2)")
        let first = try observe(Table("shelf").filter(Column("id") == 1))
        try execute("UPDATE shelf SET id = 7 WHERE id = 1")
        #expect(calls.all == ["x"])
        try execute("UPDATE shelf SET id = 1 WHERE id = 2")
        #expect(calls.all == ["x", "x"])
        withExtendedLifetime(first) {}
    }

    @Test("a view and a full-text table can be observed")
    func viewsAndFullText() throws {
        try execute(
            "CREATE VIEW tall AS SELECT label FROM shelf WHERE height > 1; CREATE VIRTUAL TABLE note USING fts5(a)"
        )
        let view = try observe(Table("tall"), by: "view")
        let note = try observe(Table("note"), by: "note")
        try execute("INSERT INTO shelf DEFAULT VALUES")
        try execute("INSERT INTO note VALUES ('plums')")
        try execute("DELETE FROM note")
        #expect(calls.all == ["view", "note", "note"])
        withExtendedLifetime((view, note)) {}
    }

    @Test("a missing table, and a closed database, are errors")
    func errors() throws {
        #expect(databaseError { try observe(Table("none")) }?.message == "no such table: none")
        let errors = Collected<String>()
        let observation = DatabaseRegionObservation(tracking: Table("none"))
        let cancellable = observation.start(
            in: queue, onError: { errors.add("\($0)") }, onChange: { _ in })
        #expect(errors.all.count == 1)
        cancellable.cancel()
        try queue.close()
        #expect(databaseError { try observe(.fullDatabase) }?.resultCode == .SQLITE_MISUSE)
    }

    @Test("it ends when it is cancelled, or released")
    func cancellation() throws {
        var first: AnyDatabaseCancellable? = try observe(Table("shelf"), by: "first")
        let second = try observe(Table("shelf"), by: "second")
        try execute("INSERT INTO shelf DEFAULT VALUES")
        second.cancel()
        second.cancel()
        try execute("INSERT INTO shelf DEFAULT VALUES")
        #expect(calls.all == ["first", "second", "first"])
        first = nil
        try execute("INSERT INTO shelf DEFAULT VALUES")
        #expect(calls.all.count == 3)
        _ = first
    }

    @Test("the function may read, write and cancel, and comes before any other write")
    func insideChange() throws {
        let queue = queue
        let counts = Collected<Int>()
        let cancellable = try DatabaseRegionObservation(tracking: Table("shelf")).start(in: queue) {
            db in
            counts.add((try? Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf")) ?? -1)
            try? db.execute(sql: "INSERT INTO jar DEFAULT VALUES")
        }
        try execute("INSERT INTO shelf DEFAULT VALUES")
        try execute("INSERT INTO shelf DEFAULT VALUES")
        #expect(counts.all == [1, 2])
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM jar") } == 2)
        cancellable.cancel()
    }

    @Test("it can be started inside a write, and what the program reports counts")
    func reported() throws {
        let cancellable = try queue.write { [calls] db in
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
            return try DatabaseRegionObservation(
                tracking: Table("jar"), DatabaseRegion(table: "sqlite_master")
            )
            .start(in: queue) { _ in calls.add("x") }
        }
        #expect(calls.all == [])
        try queue.write { try $0.notifyChanges(in: Table("sqlite_master")) }
        try queue.write { try $0.notifyChanges(in: Table("shelf")) }
        #expect(calls.all == ["x"])
        withExtendedLifetime(cancellable) {}
    }

    @Test("on a pool the observation is the writer's")
    func pools() throws {
        let file = TemporaryFile()
        let pool = try file.pool()
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        let cancellable = try DatabaseRegionObservation(tracking: Table("t")).start(
            in: AnyDatabaseWriter(pool)
        ) {
            [calls] _ in calls.add("x")
        }
        try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        #expect(calls.all == ["x"])
        withExtendedLifetime(cancellable) {}
    }

    /// Each call went through two wrappers more than the one before, until the stack was full.
    @Test("the call of an observation is not wrapped once more by each change")
    func manyCalls() throws {
        let places = Collected<Int>()
        let observation = try DatabaseRegionObservation(tracking: Table("shelf")).start(in: queue) { _ in
            var local = 0
            places.add(withUnsafeMutablePointer(to: &local) { Int(bitPattern: $0) })
        }
        try queue.writeWithoutTransaction { db in
            for _ in 0..<1000 { try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        }
        let all = places.all
        let distance = abs((all.last ?? 0) - (all.first ?? 0))
        #expect(all.count == 1000 && distance < 1000, "\(distance) bytes of the stack")
        withExtendedLifetime(observation) {}
    }

    /// Its region was found again after each change of the schema, and was empty where a value had been fetched before.
    @Test("beside observed values it goes on after another connection has changed the schema")
    func foreignSchema() throws {
        let file = TemporaryFile()
        let (pool, other) = (try file.pool(), try file.pool())
        try pool.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (a)") }
        let first = try DatabaseRegionObservation(tracking: Table("t").filter(Column("a") > 0)).start(in: pool) {
            [calls] db in calls.add("\((try? Table("t").fetchCount(db)) ?? -1)")
        }
        let values = Collected<Int>()
        let second = ValueObservation.tracking { try Int.fetchAll($0, sql: "SELECT a FROM t ORDER BY a").count }.start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { Issue.record($0) },
            onChange: { values.add($0) })
        values.wait { $0.last == 0 }
        pool.writeWithoutTransaction { _ in }
        for number in 1...3 {
            try other.write { try $0.execute(sql: "CREATE TABLE v\(number) (a)") }
            try other.write { try $0.execute(sql: "INSERT INTO t (a) VALUES (1)") }
            values.wait { $0.last == number }
            calls.wait { $0.last == "\(number)" }
            #expect(calls.all.last == "\(number)")
        }
        withExtendedLifetime((first, second)) {}
    }

    // It was called inside an access of the writing connection.
    @Test("where the database is lost, the function for errors may write to it and close it", arguments: [false, true])
    func usesOfLostDatabase(closes: Bool) throws {
        let file = TemporaryFile()
        let pool = try file.pool()
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        let outcomes = Collected<String>()
        let cancellable = DatabaseRegionObservation(tracking: Table("t")).start(
            in: pool,
            onError: { error in
                if closes { try? pool.close() }
                try? pool.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
                outcomes.add("\(error)")
            }, onChange: { _ in })
        let moved = file.path + ".old"
        defer { try? FileManager.default.removeItem(atPath: moved) }
        try FileManager.default.moveItem(atPath: file.path, toPath: moved)
        outcomes.wait { !$0.isEmpty }
        #expect(outcomes.all.count == 1)
        withExtendedLifetime(cancellable) {}
    }
}
