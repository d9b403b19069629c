/// The primary key of a row, as the tables of the engine store it: its exact values.
///
/// Values that a collation holds equal are different keys. They compete for the primary key as rows compete for any other
/// unique value, so each store decides it by its own schema and the base needs none.
struct RowKey: Hashable, Sendable, Comparable {
    private enum Form: Hashable, Sendable {
        /// An integer alone, which most keys are: it needs no memory of its own.
        case number(Int64)
        /// The stored bytes of any other key.
        case bytes([UInt8])
    }

    private let form: Form

    private static let integer: UInt8 = 1
    private static let values: UInt8 = 2

    init(_ number: Int64) { form = .number(number) }

    init(_ cells: Cells) {
        if cells.count == 1, case .integer(let number) = CellReader.value(of: cells.bytes) {
            form = .number(number)
        } else {
            form = .bytes([Self.values] + cells.bytes)
        }
    }

    init(_ values: [CellValue]) {
        if values.count == 1, case .integer(let number) = values[0] {
            form = .number(number)
        } else {
            form = .bytes([Self.values] + Cells(values).bytes)
        }
    }

    init(stored: [UInt8]) {
        if stored.first == Self.integer, stored.count == 9 {
            let raw = stored.dropFirst().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            form = .number(Int64(bitPattern: raw ^ (1 << 63)))
        } else {
            form = .bytes(stored)
        }
    }

    /// An integer alone is eight bytes in the order of its values, so that tables with a row id are read in this order.
    var stored: [UInt8] {
        switch form {
        case .number(let number):
            var bytes = [Self.integer]
            bytes.append(bigEndian: UInt64(bitPattern: number) ^ (1 << 63))
            return bytes
        case .bytes(let bytes): return bytes
        }
    }

    /// The number, if the key is an integer alone.
    var rowID: Int64? { if case .number(let number) = form { number } else { nil } }

    var values: [CellValue] {
        switch form {
        case .number(let number): return [.integer(number)]
        case .bytes(let bytes):
            var (found, reader) = ([CellValue](), ByteReader(bytes[1...]))
            while !reader.isAtEnd, let cell = try? reader.cell() { found.append(CellReader.value(of: cell)) }
            return found
        }
    }

    var cells: Cells { Cells(values) }

    /// The keys that are equal to this one in SQLite, and have a zero of another sign.
    var withOtherZeros: [RowKey] {
        if rowID != nil { return [] }
        var keys: [[CellValue]] = [[]]
        for value in values {
            guard case .real(let number) = value, number == 0 else {
                keys = keys.map { $0 + [value] }
                continue
            }
            keys = keys.map { $0 + [.real(0.0)] } + keys.map { $0 + [.real(-0.0)] }
        }
        return keys.map { RowKey($0) }.filter { $0 != self }
    }

    static func < (one: RowKey, other: RowKey) -> Bool {
        if let one = one.rowID, let other = other.rowID { return one < other }
        return ByteOrder.compare(one.stored[...], other.stored[...]) < 0
    }
}

/// A row of any table, by the number of the table.
struct RowPlace: Hashable, Sendable {
    let table: Int64
    let key: RowKey
}
