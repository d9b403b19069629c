/// A value of a row as SQLite stores it. A text is bytes, because SQLite stores texts that are not valid UTF-8.
enum CellValue: Sendable, Hashable {
    case null
    case integer(Int64)
    /// A NaN is written as NULL, as SQLite does it.
    case real(Double)
    case text(ArraySlice<UInt8>)
    case blob(ArraySlice<UInt8>)

    static func string(_ text: String) -> CellValue { .text(Array(text.utf8)[...]) }

    /// Values are equal if their cells have the same bytes: 1 and 1.0 differ, so do 0.0 and -0.0.
    package static func == (one: CellValue, other: CellValue) -> Bool {
        switch (one, other) {
        case (.null, .null): true
        case (.integer(let one), .integer(let other)): one == other
        case (.real(let one), .real(let other)): one.bitPattern == other.bitPattern || one.isNaN && other.isNaN
        case (.null, .real(let number)), (.real(let number), .null): number.isNaN
        case (.text(let one), .text(let other)), (.blob(let one), .blob(let other)): ByteOrder.areEqual(one, other)
        default: false
        }
    }

    package func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(SerialType.null)
        case .integer(let number): hasher.combine(number)
        case .real(let number): hasher.combine(number.isNaN ? SerialType.null : number.bitPattern)
        case .text(let bytes), .blob(let bytes): bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
    }
}

/// Encoded values. Each value has one encoding, so values are equal if their bytes are, and have an order by their bytes.
///
/// A cell is a serial type of SQLite's record format as a varint, then the content, both in the shortest form.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#record_format>
struct Cells: Sendable {
    let bytes: ArraySlice<UInt8>
    let count: Int

    /// No cells.
    init() { (bytes, count) = ([], 0) }

    init(_ values: some Collection<CellValue>) {
        var encoded: [UInt8] = []
        for value in values { encoded.append(cell: value) }
        (bytes, count) = (encoded[...], values.count)
    }

    /// Takes bytes that are known to be whole cells.
    init(valid bytes: ArraySlice<UInt8>, count: Int) {
        self.bytes = bytes
        self.count = count
    }

    /// Reads bytes of another place, for example a column of a table of the engine.
    init(decoding bytes: ArraySlice<UInt8>, count: Int) throws(CommitError) {
        var reader = ByteReader(bytes)
        self = try reader.cells(count)
        guard reader.isAtEnd else { throw reader.error(.trailingBytes) }
    }

    var values: [CellValue] { slices.map { CellReader.value(of: $0) } }

    /// Each cell alone.
    var slices: [ArraySlice<UInt8>] {
        var (found, index) = ([ArraySlice<UInt8>](), bytes.startIndex)
        found.reserveCapacity(count)
        while index < bytes.endIndex, let end = CellReader.end(of: bytes, at: index) {
            found.append(bytes[index..<end])
            index = end
        }
        return found
    }
}

extension Cells: Hashable, Comparable {
    package static func == (one: Cells, other: Cells) -> Bool {
        one.count == other.count && ByteOrder.areEqual(one.bytes, other.bytes)
    }
    package func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
    package static func < (one: Cells, other: Cells) -> Bool { ByteOrder.compare(one.bytes, other.bytes) < 0 }
}

/// The serial types.
enum SerialType {
    static let null: UInt64 = 0
    /// Integers of 1, 2, 3, 4, 6, 8 bytes have the types 1 to 6.
    static let integerWidths = [1, 2, 3, 4, 6, 8]
    static let real: UInt64 = 7
    static let zero: UInt64 = 8
    static let one: UInt64 = 9
    /// A value that is not known: in rows of the base alone, never in commits.
    static let unknown: UInt64 = 10
    /// The first type of a blob. An even type is a blob, an odd one a text; 11 has no meaning.
    static let firstBytes: UInt64 = 12

