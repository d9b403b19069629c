import ChangesetSync
import CipherDatabase
import CipherObservation
import CipherRecords
import CipherSchema
import Foundation

/// A store in memory with a repository and its remotes, whose process may end at any time.
final class SimulatedStore {
    let place: Int
    let clock: TestClock
    /// Whether checkpoints need not wait for it: it came later, or was retired.
    var mayRejoin: Bool
    /// The rows of the journal that were acknowledged to it.
    var journal: Set<Int> = []
    /// How many rows of the journal it has shown.
    var seen = 0
    private(set) var queue: DatabaseQueue
    private(set) var repository: ChangesetRepository
    private(set) var managers: [SyncManager] = []
    private let remotes: [FaultyRemote]
    private let policy: MergePolicy
    private let power: Power
    private let rows: String

    init(
        _ place: Int, _ remotes: [FaultyRemote], _ schema: SimulatedSchema, hasStart: Bool, policy: MergePolicy,
        _ power: Power, mayRejoin: Bool
    ) throws {
        (self.place, self.remotes, self.policy, self.power) = (place, remotes, policy, power)
        self.mayRejoin = mayRejoin
        clock = TestClock(seconds: Double(1_000_000 + place))
        queue = DatabaseQueue()
        repository = ChangesetRepository(queue)
        rows = schema.rows
        try open((hasStart ? schema.startedTemplate : schema.template).get())
        // The whole difference between two stores that have made no commit of their own.
        let author = try AuthorID.random()
        try queue.write { db in
            try db.execute(
                sql: "INSERT INTO cipherstore_sync_author (id) VALUES (?)", arguments: [Data(author.bytes)])
            try db.execute(
                sql: "UPDATE cipherstore_sync_state SET author = ?, sequence = 0",
                arguments: [db.lastInsertedRowID])
        }
    }

    private func open(_ content: DatabaseQueue) throws {
        var configuration = Configuration()
        configuration.transactionClock = clock
        queue = DatabaseQueue(configuration: configuration)
        try content.backup(to: queue)
        queue.add(transactionObserver: PowerObserver(power), extent: .databaseLifetime)
        repository = ChangesetRepository(queue, mergePolicy: policy)
        managers = remotes.map { SyncManager(repository, remote: $0) }
    }

    /// Another process opens the store: it has what was committed, and nothing else.
    func reopen() async throws {
        try open(queue)
        try await setUp()
    }

    func setUp() async throws {
        for manager in managers { try await manager.setup() }
    }

    // Not by the asynchronous accesses, which an asynchronous caller would get.
    func read<T>(_ value: (Database) throws -> T) throws -> T { try queue.read(value) }
    func write(_ updates: (Database) throws -> Void) throws { try queue.write(updates) }

    /// - Parameter pages: How many pages more than now the store may have; nil for any number.
    func limitPages(_ pages: Int?) throws {
        try queue.writeWithoutTransaction { db in
            let count = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(pages.map { count + $0 } ?? 1_000_000)")
        }
    }

    func head() throws -> String? { try read { try Head.fetchOne($0)?.uuid } }
    func commitCount() throws -> Int {
        try read { db in
            let sql = "SELECT count(*) FROM cipherstore_sync_commit"
            return try Int.fetchOne(try db.cachedStatement(sql: sql)) ?? 0
        }
    }

    func outboxCount() throws -> Int {
        try read { db in
            try Int.fetchOne(try db.cachedStatement(sql: "SELECT count(*) FROM cipherstore_sync_outbox")) ?? 0
        }
    }

    func author() throws -> AuthorID? {
        try read { db in
            let sql = """
                SELECT a.id FROM cipherstore_sync_author AS a JOIN cipherstore_sync_state AS s ON a.n = s.author
                """
            return try Data.fetchOne(db, sql: sql).flatMap { AuthorID(bytes: $0) }
        }
    }

    // MARK: What is compared

    /// All rows of the tracked tables, with their types.
    func state() throws -> [String] {
        try read { db in
            try Row.fetchAll(try db.cachedStatement(sql: rows))
                .map { row in (0..<4).map { row[$0] as String }.joined(separator: " ") }
        }
    }

    /// Ordinary commits of the store that are not under its head.
    func commitsBesideHead() throws -> Int {
        try read { db in
            try Int.fetchOne(
                db,
                sql: """
                    WITH RECURSIVE under(n) AS (
                        SELECT c.n FROM cipherstore_sync_commit AS c
                        JOIN cipherstore_sync_head AS h ON lower(hex(c.id)) = h.uuid
                        UNION SELECT p.column1 FROM under AS u JOIN cipherstore_sync_commit AS c ON c.n = u.n
                        JOIN (SELECT n AS child, parent1 AS column1 FROM cipherstore_sync_commit
                            UNION ALL SELECT n, parent2 FROM cipherstore_sync_commit) AS p ON p.child = c.n
                        WHERE p.column1 IS NOT NULL)
                    SELECT count(*) FROM cipherstore_sync_commit WHERE kind = 0 AND n NOT IN under
                    """) ?? 0
        }
    }

    /// The commits of the store, for a person who looks for a cause.
    func graph() throws -> [String] {
        try read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT c.n || ': ' || lower(hex(substr(c.id, 1, 4))) || ', generation ' || c.generation || ', '
                        || CASE c.kind WHEN 0 THEN 'ordinary' WHEN 1 THEN 'merge' ELSE 'checkpoint' END || ', parents '
                        || coalesce(lower(hex(substr(p.id, 1, 4))), '-') || ' '
                        || coalesce(lower(hex(substr(q.id, 1, 4))), '-')
                        || ', author ' || lower(hex(substr(a.id, 1, 4))) || ' ' || c.sequence
                    FROM cipherstore_sync_commit AS c JOIN cipherstore_sync_author AS a ON a.n = c.author
                    LEFT JOIN cipherstore_sync_commit AS p ON p.n = c.parent1
                    LEFT JOIN cipherstore_sync_commit AS q ON q.n = c.parent2 ORDER BY c.n
                    """)
        }
    }

    /// The commits that wait for another one, by the beginnings of their names.
    func waiting() throws -> [String] {
        try read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT lower(hex(substr(id, 1, 4))) || ' waits for ' || lower(hex(substr(missing, 1, 4)))
                    FROM cipherstore_sync_pending
                    """)
        }
    }

    /// What SQLite finds wrong.
    func damage() throws -> String? {
        try read { db in
            if try db.foreignKeyViolations().next() != nil { return "a row refers to one that does not exist" }
            let integrity = try String.fetchOne(db, sql: "PRAGMA integrity_check")
            return integrity == "ok" ? nil : integrity
        }
    }

    func ownJournalCounts() throws -> (own: Int, all: Int) {
        try read { db in
            let sql = "SELECT coalesce(sum(place = ?), 0), count(*) FROM journal"
            let row = try Row.fetchOne(try db.cachedStatement(sql: sql), arguments: [place])
            return (row?[0] ?? 0, row?[1] ?? 0)
        }
    }
}
