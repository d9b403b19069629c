/// The primary key of a row, as the tables of the engine store it: its exact values.
///
/// Values that a collation holds equal are different keys. They compete for the primary key as rows compete for any other
/// unique value, so each store decides it by its own schema and the base needs none.
struct RowKey: Hashable, Sendable, Comparable {
    /// An integer alone is eight bytes in the order of its values, so that tables with a row id are read in this order.
    let stored: [UInt8]

    private static let integer: UInt8 = 1
    private static let values: UInt8 = 2

    init(_ number: Int64) {
        var bytes = [Self.integer]
        bytes.append(bigEndian: UInt64(bitPattern: number) ^ (1 << 63))
        stored = bytes
    }

    init(_ cells: Cells) {
        if cells.count == 1, case .integer(let number) = cells.values[0] {
            self.init(number)
        } else {
            self.init(stored: [Self.values] + cells.bytes)
        }
    }

    init(_ values: [CellValue]) {
        if values.count == 1, case .integer(let number) = values[0] {
            self.init(number)
        } else {
            self.init(stored: [Self.values] + Cells(values).bytes)
        }
    }

    init(stored: [UInt8]) { self.stored = stored }

    /// The number, if the key is an integer alone.
    var rowID: Int64? {
        guard stored.first == Self.integer, stored.count == 9 else { return nil }
        let raw = stored.dropFirst().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Int64(bitPattern: raw ^ (1 << 63))
    }

    var values: [CellValue] {
        if let rowID { return [.integer(rowID)] }
        var (found, reader) = ([CellValue](), ByteReader(stored[1...]))
        while !reader.isAtEnd, let cell = try? reader.cell() { found.append(CellReader.value(of: cell)) }
        return found
    }

    var cells: Cells { Cells(values) }

    static func < (one: RowKey, other: RowKey) -> Bool { ByteOrder.compare(one.stored[...], other.stored[...]) < 0 }
}

/// A row of any table, by the number of the table.
struct RowPlace: Hashable, Sendable {
    let table: Int64
    let key: RowKey
}
