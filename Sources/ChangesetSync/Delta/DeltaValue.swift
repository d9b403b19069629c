/// A value of a row as SQLite stores it, or ``undefined``: nothing is said of the column.
///
/// Two values are equal when they have the same storage class and the same bytes: 1 and 1.0 differ, so do 0.0 and -0.0.
/// A text is bytes, because SQLite stores texts that are not valid UTF-8.
package enum DeltaValue: Sendable {
    case undefined
    case null
    case integer(Int64)
    case real(Double)
    case text(ArraySlice<UInt8>)
    case blob(ArraySlice<UInt8>)

    package static func string(_ text: String) -> DeltaValue { .text(Array(text.utf8)[...]) }
}

extension DeltaValue: Hashable {
    package static func == (left: DeltaValue, right: DeltaValue) -> Bool {
        switch (left, right) {
        case (.undefined, .undefined), (.null, .null): true
        case (.integer(let left), .integer(let right)): left == right
        case (.real(let left), .real(let right)): left.bitPattern == right.bitPattern
        case (.text(let left), .text(let right)), (.blob(let left), .blob(let right)): ByteOrder.areEqual(left, right)
        default: false
        }
    }

    package func hash(into hasher: inout Hasher) {
        switch self {
        case .undefined: hasher.combine(Cell.undefined)
        case .null: hasher.combine(Cell.null)
        case .integer(let value): hasher.combine(value)
        case .real(let value): hasher.combine(value.bitPattern)
        case .text(let bytes), .blob(let bytes): bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
    }
}

/// The encoded form of one value: a byte that names the storage class, then the content. Each value has one encoding
/// only, so two values are equal when their cells have the same bytes.
enum Cell {
    static let undefined: UInt8 = 0x00
    static let integer: UInt8 = 0x01
    static let real: UInt8 = 0x02
    static let text: UInt8 = 0x03
    static let blob: UInt8 = 0x04
    static let null: UInt8 = 0x05
    /// An integer or a real: the class and eight bytes.
    static let numberBytes = 9

    /// The index after the cell that begins at `start`.
    @inline(__always)
    static func end(of bytes: ArraySlice<UInt8>, at start: Int) throws(DeltaError) -> Int {
        guard start < bytes.endIndex else { throw DeltaError(.truncated, at: start) }
        let end: Int
        switch bytes[start] {
        case undefined, null: return start + 1
        case integer: end = start + numberBytes
        case real:
            end = start + numberBytes
            guard end <= bytes.endIndex else { break }
            if number(in: bytes, at: start, as: Double.self).isNaN { throw DeltaError(.notANumber, at: start) }
        case text, blob:
            let length = try DeltaError.length(Varint.read(bytes, at: start + 1), at: start + 1)
            guard length.value <= bytes.endIndex - length.end else { throw DeltaError(.truncated, at: start) }
            return length.end + length.value
        case let other: throw DeltaError(.unknownValue(other), at: start)
        }
        guard end <= bytes.endIndex else { throw DeltaError(.truncated, at: start) }
        return end
    }

    static func append(integer value: Int64, to bytes: inout [UInt8]) {
        bytes.append(integer)
        bytes.append(bigEndian: value)
    }

    /// Appends a real; a NaN becomes NULL, as it does in SQLite.
    static func append(real value: Double, to bytes: inout [UInt8]) {
        guard !value.isNaN else { return bytes.append(null) }
        bytes.append(real)
        bytes.append(bigEndian: value.bitPattern)
    }

    static func append(text content: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        append(text, content, to: &bytes)
    }

    static func append(blob content: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        append(blob, content, to: &bytes)
    }

    private static func append(
        _ storageClass: UInt8, _ content: UnsafeRawBufferPointer, to bytes: inout [UInt8]
    ) {
        bytes.append(storageClass)
        Varint.append(content.count, to: &bytes)
        bytes.append(contentsOf: content)
    }

    /// The value of one whole cell.
    static func value(of cell: ArraySlice<UInt8>) -> DeltaValue {
        switch cell[cell.startIndex] {
        case undefined: return .undefined
        case integer: return .integer(number(in: cell, at: cell.startIndex, as: Int64.self))
        case real: return .real(number(in: cell, at: cell.startIndex, as: Double.self))
        case text: return .text(content(of: cell))
        case blob: return .blob(content(of: cell))
        default: return .null
        }
    }

    private static func content(of cell: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard case .value(_, let start) = Varint.read(cell, at: cell.startIndex + 1) else { return [] }
        return cell[start...]
    }

