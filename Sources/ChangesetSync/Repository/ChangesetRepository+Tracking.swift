import CipherDatabase
import CipherSchema

/// The beginning of tracking.
extension ChangesetRepository {
    /// Tracks tables. Their rows become commits, each as long as one transaction of a pull; later changes are made in
    /// commits.
    ///
    /// Tables that are tracked already stay so. The change history of the tables is recorded from now on, so that writes
    /// outside of commits are noticed.
    /// - Throws: ``SyncError`` `.noPrimaryKey`, `.nullKey`, `.inexactText`, `.unsuitableTable`, `.applicationTemporaryTrigger`;
    ///   `.missingPart` where SQLite needs a function or collation of the program; `.tableMissing` where a tracked table is gone; `.foreignWrites` where other tracked tables were written outside of
    ///   commits. Nothing is changed then.
    public func enable(_ tables: [String]) throws { try enable(tables, key: nil) }

    /// - Parameter key: The key of the repository to join; nil for a new repository, or the one that the store has.
    package func enable(_ tables: [String], key: RepositoryKey?) throws {
        try writer.unsafeReentrantWrite { db in
            do {
                try Self.inTransaction(db) { try Self.enable(tables, key: key, db) }
            } catch {
                // The numbers by which the tables are known may come again with others.
                db.syncSession.forgetTables()
                throw error
            }
        }
    }

    private static func enable(_ tables: [String], key: RepositoryKey?, _ db: Database) throws {
        try SyncTables.create(db)
        let tracked = try trackedTables(db)
        var names = Set<DeltaTable.FoldedName>()
        let added = try tables.map { try TrackedTable(named: $0, in: db) }
            .filter { tracked[$0.name] == nil && names.insert(DeltaTable.FoldedName($0.name)).inserted }
        try namingMissingParts(of: added, db) {
            for table in added {
                try table.requireKeys(in: db)
                try ConvertibleTexts.requireAll(of: table, in: db)
            }
            try prepareState(db, key, tracked)
            if added.isEmpty { return }
            let altered = try alteredTables(db, tracked)
            try track(added, db)
            try FirstCommits(of: added, altered: altered, db).record()
        }
    }

    /// Runs a block, and names what the program lacks where SQLite refuses a statement: SQLite's own text may be "no query
    /// solution".
    private static func namingMissingParts(
        of tables: [TrackedTable], _ db: Database, _ body: () throws -> Void
    ) throws {
        func name(_ refusal: any Error) throws -> any Error {
            for table in tables {
                let names = try missingParts(of: table, db)
                if names.isEmpty { continue }
                return SyncError(
                    .missingPart, table: table.name, "This program lacks \(names.joined(separator: ", ")).")
            }
            return refusal
        }
        do {
            try body()
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            throw try name(error)
        } catch let error as HistoryError where error.code == .unsuitableTable {
            throw try name(error)
        }
    }

    /// What a table, and those that it refers to, need and the connection lacks.
    private static func missingParts(of table: TrackedTable, _ db: Database) throws -> [String] {
        let names = [table.name] + table.foreignKeys.map(\.parent)
        return try Set(names.flatMap { try MissingParts(of: db, table: $0).names }).sorted()
    }

    /// The tables that are tracked so far, whether there is a repository or not.
    private static func trackedTables(_ db: Database) throws -> TrackedTables {
        let names = try String.fetchAll(db, sql: "SELECT name FROM main.\(SyncTables.table)")
        return try TrackedTables(names.map { try TrackedTable(named: $0, in: db, isTracked: true) })
    }

    private static func prepareState(_ db: Database, _ key: RepositoryKey?, _ tracked: TrackedTables) throws {
        do {
            let state = try RepositoryState(db)
            guard key == nil || key?.repository == state.repository else { throw SyncError(.otherRepository) }
        } catch let error as SyncError where error.code == .notEnabled {
            try RepositoryState.create(db, key: try key ?? .random(), schema: tracked.schema)
        }
    }

