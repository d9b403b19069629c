import CipherDatabase

/// Makes the merged rows satisfy unique keys and foreign keys, in three phases: rows that are still needed come back, rows
/// that have the unique value of an older one lose it, rows without the row that they refer to follow ON DELETE. What
/// follows ON DELETE may have a unique value again, so the last two are repeated; from the second time on rows are only
/// removed or lose a reference, so they end. All decisions depend on the rows and their writers alone, in the order of
/// tables and keys.
extension MergeState {
    mutating func repair() throws {
        try bringBackParents()
        var isFirst = true
        repeat {
            try separateUniqueValues(restoring: isFirst)
            try separateIndexedValues(restoring: isFirst)
            isFirst = false
        } while try followDeletions()
    }

    private func parentColumns(_ key: TrackedTable.ForeignKey, _ parent: TrackedTable) -> [Int]? {
        if key.parentColumns.isEmpty {
            let columns = parent.table.columns.indices.filter { parent.table.keyOrdinals[$0] != 0 }
            return columns.sorted { parent.table.keyOrdinals[$0] < parent.table.keyOrdinals[$1] }
        }
        let columns = key.parentColumns.compactMap(parent.index(ofColumn:))
        return columns.count == key.columns.count ? columns : nil
    }

    /// The values by which a row refers to another; nil where one is NULL.
    private func reference(_ row: DeltaRecord, _ columns: [Int]) -> [ArraySlice<UInt8>]? {
        let cells = row.cells
        let values = columns.map { cells[$0] }
        return values.contains { $0.first == Cell.null } ? nil : values
    }

    // MARK: Rows that are still needed

    private static func forbidsDeletion(_ key: TrackedTable.ForeignKey) -> Bool {
        key.onDelete == "RESTRICT" || key.onDelete == "NO ACTION"
    }

    /// Rows that were deleted on one side, while a row of the other refers to them in a way that forbids that.
    private mutating func bringBackParents() throws {
        var isChanged = true
        while isChanged {
            isChanged = false
            for child in tables.all {
                for key in child.foreignKeys where Self.forbidsDeletion(key) {
                    guard let parent = tables[key.parent], let columns = parentColumns(key, parent) else { continue }
                    if try bringBack(child, key, parent, columns) { isChanged = true }
                }
            }
        }
    }

    private mutating func bringBack(
        _ child: TrackedTable, _ key: TrackedTable.ForeignKey, _ parent: TrackedTable, _ columns: [Int]
    ) throws -> Bool {
        var isChanged = false
        for (parentKey, formers) in try missingRows(parent) {
            guard try merged.row(parent, parentKey) == nil else { continue }
            for former in formers {
                guard let values = reference(former, columns),
                    try !merged.rows(of: child, where: key.columns, equal: values).isEmpty,
                    try merged.rows(of: parent, where: columns, equal: values).isEmpty
                else { continue }
                merged.set(parent, parentKey, former)
                let rows = try views.map { try $0.row(parent, parentKey) }
                conflicts.append(conflict(parent, parentKey, rows, former, .reference))
                isChanged = true
                break
            }
        }
        return isChanged
    }

    /// The rows of a table that the merge does not have, with what they were: on a side, or at the base.
    private func missingRows(_ table: TrackedTable) throws -> [(RowKey, [DeltaRecord])] {
        try (touched[table.name] ?? []).compactMap { key in
            guard try merged.row(table, key) == nil else { return nil }
            let formers = try views.compactMap { try $0.row(table, key) } + [bases[table.name]?[key]].compactMap { $0 }
            return formers.isEmpty ? nil : (key, formers)
        }
    }

    // MARK: Unique keys

    /// The oldest row keeps a value. The others get back what they had before, where that is free, and else are removed.
    private mutating func separateUniqueValues(restoring: Bool) throws {
        for table in tables.all {
            for unique in table.uniqueKeys {
                guard let columns = unique.columns else { continue }
                for key in touched[table.name] ?? [] {
                    try separate(table, columns, unique.parts.map(\.collation), key, restoring: restoring)
                }
            }
        }
    }

