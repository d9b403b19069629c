import CipherDatabase

/// Makes the parts of a checkpoint one after the other, in several transactions: the state of a commit does not change,
/// though the rows do. Beside what has changed since the commit it keeps some parts and a bounded number of keys.
struct CheckpointParts {
    /// A part that is full.
    struct Part: Sendable {
        let number: Int
        let bytes: [UInt8]
    }

    private let node: CommitNode
    private let key: RepositoryKey
    private let schema: SchemaID
    /// The digests that tables have at the commit, as far as commits name them.
    private let expected: [String: RowDigest]
    private let keysAtOnce: Int
    private var former: FormerState?

    // Where it is.
    private var table = 0
    private var keys: KeyRun
    private var position = 0
    private var last: RowKey?
    private var (digest, tableRows) = (RowDigest(), 0)

    private(set) var digests: [TableDigest] = []
    private(set) var ids: [ObjectID] = []
    private(set) var rowCount: UInt64 = 0
    private var part = OpenPart()
    private var full: [Part] = []

    init(
        _ transaction: RepositoryTransaction, at node: CommitNode, keysAtOnce: Int = Limits.checkpointKeys
    ) throws {
        (self.node, key, schema) = (node, transaction.key, transaction.tables.schema)
        self.keysAtOnce = keysAtOnce
        keys = KeyRun(after: nil, limit: keysAtOnce)
        expected = try Pull.digests(
            of: Set(transaction.tables.all.map(\.name)), at: node, transaction, CommitGraph(transaction.store))
    }

    /// The next parts, as many as are stored at once; none when all were made.
    ///
    /// - Throws: ``SyncError`` `.digestMismatch` where the rows are not those of the commits; `.checkpointPending` where the
    ///   commit is gone, or the tables have another schema.
    mutating func next(_ transaction: RepositoryTransaction) throws -> [Part] {
        guard try transaction.store.node(node.id)?.n == node.n, transaction.tables.schema == schema else {
            throw SyncError(.checkpointPending, commit: node.id)
        }
        try bringUpToDate(transaction)
        let tables = transaction.tables.all
        while table < tables.count, full.count < Limits.checkpointPartsAtOnce {
            if position == keys.count { try readKeys(tables[table], transaction.db) }
            if keys.count == 0 { try endTable(tables[table]) } else { try readRows(tables[table], transaction.db) }
        }
        if table == tables.count { try endPart() }
        defer { full = [] }
        return full
    }

    /// What the rows were at the commit, as far as that has changed.
    private struct FormerState {
        let head: Int64?
        let rows: [String: [RowKey: DeltaRecord?]]
    }

