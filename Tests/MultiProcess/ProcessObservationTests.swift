import CipherStore
import Dispatch
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// The values that an observation delivered: numbers of rows, and its error.
private final class Deliveries: Sendable {
    private struct State {
        var values: [Int] = []
        var error: (any Error)?
    }

    private let state = Mutex(State())

    func add(_ value: Int) { state.withLock { $0.values.append(value) } }
    func fail(_ error: any Error) { state.withLock { $0.error = error } }
    var values: [Int] { state.withLock { $0.values } }
    var error: (any Error)? { state.withLock { $0.error } }
}

/// The forms of observations of the number of rows.
private enum Form: CaseIterable {
    case value
    case constantRegion
    case region

    /// How many deliveries there are without any change.
    var first: Int { self == .region ? 0 : 1 }

    func start(in store: SharedStore, _ deliveries: Deliveries) -> AnyDatabaseCancellable {
        let fetch: @Sendable (Database) throws -> Int = { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") ?? -1 }
        let queue = DispatchQueue(label: "deliveries")
        switch self {
        case .value:
            return ValueObservation.tracking(fetch).start(
                in: store, scheduling: .async(onQueue: queue), onError: { deliveries.fail($0) },
                onChange: { deliveries.add($0) })
        case .constantRegion:
            return ValueObservation.trackingConstantRegion(fetch).start(
                in: store, scheduling: .async(onQueue: queue), onError: { deliveries.fail($0) },
                onChange: { deliveries.add($0) })
        case .region:
            return DatabaseRegionObservation(tracking: Table("mark")).start(
                in: store, onError: { deliveries.fail($0) },
                onChange: { db in
                    do { deliveries.add(try fetch(db)) } catch { deliveries.fail(error) }
                })
        }
    }
}

/// Observations see what other processes commit.
@Suite(.serialized) struct ProcessObservationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let source = TestKeys.source("raw")

    private func actor() throws -> ActorProcess {
        let actor = try ActorProcess()
        let answer = actor.ask("open \(path) raw") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        return actor
    }

    private func open() throws -> SharedStore { try SharedStore.open(at: path, unlockedBy: source) }

    private func insert(_ store: SharedStore) throws {
        try store.write { try $0.execute(sql: "INSERT INTO mark (process, text) VALUES (0, 'own')") }
    }

    private func activity(_ store: SharedStore) -> ProcessMonitorCounts {
        store.writeWithoutTransaction { $0.processMonitorCounts } ?? ProcessMonitorCounts()
    }

    private func hasMonitor(_ store: SharedStore) -> Bool {
        store.writeWithoutTransaction { $0.processMonitorCounts != nil }
    }

    /// Starts an observation, and waits until it is complete.
    private func start(
        _ form: Form = .value, in store: SharedStore, at location: SourceLocation = #_sourceLocation
    ) -> (Deliveries, AnyDatabaseCancellable) {
        let deliveries = Deliveries()
        let cancellable = form.start(in: store, deliveries)
        #expect(waitUntil { deliveries.values.count == form.first }, sourceLocation: location)
        #expect(waitUntil { hasMonitor(store) }, sourceLocation: location)
        return (deliveries, cancellable)
    }

