/// A write of a commit with the local numbers of tables, columns and commits.
struct LocalWrite {
    let kind: WriteShape.Kind
    let place: RowPlace
    /// The insertion of the row; nil if this write is an insertion.
    let incarnation: Int64?
    var cells: [(column: Int64, value: CellValue)] = []
    var steps: [(column: Int64, step: Int64)] = []
    /// Commits that the write saw in its row beyond the context (F8).
    var seen: Set<Int64> = []
    var era: UInt32 = 0
    /// A revival: the row with its stamps and sums (F3, F4).
    var copied: BaseRow?
    /// A revival: the incarnations that it revives.
    var revives: [Int64] = []

    func baseWrite(_ commit: Int64) -> BaseWrite {
        BaseWrite(stamp: LocalStamp(era: era, commit: commit), cells: cells, steps: steps)
    }
}

/// Translates writes from names to local numbers and back. Inside a transaction.
final class WriteTranslator {
    private struct Shape {
        let table: Int64
        let columns: [Int64]
        let counters: [Int64]
    }

    private let index: CommitIndex
    private let catalog: Catalog
    /// Consecutive writes share their shapes.
    private var last: (shape: WriteShape, local: Shape)?
    private var shapes: [LocalShape: WriteShape] = [:]
    private var lastOrder: (table: Int64, columns: [Int64], shape: WriteShape, places: [Int])?

    private struct LocalShape: Hashable {
        let kind: WriteShape.Kind
        let table: Int64
        let keyCount: Int
        let columns: [Int64]
        let counters: [Int64]
    }

    init(_ index: CommitIndex, _ catalog: Catalog) { (self.index, self.catalog) = (index, catalog) }

    // MARK: Reading

    /// - Parameter context: What the commit knew.
    /// - Throws: ``EngineError`` `.unknownCommit`
    func local(_ write: Write, in context: LocalVector) throws -> LocalWrite {
        let shape = try local(write.shape)
        let place = RowPlace(table: shape.table, key: RowKey(write.key))
        var local = LocalWrite(
            kind: write.shape.kind, place: place,
            incarnation: try write.incarnation.map { try index.resolve($0, in: context) })
        local.cells = zip(shape.columns, write.values.values).map { ($0, $1) }
        local.steps = zip(shape.counters, write.steps).map { ($0, $1) }
        local.seen = Set(try write.seen.map { try index.resolve($0, in: context) })
        local.era = write.era
        local.copied = try write.copied.map { try row($0, shape.table, context) }
        local.revives = try write.revives.map { try index.resolve($0, in: context) }
        return local
    }

    private func local(_ shape: WriteShape) throws -> Shape {
        if let last, last.shape == shape { return last.local }
        let table = try catalog.number(of: shape.table)
        let local = Shape(
            table: table, columns: try shape.columns.map { try catalog.column($0, of: table) },
            counters: try shape.counters.map { try catalog.column($0, of: table) })
        last = (shape, local)
        return local
    }

    private func row(_ row: CopiedRow, _ table: Int64, _ context: LocalVector) throws -> BaseRow {
        var local = BaseRow(born: try stamp(row.born, context))
        for cell in row.cells {
            local.cells[try catalog.column(cell.column, of: table)] = BaseRow.BaseCell(
                stamp: try stamp(cell.stamp, context), value: cell.value.values.first ?? .null)
        }
        for sum in row.sums {
            let last = try index.resolve(sum.last, in: context)
            let source = BaseRow.Source(
                origin: try index.resolve(sum.origin, in: context), branch: try index.entry(last).branch)
            local.sums[try catalog.column(sum.column, of: table), default: [:]][source] = BaseRow.Sum(
                last: last, total: sum.total)
        }
        return local
    }

    private func stamp(_ stamp: Stamp, _ context: LocalVector) throws -> LocalStamp {
        do {
            return LocalStamp(era: stamp.era, commit: try index.resolve(stamp.dot, in: context))
        } catch let error as EngineError where error.code == .unknownCommit {
            // A value that its author had from a join in slices: the commit itself comes later.
            guard let tag = stamp.dot.tag else { throw error }
            let n = try index.add(
                author: stamp.dot.author, number: stamp.dot.number, hash: tag.bytes, parent: nil, time: stamp.time,
                beginsBranch: false)
            return LocalStamp(era: stamp.era, commit: n)
        }
    }

