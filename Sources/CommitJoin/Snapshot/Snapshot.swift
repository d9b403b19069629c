/// The state of a store: its vector, the living rows with their stamps, and the young tombstones.
///
/// Any member who may write makes one at any time. Numbers of commits, tables and columns are those of its maker.
package struct Snapshot: Sendable {
    /// A commit by name, with what the order of stamps needs.
    struct NamedCommit: Sendable {
        let n: Int64
        let author: ReplicaID
        let number: UInt64
        /// The whole hash, or its tag if only that is known.
        let hash: [UInt8]
        let parent: Int64?
        let time: HybridTime
        let beginsBranch: Bool
    }

    struct Key: Sendable {
        let table: Int64
        let key: RowKey
        let rows: [Int64: BaseRow]
        let dead: [Int64: Tombstone]
    }

    var commits: [NamedCommit] = []
    var tables: [Int64: Name] = [:]
    var columns: [Int64: (table: Int64, id: ColumnID)] = [:]
    /// The tips.
    var vector: [Int64] = []
    /// The knowledge of the authors of the tips: the contexts of the next commits are differences to it.
    var contexts: [Int64: [Int64]] = [:]
    var time = HybridTime(rawValue: 0)
    var removed: [Int64: [Int64]] = [:]
    /// The names of removed members.
    var authors: [Int64: ReplicaID] = [:]
    /// By the names of tables and by keys.
    var keys: [Key] = []
}

/// A snapshot of which some keys are joined, with the numbers of this store.
struct JoiningSnapshot {
    let snapshot: Snapshot
    let numbers: Translation
    let vector: LocalVector
    /// The last key that is joined.
    var last: (table: Name, key: RowKey)?
    /// How many keys of the snapshot are joined.
    var position = 0
}

/// The numbers of this store for those of a snapshot.
struct Translation {
    var commits: [Int64: Int64] = [:]
    var tables: [Int64: Int64] = [:]
    var columns: [Int64: Int64] = [:]

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
        for (column, sums) in row.sums {
            for (source, sum) in sums {
                let source = BaseRow.Source(origin: try commit(source.origin), branch: try commit(source.branch))
                own.sums[try self.column(column), default: [:]][source] = BaseRow.Sum(
                    last: try commit(sum.last), total: sum.total)
            }
        }
        return own
    }

    func tombstone(_ tombstone: Tombstone, _ index: CommitIndex) throws -> Tombstone {
        var own = Tombstone(
            known: try LocalVector(tombstone.known.all.map(commit), index), seen: Set(try tombstone.seen.map(commit)),
            owed: Set(try tombstone.owed.map(commit)))
        own.row = try tombstone.row.map(row)
        own.late = try tombstone.late.map { late in
            BaseWrite(
                stamp: try stamp(late.stamp), cells: try late.cells.map { (try column($0.column), $0.value) },
                steps: try late.steps.map { (try column($0.column), $0.step) })
        }
        return own
    }
}
