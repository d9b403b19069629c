import CipherDatabase

/// Asks the closures of the policy, and checks what they return.
extension MergeState {
    /// What the resolver decides of a conflict.
    ///
    /// - Throws: What the resolver throws; ``SyncError`` `.resolverFailed`.
    func answer(
        _ question: RowMerge.Question, _ table: TrackedTable, _ key: RowKey, _ base: DeltaRecord?,
        _ rows: [DeltaRecord?]
    ) throws -> RowMerge.Answer {
        guard let resolve = rules.policy.resolve else { return .automatic }
        let names = table.table.columns
        let conflict = RowConflict(
            table: table.name, key: table.values(key), base: base.map(table.values), ours: rows[0].map(table.values),
            theirs: rows[1].map(table.values), column: question.column.map { names[$0] },
            columns: question.columns.map { names[$0] }, later: question.later, states: states)
        let known = rows + [base]
        switch try resolve(conflict) {
        case .automatic: return .automatic
        case .delete: return .delete
        case .row(let values): return .row(try record(values, table, key, known))
        case .value(let value):
            guard let column = question.column else {
                throw SyncError(
                    .resolverFailed, table: table.name, "It returned a value where one side has deleted the row.")
            }
            return .value(Self.cell(value, column, known))
        }
    }

    /// The values that a closure returned, as a record that says nothing of other columns.
    func record(
        _ values: [String: DatabaseValue], _ table: TrackedTable, _ key: RowKey, _ known: [DeltaRecord?]
    ) throws -> DeltaRecord {
        var cells = table.table.columns.map { _ in [Cell.undefined][...] }
        let keyValues = Dictionary(zip(table.table.keyColumns, key.values), uniquingKeysWith: { first, _ in first })
        for (name, value) in values {
            guard let column = table.index(ofColumn: name) else {
                throw SyncError(.resolverFailed, table: table.name, "The table has no column \"\(name)\".")
            }
            guard let keyValue = keyValues[column] else {
                cells[column] = Self.cell(value, column, known)
                continue
            }
            guard DeltaValue(value) == DeltaValue(keyValue.databaseValue) else {
                throw SyncError(.resolverFailed, table: table.name, "It changes the primary key.")
            }
        }
        return DeltaRecord(cells: cells)
    }

    /// The cell of a value. Where it is that of a row, its bytes are the same, also of a text that is not UTF-8.
    private static func cell(_ value: DatabaseValue, _ column: Int, _ known: [DeltaRecord?]) -> ArraySlice<UInt8> {
        let wanted = DeltaValue(value)
        for case let row? in known {
            let cell = row.cells[column]
            if DeltaValue(Cell.value(of: cell).databaseValue) == wanted { return cell }
        }
        return DeltaRecord(CollectionOfOne(wanted)).bytes
    }

    /// The row with other values, where the policy gives it some.
    ///
    /// - Parameter attempt: How many values were not free.
    /// - Throws: What the closure throws; ``SyncError`` `.resolverFailed`.
    func renamedRow(
        _ table: TrackedTable, _ key: RowKey, _ row: DeltaRecord, _ columns: [Int], attempt: Int
    ) throws -> DeltaRecord? {
        guard let rename = rules.policy.rename else { return nil }
        let duplicate = DuplicateRow(
            table: table.name, key: table.values(key), row: table.values(row),
            columns: columns.map { table.table.columns[$0] }, attempt: attempt, states: states)
        guard let values = try rename(duplicate) else { return nil }
        return try storedForm(table, key, row.replacing(by: try record(values, table, key, [row])))
    }
}
