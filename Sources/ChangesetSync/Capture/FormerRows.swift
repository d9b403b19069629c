/// Rows as they were before a commit, by key; nil for keys that no row had. The first report of a key counts.
///
/// Most insertions have ascending keys: they are kept as ranges, so a million of them needs no memory.
struct FormerRows {
    /// Integers that were no keys, in ascending order.
    private(set) var inserted: [ClosedRange<Int64>] = []
    /// All other keys. A row is its encoded cells.
    private(set) var others: [RowKey: [UInt8]?] = [:]

    /// Notes a key that no row had.
    mutating func noteInserted(_ number: Int64) {
        if let last = inserted.last {
            guard last.upperBound < number else { return noteOther(RowKey(number), nil) }
            if !others.isEmpty, others.index(forKey: RowKey(number)) != nil { return }
            if last.upperBound + 1 == number {
                inserted[inserted.count - 1] = last.lowerBound...number
                return
            }
        } else if !others.isEmpty, others.index(forKey: RowKey(number)) != nil {
            return
        }
        inserted.append(number...number)
    }

    /// - Parameter row: Its encoded cells; nil if no row had the key.
    mutating func note(_ key: RowKey, _ row: [UInt8]?) { noteOther(key, row) }

    private mutating func noteOther(_ key: RowKey, _ row: [UInt8]?) {
        if let number = key.rowID, isInserted(number) { return }
        if others.index(forKey: key) == nil { others.updateValue(row, forKey: key) }
    }

    func contains(_ key: RowKey) -> Bool {
        if let number = key.rowID, isInserted(number) { return true }
        return others.index(forKey: key) != nil
    }

    private func isInserted(_ number: Int64) -> Bool {
        var (low, high) = (0, inserted.count)
        while low < high {
            let middle = low + (high - low) / 2
            if inserted[middle].contains(number) { return true }
            if inserted[middle].upperBound < number { low = middle + 1 } else { high = middle }
        }
        return false
    }
}
