/// Rows as they were before a commit, by key; nil for keys that no row had. The first report of a key counts.
///
/// Most statements visit rows in the order of their keys. Keys that come in it stay so, in shared memory: they are neither
/// hashed nor sorted.
struct FormerRows {
    private var cells: [UInt8] = []
    /// For each ascending key the end of its cells.
    private var ascending: [(end: Int, row: DeltaRecord?)] = []
    /// The keys that came after a greater one.
    private var others: [RowKey: DeltaRecord?] = [:]

    /// Keeps a row as it was, unless its key was reported before.
    ///
    /// - Parameter append: Appends the cells of the key.
    @inline(__always)
    mutating func note(_ row: DeltaRecord?, key append: (inout [UInt8]) -> Void) {
        let start = cells.count
        append(&cells)
        let order = ascending.isEmpty ? -1 : compare(ascending.count - 1, with: start)
        if order < 0 && others.isEmpty { return ascending.append((cells.count, row)) }
        noteUnordered(row, from: start, order)
    }

    /// - Parameter order: How the last of the ascending keys compares with this one.
    private mutating func noteUnordered(_ row: DeltaRecord?, from start: Int, _ order: Int) {
        let key = RowKey(cells: Array(cells[start...])[...])
        if order < 0, others.index(forKey: key) == nil { return ascending.append((cells.count, row)) }
        cells.removeLast(cells.count - start)
        if order == 0 || contains(key) { return }
        others[key] = .some(row)
    }

    func contains(_ key: RowKey) -> Bool {
        var (low, high) = (0, ascending.count)
        while low < high {
            let middle = low + (high - low) / 2
            let order = ByteOrder.compare(cells[range(middle)], key.cells)
            if order == 0 { return true }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return others.index(forKey: key) != nil
    }

    /// The keys in their order, and for each of them the row.
    func inOrder() -> (keys: [RowKey], rows: [DeltaRecord?]) {
        let keys = ascending.indices.map { RowKey(cells: cells[range($0)]) }
        let rows = ascending.map(\.row)
        if others.isEmpty { return (keys, rows) }
        var all = Array(zip(keys, rows))
        for (key, row) in others { all.append((key, row)) }
        all.sort { $0.0 < $1.0 }
        return (all.map(\.0), all.map(\.1))
    }

    private func range(_ index: Int) -> Range<Int> {
        (index == 0 ? 0 : ascending[index - 1].end)..<ascending[index].end
    }

    private func compare(_ index: Int, with start: Int) -> Int {
        let range = range(index)
        return cells.withUnsafeBytes { cells in
            ByteOrder.compare(
                UnsafeRawBufferPointer(rebasing: cells[range]), UnsafeRawBufferPointer(rebasing: cells[start...]))
        }
    }
}
