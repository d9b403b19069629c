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
        var former = FormerRows()
        /// A row of which not all columns have come yet.
        var partial = RecordWriter()
        var partialCount = 0
        /// A row without a key has no identity; it cannot have been committed.
        var hasNullKey = false
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

    /// The name of a table of the commit under way, however it is written.
    func table(named name: String) -> String? {
        touched.first { DeltaTable.areSame($0.table.name, name) }?.table.name
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
        let key = table.key(of: record)
        if key.hasNull {
            touched[index].hasNullKey = true
        } else {
            touched[index].former.note(record) { $0.append(contentsOf: key.cells) }
        }
    }

    private func takeKey(_ index: Int, _ arguments: LentArguments) {
        for place in 3..<arguments.count {
            if case .null = arguments[place] {
                touched[index].hasNullKey = true
                return
            }
        }
        touched[index].former.note(nil) { cells in
            for place in 3..<arguments.count { Cell.append(arguments[place], to: &cells) }
        }
    }

    // MARK: The result

    /// The rows that differ from what they were before, as a delta. Inside the transaction of the commit.
    ///
    /// - Parameter note: Called for each changed table, with what its digest grows by.
    /// - Throws: ``SyncError`` `.nullKey`, `.inexactText`
    func delta(
        _ db: Database, _ key: RepositoryKey, note: (TrackedTable, RowDigest) throws -> Void
    ) throws -> Delta {
        var deltas: [TableDelta] = []
        for entry in touched {
            if entry.hasNullKey { try entry.table.requireKeys(in: db) }
            let (delta, digest) = try delta(of: entry, db, key)
            guard !delta.changes.isEmpty else { continue }
            deltas.append(delta)
            try note(entry.table, digest)
        }
        return try Delta(deltas)
    }

    /// The rows are visited in the order of their keys, which is that of a delta.
    private func delta(
        of entry: Touched, _ db: Database, _ key: RepositoryKey
    ) throws -> (TableDelta, RowDigest) {
        let table = entry.table.table
        let (keys, rows) = entry.former.inOrder()
        var (changes, digest) = (Changes(), RowDigest())
        func note(_ old: DeltaRecord?, _ new: DeltaRecord?) throws {
            guard try changes.append(old, new, of: table) else { return }
            if let old { try digest.remove(old, key) }
            if let new { try digest.add(new, key) }
        }
        var unexpected: Set<RowKey> = []
        let texts = try ConvertibleTexts(of: entry.table, in: db)
        try PresentRows(entry.table, in: db).forEach(keys) { place, present in
            if present != nil || rows[place] == nil { try texts?.require(keys[place], present: present != nil) }
            let presentKey = present.map(table.key)
            let isSame = presentKey == keys[place]
            try note(rows[place], isSame ? present : nil)
            // SQLite has converted the key when it stored the row; or the keys are the same to it, as 0.0 and -0.0 are.
            if let presentKey, !isSame, !entry.former.contains(presentKey), unexpected.insert(presentKey).inserted {
                try note(nil, present)
            }
        }
        let all = changes.inOrder
        if !unexpected.isEmpty { return (try TableDelta(table: table, changes: all), digest) }
        return (TableDelta(canonical: all, of: table), digest)
    }

    /// The changes of a table, each kind in the order of its keys.
    private struct Changes {
        private var deletions: [RowChange] = []
        private var updates: [RowChange] = []
        private var insertions: [RowChange] = []

        /// Adds the change of a row from one state to another, which are whole and have a key.
        ///
        /// - Returns: Whether there is one.
        mutating func append(_ old: DeltaRecord?, _ new: DeltaRecord?, of table: DeltaTable) throws -> Bool {
            switch (old, new) {
            case (nil, nil): return false
            case (let old?, nil): deletions.append(.delete(old))
            case (nil, let new?): insertions.append(.insert(new))
            case (_?, _?):
                guard let change = try table.change(from: old, to: new) else { return false }
                updates.append(change)
            }
            return true
        }

        /// In the order of the kinds.
        var inOrder: [RowChange] {
            if deletions.isEmpty && updates.isEmpty { return insertions }
            return deletions + updates + insertions
        }
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
