import CipherRecords
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import CipherDatabase
@testable import CipherObservation

/// The findings of a connection about the commits of others, and their cost.
@Suite struct ExternalCommitsTests {
    private let file = TemporaryFile()

    private func pools(records: Bool = true) throws -> (DatabasePool, DatabasePool) {
        let pools = (try file.pool(), try file.pool())
        try pools.0.write { db in
            try db.execute(sql: "CREATE TABLE shelf (id INTEGER PRIMARY KEY, a); CREATE TABLE jar (a)")
            if records { try db.recordHistory(of: .tables(["shelf"])) }
        }
        return pools
    }

    private func insert(_ writer: any DatabaseWriter, _ count: Int = 1) throws {
        try writer.write { db in for _ in 0..<count { try db.execute(sql: "INSERT INTO shelf (a) VALUES (1)") } }
    }

    /// A change as text: the recorded tables, what was recorded, and the tables of which much was.
    private func text(_ change: PollFinding) -> String {
        switch change {
        case .nothing: "nothing"
        case .everything: "everything"
        case .recorded(let changes):
            "\(changes.tables.sorted()) \(changes.entries.count) \(changes.changedTables.sorted())"
        }
    }

    @Test("a look says what others have recorded since the last one, and nothing of one's own")
    func recorded() throws {
        let (pool, other) = try pools()
        var others = ExternalCommits()
        func look() throws -> String {
            try pool.writeWithoutTransaction { text(try others.poll($0)) }
        }
        pool.writeWithoutTransaction { others.begin($0) }
        #expect(try look() == "nothing")
        // The first change of a history has none before it.
        for count in [1, 3, 900, 1_001] {
            try insert(other, count)
            #expect(try look() == (count > 1_000 ? "[\"shelf\"] 0 [\"shelf\"]" : "[\"shelf\"] \(count) []"))
            #expect(try look() == "nothing")
            try insert(pool, 2)
            #expect(try look() == "nothing")
        }
        // Own changes between those of others, and a table that is not recorded.
        try insert(other)
        try insert(pool)
        try insert(other)
        #expect(try look() == "[\"shelf\"] 2 []")
        try other.write { try $0.execute(sql: "INSERT INTO jar VALUES (1)") }
        #expect(try look() == "[\"shelf\"] 0 []")
        // Another table is recorded from now on: what was changed before is not known.
        try other.write { try $0.recordHistory(of: .tables(["jar"])) }
        #expect(try look().hasPrefix("[\"shelf\"] "))
        try other.write { try $0.execute(sql: "INSERT INTO jar VALUES (1)") }
        #expect(try look() == "[\"jar\", \"shelf\"] 1 []")
    }

    @Test("a table of which a stock program drops a trigger is not taken for a recorded one")
    func droppedTrigger() throws {
        let (pool, other) = try pools()
        var others = ExternalCommits()
        func look() throws -> String {
            try pool.writeWithoutTransaction { text(try others.poll($0)) }
        }
        pool.writeWithoutTransaction { others.begin($0) }
        try insert(other)
        #expect(try look() == "[\"shelf\"] 1 []")
        // As a program without this library does: no trigger is made again.
        try other.writeWithoutTransaction { db in
            try db.changingHistory { try db.execute(sql: "DROP TRIGGER cipherstore_history_1_insert") }
        }
        for _ in 1...2 {
            try insert(other)
            #expect(try look() == "[] 0 []")
        }
        // A connection that opens the database makes the trigger again, and readers must read the table again.
        let third = try file.pool()
        #expect(try look() == "[] 1 []")
        try insert(third)
        #expect(try look() == "[\"shelf\"] 1 []")
    }

    @Test("what was purged before a look counts as everything")
    func purged() throws {
        let (pool, other) = try pools()
        var others = ExternalCommits()
        func look() throws -> String {
            try pool.writeWithoutTransaction { text(try others.poll($0)) }
        }
        try insert(other, 10)
        pool.writeWithoutTransaction { others.begin($0) }
        try other.write { try $0.setHistoryLimits(HistoryLimits(count: 5)) }
        try other.purgeHistory()
        // The last change that was seen is still there.
        #expect(try look() == "[\"shelf\"] 0 []")
        try insert(other, 10)
        try other.purgeHistory()
        #expect(try look() == "everything")
        try insert(other, 2)
        #expect(try look() == "[\"shelf\"] 2 []")
    }

