import Testing

@testable import ChangesetSync

@Suite("Values are equal if their cells are")
struct CellEqualityTests {
    private static let values: [CellValue] = [
        .null, .integer(0), .integer(1), .real(0), .real(-0.0), .real(1), .real(.nan), .real(-.nan), .text([]),
        .blob([]),
        .text([49]), .blob([49]), .integer(49),
    ]

    @Test("equality and hashes are those of the encoded cells", arguments: values.indices)
    func equality(place: Int) {
        let one = Self.values[place]
        for other in Self.values {
            #expect((one == other) == (Cells([one]) == Cells([other])), "\(one), \(other)")
            if one == other { #expect(one.hashValue == other.hashValue, "\(one), \(other)") }
        }
    }

    @Test("keys are equal, and ordered, as their stored bytes are")
    func keys() {
        let keys = [
            RowKey(0), RowKey(-1), RowKey(.min), RowKey(.max), RowKey([.integer(5)]), RowKey(Cells([.integer(5)])),
            RowKey([.string("a")]), RowKey([.real(5)]), RowKey([.integer(5), .integer(6)]), RowKey([.null]),
        ]
        for one in keys {
            #expect(RowKey(stored: one.stored) == one)
            #expect(RowKey(one.values) == one && RowKey(one.cells) == one)
            for other in keys {
                #expect((one == other) == (one.stored == other.stored))
                #expect((one < other) == (ByteOrder.compare(one.stored[...], other.stored[...]) < 0))
            }
        }
    }
}
