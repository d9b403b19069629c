/// One incarnation of a key in the base: cells with the greatest stamps, and counters with a sum for each source.
struct BaseRow: Hashable, Sendable {
    struct BaseCell: Hashable, Sendable {
        var stamp: LocalStamp
        var value: CellValue
    }

    /// A counter's sum counts the commits of one branch of an author since an incarnation.
    struct Source: Hashable, Sendable, Comparable {
        let origin: Int64
        let branch: Int64

        static func < (one: Source, other: Source) -> Bool {
            one.origin != other.origin ? one.origin < other.origin : one.branch < other.branch
        }
    }

    struct Sum: Hashable, Sendable {
        /// The last commit that is counted (F10).
        var last: Int64
        var total: Int64
    }

    /// The stamp of the insertion, which a revival keeps: the age of the row.
    var born: LocalStamp
    /// By the numbers of columns.
    var cells: [Int64: BaseCell] = [:]
    var sums: [Int64: [Source: Sum]] = [:]
    /// The stamps of cells whose latest value nobody here knows, by column: above those of ``cells``. A store had dropped the
    /// column and forgotten the commits. A store that knows the value brings it by the join.
    var unknown: [Int64: LocalStamp] = [:]

    init(born: LocalStamp) { self.born = born }

    /// The commits whose values the row has.
    var dots: Set<Int64> {
        var dots = Set(unknown.values.map(\.commit))
        for (column, cell) in cells where unknown[column] == nil { dots.insert(cell.stamp.commit) }
        for sums in sums.values { dots.formUnion(sums.values.map(\.last)) }
        return dots
    }

    /// The stamp of the latest write of a column, also of one whose value is not known.
    func stamp(of column: Int64) -> LocalStamp? { unknown[column] ?? cells[column]?.stamp }

    /// Removes the unknown cells whose values are known by now.
    mutating func forgetUnknown(_ index: CommitIndex) throws {
        if unknown.isEmpty { return }
        unknown = try unknown.filter { column, stamp in
            try cells[column].map { try $0.stamp != stamp && index.precedes($0.stamp, stamp) } ?? true
        }
    }

    /// Adds a write of a commit. It may be added again.
    mutating func write(_ write: BaseWrite, origin: Int64, _ index: CommitIndex) throws {
        for (column, value) in write.cells {
            if let cell = cells[column], try !index.precedes(cell.stamp, write.stamp) { continue }
            cells[column] = BaseCell(stamp: write.stamp, value: value)
        }
        try forgetUnknown(index)
        if write.steps.isEmpty { return }
        let commit = try index.entry(write.stamp.commit)
        let source = Source(origin: origin, branch: commit.branch)
        for (column, step) in write.steps {
            let former = sums[column]?[source]
            if let former, try index.entry(former.last).number >= commit.number { continue }
            sums[column, default: [:]][source] = Sum(last: commit.n, total: (former?.total ?? 0) &+ step)
        }
    }

    /// Joins another state of the same row.
    mutating func join(_ other: BaseRow, _ index: CommitIndex) throws {
        for (column, cell) in other.cells {
            guard let mine = cells[column] else {
                cells[column] = cell
                continue
            }
            if mine.stamp == cell.stamp {
                // Only a lie gives one stamp two values (F25).
                if Cells([mine.value]) < Cells([cell.value]) { cells[column] = cell }
            } else if try index.precedes(mine.stamp, cell.stamp) {
                cells[column] = cell
            }
        }
        for (column, stamp) in other.unknown {
            if let mine = unknown[column], try !index.precedes(mine, stamp) { continue }
            unknown[column] = stamp
        }
        try forgetUnknown(index)
        for (column, sums) in other.sums {
            for (source, sum) in sums {
                let mine = self.sums[column]?[source]
                self.sums[column, default: [:]][source] = try mine.map { try later($0, sum, index) } ?? sum
            }
        }
    }

    /// The sum that counts more commits; of equal ones the greater.
    private func later(_ one: Sum, _ other: Sum, _ index: CommitIndex) throws -> Sum {
        let (left, right) = (try index.entry(one.last).number, try index.entry(other.last).number)
        if left != right { return left < right ? other : one }
        return one.total < other.total ? other : one
    }

    /// The steps of a counter.
    func total(of column: Int64) -> Int64 { (sums[column] ?? [:]).values.reduce(0) { $0 &+ $1.total } }

