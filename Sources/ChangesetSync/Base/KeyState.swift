/// Everything that the base has of one key of one table: its living incarnations and its tombstones.
///
/// An incarnation is one insertion of a key. It lives, has a tombstone, or is not known. If the vector covers one that is not
/// known, it was deleted, and its tombstone was forgotten.
struct KeyState: Hashable, Sendable {
    /// A row as it was when it died. A store keeps those that it has deleted itself.
    struct Grave: Hashable, Sendable {
        var row: BaseRow?
        /// Whether this store deleted it.
        var isOwn = false
    }

    var rows: [Int64: BaseRow] = [:]
    var dead: [Int64: Tombstone] = [:]
    var graves: [Int64: Grave] = [:]

    var isEmpty: Bool { rows.isEmpty && dead.isEmpty && graves.isEmpty }

    /// The row that the key shows.
    func merged(_ index: CommitIndex) throws -> BaseRow? {
        try BaseRow.merged(rows.sorted { $0.key < $1.key }.map(\.value), index)
    }

    /// Keeps the row of a place that dies.
    mutating func bury(_ incarnation: Int64) {
        if let row = rows[incarnation] { graves[incarnation, default: Grave()].row = row }
    }

    /// The most dead incarnations of one key that are known.
    static let mostDead = 16

    /// Forgets the oldest dead incarnations of a key that is deleted and inserted again and again, as if their grace period
    /// were over. An update of them that arrives later is owed, and its author revives the row.
    mutating func forgetOldest(_ vector: LocalVector, _ index: CommitIndex) throws {
        let known = Set(dead.keys).union(graves.keys)
        guard known.count > Self.mostDead else { return }
        for incarnation in known.sorted().dropLast(Self.mostDead) {
            guard dead[incarnation]?.owed.isEmpty != false, try vector.covers(incarnation, index) else { continue }
            dead[incarnation] = nil
            graves[incarnation] = nil
        }
    }

    // MARK: Commits

    struct Revival {
        let copied: BaseRow?
        let revives: [Int64]
        let knows: (Int64) throws -> Bool
    }

    mutating func insert(_ write: BaseWrite, _ revival: Revival?, _ index: CommitIndex) throws {
        let place = write.stamp.commit
        if let revival {
            let had = revival.copied?.dots ?? []
            for revived in revival.revives {
                guard let owed = dead[revived]?.owed else { continue }
                dead[revived]?.owed = try owed.filter { try !revival.knows($0) && !had.contains($0) }
            }
        }
        if dead[place] != nil { return }
        if rows[place] == nil { rows[place] = revival?.copied ?? BaseRow(born: write.stamp) }
        try rows[place]?.write(write, origin: place, index)
    }

    mutating func update(
        _ write: BaseWrite, of place: Int64, vector: LocalVector, _ lost: inout [Lost], _ index: CommitIndex
    ) throws {
        let commit = write.stamp.commit
        if rows[place] != nil {
            try rows[place]?.write(write, origin: place, index)
        } else if var tombstone = dead[place] {
            let isKnown = try tombstone.knows(commit, index)
            if !isKnown { tombstone.owed.insert(commit) }
            if tombstone.row != nil {
                try tombstone.row?.write(write, origin: place, index)
            } else if !isKnown, !tombstone.late.contains(write) {
                tombstone.late.append(write)
            }
            dead[place] = tombstone
            // A deletion that knew the update is reported too: the row that is kept of it must have the update.
            lost.append(try Lost(place, late: write, isKnown ? [] : [commit], index))
        } else if try vector.covers(place, index) {
            dead[place] = Tombstone(owed: [commit])
            dead[place]?.late = [write]
        }
    }

    /// The knowledge of the other side of a join about a place.
    struct Side {
        var owed: Set<Int64> = []
        var covers: (Int64) throws -> Bool = { _ in false }
    }

    /// Joins a tombstone of the other side to whatever is here.
    mutating func kill(
        _ place: Int64, _ tombstone: Tombstone, there: Side, vector: LocalVector, _ lost: inout [Lost],
        _ index: CommitIndex
    ) throws {
        let row = rows.removeValue(forKey: place)
        let former = dead[place] ?? Tombstone()
        let here = former.owed.union(row?.dots ?? [])
        var owed = try here.filter { try there.owed.contains($0) || !there.covers($0) }
        owed.formUnion(try there.owed.filter { try here.contains($0) || !vector.covers($0, index) })
        let both = try former.merged(with: tombstone, owed: owed, index)
        dead[place] = both
        let unknown = try owed.filter { try !both.knows($0, index) }
        if let known = row ?? tombstone.row, !unknown.isEmpty { lost.append(Lost(place, known, unknown)) }
        if row == nil {
            for late in tombstone.late where unknown.contains(late.stamp.commit) {
                lost.append(try Lost(place, late: late, [late.stamp.commit], index))
            }
        }
    }

    // MARK: Snapshots

    /// Joins what a snapshot says of one place.
    ///
    /// - Parameters:
    ///   - vector: What this store has joined.
    ///   - other: What the snapshot covers.
    mutating func join(
        _ place: Int64, _ row: BaseRow?, _ tombstone: Tombstone?, vector: LocalVector, other: LocalVector,
        _ lost: inout [Lost], _ index: CommitIndex
    ) throws {
        let there: (Int64) throws -> Bool = { try other.covers($0, index) }
        if let tombstone {
            try kill(
                place, tombstone, there: Side(owed: tombstone.owed, covers: there), vector: vector, &lost, index)
        } else if let row {
            try joinLiving(place, row, vector: vector, there: there, &lost, index)
        } else if let row = rows[place] {
            guard try there(place) else { return }
            rows[place] = nil
            if let loss = try forget(place, row, vector: other, covered: there) { lost.append(loss) }
        } else if let owed = dead[place]?.owed, try there(place) {
            dead[place]?.owed = try owed.filter { try !there($0) }
        }
    }

    private mutating func joinLiving(
        _ place: Int64, _ row: BaseRow, vector: LocalVector, there: (Int64) throws -> Bool, _ lost: inout [Lost],
        _ index: CommitIndex
    ) throws {
        if let tombstone = dead[place] {
            let dots = row.dots
            let late = try dots.filter {
                try !tombstone.knows($0, index) && (tombstone.owed.contains($0) || !vector.covers($0, index))
            }
            let kept = try tombstone.owed.filter { try dots.contains($0) || !there($0) }
            let new = late.subtracting(tombstone.owed)
            dead[place]?.owed = late.union(kept)
            if !new.isEmpty { lost.append(Lost(place, row, new)) }
        } else if rows[place] != nil {
            try rows[place]?.join(row, index)
        } else if try vector.covers(place, index) {
            _ = try forget(place, row, vector: vector) { try vector.covers($0, index) }
        } else {
            rows[place] = row
        }
    }

    /// One side has forgotten the row, the other has it: the updates that the forgetting side lacks are owed.
    private mutating func forget(
        _ place: Int64, _ row: BaseRow, vector: LocalVector, covered: (Int64) throws -> Bool
    ) throws -> Lost? {
        let owed = try row.dots.filter { try !covered($0) }
        if owed.isEmpty { return nil }
        dead[place] = Tombstone(known: vector, owed: owed)
        return Lost(place, row, owed)
    }
}
