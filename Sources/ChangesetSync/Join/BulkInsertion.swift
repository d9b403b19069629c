import CipherDatabase

/// Rows of one table that one commit inserts, between keys of which nothing is stored.
///
/// They need no ``KeyState``: each is one statement that inserts it, and their stamps are one range. A row that the table does
/// not take is joined as any other row.
struct BulkInsertion {
    private let commit: Int64
    private let table: BaseTable
    private let definition: TableDefinition
    private let shape: Int64
    /// The places of the columns that are written, in the order of the cells.
    private let places: [Int]
    private let rows: PlainRows
    private let writer: RowWriter
    private let history: ShownHistory

    /// - Parameter columns: The columns of the cells of each row.
    /// - Returns: nil if the rows need more: columns that are not here, or counters.
    init?(_ work: Work, commit: Int64, table: Int64, columns: [Int64], writer: RowWriter) throws {
        let table = try work.catalog.table(table)
        guard let definition = table.local, !table.hasCounters else { return nil }
        let places = columns.compactMap { table.columns[$0]?.place }
        guard places.count == columns.count else { return nil }
        (self.commit, self.table, self.definition, self.places) = (commit, table, definition, places)
        shape = try work.catalog.shape(columns.sorted())
        rows = work.base.stored.plainRows(table)
        self.writer = writer
        history = work.history
    }

    /// Inserts a row into the program's table.
    ///
    /// - Returns: Whether the table took it as it is.
    func insert(_ write: LocalWrite) throws -> Bool {
        let key = write.place.key.values
        guard key.count == definition.keyColumns.count else { return false }
        var values = definition.columns.map(\.defaultValue)
        for (column, value) in zip(definition.keyColumns, key) { values[column] = value }
        for (place, cell) in zip(places, write.cells) { values[place] = cell.value }
        if zip(definition.columns, values).contains(where: { $0.affinity.converts($1) }) { return false }
        do {
            try writer.insert(values, into: definition)
        } catch let error as DatabaseError {
            _ = try RowWriter.reason(error)
            return false
        }
        try setStamps(of: write.place.key)
        try history.noteInserted(table.n, write.place.key, values)
        return true
    }

    /// Stores the stamps of a row that the program's table has.
    func setStamps(of key: RowKey) throws {
        let birth = LocalStamp(era: 0, commit: commit)
        let stamps = PlainStamps(incarnation: commit, era: 0, born: birth, shape: shape)
        try rows.set(stamps, of: key, isNew: true)
    }
}

extension Work {
    /// Whether the writes insert rows of one table by ascending keys, and nothing of these keys is stored or in work.
    func isBulk(_ writes: [LocalWrite]) throws -> Bool {
        guard writes.count > 1, let first = writes.first, let last = writes.last, !base.isInWork(first.place.table),
            writes.allSatisfy({ $0.isPlainInsertion && $0.place.table == first.place.table }),
            writes.allSatisfy({ $0.cells.count == first.cells.count }),
            zip(writes, writes.dropFirst()).allSatisfy({ $0.place.key < $1.place.key })
        else { return false }
        return try base.stored.lookAhead(first.place.table, from: first.place.key, to: last.place.key)
    }

    /// Joins insertions of a commit of another store.
    ///
    /// - Returns: The writes that have to be joined one by one.
    func insertBulk(_ writes: [LocalWrite], _ commit: Int64) throws -> [LocalWrite] {
        guard let first = writes.first, references.ofChild[first.place.table] == nil, try !hasLinks(),
            let bulk = try BulkInsertion(
                self, commit: commit, table: first.place.table, columns: first.cells.map(\.column), writer: writer)
        else { return writes }
        let columns = first.cells.map(\.column)
        let rest = try writes.filter { write in
            try write.cells.map(\.column) != columns || !bulk.insert(write)
        }
        if rest.count < writes.count { base.stored.forgetLookAhead(first.place.table) }
        return rest
    }

    func hasLinks() throws -> Bool { try Links(db: db, catalog: catalog, references: references).hasAny() }
}

extension LocalWrite {
    /// Whether it is an insertion without stamps of others.
    fileprivate var isPlainInsertion: Bool {
        kind == .insert && era == 0 && steps.isEmpty && seen.isEmpty && copied == nil && revives.isEmpty
    }
}
