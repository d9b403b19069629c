import CipherDatabase

/// The state that a merge builds: the rows of one of the heads, with the merged ones over them.
struct MergeState {
    let db: Database
    let tables: TrackedTables
    /// The rows of both heads.
    var views: [StateView]
    let writers: [RowWriters]
    private let sides: [Set<Int64>]
    let rules: MergeRules
    private let counters: MergeCounters
    /// The rows of both heads, for the closures of the policy.
    let states: MergeStates
    /// The rows that the policy has renamed: each once, so that the repair ends.
    var renamed: [String: Set<RowKey>] = [:]
    /// The rows of the merge.
    var merged: StateView
    var conflicts: [MergeConflict] = []
    /// The side whose rows the merge began with; the first one where neither is that of the tables.
    private let start: Int
    /// The rows that the merge is about, by table.
    private var touched: [String: TouchedRows] = [:]
    /// Those of them that one side alone has changed, as far as they are in the merge as that side has them.
    private var oneSided: [String: [RowKey: OneSidedChange]] = [:]
    /// What the others were at the base.
    private var bases: [String: [RowKey: DeltaRecord]] = [:]

    private struct OneSidedChange {
        let side: Int
        /// From the base, which the other side still has; nil where both have the same.
        let change: RowChange?
    }

    /// - Parameter start: The side whose rows are those of the tables, where there is one.
    init(
        _ db: Database, _ tables: TrackedTables, views: [StateView], startingWith start: Int, writers: [RowWriters],
        sides: [Set<Int64>], _ rules: MergeRules, _ counters: MergeCounters
    ) {
        (self.db, self.tables, self.views, self.writers, self.sides) = (db, tables, views, writers, sides)
        (self.rules, self.counters, states) = (rules, counters, MergeStates(views, tables, db))
        (self.start, merged) = (start, views[start])
    }

    /// The rows of a table that the merge is about, in the order of their keys.
    mutating func touchedRows(_ table: TrackedTable) -> [RowKey] { touched[table.name]?.sorted() ?? [] }

    /// Sets what becomes of a row.
    mutating func set(_ table: TrackedTable, _ key: RowKey, _ row: DeltaRecord?) throws {
        if oneSided[table.name]?[key] != nil {
            let base = try base(table, key)
            oneSided[table.name]?[key] = nil
            bases[table.name, default: [:]][key] = base
        }
        try merged.set(table, key, row)
        touched[table.name, default: TouchedRows()].insert(key)
    }

    // MARK: Rows

    /// Merges the rows of a table that one of the sides has changed.
    ///
    /// - Parameter readsAll: Whether the deltas may say of a row what it was for their authors alone.
    mutating func mergeRows(of table: TrackedTable, _ deltas: [TableDelta?], readingAll readsAll: Bool = false) throws {
        var changes: [RowKey: [RowChange?]] = [:]
        for key in counters.keys(table) { changes[key] = [nil, nil] }
        for (side, delta) in deltas.enumerated() {
            for change in delta?.changes ?? [] {
                changes[table.table.key(of: change.keyRecord), default: [nil, nil]][side] = change
            }
        }
        var others: [RowKey] = []
        for (key, both) in changes {
            guard !readsAll, var single = oneSidedChange(table, key, both) else {
                others.append(key)
                continue
            }
            // The rows that the merge began with need not be read.
            if single.side != start {
                let row = try views[single.side].row(table, key)
                try merged.set(table, key, row)
                // Its author may have seen another default of a column.
                let change = try table.table.change(from: views[start].row(table, key), to: row)
                single = OneSidedChange(side: single.side, change: change)
            }
            touched[table.name, default: TouchedRows()].insert(key)
            oneSided[table.name, default: [:]][key] = single
        }
        for key in others.sorted() {
            let rows = try views.map { try $0.row(table, key) }
            let base = Self.base(rows, changes[key] ?? [])
            if let base { bases[table.name, default: [:]][key] = base }
            try set(table, key, try mergedRow(table, key, rows, base))
        }
    }