    private func expect(
        _ deliveries: Deliveries, toReach count: Int, at location: SourceLocation = #_sourceLocation
    ) {
        let isReached = waitUntil { deliveries.values.last == count }
        #expect(
            isReached, "\(deliveries.values.suffix(3)), \(String(describing: deliveries.error))",
            sourceLocation: location)
    }

    // MARK: Who commits

    @Test(
        "a commit of another process is delivered, woken by its notice; one's own is not delivered again",
        arguments: Form.allCases)
    fileprivate func otherProcess(_ form: Form) throws {
        let other = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(form, in: store)
        for number in 1...20 {
            if number % 2 == 0 { try insert(store) } else { #expect(other.ask("mark 1") == "ok") }
            expect(deliveries, toReach: number + 1)
        }
        #expect(deliveries.values == Array((2 - form.first)...21))
        // Some of them the file watch may have seen first.
        let counts = activity(store)
        #expect((1...10).contains(counts.notices) && counts.finds == 10, "\(counts)")
        #expect(deliveries.error == nil)
        cancellable.cancel()
        #expect(other.ask("mark 1") == "ok")
        // The monitor ends with the last observation.
        #expect(waitUntil { !hasMonitor(store) })
        #expect(deliveries.values.last == 21)
        try store.close()
    }

    @Test("a process's own commits never come back, although they change the WAL")
    func ownCommits() throws {
        _ = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(in: store)
        for number in 0..<100 {
            try insert(store)
            expect(deliveries, toReach: number + 2)
        }
        #expect(waitUntil { activity(store).fileChanges > 0 && activity(store).polls > 1 })
        let counts = activity(store)
        #expect(counts.finds == 0 && counts.notices == 0, "\(counts)")
        #expect(deliveries.values == Array(1...101))
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    @Test("two stores of one process observe each other's commits, and neither its own")
    func twoStores() throws {
        _ = try actor()
        let stores = [try open(), try open()]
        let observations = stores.map { start(in: $0) }
        for number in 0..<20 {
            try insert(stores[number % 2])
            for (deliveries, _) in observations { expect(deliveries, toReach: number + 2) }
        }
        for (deliveries, _) in observations { #expect(deliveries.values == Array(1...21)) }
        for store in stores { #expect(activity(store).finds == 10) }
        for store in stores { try store.close() }
    }

    @Test("a program without this library is seen by what it does to the WAL", arguments: Form.allCases)
    fileprivate func stockWriter(_ form: Form) throws {
        let stock = try actor()
        #expect(stock.ask("stock-key") == "ok")
        #expect(stock.ask("stock-open \(path)") == "ok")
        let store = try open()
        let (deliveries, cancellable) = start(form, in: store)
        for number in 1...5 {
            #expect(stock.ask("stock-insert text\(number)") == "ok")
            expect(deliveries, toReach: number + 1)
        }
        let counts = activity(store)
        #expect(counts.fileChanges > 0 && counts.notices == 0 && counts.finds >= 5, "\(counts)")
        withExtendedLifetime(cancellable) {}
        #expect(stock.ask("stock-close") == "ok")
        try store.close()
    }

    @Test("a commit is delivered although its process was killed before it could wake anybody")
    func killedBeforeNotice() throws {
        let store: SharedStore
        do {
            let first = try actor()
            store = try open()
            #expect(first.ask("close") == "ok")
        }
        let (deliveries, cancellable) = start(in: store)
        for number in 0..<3 {
            let victim = try actor()
            #expect(victim.ask("die-at commitUnnoticed") == "ok")
            #expect(victim.ask("mark 1") == nil)
            expect(deliveries, toReach: number + 2)
        }
        #expect(activity(store).notices == 0)
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    @Test("whenever a writer is killed, what it has committed is delivered")
    func killedWriters() throws {
        let other = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(in: store)
        for _ in 0..<20 {
            let victims = try (0..<2).map { _ in try actor() }
            for victim in victims { victim.send("mark-for-ever \(folder.path("acknowledged"))") }
            for victim in victims { victim.kill(within: .milliseconds(30)) }
            let count = try #require(other.ask("total").flatMap { Int($0.dropFirst(3)) })
            expect(deliveries, toReach: count)
        }
        #expect(deliveries.values == deliveries.values.sorted() && deliveries.error == nil)
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    // MARK: Who observes

    @Test("a process that was killed while it observed costs nobody anything, and observes again when it is back")
    func killedObserver() throws {
        let writer = try actor()
        for round in 1...5 {
            let observer = try actor()
            #expect(observer.ask("observe value") == "ok")
            #expect(writer.ask("mark 1") == "ok")
            #expect(waitUntil { observer.ask("observed")?.hasSuffix(" \(2 * round)") == true })
            observer.kill()
            #expect(writer.ask("mark 1") == "ok")
        }
    }

    @Test("a process that may only read observes too", arguments: Form.allCases)
    fileprivate func readOnly(_ form: Form) throws {
        let writer = try actor()
        let store = try #require(try SharedStore.openReadOnly(at: path, unlockedBy: source))
        let (deliveries, cancellable) = start(form, in: store)
        for number in 1...5 {
            #expect(writer.ask("mark 1") == "ok")
            expect(deliveries, toReach: number + 1)
        }
        #expect(activity(store).notices > 0)
        // It is listed once, as a reader.
        let rows = try StoreHolders(of: path).filter { $0.process == getpid() && $0.row != nil }
        #expect(rows.count == 1)
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    @Test("a burst of commits is delivered as often as the observer can take it, its last state always")
    func burst() throws {
        let other = try actor()
        let store = try open()
        let (hasBegun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let deliveries = Deliveries()
        let cancellable = try DatabaseRegionObservation(tracking: Table("mark")).start(in: store) { db in
            deliveries.add((try? Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark")) ?? -1)
            hasBegun.signal()
            mayEnd.wait()
        }
        #expect(other.ask("mark 1") == "ok")
        hasBegun.wait()
        #expect(other.ask("mark 10000") == "ok")
        mayEnd.signal()
        hasBegun.wait()
        mayEnd.signal()
        #expect(deliveries.values == [2, 10_002])
        withExtendedLifetime(cancellable) {}
        let (values, second) = start(in: store)
        #expect(other.ask("mark 2000") == "ok")
        for _ in 0..<2000 { mayEnd.signal() }
        expect(values, toReach: 12_002)
        #expect(values.values == values.values.sorted())
        withExtendedLifetime(second) {}
        try store.close()
    }

    @Test("nothing wakes while others open, read, roll back and close")
    func idle() throws {
        let other = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(in: store)
        let reader = try ActorProcess()
        let requests = try YieldNotifier(path: path + "-lock")
        let before = requests.count
        for _ in 0..<10 {
            #expect(reader.ask("open \(path) raw")?.hasPrefix("ok ") == true)
            #expect(reader.ask("total") == "ok 1")
            #expect(reader.ask("close") == "ok")
            #expect(reader.ask("open-read-only \(path) raw")?.hasPrefix("ok ") == true)
            #expect(reader.ask("total") == "ok 1")
            #expect(reader.ask("close") == "ok")
            #expect(other.ask("roll-back") == "ok")
        }
        let counts = activity(store)
        #expect(counts.notices == 0 && counts.fileChanges == 0 && counts.finds == 0, "\(counts)")
        #expect(deliveries.values == [1])
        // The end of a store woke the thread of each other one that waits for requests to yield.
        #expect(requests.count == before || !SleepEnd.endsSleeps)
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    // MARK: What happens to the store

    @Test(
        "an observation is notified once after a suspension, and of nothing where nothing was committed",
        arguments: Form.allCases)
    fileprivate func suspension(_ form: Form) async throws {
        let other = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(form, in: store)
        await store.suspend(deadline: .seconds(10))
        #expect(other.ask("mark 3") == "ok")
        let during = deliveries.values.count
        #expect(during == form.first)
        store.resume()
        expect(deliveries, toReach: 4)
        await store.suspend(deadline: .seconds(10))
        store.resume()
        #expect(other.ask("mark 1") == "ok")
        expect(deliveries, toReach: 5)
        #expect(deliveries.values == (form == .region ? [4, 5] : [1, 4, 5]))
        withExtendedLifetime(cancellable) {}
        try store.close()
    }

    @Test("an observation survives a yield and a switch to another key", arguments: Form.allCases)
    fileprivate func replacedConnections(_ form: Form) throws {
        let other = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(form, in: store)
        let request = try #require(try YieldRequest.ask(StorePaths(path)))
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(30)))
        lease.release()
        request.end()
        #expect(other.ask("mark 1") == "ok")
        expect(deliveries, toReach: 2)
        #expect(try KeySwitch(path).run())
        #expect(other.ask("mark 1") == "ok")
        expect(deliveries, toReach: 3)
        #expect(deliveries.error == nil)
        withExtendedLifetime(cancellable) {}
    }

    @Test("an observation of a store that is removed or replaced ends with the reason", arguments: Form.allCases)
    fileprivate func lostStore(_ form: Form) throws {
        _ = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(form, in: store)
        try FileManager.default.moveItem(atPath: path, toPath: folder.path("old.db"))
        #expect(waitUntil { deliveries.error != nil })
        #expect((deliveries.error as? StoreError)?.code == .storeMoved)
        withExtendedLifetime(cancellable) {}
        try? store.close()
    }

    // It was called inside an access of the writing connection.
    @Test("where the store is lost, the function for errors may write to it and close it", arguments: [false, true])
    func usesOfLostStore(closes: Bool) throws {
        _ = try actor()
        let store = try open()
        let outcomes = Deliveries()
        let hasEnded = DispatchSemaphore(value: 0)
        let cancellable = DatabaseRegionObservation(tracking: Table("mark")).start(
            in: store,
            onError: { _ in
                do {
                    if closes { try store.close() }
                    try store.write { try $0.execute(sql: "DELETE FROM mark") }
                } catch {
                    outcomes.fail(error)
                }
                hasEnded.signal()
            }, onChange: { _ in })
        #expect(waitUntil { hasMonitor(store) })
        try FileManager.default.moveItem(atPath: path, toPath: folder.path("old.db"))
        #expect(hasEnded.wait(timeout: .now() + 20) == .success)
        #expect(outcomes.error != nil)
        withExtendedLifetime(cancellable) {}
        try? store.close()
    }

    @Test(
        "an observation of a store that is replaced during a suspension ends with the reason", arguments: Form.allCases)
    fileprivate func replacedWhileSuspended(_ form: Form) async throws {
        let other = try actor()
        let store = try open()
        let (deliveries, cancellable) = start(form, in: store)
        #expect(other.ask("close") == "ok")
        await store.suspend(deadline: .seconds(10))
        let copy = folder.path("copy.db")
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: copy, toPath: path)
        store.resume()
        #expect(await eventually { deliveries.error != nil })
        #expect((deliveries.error as? StoreError)?.code == .storeMoved)
        withExtendedLifetime(cancellable) {}
        try? store.close()
    }
}
