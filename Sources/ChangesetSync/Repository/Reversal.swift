import CipherDatabase

/// Rows as they would be without some commits, and the writes that make them so.
///
/// Only what these commits still own is written: what was changed later stays, and is listed.
struct Reversal {
    let work: Work
    /// The commits that are taken back.
    let commits: Set<Int64>
    private var writes: [LocalWrite] = []
    private(set) var kept: [KeptChange] = []
    /// The rows as the other commits have them.
    private var others: [RowPlace: [Int64: BaseRow]] = [:]
    /// Incarnations of which the insertion is forgotten: a cell that was not found may have had any value.
    private var partial: Set<Incarnation> = []

    private struct Incarnation: Hashable {
        let place: RowPlace
        let commit: Int64
    }

    init(_ work: Work, of commits: Set<Int64>) { (self.work, self.commits) = (work, commits) }

    /// - Throws: ``EngineError`` `.forgottenCommit` if a snapshot stands for one of the commits.
    mutating func makeWrites() throws -> [LocalWrite] {
        var places: [RowPlace] = []
        var touched: [RowPlace: [LocalWrite]] = [:]
        for n in commits.sorted() {
            guard let writes = try self.writes(of: n) else { throw EngineError(.forgottenCommit) }
            for write in writes {
                if touched[write.place] == nil { places.append(write.place) }
                touched[write.place, default: []].append(write)
            }
        }
        try readOthers(Set(places))
        for place in places { try undo(touched[place] ?? [], place) }
        return writes
    }

    private func writes(of n: Int64) throws -> [LocalWrite]? {
        guard let commit = try work.commits.commit(n, in: work.state.repository) else { return nil }
        let context = try work.commits.context(of: n)
        return try commit.commit.writes.map { try work.translator.local($0, in: context) }
    }

    // MARK: The other commits

    private mutating func readOthers(_ places: Set<RowPlace>) throws {
        var all: [Int64] = []
        try work.db.cachedStatement(sql: "SELECT n FROM \(EngineTables.commit) WHERE body IS NOT NULL ORDER BY n")
            .forEach([]) { all.append($0.integer(0)) }
        for n in all where !commits.contains(n) {
            for write in try writes(of: n) ?? [] where places.contains(write.place) { try replay(write, n) }
        }
    }

    private mutating func replay(_ write: LocalWrite, _ n: Int64) throws {
        let incarnation = write.incarnation ?? n
        switch write.kind {
        case .delete: others[write.place]?[incarnation] = nil
        case .insert:
            var row = write.copied ?? BaseRow(born: write.baseWrite(n).stamp)
            try row.write(write.baseWrite(n), origin: incarnation, work.index)
            others[write.place, default: [:]][incarnation] = row
        case .update:
            if others[write.place]?[incarnation] == nil {
                if commits.contains(incarnation) { return }
                partial.insert(Incarnation(place: write.place, commit: incarnation))
                others[write.place, default: [:]][incarnation] = BaseRow(born: write.baseWrite(n).stamp)
            }
            try others[write.place]?[incarnation]?.write(write.baseWrite(n), origin: incarnation, work.index)
        }
    }

    // MARK: One row

    private mutating func undo(_ undone: [LocalWrite], _ place: RowPlace) throws {
        let present = try work.base.state(place)
        for (incarnation, row) in present.rows.sorted(by: { $0.key < $1.key }) {
            if commits.contains(incarnation) {
                try remove(place, incarnation, row)
            } else {
                try restoreCells(undone, place, incarnation, row)
            }
        }
        guard let deletion = undone.last(where: { $0.kind == .delete }), let dead = deletion.incarnation,
            !commits.contains(dead)
        else { return }
        if present.rows.isEmpty {
            try insertAgain(place, dead, present)
        } else if present.rows[dead] == nil {
            keep(place, nil, .insertedLater)
        }
    }

