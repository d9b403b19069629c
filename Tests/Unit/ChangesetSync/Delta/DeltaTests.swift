import Foundation
import Testing

@testable import ChangesetSync

@Suite("Deltas")
struct DeltaTests {
    typealias F = DeltaFixture

    // MARK: What SQLite's session extension makes

    @Test(
        "a changeset of the session extension is read, and written in canonical order",
        arguments: ChangesetVectors.all.sessions)
    func readsSessions(vector: ChangesetVectors.Session) throws {
        for (changeset, canonical) in zip(vector.changesets, vector.canonical) {
            let delta = try ChangesetVectors.delta(changeset)
            #expect(F.hex(SessionFormat.encode(delta)) == canonical)
            #expect(try ChangesetVectors.delta(canonical) == delta)
        }
    }

    @Test("inverses and compositions are those of the session extension", arguments: ChangesetVectors.all.sessions)
    func agreesWithTheExtension(vector: ChangesetVectors.Session) throws {
        let deltas = try vector.changesets.map { try ChangesetVectors.delta($0) }
        #expect(deltas.map { F.hex(SessionFormat.encode($0.inverted)) } == vector.inverted)
        let composed = try deltas[0].followed(by: deltas[1])
        #expect(F.hex(SessionFormat.encode(composed)) == vector.composed)
    }

    @Test(
        "a changeset takes the rows of a database from one state to the next, and back",
        arguments: ChangesetVectors.all.sessions)
    func changesRows(vector: ChangesetVectors.Session) throws {
        let deltas = try vector.changesets.map { try ChangesetVectors.delta($0) }
        let tables = deltas.flatMap(\.tables).map(\.table)
        let states = vector.states.map { state in
            var model = RowModel()
            for (name, rows) in state {
                guard let table = tables.first(where: { $0.name == name }) else { continue }
                for row in rows {
                    let values = DeltaRecord(valid: F.bytes(row), columnCount: table.columns.count).values
                    model.rows[Array(name.utf8), default: [:]][table.keyColumns.map { values[$0] }] = values
                }
            }
            return model
        }
        let middle = try states[0].applying(deltas[0])
        #expect(middle == states[1])
        #expect(try middle.applying(deltas[1]) == states[2])
        #expect(try states[0].applying(deltas[0].followed(by: deltas[1])) == states[2])
        #expect(try states[2].applying(deltas[1].inverted).applying(deltas[0].inverted) == states[0])
    }

    @Test("the bytes of another implementation are read and written", arguments: ChangesetVectors.all.deltas)
    func readsDeltas(vector: ChangesetVectors.Encoded) throws {
        let delta = try Delta(encoded: F.bytes(vector.bytes))
        #expect(F.hex(delta.encoded()) == vector.bytes)
    }

    // MARK: Random deltas

    @Test("reading gives what was written, whatever the order of the changes was")
    func roundTrips() throws {
        let seed = F.seed()
        for number in 0..<150 {
            var world = try DeltaWorld(seed: seed &+ UInt64(number))
            let (old, new) = (world.edited(RowModel()), world.edited(RowModel()))
            let delta = try world.delta(from: old, to: new)
            let bytes = delta.encoded()
            let session = SessionFormat.encode(delta)
            #expect(try Delta(encoded: bytes[...]) == delta, "CIPHERSTORE_SEED=\(seed)")
            #expect(try world.delta(from: old, to: new).encoded() == bytes, "CIPHERSTORE_SEED=\(seed)")
            #expect(bytes.suffix(session.count) == session[...], "CIPHERSTORE_SEED=\(seed)")
            // Offsets count from the first byte, wherever it is in its memory.
            #expect(try Delta(encoded: ([1, 2, 3] + bytes)[3...]) == delta, "CIPHERSTORE_SEED=\(seed)")
        }
    }

    @Test("a delta takes one state to another; inverted it takes that back, and twice inverted it is the same")
    func inverts() throws {
        let seed = F.seed()
        for number in 0..<150 {
            var world = try DeltaWorld(seed: seed &+ UInt64(number))
            let old = world.edited(RowModel())
            let new = world.edited(old)
            let delta = try world.delta(from: old, to: new)
            #expect(try old.applying(delta) == new, "CIPHERSTORE_SEED=\(seed)")
            #expect(try new.applying(delta.inverted) == old, "CIPHERSTORE_SEED=\(seed)")
            #expect(delta.inverted.inverted == delta, "CIPHERSTORE_SEED=\(seed)")
            #expect(try Delta(encoded: delta.inverted.encoded()[...]) == delta.inverted, "CIPHERSTORE_SEED=\(seed)")
            #expect(try delta.followed(by: delta.inverted).isEmpty, "CIPHERSTORE_SEED=\(seed)")
        }
    }

