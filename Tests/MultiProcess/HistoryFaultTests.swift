import CipherStore
import Dispatch
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

/// The history and its observers where a process dies, a file is lost or replaced, the clock jumps, or the schema changes.
@Suite(.serialized) struct HistoryFaultTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    /// The values that an observation has delivered.
    private final class Deliveries: Sendable {
        private let state = Mutex<(values: [String], error: (any Error)?)>(([], nil))
        func add(_ value: String) { state.withLock { $0.values.append(value) } }
        func fail(_ error: any Error) { state.withLock { $0.error = error } }
        var values: [String] { state.withLock { $0.values } }
        var error: (any Error)? { state.withLock { $0.error } }
    }

    private func actor() throws -> ActorProcess {
        let actor = try ActorProcess()
        let answer = actor.ask("open \(path) raw") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        return actor
    }

    private func open() throws -> SharedStore { try SharedStore.open(at: path, unlockedBy: source) }

    private func run(_ sql: String, by actor: ActorProcess, at location: SourceLocation = #_sourceLocation) {
        let answer = actor.ask("execute \(sql)") ?? "died"
        #expect(answer == "ok", "\(answer)", sourceLocation: location)
    }

    private static func text(_ value: DatabaseValue) -> String {
        if value.isNull { return "-" }
        return Int64.fromDatabaseValue(value).map { "\($0)" } ?? String.fromDatabaseValue(value) ?? "?"
    }

    private func observe(_ sql: String, in store: SharedStore) -> (Deliveries, AnyDatabaseCancellable) {
        let deliveries = Deliveries()
        let observation = ValueObservation.tracking { db in
            try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.map(Self.text).joined(separator: ",")
            }.joined(separator: ";")
        }
        let cancellable = observation.start(
            in: store, scheduling: .async(onQueue: DispatchQueue(label: "deliveries")),
            onError: { deliveries.fail($0) }, onChange: { deliveries.add($0) })
        #expect(waitUntil { deliveries.values.count == 1 })
        return (deliveries, cancellable)
    }

    private func expect(_ deliveries: Deliveries, _ value: String, at location: SourceLocation = #_sourceLocation) {
        let isReached = waitUntil { deliveries.values.last == value }
        #expect(
            isReached, "\(deliveries.values.last ?? "") \(String(describing: deliveries.error))",
            sourceLocation: location)
    }

    private func marks(_ store: SharedStore, since token: HistoryToken) throws -> [Int64] {
        try store.history(since: token).transactions.flatMap(\.changes).compactMap(\.rowID)
    }

    private func expectExpired(
        _ store: SharedStore, _ token: HistoryToken, at location: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: HistoryError.self, sourceLocation: location) {
            try store.history(since: token)
        }
        #expect(error?.code == .expired, sourceLocation: location)
    }

    // MARK: Writers that die

    @Test("of a writer that dies between a change and its commit nothing is recorded, and after it all, once")
    func killedWriters() throws {
        let store: SharedStore
        do {
            let founder = try actor()
            #expect(founder.ask("record mark") == "ok")
            store = try open()
            founder.end()
        }
        let (deliveries, cancellable) = observe("SELECT max(id) FROM mark", in: store)
        let token = try store.read { try $0.historyToken() }
        var last: Int64 = 1
        for point in ["commitBegun", "commitUnnoticed", "commitDone"] {
            let victim = try actor()
            #expect(victim.ask("die-at \(point)") == "ok")
            #expect(victim.ask("mark 1") == nil)
            if point != "commitBegun" { last += 1 }
            expect(deliveries, "\(last)")
            #expect(try marks(store, since: token) == (1...last).dropFirst().map { $0 })
        }
        // In the middle of what a commit writes.
        for call in 1...3 {
            let victim = try actor()
            #expect(victim.ask("die-at-call \(path)-wal write \(call) torn") == "ok")
            let isCommitted = victim.ask("mark 1") == "ok"
            if isCommitted { last += 1 }
            victim.kill()
            #expect(try marks(store, since: token) == (1...last).dropFirst().map { $0 })
        }
        expect(deliveries, "\(last)")
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    @Test("without a watch of files, a commit whose writer died before its notice is found by a look of one's own")
    func slowLook() throws {
        let observer = try ActorProcess()
        #expect(observer.ask("no-file-watch") == "ok")
        #expect(observer.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        for kind in ["value", "region"] {
            #expect(observer.ask("observe \(kind)") == "ok")
            #expect(waitUntil { observer.ask("monitor") != "ok none" })
            let victim = try actor()
            #expect(victim.ask("die-at commitUnnoticed") == "ok")
            let before = observer.ask("total").flatMap { Int($0.dropFirst(3)) } ?? 0
            #expect(victim.ask("mark 1") == nil)
            #expect(waitUntil { observer.ask("observed")?.hasSuffix(" \(before + 1)") == true })
            let counts = (observer.ask("monitor") ?? "").split(separator: " ").compactMap { Int($0) }
            // Found by a poll, and by nothing else.
            #expect(counts.count == 6 && counts[0] == 0 && counts[1] == 0 && counts[5] == 1, "\(counts)")
            #expect(observer.ask("observe-end") == "ok")
            #expect(waitUntil { observer.ask("monitor") == "ok none" })
        }
    }

    @Test("a notice follows each commit of another process; none is left to a look of one's own")
    func everyNotice() throws {
        let (observer, writer) = (try ActorProcess(), try actor())
        // So that nothing but notices and looks by the time finds a commit.
        #expect(observer.ask("no-file-watch") == "ok")
        #expect(observer.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(observer.ask("observe region") == "ok")
        #expect(waitUntil { observer.ask("monitor")?.hasPrefix("ok 0 0") == true })
        let before = observer.ask("total").flatMap { Int($0.dropFirst(3)) } ?? 0
        for number in 1...100 {
            #expect(writer.ask("mark 1") == "ok")
            #expect(waitUntil { observer.ask("observed")?.hasSuffix(" \(before + number)") == true })
        }
        let counts = (observer.ask("monitor") ?? "").split(separator: " ").compactMap { Int($0) }
        // A look by the time may come in the moment of a notice.
        #expect(counts.count == 6 && counts[0] >= 98 && counts[5] <= 2, "\(counts)")
    }

    @Test("with clocks that jump by years, each change is there once and in order, and transactions stay apart")
    func jumpingClocks() throws {
        let writers = try [actor(), actor()]
        #expect(writers[0].ask("record mark") == "ok")
        for writer in writers { #expect(writer.ask("jump-clock \(100 * 365 * 86_400)") == "ok") }
        let store = try open()
        let token = try store.read { try $0.historyToken() }
        for number in 0..<40 { #expect(writers[number % 2].ask("mark 2") == "ok") }
        let transactions = try store.history(since: token).transactions
        #expect(transactions.flatMap(\.changes).compactMap(\.rowID) == Array(2...81))
        #expect(transactions.count == 80 && transactions.allSatisfy { $0.date != nil && $0.changes.count == 1 })
        var (pages, next) = ([Int64](), token)
        while true {
            let page = try store.history(since: next, limit: 3)
            pages += page.transactions.flatMap(\.changes).compactMap(\.rowID)
            next = page.token
            if !page.hasMore { break }
        }
        #expect(pages == Array(2...81))
        try store.close()
    }

    // MARK: Purging

    @Test("while another process purges a large history, writers come between its parts")
    func purging() throws {
        let changes = ProcessInfo.processInfo.environment["CIPHERSTORE_COMMITS"].flatMap { Int($0) } ?? 30_000
        let other = try actor()
        #expect(other.ask("record mark account") == "ok")
        let store = try open()
        try store.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                    INSERT INTO mark (text) SELECT 'counted' FROM n
                    """, arguments: [changes])
        }
        let isOver = Flag()
        let thread = Thread {
            #expect(other.ask("purge") == "ok")
            isOver.set()
        }
        thread.start()
        var (count, longest) = (Int64(0), Duration.zero)
        while !isOver.isSet {
            let start = ContinuousClock.now
            try store.write { db in
                try db.execute(sql: "INSERT INTO account VALUES (?, 'between', 0)", arguments: [count])
            }
            longest = max(longest, .now - start)
            count += 1
        }
        print("purge: \(changes) changes, \(count) commits of another process meanwhile, each within \(longest)")
        let kept = try store.history(since: store.read { try $0.oldestHistoryToken() }, limit: 1_000_000)
        let rows = kept.transactions.flatMap(\.changes).compactMap(\.rowID)
        let latest = Int(min(count, 10))
        #expect(Array(rows.suffix(latest)) == Array((0..<count).suffix(latest)))
        #expect(rows.count < changes / 2)
        #expect(try store.read { try Int64.fetchOne($0, sql: "SELECT count(*) FROM account") } == count)
        try store.close()
    }

    // MARK: Files that are lost and replaced

    @Test("commits that are lost with -wal make a token after them expire; one before them continues")
    func lostLog() throws {
        let victim = try actor()
        #expect(victim.ask("record mark") == "ok")
        #expect(victim.ask("mark 5") == "ok")
        #expect(victim.ask("checkpoint")?.hasPrefix("ok") == true)
        var store = try open()
        let early = try store.read { try $0.historyToken() }
        try store.close()
        #expect(victim.ask("mark 5") == "ok")
        store = try open()
        let late = try store.read { try $0.historyToken() }
        // So that the closing of this store leaves the WAL.
        victim.stop()
        try store.close()
        victim.kill()
        try FileManager.default.removeItem(atPath: path + "-wal")
        store = try open()
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT max(id) FROM mark") } == 6)
        expectExpired(store, late)
        #expect(try marks(store, since: early) == [])
        let (deliveries, cancellable) = observe("SELECT max(id) FROM mark", in: store)
        let other = try actor()
        #expect(other.ask("mark 5") == "ok")
        expect(deliveries, "11")
        // Other changes have the numbers of those that were lost.
        expectExpired(store, late)
        #expect(try marks(store, since: early) == Array(7...11))
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    @Test("a store that is restored from a backup ends its observations, and tokens after the backup have expired")
    func restored() async throws {
        let other = try actor()
        #expect(other.ask("record mark") == "ok")
        #expect(other.ask("mark 3") == "ok")
        var store = try open()
        try await store.write { try $0.registerHistoryReader("reader") }
        let early = try await store.read { try $0.historyToken() }
        #expect(other.ask("backup \(folder.path("backup"))")?.hasPrefix("ok") == true)
        #expect(other.ask("mark 2") == "ok")
        let late = try await store.read { try $0.historyToken() }
        try await store.write { try $0.acknowledgeHistory(upTo: late, by: "reader") }
        let (deliveries, cancellable) = observe("SELECT max(id) FROM mark", in: store)
        // While anybody has it open it is not replaced.
        let refusal = other.ask("restore \(folder.path("backup")) \(path) raw replace") ?? "died"
        #expect(refusal.hasPrefix("error storeInUse"), "\(refusal)")
        #expect(other.ask("mark 1") == "ok")
        expect(deliveries, "7")
        #expect(other.ask("close") == "ok")
        await store.suspend(deadline: .seconds(10))
        // A program that takes no care moves the files away: so does a restoration on another machine's share.
        for name in ["app.db", "app.db-wal", "app.db-sidecar", "app.db-sidecar.bak", "app.db-shm"] {
            try? FileManager.default.moveItem(atPath: folder.path(name), toPath: folder.path("old-" + name))
        }
        #expect(other.ask("restore \(folder.path("backup")) \(path) raw")?.hasPrefix("ok") == true)
        store.resume()
        #expect(await eventually { deliveries.error != nil })
        #expect((deliveries.error as? StoreError)?.code == .storeMoved)
        try? store.close()
        store = try open()
        expectExpired(store, late)
        let error = await #expect(throws: HistoryError.self) {
            try await store.write { try $0.acknowledgeHistory(upTo: late, by: "reader") }
        }
        #expect(error?.code == .expired)
        // The registered reader is where it was when the backup was made.
        #expect(try await store.read { try $0.historyToken(ofReader: "reader") } == early)
        try await store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('a'), ('b'), ('c')") }
        expectExpired(store, late)
        #expect(try marks(store, since: early) == [5, 6, 7])
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    // MARK: Schemas that others change

    @Test(
        "what another process does to the schema is observed: columns, other names, a migration",
        arguments: [false, true])
    func changedSchema(isRecorded: Bool) throws {
        let other = try actor()
        run("INSERT INTO account VALUES (1, 'one', 10)", by: other)
        if isRecorded { #expect(other.ask("record account") == "ok") }
        let store = try open()
        let (all, first) = observe("SELECT * FROM account", in: store)
        #expect(all.values == ["1,one,10"])
        run("ALTER TABLE account ADD COLUMN note DEFAULT 'new'", by: other)
        expect(all, "1,one,10,new")
        run("UPDATE account SET note = 'other'", by: other)
        expect(all, "1,one,10,other")
        run("ALTER TABLE account RENAME COLUMN note TO remark", by: other)
        run("UPDATE account SET remark = 'third'", by: other)
        expect(all, "1,one,10,third")
        run("ALTER TABLE account DROP COLUMN remark", by: other)
        expect(all, "1,one,10")
        // As a migration does it that makes the table again, in one transaction.
        run(
            "CREATE TABLE new_account (id INTEGER PRIMARY KEY, name TEXT, balance INTEGER, added DEFAULT 5); "
                + "INSERT INTO new_account (id, name, balance) SELECT * FROM account; DROP TABLE account; "
                + "ALTER TABLE new_account RENAME TO account", by: other)
        expect(all, "1,one,10,5")
        run("UPDATE account SET added = 6", by: other)
        expect(all, "1,one,10,6")
        if isRecorded {
            let page = try store.history(since: store.read { try $0.historyToken(beforeLast: 1) })
            let last = page.transactions.last?.changes.last
            #expect(last?.kind == .updated && last?.tableName == "account")
        }
        #expect(all.error == nil)
        withExtendedLifetime(first) {}
        try store.close()
    }

    @Test(
        "a table that another process renames or drops ends an observation with SQLite's error",
        arguments: ["ALTER TABLE account RENAME TO customer", "DROP TABLE account"], [false, true])
    func lostTable(sql: String, isRecorded: Bool) throws {
        let other = try actor()
        if isRecorded { #expect(other.ask("record mark account") == "ok") }
        let store = try open()
        let (accounts, first) = observe("SELECT count(*) FROM account", in: store)
        let (marks, second) = observe("SELECT count(*) FROM mark", in: store)
        run(sql, by: other)
        #expect(waitUntil { accounts.error != nil })
        let error = accounts.error as? DatabaseError
        #expect(error?.resultCode == .SQLITE_ERROR && error?.message?.contains("no such table") == true)
        // Others continue.
        #expect(other.ask("mark 1") == "ok")
        expect(marks, "2")
        #expect(marks.error == nil)
        withExtendedLifetime([first, second]) {}
        try store.close()
    }
}
