/// Encodes the writes of a commit, one after the other (Docs/Formats/Commit.md).
///
/// Names, shapes, dots and stamps stand where they are first used, and are referred to by their number after that.
struct WritesEncoder<Sink: ByteSink> {
    var sink: Sink
    private(set) var count = 0
    let author: ReplicaID
    private var tables: [Name: Int] = [:]
    private var columns: [ColumnID: Int] = [:]
    private var authors: [ReplicaID: Int] = [:]
    private var dots: [Dot: Int] = [:]
    private var stamps: [Stamp: Int] = [:]
    private var shapes: [WriteShape: Int] = [:]
    private var lastShape: WriteShape?

    /// - Parameter author: The author of the commit.
    init(author: ReplicaID, into sink: Sink) {
        self.author = author
        self.sink = sink
    }

    /// Adds a write.
    ///
    /// - Throws: ``CommitError`` if no commit can have the write. The encoder must not be used then.
    mutating func append(_ write: Write) throws(CommitError) {
        let extras = try WriteExtras(of: write)
        try appendShape(write.shape, hasExtras: extras != [])
        guard write.key.count == write.shape.keyCount, write.values.count == write.shape.columns.count,
            write.steps.count == write.shape.counters.count
        else { throw CommitError(.cellCount) }
        sink.append(contentsOf: write.key.bytes)
        guard (write.incarnation == nil) == (write.shape.kind == .insert) else { throw CommitError(.incarnation) }
        if let incarnation = write.incarnation { try append(incarnation) }
        sink.append(contentsOf: write.values.bytes)
        for step in write.steps { sink.append(integerCell: step) }
        if extras != [] { try append(extras, of: write) }
        count += 1
        guard sink.byteCount <= CommitLimits.bodyBytes else { throw CommitError(.bodyTooLong) }
    }

    /// Adds an insertion whose cells are written by the caller: those of the key, then one for each column of the shape.
    ///
    /// - Throws: ``CommitError`` if no commit can have the write.
    mutating func appendInsertion(_ shape: WriteShape, _ cells: (inout Sink) throws -> Void) throws {
        try appendShape(shape, hasExtras: false)
        try cells(&sink)
        count += 1
        guard sink.byteCount <= CommitLimits.bodyBytes else { throw CommitError(.bodyTooLong) }
    }

    /// Adds an update whose cells are written by the caller.
    ///
    /// - Throws: ``CommitError`` if no commit can have the write.
    mutating func appendUpdate(
        _ shape: WriteShape, of incarnation: Dot, era: UInt32, key: (inout Sink) -> Void, values: (inout Sink) -> Void
    ) throws(CommitError) {
        try appendShape(shape, hasExtras: era > 0)
        key(&sink)
        try append(incarnation)
        values(&sink)
        if era > 0 {
            sink.append(WriteExtras.era.rawValue)
            sink.append(varint: UInt64(era))
        }
        count += 1
        guard sink.byteCount <= CommitLimits.bodyBytes else { throw CommitError(.bodyTooLong) }
    }

    private mutating func append(_ extras: WriteExtras, of write: Write) throws(CommitError) {
        sink.append(extras.rawValue)
        if extras.contains(.era) { sink.append(varint: UInt64(write.era)) }
        if extras.contains(.seen) { try append(write.seen) }
        if extras.contains(.revives) { try append(write.revives) }
        if let copied = write.copied { try append(copied) }
    }

    // MARK: Shapes

    private mutating func appendShape(_ shape: WriteShape, hasExtras: Bool) throws(CommitError) {
        let bit: UInt64 = hasExtras ? 1 : 0
        if let lastShape, lastShape == shape { return sink.append(varint: bit) }
        lastShape = shape
        if let known = shapes[shape] { return sink.append(varint: UInt64(known + 1) << 1 | bit) }
        try shape.check()
        sink.append(varint: UInt64(shapes.count + 1) << 1 | bit)
        shapes[shape] = shapes.count
        sink.append(shape.kind.rawValue)
        if let table = tables[shape.table] {
            sink.append(varint: table)
        } else {
            sink.append(varint: tables.count)
            tables[shape.table] = tables.count
            try sink.append(shape.table)
        }
        sink.append(UInt8(shape.keyCount))
        sink.append(varint: shape.columns.count)
        for column in shape.columns { try append(column) }
        sink.append(varint: shape.counters.count)
        for column in shape.counters { try append(column) }
    }

    private mutating func append(_ column: ColumnID) throws(CommitError) {
        if let known = columns[column] { return sink.append(varint: known) }
        sink.append(varint: columns.count)
        columns[column] = columns.count
        try sink.append(column)
    }

    // MARK: Dots

    private mutating func append(_ list: [Dot]) throws(CommitError) {
        sink.append(varint: list.count)
        for dot in list { try append(dot) }
    }

