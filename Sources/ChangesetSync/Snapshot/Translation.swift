/// The numbers of a snapshot for those of a store, or the other way round.
struct Translation {
    var commits: [Int64: Int64] = [:]
    var tables: [Int64: Int64] = [:]
    var columns: [Int64: Int64] = [:]
    var authors: [Int64: Int64] = [:]

    func commit(_ n: Int64) throws -> Int64 {
        guard let own = commits[n] else { throw EngineError(.unknownCommit) }
        return own
    }

    func column(_ n: Int64) throws -> Int64 {
        guard let own = columns[n] else { throw EngineError(.unknownCommit) }
        return own
    }

    func stamp(_ stamp: LocalStamp) throws -> LocalStamp {
        LocalStamp(era: stamp.era, commit: try commit(stamp.commit))
    }

    func row(_ row: BaseRow) throws -> BaseRow {
        var own = BaseRow(born: try stamp(row.born))
        for (column, cell) in row.cells {
            own.cells[try self.column(column)] = BaseRow.BaseCell(stamp: try stamp(cell.stamp), value: cell.value)
        }
        for (column, stamp) in row.unknown { own.unknown[try self.column(column)] = try self.stamp(stamp) }
        for (column, sums) in row.sums {
            for (source, sum) in sums {
                let source = BaseRow.Source(origin: try commit(source.origin), branch: try commit(source.branch))
                own.sums[try self.column(column), default: [:]][source] = BaseRow.Sum(
                    last: try commit(sum.last), total: sum.total)
            }
        }
        return own
    }

    /// A tombstone without what its deletions knew.
    func tombstone(_ tombstone: Tombstone) throws -> Tombstone {
        var own = Tombstone(
            seen: Set(try tombstone.seen.map(commit)), owed: Set(try tombstone.owed.map(commit)))
        own.row = try tombstone.row.map(row)
        own.late = try tombstone.late.map { late in
            BaseWrite(
                stamp: try stamp(late.stamp), cells: try late.cells.map { (try column($0.column), $0.value) },
                steps: try late.steps.map { (try column($0.column), $0.step) })
        }
        return own
    }
}
