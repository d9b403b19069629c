import CipherDatabase

/// Compares all rows of a table with the base, if the change history does not have the keys of what was written.
///
/// The base has stamps of plain rows, and no values: these are compared with what the commits wrote that the stamps name. A
/// value of a commit that a snapshot stands for cannot be compared, and counts as unchanged. So does a row that is not plain:
/// the table may show it otherwise. Of such a row only columns are compared that no commit has written: the program has
/// renamed a column, or added one and filled it.
struct TableComparison {
    private let work: Work
    private let table: BaseTable
    private let definition: TableDefinition
    private static let batch = 1_000

    init(_ work: Work, _ table: BaseTable, _ definition: TableDefinition) {
        (self.work, self.table, self.definition) = (work, table, definition)
    }

    /// The keys of rows that differ, or may.
    func keys() throws -> ForeignWrites.Keys {
        var keys: ForeignWrites.Keys = [:]
        try readTable(&keys)
        try readBase(&keys)
        try readCommits(&keys)
        return keys
    }

    /// Rows that the base lacks, and columns that no commit has written.
    private func readTable(_ keys: inout ForeignWrites.Keys) throws {
        let rows = work.base.stored.plainRows(table)
        var last: RowKey?
        while true {
            let batch = try work.rows(of: definition, after: last, limit: Self.batch)
            // A base keeps each key that it has read in memory.
            let base = Base(work.db, work.index, work.catalog)
            for row in batch {
                let key = definition.key(of: row)
                if key.values.contains(where: \.isNull) { continue }
                guard let stamps = try rows.stamps(of: key) else {
                    let place = RowPlace(table: table.n, key: key)
                    if try !work.isStored(place) {
                        keys.updateValue(nil, forKey: key)
                    } else if let written = try written(place, base) {
                        let other = otherColumns(row, written)
                        if !other.isEmpty { keys.updateValue(other, forKey: key) }
                    }
                    continue
                }
                let written = Set(try work.catalog.columns(ofShape: stamps.shape)).union(stamps.others.keys)
                let other = otherColumns(row, written)
                if !other.isEmpty { keys.updateValue(other, forKey: key) }
            }
            guard let end = batch.last else { return }
            last = definition.key(of: end)
        }
    }

    /// The places of columns that no commit has written, and that have another value than the default.
    private func otherColumns(_ row: [CellValue], _ written: Set<Int64>) -> Set<Int> {
        Set(
            table.columnsOfPlaces.indices.filter { place in
                guard let column = table.columnsOfPlaces[place], !column.isCounter, !written.contains(column.n) else {
                    return false
                }
                return row[place] != definition.columns[place].defaultValue
            })
    }

    /// The columns that commits have written of a row that is not plain and shown; nil if it may be shown otherwise.
    private func written(_ place: RowPlace, _ base: Base) throws -> Set<Int64>? {
        let reason = try work.db.cachedStatement(
            sql: "SELECT max(reason) FROM \(EngineTables.aside) WHERE tbl = ? AND key = ?"
        ).first([.integer(place.table), ExactValue(place.key.stored)]) { $0.optionalInteger(0) }
        guard let number = reason ?? nil, HiddenReason(rawValue: number) == .composed,
            let row = try base.state(place).merged(work.index)
        else { return nil }
        return Set(row.cells.keys).union(row.unknown.keys).union(row.sums.keys)
    }

    /// Rows that the table lacks.
    private func readBase(_ keys: inout ForeignWrites.Keys) throws {
        let rows = work.base.stored.plainRows(table)
        let base = Base(work.db, work.index, work.catalog)
        var last: RowKey?
        while true {
            let batch = try rows.keys(after: last, limit: Self.batch)
            for key in batch where try base.tableRow(RowPlace(table: table.n, key: key)) == nil {
                keys.updateValue(nil, forKey: key)
            }
            guard let end = batch.last else { return }
            last = end
        }
    }

    /// Values that are others than the commits wrote.
    private func readCommits(_ keys: inout ForeignWrites.Keys) throws {
        var commits: [Int64] = []
        try work.db.cachedStatement(sql: "SELECT n FROM \(EngineTables.commit) WHERE body IS NOT NULL ORDER BY n")
            .forEach([]) { commits.append($0.integer(0)) }
        let rows = work.base.stored.plainRows(table)
        let base = Base(work.db, work.index, work.catalog)
        for n in commits {
            var last: (key: RowKey, stamps: PlainStamps?, shape: Set<Int64>, row: [CellValue]?)?
            try FormerValues.forEachCell(of: n, work) { place, column, value in
                guard place.table == table.n else { return }
                if last?.key != place.key {
                    let stamps = try rows.stamps(of: place.key)
                    let shape = Set(try stamps.map { try work.catalog.columns(ofShape: $0.shape) } ?? [])
                    last = (place.key, stamps, shape, try stamps.flatMap { _ in try base.tableRow(place) })
                }
                guard let last, let stamps = last.stamps, let row = last.row,
                    let index = table.columns[column]?.place, table.columns[column]?.isCounter == false
                else { return }
                let stamp = stamps.others[column] ?? (last.shape.contains(column) ? stamps.insertion : nil)
                guard stamp?.commit == n, row[index] != value else { return }
                guard let known = keys[place.key] else {
                    keys.updateValue([index], forKey: place.key)
                    return
                }
                if let known { keys.updateValue(known.union([index]), forKey: place.key) }
            }
        }
    }
}
