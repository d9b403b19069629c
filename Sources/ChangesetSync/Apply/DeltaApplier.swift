import CipherDatabase

/// Applies a delta to the rows of the tracked tables, exactly: each row must be as the delta says it was. Inside a
/// transaction in which neither the triggers of the database nor foreign keys act.
struct DeltaApplier {
    let db: Database
    let tables: TrackedTables
    /// Called with each row that has changed, before and after.
    let noteChange: (TrackedTable, _ old: DeltaRecord?, _ new: DeltaRecord?) throws -> Void

    /// Rows that are in the way of those of a checkpoint.
    enum KeptRows {
        case none
        /// Those with the same key.
        case ofKeys
        /// Those with the same key or the same unique value.
        case ofKeysAndValues

        fileprivate func contain(_ error: SyncError) -> Bool {
            switch self {
            case .none: false
            case .ofKeys: error.code == .workingStateDiverged
            case .ofKeysAndValues: error.code == .workingStateDiverged || error.isTakenValue
            }
        }
    }

    /// - Parameters:
    ///   - kept: Which rows stay that are in the place of one to be inserted.
    ///   - noteKept: Called then with the row that was not inserted; ``noteChange`` is called as well.
    /// - Throws: ``SyncError`` `.workingStateDiverged`, `.schemaAhead`, `.inexactText`; `DatabaseError`.
    func apply(
        _ delta: Delta, keeping kept: KeptRows = .none,
        _ noteKept: (TrackedTable, DeltaRecord) -> Void = { _, _ in }
    ) throws {
        for entry in try tables.fitting(delta).tables {
            guard let table = tables[entry.table.name] else { continue }
            var work = try TableApplier(db, table, noteChange)
            for change in entry.changes {
                do {
                    try work.apply(change)
                } catch let error as SyncError where kept.contain(error) {
                    guard change.operation == .insert, let row = change.new else { throw error }
                    noteKept(table, row)
                    try noteChange(table, nil, row)
                }
            }
            try work.finish()
        }
    }
}

/// Applies the changes of one table, in their canonical order: deletions, updates, insertions.
private struct TableApplier {
    private let db: Database
    private let table: TrackedTable
    private let noteChange: (TrackedTable, DeltaRecord?, DeltaRecord?) throws -> Void
    private let history: RowHistory?
    private let lookup: RowLookup
    private let storesTextsInUTF16: Bool
    private let deletion: Statement
    private let insertion: Statement
    /// By the columns that they change.
    private var updates: [[Int]: Statement] = [:]
    /// Rows with a unique value that another row has until it is updated too: deleted, to be inserted at the end.
    private var moved: [DeltaRecord] = []

    init(
        _ db: Database, _ table: TrackedTable,
        _ noteChange: @escaping (TrackedTable, DeltaRecord?, DeltaRecord?) throws -> Void
    ) throws {
        (self.db, self.table, self.noteChange) = (db, table, noteChange)
        history = try RowHistory(of: table, in: db)
        lookup = try RowLookup(table, in: db)
        storesTextsInUTF16 = try db.storesTextsInUTF16()
        deletion = try db.cachedStatement(sql: "DELETE FROM \(table.qualifiedName) WHERE \(table.keyCondition())")
        let values = table.table.columns.map { _ in "?" }.joined(separator: ", ")
        insertion = try db.cachedStatement(
            sql: "INSERT OR ABORT INTO \(table.qualifiedName) (\(table.columnList)) VALUES (\(values))")
    }

    mutating func apply(_ change: RowChange) throws {
        switch change.operation {
        case .delete:
            let row = try present(change)
            try delete(row)
            try noteChange(table, row, nil)
            try history?.record(.delete(row))
            return
        case .update:
            try update(try present(change), change)
        case .insert:
            try finish()
            guard let row = change.new else { return }
            try insert(row)
            try noteChange(table, nil, row)
        }
        try history?.record(change)
    }

    /// Inserts the rows that had to make room.
    mutating func finish() throws {
        let rows = moved
        moved = []
        for row in rows { try insert(row) }
    }

    // MARK: Steps

    /// The row that a change is about, which must be as the change says it was.
    private func present(_ change: RowChange) throws -> DeltaRecord {
        guard let old = change.old, let row = try lookup.row(table.table.key(of: old)) else { throw diverged }
        if change.operation == .delete, row == old { return row }
        for (cell, wanted) in zip(row.cells, old.cells) where wanted.first != Cell.undefined {
            guard ByteOrder.areEqual(cell, wanted) else { throw diverged }
        }
        return row
    }

    private func delete(_ row: DeltaRecord) throws {
        try deletion.execute(exact: table.table.key(of: row).exactValues)
        guard db.changesCount == 1 else { throw diverged }
    }

    private mutating func update(_ row: DeltaRecord, _ change: RowChange) throws {
        guard let new = change.new else { return }
        try requireTypes(new)
        let changed = new.cells.enumerated().filter { $1.first != Cell.undefined }.map(\.offset)
        let updated = row.replacing(by: new)
        let statement = try updates[changed] ?? makeUpdate(changed)
        let values = new.compactMap(\.exact)
        do {
            try statement.execute(exact: values + table.table.key(of: row).exactValues)
            guard db.changesCount == 1 else { throw diverged }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE {
            try delete(row)
            moved.append(updated)
        } catch let error as DatabaseError {
            throw SyncError(error, writing: table) ?? error
        }
        try noteChange(table, row, updated)
    }

    private mutating func makeUpdate(_ columns: [Int]) throws -> Statement {
        let settings = columns.map { "\(table.quoted($0)) = ?" }.joined(separator: ", ")
        let statement = try db.cachedStatement(
            sql: "UPDATE OR ABORT \(table.qualifiedName) SET \(settings) "
                + "WHERE \(table.keyCondition(after: columns.count))")
        updates[columns] = statement
        return statement
    }

    /// Throws where a column has another type than at the author, or the database another encoding, so that SQLite would
    /// store another value.
    private func requireTypes(_ row: DeltaRecord) throws {
        if storesTextsInUTF16, let column = row.firstInexactText {
            throw SyncError(inexactTextIn: table, column: column)
        }
        guard let column = table.firstConverting(row) else { return }
        let name = table.columns[column].name
        throw SyncError(
            .constraintViolation, table: table.name, "The type of column \"\(name)\" would make another value of it.")
    }

    private func insert(_ row: DeltaRecord) throws {
        try requireTypes(row)
        do {
            try insertion.execute(exact: row.compactMap(\.exact))
        } catch let error as DatabaseError
            where SyncError.takenValues.contains(error.extendedResultCode)
        {
            // Merges leave no two rows that are equal by a key of all devices.
            if try lookup.row(table.table.key(of: row)) != nil { throw diverged }
            throw SyncError(takenValue: error, in: table)
        } catch let error as DatabaseError {
            throw SyncError(error, writing: table) ?? error
        }
    }

    private var diverged: SyncError { SyncError(.workingStateDiverged, table: table.name) }
}

extension DeltaRecord {
    /// The row with the cells of another record in the place of its own, where that one says something.
    func replacing(by other: DeltaRecord) -> DeltaRecord {
        let cells = zip(cells, other.cells).map { $1.first == Cell.undefined ? $0 : $1 }
        return DeltaRecord(cells: cells)
    }
}
