import CipherDatabase

/// What the commit under way has touched, on one connection: for each row its state before, by exact key.
///
/// Triggers report each row before it changes; the first report of a key counts. Nothing is undone where a savepoint is
/// rolled back: at the end each key is compared with the row as it is then, so a report too many does no harm.
final class Capture {
    /// The function that the triggers call: without arguments, whether a commit is under way; else the number of the
    /// table, the kind of report, the first column that follows, and the values.
    static let function = "cipherstore_sync_capture"
    /// The most values of one call.
    static let valuesOfCall = Database.mostFunctionArguments - 3

    enum Report: Int64 {
        /// A whole row, as it is before the change.
        case row = 1
        /// The key of a row that did not exist before.
        case key = 2
    }

    /// One table of the commit under way.
    private struct Touched {
        let table: TrackedTable
        /// The rows before the commit; nil for keys that no row had.
        var former: [RowKey: DeltaRecord?] = [:]
        /// A row of which not all columns have come yet.
        var partial = RecordWriter()
        var partialCount = 0
        var hasNullKey = false

        /// Keeps the row as it was, unless the key was reported before.
        mutating func note(_ key: RowKey, _ row: DeltaRecord?) {
            if key.hasNull {
                hasNullKey = true
            } else if let first = former.updateValue(row, forKey: key) {
                former[key] = .some(first)
            }
        }
    }

    private(set) var isActive = false
    private var touched: [Touched] = []

    func begin(_ tables: TrackedTables) {
        touched = tables.all.map { Touched(table: $0) }
        isActive = true
    }

    func end() {
        isActive = false
        touched = []
    }

    // MARK: Called by triggers

    func take(_ arguments: LentArguments) throws -> Int64? {
        guard isActive, arguments.count > 0 else { return isActive ? 1 : 0 }
        guard case .integer(let index) = arguments[0], touched.indices.contains(Int(clamping: index)),
            case .integer(let kind) = arguments[1], let report = Report(rawValue: kind),
            case .integer(let start) = arguments[2]
        else { throw CommitStore.damaged("A trigger of the capture does not fit to the tables.") }
        switch report {
        case .row: takeRow(Int(index), from: Int(clamping: start), arguments)
        case .key: takeKey(Int(index), arguments)
        }
        return nil
    }

    private func takeRow(_ index: Int, from start: Int, _ arguments: LentArguments) {
        if start == 0 {
            touched[index].partial = RecordWriter()
            touched[index].partialCount = 0
        }
        for place in 3..<arguments.count { touched[index].partial.append(arguments[place]) }
        touched[index].partialCount += arguments.count - 3
        let table = touched[index].table.table
        guard touched[index].partialCount == table.columns.count else { return }
        let record = touched[index].partial.finish()
        touched[index].partialCount = 0
        // A row without a key has no identity; it cannot have been committed.
        touched[index].note(table.key(of: record), record)
    }

    private func takeKey(_ index: Int, _ arguments: LentArguments) {
        var writer = RecordWriter()
        for place in 3..<arguments.count { writer.append(arguments[place]) }
        touched[index].note(RowKey(cells: writer.finish().bytes), nil)
    }

    // MARK: The result

    /// The rows that differ from what they were before, as a delta. Inside the transaction of the commit.
    ///
    /// - Parameter visit: Called with each changed row, before and after.
    /// - Throws: ``SyncError`` `.nullKey`
    func delta(
        _ db: Database, visit: (TrackedTable, _ old: DeltaRecord?, _ new: DeltaRecord?) throws -> Void
    ) throws -> Delta {
        var deltas: [TableDelta] = []
        for entry in touched {
            if entry.hasNullKey { try entry.table.requireKeys(in: db) }
            let delta = try delta(of: entry, db) { try visit(entry.table, $0, $1) }
            if !delta.changes.isEmpty { deltas.append(delta) }
        }
        return try Delta(deltas)
    }

    /// The rows are visited in the order of their keys, which is that of a delta.
    private func delta(
        of entry: Touched, _ db: Database, _ visit: (_ old: DeltaRecord?, _ new: DeltaRecord?) throws -> Void
    ) throws -> TableDelta {
        let table = entry.table.table
        let lookup = try RowLookup(entry.table, in: db)
        // One list for each kind, in the order of the kinds.
        var changes: [[RowChange]] = [[], [], []]
        func note(_ old: DeltaRecord?, _ new: DeltaRecord?) throws {
            guard let change = try table.change(from: old, to: new) else { return }
            changes[change.operation.rank].append(change)
            try visit(old, new)
        }
        var unexpected: Set<RowKey> = []
        for (key, former) in entry.former.sorted(by: { $0.key < $1.key }) {
            let present = try lookup.row(like: key)
            let presentKey = present.map(table.key)
            try note(former, presentKey == key ? present : nil)
            // SQLite has converted the key when it stored the row.
            if let presentKey, presentKey != key, former == nil, entry.former[presentKey] == nil,
                unexpected.insert(presentKey).inserted
            {
                try note(nil, present)
            }
        }
        let all = Array(changes.joined())
        return unexpected.isEmpty ? TableDelta(canonical: all, of: table) : try TableDelta(table: table, changes: all)
    }
}

extension RowKey {
    /// Whether a column of the key is NULL.
    var hasNull: Bool {
        var start = cells.startIndex
        while start < cells.endIndex, let end = try? Cell.end(of: cells, at: start) {
            if cells[start] == Cell.null { return true }
            start = end
        }
        return false
    }
}