    // MARK: Writing

    /// - Parameter context: What the commit knows.
    func named(_ write: LocalWrite, in context: LocalVector) throws -> Write {
        let key = write.place.key.cells
        if write.kind == .insert, write.steps.isEmpty, write.seen.isEmpty, write.copied == nil, write.revives.isEmpty,
            let order = try insertionOrder(of: write, keyCount: key.count)
        {
            return Write(
                order.shape, key: key, values: Cells(order.places.map { write.cells[$0].value }), era: write.era)
        }
        let cells = try write.cells.map { (try id($0.column, write), $0) }.sorted { $0.0 < $1.0 }
        let steps = try write.steps.map { (try id($0.column, write), $0) }.sorted { $0.0 < $1.0 }
        let shape = try shape(
            LocalShape(
                kind: write.kind, table: write.place.table, keyCount: key.count, columns: cells.map(\.1.column),
                counters: steps.map(\.1.column)))
        return Write(
            shape, key: key, incarnation: try write.incarnation.map { try dot($0, in: context) },
            values: Cells(cells.map(\.1.value)), steps: steps.map(\.1.step),
            seen: try write.seen.map { try index.entry($0).dot }.sorted(), era: write.era,
            copied: try write.copied.map { try row($0, write, context) },
            revives: try write.revives.map { try dot($0, in: context) }.sorted())
    }

    /// The shape of a plain insertion and the order of its cells in it, which consecutive ones share.
    private func insertionOrder(
        of write: LocalWrite, keyCount: Int
    ) throws -> (shape: WriteShape, places: [Int])? {
        let columns = write.cells.map(\.column)
        if let lastOrder, lastOrder.table == write.place.table, lastOrder.columns == columns,
            lastOrder.shape.keyCount == keyCount
        {
            return (lastOrder.shape, lastOrder.places)
        }
        let places = try columns.indices.map { (try id(columns[$0], write), $0) }.sorted { $0.0 < $1.0 }.map(\.1)
        let shape = try shape(
            LocalShape(
                kind: .insert, table: write.place.table, keyCount: keyCount, columns: places.map { columns[$0] },
                counters: []))
        lastOrder = (write.place.table, columns, shape, places)
        return (shape, places)
    }

    private func id(_ column: Int64, _ write: LocalWrite) throws -> ColumnID {
        guard let column = try catalog.table(write.place.table).columns[column] else {
            throw EngineError(.damagedStore)
        }
        return column.id
    }

    private func shape(_ local: LocalShape) throws -> WriteShape {
        if let known = shapes[local] { return known }
        let table = try catalog.table(local.table)
        let shape = WriteShape(
            local.kind, table.name, keyCount: local.keyCount,
            columns: local.columns.compactMap { table.columns[$0]?.id },
            counters: local.counters.compactMap { table.columns[$0]?.id })
        shapes[local] = shape
        return shape
    }

    /// A dot without its tag, if the context has one branch of the author and covers the commit.
    func dot(_ n: Int64, in context: LocalVector) throws -> Dot {
        let entry = try index.entry(n)
        let isPlain = try context.tips[entry.author]?.count == 1 && context.covers(n, index)
        return isPlain ? Dot(author: entry.authorID, number: entry.number, tag: nil) : entry.dot
    }

    private func row(_ row: BaseRow, _ write: LocalWrite, _ context: LocalVector) throws -> CopiedRow {
        func stamp(_ stamp: LocalStamp) throws -> Stamp {
            Stamp(era: stamp.era, time: try index.entry(stamp.commit).time, dot: try dot(stamp.commit, in: context))
        }
        let cells = try row.cells.map { column, cell in
            CopiedRow.Cell(column: try id(column, write), stamp: try stamp(cell.stamp), value: Cells([cell.value]))
        }
        let sums = try row.sums.flatMap { column, sums in
            try sums.map { source, sum in
                CopiedRow.Sum(
                    column: try id(column, write), origin: try dot(source.origin, in: context),
                    last: try dot(sum.last, in: context), total: sum.total)
            }
        }
        return CopiedRow(born: try stamp(row.born), cells: cells.sorted { $0.column < $1.column }, sums: sums.sorted())
    }
}
