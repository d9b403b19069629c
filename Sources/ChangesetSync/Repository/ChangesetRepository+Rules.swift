import CipherDatabase

/// The rules of tables.
extension ChangesetRepository {
    /// Sets the rules of a table for all devices, by a commit. Of concurrent settings the later one counts.
    ///
    /// A column that becomes a counter keeps its values: the commit adds them to the counters of its rows. So one device
    /// makes a column a counter, before others write it or do the same: each of two devices would add the values.
    ///
    /// - Parameters:
    ///   - counters: Columns of integers whose changes are added up. A column stays a counter once it is one.
    ///   - deletionsWin: Whether a deletion wins over a concurrent update. Otherwise the update brings the row back.
    /// - Throws: ``EngineError`` `.unsuitableTable` if the table is not tracked or lacks a column, `.insideTransaction`;
    ///   `DatabaseError`.
    public func setRules(of table: String, counters: Set<String> = [], deletionsWin: Bool = false) throws {
        try working { work in
            guard let known = work.catalog.local(table), let local = known.local else {
                throw EngineError(.unsuitableTable, table)
            }
            let columns = try counters.map { name in
                guard let place = local.column(named: name), let column = known.columnsOfPlaces[place] else {
                    throw EngineError(.unsuitableTable, table)
                }
                return column
            }
            let policy = TablePolicy(table: known.name, counters: columns.map(\.id), deletionsWin: deletionsWin)
            let writes = try work.firstSteps(of: columns.filter { !$0.isCounter }, in: known, local)
            try work.commit(writes, events: [.policy(policy)])
        }
    }
}

extension Work {
    private static let batch = 1_000

    /// The writes that give the counters of each row the values that its columns have.
    fileprivate func firstSteps(
        of columns: [BaseColumn], in table: BaseTable, _ local: TableDefinition
    ) throws -> [LocalWrite] {
        var writes: [LocalWrite] = []
        var last: RowKey?
        while !columns.isEmpty {
            let rows = try self.rows(of: local, after: last, limit: Self.batch)
            for row in rows {
                let place = RowPlace(table: table.n, key: local.key(of: row))
                let steps = columns.compactMap { column -> (column: Int64, step: Int64)? in
                    guard let place = column.place, let step = Self.count(row[place]) else { return nil }
                    return (column.n, step)
                }
                let incarnations = try base.state(place).rows.keys.map { ($0, try index.entry($0).dot) }
                guard !steps.isEmpty, let latest = incarnations.max(by: { $0.1 < $1.1 })?.0 else { continue }
                writes.append(LocalWrite(kind: .update, place: place, incarnation: latest, steps: steps))
            }
            guard let end = rows.last else { break }
            last = local.key(of: end)
        }
        return writes
    }

    /// NULL and what is no number count as nothing.
    private static func count(_ value: CellValue) -> Int64? {
        switch value {
        case .integer(let number): number == 0 ? nil : number
        case .real(let number): Int64(exactly: number.rounded()).flatMap { $0 == 0 ? nil : $0 }
        default: nil
        }
    }
}
