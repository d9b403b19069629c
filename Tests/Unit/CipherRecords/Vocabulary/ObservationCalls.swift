import CipherDatabase
import CipherObservation
import CipherRecords
import Dispatch
import Foundation
import Synchronization

extension Calls {
    private typealias Harbour = Fleet.Harbour
    private typealias Ship = Fleet.Ship

    /// Sections 8 to 10: observers of transactions, regions, values. Each has a database of its own.
    static func observation(_ call: inout Calls) {
        transactions(&call)
        transactionEvents(&call)
        regions(&call)
        trackedRegions(&call)
        values(&call)
        starts(&call)
        operators(&call)
        sharing(&call)
        schedulers(&call)
    }

    /// The values of an observation, on any thread.
    private final class Told<Value: Sendable>: Sendable {
        private let list = Mutex<[Value]>([])
        private let arrivals = DispatchSemaphore(value: 0)

        func add(_ value: Value) {
            list.withLock { $0.append(value) }
            arrivals.signal()
        }

        /// The first values, for which it waits 20 seconds at most.
        func first(_ count: Int) -> [Value] {
            let deadline = DispatchTime.now() + 20
            while list.withLock({ $0.count }) < count, arrivals.wait(timeout: deadline) == .success {}
            return list.withLock { Array($0.prefix(count)) }
        }
    }

    /// Observes the transactions of a queue.
    private final class Watcher: TransactionObserver {
        var calls: [String] = []
        var refuses = false
        var stops = false
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { eventKind.tableName == "harbour" }
        func databaseDidChange() { calls.append("unseen") }
        func databaseDidChange(with event: DatabaseEvent) {
            calls.append("\(event.kind) \(event.copy().rowID)")
            if stops { stopObservingDatabaseChangesUntilNextTransaction() }
        }
        func databaseWillCommit() throws { if refuses { throw CancellationError() } }
        func databaseDidCommit(_ db: Database) { calls.append("commit") }
        func databaseDidRollback(_ db: Database) { calls.append("rollback") }
    }

    private static func addHarbour(_ db: Database, _ code: String = "X") throws {
        try Harbour(code: code, name: "Xanten", founded: nil).insert(db)
    }

    // MARK: Transactions