    /// The shown value of a counter: the cell that was written before the column became one, and the steps since (F26).
    ///
    /// - Returns: nil if the cell is shown as it is: nobody has added to it.
    func count(of column: Int64) -> Int64? {
        guard let cell = cells[column] else { return total(of: column) }
        return sums[column] == nil ? nil : (cell.value.rounded ?? 0) &+ total(of: column)
    }

    func shownCount(of column: Int64) -> Int64 { count(of: column) ?? cells[column]?.value.rounded ?? 0 }

    /// The row that several incarnations of one key show.
    static func merged(_ rows: [BaseRow], _ index: CommitIndex) throws -> BaseRow? {
        guard var whole = rows.first else { return nil }
        for row in rows.dropFirst() {
            try whole.join(row, index)
            if try index.precedes(row.born, whole.born) { whole.born = row.born }
        }
        return whole
    }
}

extension CellValue {
    /// The value as a part of a counter; nil for NULL and for values that are no number: they count as nothing.
    var rounded: Int64? {
        switch self {
        case .integer(let number): number
        case .real(let number): Int64(exactly: number.rounded())
        default: nil
        }
    }
}

/// The part of a commit's write that concerns one row, with local numbers.
struct BaseWrite: Hashable, Sendable {
    let stamp: LocalStamp
    var cells: [(column: Int64, value: CellValue)]
    var steps: [(column: Int64, step: Int64)]

    static func == (one: BaseWrite, other: BaseWrite) -> Bool { one.stamp == other.stamp && one.bytes == other.bytes }
    func hash(into hasher: inout Hasher) { hasher.combine(stamp) }

    // MARK: Bytes

    var bytes: [UInt8] {
        var writer = LocalWriter()
        append(to: &writer)
        return writer.bytes
    }

    func append(to writer: inout LocalWriter) {
        writer.append(stamp)
        writer.append(Int64(cells.count))
        for cell in cells {
            writer.append(cell.column)
            writer.append(cell.value)
        }
        writer.append(Int64(steps.count))
        for step in steps {
            writer.append(step.column)
            writer.append(signed: step.step)
        }
    }
}

extension BaseWrite {
    init(_ reader: inout LocalReader) throws {
        stamp = try reader.stamp()
        cells = try (0..<(try reader.count())).map { _ in (try reader.number(), try reader.value()) }
        steps = try (0..<(try reader.count())).map { _ in (try reader.number(), try reader.signed()) }
    }
}

// MARK: Bytes

extension BaseRow {
    /// The whole row, as `aside` and `grave` have it.
    var bytes: [UInt8] {
        var writer = LocalWriter()
        append(to: &writer)
        return writer.bytes
    }

    func append(to writer: inout LocalWriter) {
        writer.append(born)
        writer.append(Int64(cells.count + unknown.count))
        for (column, cell) in cells.sorted(by: { $0.key < $1.key }) {
            writer.append(column)
            writer.append(cell.stamp)
            writer.append(cell.value)
        }
        for (column, stamp) in unknown.sorted(by: { $0.key < $1.key }) {
            writer.append(column)
            writer.append(stamp)
            writer.append(Int64(SerialType.unknown))
        }
        writer.append(Int64(sums.count))
        for (column, sums) in sums.sorted(by: { $0.key < $1.key }) {
            writer.append(column)
            writer.append(Int64(sums.count))
            for (source, sum) in sums.sorted(by: { $0.key < $1.key }) {
                writer.append(source.origin)
                writer.append(source.branch)
                writer.append(sum.last)
                writer.append(signed: sum.total)
            }
        }
    }

    init(_ bytes: [UInt8]) throws {
        var reader = LocalReader(bytes[...])
        try self.init(&reader)
    }

    init(_ reader: inout LocalReader) throws {
        born = try reader.stamp()
        for _ in 0..<(try reader.count()) {
            let column = try reader.number()
            let stamp = try reader.stamp()
            if reader.skipUnknown() {
                unknown[column] = stamp
            } else {
                cells[column] = BaseCell(stamp: stamp, value: try reader.value())
            }
        }
        for _ in 0..<(try reader.count()) {
            let column = try reader.number()
            for _ in 0..<(try reader.count()) {
                let source = Source(origin: try reader.number(), branch: try reader.number())
                sums[column, default: [:]][source] = Sum(last: try reader.number(), total: try reader.signed())
            }
        }
    }
}
