import CipherDatabase
import CipherRecords
import Foundation
import TestKit

@testable import ChangesetSync

/// A store in memory with a repository, for one test.
final class Replica: Sendable {
    let queue: DatabaseQueue
    let repository: ChangesetRepository

    /// - Parameters:
    ///   - schema: Creates the tables.
    ///   - clock: The time of commits; nil for the system's.
    ///   - policy: What its merges choose.
    ///   - encoding: That of its texts; nil for UTF-8.
    ///   - afterApply: What follows its pulls.
    init(
        _ schema: String = Replica.players, tracking tables: [String] = ["player"], key: RepositoryKey? = nil,
        clock: (any TransactionClock)? = nil, policy: MergePolicy = MergePolicy(), encoding: String? = nil,
        afterApply: ChangesetRepository.AfterApply? = nil
    ) throws {
        var configuration = Configuration()
        if let clock { configuration.transactionClock = clock }
        if let encoding { configuration.prepareDatabase { try $0.execute(sql: "PRAGMA encoding = '\(encoding)'") } }
        queue = DatabaseQueue(configuration: configuration)
        try queue.write { try $0.execute(sql: schema) }
        repository = ChangesetRepository(queue, mergePolicy: policy, afterApply: afterApply)
        try repository.migrate()
        try repository.enable(tables, key: key)
    }

    /// A store restored from a backup of another one.
    init(copyOf other: Replica) throws {
        queue = DatabaseQueue()
        try other.queue.backup(to: queue)
        repository = ChangesetRepository(queue)
    }

    static let players = "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, score INTEGER)"

    @discardableResult
    func run(_ sql: String, meta: String = "{}") throws -> CommitID? {
        try repository.commit(meta: meta) { try $0.execute(sql: sql) }
        return try head
    }

    var head: CommitID? {
        get throws { try queue.read { try Head.fetchOne($0) }.flatMap { CommitID($0.uuid) } }
    }

    var commitCount: Int {
        get throws { try queue.read { try Changeset.fetchCount($0) } }
    }

    func strings(_ sql: String) throws -> [String] {
        try queue.read {
            try Row.fetchAll($0, sql: sql).map { $0.databaseValues.map(\.description).joined(separator: ",") }
        }
    }

    // Not by the asynchronous accesses, which a test that is asynchronous would get.
    func read<T>(_ value: (Database) throws -> T) throws -> T { try queue.read(value) }

    /// Writes outside of commits.
    func write(_ sql: String) throws { try queue.write { try $0.execute(sql: sql) } }

    /// All rows of the tracked tables, as they are stored.
    func state() throws -> [String: [RowKey: DeltaRecord]] {
        try queue.read { db in
            var state: [String: [RowKey: DeltaRecord]] = [:]
            for table in try RepositoryTransaction(db).tables.all {
                let statement = try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)")
                for row in try statement.records() { state[table.name, default: [:]][table.table.key(of: row)] = row }
            }
            return state
        }
    }

    func delta(_ id: CommitID, fromParent index: Int = 0) throws -> Delta {
        try queue.read { db in
            let store = CommitStore(db: db)
            return try store.delta(store.requireNode(id).n, fromParent: index)
        }
    }

    func key() throws -> RepositoryKey { try queue.read(RepositoryState.key) }

    /// Gives this store another name at its remotes, as when it was restored from a backup.
    func beginNewLogs() throws {
        try queue.write { db in try db.changingHistory { try RemoteState.beginNewLogs(db) } }
    }

    /// Copies all commits of another replica, as a fetch does.
    func fetch(_ other: Replica, atMost limit: Int = .max) throws {
        let commits = try other.queue.read { db in
            try Int64.fetchAll(db, sql: "SELECT n FROM cipherstore_sync_commit ORDER BY n").map {
                try CommitStore(db: db).canonical($0)
            }
        }
        let key = try key()
        var rest = limit
        try queue.write { db in
            let store = CommitStore(db: db)
            for bytes in commits {
                let id = try bytes.withUnsafeBytes { try key.commitID(of: $0) }
                guard rest > 0, try store.node(id) == nil else { continue }
                rest -= 1
                _ = try store.insert(Commit(encoded: bytes[...]), id: id, canonical: bytes)
            }
        }
    }
}

/// The kind of the error that a call throws; nil where it throws none, or one of another type.
func code(_ body: () throws -> some Any) -> SyncError.Code? {
    do {
        _ = try body()
        return nil
    } catch {
        return (error as? SyncError)?.code
    }
}

/// What a delta makes of rows, by the book: the oracle for capture and apply.
enum DeltaModel {
    struct Misfit: Error {}

    static func apply(
        _ delta: Delta, to state: [String: [RowKey: DeltaRecord]]
    ) throws -> [String: [RowKey: DeltaRecord]] {
        var state = state
        for entry in delta.tables {
            for change in entry.changes {
                let key = entry.table.key(of: change.keyRecord)
                let present = state[entry.table.name]?[key]
                switch (change.operation, change.old, change.new) {
                case (.insert, _, let new?):
                    guard present == nil else { throw Misfit() }
                    state[entry.table.name, default: [:]][key] = new
                case (.delete, let old?, _):
                    guard present == old else { throw Misfit() }
                    state[entry.table.name]?[key] = nil
                case (.update, let old?, let new?):
                    guard let present, present.replacing(by: old) == present else { throw Misfit() }
                    state[entry.table.name]?[key] = present.replacing(by: new)
                default: throw Misfit()
                }
            }
            if state[entry.table.name]?.isEmpty == true { state[entry.table.name] = nil }
        }
        return state
    }
}

/// How the random runs of these tests are chosen.
enum Simulation {
    /// It is in every message; `CIPHERSTORE_SEED` in the environment repeats a run.
    static let seed = Seed()
    /// `CIPHERSTORE_SCHEDULES` in the environment: how many random runs a simulation has.
    static let schedules = ProcessInfo.processInfo.environment["CIPHERSTORE_SCHEDULES"].flatMap { Int($0) } ?? 12
}
