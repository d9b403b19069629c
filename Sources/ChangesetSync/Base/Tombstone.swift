/// A dead incarnation: what its deletions knew, and the updates that none of them knew (F5).
struct Tombstone: Hashable, Sendable {
    /// The knowledge of the deletions.
    var known = LocalVector()
    /// The dots that they saw in the row beyond that (F8), and the deletions themselves.
    var seen: Set<Int64> = []
    /// Updates that no deletion knew. The tombstone is kept until a revival has them.
    var owed: Set<Int64> = []
    /// The row with what is owed, as a snapshot brought it, for the author of the deletion.
    var row: BaseRow?
    /// Updates that arrived after the deletion.
    var late: [BaseWrite] = []

    func knows(_ n: Int64, _ index: CommitIndex) throws -> Bool { try seen.contains(n) || known.covers(n, index) }

    func merged(with other: Tombstone, owed: Set<Int64>, _ index: CommitIndex) throws -> Tombstone {
        var both = Tombstone(known: try known.union(other.known, index), seen: seen.union(other.seen))
        both.owed = try owed.filter { try !both.knows($0, index) }
        both.row = row ?? other.row
        both.late = late + other.late.filter { !late.contains($0) }
        both.late.removeAll { !both.owed.contains($0.stamp.commit) }
        return both
    }

    // MARK: Bytes, without what the deletions knew

    var detail: [UInt8] {
        if owed.isEmpty, row == nil, late.isEmpty, seen.count == 1, let deletion = seen.first {
            var writer = LocalWriter()
            writer.append(deletion)
            return writer.bytes
        }
        var writer = LocalWriter()
        writer.append(0 as Int64)
        writer.append(seen.sorted())
        writer.append(owed.sorted())
        writer.append(Int64(late.count))
        for write in late { write.append(to: &writer) }
        writer.append(Int64(row == nil ? 0 : 1))
        row?.append(to: &writer)
        return writer.bytes
    }

    init(known: LocalVector = LocalVector(), seen: Set<Int64> = [], owed: Set<Int64> = []) {
        (self.known, self.seen, self.owed) = (known, seen, owed)
    }

    init(known: LocalVector, detail: [UInt8]) throws {
        self.known = known
        var reader = LocalReader(detail[...])
        let deletion = try reader.number()
        guard deletion == 0 else {
            seen = [deletion]
            return
        }
        seen = Set(try reader.numbers())
        owed = Set(try reader.numbers())
        late = try (0..<(try reader.count())).map { _ in try BaseWrite(&reader) }
        if try reader.number() == 1 { row = try BaseRow(&reader) }
    }
}

/// An update that a deletion did not know: what a revival begins with.
struct Lost {
    let incarnation: Int64
    /// The row as this store last had it.
    var row: BaseRow
    /// The updates that are lost.
    var dots: Set<Int64> = []
    /// Instead of updates: the authors of living children whose parent is dead (F11).
    var authors: Set<Int64> = []
    /// A child refers to a row that this store deleted (F11).
    var isOrphaned = false
    /// An update that arrived after the deletion, to be applied to the row.
    var late: BaseWrite?

    init(_ incarnation: Int64, _ row: BaseRow, _ dots: Set<Int64>) {
        (self.incarnation, self.row, self.dots) = (incarnation, row, dots)
    }

    /// An update that arrives after the deletion.
    init(_ incarnation: Int64, late: BaseWrite, _ dots: Set<Int64>, _ index: CommitIndex) throws {
        var row = BaseRow(born: late.stamp)
        try row.write(late, origin: incarnation, index)
        self.init(incarnation, row, dots)
        self.late = late
    }

    /// The row as it was when it died, with what is lost.
    func onto(_ former: BaseRow, _ index: CommitIndex) throws -> BaseRow {
        var row = former
        if let late {
            try row.write(late, origin: incarnation, index)
        } else {
            try row.join(self.row, index)
        }
        return row
    }
}
