import CipherDatabase

/// Makes the merged rows satisfy unique keys and foreign keys, in three phases: rows that are still needed come back, rows
/// that have the unique value of an older one lose it, rows whose parent is gone follow ON DELETE (MergeReferences.swift).
/// What follows ON DELETE may have a unique value again, so the last two are repeated; from the second time on rows are
/// only removed or lose a reference, so they end. All decisions depend on the rows and their writers alone, in the order of
/// tables and keys.
extension MergeState {
    mutating func repair() throws {
        let references = try Reference.all(tables, in: db).map { try ReferenceSearch($0, in: db) }
        let keys = tables.all.flatMap { table in UniqueSearch.all(of: table, in: db) }
        try bringBackParents(references)
        var isFirst = true
        repeat {
            try separateUniqueValues(keys, restoring: isFirst)
            try separateIndexedValues(keys, restoring: isFirst)
            isFirst = false
        } while try followDeletions(references)
    }

    /// A key that allows no two equal rows, with what finds them.
    struct UniqueSearch {
        let search: RowSearch
        /// The columns of the key; those of the primary key keep their values.
        let isPrimary: Bool
        var table: TrackedTable { search.table }

        /// The primary key first. Two keys that differ in bytes may be equal by the collation of its columns.
        static func all(of table: TrackedTable, in db: Database) -> [UniqueSearch] {
            let keys = [table.primaryKey].compactMap { $0 }.map { ($0, true) } + table.uniqueKeys.map { ($0, false) }
            return keys.compactMap { key, isPrimary in
                key.columns.map {
                    UniqueSearch(search: RowSearch(table, key, columns: $0, in: db), isPrimary: isPrimary)
                }
            }
        }
    }

    // MARK: Unique keys

    /// The oldest row keeps a value. The others get back what they had before, where that is free, and else are removed.
    private mutating func separateUniqueValues(_ keys: [UniqueSearch], restoring: Bool) throws {
        for unique in keys {
            let rows = touchedRows(unique.table)
            // Those that no row has on both sides: there no two rows are equal.
            var suspects: Set<KeyComparison.Form> = []
            for key in rows {
                guard let row = try merged.row(unique.table, key), let values = unique.search.values(row),
                    try !views.allSatisfy({ try $0.row(unique.table, key).flatMap(unique.search.values) == values }),
                    let form = try unique.search.form(row)
                else { continue }
                suspects.insert(form)
            }
            if suspects.isEmpty { continue }
            for key in rows {
                guard let row = try merged.row(unique.table, key), let form = try unique.search.form(row),
                    suspects.contains(form), let values = unique.search.values(row)
                else { continue }
                try separate(unique, values, keys, restoring: restoring)
            }
        }
    }

    private mutating func separate(
        _ unique: UniqueSearch, _ values: [ArraySlice<UInt8>], _ keys: [UniqueSearch], restoring: Bool
    ) throws {
        let table = unique.table
        let equal = try merged.rows(unique.search, equal: values).map { table.table.key(of: $0) }
        guard equal.count > 1 else { return }
        try requireConcurrent(unique, values, equal)
        for loser in byAge(table, equal).dropFirst() {
            let row = try separated(unique, loser, keys, restoring: restoring)
            try set(table, loser, row)
            let rows = try views.map { try $0.row(table, loser) }
            conflicts.append(try conflict(table, loser, rows, row, .unique))
        }
    }

    /// Throws where one side alone has made rows equal: its store allows what this one does not. Nothing is concurrent
    /// there, and what it has written is not undone.
    private func requireConcurrent(_ unique: UniqueSearch, _ values: [ArraySlice<UInt8>], _ keys: [RowKey]) throws {
        let form = try unique.search.comparison.form(values, in: db)
        for view in views {
            let rows = try keys.compactMap { try view.row(unique.table, $0) }
                .filter { try unique.search.form($0) == form && unique.search.isEqual($0, to: values) }
            if rows.count > 1 { throw SyncError(equalRowsIn: unique.table) }
        }
    }

