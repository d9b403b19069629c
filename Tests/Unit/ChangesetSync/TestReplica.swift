import CipherDatabase
import Testing

@testable import ChangesetSync

extension Replica {
    /// Runs a block of the program and records the changes that it names as a commit.
    ///
    /// - Returns: The commit; nil if nothing has changed.
    func record(
        _ db: Database, clock: HybridTime, meta: String = "{}", _ body: () throws -> [ProgramChange]
    ) throws -> EncodedCommit? {
        try inTransaction(db, clock) { work in
            let changes = try writing(work, body)
            return try work.record(changes, meta: meta)
        }
    }

    /// Stores a commit and joins nothing.
    func fetch(_ db: Database, clock: HybridTime, _ commit: EncodedCommit) throws {
        try inTransaction(db, clock, seesForeign: false) { try $0.fetch(commit) }
    }

    /// The stored commits that can be joined now, in order.
    func ready(_ db: Database, clock: HybridTime) throws -> [EncodedCommit] {
        try inTransaction(db, clock, seesForeign: false) { try $0.ready() }
    }
}

/// A store in memory whose program writes SQL.
final class TestReplica {
    let queue = DatabaseQueue()
    let replica: Replica
    let tables: [String]
    private var clock: UInt64
    /// All commits that it has made, in order.
    private(set) var commits: [EncodedCommit] = []

    init(
        _ name: String, _ sql: String, tracking tables: [TrackedTable], sliceRows: Int = 0, clock: UInt64 = 1_000_000
    ) throws {
        var settings = Replica.Settings()
        (settings.sliceRows, settings.sliceTime) = (sliceRows, nil)
        replica = Replica(settings: settings)
        self.tables = tables.map(\.name)
        self.clock = clock
        try queue.write { db in
            try db.execute(sql: sql)
            try Replica.create(db, repository: .zero, author: ReplayStore.id(name))
        }
        for table in tables {
            try queue.writeWithoutTransaction { try replica.track($0, clock: now, table) }
        }
    }

    private var now: HybridTime { HybridTime(rawValue: clock) }

    /// Runs SQL of the program as one commit.
    @discardableResult
    func write(_ sql: String) throws -> EncodedCommit? {
        clock += 1
        let commit = try queue.writeWithoutTransaction { db in
            try replica.record(db, clock: now) {
                let former = try rows(db)
                try db.execute(sql: sql)
                let present = try rows(db)
                return Set(former.keys).union(present.keys).filter { former[$0] != present[$0] }
                    .sorted { ($0.table, $0.key) < ($1.table, $1.key) }
                    .map { ProgramChange(table: $0.table, old: former[$0], new: present[$0]) }
            }
        }
        if let commit { commits.append(commit) }
        return commit
    }

    /// Runs SQL of the program whose changes are known.
    func record(_ sql: String, _ changes: [ProgramChange]) throws {
        clock += 1
        let commit = try queue.writeWithoutTransaction { db in
            try replica.record(db, clock: now) {
                try db.execute(sql: sql)
                return changes
            }
        }
        if let commit { commits.append(commit) }
    }

    /// Changes the schema of the one tracked table.
    func alter(_ sql: String, renaming names: (old: String, new: String)? = nil) throws {
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: sql)
            if let names { try replica.rename(db, clock: now, names.old, to: names.new, of: tables[0]) }
            try replica.track(db, clock: now, TrackedTable(tables[0]))
        }
    }

    private struct Place: Hashable {
        let table: String
        let key: RowKey
    }

    private func rows(_ db: Database) throws -> [Place: [CellValue]] {
        var rows: [Place: [CellValue]] = [:]
        for name in tables {
            let table = try #require(try TableDefinition(named: name, in: db))
            try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)").forEach([]) { row in
                let values = table.columns.indices.map { row.value($0) }
                rows[Place(table: name, key: table.key(of: values))] = values
            }
        }
        return rows
    }

    /// Fetches commits and joins all that can be joined.
    func join(_ commits: [EncodedCommit]) throws {
        clock += 1
        try queue.writeWithoutTransaction { db in
            for commit in commits { try replica.fetch(db, clock: now, commit) }
            var hasMore = true
            while hasMore {
                let pulled = try replica.pull(db, clock: now)
                self.commits += pulled.made
                hasMore = pulled.hasMore
            }
        }
    }

    func join(_ snapshot: Snapshot) throws {
        try queue.writeWithoutTransaction { db in
            try replica.begin(db, clock: now, snapshot)
            while replica.isJoining { commits += try replica.step(db, clock: now) }
        }
    }

    func snapshot() throws -> Snapshot? {
        try queue.writeWithoutTransaction { try replica.snapshot($0, clock: now, partBytes: 100) }
    }

    /// The rows of a query, each as a text.
    func texts(_ sql: String) throws -> [String] {
        try queue.read { db in
            try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.map { $0.isNull ? "NULL" : String.fromDatabaseValue($0) ?? "\($0)" }
                    .joined(separator: " ")
            }
        }
    }

    func hidden() throws -> [String] {
        try queue.writeWithoutTransaction { db in
            try replica.inspect(db, clock: now) { inspection in
                try inspection.hidden().map {
                    "\($0.table) \($0.key.map { Replay.text($0, isKey: true) }) \($0.reason)"
                }
                .sorted()
            }
        }
    }

    /// Everybody gets everything.
    static func exchange(_ replicas: TestReplica...) throws {
        for _ in 0..<4 {
            let all = replicas.flatMap(\.commits)
            for replica in replicas { try replica.join(all) }
        }
    }
}
