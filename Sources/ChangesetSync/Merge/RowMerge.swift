/// Where two sides have changed the same, and what was chosen.
struct MergeConflict: Hashable, Sendable {
    typealias Reason = SyncConflict.Reason

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

/// The merge of one row: a pure function of the row on both sides, of who has written it, and of the policy.
struct RowMerge {
    /// One side of the merge.
    struct Side {
        let row: DeltaRecord?
        let writers: RowWriters.Row?
        /// Whether the other side has a commit in its history, and so knows what it wrote.
        let isKnownToOther: (RowWriters.Writer) -> Bool
    }

    /// A concurrent conflict, for the resolver.
    struct Question {
        /// The column; nil where one side has deleted the row.
        let column: Int?
        let columns: [Int]
        let later: RowConflict.Side
    }

    /// What the resolver decides.
    enum Answer {
        case automatic
        case value(ArraySlice<UInt8>)
        /// Undefined where the row is as it would be.
        case row(DeltaRecord)
        case delete
    }

    /// What a cell becomes.
    private enum CellMerge {
        case decided(ArraySlice<UInt8>)
        /// Neither side knew the other's write.
        case concurrent(later: RowConflict.Side, MergeConflict.Reason)
        /// Both have the same last write, and merges have made different values of it.
        case disagreement
    }