    @Test("a look is one transaction of few statements, however often it was made", arguments: [false, true])
    func cost(records: Bool) throws {
        let (pool, other) = try pools(records: records)
        var others = ExternalCommits()
        pool.writeWithoutTransaction { others.begin($0) }
        for round in 0..<3 {
            try insert(other)
            let statements = Collected<String>()
            try pool.writeWithoutTransaction { db in
                db.trace { statements.add("\($0)") }
                defer { db.trace() }
                _ = try others.poll(db)
                // Without a commit not even that.
                _ = try others.poll(db)
            }
            if round == 0 { continue }
            // Begin, number, version, and where changes are recorded those, commit. The authors are read only where this
            // store has written too.
            #expect(statements.all.count == (records ? 5 : 4), "\(statements.all)")
            #expect(
                statements.all.first?.hasPrefix("BEGIN") == true && statements.all.last?.hasPrefix("COMMIT") == true)
        }
    }
}

/// Where the values of observations are fetched and converted when others have committed.
@Suite struct ForeignFetchTests {
    private let file = TemporaryFile()

    private func start<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>, in pool: DatabasePool,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        observation.start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { _ in },
            onChange: onChange)
    }

    private static func insert(_ writer: any DatabaseWriter) throws {
        try writer.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
    }

    private func pools(
        _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> (DatabasePool, DatabasePool) {
        let pools = (try file.pool(change), try file.pool())
        try pools.0.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS shelf (id INTEGER PRIMARY KEY)") }
        return pools
    }

    @Test("after a fetch that took long the next one leaves the writing connection free", arguments: [false, true])
    func longFetches(isLong: Bool) throws {
        let (pool, other) = try pools()
        let writer = pool.writeWithoutTransaction { ObjectIdentifier($0) }
        let values = Collected<Int>()
        let isOnWriter = Collected<Bool>()
        let observation = ValueObservation.trackingConstantRegion { db in
            // A thread that is kept from the processor takes long, too: it must not fail the test.
            let end = DispatchTime.now().uptimeNanoseconds + (isLong ? 3_000_000 : 0)
            repeat {} while DispatchTime.now().uptimeNanoseconds < end
            isOnWriter.add(ObjectIdentifier(db) == writer)
            return try Table("shelf").fetchCount(db)
        }
        let cancellable = start(observation, in: pool) { values.add($0) }
        values.wait { $0.count == 1 }
        // The observer is added to the writing connection after the first value, and fetches there what came between.
        try Self.insert(other)
        values.wait { $0.last == 1 }
        let before = isOnWriter.all.count
        for number in 2...20 {
            try Self.insert(other)
            values.wait { $0.last == number }
        }
        #expect(values.all == values.all.sorted())
        let later = isOnWriter.all.dropFirst(before)
        #expect(later.contains(true) != isLong)
        cancellable.cancel()
    }

    @Test("a fetch on a reader that ends beside an earlier one on the writing connection is not delivered before it")
    func overtakingFetch() throws {
        // On a busy machine a poll may take too long to fetch on the writing connection.
        for _ in 0..<50 where try overtakes() { return }
        Issue.record("No poll has fetched on the writing connection.")
    }

    /// Holds fetches back: those on a reader until they may read, those on the writing connection before they end.
    private final class FetchGates: Sendable {
        let areClosed = Mutex(false)
        let (onReader, mayRead) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let (onWriter, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))

        func fetch(_ db: Database, onWriter isOnWriter: Bool) throws -> Int {
            let mustWait = areClosed.withLock { $0 }
            if !isOnWriter && mustWait {
                onReader.signal()
                _ = mayRead.wait(timeout: .now() + 30)
            }
            let count = try Table("shelf").fetchCount(db)
            if isOnWriter && mustWait {
                onWriter.signal()
                _ = mayEnd.wait(timeout: .now() + 30)
            }
            return count
        }

        func open() {
            areClosed.withLock { $0 = false }
            for gate in [mayRead, mayEnd] { for _ in 0..<10 { gate.signal() } }
        }
    }

    /// - Returns: Whether one fetch has overtaken another.
    private func overtakes() throws -> Bool {
        let (pool, other) = try pools { $0.maximumReaderCount = 1 }
        try pool.write { try $0.execute(sql: "DELETE FROM shelf") }
        let writer = pool.writeWithoutTransaction { ObjectIdentifier($0) }
        let (gates, values) = (FetchGates(), Collected<Int>())
        let cancellable = start(
            ValueObservation.trackingConstantRegion { db in
                try gates.fetch(db, onWriter: ObjectIdentifier(db) == writer)
            }, in: pool
        ) { values.add($0) }
        defer { cancellable.cancel() }
        values.wait { $0.count == 1 }
        try Self.insert(pool)
        values.wait { $0.last == 1 }

        gates.areClosed.withLock { $0 = true }
        try Self.insert(pool)
        #expect(gates.onReader.wait(timeout: .now() + 30) == .success)
        // Found by a poll, which fetches on the writing connection.
        try Self.insert(other)
        guard gates.onWriter.wait(timeout: .now() + 3) == .success else {
            gates.open()
            return false
        }
        try Self.insert(other)
        gates.areClosed.withLock { $0 = false }
        // The reader finds four rows and ends; then the writing connection, which has found three.
        gates.mayRead.signal()
        // The only reader is free again when that fetch has ended.
        try pool.read { _ in }
        gates.mayEnd.signal()
        try Self.insert(pool)
        values.wait { $0.last == 5 }
        // Once: a further 5 may be delivered at any time.
        let all = values.all
        #expect(all == all.sorted())
        #expect(all.last == 5)
        return true
    }

    @Test("own commits and those of others are delivered in the order of the commits")
    func order() throws {
        let (pool, other) = try pools()
        let values = Collected<Int>()
        let cancellable = start(
            ValueObservation.trackingConstantRegion { try Table("shelf").fetchCount($0) }, in: pool
        ) { values.add($0) }
        values.wait { $0.count == 1 }
        DispatchQueue.concurrentPerform(iterations: 2) { index in
            for _ in 0..<200 { try? Self.insert(index == 0 ? pool : other) }
        }
        // Some inserts found the database locked.
        let total = try pool.read { try Table("shelf").fetchCount($0) }
        values.wait { $0.last == total }
        #expect(values.all.last == total)
        #expect(values.all == values.all.sorted())
        cancellable.cancel()
    }

    @Test("a function of the program that blocks in a conversion delays its own values alone")
    func blockedConversion() throws {
        let (pool, other) = try pools()
        let mayEnd = DispatchSemaphore(value: 0)
        let (blocked, free) = (Collected<Int>(), Collected<Int>())
        let count = ValueObservation.trackingConstantRegion { try Table("shelf").fetchCount($0) }
        let converted = count.map { number -> Int in
            if number > 0 { mayEnd.wait() }
            return number
        }
        let observations = [
            start(converted, in: pool) { blocked.add($0) },
            start(count.handleEvents(didReceiveValue: { if $0 > 0 { mayEnd.wait() } }), in: pool) { _ in },
            start(count, in: pool) { free.add($0) },
        ]
        blocked.wait { $0.count == 1 }
        free.wait { $0.count == 1 }
        pool.writeWithoutTransaction { _ in }
        for number in 1...5 {
            try Self.insert(other)
            free.wait { $0.last == number }
        }
        #expect(free.all.last == 5 && blocked.all == [0])
        // A value may be fetched twice, and under load the first one is not 1.
        for _ in 0..<100 { mayEnd.signal() }
        blocked.wait { $0.last == 5 }
        #expect(blocked.all == blocked.all.sorted())
        for observation in observations { observation.cancel() }
    }
}

/// How often the monitor looks without being woken.
@Suite struct PollPauseTests {
    @Test("pauses are short after anything that happens, and long after a look that follows it")
    func pauses() {
        var pause = PollPause(short: .seconds(5))
        var counts = ProcessMonitorCounts()
        func next(canWaitLonger: Bool = true) -> Duration {
            pause.note(counts, canWaitLonger: canWaitLonger)
            return pause.next
        }
        #expect(pause.next == .milliseconds(500))
        #expect(next() == .seconds(60) && next() == .seconds(60))
        counts.notices += 1
        #expect(next() == .seconds(5) && next() == .seconds(60))
        counts.fileChanges += 1
        #expect(next() == .seconds(5) && next() == .seconds(60))
        // If files cannot be watched, and after a wake.
        #expect(next(canWaitLonger: false) == .seconds(5) && next() == .seconds(60))
    }
}
