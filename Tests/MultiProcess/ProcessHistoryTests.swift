import CipherStore
import Dispatch
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Observations of what other processes commit, where a history says what that was.
@Suite(.serialized) struct ProcessHistoryTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    private final class Values: Sendable {
        private let list = Mutex<[Int]>([])
        func add(_ value: Int) { list.withLock { $0.append(value) } }
        var all: [Int] { list.withLock { $0 } }
    }

    private func actor() throws -> ActorProcess {
        let actor = try ActorProcess()
        let answer = actor.ask("open \(path) raw") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        return actor
    }

    /// Opens the store, which records these tables.
    private func open(_ scope: HistoryScope = .tables(["mark", "account"])) throws -> SharedStore {
        let store = try SharedStore.open(at: path, unlockedBy: source)
        try store.write { try $0.recordHistory(of: scope, columns: true) }
        return store
    }

    /// Starts an observation, and waits until it follows others: what they commit before counts as a change.
    private func start(
        _ store: SharedStore, _ sql: String, in region: DatabaseRegion? = nil,
        at location: SourceLocation = #_sourceLocation
    ) -> (Values, AnyDatabaseCancellable) {
        let (values, regions) = (Values(), Values())
        let fetch: @Sendable (Database) throws -> Int = { try Int.fetchOne($0, sql: sql) ?? -1 }
        let observation = region.map { .tracking(region: $0, fetch: fetch) } ?? ValueObservation.tracking(fetch)
        let cancellable = observation.handleEvents(willTrackRegion: { _ in regions.add(1) }).start(
            in: store, scheduling: .async(onQueue: DispatchQueue(label: "values")),
            onError: {
                // The end of each test closes the store.
                if ($0 as? StoreError)?.code != .storeClosed { Issue.record($0, sourceLocation: location) }
            }, onChange: { values.add($0) })
        #expect(waitUntil { values.all.count == 1 && !regions.all.isEmpty }, sourceLocation: location)
        #expect(
            waitUntil { store.writeWithoutTransaction { $0.processMonitorCounts } != nil }, sourceLocation: location)
        return (values, cancellable)
    }

    private func run(_ sql: String, by actor: ActorProcess, at location: SourceLocation = #_sourceLocation) {
        let answer = actor.ask("execute \(sql)") ?? "died"
        #expect(answer == "ok", "\(answer)", sourceLocation: location)
    }

    /// Waits until an observation of everything has seen a commit, after which others have seen it too.
    private func expect(
        _ values: Values, _ expected: [Int], at location: SourceLocation = #_sourceLocation
    ) {
        #expect(waitUntil { values.all.count >= expected.count }, sourceLocation: location)
        #expect(values.all == expected, sourceLocation: location)
    }

    @Test("observations of tables, columns and rows that others do not change fetch nothing")
    func untouched() throws {
        let other = try actor()
        run("INSERT INTO account VALUES (1, 'one', 10), (2, 'two', 20)", by: other)
        let store = try open()
        let (marks, first) = start(store, "SELECT COUNT(*) FROM mark")
        let (sums, second) = start(store, "SELECT SUM(balance) FROM account")
        let (names, third) = start(store, "SELECT MAX(length(name)) FROM account")
        let (row, fourth) = start(
            store, "SELECT balance FROM account WHERE id = 1", in: DatabaseRegion(table: "account", rowIds: [1]))
        #expect(other.ask("mark 50") == "ok")
        #expect(waitUntil { marks.all.last == 51 })
        run("UPDATE account SET balance = 25 WHERE id = 2", by: other)
        expect(sums, [30, 35])
        run("UPDATE account SET balance = 15 WHERE id = 1", by: other)
        expect(sums, [30, 35, 40])
        expect(row, [10, 15])
        run("UPDATE account SET name = 'another' WHERE id = 2", by: other)
        expect(names, [3, 7])
        run("DELETE FROM account WHERE id = 1", by: other)
        expect(row, [10, 15, -1])
        expect(sums, [30, 35, 40, 25])
        #expect(names.all.count <= 3 && marks.all.last == 51)
        withExtendedLifetime([first, second, third, fourth]) {}
        try store.close()
    }

    @Test("any commit counts for a table that is not recorded, and for one whose recording begins")
    func unrecorded() throws {
        let other = try actor()
        let store = try open(.tables(["account"]))
        let (marks, first) = start(store, "SELECT COUNT(*) FROM mark")
        let (accounts, second) = start(store, "SELECT COUNT(*) FROM account")
        #expect(other.ask("mark 1") == "ok")
        expect(marks, [1, 2])
        run("INSERT INTO account VALUES (1, 'one', 1)", by: other)
        expect(accounts, [0, 1])
        // A change that nobody records, and the recording after it, before anybody looks.
        let (hasBegun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        store.asyncWriteWithoutTransaction { _ in
            hasBegun.signal()
            mayEnd.wait()
        }
        hasBegun.wait()
        #expect(other.ask("mark 1") == "ok")
        #expect(other.ask("record mark") == "ok")
        mayEnd.signal()
        #expect(waitUntil { marks.all.last == 3 })
        let count = marks.all.count
        run("UPDATE account SET balance = 2", by: other)
        #expect(other.ask("mark 1") == "ok")
        #expect(waitUntil { marks.all.last == 4 })
        #expect(marks.all.count <= count + 2)
        withExtendedLifetime([first, second]) {}
        try store.close()
    }

    @Test("many changes at once, own ones among them, and a REPLACE")
    func manyChanges() throws {
        let other = try actor()
        let store = try open(.allTables)
        let (accounts, first) = start(store, "SELECT COUNT(*) FROM account")
        let (marks, second) = start(store, "SELECT COUNT(*) FROM mark")
        run(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
                + "INSERT INTO account SELECT i, 'a', 0 FROM n", by: other)
        expect(accounts, [0, 5000])
        #expect(marks.all == [1])
        try store.write { try $0.execute(sql: "UPDATE account SET balance = 1 WHERE id < 10") }
        expect(accounts, [0, 5000, 5000])
        // The changes that this store has recorded itself are not reported again with the later ones of others.
        try store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('own')") }
        expect(marks, [1, 2])
        run("REPLACE INTO account VALUES (7, 'b', 1)", by: other)
        expect(accounts, [0, 5000, 5000, 5000])
        #expect(marks.all == [1, 2])
        withExtendedLifetime([first, second]) {}
        try store.close()
    }

    @Test("an acknowledgement and a purge wake nobody and are delivered to nobody")
    func upkeep() throws {
        let other = try actor()
        let store = try open(.allTables)
        #expect(other.ask("mark 100") == "ok")
        let changes = Values()
        let full = try DatabaseRegionObservation(tracking: .fullDatabase).start(in: store) { _ in changes.add(1) }
        #expect(other.ask("acknowledge reader") == "ok")
        #expect(other.ask("purge") == "ok")
        let notices = store.writeWithoutTransaction { $0.processMonitorCounts?.notices }
        #expect(notices == 0)
        #expect(other.ask("mark 1") == "ok")
        #expect(waitUntil { !changes.all.isEmpty })
        #expect(changes.all.count == 1)
        withExtendedLifetime(full) {}
        try store.close()
    }

    @Test("with a history, a suspension and a switch to another key are reported only where they concern somebody")
    func replacedConnections() async throws {
        let other = try actor()
        let store = try open()
        let (marks, first) = start(store, "SELECT COUNT(*) FROM mark")
        let (accounts, second) = start(store, "SELECT COUNT(*) FROM account")
        await store.suspend(deadline: .seconds(10))
        #expect(other.ask("mark 3") == "ok")
        store.resume()
        expect(marks, [1, 4])
        #expect(try KeySwitch(path).run())
        #expect(other.ask("mark 1") == "ok")
        expect(marks, [1, 4, 5])
        #expect(accounts.all == [0])
        withExtendedLifetime([first, second]) {}
        try store.close()
    }

    // MARK: Sets of changes

    @Test("the changes of others come as sets of keys, in order, by author, once, and without one's own")
    func externalChanges() async throws {
        let (one, two) = (try actor(), try actor())
        let store = try open()
        var iterator = store.externalChanges.makeAsyncIterator()
        #expect(one.ask("mark 2") == "ok")
        var changes = try #require(try await iterator.next())
        var rows = changes.tables["mark"]?.inserted ?? []
        if rows.count == 1 { rows.formUnion(try await iterator.next()?.tables["mark"]?.inserted ?? []) }
        #expect(rows == [["id": 2.databaseValue], ["id": 3.databaseValue]])
        let author = changes.author
        #expect(author?.label == "StoreActor")
        try await store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('own')") }
        run("INSERT INTO account VALUES (1, 'one', 1)", by: two)
        changes = try #require(try await iterator.next())
        #expect(changes.author != author && changes.author?.label == "StoreActor")
        #expect(changes.tables.keys.sorted() == ["account"])
        run("UPDATE account SET balance = 2; DELETE FROM mark WHERE id = 2", by: one)
        var deleted: Set<[String: DatabaseValue]> = []
        var updated: Set<[String: DatabaseValue]> = []
        while deleted.isEmpty {
            changes = try #require(try await iterator.next())
            updated.formUnion(changes.tables["account"]?.updated ?? [])
            deleted.formUnion(changes.tables["mark"]?.deleted ?? [])
        }
        #expect(updated == [["id": 1.databaseValue]] && deleted == [["id": 2.databaseValue]])
        try store.close()
    }

    @Test("a sequence of changes from a token on, over many pages; its end is that of its task or of its store")
    func manyExternalChanges() async throws {
        let other = try actor()
        let store = try open()
        let token = try await store.read { try $0.historyToken() }
        #expect(other.ask("mark 3000") == "ok")
        var seen = 0
        for try await changes in store.externalChanges(since: token) {
            seen += changes.tables["mark"]?.inserted.count ?? 0
            if seen == 3000 { break }
        }
        #expect(seen == 3000)
        let task = Task {
            var count = 0
            for try await _ in store.externalChanges { count += 1 }
            return count
        }
        task.cancel()
        #expect(try await task.value == 0)
        var iterator = store.externalChanges.makeAsyncIterator()
        try FileManager.default.moveItem(atPath: path, toPath: folder.path("old.db"))
        let error = await #expect(throws: StoreError.self) { _ = try await iterator.next() }
        #expect(error?.code == .storeMoved)
        #expect(try await iterator.next() == nil)
        try? store.close()
    }

    @Test("a sequence of changes needs a history, and says so where it has none or not any more")
    func missingHistory() async throws {
        let other = try actor()
        let store = try SharedStore.open(at: path, unlockedBy: source)
        var iterator = store.externalChanges.makeAsyncIterator()
        var error = await #expect(throws: HistoryError.self) { _ = try await iterator.next() }
        #expect(error?.code == .notRecorded)
        try await store.write { try $0.recordHistory(of: .tables(["mark"])) }
        #expect(other.ask("mark 5") == "ok")
        let token = try await store.read { try $0.historyToken() }
        #expect(other.ask("mark 5") == "ok")
        try await store.write { db in
            try db.setHistoryLimits(HistoryLimits(count: 1))
        }
        try store.purgeHistory()
        iterator = store.externalChanges(since: token).makeAsyncIterator()
        error = await #expect(throws: HistoryError.self) { _ = try await iterator.next() }
        #expect(error?.code == .expired)
        try store.close()
    }
}