    /// The tables that are tracked already and may have other columns than at the head. The commit of other tables' rows
    /// takes up the history and the schema: what is not committed so far would count as committed.
    private static func alteredTables(_ db: Database, _ tracked: TrackedTables) throws -> [String] {
        if tracked.all.isEmpty { return [] }
        var transaction = try RepositoryTransaction(db)
        try transaction.requireOwnWritesOnly()
        return transaction.hasOtherSchema ? tracked.all.map(\.name) : []
    }

    /// Notes the tables, and begins their history.
    private static func track(_ added: [TrackedTable], _ db: Database) throws {
        _ = try db.startHistoryOfCommits(of: added.map(\.name))
        try db.letCommitsWriteHistory(of: added.map(\.name))
        for table in added {
            try db.execute(
                sql: "INSERT OR IGNORE INTO main.\(SyncTables.table) (name) VALUES (?)", arguments: [table.name])
        }
        try RepositoryState.addTables(added.map(\.name), db)
    }
}

/// The commits of the rows that tables have when their tracking begins. A commit ends after as many rows as one transaction
/// of a pull writes: other devices take up a large table in several transactions, and this one keeps one commit at a time
/// in memory.
///
/// A row comes no later than those that refer to it, so that foreign keys hold after each commit. Where they do not hold in
/// the tables, all rows are one commit: a new device takes that as it is, and refuses one that breaks them later.
private struct FirstCommits {
    private let added: [TrackedTable]
    private var transaction: RepositoryTransaction
    /// The rows of the next commit.
    private var deltas: [TableDelta] = []
    private var changes: [RowChange] = []
    private var (rowCount, byteCount) = (0, 0)
    private var hasCommit = false

    init(of added: [TrackedTable], altered: [String], _ db: Database) throws {
        self.added = added
        transaction = try RepositoryTransaction(db)
        try transaction.noteDigests(of: altered.compactMap { transaction.tables[$0] })
        try CaptureInstallation.ensure(
            db, transaction.session, transaction.tables, revision: transaction.state.revision)
    }

    consuming func record() throws {
        let (order, rest) = Self.parentsFirst(added)
        let isDivided = try !hasOrphans()
        for table in order { try add(table, dividing: isDivided) }
        for table in rest { try add(table, dividing: false) }
        try commit()
        // No row was committed: later commits have the schema of these tables all the same.
        if !hasCommit { try transaction.takeUpSchema() }
    }

    private func hasOrphans() throws -> Bool {
        try added.contains { table in
            try !table.foreignKeys.isEmpty
                && transaction.db.foreignKeyCheck(of: table.name, in: "main").next() != nil
        }
    }

    /// The tables, each after those that it refers to, and those for which there is no such order: they refer to themselves,
    /// to each other, or to such ones.
    private static func parentsFirst(_ tables: [TrackedTable]) -> (order: [TrackedTable], rest: [TrackedTable]) {
        var (order, rest) = ([TrackedTable](), tables)
        while let next = rest.firstIndex(where: { table in
            !table.foreignKeys.contains { key in rest.contains { DeltaTable.areSame($0.name, key.parent) } }
        }) {
            order.append(rest.remove(at: next))
        }
        return (order, rest)
    }

    private mutating func add(_ table: TrackedTable, dividing: Bool) throws {
        let statement = try transaction.db.makeStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)")
        try statement.forEachRecord { row in
            changes.append(.insert(row))
            try transaction.noteChange(of: table, from: nil, to: row)
            (rowCount, byteCount) = (rowCount + 1, byteCount + row.bytes.count)
            if dividing && (rowCount >= Limits.pulledRows || byteCount >= Limits.pulledBytes) {
                try endTable(table)
                try commit()
            }
        }
        try endTable(table)
    }

    private mutating func endTable(_ table: TrackedTable) throws {
        if !changes.isEmpty { deltas.append(try TableDelta(table: table.table, changes: changes)) }
        changes = []
    }

    private mutating func commit() throws {
        if rowCount == 0 { return }
        _ = try transaction.record(Delta(deltas), meta: "{}")
        (deltas, rowCount, byteCount, hasCommit) = ([], 0, 0, true)
    }
}
