import CipherDatabase

/// The rules of tables.
extension ChangesetRepository {
    /// Sets the rules of a table for all devices, by a commit. Of concurrent settings the later one counts.
    ///
    /// A column that becomes a counter keeps its values, and later changes are added to them. Several devices may make one
    /// column a counter at once. A device that does not know it yet sets the value, and changes by others are added to that.
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
            try work.commit([], events: [.policy(policy)])
        }
    }
}

extension Work {
    private static let batch = 1_000

    /// Adopts the rules of a table.
    ///
    /// - Parameter n: The commit that has set whether deletions win; nil if none has.
    func adopt(_ policy: TablePolicy, of n: Int64?) throws {
        let table = try catalog.number(of: policy.table)
        let former = try catalog.table(table)
        try catalog.apply(policy, of: n, index)
        let columns = try catalog.table(table).columns.values.filter {
            $0.isCounter && former.columns[$0.n]?.isCounter != true
        }
        if !columns.isEmpty { try keepCells(of: columns, in: catalog.table(table)) }
    }

    /// Keeps the cells of columns that become counters, of plain rows: the table will show them with the steps.
    private func keepCells(of columns: [BaseColumn], in table: BaseTable) throws {
        guard let local = table.local else { return }
        let stamps = base.stored.plainRows(table)
        var last: RowKey?
        while true {
            let rows = try self.rows(of: local, after: last, limit: Self.batch)
            for row in rows {
                let key = local.key(of: row)
                guard let stamp = try stamps.stamps(of: key) else { continue }
                let written = Set(try catalog.columns(ofShape: stamp.shape)).union(stamp.others.keys)
                for column in columns where written.contains(column.n) {
                    guard let place = column.place, case .integer(let value) = row[place] else { continue }
                    try base.stored.keepCell(
                        RowPlace(table: table.n, key: key), stamp.incarnation, column.n, value)
                }
            }
            guard let end = rows.last else { return }
            last = local.key(of: end)
        }
    }
}