    /// What becomes of a row whose value an older one has: it is renamed, gets back its former value, or is removed.
    private mutating func separated(
        _ unique: UniqueSearch, _ key: RowKey, _ keys: [UniqueSearch], restoring: Bool
    ) throws -> DeltaRecord? {
        let (table, columns) = (unique.table, unique.search.columns)
        // Another key is another row.
        guard !unique.isPrimary, let row = try merged.row(table, key) else { return nil }
        if renamed[table.name]?.contains(key) != true, let wanted = try renamedRow(unique, key, row, keys) {
            renamed[table.name, default: []].insert(key)
            return wanted
        }
        guard restoring, let base = try base(table, key)?.cells else { return nil }
        var cells = row.cells
        for column in columns { cells[column] = base[column] }
        let changed = DeltaRecord(cells: cells)
        return try changed != row && isFree(changed, table, key, keys) ? changed : nil
    }

    /// The row with values that are free under all keys, as far as the policy gives it some: it is asked for one key after
    /// the other.
    private mutating func renamedRow(
        _ unique: UniqueSearch, _ key: RowKey, _ row: DeltaRecord, _ keys: [UniqueSearch]
    ) throws -> DeltaRecord? {
        let table = unique.table
        var (row, taken) = (row, Optional(unique))
        while let current = taken {
            var found: DeltaRecord?
            for attempt in 0..<Limits.renames where found == nil {
                guard let wanted = try renamedRow(table, key, row, current.search.columns, attempt: attempt) else {
                    return nil
                }
                let isTaken = try takenKey(of: wanted, table, key, [current]) != nil
                if !isTaken { found = wanted }
            }
            guard let found else { return nil }
            row = found
            let next = try takenKey(of: row, table, key, keys)
            // A value of this key again would go on for ever.
            if let next, next.search.columns == current.search.columns || next.search.columns == unique.search.columns {
                return nil
            }
            taken = next
        }
        return row
    }

    /// Whether a row takes the value of no other row, under any of the keys.
    private mutating func isFree(
        _ row: DeltaRecord, _ table: TrackedTable, _ key: RowKey, _ keys: [UniqueSearch]
    ) throws -> Bool {
        try takenKey(of: row, table, key, keys) == nil
    }

    /// The first key under which another row has the value of a row.
    private mutating func takenKey(
        of row: DeltaRecord, _ table: TrackedTable, _ key: RowKey, _ keys: [UniqueSearch]
    ) throws -> UniqueSearch? {
        for unique in keys where unique.table.name == table.name && !unique.isPrimary {
            guard let values = unique.search.values(row) else { continue }
            let others = try merged.rows(unique.search, equal: values)
            if others.contains(where: { table.table.key(of: $0) != key }) { return unique }
        }
        return nil
    }

    /// The oldest rows first.
    private func byAge(_ table: TrackedTable, _ keys: [RowKey]) -> [RowKey] {
        let ages = keys.map { (key: $0, age: age(table, $0)) }
        return ages.sorted { left, right in
            switch (left.age, right.age) {
            case (let one?, let other?) where one != other: one < other
            case (nil, .some): true
            case (.some, nil): false
            default: left.key < right.key
            }
        }.map(\.key)
    }

    // MARK: Unique indexes of expressions, and of some rows

    /// The same for indexes whose values SQLite alone computes: rows that do not fit beside older ones get back what they
    /// were at the base, where that fits, and else are removed.
    private mutating func separateIndexedValues(_ keys: [UniqueSearch], restoring: Bool) throws {
        for table in tables.all where table.uniqueKeys.contains(where: { $0.columns == nil }) {
            let rows = touchedRows(table)
            if rows.isEmpty { continue }
            if try losers(table, byAge(table, rows), restoring: false).isEmpty { continue }
            try requireConcurrent(table, rows)
            try renameLosers(table, byAge(table, rows), keys)
            for (key, row) in try losers(table, byAge(table, rows), restoring: restoring) {
                try set(table, key, row)
                let rows = try views.map { try $0.row(table, key) }
                conflicts.append(try conflict(table, key, rows, row, .unique))
            }
        }
    }