    private mutating func separate(
        _ table: TrackedTable, _ columns: [Int], _ collations: [String], _ key: RowKey, restoring: Bool
    ) throws {
        guard let row = try merged.row(table, key), let values = reference(row, columns) else { return }
        let equal = try merged.rows(of: table, where: columns, equal: values, collations: collations)
            .map { table.table.key(of: $0) }
        guard equal.count > 1 else { return }
        for loser in byAge(table, equal).dropFirst() {
            let row = try separated(table, columns, collations, loser, restoring: restoring)
            merged.set(table, loser, row)
            noteTouched(table, loser)
            let rows = try views.map { try $0.row(table, loser) }
            conflicts.append(conflict(table, loser, rows, row, .unique))
        }
    }

    /// What becomes of a row whose value an older one has: it is renamed, gets back its former value, or is removed.
    private mutating func separated(
        _ table: TrackedTable, _ columns: [Int], _ collations: [String], _ key: RowKey, restoring: Bool
    ) throws -> DeltaRecord? {
        guard let row = try merged.row(table, key) else { return nil }
        if renamed[table.name]?.contains(key) != true {
            for attempt in 0...Limits.renames {
                guard let renamedRow = try renamedRow(table, key, row, columns, attempt: attempt) else { break }
                guard try isFree(renamedRow, table, key) else { continue }
                renamed[table.name, default: []].insert(key)
                return renamedRow
            }
        }
        guard restoring, let base = bases[table.name]?[key]?.cells else { return nil }
        var cells = row.cells
        for column in columns { cells[column] = base[column] }
        let changed = DeltaRecord(valid: Array(cells.joined())[...], columnCount: cells.count)
        return try changed != row && isFree(changed, table, key) ? changed : nil
    }

