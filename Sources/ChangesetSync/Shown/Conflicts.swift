import CipherDatabase

/// A row that the program's table does not show as it was written.
struct Conflict: Sendable {
    let table: Name
    let key: [CellValue]
    let reason: HiddenReason
    /// The columns of the program, as they were written, and the local defaults of the others.
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
        guard let definition = table.local,
            let candidate = try Candidate(place, base.state(place), table, base.index)
        else { return nil }
        func named(_ values: [CellValue]) -> [String: CellValue] {
            Dictionary(zip(definition.columns.map(\.name), values), uniquingKeysWith: { first, _ in first })
        }
        let shown = try base.presentRow(place)
        if shown == candidate.values { return nil }
        return Conflict(
            table: table.name, key: place.key.values, reason: reason, written: named(candidate.values),
            shown: shown.map(named))
    }
}
