/// What the counters of a merge have counted in commits that both sides have beyond the base.
///
/// Where merges have crossed, there are several nearest common ancestors, and one of them is the base. What the others
/// have counted is in both sides, and must not be added twice.
struct MergeCounters {
    /// The sum of a column's changes; nil where a value is no integer.
    private var sums: [String: [RowKey: [Int: Int128?]]] = [:]

    init() {}

    /// - Parameter deltas: Those of the ordinary commits that both sides have, with the columns of the tables.
    init(_ rules: MergeRules, _ tables: TrackedTables, deltas: some Sequence<Delta>) {
        for entry in deltas.flatMap(\.tables) {
            guard let table = tables[entry.table.name] else { continue }
            let columns = rules[table].counters
            if columns.isEmpty { continue }
            for change in entry.changes { add(change, table, columns) }
        }
    }

    private mutating func add(_ change: RowChange, _ table: TrackedTable, _ columns: Set<Int>) {
        let key = table.table.key(of: change.keyRecord)
        let (old, new) = (change.old?.cells, change.new?.cells)
        for column in columns {
            // An update says nothing of columns that it does not change.
            if change.operation == .update, old?[column].first == Cell.undefined { continue }
            let sum = sums[table.name]?[key]?[column] ?? .some(0)
            let (before, after) = (Self.count(old?[column]), Self.count(new?[column]))
            var next: Int128?
            if let sum, let before, let after { next = sum + after - before }
            sums[table.name, default: [:]][key, default: [:]].updateValue(next, forKey: column)
        }
    }

    /// The rows of a table that both sides have counted.
    func keys(_ table: TrackedTable) -> [RowKey] { sums[table.name].map { Array($0.keys) } ?? [] }
    var tables: [String] { Array(sums.keys) }

    /// What becomes of a counter.
    enum Outcome {
        case sum(ArraySlice<UInt8>)
        /// No 64-bit integer is the sum.
        case overflow
        /// A value is no integer.
        case notCounted
    }

    func merged(
        _ table: TrackedTable, _ key: RowKey, _ column: Int, base: ArraySlice<UInt8>?, _ ours: ArraySlice<UInt8>,
        _ theirs: ArraySlice<UInt8>
    ) -> Outcome {
        let common = sums[table.name]?[key]?[column] ?? .some(0)
        if common == 0, let base {
            if ByteOrder.areEqual(ours, base) { return .sum(theirs) }
            if ByteOrder.areEqual(theirs, base) { return .sum(ours) }
        }
        guard let common, let base = Self.count(base), let left = Self.count(ours), let right = Self.count(theirs)
        else { return .notCounted }
        guard let sum = Int64(exactly: left + right - base - common) else { return .overflow }
        return .sum(DeltaRecord(CollectionOfOne(.integer(sum))).bytes)
    }

    /// What a value counts: 0 where there is none.
    private static func count(_ cell: ArraySlice<UInt8>?) -> Int128? {
        guard let cell else { return 0 }
        switch Cell.value(of: cell) {
        case .integer(let value): return Int128(value)
        case .null: return 0
        default: return nil
        }
    }
}
