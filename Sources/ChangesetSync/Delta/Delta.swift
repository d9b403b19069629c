/// The changes of one table: at most one for each row.
///
/// They have one order, the canonical one: deletions, then updates, then insertions, each by the encoded key. So equal
/// contents have equal bytes.
package struct TableDelta: Hashable, Sendable {
    package let table: DeltaTable
    package let changes: [RowChange]

    /// Puts changes, which may come in any order, into the canonical one.
    ///
    /// - Throws: ``DeltaError`` for a change that no row of the table can have, and for two changes of one row.
    package init(table: DeltaTable, changes: some Sequence<RowChange>) throws(DeltaError) {
        let changes = Array(changes)
        do {
            for change in changes { try table.check(change) }
            self.table = table
            self.changes = try Self.sorted(changes, of: table)
        } catch {
            throw error.counted(from: nil)
        }
    }

    /// Takes checked changes in their canonical order.
    init(canonical changes: [RowChange], of table: DeltaTable) {
        self.table = table
        self.changes = changes
    }

    /// Takes checked changes as they were read; in another order than the canonical one they are refused or sorted.
    init(read changes: [RowChange], of table: DeltaTable, mustBeCanonical: Bool) throws(DeltaError) {
        self.table = table
        self.changes =
            mustBeCanonical ? try Self.inOrder(changes, of: table) : try Self.sorted(changes, of: table)
    }

    /// The change of a row with this key; nil when it has none.
    package func change(of key: RowKey) -> RowChange? {
        for run in runs {
            var (low, high) = (run.lowerBound, run.upperBound)
            while low < high {
                let middle = low + (high - low) / 2
                let found = table.key(of: changes[middle].keyRecord)
                if found == key { return changes[middle] }
                if found < key { low = middle + 1 } else { high = middle }
            }
        }
        return nil
    }

    /// The deletions, the updates and the insertions.
    private var runs: [Range<Int>] { Self.runs(of: changes) }

    private static func runs(of changes: [RowChange]) -> [Range<Int>] {
        let updates = firstIndex(in: changes, from: 0) { $0 != .delete }
        let inserts = firstIndex(in: changes, from: updates) { $0 == .insert }
        return [0..<updates, updates..<inserts, inserts..<changes.endIndex]
    }

    /// The first of changes in the canonical order whose kind satisfies a condition, as all after it do.
    private static func firstIndex(
        in changes: [RowChange], from start: Int, where satisfies: (RowChange.Operation) -> Bool
    ) -> Int {
        var (low, high) = (start, changes.endIndex)
        while low < high {
            let middle = low + (high - low) / 2
            if satisfies(changes[middle].operation) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// The canonical order.
extension TableDelta {
    private typealias Place = (rank: Int, key: RowKey)

    private static func precedes(_ left: Place, _ right: Place) -> Bool {
        left.rank == right.rank ? left.key < right.key : left.rank < right.rank
    }

    static func sorted(_ changes: [RowChange], of table: DeltaTable) throws(DeltaError) -> [RowChange] {
        var places = changes.map { Place($0.operation.rank, table.key(of: $0.keyRecord)) }
        if zip(places, places.dropFirst()).allSatisfy({ precedes($0, $1) }) {
            try refuseDuplicates(places.map(\.key), changes)
            return changes
        }
        let order = places.indices.sorted { precedes(places[$0], places[$1]) }
        let sorted = order.map { changes[$0] }
        places = order.map { places[$0] }
        for index in places.indices.dropFirst() where !precedes(places[index - 1], places[index]) {
            throw DeltaError(.duplicateRow, at: sorted[index].records.startIndex)
        }
        try refuseDuplicates(places.map(\.key), sorted)
        return sorted
    }

    private static func inOrder(_ changes: [RowChange], of table: DeltaTable) throws(DeltaError) -> [RowChange] {
        let places = changes.map { Place($0.operation.rank, table.key(of: $0.keyRecord)) }
        for index in places.indices.dropFirst() where !precedes(places[index - 1], places[index]) {
            let isRepeated = places[index - 1] == places[index]
            throw DeltaError(isRepeated ? .duplicateRow : .notCanonical, at: changes[index].records.startIndex)
        }
        try refuseDuplicates(places.map(\.key), changes)
        return changes
    }

    /// Throws when a row has changes of two kinds. Within one kind the keys ascend, so three walks find them.
    private static func refuseDuplicates(_ keys: [RowKey], _ changes: [RowChange]) throws(DeltaError) {
        let runs = runs(of: changes)
        for (first, second) in [(0, 1), (0, 2), (1, 2)] {
            var (left, right) = (runs[first].lowerBound, runs[second].lowerBound)
            while left < runs[first].upperBound, right < runs[second].upperBound {
                if keys[left] == keys[right] {
                    throw DeltaError(.duplicateRow, at: changes[right].records.startIndex)
                }
                if keys[left] < keys[right] { left += 1 } else { right += 1 }
            }
        }
    }
}

/// An exact difference between two states of tables: applied to the former it gives the latter, inverted and applied to
/// the latter it gives the former.
package struct Delta: Hashable, Sendable {
    /// The tables that changed, in the order of the bytes of their names.
    package let tables: [TableDelta]

    /// Nothing changed.
    package static let empty = Delta(canonical: [])

    /// Puts tables, which may come in any order, into the canonical one, and leaves out those without changes.
    ///
    /// - Throws: ``DeltaError`` when two have the same name.
    package init(_ tables: some Sequence<TableDelta>) throws(DeltaError) {
        let changed = tables.filter { !$0.changes.isEmpty }.sorted { DeltaTable.precedes($0.table, $1.table) }
        try Self.refuseDuplicates(changed.map(\.table))
        self.tables = changed
    }

    /// Takes tables with changes, in their canonical order.
    init(canonical tables: [TableDelta]) { self.tables = tables }

    /// Throws when SQLite takes two of the names for the same.
    static func refuseDuplicates(_ tables: [DeltaTable]) throws(DeltaError) {
        guard tables.count > 1 else { return }
        let names = tables.map { DeltaTable.FoldedName($0.name) }
        guard Set(names).count == names.count else { throw DeltaError(.duplicateTable) }
    }

    package var isEmpty: Bool { tables.isEmpty }

    /// The number of rows that changed.
    package var changeCount: Int { tables.reduce(0) { $0 + $1.changes.count } }

    /// The bytes of the rows that changed.
    var byteCount: Int { tables.reduce(0) { $0 + $1.changes.reduce(0) { $0 + $1.records.count } } }

    /// The delta that undoes this one.
    package var inverted: Delta { Delta(canonical: tables.map(\.inverted)) }

    /// The one delta with the effect of this one and then of another.
    ///
    /// - Throws: ``DeltaError`` when the other one does not fit to the rows that this one leaves. A row that
    ///   only one of them changes cannot be compared.
    package func followed(by other: Delta) throws(DeltaError) -> Delta {
        var composer = DeltaComposer()
        try composer.add(self)
        try composer.add(other)
        return try composer.result()
    }
}

extension TableDelta {
    /// The changes that undo these. Keys stay, so each kind remains in its order.
    package var inverted: TableDelta {
        let runs = runs
        var inverse: [RowChange] = []
        inverse.reserveCapacity(changes.count)
        for change in changes[runs[2]] {
            let end = change.records.endIndex
            inverse.append(change.with(.delete, change.records, middle: end))
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(changes[runs[1]].reduce(0) { $0 + $1.records.count })
        let middles = changes[runs[1]].map { $0.appendInverse(of: table, to: &bytes) }
        var start = 0
        for (change, middle) in zip(changes[runs[1]], middles) {
            let end = start + change.records.count
            inverse.append(change.with(.update, bytes[start..<end], middle: middle))
            start = end
        }
        for change in changes[runs[0]] {
            inverse.append(change.with(.insert, change.records, middle: change.records.startIndex))
        }
        return TableDelta(canonical: inverse, of: table)
    }
}

extension RowChange {
    fileprivate func with(_ operation: Operation, _ records: ArraySlice<UInt8>, middle: Int) -> RowChange {
        RowChange(valid: operation, indirect: isIndirect, records, middle: middle, columnCount: columnCount)
    }

    /// Appends the records of the update that undoes this one. The key stays with the old values; all other cells
    /// change places.
    ///
    /// - Returns: Where the new values begin.
    fileprivate func appendInverse(of table: DeltaTable, to bytes: inout [UInt8]) -> Int {
        appendCells(of: table, to: &bytes) { isKey in isKey ? .old : .new }
        let middle = bytes.count
        appendCells(of: table, to: &bytes) { isKey in isKey ? .new : .old }
        return middle
    }

    private enum Side { case old, new }

    /// Appends one cell for each column, from the record that `side` chooses for it.
    private func appendCells(of table: DeltaTable, to bytes: inout [UInt8], from side: (_ isKey: Bool) -> Side) {
        var (old, new) = (records.startIndex, middle)
        for ordinal in table.keyOrdinals {
            guard let oldEnd = try? Cell.end(of: records, at: old), let newEnd = try? Cell.end(of: records, at: new)
            else { return }
            switch side(ordinal != 0) {
            case .old: bytes.append(contentsOf: records[old..<oldEnd])
            case .new: bytes.append(contentsOf: records[new..<newEnd])
            }
            (old, new) = (oldEnd, newEnd)
        }
    }
}
