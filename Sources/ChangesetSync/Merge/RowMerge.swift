/// Where two sides have changed the same: what each has, and what was chosen.
struct MergeConflict: Hashable, Sendable {
    enum Reason: String, Sendable {
        /// Two values of one cell.
        case cell
        /// One side has deleted a row that the other one has changed.
        case deletedAndChanged
        /// Two rows have the same value of a unique key.
        case unique
        /// A row refers to one that was deleted.
        case reference
        /// The mixed row does not satisfy the constraints of the table.
        case constraint
    }

    let table: String
    let key: RowKey
    /// Nil where it is about the whole row.
    let column: String?
    let base: [UInt8]?
    let ours: [UInt8]?
    let theirs: [UInt8]?
    let chosen: [UInt8]?
    let reason: Reason
}

/// The merge of one row: a pure function of the row on both sides, and of who has written it.
struct RowMerge {
    /// One side of the merge.
    struct Side {
        let row: DeltaRecord?
        let writers: RowWriters.Row?
        /// Whether the other side has a commit in its history, and so knows what it wrote.
        let isKnownToOther: (RowWriters.Writer) -> Bool
    }

    let table: TrackedTable
    let key: RowKey
    let base: DeltaRecord?
    let first: Side
    let second: Side
    private(set) var conflicts: [MergeConflict] = []

    init(_ table: TrackedTable, _ key: RowKey, base: DeltaRecord?, _ first: Side, _ second: Side) {
        (self.table, self.key, self.base, self.first, self.second) = (table, key, base, first, second)
    }

    /// The merged row; nil where it does not exist any more.
    mutating func merged() -> DeltaRecord? {
        if first.row == second.row { return first.row }
        guard let one = first.row, let other = second.row else { return mergedDeletion() }
        let (ones, others, bases) = (one.cells, other.cells, base?.cells)
        var cells: [ArraySlice<UInt8>] = []
        for column in table.table.columns.indices {
            let (left, right) = (ones[column], others[column])
            if ByteOrder.areEqual(left, right) {
                cells.append(left)
            } else {
                cells.append(mergedCell(column, left, right, bases?[column]))
            }
        }
        return DeltaRecord(valid: Array(cells.joined())[...], columnCount: cells.count)
    }

    private mutating func mergedCell(
        _ column: Int, _ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>, _ base: ArraySlice<UInt8>?
    ) -> ArraySlice<UInt8> {
        // Without a writer a side has the value of the base, or what a merge had to put in its place.
        let isLeftBase = base.map { ByteOrder.areEqual($0, left) } ?? false
        let isRightBase = base.map { ByteOrder.areEqual($0, right) } ?? false
        let (one, other): (RowWriters.Writer, RowWriters.Writer)
        switch (first.writers?.cells[column], second.writers?.cells[column]) {
        case (let left?, let right?): (one, other) = (left, right)
        case (nil, let writer?): return isLeftBase || !second.isKnownToOther(writer) ? right : left
        case (let writer?, nil): return isRightBase || !first.isKnownToOther(writer) ? left : right
        case (nil, nil): return isLeftBase ? right : left
        }
        // A side that knows the other's last write has decided already.
        switch (first.isKnownToOther(one), second.isKnownToOther(other)) {
        case (true, false): return right
        case (false, true): return left
        default: break
        }
        let chosen = one < other ? right : left
        note(table.table.columns[column], base, left, right, chosen, .cell)
        return chosen
    }

    /// One side has the row and the other one has not.
    private mutating func mergedDeletion() -> DeltaRecord? {
        let isFirstLive = first.row != nil
        let (live, dead) = isFirstLive ? (first, second) : (second, first)
        // Only one side has changed anything.
        guard let write = live.writers?.last else { return nil }
        // Without a deletion the other side never had it, or a merge had to remove it.
        guard let deletion = dead.writers?.deletion else { return live.isKnownToOther(write) ? nil : live.row }
        switch (live.isKnownToOther(write), dead.isKnownToOther(deletion)) {
        case (true, false): return nil
        case (false, true): return live.row
        default: break
        }
        note(
            nil, base?.bytes, first.row?.bytes, second.row?.bytes, live.row?.bytes, .deletedAndChanged)
        return live.row
    }

    private mutating func note(
        _ column: String?, _ base: ArraySlice<UInt8>?, _ left: ArraySlice<UInt8>?, _ right: ArraySlice<UInt8>?,
        _ chosen: ArraySlice<UInt8>?, _ reason: MergeConflict.Reason
    ) {
        conflicts.append(
            MergeConflict(
                table: table.name, key: key, column: column, base: base.map(Array.init), ours: left.map(Array.init),
                theirs: right.map(Array.init), chosen: chosen.map(Array.init), reason: reason))
    }
}
