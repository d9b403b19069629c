import ChangesetSync
import CipherDatabase
import CipherRecords
import Foundation
import Synchronization

/// Why a schedule failed.
package struct ScheduleFailure: Error, CustomStringConvertible {
    package let plan: Plan
    /// The step; nil where it was found at the end.
    package let step: Int?
    package let reason: String

    package var description: String {
        "schedule \(plan.number) (\(plan.kind.rawValue)), \(step.map { "step \($0)" } ?? "at the end"): \(reason)"
    }
}

/// What happened in a schedule that succeeded.
package struct ScheduleSummary: Sendable {
    package var steps = 0
    package var kills = 0
    package var errors = 0
    package var checkpoints = 0
    package var rejoins = 0
    package var merges = 0

    package init() {}

    package static func += (left: inout ScheduleSummary, right: ScheduleSummary) {
        left.steps += right.steps
        left.kills += right.kills
        left.errors += right.errors
        left.checkpoints += right.checkpoints
        left.rejoins += right.rejoins
        left.merges += right.merges
    }
}

/// Runs one schedule: stores in memory, remotes in memory, and everything that goes wrong, by one thread of work.
///
/// What has to hold after each step: what a store has acknowledged it shows, rows of the journal do not vanish, and a commit
/// that failed has written nothing. At the end, without faults: equal heads and rows everywhere, digests, foreign keys and
/// integrity, every commit under the head, all of the journal, counters that counted each step once, and nothing new after
/// two rounds of merges.
package final class Simulation {
    let plan: Plan
    private let leftOut: Set<Int>
    private let log: ((String) -> Void)?
    private let power = Power()
    private let remotes: [FaultyRemote]
    private var stores: [SimulatedStore] = []
    private var plainCommits: [CommitID] = []
    private var sum = 0
    private var hasRejoined = false
    private(set) var summary = ScheduleSummary()

    /// Makes what all schedules share, before the random numbers of one begin.
    package static func prepare() { for schema in SimulatedSchema.all { _ = schema.template } }

    /// - Parameters:
    ///   - leftOut: Steps that are not done: the others are as before.
    ///   - log: Gets a line for each step.
    package init(_ plan: Plan, leavingOut leftOut: Set<Int> = [], log: ((String) -> Void)? = nil) throws {
        (self.plan, self.leftOut, self.log) = (plan, leftOut, log)
        let (power, repository) = (power, try SimulatedSchema.key().repository)
        remotes = (0..<plan.remoteCount).map {
            FaultyRemote(
                MemoryRemote(repository, named: "memory \($0)", isCompacting: plan.kind == .checkpoints), power)
        }
    }

    /// - Throws: ``ScheduleFailure``
    package func run() async throws -> ScheduleSummary {
        var place: Int?
        do {
            log?(plan.description)
            for _ in 0..<plan.storeCount { try await join(mayRejoin: false) }
            if plan.kind == .checkpoints { for _ in remotes { try await syncAll() } }
            for step in plan.steps where !leftOut.contains(step.number) {
                place = step.number
                try await perform(step)
            }
            place = nil
            try await finish()
            return summary
        } catch let failure as Failure {
            logGraphs()
            throw ScheduleFailure(plan: plan, step: place, reason: failure.reason)
        } catch {
            logGraphs()
            throw ScheduleFailure(plan: plan, step: place, reason: "\(error)")
        }
    }

    private func logGraphs() {
        guard let log else { return }
        for store in stores {
            log("store \(store.place), head \((try? store.head())?.prefix(8) ?? "-"):")
            for line in (try? store.graph() + store.waiting()) ?? [] { log("    \(line)") }
            for manager in store.managers {
                guard let status = try? manager.status() else { continue }
                log(
                    "    \(manager.remote.name): \(status.ahead) ahead, \(status.pending) pending, "
                        + "\(status.stalled) stalled, \(status.quarantined.count) refused, "
                        + "error \(status.lastError ?? "none")")
            }
        }
    }

    private struct Failure: Error {
        let reason: String
    }

    private struct Undone: Error {}

    private func require(_ condition: Bool, _ reason: @autoclosure () -> String) throws {
        if !condition { throw Failure(reason: reason()) }
    }

    private func join(mayRejoin: Bool) async throws {
        let place = stores.count
        let store = try SimulatedStore(
            place, plan.remotes[place].map { remotes[$0] }, plan.schema,
            hasStart: plan.hasCommonStart && !mayRejoin, policy: policy(place), power, mayRejoin: mayRejoin)
        stores.append(store)
        try await store.setUp()
    }

    /// A replica counts from its first push on.
    private func syncAll() async throws {
        for store in stores { for manager in store.managers { try await manager.sync() } }
    }

    // MARK: Steps

    private func perform(_ step: Plan.Step) async throws {
        let store = stores[step.place % stores.count]
        store.clock.seconds.withLock { $0 = max(1, $0 + step.seconds) }
        arm(step.trouble, step.seed)
        if case .full(let pages) = step.trouble { try store.limitPages(pages) }
        var outcome = "done"
        var code: SyncError.Code?
        switch await Result(of: { try await act(step, store) }) {
        case .success(let words): outcome = words
        case .failure(let error):
            guard isExpected(error, of: step, store) else { throw error }
            summary.errors += 1
            (outcome, code) = ("\(error)", (error as? SyncError)?.code)
        }
        let isOff = power.isOff
        arm(.none, nil)
        if case .full = step.trouble { try store.limitPages(nil) }
        if isOff {
            summary.kills += 1
            try await store.reopen()
        }
        if code == .foreignWrites { try commitForeignWrites(store) }
        summary.steps += 1
        if let log {
            let head = try store.head()?.prefix(8) ?? "-"
            log("\(step.number): store \(store.place) \(step.action), \(step.trouble): \(outcome); head \(head)")
        }
        try requireJournal(of: store)
    }

    private func arm(_ trouble: Plan.Trouble, _ seed: Int?) {
        power.arm(trouble)
        var armed: Int?
        if case .remote = trouble { armed = seed }
        for (index, remote) in remotes.enumerated() { remote.arm(armed.map { $0 &+ index }) }
    }

    /// What a store has acknowledged it shows, and what it has shown does not vanish.
    private func requireJournal(of store: SimulatedStore) throws {
        let counts = try store.ownJournalCounts()
        try require(
            counts.own == store.journal.count,
            "store \(store.place) shows \(counts.own) of its \(store.journal.count) rows of the journal")
        try require(
            counts.all >= store.seen, "store \(store.place) shows \(counts.all) rows of the journal after \(store.seen)"
        )
        store.seen = counts.all
    }

    private func isExpected(_ error: any Error, of step: Plan.Step, _ store: SimulatedStore) -> Bool {
        switch error {
        case is Undone: return true
        case is Power.Off: return power.isOff
        case is FaultyRemote.Fault: if case .remote = step.trouble { return true } else { return false }
        case let error as DatabaseError:
            if case .full = step.trouble, error.resultCode == .SQLITE_FULL { return true }
            if case .revert = step.action { return error.resultCode == .SQLITE_CONSTRAINT }
            return power.isOff
        case let error as SyncError:
            switch (error.code, step.action) {
            case (.foreignWrites, _), (.checkpointPending, _): return true
            case (.needsMerge, .pull), (.notPulled, .revert), (.unknownReplica, .retire): return true
            case (.unknownCommit, .revert), (.workingStateDiverged, .revert), (.changedLater, .revert),
                (.foreignKeyViolation, .revert):
                return true
            case (.baseTooOld, _): return mayRejoin(store)
            default: return false
            }
        case let error as SyncFailure:
            return isExpected(error.first, of: step, store) && isExpected(error.push, of: step, store)
        default: return false
        }
    }

    private func act(_ step: Plan.Step, _ store: SimulatedStore) async throws -> String {
        let repository = store.repository
        switch step.action {
        case .commit(let statements, let isPlain, let isUndone):
            try commit(step.number, statements, isPlain: isPlain, isUndone: isUndone, store)
        case .count(let count):
            try repository.commit { db in
                try db.execute(
                    sql: """
                        INSERT INTO counter VALUES (1, \(count)) ON CONFLICT (id) DO UPDATE SET v = v + \(count)
                        """)
            }
            sum += count
        case .foreignWrite(let statements):
            try store.write { try Self.run(statements, $0) }
            try repository.commitForeignWrites()
        case .revert(let index):
            guard !plainCommits.isEmpty else { return "there is none" }
            try repository.revert(plainCommits[index % plainCommits.count])
        case .mergeAll: summary.merges += try repository.mergeAll().count
        case .pull: return try repository.pull() == nil ? "nothing" : "moved"
        case .join:
            guard stores.count < plan.remotes.count else { return "there are enough" }
            power.arm(.none)
            try await join(mayRejoin: true)
        case .retire(let index, let remote): return try await retire(stores[index % stores.count], by: store, remote)
        case .reopen: try await store.reopen()
        case .settle:
            power.arm(.none)
            for remote in remotes { remote.arm(nil) }
            try await settle()
        case .push(let remote): return try await "\(exchange(store, remote) { try await $0.push() })"
        case .fetch(let remote): return try await "\(exchange(store, remote) { try await $0.fetch() })"
        case .sync(let remote): _ = try await exchange(store, remote) { try await $0.sync() }
        case .checkpoint(let remote):
            let made = try await exchange(store, remote) { try await $0.checkpoint() }
            if made != nil { summary.checkpoints += 1 }
            return made == nil ? "none" : "made"
        }
        return "done"
    }

    /// Statements may fail by a constraint; then they have done nothing.
    private static func run(_ statements: [String], _ db: Database) throws {
        for sql in statements {
            do {
                try db.execute(sql: sql)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {}
        }
    }

    private func commit(
        _ number: Int, _ statements: [String], isPlain: Bool, isUndone: Bool, _ store: SimulatedStore
    ) throws {
        let former = isPlain ? try store.head() : nil
        do {
            try store.repository.commit { db in
                try Self.run(statements, db)
                if !isPlain {
                    try db.execute(sql: "INSERT INTO journal VALUES (?, ?)", arguments: [number, store.place])
                }
                if isUndone { throw Undone() }
            }
        } catch {
            // The connection of a killed process is not read any more.
            return try rethrow(error, store, number)
        }
        if isPlain {
            if let head = try store.head(), head != former, let id = CommitID(head) { plainCommits.append(id) }
        } else {
            store.journal.insert(number)
        }
    }

    private func rethrow(_ error: any Error, _ store: SimulatedStore, _ number: Int) throws {
        let count = try store.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM journal WHERE id = ?", arguments: [number]) ?? 0
        }
        try require(count == 0, "a commit has failed and is there: \(error)")
        throw error
    }

    /// Before the rows of a checkpoint are there, nobody can take up others.
    private func commitForeignWrites(_ store: SimulatedStore) throws {
        do {
            try store.repository.commitForeignWrites()
        } catch let error as SyncError where error.code == .checkpointPending {}
    }

    /// Calls a manager. Where the history was replaced, the store rejoins.
    private func exchange<T>(
        _ store: SimulatedStore, _ remote: Int, _ body: (SyncManager) async throws -> T
    ) async throws -> T {
        let manager = store.managers[remote % store.managers.count]
        let result = await Result { try await body(manager) }
        guard case .failure(let error as SyncError) = result, error.code == .baseTooOld, mayRejoin(store) else {
            return try result.get()
        }
        (hasRejoined, summary.rejoins) = (true, summary.rejoins + 1)
        try await manager.rejoin()
        return try await body(manager)
    }

    /// Whether a checkpoint need not have waited for what a store has. By a second remote it may get what a newcomer has
    /// pushed there that did not know of the checkpoint at the first.
    private func mayRejoin(_ store: SimulatedStore) -> Bool {
        store.mayRejoin || plan.remoteCount > 1 && stores.count > plan.storeCount
    }

    private func retire(_ other: SimulatedStore, by store: SimulatedStore, _ remote: Int) async throws -> String {
        guard other !== store, other.place > 0, let author = try other.author() else { return "not this one" }
        other.mayRejoin = true
        try await store.managers[remote % store.managers.count].retire(author)
        return "store \(other.place)"
    }

    // MARK: The end

    /// Everybody syncs until all have the same head and nothing is left to push.
    private func settle() async throws {
        for _ in 0..<24 {
            let before = try stores.map { try $0.commitCount() }
            var isDone = true
            for store in stores {
                for remote in store.managers.indices {
                    let result = await Result { try await exchange(store, remote) { try await $0.sync() } }
                    guard case .failure(let error) = result else { continue }
                    switch (error as? SyncError)?.code {
                    case .checkpointPending: break
                    case .foreignWrites: try commitForeignWrites(store)
                    default: throw error
                    }
                    isDone = false
                }
            }
            guard isDone, try before == stores.map({ try $0.commitCount() }) else { continue }
            let heads = try Set(stores.map { try $0.head() })
            if try heads.count == 1 && stores.allSatisfy({ try $0.outboxCount() == 0 }) { return }
        }
        throw Failure(reason: "the stores do not come to an end")
    }

    /// Everybody gets everything, merges and pulls, until nothing is new.
    ///
    /// - Returns: How many rounds had something new.
    private func quiesce() async throws -> Int {
        for store in stores { try store.repository.commitForeignWrites() }
        for round in 0...6 {
            // What comes by one remote goes to the other one.
            for _ in 0..<2 * plan.remoteCount - 1 {
                for store in stores { for manager in store.managers { try await manager.push() } }
                for store in stores { for manager in store.managers { try await manager.fetch() } }
            }
            var isNew = false
            for store in stores {
                let merges = try store.repository.mergeAll()
                let moved = try store.repository.pull()
                summary.merges += merges.count
                if !merges.isEmpty || moved != nil { isNew = true }
            }
            if !isNew { return round }
        }
        return .max
    }

    private func finish() async throws {
        switch plan.kind {
        case .convergence:
            let rounds = try await quiesce()
            try require(rounds <= 2, "there is something new after \(rounds) rounds")
        case .checkpoints:
            for store in stores { try commitForeignWrites(store) }
            try await settle()
        }
        if plan.kind == .checkpoints {
            for manager in stores.flatMap(\.managers) { try await giveUpReplaced(manager) }
        }
        try requireEqualStores()
        if plan.kind == .checkpoints {
            try await requireEqualMerges()
            try requireEqualStores()
        }
    }

    /// Gives up what was refused and does not come: what a store has pushed to one remote before it learned at the other of
    /// a checkpoint, as it has rejoined; and what came damaged before a checkpoint has replaced it.
    private func giveUpReplaced(_ manager: SyncManager) async throws {
        let refused = try Set(manager.status().quarantined.keys)
        let present = plan.remoteCount > 1 ? [] : try await manager.remote.get(Array(refused)).map(\.id)
        for id in refused.subtracting(present) { try await manager.removeQuarantined(id) }
    }

    private func requireEqualStores() throws {
        let (head, state) = (try stores[0].head(), try stores[0].state())
        for store in stores {
            let name = "store \(store.place)"
            let (otherHead, otherState) = (try store.head(), try store.state())
            try require(otherHead == head, "\(name) has the head \(otherHead ?? "-"), the first one \(head ?? "-")")
            try require(
                otherState == state,
                "\(name) has other rows: \(Set(otherState).subtracting(state).sorted()), "
                    + "\(Set(state).subtracting(otherState).sorted())")
            let tables = try store.repository.verify()
            try require(tables.isEmpty, "\(name) has other digests: \(tables)")
            let damage = try store.damage()
            try require(damage == nil, "\(name): \(damage ?? "")")
            let beside = try store.commitsBesideHead()
            try require(beside == 0, "\(beside) commits of \(name) are not under its head")
            for manager in store.managers {
                let status = try manager.status()
                try require(
                    status.quarantined.isEmpty && status.pending == 0 && status.ahead == 0 && status.behind == 0
                        && status.lastError == nil && status.foreignWrites.isEmpty, "\(name) has the status \(status)")
            }
            try requireJournal(of: store)
        }
        let acknowledged = stores.reduce(into: Set<Int>()) { $0.formUnion($1.journal) }
        let found = try stores[0].read { try Set(Int.fetchAll($0, sql: "SELECT id FROM journal")) }
        try require(found == acknowledged, "the journal differs by \(found.symmetricDifference(acknowledged).sorted())")
        if plan.rules == .shared && !hasRejoined {
            let count = try stores[0].read { try Int.fetchOne($0, sql: "SELECT sum(v) FROM counter") ?? 0 }
            try require(count == sum, "\(count) were counted instead of \(sum)")
        }
    }

    /// All make the merge of the same two commits on their own, some without the history.
    private func requireEqualMerges() async throws {
        guard plan.remoteCount == 1, plan.rules != .different else { return }
        let made = try await exchange(stores[0], 0) { try await $0.checkpoint() }
        if made != nil { summary.checkpoints += 1 }
        if stores.count < plan.remotes.count { try await join(mayRejoin: true) }
        try await settle()
        var dice = Dice(plan.number, 20_000)
        for place in 0..<2 {
            for _ in 0..<3 {
                let statements = [plan.schema.statement(&dice)]
                try stores[place].repository.commit { db in try Self.run(statements, db) }
            }
            try await stores[place].managers[0].push()
        }
        for store in stores { try await store.managers[0].fetch() }
        for store in stores {
            summary.merges += try store.repository.mergeAll().count
            try store.repository.pull()
        }
        for store in stores { try await store.managers[0].sync() }
    }

    // MARK: Rules

    private func policy(_ place: Int) -> MergePolicy {
        if plan.rules == .automatic { return MergePolicy() }
        var policy = MergePolicy(tables: [
            "p": .init(deletion: .deleteWins, counters: ["v"]), "counter": .init(counters: ["v"]),
        ])
        if plan.schema.children.contains("c2") { policy.tables["c2"] = .init(counters: ["w"]) }
        policy.rename = { duplicate in
            duplicate.columns == ["name"] ? duplicate.adding("~\(duplicate.attempt)", to: "name") : nil
        }
        policy.resolve = { conflict in
            switch conflict.column {
            case "w"?: conflict.table == "c4" ? .delete : .row(["w": conflict.states.least("w", conflict)])
            case "v"?: .value(0.databaseValue)
            case nil: conflict.table == "c1" ? .delete : .automatic
            default: .automatic
            }
        }
        if plan.rules == .shared || place == 0 { return policy }
        if place % 2 == 1 { return MergePolicy() }
        policy.tables = [:]
        let source = Chance(Dice(plan.number, 10_000 + place))
        policy.resolve = { conflict in
            switch source.roll(3) {
            case 0: .delete
            case _ where conflict.table == "counter": .automatic
            case 1: .row(conflict.table == "p" ? ["v": 3.databaseValue] : ["p": .null])
            case 2 where conflict.column != nil: .value((20 + source.roll(70)).databaseValue)
            default: .automatic
            }
        }
        return policy
    }
}

/// Random numbers for closures.
private final class Chance: Sendable {
    private let dice: Mutex<Dice>

    init(_ dice: Dice) { self.dice = Mutex(dice) }

    func roll(_ most: Int) -> Int { dice.withLock { $0(0...most) } }
}

extension MergeStates {
    /// The least value of a column that a row of a side has.
    fileprivate func least(_ column: String, _ conflict: RowConflict) -> DatabaseValue {
        let all = [RowConflict.Side.ours, .theirs].flatMap { side in
            (try? rows(of: conflict.table, where: [:], on: side)) ?? []
        }
        return all.compactMap { $0[column].flatMap { Int.fromDatabaseValue($0) } }.min()?.databaseValue ?? .null
    }
}
