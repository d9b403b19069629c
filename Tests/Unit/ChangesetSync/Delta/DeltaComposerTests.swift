import Testing

@testable import ChangesetSync

@Suite("Composing deltas")
struct DeltaComposerTests {
    typealias F = DeltaFixture

    private let row = F.row(.integer(1), .string("Anna"), .integer(10))
    private let other = F.row(.integer(1), .string("Ben"), .integer(10))

    private func update(_ column: Int, _ old: DeltaValue, _ new: DeltaValue, indirect: Bool = false) throws -> RowChange
    {
        var values = (
            old: [.integer(1), .undefined, .undefined] as [DeltaValue],
            new: [DeltaValue](repeating: .undefined, count: 3)
        )
        (values.old[column], values.new[column]) = (old, new)
        return try .update(old: DeltaRecord(values.old), new: DeltaRecord(values.new), indirect: indirect)
    }

    private func composed(_ changes: RowChange...) throws -> [RowChange] {
        var composer = DeltaComposer()
        for change in changes { try composer.add(F.delta(change)) }
        return try composer.result().tables.flatMap(\.changes)
    }

    private func failure(_ changes: RowChange...) -> DeltaError? {
        #expect(throws: DeltaError.self) {
            var composer = DeltaComposer()
            for change in changes { try composer.add(F.delta(change)) }
        }
    }

    @Test("two changes of a row become one, or none")
    func pairs() throws {
        let rename = try update(1, .string("Anna"), .string("Ben"))
        let undo = try update(1, .string("Ben"), .string("Anna"))
        let score = try update(2, .integer(10), .integer(11))
        #expect(try composed(.insert(row), rename) == [.insert(other)])
        #expect(try composed(.insert(row), .delete(row)) == [])
        #expect(try composed(rename, undo) == [])
        #expect(try composed(rename, .delete(other)) == [.delete(row)])
        #expect(try composed(.delete(row), .insert(row)) == [])
        #expect(try composed(.delete(row), .insert(other)) == [rename])
        let both = try RowChange.update(
            old: F.row(.integer(1), .string("Anna"), .integer(10)), new: F.row(.undefined, .string("Ben"), .integer(11))
        )
        #expect(try composed(rename, score) == [both])
        #expect(try composed(rename, score, undo) == [score])
    }

    @Test("an inserted row that was deleted can be inserted again; a deleted one that came back can be updated")
    func longer() throws {
        let rename = try update(1, .string("Anna"), .string("Ben"))
        #expect(try composed(.insert(row), .delete(row), .insert(other)) == [.insert(other)])
        #expect(try composed(.delete(row), .insert(row), rename) == [rename])
        #expect(try composed(.delete(row), .insert(other), .delete(other)) == [.delete(row)])
        #expect(try composed(rename, .delete(other), .insert(row), .delete(row)) == [.delete(row)])
    }

    @Test("changes that do not follow each other are refused")
    func misfits() throws {
        let rename = try update(1, .string("Anna"), .string("Ben"))
        #expect(failure(.insert(row), .insert(row))?.code == .rowExists)
        #expect(failure(rename, .insert(other))?.code == .rowExists)
        #expect(failure(.delete(row), rename)?.code == .rowMissing)
        #expect(failure(.delete(row), .delete(row))?.code == .rowMissing)
        #expect(failure(.insert(row), .delete(other))?.code == .rowDiffers)
        #expect(failure(.insert(other), rename)?.code == .rowDiffers)
        #expect(failure(rename, rename)?.code == .rowDiffers)
        #expect(failure(rename, .delete(row))?.code == .rowDiffers)
        // The row is gone, or as it was, and the composition is empty so far.
        #expect(failure(.insert(row), .delete(row), rename)?.code == .rowMissing)
        #expect(failure(.delete(row), .insert(row), .insert(row))?.code == .rowExists)
        #expect(failure(.delete(row), .insert(row), .delete(other))?.code == .rowDiffers)
        let error = failure(.insert(row), .insert(row))
        #expect(error?.table == "player")
        #expect(error?.description.contains("Anna") == false)
    }

    @Test("a change is indirect when all of its parts are")
    func indirect() throws {
        let first = try update(1, .string("Anna"), .string("Ben"), indirect: true)
        #expect(try composed(first, update(2, .null, .integer(1), indirect: true)).map(\.isIndirect) == [true])
        #expect(try composed(first, update(2, .null, .integer(1))).map(\.isIndirect) == [false])
        #expect(try composed(update(2, .null, .integer(1)), first).map(\.isIndirect) == [false])
    }

    @Test("a table with other columns or another key is refused")
    func otherTable() throws {
        let first = try F.delta(.insert(row))
        for table in try [
            DeltaTable(name: "player", columns: ["id", "name", "rank"], keyOrdinals: [1, 0, 0]),
            DeltaTable(name: "player", columns: ["id", "name", "score"], keyOrdinals: [2, 1, 0]),
            DeltaTable(name: "PLAYER", columns: ["id", "name", "score"], keyOrdinals: [1, 0, 0]),
        ] {
            let second = try Delta([TableDelta(table: table, changes: [.insert(row)])])
            #expect(throws: DeltaError(.otherTable, table: "player")) { try first.followed(by: second) }
        }
    }

    /// A commit of before a column says nothing of it; its author, or the next one, may have had another default.
    @Test("a value of which a delta says nothing is what a later one says, and else the default")
    func openRows() throws {
        let (open, full) = (
            F.row(.integer(1), .string("Anna"), .undefined), F.row(.integer(1), .string("Anna"), .integer(7))
        )
        let rename = try update(1, .string("Anna"), .string("Ben"))
        let score = try update(2, .integer(10), .integer(11))
        let scored = F.row(.integer(1), .string("Anna"), .integer(11))
        func composed(_ changes: RowChange...) throws -> [RowChange] {
            var composer = DeltaComposer()
            let defaults = [DeltaTable.FoldedName("player"): F.row(.integer(0), .null, .integer(7)).cells]
            for change in changes {
                let delta = Delta(canonical: [TableDelta(canonical: [change], of: F.player)])
                try change == .insert(open) || change == .delete(open)
                    ? composer.add(open: delta, defaults: defaults) : composer.add(delta)
            }
            return try composer.result().tables.flatMap(\.changes)
        }
        #expect(try composed(.insert(open)) == [.insert(full)])
        #expect(try composed(.delete(open)) == [.delete(full)])
        #expect(try composed(.insert(open), rename) == [.insert(F.row(.integer(1), .string("Ben"), .integer(7)))])
        #expect(try composed(.insert(open), score) == [.insert(scored)])
        #expect(try composed(.insert(open), score, .delete(scored)) == [])
        #expect(try composed(.delete(open), .insert(open)) == [])
        // Before the insertion it was another row.
        #expect(try composed(.delete(open), .insert(open), score) == [update(2, .integer(7), .integer(11))])
        #expect(try composed(score, .delete(scored), .insert(open)) == [update(2, .integer(10), .integer(7))])
    }

    @Test("nothing and one delta stay as they are")
    func fewDeltas() throws {
        #expect(try DeltaComposer().result() == .empty)
        let delta = try F.sample()
        #expect(try delta.followed(by: .empty) == delta)
        #expect(try Delta.empty.followed(by: delta) == delta)
        #expect(Delta.empty.isEmpty && Delta.empty.inverted == .empty)
        #expect(try Delta(encoded: Delta.empty.encoded()[...]) == .empty)
    }

    @Test("many changes of one row beside a large value are one change")
    func manyChanges() throws {
        let large = DeltaValue.blob(Array(repeating: 7, count: 1 << 20)[...])
        var composer = DeltaComposer()
        try composer.add(F.delta(.insert(F.row(.integer(1), large, .integer(0)))))
        for number in 0..<Int64(2000) {
            try composer.add(F.delta(update(2, .integer(number), .integer(number + 1))))
        }
        #expect(try composer.result() == F.delta(.insert(F.row(.integer(1), large, .integer(2000)))))
    }
}
