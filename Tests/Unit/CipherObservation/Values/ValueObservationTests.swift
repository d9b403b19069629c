import CipherDatabase
import CipherObservation
import CipherRecords
import Foundation
import Testing

/// Values that follow the database.
@Suite struct ValueObservationTests {
    private static let count = ValueObservation.tracking { db in
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf") ?? -1
    }
    private static let constantCount = ValueObservation.trackingConstantRegion { db in
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf") ?? -1
    }

    private let file = TemporaryFile()
    private let delivery = DispatchQueue(label: "delivery")

    enum Kind: CaseIterable {
        case queue
        case pool
        case erased
    }

    private func open(_ kind: Kind) throws -> any DatabaseWriter {
        let writer: any DatabaseWriter =
            switch kind {
            case .queue: DatabaseQueue()
            case .pool: try file.pool()
            case .erased: AnyDatabaseWriter(try file.pool())
            }
        try writer.write { try $0.execute(sql: "CREATE TABLE shelf (id INTEGER PRIMARY KEY); CREATE TABLE jar (a)") }
        return writer
    }

    private func insert(_ writer: any DatabaseWriter) throws {
        try writer.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
    }

    /// Waits until the last value is this one.
    private func expect(_ values: Collected<Int>, last: Int, at location: SourceLocation = #_sourceLocation) {
        values.wait { $0.last == last }
        #expect(values.all.last == last, sourceLocation: location)
        #expect(values.all == values.all.sorted(), "in order", sourceLocation: location)
    }