    private mutating func bringUpToDate(_ transaction: RepositoryTransaction) throws {
        let head = transaction.state.head
        if let former, former.head == head { return }
        var composer = PathComposer(transaction.store, transaction.tables)
        let graph = CommitGraph(transaction.store)
        guard let steps = try graph.path(from: node.n, to: head ?? node.n) else {
            throw SyncError(.checkpointPending, commit: node.id)
        }
        do {
            for step in steps { try composer.add(step) }
            let tables = transaction.tables
            var view = try StateView(TableRows(transaction.db), tables, delta: composer.result().inverted)
            let rows = try tables.all.map { ($0.name, try view.differingRows(of: $0)) }
            former = FormerState(head: head, rows: Dictionary(uniqueKeysWithValues: rows))
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }

    // MARK: Rows

    /// Finds the next keys that the table has at the commit, in their order.
    private mutating func readKeys(_ table: TrackedTable, _ db: Database) throws {
        let changed = former?.rows[table.name] ?? [:]
        while true {
            var run = KeyRun(after: last, limit: keysAtOnce)
            for case (let key, .some) in changed { run.add(key.cells) }
            var end: RowKey?
            if table.rowsOfKeys != nil {
                end = try addIntegers(&run, table, changed, db)
            } else {
                let columns = table.table.keyColumns.map(table.quoted).joined(separator: ", ")
                let statement = try db.makeStatement(sql: "SELECT \(columns) FROM \(table.qualifiedName)")
                try statement.forEachRecord { run.add($0.bytes, unlessIn: changed) }
            }
            run.sort(through: end)
            (keys, position) = (run, 0)
            // All rows up to there are newer than the commit.
            guard run.count == 0, let end else { return }
            last = end
        }
    }

    /// Adds the next keys of a table that has its rows in their order: first those that are not negative.
    ///
    /// - Returns: Up to which key all were added; nil where these are all.
    private func addIntegers(
        _ run: inout KeyRun, _ table: TrackedTable, _ changed: [RowKey: DeltaRecord?], _ db: Database
    ) throws -> RowKey? {
        let column = table.quoted(table.table.keyColumns[0])
        let statement = try db.cachedStatement(
            sql: "SELECT \(column) FROM \(table.qualifiedName) WHERE \(column) BETWEEN ? AND ? "
                + "ORDER BY \(column) LIMIT \(keysAtOnce)")
        let value = last?.integer
        var ranges: [ClosedRange<Int64>] = []
        if value ?? 0 >= 0, value != .max { ranges.append((value.map { $0 + 1 } ?? 0)...Int64.max) }
        if value != -1 { ranges.append((value.map { $0 < 0 ? $0 + 1 : .min } ?? .min)...(-1)) }
        for range in ranges {
            var (count, end) = (0, RowKey?.none)
            try statement.setExactArguments([.integer(range.lowerBound), .integer(range.upperBound)])
            try statement.forEachRecord { record in
                run.add(record.bytes, unlessIn: changed)
                (count, end) = (count + 1, RowKey(cells: record.bytes))
            }
            if count == keysAtOnce { return end }
        }
        return nil
    }

    /// Reads rows until some parts are full, or all keys that are known were looked up.
    private mutating func readRows(_ table: TrackedTable, _ db: Database) throws {
        let changed = former?.rows[table.name] ?? [:]
        let present = try PresentRows(table, in: db)
        while position < keys.count, full.count < Limits.checkpointPartsAtOnce {
            let end = min(position + Limits.checkpointLookups, keys.count)
            var wanted: [RowKey] = []
            func readWanted() throws {
                try present.forEach(wanted) { place, row in
                    // A row that is gone, or has a key that is only equal, shows in the digest.
                    guard let row, table.table.key(of: row) == wanted[place] else { return }
                    try append(row, of: table)
                }
                wanted = []
            }
            for index in position..<end {
                let key = keys[index]
                guard let former = changed[key] else {
                    wanted.append(key)
                    continue
                }
                try readWanted()
                if let former { try append(former, of: table) }
            }
            try readWanted()
            (position, last) = (end, keys[end - 1])
        }
    }

    private mutating func endTable(_ table: TrackedTable) throws {
        guard expected[table.name] ?? digest == digest else { throw SyncError(.digestMismatch, table: table.name) }
        if tableRows > 0, let entry = TableDigest(table: table.name, bytes: digest.bytes) { digests.append(entry) }
        (self.table, last, digest, tableRows) = (self.table + 1, nil, RowDigest(), 0)
        part.endTable()
    }

    // MARK: Parts

    /// A part to which rows are added: another one begins where it is full.
    private struct OpenPart {
        private(set) var tables: [TableDelta] = []
        private var table: DeltaTable?
        private var changes: [RowChange] = []
        private(set) var (bytes, rows) = (0, 0)

        mutating func add(_ record: DeltaRecord, of next: DeltaTable) {
            if table != next { endTable() }
            table = next
            changes.append(.insert(record))
            (bytes, rows) = (bytes + record.bytes.count, rows + 1)
        }

        mutating func endTable() {
            // They come in the order of their keys.
            if let table, !changes.isEmpty { tables.append(TableDelta(canonical: changes, of: table)) }
            (table, changes) = (nil, [])
        }
    }

    private mutating func append(_ record: DeltaRecord, of table: TrackedTable) throws {
        let isFull =
            part.rows == Limits.checkpointPartRows || part.bytes + record.bytes.count > Limits.checkpointPartBytes
        if isFull { try endPart() }
        part.add(record, of: table.table)
        try digest.add(record, key)
        (rowCount, tableRows) = (rowCount + 1, tableRows + 1)
    }

    private mutating func endPart() throws {
        if part.rows == 0 { return }
        part.endTable()
        let made = CheckpointPart(commit: node.id, number: UInt32(ids.count), rows: try Delta(part.tables))
        let encoded = made.encoded()
        full.append(Part(number: ids.count, bytes: encoded))
        ids.append(try encoded.withUnsafeBytes { try key.commitID(of: $0) })
        part = OpenPart()
    }
}

/// The least keys of a table after one of them, as many as are kept at once, in memory that they share.
private struct KeyRun {
    private let last: RowKey?
    private let limit: Int
    private var cells: [UInt8] = []
    private var ranges: [Range<Int>] = []

    init(after last: RowKey?, limit: Int) { (self.last, self.limit) = (last, limit) }

    var count: Int { ranges.count }

    subscript(index: Int) -> RowKey { RowKey(cells: cells[ranges[index]]) }

    mutating func add(_ key: ArraySlice<UInt8>) {
        if let last, ByteOrder.compare(key, last.cells) <= 0 { return }
        let start = cells.count
        cells.append(contentsOf: key)
        ranges.append(start..<cells.count)
        if ranges.count >= 2 * limit { sort() }
    }

    /// Adds the key of a row, unless what the row was is known.
    mutating func add(_ key: ArraySlice<UInt8>, unlessIn changed: [RowKey: DeltaRecord?]) {
        if changed.isEmpty || changed.index(forKey: RowKey(cells: key)) == nil { add(key) }
    }

    /// Puts the keys in their order, and forgets those that are too many.
    ///
    /// - Parameter end: The last key; nil for all.
    mutating func sort(through end: RowKey? = nil) {
        if let end { ranges.removeAll { ByteOrder.compare(cells[$0], end.cells) > 0 } }
        let (former, all) = (cells, ranges)
        var isSorted = true
        former.withUnsafeBytes { bytes in
            func compare(_ left: Range<Int>, _ right: Range<Int>) -> Int {
                ByteOrder.compare(
                    UnsafeRawBufferPointer(rebasing: bytes[left]), UnsafeRawBufferPointer(rebasing: bytes[right]))
            }
            isSorted = zip(all, all.dropFirst()).allSatisfy { compare($0, $1) < 0 }
            if !isSorted { ranges.sort { compare($0, $1) < 0 } }
        }
        if isSorted && ranges.count <= limit { return }
        ranges = Array(ranges.prefix(limit))
        cells = []
        cells.reserveCapacity(former.count)
        for index in ranges.indices {
            let start = cells.count
            cells.append(contentsOf: former[ranges[index]])
            ranges[index] = start..<cells.count
        }
    }
}
