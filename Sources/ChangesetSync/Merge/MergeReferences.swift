import CipherDatabase

/// The foreign keys of a merge. A row follows ON DELETE where it refers to a row that a side or the base has, and the merge
/// has not; and where the merge itself has made the reference, of cells of both sides. A reference that led to nothing
/// before stays as it is: what a merge decides depends on the two heads and their base alone.
///
/// References are equal where SQLite holds them equal (``KeyComparison``).
extension MergeState {
    /// A foreign key with what finds its rows.
    struct ReferenceSearch {
        let reference: Reference
        let parents: RowSearch
        let children: RowSearch

        init(_ reference: Reference, in db: Database) throws {
            self.reference = reference
            parents = RowSearch(parentOf: reference, in: db)
            children = try RowSearch(childrenOf: reference, in: db)
        }
    }

    // MARK: Rows that are still needed

    /// Rows that were deleted on one side, while a row of the other refers to them in a way that forbids that.
    mutating func bringBackParents(_ searches: [ReferenceSearch]) throws {
        var isChanged = true
        while isChanged {
            isChanged = false
            for search in searches where search.reference.forbidsDeletion {
                if try bringBack(search) { isChanged = true }
            }
        }
    }

    private mutating func bringBack(_ search: ReferenceSearch) throws -> Bool {
        let parent = search.reference.parent
        let missing = try missingRows(parent)
        try search.children.prepare(missing.flatMap(\.formers).compactMap { try search.parents.form($0) })
        var isChanged = false
        for (key, formers) in missing {
            for former in formers {
                guard let values = search.parents.values(former),
                    try !merged.rows(search.children, equal: values).isEmpty,
                    try merged.rows(search.parents, equal: values).isEmpty
                else { continue }
                try set(parent, key, former)
                let rows = try views.map { try $0.row(parent, key) }
                conflicts.append(try conflict(parent, key, rows, former, .reference))
                isChanged = true
                break
            }
        }
        return isChanged
    }

    /// The rows of a table that the merge does not have, with what they were: on a side, or at the base.
    private mutating func missingRows(_ table: TrackedTable) throws -> [(key: RowKey, formers: [DeltaRecord])] {
        try touchedRows(table).compactMap { key in
            guard try merged.row(table, key) == nil else { return nil }
            let formers = try formerRows(table, key)
            return formers.isEmpty ? nil : (key, formers)
        }
    }

    /// What a row was, on the sides and at the base.
    private func formerRows(_ table: TrackedTable, _ key: RowKey) throws -> [DeltaRecord] {
        try views.compactMap { try $0.row(table, key) } + [base(table, key)].compactMap { $0 }
    }

    // MARK: Rows that follow ON DELETE

    /// - Returns: Whether there were any.
    mutating func followDeletions(_ searches: [ReferenceSearch]) throws -> Bool {
        var (hasChanged, isChanged) = (false, true)
        while isChanged {
            isChanged = false
            for search in searches {
                for orphan in try orphans(search) {
                    try follow(search, orphan)
                    (hasChanged, isChanged) = (true, true)
                }
            }
        }
        return hasChanged
    }

    private mutating func orphans(_ search: ReferenceSearch) throws -> [DeltaRecord] {
        let child = search.reference.child
        var found: [RowKey: DeltaRecord] = [:]
        let gone = try goneValues(search)
        try search.children.prepare(gone.map(\.form))
        for (_, values) in gone {
            for row in try merged.rows(search.children, equal: values) { found[child.table.key(of: row)] = row }
        }
        for key in touchedRows(child) {
            guard let row = try merged.row(child, key), found[key] == nil,
                let values = search.children.values(row), try isOfTheMerge(search, key, values),
                try merged.rows(search.parents, equal: values).isEmpty
            else { continue }
            found[key] = row
        }
        return found.sorted { $0.key < $1.key }.map(\.value)
    }

    /// What rows of a side, or of the base, can be referred to by, and none of the merge.
    private mutating func goneValues(
        _ search: ReferenceSearch
    ) throws -> [(form: KeyComparison.Form, values: [ArraySlice<UInt8>])] {
        let parent = search.reference.parent
        var gone: [(form: KeyComparison.Form, values: [ArraySlice<UInt8>])] = []
        var seen: Set<[ArraySlice<UInt8>]> = []
        for key in touchedRows(parent) {
            let present = try merged.row(parent, key).flatMap(search.parents.values)
            for former in try formerRows(parent, key) {
                guard let values = search.parents.values(former), values != present, seen.insert(values).inserted,
                    let form = try search.parents.form(former),
                    try merged.rows(search.parents, equal: values).isEmpty
                else { continue }
                gone.append((form, values))
            }
        }
        return gone
    }

    /// Whether a row refers in the merge to what it refers to neither on a side nor at the base.
    private func isOfTheMerge(_ search: ReferenceSearch, _ key: RowKey, _ values: [ArraySlice<UInt8>]) throws -> Bool {
        let formers = try formerRows(search.reference.child, key).compactMap(search.children.values)
        if formers.contains(values) { return false }
        let comparison = search.children.comparison
        let form = try comparison.form(values, in: db)
        return try !formers.contains { former in
            try comparison.form(former, in: db) == form && comparison.areEqual(former, values, in: db)
        }
    }

    private mutating func follow(_ search: ReferenceSearch, _ row: DeltaRecord) throws {
        let (child, key) = (search.reference.child, search.reference.key)
        let rowKey = child.table.key(of: row)
        var result: DeltaRecord?
        if key.onDelete == "SET NULL" || key.onDelete == "SET DEFAULT" {
            let values = key.columns.map { key.onDelete == "SET NULL" ? [Cell.null] : child.columns[$0].defaultCell }
            let isAdmitted = zip(key.columns, values).allSatisfy { column, value in
                child.table.keyOrdinals[column] == 0 && !(child.columns[column].isNotNull && value == [Cell.null])
            }
            var cells = row.cells
            for (column, value) in zip(key.columns, values) { cells[column] = value[...] }
            let changed = DeltaRecord(cells: cells)
            // The row of the default may be missing as well.
            var hasParent = true
            if let reference = search.children.values(changed) {
                hasParent = try !merged.rows(search.parents, equal: reference).isEmpty
            }
            if isAdmitted, hasParent { result = changed }
        }
        try set(child, rowKey, result)
        let rows = try views.map { try $0.row(child, rowKey) }
        conflicts.append(try conflict(child, rowKey, rows, result, .reference))
    }
}
