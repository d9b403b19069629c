import CipherDatabase

/// A row that the program's table does not show as it was written.
struct Conflict: Sendable {
    let table: Name
    let key: [CellValue]
    let reason: HiddenReason
    /// The columns of the program, as they were written, and the local defaults of the others; for ``HiddenReason/otherKey``
    /// the written columns by their names in commits.
    let written: [String: CellValue]
    /// The shown value; nil if the row is hidden.
    let shown: [String: CellValue]?
}

/// Lists conflicts: they follow from the base and from what is shown.
struct Conflicts {
    let base: Base

    func all() throws -> [Conflict] {
        var rows: [(place: RowPlace, reason: HiddenReason)] = []
        try base.db.cachedStatement(
            sql: "SELECT DISTINCT tbl, key, reason FROM \(EngineTables.aside) ORDER BY tbl, key"
        )
        .forEach([]) { row in
            guard let reason = HiddenReason(rawValue: row.integer(2)) else { return }
            rows.append((RowPlace(table: row.integer(0), key: RowKey(stored: row.bytes(1))), reason))
        }
        return try rows.compactMap { try conflict($0.place, $0.reason) }
    }

    private func conflict(_ place: RowPlace, _ reason: HiddenReason) throws -> Conflict? {
        let table = try base.catalog.table(place.table)
        let state = try base.state(place)
        guard let definition = table.local else { return nil }
        func named(_ values: [CellValue]) -> [String: CellValue] {
            Dictionary(zip(definition.columns.map(\.name), values), uniquingKeysWith: { first, _ in first })
        }
        let shown = try base.presentRow(place)
        if Candidate.hasOtherKey(place, state, table) {
            return try otherKey(place, state, table, shown: shown.map(named))
        }
        guard let candidate = try Candidate(place, state, table, base.index) else { return nil }
        if shown == candidate.values { return nil }
        return Conflict(
            table: table.name, key: place.key.values, reason: reason, written: named(candidate.values),
            shown: shown.map(named))
    }

    /// A row that another member wrote under a key of other columns, by the names of its columns in commits.
    ///
    /// - Returns: nil if the program itself had the row under its former key, and has given its table another one.
    private func otherKey(
        _ place: RowPlace, _ state: KeyState, _ table: BaseTable, shown: [String: CellValue]?
    ) throws -> Conflict? {
        let own = Set(Candidate.rows(of: state, table).keys)
        let isOfArity = place.key.values.count == table.local?.keyColumns.count
        let others = state.rows.filter { !isOfArity || !own.contains($0.key) }.sorted { $0.key < $1.key }.map(\.value)
        guard others.contains(where: { $0.isNewer(than: table.dropped) }),
            let row = try BaseRow.merged(others, base.index)
        else { return nil }
        var written: [String: CellValue] = [:]
        for (n, cell) in row.cells { if let name = table.columns[n]?.id.name.text { written[name] = cell.value } }
        return Conflict(table: table.name, key: place.key.values, reason: .otherKey, written: written, shown: shown)
    }
}

extension BaseRow {
    /// Whether a commit has written the row that this store has joined after another one.
    ///
    /// - Parameter commit: The other one; nil for the beginning.
    func isNewer(than commit: Int64?) -> Bool {
        guard let commit else { return true }
        return born.commit > commit || dots.contains { $0 > commit }
    }
}