    private func start<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>, _ writer: any DatabaseReader,
        _ errors: Collected<String> = Collected()
    ) -> (Collected<Reducer.Value>, AnyDatabaseCancellable) {
        let values = Collected<Reducer.Value>()
        let cancellable = observation.start(
            in: AnyDatabaseReaderBox(writer).reader, scheduling: .async(onQueue: delivery),
            onError: { errors.add("\($0)") }, onChange: { values.add($0) })
        return (values, cancellable)
    }

    @Test(
        "without an initial value: each commit after the start is delivered, and nothing before",
        arguments: Kind.allCases)
    func withoutInitialValue(_ kind: Kind) throws {
        let writer = try open(kind)
        for (round, observation) in [Self.count, Self.constantCount].enumerated() {
            for attempt in 0..<20 {
                let number = 20 * round + attempt
                let (values, cancellable) = start(observation.withoutInitialValue(), writer)
                // At once: the observer may not be added yet.
                try insert(writer)
                expect(values, last: number + 1)
                #expect(values.all == [number + 1])
                cancellable.cancel()
            }
        }
        let (values, cancellable) = start(Self.count.withoutInitialValue().map { -$0 }.removeDuplicates(), writer)
        try writer.write { try $0.execute(sql: "INSERT INTO jar VALUES (1)") }
        try insert(writer)
        values.wait { !$0.isEmpty }
        #expect(values.all == [-41])
        cancellable.cancel()
    }

    @Test("without an initial value a fetch that fails ends the observation")
    func failureWithoutInitialValue() throws {
        let (writer, errors) = (try open(.pool), Collected<String>())
        let observation = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT x FROM nowhere") }
        let (values, cancellable) = start(observation.withoutInitialValue(), writer, errors)
        errors.wait { !$0.isEmpty }
        #expect(errors.all.count == 1 && values.all.isEmpty)
        cancellable.cancel()
    }

    @Test("a view that another connection defines anew is tracked by what it reads now, by a statement that is kept")
    func redefinedView() throws {
        let other = try file.pool()
        let writer = try DatabaseQueue(path: file.path, configuration: other.configuration)
        let statement = try writer.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE shelf (id INTEGER PRIMARY KEY); CREATE TABLE jar (id INTEGER PRIMARY KEY);
                    CREATE VIEW stock AS SELECT COUNT(*) AS n FROM shelf
                    """)
            return try db.makeStatement(sql: "SELECT n FROM stock")
        }
        // Safe because: a queue has one connection, and its accesses run one at a time.
        nonisolated(unsafe) let kept = statement
        let (values, cancellable) = start(ValueObservation.tracking { _ in try Int.fetchOne(kept) ?? -1 }, writer)
        defer { cancellable.cancel() }
        try insert(writer)
        expect(values, last: 1)
        try other.write { db in
            try db.execute(sql: "DROP VIEW stock; CREATE VIEW stock AS SELECT COUNT(*) + 10 AS n FROM jar")
        }
        // The fetch after this one reads another table.
        try insert(writer)
        expect(values, last: 10)
        try writer.write { try $0.execute(sql: "INSERT INTO jar DEFAULT VALUES") }
        expect(values, last: 11)
    }

    // The region stayed that of the former view, so no change of the new one was seen.
    @Test("a view that this process defines anew is tracked by what it reads now", arguments: Kind.allCases)
    func redefinedHere(kind: Kind) throws {
        let writer = try open(kind)
        try writer.write { try $0.execute(sql: "CREATE VIEW v AS SELECT id FROM shelf") }
        let count: @Sendable (Database) throws -> Int = { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM v") ?? -1 }
        let observations = [
            start(ValueObservation.tracking(count), writer),
            start(ValueObservation.trackingConstantRegion(count), writer),
        ]
        for (values, _) in observations { expect(values, last: 0) }
        try writer.write { try $0.execute(sql: "DROP VIEW v; CREATE VIEW v AS SELECT a FROM jar") }
        try writer.write { try $0.execute(sql: "INSERT INTO jar VALUES (1), (2)") }
        for (values, _) in observations { expect(values, last: 2) }
        try writer.write { try $0.execute(sql: "INSERT INTO jar VALUES (3)") }
        for (values, _) in observations { expect(values, last: 3) }
        for (_, cancellable) in observations { cancellable.cancel() }
    }

    @Test("the first value, then one for each change, in order", arguments: Kind.allCases)
    func values(kind: Kind) throws {
        let writer = try open(kind)
        for observation in [Self.count, Self.constantCount] {
            let before = try writer.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM shelf") ?? 0 }
            let (values, cancellable) = start(observation, writer)
            expect(values, last: before)
            for number in 1...5 {
                try insert(writer)
                try writer.write { try $0.execute(sql: "INSERT INTO jar VALUES (1)") }
                expect(values, last: before + number)
            }
            #expect(values.all == Array(before...(before + 5)))
            cancellable.cancel()
            try insert(writer)
            delivery.sync {}
            #expect(values.all.count == 6)
        }
    }

    @Test("no change is missed between the first fetch and the start", arguments: Kind.allCases)
    func nothingMissed(kind: Kind) throws {
        let writer = try open(kind)
        for round in 1...30 {
            let (values, cancellable) = start(round.isMultiple(of: 2) ? Self.count : Self.constantCount, writer)
            try insert(writer)
            expect(values, last: round)
            cancellable.cancel()
        }
    }

    @Test("a fetch that reads something else each time is followed")
    func varyingRegion() throws {
        let writer = try open(.pool)
        let observation = ValueObservation.tracking { db -> Int in
            let usesJars = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf") ?? 0 > 0
            return usesJars ? 100 + (try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM jar") ?? 0) : 0
        }
        let (values, cancellable) = start(observation, writer)
        expect(values, last: 0)
        try insert(writer)
        expect(values, last: 100)
        try writer.write { try $0.execute(sql: "INSERT INTO jar VALUES (1)") }
        expect(values, last: 101)
        cancellable.cancel()
    }

    @Test("values are converted, and equal ones left out")
    func conversions() throws {
        let writer = try open(.queue)
        let (values, cancellable) = start(Self.count.map { $0 / 2 }.removeDuplicates(), writer)
        for _ in 1...5 { try insert(writer) }
        expect(values, last: 2)
        #expect(values.all == [0, 1, 2])
        cancellable.cancel()
    }

    @Test("regions are tracked whatever is fetched, and what is registered is tracked too")
    func regions() throws {
        let writer = try open(.pool)
        let (calls, tracked) = (Collected<Int>(), Collected<DatabaseRegion>())
        let (first, firstEnd) = start(
            ValueObservation.tracking(region: Table("jar")) { _ in
                calls.add(1)
                return calls.all.count
            }.handleEvents(willTrackRegion: { tracked.add($0) }), writer)
        let (second, secondEnd) = start(
            ValueObservation.tracking { db -> Int in
                try db.registerAccess(to: Table("jar"))
                return try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf") ?? 0
            }.handleEvents(willTrackRegion: { tracked.add($0) }), writer)
        expect(second, last: 0)
        // Both have been added to the writer, which the insertion waits for.
        tracked.wait { $0.count == 2 }
        try insert(writer)
        expect(second, last: 1)
        let fetches = calls.all.count
        try insert(writer)
        expect(second, last: 2)
        #expect(calls.all.count == fetches)
        try writer.write { try $0.execute(sql: "INSERT INTO jar VALUES (1)") }
        expect(first, last: fetches + 1)
        firstEnd.cancel()
        secondEnd.cancel()
    }

    @Test("an error of the fetch or of a conversion ends the observation")
    func failures() throws {
        let writer = try open(.pool)
        for failing in [
            Self.count.map { count -> Int in
                if count == 1 { throw PlannedFailure() }
                return count
            }
        ] {
            let errors = Collected<String>()
            let (values, cancellable) = start(failing, writer, errors)
            expect(values, last: 0)
            try insert(writer)
            errors.wait { !$0.isEmpty }
            try insert(writer)
            delivery.sync {}
            #expect(errors.all == ["PlannedFailure()"])
            #expect(values.all == [0])
            cancellable.cancel()
        }
        let errors = Collected<String>()
        let missing = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM none") ?? 0 }
        let (_, cancellable) = start(missing, writer, errors)
        errors.wait { !$0.isEmpty }
        #expect(errors.all.count == 1 && errors.all.first?.contains("no such table: none") == true)
        cancellable.cancel()
    }

    @Test("a fetch that writes has a savepoint, and does not start itself again")
    func writingFetch() throws {
        let writer = try open(.pool)
        var observation = ValueObservation.tracking { db -> Int in
            try db.execute(sql: "INSERT INTO jar VALUES (1)")
            _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM shelf")
            return try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM jar") ?? 0
        }
        observation.requiresWriteAccess = true
        let (values, cancellable) = start(observation, writer)
        expect(values, last: 1)
        try insert(writer)
        expect(values, last: 2)
        cancellable.cancel()
    }

    @Test("a snapshot has one value")
    func readOnly() throws {
        let pool = try file.pool()
        try pool.write { try $0.execute(sql: "CREATE TABLE shelf (a)") }
        let (values, cancellable) = start(Self.count, try pool.makeSnapshot())
        expect(values, last: 0)
        cancellable.cancel()
    }

    @Test("a sequence delivers, and ends with its iteration")
    func sequences() async throws {
        let writer = try open(.pool)
        var seen: [Int] = []
        for try await count in Self.count.values(in: AnyDatabaseWriter(writer), bufferingPolicy: .bufferingNewest(1)) {
            seen.append(count)
            if count == 3 { break }
            try await writer.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        }
        #expect(seen == [0, 1, 2, 3])
        let task = Task {
            for try await _ in Self.count.values(in: AnyDatabaseWriter(writer)) {}
        }
        task.cancel()
        _ = await task.result
    }

    @Test("clients share one observation; a late one gets the last value")
    func shared() throws {
        let writer = try open(.pool)
        let fetches = Collected<Int>()
        let observation = Self.count.handleEvents(willFetch: { fetches.add(1) })
        let shared = observation.shared(in: AnyDatabaseWriter(writer), scheduling: .async(onQueue: delivery))
        let (first, second) = (Collected<Int>(), Collected<Int>())
        let firstClient = shared.start(onError: { _ in }, onChange: { first.add($0) })
        expect(first, last: 0)
        try insert(writer)
        expect(first, last: 1)
        let count = fetches.all.count
        let secondClient = shared.start(onError: { _ in }, onChange: { second.add($0) })
        expect(second, last: 1)
        #expect(fetches.all.count == count)
        firstClient.cancel()
        secondClient.cancel()
        try insert(writer)
        #expect(fetches.all.count == count)
    }

    @Test("events are reported and printed")
    func printing() throws {
        struct Lines: TextOutputStream, Sendable {
            let lines: Collected<String>
            func write(_ text: String) { lines.add(text) }
        }
        let writer = try open(.queue)
        let lines = Collected<String>()
        let (values, cancellable) = start(Self.count.print("count", to: Lines(lines: lines)), writer)
        expect(values, last: 0)
        try insert(writer)
        expect(values, last: 1)
        cancellable.cancel()
        #expect(
            lines.all == [
                "count: start", "count: fetch", "count: tracked region: shelf(*)", "count: value: 0",
                "count: database did change", "count: fetch", "count: value: 1", "count: cancel",
            ])
    }

    @Test("on the main actor the first value can come before the function returns")
    @MainActor func mainActor() throws {
        let writer = try open(.pool)
        var values: [Int] = []
        let cancellable = Self.count.start(
            in: AnyDatabaseWriter(writer), scheduling: .immediate, onError: { _ in }, onChange: { values.append($0) })
        #expect(values == [0])
        cancellable.cancel()
    }

    @Test(
        "an immediate start returns after one value, also if the program writes for each value",
        arguments: Kind.allCases)
    @MainActor func immediateStartThatWrites(kind: Kind) throws {
        let writer = AnyDatabaseWriter(try open(kind))
        let values = Collected<Int>()
        let cancellable = Self.count.start(
            in: writer, scheduling: .immediate, onError: { _ in },
            onChange: {
                values.add($0)
                if values.all.count < 50 { try? insert(writer) }
            })
        #expect(values.all == [0])
        cancellable.cancel()
        let shared = Self.count.shared(in: writer, scheduling: .immediate, extent: .whileObserved)
        let sharedValues = Collected<Int>()
        let client = shared.start(
            onError: { _ in },
            onChange: {
                sharedValues.add($0)
                if sharedValues.all.count < 50 {
                    try? writer.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
                }
            })
        #expect(sharedValues.all.count == 1)
        client.cancel()
    }
}

/// Opens an existential for functions that take `some DatabaseReader`.
private struct AnyDatabaseReaderBox {
    let reader: AnyDatabaseReader
    init(_ base: any DatabaseReader) { reader = Self.erase(base) }
    private static func erase(_ base: some DatabaseReader) -> AnyDatabaseReader { AnyDatabaseReader(base) }
}
