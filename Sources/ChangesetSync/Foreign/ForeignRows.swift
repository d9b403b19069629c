import CipherDatabase

/// Rows of one table that were written outside of commits, as changes from what the base has to what the table has.
///
/// | base | table | change |
/// |---|---|---|
/// | nothing, or a hidden row | a row | insertion |
/// | a shown row | no row | deletion |
/// | a shown row | a row | update of the columns that were written |
struct ForeignRows {
    private let work: Work
    private let table: BaseTable
    private let definition: TableDefinition
    /// Reads the base without putting anything into work.
    private let base: Base
    private let hasLinks: Bool

    init(_ work: Work, _ table: BaseTable, _ definition: TableDefinition) throws {
        (self.work, self.table, self.definition) = (work, table, definition)
        base = Base(work.db, work.index, work.catalog)
        hasLinks = try work.hasLinks()
    }

    /// A row with its key, as the table and the base have it.
    private struct Found {
        let place: RowPlace
        let columns: ForeignWrites.Columns
        let present: [CellValue]?
        /// The row of the base; nil if there is none.
        let row: BaseRow?
        let isAside: Bool
        let isHidden: Bool
    }

    /// Finds what has changed of rows with these keys.
    func append(_ keys: ForeignWrites.Keys, to changes: inout ForeignChanges) throws {
        let found = try keys.sorted { $0.key < $1.key }.map { try find($0.key, $0.value) }
        // The values of plain rows are in the table alone, which has others now. A commit that many rows name is read once.
        let lost = found.filter { row in
            guard row.row != nil, !row.isAside else { return false }
            guard let present = row.present, let columns = row.columns else { return true }
            return hasLinks && !columns.isEmpty || present.indices.contains { mayHaveOtherSign(present, $0) }
        }
        let former = try FormerValues(work).read(lost.compactMap { row in row.row.map { (row.place, $0) } })
        for row in found { try append(row, former[row.place] ?? [:], to: &changes) }
    }

    private func find(_ key: RowKey, _ columns: ForeignWrites.Columns) throws -> Found {
        let place = RowPlace(table: table.n, key: key)
        let present = try base.tableRow(place)
        // The base takes the values of a plain row from the table.
        base.noteForeign(place, present ?? emptyRow(key))
        let row = try base.state(place).merged(work.index)
        let isAside = try base.wasAside(place)
        return Found(
            place: place, columns: columns, present: present, row: row, isAside: isAside,
            isHidden: try isAside && isHidden(place))
    }

    private func emptyRow(_ key: RowKey) -> [CellValue] {
        var row = [CellValue](repeating: .null, count: definition.columns.count)
        for (column, value) in zip(definition.keyColumns, key.values) { row[column] = value }
        return row
    }

    private func isHidden(_ place: RowPlace) throws -> Bool {
        let reason = try work.db.cachedStatement(
            sql: "SELECT max(reason) FROM \(EngineTables.aside) WHERE tbl = ? AND key = ?"
        ).first([.integer(place.table), ExactValue(place.key.stored)]) { $0.integer(0) }
        return reason.flatMap(HiddenReason.init)?.isHidden ?? false
    }

    /// Whether a value is a zero whose sign may have changed, which the triggers of the change history do not see: SQLite takes
    /// 0.0 and -0.0 for equal. Columns with another type store no negative zero.
    private func mayHaveOtherSign(_ row: [CellValue], _ place: Int) -> Bool {
        guard case .real(let number) = row[place], case .none = definition.columns[place].affinity else { return false }
        return number == 0
    }

    private func append(_ found: Found, _ former: [Int64: CellValue], to changes: inout ForeignChanges) throws {
        guard let row = found.row, !found.isHidden else {
            if let present = found.present { changes.append(table: definition.name, nil, present) }
            return
        }
        var old = found.present ?? emptyRow(found.place.key)
        var (unknown, hasChanged) = (Set<Int64>(), false)
        for (place, column) in table.columnsOfPlaces.enumerated() {
            guard let column else { continue }
            guard let present = found.present else {
                if let value = known(column, row, former, found) {
                    old[place] = value
                } else {
                    unknown.insert(column.n)
                }
                continue
            }
            if found.columns?.contains(place) == false {
                guard mayHaveOtherSign(present, place), let value = known(column, row, former, found),
                    case .real(let number) = value, number == 0, value != present[place]
                else { continue }
                (old[place], hasChanged) = (value, true)
                continue
            }
            // A value that is not known is another one.
            let value = known(column, row, former, found) ?? (present[place].isNull ? .integer(0) : .null)
            if value != present[place] { (old[place], hasChanged) = (value, true) }
        }
        if found.present == nil {
            if !unknown.isEmpty { changes.unknown[found.place] = unknown }
        } else if !hasChanged {
            return
        }
        changes.append(table: definition.name, old, found.present)
    }

    /// The value that the table had before; nil if nobody knows it.
    private func known(
        _ column: BaseColumn, _ row: BaseRow, _ former: [Int64: CellValue], _ found: Found
    ) -> CellValue? {
        if column.isCounter {
            guard let place = column.place, let count = row.count(of: column.n) else {
                return row.cells[column.n]?.value
            }
            return definition.columns[place].affinity.stored(count)
        }
        guard let cell = row.cells[column.n] else {
            return column.place.map { definition.columns[$0].defaultValue }
        }
        return found.isAside ? cell.value : former[column.n]
    }
}

extension ForeignChanges {
    fileprivate mutating func append(table: String, _ old: [CellValue]?, _ new: [CellValue]?) {
        rows.append(ProgramChange(table: table, old: old, new: new))
    }
}
