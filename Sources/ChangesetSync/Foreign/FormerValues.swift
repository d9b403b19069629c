import CipherDatabase

/// Values of cells as the commits wrote them that their stamps name: what a table had before somebody wrote other values.
///
/// A commit that many rows name is read once. Of a commit that a snapshot stands for, nothing is known.
struct FormerValues {
    private let work: Work

    init(_ work: Work) { self.work = work }

    /// - Returns: Values by the row and the number of the column.
    func read(_ rows: [(place: RowPlace, row: BaseRow)]) throws -> [RowPlace: [Int64: CellValue]] {
        var wanted: [Int64: [RowPlace: Set<Int64>]] = [:]
        for (place, row) in rows {
            for (column, cell) in row.cells {
                wanted[cell.stamp.commit, default: [:]][place, default: []].insert(column)
            }
        }
        var found: [RowPlace: [Int64: CellValue]] = [:]
        for (n, rows) in wanted {
            try Self.forEachCell(of: n, work) { place, column, value in
                if rows[place]?.contains(column) == true { found[place, default: [:]][column] = value }
            }
        }
        return found
    }

    /// Reads the cells that a commit wrote, row by row; none if its body is not here.
    static func forEachCell(
        of n: Int64, _ work: Work, _ body: (RowPlace, _ column: Int64, CellValue) throws -> Void
    ) throws {
        guard let commit = try work.commits.commit(n, in: work.state.repository) else { return }
        var last: (shape: WriteShape, table: Int64, columns: [Int64])?
        for write in commit.commit.writes where write.shape.kind != .delete {
            if last?.shape !== write.shape {
                let table = try work.catalog.number(of: write.shape.table)
                last = (write.shape, table, try write.shape.columns.map { try work.catalog.column($0, of: table) })
            }
            guard let last else { continue }
            let place = RowPlace(table: last.table, key: RowKey(write.key))
            for (column, value) in zip(last.columns, write.values.values) { try body(place, column, value) }
        }
    }
}