    /// The type of the shortest form of an integer.
    static func integer(_ value: Int64) -> UInt64 {
        if value == 0 { return zero }
        if value == 1 { return one }
        let bits = 65 - (value ^ (value >> 63)).leadingZeroBitCount
        switch bits {
        case ...8: return 1
        case ...16: return 2
        case ...24: return 3
        case ...32: return 4
        case ...48: return 5
        default: return 6
        }
    }
}

/// Reads cells that are known to be valid.
enum CellReader {
    /// The index after the cell at an index; nil at the end.
    static func end(of bytes: ArraySlice<UInt8>, at start: Int) -> Int? {
        var reader = ByteReader(bytes[start...])
        guard (try? reader.cell()) != nil else { return nil }
        return reader.index
    }

    static func value(of cell: ArraySlice<UInt8>) -> CellValue {
        var reader = ByteReader(cell)
        guard let type = try? reader.varint() else { return .null }
        switch type {
        case SerialType.zero: return .integer(0)
        case SerialType.one: return .integer(1)
        case SerialType.real:
            return .real(Double(bitPattern: reader.rest.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        case 1...6: return .integer(integer(reader.rest))
        case SerialType.firstBytes...: return type % 2 == 0 ? .blob(reader.rest) : .text(reader.rest)
        default: return .null
        }
    }

    static func integer(_ content: ArraySlice<UInt8>) -> Int64 {
        guard let first = content.first else { return 0 }
        return content.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
    }
}

extension ByteReader {
    /// Reads one cell and returns its bytes.
    mutating func cell() throws(CommitError) -> ArraySlice<UInt8> {
        let start = self
        let type = try varint()
        switch type {
        case SerialType.null, SerialType.zero, SerialType.one: break
        case SerialType.real:
            if try Double(bitPattern: integer(as: UInt64.self)).isNaN { throw start.error(.notANumber) }
        case 1...6:
            let content = try take(SerialType.integerWidths[Int(type) - 1])
            guard SerialType.integer(CellReader.integer(content)) == type else { throw start.error(.malformedNumber) }
        case SerialType.firstBytes...:
            let length = (type - SerialType.firstBytes) / 2
            guard length <= UInt64(remaining) else { throw start.error(.truncated) }
            _ = try take(Int(length))
        default: throw start.error(.unknownValue(type))
        }
        return start.rest[start.index..<index]
    }

    /// Reads the type of an unknown value, if it stands in the place of a cell.
    mutating func skipUnknownCell() -> Bool {
        var other = self
        guard (try? other.varint()) == SerialType.unknown else { return false }
        self = other
        return true
    }

    mutating func cells(_ count: Int) throws(CommitError) -> Cells {
        let start = self
        for _ in 0..<count { _ = try cell() }
        return Cells(valid: start.rest[start.index..<index], count: count)
    }

    /// Reads a cell that is an integer.
    mutating func integerCell() throws(CommitError) -> Int64 {
        let start = self
        guard case .integer(let value) = try CellReader.value(of: cell()) else { throw start.error(.notANumber) }
        return value
    }
}

extension ByteSink {
    /// Appends a value as a cell.
    mutating func append(cell value: CellValue) {
        switch value {
        case .null: append(UInt8(SerialType.null))
        case .integer(let number): append(integerCell: number)
        case .real(let number) where number.isNaN: append(UInt8(SerialType.null))
        case .real(let number):
            append(UInt8(SerialType.real))
            append(bigEndian: number.bitPattern)
        case .blob(let content):
            append(varint: SerialType.firstBytes + 2 * UInt64(content.count))
            append(contentsOf: content)
        case .text(let content):
            append(varint: SerialType.firstBytes + 1 + 2 * UInt64(content.count))
            append(contentsOf: content)
        }
    }

    mutating func append(integerCell value: Int64) {
        let type = SerialType.integer(value)
        append(UInt8(type))
        guard type <= 6 else { return }
        let width = SerialType.integerWidths[Int(type) - 1]
        for shift in stride(from: 8 * (width - 1), through: 0, by: -8) {
            append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }
}