    private mutating func remove(_ place: RowPlace, _ incarnation: Int64, _ row: BaseRow) throws {
        if row.dots.isSubset(of: commits) {
            writes.append(LocalWrite(kind: .delete, place: place, incarnation: incarnation))
        } else {
            keep(place, nil, .changedLater)
        }
    }

    private mutating func restoreCells(
        _ undone: [LocalWrite], _ place: RowPlace, _ incarnation: Int64, _ row: BaseRow
    ) throws {
        var write = LocalWrite(kind: .update, place: place, incarnation: incarnation)
        let table = try work.catalog.table(place.table)
        let former = others[place]?[incarnation]
        var (columns, steps) = (Set<Int64>(), [Int64: Int64]())
        for one in undone where one.incarnation == incarnation && one.kind == .update {
            columns.formUnion(one.cells.map(\.column))
            for step in one.steps { steps[step.column, default: 0] &-= step.step }
        }
        for column in columns.sorted() {
            guard let owner = row.stamp(of: column)?.commit else { continue }
            if !commits.contains(owner) {
                keep(place, column, .changedLater)
            } else if let value = former?.cells[column]?.value {
                if table.columns[column]?.isCounter == true {
                    steps[column, default: 0] &+= (value.rounded ?? 0) &- (row.cells[column]?.value.rounded ?? 0)
                } else {
                    write.cells.append((column, value))
                }
            } else if former == nil || partial.contains(Incarnation(place: place, commit: incarnation)) {
                keep(place, column, .forgotten)
            } else {
                // Nobody else has written it: it was the default of the table.
                let local = table.columns[column]?.place
                write.cells.append((column, local.flatMap { table.local?.columns[$0].defaultValue } ?? .null))
            }
        }
        write.steps = steps.filter { $0.value != 0 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        if !write.cells.isEmpty || !write.steps.isEmpty { writes.append(write) }
    }

    private mutating func insertAgain(_ place: RowPlace, _ dead: Int64, _ state: KeyState) throws {
        guard let row = others[place]?[dead] ?? state.graves[dead]?.row,
            !partial.contains(Incarnation(place: place, commit: dead)) || state.graves[dead]?.row != nil
        else { return keep(place, nil, .forgotten) }
        let whole = partial.contains(Incarnation(place: place, commit: dead)) ? state.graves[dead]?.row ?? row : row
        var write = LocalWrite(kind: .insert, place: place, incarnation: nil)
        let columns = try work.catalog.table(place.table).columns
        let counters = Set(columns.values.filter(\.isCounter).map(\.n)).union(whole.sums.keys)
        write.cells = whole.cells.filter { !counters.contains($0.key) }.sorted { $0.key < $1.key }
            .map { ($0.key, $0.value.value) }
        write.steps = counters.sorted().map { ($0, whole.shownCount(of: $0)) }.filter { $0.1 != 0 }
        writes.append(write)
    }

    private mutating func keep(_ place: RowPlace, _ column: Int64?, _ reason: KeptChange.Reason) {
        guard let table = try? work.catalog.table(place.table) else { return }
        kept.append(
            KeptChange(
                table: table.name.text, key: place.key.values.map(\.databaseValue),
                column: column.flatMap { table.columns[$0]?.id.name.text }, reason: reason))
    }
}

/// A change of a commit that a reversal left as it is.
public struct KeptChange: Hashable, Sendable {
    public enum Reason: String, Hashable, Sendable {
        /// A commit that stays has written the cell or the row since.
        case changedLater
        /// The row was deleted, and inserted again since.
        case insertedLater
        /// A snapshot stands for the commits that wrote the former values.
        case forgotten
    }

    /// The name of the table in commits.
    public let table: String
    public let key: [DatabaseValue]
    /// The first name of the column; nil for the row as a whole.
    public let column: String?
    public let reason: Reason
}

/// The result of a reversal.
public struct ReversalResult: Hashable, Sendable {
    /// The commit that takes the others back; nil if nothing of them was left.
    public let changeset: Changeset?
    /// The changes that stay, in their order.
    public let kept: [KeptChange]
}
