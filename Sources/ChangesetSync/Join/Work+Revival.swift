/// An update wins over a concurrent deletion: who made one of both inserts the row anew.
///
/// Limit: if only one of several insertions of a child needs a deleted parent, the parent stays deleted.
extension Work {
    /// Inserts the rows anew whose updates a deletion did not know, if the update or the deletion is of this store.
    ///
    /// - Parameter seen: The commits that are being joined.
    func revive(_ losses: [Loss], seen: Set<Int64>) throws {
        var places: [RowPlace] = []
        var rows: [RowPlace: (row: BaseRow, incarnations: [Int64])] = [:]
        for loss in losses {
            if try catalog.table(loss.place.table).deletionsWin { continue }
            guard var row = try rowToRevive(loss) else { continue }
            if let former = rows[loss.place] {
                try row.join(former.row, index)
            } else {
                places.append(loss.place)
            }
            rows[loss.place] = (row, (rows[loss.place]?.incarnations ?? []) + [loss.lost.incarnation])
        }
        if places.isEmpty { return }
        let beyond = try seen.filter { try !state.vector.covers($0, index) }
        let writes = places.map { place in
            var write = LocalWrite(kind: .insert, place: place, incarnation: nil)
            write.seen = beyond
            write.copied = rows[place]?.row
            // A commit has known values alone. A store that knows the others still owes them.
            write.copied?.unknown = [:]
            write.revives = Set(rows[place]?.incarnations ?? []).sorted()
            return write
        }
        try commit(writes)
    }

    /// The row as it was with the update that is lost; nil if others revive it.
    private func rowToRevive(_ loss: Loss) throws -> BaseRow? {
        let lost = loss.lost
        let grave = try base.state(loss.place).graves[lost.incarnation]
        var row = lost.row
        if let former = grave?.row {
            row = try lost.onto(former, index)
            let known = row
            try base.modify(loss.place) { $0.graves[lost.incarnation]?.row = known }
        }
        let dots = lost.late == nil ? lost.dots : lost.dots.intersection(row.dots)
        guard !dots.isEmpty || !lost.authors.isEmpty || lost.isOrphaned else { return nil }
        if grave?.isOwn == true { return row }
        let isOwn =
            try dots.contains { try state.isOwn(index.entry($0).author) } || lost.authors.contains(where: state.isOwn)
        return isOwn ? row : nil
    }

    // MARK: Parents under RESTRICT

    /// Notes parents that living children need (F11): the author of the child, or of the deletion, revives the parent.
    func findOrphans(_ write: LocalWrite, _ losses: inout [Loss]) throws {
        switch write.kind {
        case .delete:
            if let incarnation = write.incarnation { try findChildren(of: write.place, incarnation, &losses) }
        case .insert, .update: try findMissingParents(of: write.place, &losses)
        }
    }

    /// Notes a dead row that living children refer to.
    func findChildren(of place: RowPlace, _ incarnation: Int64, _ losses: inout [Loss]) throws {
        let references = (references.ofParent[place.table] ?? []).filter { $0.onDelete == .restrict }
        if references.isEmpty { return }
        let state = try base.state(place)
        guard state.rows.isEmpty, let corpse = state.graves[incarnation]?.row else { return }
        var authors: Set<Int64> = []
        for reference in references { authors.formUnion(try authorsOfChildren(reference, place, corpse)) }
        if authors.isEmpty { return }
        var lost = Lost(incarnation, corpse, [])
        lost.authors = authors
        losses.append(Loss(place: place, lost: lost))
    }

    private func restricting(_ references: [Reference]) throws -> [Reference] {
        try references.filter { reference in
            guard reference.onDelete == .restrict, let parent = try catalog.table(reference.parent).local else {
                return false
            }
            return reference.isOfPrimaryKey(parent)
        }
    }

    /// The values of a dead row by which children refer to it; nil if it had none.
    private func values(_ reference: Reference, _ parent: RowPlace, _ corpse: BaseRow) throws -> [CellValue]? {
        let table = try catalog.table(parent.table)
        guard let definition = table.local, parent.key.values.count == definition.keyColumns.count else { return nil }
        var values: [CellValue] = []
        for column in reference.parentColumns {
            if let place = definition.keyColumns.firstIndex(of: column) {
                values.append(parent.key.values[place])
            } else if let base = table.columnsOfPlaces[column] {
                values.append(corpse.cells[base.n]?.value ?? definition.columns[column].defaultValue)
            }
        }
        return values.count == reference.parentColumns.count ? values : nil
    }

    private func authorsOfChildren(
        _ reference: Reference, _ parent: RowPlace, _ corpse: BaseRow
    ) throws -> Set<Int64> {
        guard let key = try values(reference, parent, corpse) else { return [] }
        guard let child = try catalog.table(reference.child).local,
            let form = try reference.comparison.form(key, in: db)
        else { return [] }
        let links = Links(db: db, catalog: catalog, references: references)
        var places = touchedChildren[reference]?[form] ?? []
        places.formUnion(try links.children(of: reference.parent, key: reference.target, form))
        places.formUnion(
            try writer.keys(of: child, having: key, in: reference.columns, nil).map {
                RowPlace(table: reference.child, key: $0)
            })
        var authors: Set<Int64> = []
        for place in places {
            // Each incarnation counts: its author wants the parent, whatever the others say.
            for row in try base.state(place).rows.values {
                guard let (values, stamps) = try referringCells(reference, place, row),
                    try reference.comparison.form(values, in: db) == form
                else { continue }
                for stamp in stamps { authors.insert(try index.entry(stamp.commit).author) }
            }
        }
        return authors
    }

    /// The values with which a row of the base refers to a parent; nil if it does not.
    private func referringCells(
        _ reference: Reference, _ place: RowPlace, _ row: BaseRow
    ) throws -> (values: [CellValue], stamps: [LocalStamp])? {
        let table = try catalog.table(place.table)
        var (values, stamps) = ([CellValue](), [LocalStamp]())
        for column in reference.columns {
            guard let base = table.columnsOfPlaces[column], let cell = row.cells[base.n] else { return nil }
            values.append(cell.value)
            stamps.append(cell.stamp)
        }
        return values.contains(where: \.isNull) ? nil : (values, stamps)
    }

    /// Notes rows that this store has deleted and that a row refers to.
    private func findMissingParents(of place: RowPlace, _ losses: inout [Loss]) throws {
        for reference in try restricting(references.ofChild[place.table] ?? []) {
            guard let row = try base.state(place).merged(index),
                let (values, _) = try referringCells(reference, place, row),
                let form = try reference.comparison.form(values, in: db)
            else { continue }
            touchedChildren[reference, default: [:]][form, default: []].insert(place)
            let parent = RowPlace(table: reference.parent, key: RowKey(values))
            guard try base.stored.has(EngineTables.grave, reference.parent) || base.isTouched(parent) else { continue }
            let state = try base.state(parent)
            guard state.rows.isEmpty else { continue }
            let graves = try state.graves.sorted { try index.entry($0.key).dot < index.entry($1.key).dot }
            for (incarnation, grave) in graves where grave.isOwn {
                guard let row = grave.row else { continue }
                var lost = Lost(incarnation, row, [])
                lost.isOrphaned = true
                losses.append(Loss(place: parent, lost: lost))
            }
        }
    }
}