    /// The change of a row where the merge of it is what one side has: nobody on the other one has written it, and there
    /// it is, or is missing, as at the base. ``RowMerge`` decides the same, but needs the rows.
    private func oneSidedChange(_ table: TrackedTable, _ key: RowKey, _ changes: [RowChange?]) -> OneSidedChange? {
        guard let side = changes.firstIndex(where: { $0 != nil }), let change = changes[side],
            changes[1 - side] == nil, writers[1 - side][table.name, key] == nil, rules[table].counters.isEmpty
        else { return nil }
        if change.operation == .insert {
            // Where a merge has inserted it, or the other side knows who has, it may be gone there for a reason.
            guard let last = writers[side][table.name, key]?.last, !sides[1 - side].contains(last.n) else { return nil }
        }
        return OneSidedChange(side: side, change: change.direct)
    }

    /// What a row was at the base; nil where it did not exist.
    func base(_ table: TrackedTable, _ key: RowKey) throws -> DeltaRecord? {
        if let single = oneSided[table.name]?[key] { return try views[1 - single.side].row(table, key) }
        return bases[table.name]?[key]
    }

    // MARK: The result

    /// The changes from each of the sides to the merge.
    mutating func deltas() throws -> [Delta] {
        var deltas: [[TableDelta]] = [[], []]
        for name in touched.keys {
            guard let table = tables[name] else { continue }
            var changes: [[RowChange]] = [[], []]
            for key in touched[name]?.keys ?? [] {
                if let single = oneSided[name]?[key] {
                    if let change = single.change { changes[1 - single.side].append(change) }
                    continue
                }
                let row = try merged.row(table, key)
                for side in 0...1 {
                    let change = try table.table.change(from: views[side].row(table, key), to: row)
                    if let change { changes[side].append(change) }
                }
            }
            for side in 0...1 { deltas[side].append(try TableDelta(table: table.table, changes: changes[side])) }
        }
        return try deltas.map { try Delta($0) }
    }

    private mutating func mergedRow(
        _ table: TrackedTable, _ key: RowKey, _ rows: [DeltaRecord?], _ base: DeltaRecord?
    ) throws -> DeltaRecord? {
        let (known, tableRules, counters, bases) = (sides, rules[table], counters, base?.cells)
        let both = (0...1).map { side in
            RowMerge.Side(row: rows[side], writers: writers[side][table.name, key]) { writer in
                known[1 - side].contains(writer.n)
            }
        }
        var merge = RowMerge(
            table, key, base: base, both[0], both[1], deletion: tableRules.deletion
        ) { column, one, other in
            guard tableRules.counters.contains(column) else { return nil }
            return counters.merged(table, key, column, base: bases?[column], one, other)
        }
        let row = try merge.merged { try answer($0, table, key, base, rows) }
        defer { conflicts += merge.conflicts }
        guard let row, rows.allSatisfy({ $0 != row }) else { return row }
        if merge.isResolved { return try storedForm(table, key, row) }
        if try violation(of: row, table, key) == nil { return row }
        // Where a side has a row that this store does not admit, its store has other constraints, and its write stays.
        for case let row? in rows { if let error = try violation(of: row, table, key) { throw error } }
        let winner = winner(table, key, rows)
        conflicts.append(try conflict(table, key, rows, winner, .constraint))
        return winner
    }

    /// The row at the base: a row without the change of one of the sides.
    private static func base(_ rows: [DeltaRecord?], _ changes: [RowChange?]) -> DeltaRecord? {
        for (row, change) in zip(rows, changes) {
            guard let change else { continue }
            switch change.operation {
            case .insert: return nil
            case .delete: return change.old
            case .update:
                guard let row, let old = change.old else { return nil }
                return row.replacing(by: old)
            }
        }
        return rows[0]
    }

    func conflict(
        _ table: TrackedTable, _ key: RowKey, _ rows: [DeltaRecord?], _ chosen: DeltaRecord?,
        _ reason: MergeConflict.Reason
    ) throws -> MergeConflict {
        MergeConflict(
            table: table.name, key: key, column: nil, base: try base(table, key).map { Array($0.bytes) },
            ours: rows[0].map { Array($0.bytes) }, theirs: rows[1].map { Array($0.bytes) },
            chosen: chosen.map { Array($0.bytes) }, reason: reason)
    }