    @Test("composing many deltas is the same as applying one after the other, and as the difference of the ends")
    func composes() throws {
        let seed = F.seed()
        for number in 0..<100 {
            var world = try DeltaWorld(seed: seed &+ UInt64(number))
            var states = [world.edited(RowModel())]
            var composer = DeltaComposer()
            for _ in 0..<Int.random(in: 1...8, using: &world.numbers) {
                let next = world.edited(states[states.count - 1])
                try composer.add(world.delta(from: states[states.count - 1], to: next))
                states.append(next)
            }
            let result = try composer.result()
            let last = states[states.count - 1]
            #expect(try states[0].applying(result) == last, "CIPHERSTORE_SEED=\(seed)")
            #expect(try world.delta(from: states[0], to: last) == result, "CIPHERSTORE_SEED=\(seed)")
        }
    }

    @Test("composition is associative")
    func associative() throws {
        let seed = F.seed()
        for number in 0..<60 {
            var world = try DeltaWorld(seed: seed &+ UInt64(number))
            let states = (0..<3).reduce(into: [world.edited(RowModel())]) { states, _ in
                states.append(world.edited(states[states.count - 1]))
            }
            let deltas = try (0..<3).map { try world.delta(from: states[$0], to: states[$0 + 1]) }
            let left = try deltas[0].followed(by: deltas[1]).followed(by: deltas[2])
            let right = try deltas[0].followed(by: deltas[1].followed(by: deltas[2]))
            #expect(left == right, "CIPHERSTORE_SEED=\(seed)")
        }
    }

    @Test("a change is found by the key of its row")
    func findsByKey() throws {
        let seed = F.seed()
        var world = try DeltaWorld(seed: seed)
        let (old, new) = (world.edited(RowModel()), world.edited(RowModel()))
        for table in try world.delta(from: old, to: new).tables {
            for change in table.changes {
                let found = table.change(of: table.table.key(of: change.keyRecord))
                #expect(found == change, "CIPHERSTORE_SEED=\(seed)")
            }
            let other = table.table.key(of: DeltaRecord(table.table.columns.map { _ in .string("absent") }))
            #expect(table.change(of: other) == nil)
        }
    }

    // MARK: Values

    @Test("values are equal when class and bytes are")
    func distinguishesValues() {
        let values: [DeltaValue] = [
            .undefined, .null, .integer(0), .integer(1), .real(0), .real(-0.0), .real(1), .string("1"),
            .string("e\u{301}"),
            .string("\u{e9}"), .blob([0x31]), .text([]), .blob([]),
        ]
        #expect(Set(values).count == values.count)
        for (left, value) in values.enumerated() {
            for (right, other) in values.enumerated() { #expect((value == other) == (left == right)) }
        }
        for value in values { #expect(DeltaRecord([value]).values == [value]) }
        // SQLite stores NULL in its place.
        #expect(DeltaRecord([.real(.nan)]).values == [.null])
    }

    @Test("0.0 and -0.0 are a change, and so are 1 and 1.0")
    func changesOfRepresentation() throws {
        let old = F.row(.integer(1), .real(0), .integer(1))
        let change = try #require(try F.player.change(from: old, to: F.row(.integer(1), .real(-0.0), .real(1))))
        #expect(change.new?.values == [.undefined, .real(-0.0), .real(1)])
        #expect(try F.player.change(from: old, to: old) == nil)
        #expect(try F.player.change(from: nil, to: nil) == nil)
        let moved = F.row(.real(1), .real(0), .integer(1))
        #expect(throws: DeltaError(.keyInNewValues)) { try F.player.change(from: old, to: moved) }
    }

    @Test("a key is in the order of the columns, also where its columns stand apart")
    func keysApart() throws {
        let table = try DeltaTable(name: "t", columns: ["a", "b", "c", "d", "e"], keyOrdinals: [0, 2, 0, 1, 3])
        let record = F.row(.null, .integer(2), .string("x"), .string("d"), .blob([1]))
        #expect(table.key(of: record).values == [.integer(2), .string("d"), .blob([1])])
        let side = try DeltaTable(name: "t", columns: ["a", "b", "c"], keyOrdinals: [0, 1, 2])
        #expect(side.key(of: F.row(.null, .integer(1), .null)).values == [.integer(1), .null])
    }
}
