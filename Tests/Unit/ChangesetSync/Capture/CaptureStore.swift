import CipherDatabase
import Testing

@testable import ChangesetSync

/// A store in memory whose program writes in commits that the capture makes.
final class CaptureStore {
    let queue = DatabaseQueue()
    let replica = Replica()
    let tables: [String]
    private var clock: UInt64 = 1_000_000
    var commits: [EncodedCommit] = []

    init(_ name: String, _ sql: String, tracking tables: [String]) throws {
        self.tables = tables
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: sql)
            try Replica.create(db, repository: .zero, author: ReplayStore.id(name))
            for table in tables { try replica.track(db, clock: now, TrackedTable(table)) }
        }
    }

    private var now: HybridTime { HybridTime(rawValue: clock) }

    func commit(_ body: (Database) throws -> Void) throws -> EncodedCommit? {
        clock += 1
        let commit = try queue.writeWithoutTransaction { db in
            try replica.record(db, clock: now) { try body($0) }.commit
        }
        if let commit { commits.append(commit) }
        return commit
    }

    @discardableResult
    func commit(_ sql: String) throws -> EncodedCommit? { try commit { try $0.execute(sql: sql) } }

    func run(_ sql: String) throws { try queue.writeWithoutTransaction { try $0.execute(sql: sql) } }

    /// The changes that the capture finds in a block, without a commit of it.
    func changes(_ body: (Database) throws -> Void) throws -> [ProgramChange] {
        try queue.writeWithoutTransaction { db in
            var changes: [ProgramChange] = []
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    let catalog = try Catalog(db, DefinitionCache(), version: 0)
                    changes = try db.captureSession.capturing(db, catalog) {
                        try db.runningProgram { try body(db) }
                    }.changes.rows()
                    return .commit
                }
            }
            return changes
        }
    }

    func join(_ other: CaptureStore) throws {
        clock += 1
        try queue.writeWithoutTransaction { db in
            for commit in other.commits { try replica.fetch(db, clock: now, commit) }
            while let commit = try replica.ready(db, clock: now).first {
                try replica.begin(db, clock: now, commit.commit.author, commit.tip)
                while replica.isJoining { try replica.step(db, clock: now) }
            }
        }
    }

    struct Place: Hashable {
        let table: String
        let key: RowKey
    }

    typealias Rows = [Place: [CellValue]]

    func rows() throws -> Rows {
        try queue.read { db in
            var rows: Rows = [:]
            for name in tables {
                let table = try #require(try TableDefinition(named: name, in: db))
                try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)").forEach([]) { row in
                    let values = table.columns.indices.map { row.value($0) }
                    rows[Place(table: name, key: table.key(of: values))] = values
                }
            }
            return rows
        }
    }

    /// The changes from some rows to others, by exact keys.
    func difference(_ former: Rows, _ present: Rows) -> [Place: [[CellValue]?]] {
        var changes: [Place: [[CellValue]?]] = [:]
        for place in Set(former.keys).union(present.keys) where former[place] != present[place] {
            changes[place] = [former[place], present[place]]
        }
        return changes
    }

    func byPlace(_ changes: [ProgramChange]) throws -> [Place: [[CellValue]?]] {
        try queue.read { db in
            var found: [Place: [[CellValue]?]] = [:]
            for change in changes {
                let table = try #require(try TableDefinition(named: change.table, in: db))
                let row = try #require(change.new ?? change.old)
                let former = found.updateValue(
                    [change.old, change.new], forKey: Place(table: change.table, key: table.key(of: row)))
                #expect(former == nil, "Each row is captured once.")
            }
            return found
        }
    }

    func texts(_ sql: String) throws -> [String] {
        try queue.read { db in
            try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.map { $0.isNull ? "NULL" : String.fromDatabaseValue($0) ?? "\($0)" }
                    .joined(separator: " ")
            }
        }
    }
}