    /// Whether a row takes the value of no other row, under any of the keys.
    private func isFree(_ row: DeltaRecord, _ table: TrackedTable, _ key: RowKey) throws -> Bool {
        for unique in table.uniqueKeys {
            guard let columns = unique.columns, let values = reference(row, columns) else { continue }
            let others = try merged.rows(
                of: table, where: columns, equal: values, collations: unique.parts.map(\.collation))
            if others.contains(where: { table.table.key(of: $0) != key }) { return false }
        }
        return true
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
    private mutating func separateIndexedValues(restoring: Bool) throws {
        for table in tables.all where table.uniqueKeys.contains(where: { $0.columns == nil }) {
            let keys = touched[table.name] ?? []
            if keys.isEmpty { continue }
            try renameLosers(table, byAge(table, keys))
            for (key, row) in try losers(table, byAge(table, keys), restoring: restoring) {
                merged.set(table, key, row)
                let rows = try views.map { try $0.row(table, key) }
                conflicts.append(conflict(table, key, rows, row, .unique))
            }
        }
    }

    /// Asks the policy for other values of the rows that do not fit.
    private mutating func renameLosers(_ table: TrackedTable, _ keys: [RowKey]) throws {
        guard rules.policy.rename != nil else { return }
        var open = try losers(table, keys, restoring: false).map(\.key)
        var settled = renamed[table.name] ?? []
        while let key = open.first(where: { settled.insert($0).inserted }) {
            guard let row = try merged.row(table, key) else { continue }
            for attempt in 0...Limits.renames {
                guard let wanted = try renamedRow(table, key, row, [], attempt: attempt) else {
                    merged.set(table, key, row)
                    break
                }
                merged.set(table, key, wanted)
                let rest = try losers(table, keys, restoring: false).map(\.key)
                // It must not take the value of a row that has its own so far.
                guard try isFree(wanted, table, key), Set(rest).isSubset(of: open.filter { $0 != key }) else {
                    continue
                }
                open = rest
                renamed[table.name, default: []].insert(key)
                let rows = try views.map { try $0.row(table, key) }
                conflicts.append(conflict(table, key, rows, wanted, .unique))
                break
            }
        }
    }

    /// Stores the rows of the merge one after the other, in a savepoint that is rolled back. Those that the merge has not
    /// looked at come first: on another replica they may be in the table already.
    private func losers(
        _ table: TrackedTable, _ keys: [RowKey], restoring: Bool
    ) throws -> [(key: RowKey, row: DeltaRecord?)] {
        let rows = try keys.map { (key: $0, row: try merged.row(table, $0)) }
        var others = merged.overlay[table.name] ?? [:]
        for key in keys { others[key] = nil }
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
            for key in keys + others.keys { try deletion.execute(exact: key.exactValues) }
            for case let row? in others.values { _ = try fits(row) }
            for case (let key, let row?) in rows {
                if try fits(row) { continue }
                let former = restoring ? bases[table.name]?[key] : nil
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

    // MARK: References

    /// Rows that refer to a row that the merge does not have follow ON DELETE.
    ///
    /// - Returns: Whether there were any.
    private mutating func followDeletions() throws -> Bool {
        var (hasChanged, isChanged) = (false, true)
        while isChanged {
            isChanged = false
            for child in tables.all {
                for key in child.foreignKeys {
                    guard let parent = tables[key.parent], let columns = parentColumns(key, parent) else { continue }
                    for orphan in try orphans(child, key, parent, columns) {
                        try follow(child, key, orphan, parent, columns)
                        (hasChanged, isChanged) = (true, true)
                    }
                }
            }
        }
        return hasChanged
    }

    private func orphans(
        _ child: TrackedTable, _ key: TrackedTable.ForeignKey, _ parent: TrackedTable, _ columns: [Int]
    ) throws -> [DeltaRecord] {
        var found: [RowKey: DeltaRecord] = [:]
        // Rows that the merge has looked at, and rows that refer to what a row is not any more.
        for rowKey in touched[child.name] ?? [] { found[rowKey] = try merged.row(child, rowKey) }
        for parentKey in touched[parent.name] ?? [] {
            let formers = try views.map { try $0.row(parent, parentKey) } + [bases[parent.name]?[parentKey]]
            let present = try merged.row(parent, parentKey)
            for case let former? in formers where former != present {
                guard let values = reference(former, columns) else { continue }
                for row in try merged.rows(of: child, where: key.columns, equal: values) {
                    found[child.table.key(of: row)] = row
                }
            }
        }
        return try found.sorted { $0.key < $1.key }.map(\.value).filter { row in
            guard let values = reference(row, key.columns) else { return false }
            return try merged.rows(of: parent, where: columns, equal: values).isEmpty
        }
    }

    private mutating func follow(
        _ child: TrackedTable, _ key: TrackedTable.ForeignKey, _ row: DeltaRecord, _ parent: TrackedTable,
        _ columns: [Int]
    ) throws {
        let rowKey = child.table.key(of: row)
        var result: DeltaRecord?
        if key.onDelete == "SET NULL" || key.onDelete == "SET DEFAULT" {
            let values = key.columns.map { key.onDelete == "SET NULL" ? [Cell.null] : child.columns[$0].defaultCell }
            let isAdmitted = zip(key.columns, values).allSatisfy { column, value in
                child.table.keyOrdinals[column] == 0 && !(child.columns[column].isNotNull && value == [Cell.null])
            }
            var cells = row.cells
            for (column, value) in zip(key.columns, values) { cells[column] = value[...] }
            let changed = DeltaRecord(valid: Array(cells.joined())[...], columnCount: cells.count)
            // The row of the default may be missing as well.
            let hasParent = try reference(changed, key.columns)
                .map { try !merged.rows(of: parent, where: columns, equal: $0).isEmpty }
            if isAdmitted, hasParent != false { result = changed }
        }
        merged.set(child, rowKey, result)
        noteTouched(child, rowKey)
        let rows = try views.map { try $0.row(child, rowKey) }
        conflicts.append(conflict(child, rowKey, rows, result, .reference))
    }
}
