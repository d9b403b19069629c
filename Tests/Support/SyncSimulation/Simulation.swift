import CipherDatabase
import CipherRecords
import ChangesetSync

/// Why a schedule failed.
package struct ScheduleFailure: Error, CustomStringConvertible {
    package let plan: Plan
    /// The step; nil if it was found at the end.
    package let step: Int?
    package let reason: String

    package var description: String {
        "schedule \(plan.number), \(step.map { "step \($0)" } ?? "at the end"): \(reason)"
    }
}

/// The events of schedules that succeeded.
package struct ScheduleSummary: Sendable {
    package var steps = 0
    package var kills = 0
    package var errors = 0
    package var snapshots = 0
    package var commits = 0
    /// Stores that were set back, copied or removed, and remotes that lost objects.
    package var mishaps = 0

    package init() {}

    package static func += (left: inout ScheduleSummary, right: ScheduleSummary) {
        left.steps += right.steps
        left.kills += right.kills
        left.errors += right.errors
        left.snapshots += right.snapshots
        left.commits += right.commits
        left.mishaps += right.mishaps
    }
}

/// Runs one schedule: stores and remotes in memory, and all faults, by one thread of work.
///
/// After each step: acknowledged rows of the journal are shown, rows of the journal do not vanish, a commit that failed has
/// written nothing, and stores with equal heads and tables have equal rows. At the end, without faults: equal heads, rows,
/// digests and conflicts everywhere, foreign keys and integrity, all of the journal, counters that counted each step once,
/// no register with a value that the author of another value knew, and a newcomer with the same rows.
package final class Simulation {
    let plan: Plan
    private let leftOut: Set<Int>
    private let log: ((String) -> Void)?
    private let power = Power()
    private let remotes: [SimulatedRemote]
    private let world: World
    private var stores: [SimulatedStore] = []
    private var removed: Set<Int> = []
    private var removedAuthors: Set<String> = []
    private var nextMember = 0
    private var plainCommits: [String] = []
    private var backups: [Int: Backup] = [:]
    private var savedRemotes: [Int: [String: [UInt8]]] = [:]
    /// Rows of the journal that may be lost: their store was set back or removed.
    private var uncertain: Set<Int> = []
    private var registers = Registers()
    private var counted: [Int: Int] = [:]
    /// Whether a store was set back or copied: it may count a step in one of two branches.
    private var hasBranches = false
    private(set) var summary = ScheduleSummary()

    private struct Backup {
        let queue: DatabaseQueue
        let version: Int
        let journal: Set<Int>
    }

    /// Makes the stores that all schedules share, before the random numbers of one begin.
    package static func prepare() throws { for schema in SimulatedSchema.all { _ = try schema.world.get() } }

    /// - Parameters:
    ///   - leftOut: Steps that are not done: the others are as before.
    ///   - log: Gets a line for each step.
    package init(_ plan: Plan, leavingOut leftOut: Set<Int> = [], log: ((String) -> Void)? = nil) throws {
        (self.plan, self.leftOut, self.log) = (plan, leftOut, log)
        let power = power
        remotes = (0..<plan.remoteCount).map { SimulatedRemote(named: "remote \($0)", power) }
        world = try plan.schema.world.get()
        remotes[0].content.objects = world.objects
    }

    /// - Throws: ``ScheduleFailure``
    package func run() throws -> ScheduleSummary {
        var place: Int?
        do {
            log?(plan.description)
            for _ in 0..<plan.storeCount { try addMember() }
            for step in plan.steps where !leftOut.contains(step.number) {
                place = step.number
                try perform(step)
            }
            place = nil
            try finish()
            return summary
        } catch {
            logStores()
            let reason = (error as? Failure)?.reason ?? "\(error)"
            throw ScheduleFailure(plan: plan, step: place, reason: reason)
        }
    }

    private func logStores() {
        guard let log else { return }
        for store in stores {
            log("store \(store.place), head \((try? store.head())?.prefix(8) ?? "-"):")
            for line in (try? store.log()) ?? [] { log("    \(line)") }
            if let status = try? store.repository().status() {
                log("    \(status.readyCount) ready, \(status.obstacles), \(status.remotes)")
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

    /// Adds a store that is a member already.
    private func addMember() throws {
        let place = stores.count
        let store = try SimulatedStore(
            place, member: nextMember, world.stores[nextMember], version: 0, plan.remotes[place].map { remotes[$0] },
            plan.schema, sliceRows: plan.sliceRows[place], power)
        nextMember += 1
        try store.migrate(to: plan.versions[place])
        stores.append(store)
    }

    private var active: [SimulatedStore] { stores.filter { !removed.contains($0.place) } }

    // MARK: Steps

    private func perform(_ step: Plan.Step) throws {
        let active = active
        let store = active[step.place % active.count]
        store.clock.advance(by: step.milliseconds)
        arm(step.trouble, step.seed)
        if case .full(let pages) = step.trouble { try store.limitPages(pages) }
        var outcome = "done"
        do {
            outcome = try act(step, store)
        } catch {
            guard isExpected(error, of: step) else { throw error }
            summary.errors += 1
            outcome = "\(error)"
        }
        let isOff = power.isOff
        disarm()
        if case .full = step.trouble { try store.limitPages(nil) }
        if isOff {
            summary.kills += 1
            try store.reopen()
        }
        summary.steps += 1
        if let log {
            log(
                "\(step.number): store \(store.place) \(step.action), \(step.trouble): \(outcome); "
                    + "head \(try store.head()?.prefix(8) ?? "-")")
        }
        try requireJournal(of: store)
        try requireEqualRows(as: store)
    }

    private func arm(_ trouble: Plan.Trouble, _ seed: Int) {
        power.arm(trouble)
        guard case .remote = trouble else { return }
        for (index, remote) in remotes.enumerated() { remote.arm(seed &+ index) }
    }

    private func disarm() {
        power.arm(.none)
        for remote in remotes { remote.arm(nil) }
    }

    /// A store shows the rows that it has acknowledged, and the rows that it has shown.
    private func requireJournal(of store: SimulatedStore) throws {
        let shown = try store.shownJournal()
        let lacking = store.journal.union(store.seen).subtracting(shown)
        try require(lacking.isEmpty, "store \(store.place) lacks the rows \(lacking.sorted()) of the journal")
        store.seen = shown
    }

    private func requireEqualRows(as store: SimulatedStore) throws {
        guard let head = try store.head(), try !store.isJoining() else { return }
        var rows: [String]?
        for other in stores where other !== store && other.version == store.version {
            guard try other.head() == head, try !other.isJoining() else { continue }
            let own = try rows ?? store.rows()
            rows = own
            try requireEqual(other, own, "stores \(store.place) and \(other.place) have one head")
        }
    }

    private func requireEqual(_ other: SimulatedStore, _ rows: [String], _ words: String) throws {
        let found = try other.rows()
        try require(
            found == rows,
            "\(words) and other rows: \(Set(found).subtracting(rows).sorted()), \(Set(rows).subtracting(found).sorted())"
        )
    }

    private func isExpected(_ error: any Error, of step: Plan.Step) -> Bool {
        if power.isOff || error is Undone { return true }
        switch error {
        case let failure as RemoteFailure:
            if case .remote = step.trouble { return failure.cause is SimulatedRemote.Fault }
        case let error as DatabaseError: if case .full = step.trouble { return error.resultCode == .SQLITE_FULL }
        case let error as EngineError:
            if case .revert = step.action { return [.noSuchCommit, .forgottenCommit].contains(error.code) }
        case let error as MemberError:
            // A listing that is late or damaged lacks the invitation.
            if case .join = step.action, case .remote = step.trouble { return "\(error)".isEmpty == false }
        default: break
        }
        return false
    }

    private func act(_ step: Plan.Step, _ store: SimulatedStore) throws -> String {
        switch step.action {
        case .commit(let statements, let register, let isUndone):
            try commit(step.number, statements, register: register, isUndone: isUndone, store)
        case .plainCommit(let statements): try plainCommit(statements, store)
        case .count(let count):
            try store.repository().commit { db in
                try db.execute(
                    sql: "INSERT INTO counter VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET v = v + ?1",
                    arguments: [count])
                try db.execute(sql: "INSERT INTO journal VALUES (?, ?)", arguments: [step.number, store.place])
            }
            counted[step.number] = count
            store.journal.insert(step.number)
            summary.commits += 1
        case .revert(let index):
            guard !plainCommits.isEmpty else { return "there is none" }
            try store.repository().revert(plainCommits[index % plainCommits.count])
        case .push(let remote): return try report([store.run(remote, .putting)], step)
        case .fetch(let remote): return try report([store.run(remote, .fetching)], step)
        case .sync(let remote): try check(store.sync(remote), step)
        case .pull: return try store.repository().pull() == nil ? "nothing" : "moved"
        case .compact(let remote):
            let made = try store.compact(remote)
            summary.snapshots += made.sentSnapshots
            return try report([made], step)
        case .forget(let tombstones): try store.repository().forgetHistory(tombstones: tombstones)
        case .migrate: try store.migrate(to: min(store.version + 1, SimulatedSchema.lastVersion))
        case .reopen: try store.reopen()
        case .settle:
            disarm()
            try settle()
        case .save, .restore, .copy, .join, .remove: return try changeStores(step, store)
        case .saveRemote, .rewindRemote, .emptyRemote, .loseObjects, .copyRemote: return changeRemotes(step)
        }
        return "done"
    }

    private func report(_ reports: [ExchangeReport], _ step: Plan.Step) throws -> String {
        try check(reports.flatMap(\.failures), step)
        return reports.map { "\($0.receivedCommits) in, \($0.sentCommits) out" }.joined()
    }

    /// A call that failed has failed by the fault of the step.
    private func check(_ failures: [RemoteFailure], _ step: Plan.Step) throws {
        for failure in failures where !isExpected(failure, of: step) { throw failure }
    }

    // MARK: Commits

    /// Statements may fail by a constraint; then they have done nothing.
    private static func run(_ statements: [Statement], _ version: Int, _ db: Database) throws {
        for statement in statements where statement.version <= version {
            do {
                try db.execute(sql: statement.sql)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {}
        }
    }

    private func commit(
        _ number: Int, _ statements: [Statement], register: Int?, isUndone: Bool, _ store: SimulatedStore
    ) throws {
        let isJoining = try store.isJoining()
        let known = try registers.known(by: store, isJoining: isJoining, register)
        do {
            try store.repository().commit { db in
                try Self.run(statements, store.version, db)
                try db.execute(sql: "INSERT INTO journal VALUES (?, ?)", arguments: [number, store.place])
                if let register {
                    try db.execute(
                        sql: "INSERT INTO register VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET step = ?2",
                        arguments: [register, number])
                }
                if isUndone { throw Undone() }
            }
        } catch {
            let isThere = try store.shownJournal().contains(number)
            try require(!isThere || power.isOff, "a commit has failed and is there: \(error)")
            throw error
        }
        summary.commits += 1
        store.journal.insert(number)
        if let register { registers.add(number, to: register, knowing: known) }
    }

    private func plainCommit(_ statements: [Statement], _ store: SimulatedStore) throws {
        let former = try store.head()
        try store.repository().commit { try Self.run(statements, store.version, $0) }
        summary.commits += 1
        if let head = try store.head(), head != former { plainCommits.append(head) }
    }

    // MARK: Mishaps

    private func changeStores(_ step: Plan.Step, _ store: SimulatedStore) throws -> String {
        switch step.action {
        case .save:
            backups[store.place] = Backup(queue: try store.backup(), version: store.version, journal: store.journal)
        case .restore:
            guard let backup = backups[store.place] else { return "there is no backup" }
            // Only the store itself may have these.
            uncertain.formUnion(store.journal.subtracting(backup.journal))
            try store.restore(backup.queue, version: backup.version)
            (store.journal, store.seen) = (backup.journal, backup.journal)
            (hasBranches, summary.mishaps) = (true, summary.mishaps + 1)
        case .copy:
            guard stores.count < Plan.mostStores else { return "there are enough" }
            disarm()
            let place = stores.count
            let copy = try SimulatedStore(
                place, member: store.member, store.backup(), version: store.version,
                plan.remotes[place].map { remotes[$0] }, plan.schema, sliceRows: plan.sliceRows[place], power,
                time: store.clock.milliseconds)
            (copy.journal, copy.seen) = (store.journal, store.seen)
            stores.append(copy)
            (hasBranches, summary.mishaps) = (true, summary.mishaps + 1)
        case .join: return try join(step)
        case .remove:
            let last = active[active.count - 1]
            let isFirst = active[0].place == 0 && last.member != 0
            guard removed.isEmpty, isFirst, active.count > 2,
                !active.contains(where: { $0.member == last.member && $0 !== last })
            else { return "nobody" }
            disarm()
            let id = try last.repository().store().keys.id
            try active[0].repository().remove(id)
            removed.insert(last.place)
            removedAuthors.insert(id.description)
            uncertain.formUnion(last.journal.subtracting(try active[0].shownJournal()))
            summary.mishaps += 1
        default: break
        }
        return "done"
    }

    /// Another device joins by an invitation of the first store, or one that was removed joins again.
    private func join(_ step: Plan.Step) throws -> String {
        if let place = removed.first, active[0].place == 0 { return try joinAgain(stores[place], step.seed) }
        guard stores.count < Plan.mostStores, nextMember < Plan.mostStores, active[0].place == 0 else {
            return "there are enough"
        }
        try addMember()
        return "member \(nextMember - 1)"
    }

    private func joinAgain(_ store: SimulatedStore, _ seed: Int) throws -> String {
        let remote = store.remotes[seed % store.remotes.count]
        do {
            try store.joinAgain(invitedBy: active[0], at: remote)
        } catch {
            if power.isOff { try store.reopen() }
            throw error
        }
        removed.remove(store.place)
        // Its rows are its own now, also those that the others had refused.
        uncertain.subtract(store.journal)
        return "store \(store.place) again"
    }

    private func changeRemotes(_ step: Plan.Step) -> String {
        summary.mishaps += 1
        switch step.action {
        case .saveRemote(let index):
            savedRemotes[index % remotes.count] = remotes[index % remotes.count].content.objects
        case .rewindRemote(let index):
            remotes[index % remotes.count].content.objects = savedRemotes[index % remotes.count] ?? [:]
        case .emptyRemote(let index): remotes[index % remotes.count].content.objects = [:]
        case .loseObjects(let index): remotes[index % remotes.count].loseObjects(step.seed)
        case .copyRemote(let index):
            let (from, to) = (remotes[index % remotes.count], remotes[step.seed % remotes.count])
            to.content.objects = from.content.objects
        default: break
        }
        return "done"
    }

    // MARK: The end

    /// Everybody syncs until all have the same head and nothing is left to put.
    private func settle() throws {
        for _ in 0..<20 {
            var isDone = true
            for store in active {
                for remote in store.remotes.indices {
                    let former = try store.head()
                    let failures = try store.sync(remote)
                    if let failure = failures.first { throw failure }
                    if try store.head() != former { isDone = false }
                }
            }
            if try isDone && Set(active.map { try $0.head() }).count == 1 { return }
        }
        let heads = try active.map { try "\($0.place): \($0.head()?.prefix(8) ?? "-")" }
        throw Failure(reason: "the stores do not come to an end: \(heads)")
    }

    private func finish() throws {
        if let place = removed.first, active[0].place == 0, plan.number % 2 == 0 {
            let outcome = try joinAgain(stores[place], plan.number)
            log?("at the end: \(outcome)")
        }
        for store in active { try store.migrate(to: SimulatedSchema.lastVersion) }
        try settle()
        for store in active { for remote in store.remotes.indices { try check(store.sync(remote)) } }
        try requireEqualStores()
        try requireJournal()
        try requireRegisters()
        try requireNewcomer()
    }

    private func check(_ failures: [RemoteFailure]) throws { if let failure = failures.first { throw failure } }

    private func requireEqualStores() throws {
        let first = active[0]
        let (head, rows) = (try first.head(), try first.rows())
        let (verified, conflicts) = (try first.repository().verify(), try first.repository().conflicts())
        for store in active {
            let name = "store \(store.place)"
            try require(try store.head() == head, "\(name) has another head")
            try requireEqual(store, rows, "\(name) has the head of store \(first.place)")
            let own = try store.repository().verify()
            try require(own.differences.isEmpty, "\(name) differs from its commits: \(own.differences)")
            try require(own.digest == verified.digest, "\(name) has another digest")
            try require(
                try store.repository().conflicts() == conflicts, "\(name) has other conflicts than store \(first.place)"
            )
            let damage = try store.damage()
            try require(damage == nil, "\(name): \(damage ?? "")")
            let status = try store.repository().status()
            let open = status.obstacles.filter { !isPermitted($0) }
            // A copy of a store may know a remote that it does not reach.
            let names = Set(store.remotes.map(\.name))
            let isSent = status.remotes.allSatisfy { $0.isUpToDate || !names.contains($0.name) }
            try require(status.readyCount == 0 && open.isEmpty && isSent, "\(name) has the status \(status)")
            try requireJournal(of: store)
        }
    }

    private func isPermitted(_ obstacle: Obstacle) -> Bool {
        switch obstacle {
        case .conflict: true
        case .clockAhead: plan.hasFarClocks
        case .twoContents: hasBranches
        case .removedMember: !removedAuthors.isEmpty
        case .waiting(let author, _, _): removedAuthors.contains(author)
        default: false
        }
    }

    private func requireJournal() throws {
        let acknowledged = active.reduce(into: Set<Int>()) { $0.formUnion($1.journal) }
        let all = stores.reduce(into: uncertain) { $0.formUnion($1.journal) }
        let found = try active[0].shownJournal()
        let lost = acknowledged.union(all).subtracting(uncertain).subtracting(found)
        try require(lost.isEmpty, "the rows \(lost.sorted()) of the journal are lost")
        let strange = found.subtracting(all)
        try require(strange.isEmpty, "the rows \(strange.sorted()) of the journal were never acknowledged")
        // A member that has the commits of a removed one, and says so late, makes steps count twice.
        guard !hasBranches, removedAuthors.isEmpty else { return }
        let (count, expected) = (try active[0].count(), found.reduce(0) { $0 + (counted[$1] ?? 0) })
        try require(count == expected, "\(count) were counted instead of \(expected)")
    }

    /// No register has a value that the author of another one knew.
    private func requireRegisters() throws {
        let found = try active[0].shownJournal()
        for id in 1...3 {
            let value = try active[0].register(id)
            let problem = registers.problem(of: id, value: value, among: found)
            try require(problem == nil, "register \(id) has \(value.map(String.init) ?? "no value"): \(problem ?? "")")
        }
    }

    /// A device that joins by an invitation has the same rows.
    private func requireNewcomer() throws {
        guard plan.number % 4 == 0, active[0].place == 0 else { return }
        let founder = active[0]
        let invitation = try founder.repository().invite(until: .max)
        try check(founder.sync(0))
        let queue = try world.emptyStore(plan.schema)
        _ = try ChangesetRepository.join(
            queue, invitation, at: founder.remotes[0], remoteName: founder.remotes[0].name,
            clock: { [clock = founder.clock] in HybridTime(wallClock: clock.milliseconds) })
        let newcomer = try SimulatedStore(
            99, member: 99, queue, version: SimulatedSchema.lastVersion, founder.remotes, plan.schema,
            sliceRows: 50_000,
            power, time: founder.clock.milliseconds)
        for _ in 0..<2 {
            for store in [newcomer, founder] { for remote in store.remotes.indices { try check(store.sync(remote)) } }
        }
        try require(try newcomer.head() == founder.head(), "a newcomer has another head")
        try requireEqual(newcomer, founder.rows(), "a newcomer has the head of store 0")
        try require(try newcomer.repository().verify().differences.isEmpty, "a newcomer differs from its commits")
    }
}

/// The values that were written to registers, with the values that their authors knew.
private struct Registers {
    private var written: [Int: Set<Int>] = [:]
    private var known: [Int: Set<Int>] = [:]

    /// The values that a store knows. Between two slices it knows the value that it shows, and what its author knew.
    func known(by store: SimulatedStore, isJoining: Bool, _ register: Int?) throws -> Set<Int> {
        guard let register else { return [] }
        if !isJoining { return try store.shownJournal() }
        guard let value = try store.register(register) else { return [] }
        return (known[value] ?? []).union([value])
    }

    mutating func add(_ value: Int, to register: Int, knowing values: Set<Int>) {
        written[register, default: []].insert(value)
        known[value] = values
    }

    func problem(of register: Int, value: Int?, among found: Set<Int>) -> String? {
        let all = (written[register] ?? []).intersection(found)
        guard let value else { return all.isEmpty ? nil : "\(all.sorted()) were written" }
        if !all.contains(value) { return "nobody has written it" }
        let later = all.filter { known[$0]?.contains(value) ?? false }
        return later.isEmpty ? nil : "the authors of \(later.sorted()) knew it"
    }
}