    private static func number(in bytes: ArraySlice<UInt8>, at start: Int, as type: Int64.Type) -> Int64 {
        bytes.withUnsafeBytes {
            Int64(bigEndian: $0.loadUnaligned(fromByteOffset: start - bytes.startIndex + 1, as: Int64.self))
        }
    }

    private static func number(in bytes: ArraySlice<UInt8>, at start: Int, as type: Double.Type) -> Double {
        Double(bitPattern: UInt64(bitPattern: number(in: bytes, at: start, as: Int64.self)))
    }
}

/// Encodes the values of a row one after the other, for a capture that reads them from a statement.
struct RecordWriter: Sendable {
    private var bytes: [UInt8] = []
    private var columnCount = 0

    init() {}

    /// Appends a value. A NaN becomes NULL, as it does in SQLite.
    mutating func append(_ value: DeltaValue) {
        switch value {
        case .undefined: appendCell { $0.append(Cell.undefined) }
        case .null: appendCell { $0.append(Cell.null) }
        case .integer(let value): append(integer: value)
        case .real(let value): append(real: value)
        case .text(let content): content.withUnsafeBytes { append(text: $0) }
        case .blob(let content): content.withUnsafeBytes { append(blob: $0) }
        }
    }

    mutating func append(integer value: Int64) { appendCell { Cell.append(integer: value, to: &$0) } }

    /// Appends a real; a NaN becomes NULL, as it does in SQLite.
    mutating func append(real value: Double) { appendCell { Cell.append(real: value, to: &$0) } }

    mutating func append(text content: UnsafeRawBufferPointer) {
        appendCell { Cell.append(text: content, to: &$0) }
    }

    mutating func append(blob content: UnsafeRawBufferPointer) {
        appendCell { Cell.append(blob: content, to: &$0) }
    }

    /// The record of everything appended; the writer begins another one, for which it reserves as much memory.
    mutating func finish() -> DeltaRecord {
        let record = DeltaRecord(valid: bytes[...], columnCount: columnCount)
        let byteCount = bytes.count
        bytes = []
        bytes.reserveCapacity(byteCount)
        columnCount = 0
        return record
    }

    /// Appends one cell.
    @inline(__always)
    mutating func appendCell(_ append: (inout [UInt8]) -> Void) {
        append(&bytes)
        columnCount += 1
    }
}

/// The values of one row, one for each column, in their encoded form.
package struct DeltaRecord: Sendable {
    /// The cells one after the other. A digest of rows may take them as they are.
    package let bytes: ArraySlice<UInt8>
    package let columnCount: Int

    /// Takes bytes that are known to be that many whole cells.
    init(valid bytes: ArraySlice<UInt8>, columnCount: Int) {
        self.bytes = bytes
        self.columnCount = columnCount
    }

    /// Joins encoded cells. Each is copied as a whole: a lazy join would copy the bytes one by one.
    init(cells: some Collection<some Collection<UInt8>>) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(cells.reduce(0) { $0 + $1.count })
        for cell in cells { bytes.append(contentsOf: cell) }
        self.init(valid: bytes[...], columnCount: cells.count)
    }

    /// Encodes values; a NaN becomes NULL, as it does in SQLite.
    package init(_ values: some Sequence<DeltaValue>) {
        var writer = RecordWriter()
        for value in values { writer.append(value) }
        self = writer.finish()
    }

    /// The encoded cells of all columns, as parts of the same memory.
    var cells: [ArraySlice<UInt8>] {
        var cells: [ArraySlice<UInt8>] = []
        cells.reserveCapacity(columnCount)
        var start = bytes.startIndex
        while start < bytes.endIndex, let end = try? Cell.end(of: bytes, at: start) {
            cells.append(bytes[start..<end])
            start = end
        }
        return cells
    }

    package var values: [DeltaValue] { Array(self) }
}

extension DeltaRecord: Hashable {
    package static func == (left: DeltaRecord, right: DeltaRecord) -> Bool {
        ByteOrder.areEqual(left.bytes, right.bytes)
    }

    package func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

/// Reading the values from the first column to the last takes no memory: texts and blobs are parts of the record's.
extension DeltaRecord: Sequence {
    package struct Iterator: IteratorProtocol {
        fileprivate let bytes: ArraySlice<UInt8>
        fileprivate var index: Int

        package mutating func next() -> DeltaValue? {
            guard index < bytes.endIndex, let end = try? Cell.end(of: bytes, at: index) else { return nil }
            defer { index = end }
            return Cell.value(of: bytes[index..<end])
        }
    }

    package func makeIterator() -> Iterator { Iterator(bytes: bytes, index: bytes.startIndex) }
    package var underestimatedCount: Int { columnCount }
}