    private mutating func append(_ dot: Dot) throws(CommitError) {
        if let known = dots[dot] { return sink.append(varint: known) }
        guard (1...UInt64(Int64.max)).contains(dot.number) else { throw CommitError(.number) }
        sink.append(varint: dots.count)
        dots[dot] = dots.count
        let bit: UInt64 = dot.tag == nil ? 0 : 1
        if dot.author == author {
            sink.append(varint: bit)
        } else if let known = authors[dot.author] {
            sink.append(varint: UInt64(known + 1) << 1 | bit)
        } else {
            sink.append(varint: UInt64(authors.count + 1) << 1 | bit)
            authors[dot.author] = authors.count
            sink.append(contentsOf: dot.author.bytes)
        }
        sink.append(varint: dot.number)
        if let tag = dot.tag { sink.append(contentsOf: tag.bytes) }
    }

    private mutating func append(_ stamp: Stamp) throws(CommitError) {
        if let known = stamps[stamp] { return sink.append(varint: known) }
        sink.append(varint: stamps.count)
        stamps[stamp] = stamps.count
        sink.append(varint: UInt64(stamp.era))
        sink.append(bigEndian: stamp.time.rawValue)
        try append(stamp.dot)
    }

    // MARK: Revivals

    private mutating func append(_ row: CopiedRow) throws(CommitError) {
        guard row.cells.count <= CommitLimits.columns,
            zip(row.cells, row.cells.dropFirst()).allSatisfy({ $0.column < $1.column }),
            zip(row.sums, row.sums.dropFirst()).allSatisfy({ $0 < $1 }), row.cells.allSatisfy({ $0.value.count == 1 })
        else { throw CommitError(.revival) }
        try append(row.born)
        sink.append(varint: row.cells.count)
        for cell in row.cells {
            try append(cell.column)
            try append(cell.stamp)
            sink.append(contentsOf: cell.value.bytes)
        }
        sink.append(varint: row.sums.count)
        for sum in row.sums {
            try append(sum.column)
            try append(sum.origin)
            try append(sum.last)
            sink.append(integerCell: sum.total)
        }
    }
}

extension CopiedRow.Sum: Comparable {
    package static func < (one: Self, other: Self) -> Bool {
        if one.column != other.column { return one.column < other.column }
        return one.origin != other.origin ? one.origin < other.origin : one.last < other.last
    }
}

/// The parts of a write that most writes lack.
struct WriteExtras: OptionSet {
    let rawValue: UInt8

    static let era = WriteExtras(rawValue: 1)
    static let seen = WriteExtras(rawValue: 2)
    static let revives = WriteExtras(rawValue: 4)
    static let copied = WriteExtras(rawValue: 8)
    static let all: WriteExtras = [.era, .seen, .revives, .copied]

    init(rawValue: UInt8) { self.rawValue = rawValue }

    /// - Throws: ``CommitError`` if they are not in order.
    init(of write: Write) throws(CommitError) {
        self = []
        if write.era > 0 { insert(.era) }
        if !write.seen.isEmpty {
            insert(.seen)
            guard Self.isAscending(write.seen), write.seen.allSatisfy({ $0.tag != nil }) else {
                throw CommitError(.seen)
            }
        }
        if !write.revives.isEmpty { insert(.revives) }
        if write.copied != nil { insert(.copied) }
        guard isDisjoint(with: [.revives, .copied]) || (write.shape.kind == .insert && Self.isAscending(write.revives))
        else { throw CommitError(.revival) }
    }

    private static func isAscending(_ dots: [Dot]) -> Bool { zip(dots, dots.dropFirst()).allSatisfy { $0 < $1 } }
}

extension WriteShape {
    /// - Throws: ``CommitError`` if no write has this shape.
    func check() throws(CommitError) {
        guard (1...CommitLimits.keyColumns).contains(keyCount), columns.count <= CommitLimits.columns,
            counters.count <= CommitLimits.columns
        else { throw CommitError(.columnCount) }
        guard zip(columns, columns.dropFirst()).allSatisfy({ $0 < $1 }),
            zip(counters, counters.dropFirst()).allSatisfy({ $0 < $1 }), Set(columns).isDisjoint(with: counters)
        else { throw CommitError(.columnOrder) }
        switch kind {
        case .insert: break
        case .update: if columns.isEmpty, counters.isEmpty { throw CommitError(.emptyUpdate) }
        case .delete: if !columns.isEmpty || !counters.isEmpty { throw CommitError(.columnsOfDeletion) }
        }
    }
}

extension ByteSink {
    mutating func append(text: String) {
        append(varint: text.utf8.count)
        append(contentsOf: Array(text.utf8))
    }

    mutating func append(_ name: Name) throws(CommitError) {
        let bytes = Array(name.text.utf8)
        guard (1...CommitLimits.nameBytes).contains(bytes.count), !bytes.contains(0) else { throw CommitError(.name) }
        append(varint: bytes.count)
        append(contentsOf: bytes)
    }

    mutating func append(_ column: ColumnID) throws(CommitError) {
        try append(column.name)
        append(varint: UInt64(column.reuse))
    }
}
