import CipherDatabase
import CipherObservation
import CipherRecords
import ChangesetSync
import Synchronization

/// A clock that a schedule sets.
final class SimulatedClock: Sendable {
    /// Milliseconds since 1970.
    private let time: Mutex<Int64>

    init(_ milliseconds: Int64) { time = Mutex(milliseconds) }

    var milliseconds: Int64 { time.withLock { $0 } }
    func advance(by milliseconds: Int) { time.withLock { $0 = max(1, $0 + Int64(milliseconds)) } }
}

/// A store in memory with a repository and its remotes, whose process may end at any time.
final class SimulatedStore {
    static let firstTime: Int64 = 1_700_000_000_000

    let place: Int
    /// The member that the store is: a copy of a store is the same one.
    let member: Int
    let remotes: [SimulatedRemote]
    let clock: SimulatedClock
    /// The rows of the journal that were acknowledged to it.
    var journal: Set<Int> = []
    /// The rows of the journal that it has shown.
    var seen: Set<Int> = []
    private(set) var queue = DatabaseQueue()
    private(set) var version: Int
    private var opened: ChangesetRepository?
    private var exchanges: [Int: Exchange] = [:]
    private let schema: SimulatedSchema
    private let sliceRows: Int
    private let power: Power

    /// - Parameter version: The version of the tables that the content has.
    init(
        _ place: Int, member: Int, _ content: DatabaseQueue, version: Int, _ remotes: [SimulatedRemote],
        _ schema: SimulatedSchema, sliceRows: Int, _ power: Power, time: Int64 = firstTime
    ) throws {
        (self.place, self.member, self.remotes, self.schema) = (place, member, remotes, schema)
        (self.version, self.sliceRows, self.power) = (version, sliceRows, power)
        clock = SimulatedClock(time)
        try open(content)
    }

    private func open(_ content: DatabaseQueue) throws {
        let former = queue
        queue = DatabaseQueue()
        try content.backup(to: queue)
        if content === former { try former.close() }
        queue.add(transactionObserver: PowerObserver(power), extent: .databaseLifetime)
        opened = nil
        exchanges = [:]
    }

    /// Another process opens the store: it has what was committed, and nothing else.
    func reopen() throws { try open(queue) }

    /// The store has the content of a backup.
    func restore(_ backup: DatabaseQueue, version: Int) throws {
        try open(backup)
        self.version = version
    }

    func backup() throws -> DatabaseQueue {
        let copy = DatabaseQueue()
        try queue.backup(to: copy)
        return copy
    }

    func repository() throws -> ChangesetRepository {
        if let opened { return opened }
        let made = try ChangesetRepository(queue, settings: settings) { [clock] in
            HybridTime(wallClock: clock.milliseconds)
        }
        opened = made
        return made
    }

    /// The store joins its repository again, by an invitation of another one.
    func joinAgain(invitedBy other: SimulatedStore, at remote: SimulatedRemote) throws {
        let invitation = try other.repository().invite(until: .max)
        if let failure = try other.repository().sync(remote, named: remote.name).exchange.failures.first {
            throw failure
        }
        (opened, exchanges) = (nil, [:])
        _ = try ChangesetRepository.join(
            queue, invitation, at: remote, remoteName: remote.name, settings: settings
        ) { [clock] in HybridTime(wallClock: clock.milliseconds) }
    }

    private var settings: Replica.Settings {
        var settings = Replica.Settings()
        settings.sliceRows = sliceRows
        settings.sliceTime = nil
        return settings
    }

    func migrate(to next: Int) throws {
        guard next > version else { return }
        try queue.write { try schema.migrate($0, from: version, to: next) }
        version = next
        try repository().join()
    }

    func write(_ updates: (Database) throws -> Void) throws { try queue.write(updates) }

    /// - Parameter pages: How many pages more than now the store may have; nil for any number.
    func limitPages(_ pages: Int?) throws {
        try queue.writeWithoutTransaction { db in
            let count = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(pages.map { count + $0 } ?? 1_000_000)")
        }
    }

    // MARK: Exchange

    private func exchange(_ remote: Int) throws -> (Exchange, name: String) {
        let index = remote % remotes.count
        let name = remotes[index].name
        if let exchange = exchanges[index] { return (exchange, name) }
        let exchange = try Exchange(repository().store(), with: remotes[index], named: name)
        exchanges[index] = exchange
        return (exchange, name)
    }

    func run(_ remote: Int, _ direction: Exchange.Direction) throws -> ExchangeReport {
        let exchange = try exchange(remote)
        return try repository().run(exchange.0, direction)
    }

    /// As ``SyncManager/sync()``, and the failures of all.
    func sync(_ remote: Int) throws -> [RemoteFailure] {
        var failures = try run(remote, .fetching).failures
        try repository().join()
        failures += try run(remote, .both).failures
        try repository().join()
        return failures
    }

    func compact(_ remote: Int) throws -> ExchangeReport {
        let index = remote % remotes.count
        return try repository().compact(remotes[index], named: remotes[index].name)
    }

    // MARK: Comparison

    func head() throws -> String? {
        _ = try repository()
        return try queue.read { try Head.fetchOne($0)?.uuid }
    }

    /// All rows of the tracked tables, with their types.
    func rows() throws -> [String] {
        try queue.read { db in
            try Row.fetchAll(try db.cachedStatement(sql: schema.rows(version: version)))
                .map { row in (0..<5).map { row[$0] as String }.joined(separator: " ") }
        }
    }

    /// An error that SQLite finds.
    func damage() throws -> String? {
        try queue.read { db in
            if try db.foreignKeyViolations().next() != nil { return "a row refers to one that does not exist" }
            let integrity = try String.fetchOne(db, sql: "PRAGMA integrity_check")
            return integrity == "ok" ? nil : integrity
        }
    }

    func shownJournal() throws -> Set<Int> {
        try queue.read { try Set(Int.fetchAll($0, sql: "SELECT id FROM journal")) }
    }

    func register(_ id: Int) throws -> Int? {
        try queue.read { try Int.fetchOne($0, sql: "SELECT step FROM register WHERE id = ?", arguments: [id]) }
    }

    func count() throws -> Int { try queue.read { try Int.fetchOne($0, sql: "SELECT sum(v) FROM counter") ?? 0 } }

    /// Whether a join has begun and has not ended.
    func isJoining() throws -> Bool {
        // Most of the time there is none to ask for, and the status reads much.
        let bytes = try queue.read { db in
            try Int.fetchOne(try db.cachedStatement(sql: "SELECT length(ahead) FROM cipherstore_repository_state")) ?? 0
        }
        return try bytes > 1 && repository().status().obstacles.contains(.joining)
    }

    /// The commits of the store, for a person who looks for a cause.
    func log() throws -> [String] {
        try queue.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT a.id || '#' || c.number || ' ' || lower(hex(substr(c.hash, 1, 4))) || ' time ' || c.time
                        || CASE WHEN c.body IS NULL THEN ' without a body' ELSE '' END
                    FROM cipherstore_repository_commit AS c
                    JOIN (SELECT n, lower(hex(substr(id, 1, 3))) AS id FROM cipherstore_repository_author) AS a
                    ON a.n = c.author ORDER BY c.n
                    """)
        }
    }
}