    /// The same for the rows of each side: they fit where its store has the same indexes.
    private mutating func requireConcurrent(_ table: TrackedTable, _ keys: [RowKey]) throws {
        for side in views.indices {
            let rows = try keys.map { (key: $0, row: try views[side].row(table, $0), base: DeltaRecord?.none) }
            let others = try views[side].differingRows(of: table)
            if try !losers(table, rows, beside: others).isEmpty { throw SyncError(equalRowsIn: table) }
        }
    }

    /// Asks the policy for other values of the rows that do not fit.
    private mutating func renameLosers(_ table: TrackedTable, _ keys: [RowKey], _ uniqueKeys: [UniqueSearch]) throws {
        guard rules.policy.rename != nil else { return }
        var open = try losers(table, keys, restoring: false).map(\.key)
        var settled = renamed[table.name] ?? []
        while let key = open.first(where: { settled.insert($0).inserted }) {
            guard let row = try merged.row(table, key) else { continue }
            for attempt in 0...Limits.renames {
                guard attempt < Limits.renames,
                    let wanted = try renamedRow(table, key, row, [], attempt: attempt)
                else {
                    try set(table, key, row)
                    break
                }
                try set(table, key, wanted)
                let rest = try losers(table, keys, restoring: false).map(\.key)
                // It must not take the value of a row that has its own so far.
                guard try isFree(wanted, table, key, uniqueKeys),
                    Set(rest).isSubset(of: open.filter { $0 != key })
                else {
                    continue
                }
                open = rest
                renamed[table.name, default: []].insert(key)
                let rows = try views.map { try $0.row(table, key) }
                conflicts.append(try conflict(table, key, rows, wanted, .unique))
                break
            }
        }
    }

    /// Stores the rows of the merge one after the other, in a savepoint that is rolled back. Those that the merge is not
    /// about come first: on another replica they may be in the table already.
    private mutating func losers(
        _ table: TrackedTable, _ keys: [RowKey], restoring: Bool
    ) throws -> [(key: RowKey, row: DeltaRecord?)] {
        let rows = try keys.map {
            (key: $0, row: try merged.row(table, $0), base: try restoring ? base(table, $0) : nil)
        }
        return try losers(table, rows, beside: merged.differingRows(of: table))
    }

    private func losers(
        _ table: TrackedTable, _ rows: [(key: RowKey, row: DeltaRecord?, base: DeltaRecord?)],
        beside differing: [RowKey: DeltaRecord?]
    ) throws -> [(key: RowKey, row: DeltaRecord?)] {
        var others = differing
        for row in rows { others[row.key] = nil }
        let deletion = try db.cachedStatement(
            sql: "DELETE FROM \(table.qualifiedName) WHERE \(table.keyCondition())")
        let values = table.table.columns.map { _ in "?" }.joined(separator: ", ")
        let insertion = try db.cachedStatement(
            sql: "INSERT OR ABORT INTO \(table.qualifiedName) (\(table.columnList)) VALUES (\(values))")
        func fits(_ row: DeltaRecord) throws -> Bool {
            do {
                try insertion.execute(exact: row.compactMap(\.exact))
                return true
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                // It would be removed for a constraint that other stores do not have.
                if let error = SyncError(error, writing: table) { throw error }
                return false
            }
        }
        var losers: [(key: RowKey, row: DeltaRecord?)] = []
        try db.inSavepoint {
            for key in rows.map(\.key) + others.keys { try deletion.execute(exact: key.exactValues) }
            for case let row? in others.values { _ = try fits(row) }
            for case (let key, let row?, let former) in rows {
                if try fits(row) { continue }
                if let former, former != row, try fits(former) {
                    losers.append((key, former))
                } else {
                    losers.append((key, nil))
                }
            }
            return .rollback
        }
        return losers
    }
}