    private static func transactions(_ call: inout Calls) {
        call("add(transactionObserver:extent:) .observerLifetime .nextTransaction .databaseLifetime") { _ in
            let (queue, kept, next) = (try Fleet.queue(), Watcher(), Watcher())
            queue.add(transactionObserver: kept, extent: .databaseLifetime)
            queue.add(transactionObserver: kept, extent: .observerLifetime)
            queue.add(transactionObserver: next, extent: .nextTransaction)
            try queue.write { try addHarbour($0, "X") }
            try queue.write { try addHarbour($0, "Y") }
            return next.calls == ["insert 4", "commit"] && kept.calls.count == 8
        }
        call("remove(transactionObserver:)") { _ in
            let (queue, watcher) = (try Fleet.queue(), Watcher())
            queue.add(transactionObserver: watcher)
            queue.remove(transactionObserver: watcher)
            try queue.write { try addHarbour($0) }
            return watcher.calls.isEmpty
        }
        call(
            "TransactionObserver observes databaseDidChange databaseDidCommit databaseDidRollback"
        ) { _ in
            final class Counter: TransactionObserver {
                var (rows, commits, rollbacks) = (0, 0, 0)
                func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
                    switch eventKind {
                    case .insert(let table), .delete(let table): table == "harbour"
                    case .update(let table, let columns): table == "harbour" && columns.contains("name")
                    }
                }
                func databaseDidChange(with event: DatabaseEvent) { rows += 1 }
                func databaseDidCommit(_ db: Database) { commits += 1 }
                func databaseDidRollback(_ db: Database) { rollbacks += 1 }
            }
            let (queue, counter) = (try Fleet.queue(), Counter())
            queue.add(transactionObserver: counter)
            try queue.write { try $0.execute(sql: "UPDATE harbour SET founded = 1; UPDATE harbour SET name = 'a'") }
            try queue.inTransaction { _ in .rollback }
            return (counter.rows, counter.commits, counter.rollbacks) == (3, 1, 1)
        }
    }

    private static func transactionEvents(_ call: inout Calls) {
        call("databaseWillCommit()") { _ in
            let (queue, watcher) = (try Fleet.queue(), Watcher())
            watcher.refuses = true  // by databaseWillCommit()
            queue.add(transactionObserver: watcher)
            let error = Result { try queue.write { try addHarbour($0) } }
            guard case .failure(is CancellationError) = error else { return false }
            return watcher.calls.last == "rollback"
        }
        call("stopObservingDatabaseChangesUntilNextTransaction()") { _ in
            let (queue, watcher) = (try Fleet.queue(), Watcher())
            watcher.stops = true  // by stopObservingDatabaseChangesUntilNextTransaction()
            queue.add(transactionObserver: watcher)
            try queue.write { try $0.execute(sql: "UPDATE harbour SET name = 'a'") }
            return watcher.calls == ["update 1", "commit"]
        }
        call("DatabaseEvent kind tableName databaseName rowID copy()") { _ in
            final class Keeper: TransactionObserver {
                var events: [DatabaseEvent] = []
                func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
                func databaseDidChange(with event: DatabaseEvent) { events.append(event.copy()) }
                func databaseDidCommit(_ db: Database) {}
                func databaseDidRollback(_ db: Database) {}
            }
            let (queue, keeper) = (try Fleet.queue(), Keeper())
            queue.add(transactionObserver: keeper)
            try queue.write { _ = try Ship.deleteOne($0, key: 4) }
            let event = keeper.events[0]
            return event.kind == .delete && event.tableName == "ship" && event.databaseName == "main"
                && event.rowID == 4
        }
        call("notifyChanges(in:) databaseDidChange()") { _ in
            let (queue, watcher) = (try Fleet.queue(), Watcher())
            queue.add(transactionObserver: watcher)
            // Calls databaseDidChange().
            try queue.write { try $0.notifyChanges(in: Harbour.all()) }
            return watcher.calls == ["unseen", "commit"]
        }
        call("afterNextTransaction(onCommit:onRollback:)") { _ in
            let (queue, told) = (try Fleet.queue(), Told<String>())
            try queue.write { db in
                db.afterNextTransaction(
                    onCommit: { _ in told.add("commit") }, onRollback: { _ in told.add("rollback") })
            }
            return told.first(1) == ["commit"]
        }
    }

    // MARK: Regions

    private static func regions(_ call: inout Calls) {
        call("DatabaseRegion() isEmpty union(_:) formUnion(_:) .fullDatabase") { db in
            var region = DatabaseRegion()
            let wasEmpty = region.isEmpty
            region.formUnion(try Ship.filter(key: 1).databaseRegion(db))
            let both = region.union(try Harbour.all().databaseRegion(db))
            let all = both.union(.fullDatabase).description == "full database"
            return wasEmpty && all && both.description.hasPrefix("harbour(code,founded,name),ship(")
        }
        call("isModified(byEventsOfKind:) isModified(by:)") { _ in
            final class RegionWatcher: TransactionObserver {
                let region: DatabaseRegion
                var rows = 0
                init(_ region: DatabaseRegion) { self.region = region }
                func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
                    region.isModified(byEventsOfKind: eventKind)
                }
                func databaseDidChange(with event: DatabaseEvent) { if region.isModified(by: event) { rows += 1 } }
                func databaseDidCommit(_ db: Database) {}
                func databaseDidRollback(_ db: Database) {}
            }
            let queue = try Fleet.queue()
            let watcher = RegionWatcher(try queue.read { try Ship.filter(key: 1).databaseRegion($0) })
            queue.add(transactionObserver: watcher)
            try queue.write { try $0.execute(sql: "UPDATE ship SET tons = 7; UPDATE harbour SET name = 'a'") }
            return watcher.rows == 1
        }
        call("databaseRegion(_:)") { db in
            try Ship.filter(key: 1).databaseRegion(db).description.hasSuffix("[1]")
        }
        call("Statement databaseRegion") { db in
            try db.makeStatement(sql: "SELECT name FROM harbour").databaseRegion.description == "harbour(name)"
        }
        call("AnyDatabaseRegionConvertible") { db in
            let region = AnyDatabaseRegionConvertible { db in try Ship.none().databaseRegion(db) }
            return try region.databaseRegion(db).isEmpty
        }
    }

    private static func trackedRegions(_ call: inout Calls) {
        call("DatabaseRegionObservation(tracking:) start(in:onError:onChange:)") { _ in
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let observation = DatabaseRegionObservation(tracking: Ship.all(), Harbour.all())
            let cancellable = observation.start(
                in: queue, onError: { _ in }, onChange: { db in told.add((try? Harbour.fetchCount(db)) ?? -1) })
            try queue.write { try addHarbour($0) }
            cancellable.cancel()
            return told.first(1) == [4]
        }
        call("registerAccess(to:)") { _ in
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let observation = ValueObservation.tracking { db in
                try db.registerAccess(to: Harbour.all())
                return 1
            }
            let cancellable = start(observation, queue, told)
            _ = told.first(1)
            try queue.write { try addHarbour($0) }
            defer { cancellable.cancel() }
            return told.first(2) == [1, 1]
        }
    }

    // MARK: Values

    private static func start<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>, _ queue: DatabaseQueue, _ told: Told<Reducer.Value>
    ) -> AnyDatabaseCancellable {
        observation.start(
            in: queue, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), onError: { _ in },
            onChange: { told.add($0) })
    }

    /// The first value of an observation of the harbours, and the one after another harbour came.
    private static func twoValues<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>
    ) throws -> [Reducer.Value] {
        let (queue, told) = (try Fleet.queue(), Told<Reducer.Value>())
        let cancellable = start(observation, queue, told)
        _ = told.first(1)
        try queue.write { try addHarbour($0) }
        defer { cancellable.cancel() }
        return told.first(2)
    }

    private static func values(_ call: inout Calls) {
        call("ValueObservation.tracking(_:)") { _ in
            try twoValues(ValueObservation.tracking { try Harbour.fetchCount($0) }) == [3, 4]
                && twoValues(ValueObservation.tracking(Harbour.all().fetchCount)) == [3, 4]
        }
        call("ValueObservation.trackingConstantRegion(_:)") { _ in
            try twoValues(ValueObservation.trackingConstantRegion(Harbour.all().fetchCount)) == [3, 4]
        }
        call("ValueObservation.tracking(region:_:fetch:)") { _ in
            let observation = ValueObservation.tracking(
                region: Ship.all(), Table("harbour"), fetch: { try Harbour.fetchCount($0) })
            return try twoValues(observation) == [3, 4]
        }
        call("ValueObservation.tracking(regions:fetch:)") { _ in
            let observation = ValueObservation.tracking(
                regions: [.fullDatabase, Harbour.all()], fetch: { try Harbour.fetchCount($0) })
            return try twoValues(observation) == [3, 4]
        }
    }

    private static func starts(_ call: inout Calls) {
        call("ValueObservation start(in:scheduling:onError:onChange:) .async(onQueue:)") { _ in
            let (queue, told) = (try Fleet.queue(), Told<String>())
            let failing = ValueObservation.tracking { _ in throw CancellationError() }
            let cancellable = failing.start(
                in: queue, scheduling: .async(onQueue: .global()), onError: { told.add("\($0)") },
                onChange: { told.add("value") })
            defer { cancellable.cancel() }
            return told.first(1) == ["CancellationError()"]
        }
        call("AnyDatabaseCancellable cancel() store(in:)") { _ in
            let told = Told<Int>()
            var kept: Set<AnyDatabaseCancellable> = []
            AnyDatabaseCancellable { told.add(1) }.store(in: &kept)
            kept.first?.cancel()
            return told.first(1) == [1]
        }
        call("requiresWriteAccess") { _ in
            var observation = ValueObservation.tracking { db in
                try db.execute(sql: "UPDATE ship SET tons = tons + 1")
                return try Harbour.fetchCount(db)
            }
            observation.requiresWriteAccess = true
            return try twoValues(observation) == [3, 4]
        }
        call("ValueObservation withoutInitialValue() deliversInitialValue") { _ in
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let observation = ValueObservation.tracking(Harbour.all().fetchCount).withoutInitialValue()
            let cancellable = observation.start(
                in: queue, scheduling: .async(onQueue: .global()), onError: { _ in }, onChange: { told.add($0) })
            try queue.write { try addHarbour($0) }
            defer { cancellable.cancel() }
            return told.first(1) == [4] && !observation.deliversInitialValue
        }
        call("ValueObservation values(in:scheduling:bufferingPolicy:) .task .task(priority:)") { _ in
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let values = ValueObservation.tracking(Harbour.all().fetchCount).values(
                in: queue, scheduling: .task(priority: .high), bufferingPolicy: .bufferingNewest(1))
            Task {
                for try await value in values {
                    told.add(value)
                    if value == 4 { break }
                    try await queue.write { try addHarbour($0) }
                }
            }
            return told.first(2) == [3, 4]
        }
    }

    private static func operators(_ call: inout Calls) {
        call("ValueObservation map(_:)") { _ in
            try twoValues(ValueObservation.tracking(Harbour.all().fetchCount).map { "\($0)" }) == ["3", "4"]
        }
        call("ValueObservation removeDuplicates()") { _ in
            try twoValues(ValueObservation.tracking(Harbour.all().fetchCount).removeDuplicates()) == [3, 4]
        }
        call("ValueObservation removeDuplicates(by:)") { _ in
            let observation = ValueObservation.tracking(Harbour.all().fetchCount).removeDuplicates(by: { $0 > $1 })
            return try twoValues(observation) == [3, 4]
        }
        call(
            "ValueObservation handleEvents(willStart:willFetch:willTrackRegion:databaseDidChange:didReceiveValue:"
                + "didFail:didCancel:)"
        ) { _ in
            let told = Told<String>()
            let observation = ValueObservation.tracking(Harbour.all().fetchCount).handleEvents(
                willStart: { told.add("start") }, willFetch: { told.add("fetch") },
                willTrackRegion: { told.add("\($0)") }, databaseDidChange: { told.add("change") },
                didReceiveValue: { told.add("\($0)") }, didFail: { _ in told.add("fail") },
                didCancel: { told.add("cancel") })
            _ = try twoValues(observation)
            return told.first(8) == ["start", "fetch", "harbour(*)", "3", "change", "fetch", "4", "cancel"]
        }
        call("ValueObservation print(_:to:)") { _ in
            final class Text: TextOutputStream, Sendable {
                let told = Told<String>()
                func write(_ string: String) { told.add(string) }
            }
            let text = Text()
            _ = try twoValues(ValueObservation.tracking(Harbour.all().fetchCount).print("harbours", to: text))
            return text.told.first(4).last == "harbours: value: 3"
        }
        call("ValueObservation.trackingChanges(of:) ValueChanges added updated removed") { _ in
            let changes: ValueChanges<Harbour> = try twoValues(ValueObservation.trackingChanges(of: Harbour.all()))[1]
            return changes.added.map(\.code) == ["X"] && changes.updated.isEmpty && changes.removed.isEmpty
        }
        call("ValueObservation changes() changes(by:)") { _ in
            let ships = ValueObservation.tracking(region: .fullDatabase, fetch: { try Ship.fetchAll($0) }).changes()
            let harbours = ValueObservation.tracking { try Harbour.fetchAll($0) }.changes(by: { $0.code })
            let told = Told<Int>()
            let cancellable = start(ships.map(\.added.count), try Fleet.queue(), told)
            defer { cancellable.cancel() }
            return try told.first(1) == [4] && twoValues(harbours).map(\.added.count) == [3, 1]
        }
    }

    private static func sharing(_ call: inout Calls) {
        call("ValueObservation shared(in:scheduling:extent:) .whileObserved .observationLifetime") { _ in
            let (queue, first, second) = (try Fleet.queue(), Told<Int>(), Told<Int>())
            let observation = ValueObservation.tracking(Harbour.all().fetchCount)
            let shared = observation.shared(
                in: queue, scheduling: .async(onQueue: DispatchQueue(label: "delivery")), extent: .observationLifetime)
            _ = observation.shared(in: queue, extent: .whileObserved)
            let one = shared.start(onError: { _ in }, onChange: first.add)
            let isFirst = first.first(1) == [3]
            let other = shared.start(onError: { _ in }, onChange: second.add)
            defer {
                one.cancel()
                other.cancel()
            }
            return isFirst && second.first(1) == [3]
        }
        call("SharedValueObservation values(bufferingPolicy:)") { _ in
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let shared: SharedValueObservation<Int> = ValueObservation.tracking(Harbour.all().fetchCount)
                .shared(in: queue, scheduling: .task)
            Task {
                for try await value in shared.values(bufferingPolicy: .unbounded) {
                    told.add(value)
                    break
                }
            }
            return told.first(1) == [3]
        }
    }

    private static func schedulers(_ call: inout Calls) {
        call("ValueObservationScheduler immediateInitialValue() schedule(_:)") { _ in
            struct Now: ValueObservationScheduler {
                func immediateInitialValue() -> Bool { true }
                func schedule(_ action: @escaping @Sendable () -> Void) { action() }
            }
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let cancellable = ValueObservation.tracking(Harbour.all().fetchCount).start(
                in: queue, scheduling: Now(), onError: { _ in }, onChange: told.add)
            defer { cancellable.cancel() }
            return told.first(1) == [3]
        }
        call(".immediate .mainActor") { _ in
            @MainActor func startsOnMain(_ queue: DatabaseQueue, _ told: Told<Int>) -> [AnyDatabaseCancellable] {
                let observation = ValueObservation.tracking(Harbour.all().fetchCount)
                return [
                    observation.start(in: queue, scheduling: .immediate, onError: { _ in }, onChange: told.add),
                    observation.start(in: queue, scheduling: .mainActor, onError: { _ in }, onChange: told.add),
                    observation.start(in: queue, onError: { _ in }, onChange: told.add),
                ]
            }
            let (queue, told) = (try Fleet.queue(), Told<Int>())
            let kept = Told<[AnyDatabaseCancellable]>()
            Task { @MainActor in kept.add(startsOnMain(queue, told)) }
            return told.first(1) == [3] && kept.first(1).first?.count == 3
        }
    }
}
