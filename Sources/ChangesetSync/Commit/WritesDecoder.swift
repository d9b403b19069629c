/// Reads the bytes of a ``WritesEncoder``, one write after the other.
struct WritesDecoder: Sendable {
    private var reader: ByteReader
    private let author: ReplicaID
    private var tables: [Name] = []
    private var columns: [ColumnID] = []
    private var authors: [ReplicaID] = []
    private var dots: [Dot] = []
    private var stamps: [Stamp] = []
    private var shapes: [WriteShape] = []
    private var lastShape: WriteShape?

    init(_ bytes: ArraySlice<UInt8>, author: ReplicaID) {
        reader = ByteReader(bytes)
        self.author = author
    }

    var offset: Int { reader.offset }

    /// - Returns: nil at the end.
    mutating func next() throws(CommitError) -> Write? {
        if reader.isAtEnd { return nil }
        let start = reader
        let tag = try reader.varint()
        let shape = try shape(tag >> 1, at: start)
        lastShape = shape
        let key = try reader.cells(shape.keyCount)
        let incarnation = shape.kind == .insert ? nil : try dot()
        let values = try reader.cells(shape.columns.count)
        var steps: [Int64] = []
        for _ in shape.counters { steps.append(try reader.integerCell()) }
        var write = Write(shape, key: key, incarnation: incarnation, values: values, steps: steps)
        if tag & 1 == 1 { try readExtras(into: &write) }
        return write
    }

    private mutating func readExtras(into write: inout Write) throws(CommitError) {
        let start = reader
        let byte = try reader.byte()
        let extras = WriteExtras(rawValue: byte)
        guard byte != 0, extras.isSubset(of: .all) else { throw start.error(.unknownFlags(byte)) }
        if extras.contains(.era) { write.era = UInt32(try reader.count(limit: Int(UInt32.max))) }
        if extras.contains(.seen) { write.seen = try dotList() }
        if extras.contains(.revives) { write.revives = try dotList() }
        if extras.contains(.copied) { write.copied = try copiedRow() }
    }

    /// An entry of a table of what came before, or nil for a new one.
    private mutating func known<Entry>(in table: [Entry]) throws(CommitError) -> Entry? {
        let start = reader
        let number = try reader.varint()
        guard number <= UInt64(table.count) else { throw start.error(.malformedReference) }
        return number == UInt64(table.count) ? nil : table[Int(number)]
    }

    // MARK: Shapes

    private mutating func shape(_ number: UInt64, at start: ByteReader) throws(CommitError) -> WriteShape {
        guard number > 0 else {
            guard let lastShape else { throw start.error(.malformedReference) }
            return lastShape
        }
        guard number <= UInt64(shapes.count) + 1 else { throw start.error(.malformedReference) }
        if number <= UInt64(shapes.count) { return shapes[Int(number) - 1] }
        let place = reader
        let byte = try reader.byte()
        guard let kind = WriteShape.Kind(rawValue: byte) else { throw place.error(.unknownKind(byte)) }
        let table = try table()
        let keyCount = Int(try reader.byte())
        let shape = WriteShape(kind, table, keyCount: keyCount, columns: try columnList(), counters: try columnList())
        do throws(CommitError) { try shape.check() } catch { throw place.error(error.code) }
        shapes.append(shape)
        return shape
    }

    private mutating func table() throws(CommitError) -> Name {
        if let found = try known(in: tables) { return found }
        let name = try reader.name()
        tables.append(name)
        return name
    }

    private mutating func columnList() throws(CommitError) -> [ColumnID] {
        var list: [ColumnID] = []
        for _ in 0..<(try reader.count(limit: CommitLimits.columns)) { list.append(try column()) }
        return list
    }

    private mutating func column() throws(CommitError) -> ColumnID {
        if let found = try known(in: columns) { return found }
        let column = try reader.column()
        columns.append(column)
        return column
    }

    // MARK: Dots

    private mutating func dotList() throws(CommitError) -> [Dot] {
        var list: [Dot] = []
        // Each dot has a byte at least.
        for _ in 0..<(try reader.count(limit: reader.remaining)) { list.append(try dot()) }
        return list
    }

    private mutating func dot() throws(CommitError) -> Dot {
        if let found = try known(in: dots) { return found }
        let start = reader
        let head = try reader.varint()
        let author: ReplicaID
        switch head >> 1 {
        case 0: author = self.author
        case let number where number <= UInt64(authors.count): author = authors[Int(number) - 1]
        case UInt64(authors.count) + 1:
            author = try reader.identifier(ReplicaID.self)
            authors.append(author)
        default: throw start.error(.malformedReference)
        }
        let number = try reader.varint()
        guard (1...UInt64(Int64.max)).contains(number) else { throw start.error(.number) }
        let dot = Dot(author: author, number: number, tag: head & 1 == 1 ? try reader.identifier(CommitTag.self) : nil)
        dots.append(dot)
        return dot
    }

    private mutating func stamp() throws(CommitError) -> Stamp {
        if let found = try known(in: stamps) { return found }
        let era = UInt32(try reader.count(limit: Int(UInt32.max)))
        let stamp = Stamp(era: era, time: try reader.time(), dot: try dot())
        stamps.append(stamp)
        return stamp
    }

    // MARK: Revivals

    private mutating func copiedRow() throws(CommitError) -> CopiedRow {
        let born = try stamp()
        var cells: [CopiedRow.Cell] = []
        for _ in 0..<(try reader.count(limit: CommitLimits.columns)) {
            cells.append(CopiedRow.Cell(column: try column(), stamp: try stamp(), value: try reader.cells(1)))
        }
        var sums: [CopiedRow.Sum] = []
        for _ in 0..<(try reader.count(limit: reader.remaining)) {
            sums.append(
                CopiedRow.Sum(
                    column: try column(), origin: try dot(), last: try dot(), total: try reader.integerCell()))
        }
        return CopiedRow(born: born, cells: cells, sums: sums)
    }
}

extension ByteReader {
    mutating func name() throws(CommitError) -> Name {
        let start = self
        let text = try text(limit: CommitLimits.nameBytes)
        guard !text.isEmpty, !text.utf8.contains(0) else { throw start.error(.name) }
        return Name(text)
    }

    mutating func column() throws(CommitError) -> ColumnID {
        ColumnID(try name(), reuse: UInt32(try count(limit: Int(UInt32.max))))
    }

    mutating func time() throws(CommitError) -> HybridTime {
        let start = self
        let raw = try integer(as: UInt64.self)
        guard raw <= HybridTime.latest.rawValue else { throw start.error(.timeTooLate) }
        return HybridTime(rawValue: raw)
    }
}
