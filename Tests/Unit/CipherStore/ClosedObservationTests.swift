import CipherStore
import Dispatch
import Foundation
import StorePlatform
import Synchronization
import TestHarness
import TestKit
import Testing

/// Observations of a database that is closed: each ends with the error that later accesses get.
@Suite(.serialized, .exclusive(.suspension)) struct ClosedObservationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    enum Kind: String, CaseIterable, Sendable {
        case sharedStore, pool, queue, memory, readonlyPool, readonlyQueue, snapshot
        /// The type-erased objects.
        case anyReader, anyWriter

        var writes: Bool { ![.readonlyPool, .readonlyQueue, .snapshot, .anyReader].contains(self) }
    }

    /// The errors with which observations end.
    private final class Ends: Sendable {
        private let list = Mutex<[any Error]>([])
        func add(_ error: any Error) { list.withLock { $0.append(error) } }
        var all: [any Error] { list.withLock { $0 } }
    }

    private struct EndedWithoutError: Error {}

    private static let count = ValueObservation.tracking { try Table("t").fetchCount($0) }

    private func open(_ kind: Kind) throws -> (reader: any DatabaseReader, keeper: (any DatabaseReader)?) {
        var config = Configuration()
        config.observesSuspensionNotifications = true
        if kind != .sharedStore {
            config.prepareDatabase { db in try db.useRawKey(Data(repeating: 0x2a, count: 32)) }
        }
        var readonly = config
        readonly.readonly = true
        let setup: (any DatabaseWriter) throws -> Void = { writer in
            try writer.write { db in
                try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)")
                try db.recordHistory(of: .tables(["t"]))
            }
        }
        let writer: any DatabaseWriter
        switch kind {
        case .sharedStore:
            writer = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"), configuration: config)
        case .memory: writer = DatabaseQueue()
        case .queue: writer = try DatabaseQueue(path: path, configuration: config)
        default: writer = try DatabasePool(path: path, configuration: config)
        }
        try setup(writer)
        switch kind {
        case .readonlyPool: return (try DatabasePool(path: path, configuration: readonly), writer)
        case .readonlyQueue: return (try DatabaseQueue(path: path, configuration: readonly), writer)
        case .snapshot: return (try #require(writer as? DatabasePool).makeSnapshot(), writer)
        case .anyReader: return (AnyDatabaseReader(writer), nil)
        case .anyWriter: return (AnyDatabaseWriter(writer), nil)
        default: return (writer, nil)
        }
    }

    private func expectClosed(_ error: any Error, _ kind: Kind, at location: SourceLocation = #_sourceLocation) {
        if kind == .sharedStore {
            #expect((error as? StoreError)?.code == .storeClosed, "\(error)", sourceLocation: location)
        } else {
            #expect((error as? DatabaseError)?.resultCode == .SQLITE_MISUSE, "\(error)", sourceLocation: location)
        }
    }

    /// Iterates in a task, whose last error is noted.
    private func iterate<Values: AsyncSequence & Sendable>(
        _ values: Values, _ ends: Ends, _ first: Ends
    ) -> Task<Void, Never> {
        Task {
            do {
                for try await _ in values { first.add(EndedWithoutError()) }
                ends.add(EndedWithoutError())
            } catch {
                ends.add(error)
            }
        }
    }

    @Test(
        "values end: the function for errors is called once, and a task that iterates gets the error",
        arguments: Kind.allCases)
    func values(_ kind: Kind) async throws {
        // Story: the task waited for ever, with the object that it kept.
        let (reader, keeper) = try open(kind)
        let (errors, ends, arrivals) = (Ends(), Ends(), Ends())
        let observed = Self.count.start(
            in: AnyDatabaseReader(reader), scheduling: .async(onQueue: DispatchQueue(label: "delivery")),
            onError: { errors.add($0) }, onChange: { _ in arrivals.add(EndedWithoutError()) })
        let shared = Self.count.shared(
            in: AnyDatabaseReader(reader), scheduling: .async(onQueue: DispatchQueue(label: "shared")))
        let tasks = [
            iterate(Self.count.values(in: AnyDatabaseReader(reader)), ends, arrivals),
            iterate(shared.values(), ends, arrivals),
        ]
        #expect(await eventually(within: .seconds(10)) { arrivals.all.count >= 3 })
        try reader.close()
        #expect(await eventually(within: .seconds(10)) { errors.all.count == 1 && ends.all.count == tasks.count })
        for error in errors.all + ends.all { expectClosed(error, kind) }
        // Another close tells nobody again.
        try reader.close()
        for task in tasks { task.cancel() }
        #expect(errors.all.count == 1)
        withExtendedLifetime((observed, keeper)) {}
    }

    @Test("regions and the changes of others end", arguments: Kind.allCases.filter(\.writes))
    func regionsAndOthers(_ kind: Kind) async throws {
        let writer = try #require(try open(kind).reader as? any DatabaseWriter)
        let (errors, ends) = (Ends(), Ends())
        let observed = DatabaseRegionObservation(tracking: Table("t")).start(
            in: writer, onError: { errors.add($0) }, onChange: { _ in })
        let begins = Ends()
        let task = Task {
            do {
                var iterator = writer.externalChanges.makeAsyncIterator()
                begins.add(EndedWithoutError())
                _ = try await iterator.next()
                ends.add(EndedWithoutError())
            } catch {
                ends.add(error)
            }
        }
        #expect(await eventually(within: .seconds(10)) { begins.all.count == 1 })
        try writer.close()
        #expect(await eventually(within: .seconds(10)) { errors.all.count == 1 && ends.all.count == 1 })
        for error in errors.all + ends.all { expectClosed(error, kind) }
        task.cancel()
        withExtendedLifetime(observed) {}
    }

    @Test("the functions may use other stores, and the closed one throws in them")
    func outsideOfAccesses() async throws {
        let store = try #require(try open(.sharedStore).reader as? SharedStore)
        let errors = Ends()
        let observed = DatabaseRegionObservation(tracking: Table("t")).start(
            in: store,
            onError: { _ in
                do { _ = try store.read { _ in 0 } } catch { errors.add(error) }
            }, onChange: { _ in })
        try store.close()
        #expect(errors.all.count == 1)
        for error in errors.all { expectClosed(error, .sharedStore) }
        withExtendedLifetime(observed) {}
    }

    @Test("observations that a suspension keeps from their value end", arguments: [Kind.sharedStore, .pool, .queue])
    func suspended(_ kind: Kind) async throws {
        let writer = try #require(try open(kind).reader as? any DatabaseWriter)
        let (ends, arrivals) = (Ends(), Ends())
        let before = iterate(Self.count.values(in: writer), ends, arrivals)
        #expect(await eventually(within: .seconds(10)) { !arrivals.all.isEmpty })
        NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
        defer { NotificationCenter.default.post(name: Database.resumeNotification, object: nil) }
        let during = iterate(Self.count.values(in: writer), ends, arrivals)
        try writer.close()
        #expect(await eventually(within: .seconds(10)) { ends.all.count == 2 })
        for error in ends.all { expectClosed(error, kind) }
        before.cancel()
        during.cancel()
    }

    @Test("a close that fails ends no observation")
    func refusedClose() async throws {
        let queue = try #require(try open(.queue).reader as? DatabaseQueue)
        let (ends, arrivals) = (Ends(), Ends())
        let task = iterate(Self.count.values(in: queue), ends, arrivals)
        #expect(await eventually(within: .seconds(10)) { arrivals.all.count == 1 })
        var statement: Statement? = try queue.inDatabase { try $0.makeStatement(sql: "SELECT * FROM t") }
        #expect(throws: DatabaseError.self) { try queue.close() }
        #expect(ends.all.isEmpty)
        withExtendedLifetime(statement) {}
        statement = nil
        try await queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        #expect(await eventually(within: .seconds(10)) { arrivals.all.count == 2 })
        try queue.close()
        #expect(await eventually(within: .seconds(10)) { ends.all.count == 1 })
        task.cancel()
    }
}
