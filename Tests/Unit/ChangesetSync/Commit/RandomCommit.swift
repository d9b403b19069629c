import TestKit

@testable import ChangesetSync

/// Random commits with everything that a commit can have.
struct RandomCommit {
    private var numbers: RandomNumbers
    private let authors: [ReplicaID]
    private static let names: [Name] = ["player", "naïve", "nai\u{308}ve", "id", "score", "a\"b", "列"]

    init(_ start: RandomNumbers) {
        var numbers = start
        authors = (0..<4).map { _ in Self.id(&numbers) }
        self.numbers = numbers
    }

    private static func id<ID: FixedIdentifier>(_ numbers: inout RandomNumbers) -> ID {
        let bytes = (0..<ID.byteCount).map { _ in UInt8.random(in: 0...255, using: &numbers) }
        return ID(bytes: bytes) ?? .zero
    }

    private mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &numbers) == 0 }
    private mutating func count(_ most: Int) -> Int { Int.random(in: 0...most, using: &numbers) }
    private mutating func name() -> Name { Self.names.randomElement(using: &numbers) ?? "x" }
    private mutating func author() -> ReplicaID { authors.randomElement(using: &numbers) ?? .zero }
    private mutating func number() -> UInt64 {
        let most = chance(8) ? UInt64(Int64.max) : 300
        return UInt64.random(in: 1...most, using: &numbers)
    }

    mutating func value() -> CellValue {
        switch Int.random(in: 0..<8, using: &numbers) {
        case 0: return .null
        case 1: return .integer(.random(in: -200...200, using: &numbers))
        case 2:
            let shift = Int.random(in: 0...63, using: &numbers)
            return .integer(Int64.random(in: Int64.min...Int64.max, using: &numbers) >> shift)
        case 3: return .real(.random(in: -1e10...1e10, using: &numbers))
        case 4:
            return .real(
                [0.0, -0.0, .infinity, -.infinity, .leastNonzeroMagnitude].randomElement(using: &numbers) ?? 0)
        case 5: return .text(bytes(count(80)))
        case 6: return .string("Größe")
        default: return .blob(bytes(count(200)))
        }
    }

    private mutating func bytes(_ count: Int) -> ArraySlice<UInt8> {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &numbers) }[...]
    }

    private mutating func cells(_ count: Int) -> Cells { Cells((0..<count).map { _ in value() }) }

    private mutating func columns(_ most: Int) -> [ColumnID] {
        let found = (0..<count(most)).map { _ in ColumnID(name(), reuse: chance(4) ? UInt32(count(300)) : 0) }
        return Set(found).sorted()
    }

    mutating func dot(tagged: Bool? = nil) -> Dot {
        let hasTag = tagged ?? chance(3)
        return Dot(author: author(), number: number(), tag: hasTag ? Self.id(&numbers) : nil)
    }

    private mutating func dots(_ most: Int, tagged: Bool? = nil) -> [Dot] {
        Set((0..<count(most)).map { _ in dot(tagged: tagged) }).sorted()
    }

    private mutating func time() -> HybridTime {
        HybridTime(rawValue: .random(in: 0...HybridTime.latest.rawValue, using: &numbers))
    }

    private mutating func stamp() -> Stamp {
        Stamp(era: chance(4) ? .random(in: 0 ... .max, using: &numbers) : 0, time: time(), dot: dot())
    }

    private mutating func copied() -> CopiedRow {
        let cells = columns(4).map { CopiedRow.Cell(column: $0, stamp: stamp(), value: self.cells(1)) }
        let sums = columns(2).map {
            CopiedRow.Sum(column: $0, origin: dot(), last: dot(), total: .random(in: -99...99, using: &numbers))
        }
        return CopiedRow(born: stamp(), cells: cells, sums: sums)
    }

    private mutating func shape() -> WriteShape {
        let keyCount = 1 + count(2)
        let kind = [WriteShape.Kind.insert, .update, .delete].randomElement(using: &numbers) ?? .insert
        if kind == .delete { return WriteShape(.delete, name(), keyCount: keyCount) }
        var columns = self.columns(5)
        if columns.isEmpty, kind == .update { columns = [ColumnID(name())] }
        let counters = self.columns(2).filter { !columns.contains($0) }
        return WriteShape(kind, name(), keyCount: keyCount, columns: columns, counters: counters)
    }

    private mutating func write(_ shape: WriteShape) -> Write {
        let isInsertion = shape.kind == .insert
        return Write(
            shape, key: cells(shape.keyCount), incarnation: isInsertion ? nil : dot(),
            values: cells(shape.columns.count),
            steps: shape.counters.map { _ in .random(in: -1000...1000, using: &numbers) },
            seen: chance(6) ? dots(3, tagged: true) : [], era: chance(8) ? UInt32(count(70_000)) : 0,
            copied: isInsertion && chance(5) ? copied() : nil, revives: isInsertion && chance(5) ? dots(2) : [])
    }

    private mutating func event() -> RepositoryEvent {
        switch Int.random(in: 0..<5, using: &numbers) {
        case 0: return .remove(author())
        case 1: return .rename(table: name(), column: ColumnID(name(), reuse: UInt32(count(2))), to: name())
        case 2: return .vouch
        case 3: return .dropped(DroppedNames(table: name(), columns: columns(3), isDropped: chance(2)))
        default: return .policy(TablePolicy(table: name(), counters: columns(3), deletionsWin: chance(2)))
        }
    }

    mutating func commit() throws -> Commit {
        let author = self.author()
        var writes: [Write] = []
        for _ in 0..<count(4) {
            let shape = self.shape()
            for _ in 0..<(1 + count(3)) { writes.append(write(shape)) }
        }
        let context = Set((0..<count(3)).map { _ in self.author() }).sorted().map { author in
            let tips = Set((0..<(1 + count(1))).map { _ in Tip(number: self.number(), tag: Self.id(&numbers)) })
            return AuthorTips(author: author, tips: Array(tips))
        }
        let number = self.number()
        return Commit(
            author: author, number: number, previous: number == 1 ? .zero : Self.id(&numbers), time: time(),
            context: context, beginsBranch: chance(9), meta: chance(2) ? "{}" : #"{"a":"ü"}"#,
            events: chance(3) ? (0..<count(3)).map { _ in event() } : [], writes: try Writes(writes, author: author))
    }
}