    // MARK: Constraints of mixed rows

    /// The row of the side that has written it last.
    private func winner(_ table: TrackedTable, _ key: RowKey, _ rows: [DeltaRecord?]) -> DeltaRecord? {
        let last = writers.map { $0[table.name, key]?.last }
        switch (last[0], last[1]) {
        case (let one?, let other?): return one < other ? rows[1] : rows[0]
        case (nil, .some): return rows[1]
        default: return rows[0]
        }
    }

    /// The error where the table does not admit a row for itself: tried in a savepoint that is rolled back.
    private func violation(of row: DeltaRecord, _ table: TrackedTable, _ key: RowKey) throws -> SyncError? {
        var violation: SyncError?
        try db.inSavepoint {
            let deletion = try db.cachedStatement(
                sql: "DELETE FROM \(table.qualifiedName) WHERE \(table.keyCondition())")
            try deletion.execute(exact: key.exactValues)
            let insertion = try db.cachedStatement(
                sql: "INSERT OR ABORT INTO \(table.qualifiedName) (\(table.columnList)) "
                    + "VALUES (\(table.table.columns.map { _ in "?" }.joined(separator: ", ")))")
            do {
                try insertion.execute(exact: row.compactMap(\.exact))
            } catch let error as DatabaseError
                where [.SQLITE_CONSTRAINT_CHECK, .SQLITE_CONSTRAINT_NOTNULL].contains(error.extendedResultCode)
            {
                violation = SyncError(error, writing: table)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                // Two rows with the same value are looked for afterwards, in the state of the merge.
            }
            return .rollback
        }
        return violation
    }

    /// A row of a closure of the policy as the table stores it, which may convert values.
    ///
    /// - Throws: ``SyncError`` `.resolverFailed` where the table does not admit it.
    func storedForm(_ table: TrackedTable, _ key: RowKey, _ row: DeltaRecord) throws -> DeltaRecord {
        var stored: DeltaRecord?
        // OR REPLACE would put the default into the place of a NULL.
        let hasNull = zip(table.columns, row.cells).contains { $0.isNotNull && $1.first == Cell.null }
        if !hasNull {
            try db.inSavepoint {
                // Other rows with its unique values make room: the merge looks for them afterwards, in its own state.
                let insertion = try db.cachedStatement(
                    sql: "INSERT OR REPLACE INTO \(table.qualifiedName) (\(table.columnList)) "
                        + "VALUES (\(table.table.columns.map { _ in "?" }.joined(separator: ", ")))")
                do {
                    try insertion.execute(exact: row.compactMap(\.exact))
                    stored = try table.row(key, in: db)
                } catch let error as DatabaseError
                    where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG].contains(error.resultCode)
                {}
                return .rollback
            }
        }
        guard let stored else { throw SyncError(.resolverFailed, table: table.name) }
        return stored
    }

    // MARK: Ages

    /// How old a row is: by the first of the last writes of its cells; nil, and so the oldest, where a cell is older than
    /// what the sides have done.
    func age(_ table: TrackedTable, _ key: RowKey) -> CommitStamp? {
        let rows = writers.map { $0[table.name, key] }
        var first: CommitStamp?
        for column in table.table.columns.indices {
            let stamps = rows.compactMap { $0?.cells[column]?.stamp }
            guard let stamp = stamps.max() else { return nil }
            first = min(first ?? stamp, stamp)
        }
        return first
    }
}

/// Keys of rows, sorted when they are asked for.
private struct TouchedRows {
    private(set) var keys: Set<RowKey> = []
    private var order: [RowKey]?

    mutating func insert(_ key: RowKey) {
        if keys.insert(key).inserted { order = nil }
    }

    mutating func sorted() -> [RowKey] {
        if let order { return order }
        let sorted = keys.sorted()
        order = sorted
        return sorted
    }
}
