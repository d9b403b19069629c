import CipherDatabase

/// The state of a store in names, for tests and reports.
struct Inspection {
    let work: Work

    struct Place: Sendable {
        let table: Name
        let key: [CellValue]
        let incarnation: Dot
    }

    struct LivingRow: Sendable {
        let place: Place
        let born: Stamp
        let cells: [ColumnID: (stamp: Stamp, value: CellValue)]
        let sums: [CopiedRow.Sum]
    }

    struct DeadRow: Sendable {
        let place: Place
        let owed: [Dot]
    }

    struct HiddenRow: Sendable {
        let table: Name
        let key: [CellValue]
        let reason: HiddenReason
    }

    func vector() throws -> VersionVector { try work.state.vector.vector(work.index) }
    func isAhead() throws -> Bool { try work.state.isAhead(work.index) }
    var time: HybridTime { work.state.time }
    func ready() throws -> [EncodedCommit] { try work.ready() }

    /// All living rows and tombstones of the base.
    func rows() throws -> (living: [LivingRow], dead: [DeadRow]) {
        var (living, dead) = ([LivingRow](), [DeadRow]())
        for place in try BaseKeys(db: work.db, catalog: work.catalog, stored: work.base.stored)
            .next(after: nil, limit: Int(Int32.max))
        {
            let state = try work.base.state(place)
            for (incarnation, row) in state.rows { living.append(try named(place, incarnation, row)) }
            for (incarnation, tombstone) in state.dead {
                dead.append(
                    DeadRow(
                        place: try named(place, incarnation),
                        owed: try tombstone.owed.map { try work.index.entry($0).dot }.sorted()))
            }
        }
        return (living, dead)
    }

    private func named(_ place: RowPlace, _ incarnation: Int64) throws -> Place {
        Place(
            table: try work.catalog.table(place.table).name, key: place.key.values,
            incarnation: try work.index.entry(incarnation).dot)
    }

    private func named(_ stamp: LocalStamp) throws -> Stamp {
        let entry = try work.index.entry(stamp.commit)
        return Stamp(era: stamp.era, time: entry.time, dot: entry.dot)
    }

    private func named(_ place: RowPlace, _ incarnation: Int64, _ row: BaseRow) throws -> LivingRow {
        let table = try work.catalog.table(place.table)
        var cells: [ColumnID: (stamp: Stamp, value: CellValue)] = [:]
        for (column, cell) in row.cells {
            guard let id = table.columns[column]?.id else { throw EngineError(.damagedStore) }
            cells[id] = (try named(cell.stamp), cell.value)
        }
        var sums: [CopiedRow.Sum] = []
        for (column, parts) in row.sums {
            guard let id = table.columns[column]?.id else { throw EngineError(.damagedStore) }
            for (source, sum) in parts {
                sums.append(
                    CopiedRow.Sum(
                        column: id, origin: try work.index.entry(source.origin).dot,
                        last: try work.index.entry(sum.last).dot, total: sum.total))
            }
        }
        return LivingRow(
            place: try named(place, incarnation), born: try named(row.born), cells: cells, sums: sums.sorted())
    }

    func conflicts() throws -> [Conflict] { try Conflicts(base: work.base).all() }

    /// The rows that are hidden, with the reason.
    func hidden() throws -> [HiddenRow] {
        var found: [(Int64, RowKey, HiddenReason)] = []
        try work.db.cachedStatement(sql: "SELECT DISTINCT tbl, key, reason FROM \(EngineTables.aside)").forEach([]) {
            row in
            guard let reason = HiddenReason(rawValue: row.integer(2)), reason.isHidden else { return }
            found.append((row.integer(0), RowKey(stored: row.bytes(1)), reason))
        }
        return try found.map {
            HiddenRow(table: try work.catalog.table($0.0).name, key: $0.1.values, reason: $0.2)
        }
    }
}
