import CipherDatabase
import CipherObservation
import CipherRecords
import Foundation
import Synchronization
import Testing

/// The reports of an observation about itself, and their order.
@Suite struct ValueObservationEventsTests {
    private static let highest = ValueObservation.trackingConstantRegion { db in
        try Int.fetchOne(db, sql: "SELECT MAX(id) FROM shelf")
    }

    private let file = TemporaryFile()

    /// A stream that keeps each call of `write`.
    struct Lines: TextOutputStream, Sendable {
        let lines = Collected<String>()
        func write(_ text: String) { lines.add(text) }

        func expect(_ expected: [String], at location: SourceLocation = #_sourceLocation) {
            lines.wait { $0.count >= expected.count }
            #expect(lines.all == expected, sourceLocation: location)
        }
    }

    private func create(_ writer: any DatabaseWriter) throws {
        try writer.write { try $0.execute(sql: "CREATE TABLE shelf (id INTEGER PRIMARY KEY); CREATE TABLE jar (a)") }
    }

    private func insert(_ writer: any DatabaseWriter) throws {
        try writer.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
    }

    /// Starts an observation in both ways: later, and before `start` returns.
    private func start<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>, in reader: any DatabaseReader, isImmediate: Bool,
        onChange: @escaping @Sendable (Reducer.Value) -> Void = { _ in }
    ) -> AnyDatabaseCancellable {
        if isImmediate {
            return observation.start(in: reader, scheduling: Unscheduled(), onError: { _ in }, onChange: onChange)
        }
        return observation.start(
            in: reader, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { _ in },
            onChange: onChange)
    }

    /// As `.immediate`, on any thread.
    struct Unscheduled: ValueObservationScheduler {
        let queue = DispatchQueue(label: "delivery")
        func immediateInitialValue() -> Bool { true }
        func schedule(_ action: @escaping @Sendable () -> Void) { queue.async(execute: action) }
    }

    // MARK: Orders

    @Test("a reader alone starts, fetches and has one value, or an error", arguments: [false, true])
    func readOnly(isImmediate: Bool) throws {
        try create(try file.pool())
        let reading = try file.pool { $0.readonly = true }
        for reader in [reading as any DatabaseReader, try file.pool().makeSnapshot()] {
            let lines = Lines()
            let cancellable = start(Self.highest.print(to: lines), in: reader, isImmediate: isImmediate)
            lines.expect(["start", "fetch", "value: nil"])
            let failing = Lines()
            let failed = start(
                ValueObservation.trackingConstantRegion { _ in throw PlannedFailure() }.print(to: failing), in: reader,
                isImmediate: isImmediate)
            failing.expect(["start", "fetch", "failure: PlannedFailure()"])
            cancellable.cancel()
            lines.expect(["start", "fetch", "value: nil", "cancel"])
            failed.cancel()
            failing.expect(["start", "fetch", "failure: PlannedFailure()"])
        }
    }

    @Test("a fetch with write access is tracked before its value comes", arguments: [false, true], [false, true])
    func writing(isImmediate: Bool, isPool: Bool) throws {
        let writer: any DatabaseWriter = isPool ? try file.pool() : DatabaseQueue()
        try create(writer)
        let lines = Lines()
        var observation = Self.highest.print(to: lines)
        observation.requiresWriteAccess = true
        let cancellable = start(observation, in: writer, isImmediate: isImmediate)
        let first = ["start", "fetch", "tracked region: shelf(*)", "value: nil"]
        lines.expect(first)
        try insert(writer)
        let second = first + ["database did change", "fetch", "value: Optional(1)"]
        lines.expect(second)
        try writer.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES; DROP TABLE shelf") }
        let message = "SQLite error 1: no such table: shelf - while executing `SELECT MAX(id) FROM shelf`"
        lines.expect(second + ["database did change", "fetch", "failure: " + message])
        cancellable.cancel()
    }

    @Test("what was committed between the first fetch and the start is a change", arguments: [false, true])
    func between(isImmediate: Bool) throws {
        let pool = try file.pool()
        try create(pool)
        let lines = Lines()
        let isFirst = Mutex(true)
        let observation = ValueObservation.trackingConstantRegion { db -> Int? in
            if isFirst.withLock({ value in
                defer { value = false }
                return value
            }) {
                try pool.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES; DELETE FROM shelf") }
            }
            return try Int.fetchOne(db, sql: "SELECT MAX(id) FROM shelf")
        }
        let cancellable = start(observation.print(to: lines), in: pool, isImmediate: isImmediate)
        let expected = [
            "start", "fetch", "value: nil", "database did change", "fetch", "tracked region: shelf(*)", "value: nil",
        ]
        lines.lines.wait { $0.count == expected.count }
        // The first value is converted beside the access that starts the observation.
        let lists = isImmediate ? (lines.lines.all, expected) : (lines.lines.all.sorted(), expected.sorted())
        #expect(lists.0 == lists.1)
        cancellable.cancel()
    }

    @Test("without a commit in between there is one value, and one fetch")
    func noStutter() throws {
        let pool = try file.pool()
        try create(pool)
        for round in 1...20 {
            let lines = Lines()
            let cancellable = start(Self.highest.print(to: lines), in: pool, isImmediate: round.isMultiple(of: 2))
            lines.lines.wait { $0.count == 4 }
            #expect(lines.lines.all.sorted() == ["fetch", "start", "tracked region: shelf(*)", "value: nil"])
            cancellable.cancel()
        }
    }

    @Test("a region that varies is reported when it is another one")
    func varying() throws {
        let queue = DatabaseQueue()
        try queue.write {
            try $0.execute(sql: "CREATE TABLE a (id); CREATE TABLE b (id); CREATE TABLE choice (t)")
            try $0.execute(sql: "INSERT INTO choice VALUES ('a')")
        }
        let lines = Lines()
        let observation = ValueObservation.tracking { db -> Int? in
            let table = try String.fetchOne(db, sql: "SELECT t FROM choice") ?? ""
            return try Int.fetchOne(db, sql: "SELECT COUNT(id) FROM \(table)")
        }
        let cancellable = start(observation.print(to: lines), in: queue, isImmediate: true)
        for count in 1...2 {
            try queue.write { try $0.execute(sql: "UPDATE choice SET t = 'b'; INSERT INTO b VALUES (1)") }
            // Values are made ready beside the writes.
            lines.lines.wait { $0.contains("value: Optional(\(count))") }
        }
        lines.expect([
            "start", "fetch", "tracked region: a(id),choice(t)", "value: Optional(0)",
            "database did change", "fetch", "tracked region: b(id),choice(t)", "value: Optional(1)",
            "database did change", "fetch", "value: Optional(2)",
        ])
        cancellable.cancel()
    }

    @Test("operators each see the values where they stand, and prefixes are printed")
    func chains() throws {
        let queue = DatabaseQueue()
        try create(queue)
        let (first, second) = (Lines(), Lines())
        let observation = Self.highest.print(to: first).removeDuplicates().map { _ in "x" }.print("log", to: second)
        let cancellable = start(observation, in: queue, isImmediate: true)
        first.expect(["start", "fetch", "tracked region: shelf(*)", "value: nil"])
        second.expect(["log: start", "log: fetch", "log: tracked region: shelf(*)", "log: value: x"])
        cancellable.cancel()
    }

    @Test("a stream that cannot be shared is taken over")
    func ownedStream() throws {
        final class Text: TextOutputStream {
            var text = ""
            func write(_ string: String) { text += string }
        }
        let queue = DatabaseQueue()
        try create(queue)
        start(Self.highest.print(to: Text()), in: queue, isImmediate: true).cancel()
    }

    // MARK: Failures and ends

    @Test("a fetch that fails once ends the observation: nothing is fetched any more")
    func failsOnce() throws {
        for isPool in [false, true] {
            let writer: any DatabaseWriter = isPool ? try file.pool() : DatabaseQueue()
            try create(writer)
            let (fetches, values, errors) = (Collected<Int>(), Collected<Int>(), Collected<String>())
            let tracked = Collected<DatabaseRegion>()
            let observation = ValueObservation.tracking { db -> Int in
                fetches.add(1)
                let count = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf") ?? -1
                if count == 3 { throw PlannedFailure() }
                return count
            }.handleEvents(willTrackRegion: { tracked.add($0) })
            let delivery = DispatchQueue(label: "delivery")
            let cancellable = observation.start(
                in: writer, scheduling: .async(onQueue: delivery), onError: { errors.add("\($0)") },
                onChange: { values.add($0) })
            values.wait { $0 == [0] }
            // The observer of a pool is added later.
            tracked.wait { $0.count == 1 }
            for _ in 1...5 { try insert(writer) }
            errors.wait { !$0.isEmpty }
            let count = fetches.all.count
            for _ in 1...5 { try insert(writer) }
            delivery.sync {}
            #expect(fetches.all.count == count && errors.all == ["PlannedFailure()"])
            // The values before the error come before it.
            #expect(values.all == [0, 1, 2])
            cancellable.cancel()
        }
    }

    @Test("after it was cancelled in the place of delivery, no value comes, even one that is waiting")
    func cancelledInPlace() throws {
        let queue = DatabaseQueue()
        try create(queue)
        let delivery = DispatchQueue(label: "delivery")
        for _ in 1...50 {
            let isCancelled = Mutex(false)
            let late = Collected<Int>()
            let cancellable = ValueObservation.tracking { try Table("shelf").fetchCount($0) }.start(
                in: queue, scheduling: .async(onQueue: delivery), onError: { _ in },
                onChange: { if isCancelled.withLock({ $0 }) { late.add($0) } })
            try insert(queue)
            delivery.sync {
                cancellable.cancel()
                isCancelled.withLock { $0 = true }
            }
            try insert(queue)
            delivery.sync {}
            #expect(late.all == [])
        }
    }

    @Test("cancelling does not wait for a call under way, which may wait for this thread")
    func cancellingDoesNotWait() throws {
        let queue = DatabaseQueue()
        try create(queue)
        let (hasBegun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let cancellable = Self.highest.start(
            in: queue, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { _ in },
            onChange: { _ in
                hasBegun.signal()
                mayEnd.wait()
            })
        hasBegun.wait()
        try queue.write { _ in cancellable.cancel() }
        mayEnd.signal()
    }

    @Test("an observer that blocks delays its own values alone")
    func blocking() throws {
        let pool = try file.pool()
        try create(pool)
        let mayEnd = DispatchSemaphore(value: 0)
        let (blocked, free) = (Collected<Int>(), Collected<Int>())
        let count = ValueObservation.tracking { try Table("shelf").fetchCount($0) }
        let first = count.start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "blocked")), onError: { _ in },
            onChange: {
                blocked.add($0)
                if $0 == 0 { mayEnd.wait() }
            })
        let second = count.start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "free")), onError: { _ in },
            onChange: { free.add($0) })
        blocked.wait { $0.count == 1 }
        for number in 1...5 {
            try insert(pool)
            free.wait { $0.last == number }
        }
        #expect(blocked.all == [0])
        mayEnd.signal()
        blocked.wait { $0.last == 5 }
        #expect(blocked.all == blocked.all.sorted())
        first.cancel()
        second.cancel()
    }

    // MARK: Schema

    @Test("when another connection alters a table, the next value is right, and later columns count")
    func foreignSchema() throws {
        let (pool, other) = (try file.pool(), try file.pool())
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        let values = Collected<String>()
        let observation = ValueObservation.trackingConstantRegion { db in
            try Row.fetchAll(db, sql: "SELECT * FROM t").map { "\($0.databaseValues.map(\.description))" }.joined()
        }
        let cancellable = observation.start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { values.add("\($0)") },
            onChange: { values.add($0) })
        values.wait { $0.count == 1 }
        try other.write { try $0.execute(sql: "ALTER TABLE t ADD COLUMN b DEFAULT 7") }
        try pool.write { try $0.execute(sql: "UPDATE t SET a = 2") }
        values.wait { $0.last?.contains("2") == true && $0.last?.contains("7") == true }
        try pool.write { try $0.execute(sql: "UPDATE t SET b = 8") }
        values.wait { $0.last?.contains("8") == true }
        #expect(values.all.last?.contains("8") == true)
        try other.write {
            try $0.execute(sql: "ALTER TABLE t RENAME TO u; CREATE TABLE t (c); INSERT INTO t VALUES (9)")
        }
        values.wait { $0.last?.contains("9") == true }
        #expect(values.all.last?.contains("9") == true)
        cancellable.cancel()
    }

    @Test("a column that another connection adds is observed, also where changes are recorded")
    func foreignColumn() throws {
        let (pool, other) = (try file.pool(), try file.pool())
        try pool.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 2)")
            try db.recordHistory(of: .tables(["t"]), columns: true)
        }
        let values = Collected<String>()
        let observation = ValueObservation.trackingConstantRegion { db in
            try Row.fetchAll(db, sql: "SELECT * FROM t").map { "\($0.databaseValues.map(\.description))" }.joined()
        }
        let cancellable = observation.start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { values.add("\($0)") },
            onChange: { values.add($0) })
        values.wait { $0.count == 1 }
        // No row is changed.
        try other.write { try $0.execute(sql: "ALTER TABLE t ADD COLUMN b DEFAULT 77") }
        values.wait { $0.last?.contains("77") == true }
        #expect(values.all.last?.contains("77") == true)
        try other.write { try $0.execute(sql: "UPDATE t SET b = 88") }
        values.wait { $0.last?.contains("88") == true }
        #expect(values.all.last?.contains("88") == true)
        cancellable.cancel()
    }

    @Test("a table that is dropped is an error of the fetch, at once", arguments: [false, true])
    func dropped(isPool: Bool) throws {
        let writer: any DatabaseWriter = isPool ? try file.pool() : DatabaseQueue()
        try create(writer)
        let (values, errors) = (Collected<Int?>(), Collected<String>())
        let cancellable = Self.highest.start(
            in: writer, scheduling: .async(onQueue: DispatchQueue(label: "delivery")),
            onError: { errors.add("\($0)") }, onChange: { values.add($0) })
        values.wait { $0.count == 1 }
        // The observer of a pool is added later.
        try writer.write { _ in }
        try writer.write { try $0.execute(sql: "DROP TABLE shelf") }
        errors.wait { !$0.isEmpty }
        #expect(errors.all.first?.contains("no such table: shelf") == true)
        cancellable.cancel()
    }

    @Test("tables without rowid and replaced rows are followed", arguments: [false, true])
    func unseenRows(isPool: Bool) throws {
        let writer: any DatabaseWriter = isPool ? try file.pool() : DatabaseQueue()
        try writer.write {
            try $0.execute(sql: "CREATE TABLE w (k PRIMARY KEY) WITHOUT ROWID")
            try $0.execute(sql: "CREATE TABLE u (id INTEGER PRIMARY KEY, e UNIQUE); INSERT INTO u VALUES (1, 'a')")
        }
        let values = Collected<String>()
        let observation = ValueObservation.trackingConstantRegion { db in
            let count = try Table("w").fetchCount(db)
            return "\(count) \(try !Table("u").filter(Column("id") == 1).isEmpty(db))"
        }
        let cancellable = observation.start(
            in: writer, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { values.add("\($0)") },
            onChange: { values.add($0) })
        values.wait { $0.last == "0 true" }
        try writer.write { try $0.execute(sql: "INSERT INTO w VALUES (1)") }
        values.wait { $0.last == "1 true" }
        try writer.write { try $0.execute(sql: "REPLACE INTO u VALUES (2, 'a')") }
        values.wait { $0.last == "1 false" }
        #expect(values.all.last == "1 false")
        cancellable.cancel()
    }

    @Test("a closed database is an error", arguments: [false, true])
    func closed(isPool: Bool) throws {
        let writer: any DatabaseWriter = isPool ? try file.pool() : DatabaseQueue()
        try create(writer)
        try writer.close()
        for isImmediate in [false, true] {
            let lines = Lines()
            let cancellable = start(Self.highest.print(to: lines), in: writer, isImmediate: isImmediate)
            lines.lines.wait { $0.contains { $0.hasPrefix("failure: SQLite error 21") } }
            #expect(lines.lines.all.contains { $0.hasPrefix("failure: SQLite error 21") })
            cancellable.cancel()
        }
    }

    /// Closes its database when it goes.
    private final class Owner: Sendable {
        let queue = DatabaseQueue()

        deinit { try? queue.close() }
    }

    /// The callbacks were released while the observer was locked, and the close waited for that lock for ever.
    @Test("an observation whose callback is the last owner of its database is canceled", .timeLimit(.minutes(1)))
    @MainActor
    func lastOwner() {
        func start() -> AnyDatabaseCancellable {
            let owner = Owner()
            return ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT 1") }
                .start(in: owner.queue, scheduling: .immediate, onError: { _ in }, onChange: { _ in _ = owner.queue })
        }
        start().cancel()
    }
}