    let table: TrackedTable
    let key: RowKey
    let base: DeltaRecord?
    let first: Side
    let second: Side
    let deletion: MergePolicy.Deletion
    /// The merged value of a counter; nil for other columns.
    let counter: (_ column: Int, _ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> MergeCounters.Outcome?
    private(set) var conflicts: [MergeConflict] = []
    /// Whether the row has something of a resolver that neither side has.
    private(set) var isResolved = false

    init(
        _ table: TrackedTable, _ key: RowKey, base: DeltaRecord?, _ first: Side, _ second: Side,
        deletion: MergePolicy.Deletion,
        counter: @escaping (Int, ArraySlice<UInt8>, ArraySlice<UInt8>) -> MergeCounters.Outcome?
    ) {
        (self.table, self.key, self.base, self.first, self.second) = (table, key, base, first, second)
        (self.deletion, self.counter) = (deletion, counter)
    }

    /// The merged row; nil where it does not exist any more.
    ///
    /// - Parameter ask: The resolver, for each concurrent conflict.
    mutating func merged(_ ask: (Question) throws -> Answer) throws -> DeltaRecord? {
        guard let one = first.row, let other = second.row else { return try mergedDeletion(ask) }
        let (ones, others, bases) = (one.cells, other.cells, base?.cells)
        let merges = table.table.columns.indices.map { cell($0, ones[$0], others[$0], bases?[$0]) }
        let columns = merges.indices.filter { if case .concurrent = merges[$0] { true } else { false } }
        var cells: [ArraySlice<UInt8>] = []
        var answer: Answer?
        for (column, merge) in merges.enumerated() {
            let (left, right) = (ones[column], others[column])
            switch merge {
            case .decided(let cell): cells.append(cell)
            case .disagreement:
                cells.append(left)
                note(column, bases?[column], left, right, left, .cell)
            case .concurrent(let later, let reason):
                var chosen = later == .ours ? left : right
                if answer == nil {
                    switch try ask(Question(column: column, columns: columns, later: later)) {
                    case .automatic: break
                    case .value(let cell): chosen = take(cell, left, right)
                    case let whole: answer = whole
                    }
                }
                cells.append(chosen)
                note(column, bases?[column], left, right, chosen, reason)
            }
        }
        let row = DeltaRecord(cells: cells)
        return answer.map { decided(row, by: $0) } ?? row
    }

    private mutating func take(
        _ cell: ArraySlice<UInt8>, _ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>
    ) -> ArraySlice<UInt8> {
        if !ByteOrder.areEqual(cell, left) && !ByteOrder.areEqual(cell, right) { isResolved = true }
        return cell
    }

    /// The row as a whole, as a resolver wants it.
    private mutating func decided(_ row: DeltaRecord, by answer: Answer) -> DeltaRecord? {
        var result: DeltaRecord?
        if case .row(let wanted) = answer {
            result = row.replacing(by: wanted)
            isResolved = result != first.row && result != second.row
        } else {
            isResolved = false
        }
        let reason = conflicts.first?.reason ?? .cell
        conflicts = []
        note(nil, base?.bytes, first.row?.bytes, second.row?.bytes, result?.bytes, reason)
        return result
    }

    private func cell(
        _ column: Int, _ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>, _ base: ArraySlice<UInt8>?
    ) -> CellMerge {
        var reason = MergeConflict.Reason.cell
        switch counter(column, left, right) {
        case .sum(let sum)?: return .decided(sum)
        case .overflow?: reason = .overflow
        case .notCounted?, nil: if ByteOrder.areEqual(left, right) { return .decided(left) }
        }
        // Without a writer a side has the value of the base, or what a merge had to put in its place.
        let isLeftBase = base.map { ByteOrder.areEqual($0, left) } ?? false
        let isRightBase = base.map { ByteOrder.areEqual($0, right) } ?? false
        let (one, other): (RowWriters.Writer, RowWriters.Writer)
        switch (first.writers?.cells[column], second.writers?.cells[column]) {
        case (let left?, let right?): (one, other) = (left, right)
        case (nil, let writer?): return .decided(isLeftBase || !second.isKnownToOther(writer) ? right : left)
        case (let writer?, nil): return .decided(isRightBase || !first.isKnownToOther(writer) ? left : right)
        case (nil, nil): return .decided(isLeftBase ? right : left)
        }
        // A side that knows the other's last write has decided already.
        switch (first.isKnownToOther(one), second.isKnownToOther(other)) {
        case (true, false): return .decided(right)
        case (false, true): return .decided(left)
        case (true, true): return .disagreement
        case (false, false): return .concurrent(later: one < other ? .theirs : .ours, reason)
        }
    }

    /// One side has the row and the other one has not.
    private mutating func mergedDeletion(_ ask: (Question) throws -> Answer) throws -> DeltaRecord? {
        guard let row = first.row ?? second.row else { return nil }
        let isFirstLive = first.row != nil
        let (live, dead) = isFirstLive ? (first, second) : (second, first)
        // Only one side has changed anything.
        guard let write = live.writers?.last else { return nil }
        // Without a deletion the other side never had it, or a merge had to remove it.
        guard let deletion = dead.writers?.deletion else { return live.isKnownToOther(write) ? nil : row }
        var result: DeltaRecord? = self.deletion == .updateWins ? row : nil
        switch (live.isKnownToOther(write), dead.isKnownToOther(deletion)) {
        case (true, false): return nil
        case (false, true): return row
        case (true, true): break
        case (false, false):
            let columns = table.table.columns.indices.filter { live.writers?.cells[$0] != nil }
            let isLiveLater = deletion < write
            switch try ask(Question(column: nil, columns: columns, later: isLiveLater == isFirstLive ? .ours : .theirs))
            {
            case .row(let wanted):
                result = row.replacing(by: wanted)
                isResolved = result != row
            case .delete: result = nil
            case .automatic, .value: break
            }
        }
        note(nil, base?.bytes, first.row?.bytes, second.row?.bytes, result?.bytes, .deletedAndChanged)
        return result
    }

    private mutating func note(
        _ column: Int?, _ base: ArraySlice<UInt8>?, _ left: ArraySlice<UInt8>?, _ right: ArraySlice<UInt8>?,
        _ chosen: ArraySlice<UInt8>?, _ reason: MergeConflict.Reason
    ) {
        conflicts.append(
            MergeConflict(
                table: table.name, key: key, column: column.map { table.table.columns[$0] },
                base: base.map(Array.init), ours: left.map(Array.init), theirs: right.map(Array.init),
                chosen: chosen.map(Array.init), reason: reason))
    }
}
