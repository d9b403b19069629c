// A commit of the program begins here: from captured changes to the writes of a commit.

extension Work {
    /// Records what a block of the program has changed.
    ///
    /// - Returns: The commit; nil if nothing has changed.
    func record(_ changes: CapturedChanges, meta: String) throws -> EncodedCommit? {
        if let only = changes.insertions, try canBeRanges(only) { return try recordInsertions(only, meta) }
        if let only = changes.updates {
            let (isRecorded, commit) = try recordUpdates(only, meta)
            if isRecorded { return commit }
        }
        return try record(changes.rows(), meta: meta)
    }

    /// Records what a transaction of the program changed.
    ///
    /// - Parameters:
    ///   - isRecorded: Whether the change history has the changes already.
    ///   - unknown: Columns of deleted rows whose former values nobody knows.
    func record(
        _ changes: [ProgramChange], meta: String, isRecorded: Bool = false, unknown: [RowPlace: Set<Int64>] = [:]
    ) throws -> EncodedCommit? {
        var places: [(place: RowPlace, table: BaseTable, definition: TableDefinition, change: ProgramChange)] = []
        for change in changes {
            guard let table = catalog.local(change.table), let definition = table.local,
                let row = change.new ?? change.old
            else { continue }
            let key = definition.key(of: row)
            if key.values.contains(where: \.isNull) { throw EngineError(.nullKey, definition.name) }
            let place = RowPlace(table: table.n, key: key)
            let isRecorded = isRecorded || recordedTables.contains(table.n)
            base.noteProgram(place, from: change.old, to: change.new, isRecorded: isRecorded)
            places.append((place, table, definition, change))
        }
        for (place, columns) in unknown {
            // A revival would bring NULL otherwise.
            try base.modify(place) { state in
                for incarnation in state.rows.keys {
                    for column in columns { state.rows[incarnation]?.cells[column] = nil }
                }
            }
        }
        var writes: [LocalWrite] = []
        for (place, table, definition, change) in places {
            base.touch(place)
            switch (change.old, change.new) {
            case (_, nil): writes += try deletions(place)
            case (nil, let new?): writes.append(try insertion(place, table, definition, new))
            case (let old?, let new?):
                if let write = try update(place, table, definition, old, new) { writes.append(write) }
            }
        }
        return writes.isEmpty ? nil : try commit(writes, meta: meta)
    }

    private func deletions(_ place: RowPlace) throws -> [LocalWrite] {
        try incarnations(place).map { LocalWrite(kind: .delete, place: place, incarnation: $0) }
    }

    /// The living incarnations of a key, in the order of their insertions' names.
    private func incarnations(_ place: RowPlace) throws -> [Int64] {
        // A row of another member under another key is none of the program's.
        try Candidate.rows(of: base.state(place), catalog.table(place.table)).keys
            .sorted { try index.entry($0).dot < index.entry($1).dot }
    }

    /// An insertion. If the key has a hidden row, the insertion overwrites it (F24).
    private func insertion(
        _ place: RowPlace, _ table: BaseTable, _ definition: TableDefinition, _ new: [CellValue]
    ) throws -> LocalWrite {
        let known = try incarnations(place)
        let rows = try base.state(place).rows
        let hidden = try BaseRow.merged(known.sorted().compactMap { rows[$0] }, index)
        let incarnation = known.last
        var write = LocalWrite(kind: incarnation == nil ? .insert : .update, place: place, incarnation: incarnation)
        for case let (column?, value) in zip(table.columnsOfPlaces, new) {
            if !column.isCounter {
                write.cells.append((column.n, value))
            } else if let step = Self.step(from: hidden?.shownCount(of: column.n) ?? 0, to: value) {
                write.steps.append((column.n, step))
            }
        }
        return write
    }

    private func update(
        _ place: RowPlace, _ table: BaseTable, _ definition: TableDefinition, _ old: [CellValue], _ new: [CellValue]
    ) throws -> LocalWrite? {
        guard let incarnation = try incarnations(place).last else { return nil }
        var write = LocalWrite(kind: .update, place: place, incarnation: incarnation)
        let changed = Set(new.indices.filter { old[$0] != new[$0] })
        let unknown = try base.state(place).rows[incarnation]?.unknown ?? [:]
        for place in definition.checkGroup(of: changed).sorted() {
            guard let column = table.columnsOfPlaces[place] else { continue }
            // Its default is shown, which nobody has written.
            if unknown[column.n] != nil, !changed.contains(place) { continue }
            if !column.isCounter {
                write.cells.append((column.n, new[place]))
            } else if changed.contains(place), let step = Self.step(from: old[place].rounded ?? 0, to: new[place]) {
                write.steps.append((column.n, step))
            }
        }
        return write.cells.isEmpty && write.steps.isEmpty ? nil : write
    }

    private static func step(from old: Int64, to new: CellValue) -> Int64? {
        let step = (new.rounded ?? 0) &- old
        return step == 0 ? nil : step
    }
}
