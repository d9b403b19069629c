import CipherDatabase

/// Rows that the program has inserted into a table with a row id, of whose keys nothing is stored: they go from the table
/// into the bytes of the commit, and their stamps are ranges.
private struct InsertedRows {
    private(set) var encoder: WritesEncoder<[UInt8]>
    /// The keys of the rows that are there.
    private(set) var keys: [ClosedRange<Int64>] = []
    private let shape: WriteShape
    /// The places of the shape's columns in the program's table.
    private let places: [Int]
    private let keyPlace: Int

    init(_ table: BaseTable, _ definition: TableDefinition, author: ReplicaID) {
        encoder = WritesEncoder(author: author, into: [])
        let columns = table.writtenColumns.sorted { $0.id < $1.id }
        shape = WriteShape(.insert, table.name, keyCount: 1, columns: columns.map(\.id))
        places = columns.compactMap(\.place)
        keyPlace = definition.keyColumns[0]
    }

    mutating func append(_ row: LentRow, _ reader: PresentRows) throws {
        guard case .integer(let key) = row[keyPlace] else { throw EngineError(.damagedStore) }
        try encoder.appendInsertion(shape) { sink in
            sink.append(integerCell: key)
            for place in places { try reader.append(row, place, to: &sink) }
        }
        if let last = keys.last, last.upperBound < .max, last.upperBound + 1 == key {
            keys[keys.count - 1] = last.lowerBound...key
        } else {
            keys.append(key...key)
        }
    }
}

extension BaseTable {
    /// The columns of the program's table that an insertion writes.
    fileprivate var writtenColumns: [BaseColumn] { columnsOfPlaces.compactMap { $0 } }
}

extension Work {
    /// Whether a block has only inserted rows whose keys are stored as ranges.
    func canBeRanges(_ touched: Capture.Touched) throws -> Bool {
        let (table, keys) = (touched.table, touched.former.inserted)
        guard touched.definition.isRowID, let first = keys.first?.lowerBound, let last = keys.last?.upperBound,
            !table.hasCounters, references.ofChild[table.n] == nil || db.isConfiguredForForeignKeys,
            !base.isInWork(table.n), try !hasLinks()
        else { return false }
        return try base.stored.lookAhead(table.n, from: RowKey(first), to: RowKey(last))
    }

    func recordInsertions(_ touched: Capture.Touched, _ meta: String) throws -> EncodedCommit? {
        let table = touched.table
        defer { base.stored.forgetLookAhead(table.n) }
        var rows = InsertedRows(table, touched.definition, author: try index.authorID(state.author))
        let reader = PresentRows(touched.definition, db, isUTF16: try db.storesTextsInUTF16())
        for range in touched.former.inserted { try reader.forEach(in: range) { try rows.append($0, reader) } }
        if rows.keys.isEmpty { return nil }
        let shape = try catalog.shape(table.writtenColumns.map(\.n).sorted())
        if !recordedTables.contains(table.n) {
            for range in rows.keys { try history.noteInserted(table.n, range) }
        }
        return try commit(nextCommit(), Writes(rows.encoder), meta: meta) { n in
            for range in rows.keys { try base.stored.plainRows(table).insert(range, n, shape: shape) }
        }
    }
}
