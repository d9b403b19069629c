/// Reads bytes that may be damaged or hostile. Nothing is read past their end: what is missing is nil.
struct ByteReader {
    let bytes: ArraySlice<UInt8>
    private(set) var index: Int

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        index = bytes.startIndex
    }

    /// The number of bytes before the next one.
    var offset: Int { index - bytes.startIndex }
    var remaining: Int { bytes.endIndex - index }
    var isAtEnd: Bool { index == bytes.endIndex }
    /// The next byte, which is not consumed.
    var next: UInt8? { index < bytes.endIndex ? bytes[index] : nil }

    mutating func byte() -> UInt8? {
        guard index < bytes.endIndex else { return nil }
        defer { index += 1 }
        return bytes[index]
    }

    /// Consumes `count` bytes, which may come from the bytes themselves and be any number.
    mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
        guard count >= 0, count <= remaining else { return nil }
        defer { index += count }
        return bytes[index..<index + count]
    }

    /// Consumes everything up to the byte and the byte itself, which is not part of the result.
    mutating func take(upTo byte: UInt8) -> ArraySlice<UInt8>? {
        guard let end = bytes[index...].firstIndex(of: byte) else { return nil }
        defer { index = end + 1 }
        return bytes[index..<end]
    }

    /// Reads an integer of fixed width, the highest byte first.
    mutating func integer<Number: FixedWidthInteger & BitwiseCopyable>(as type: Number.Type) -> Number? {
        guard let taken = take(MemoryLayout<Number>.size) else { return nil }
        return taken.withUnsafeBytes { Number(bigEndian: $0.loadUnaligned(as: type)) }
    }

    mutating func varint() -> Varint.Reading {
        let reading = Varint.read(bytes, at: index)
        if case .value(_, let end) = reading { index = end }
        return reading
    }

    /// Continues at an index of the bytes.
    mutating func move(to index: Int) { self.index = min(max(index, bytes.startIndex), bytes.endIndex) }
}

/// SQLite's integer of variable length, as the session extension uses it: 7 bits a byte, the highest first, and bit 7
/// set in all bytes but the last.
///
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#varint>
enum Varint {
    enum Reading: Equatable {
        /// `end` is the index after the last byte.
        case value(Int, end: Int)
        case truncated
        /// There is a shorter encoding of the same number, or the number is above ``limit``.
        case refused
    }

    /// The greatest number that is read: the greatest length of a text or blob that SQLite can have.
    static let limit = Int(Int32.max)
    private static let mostBytes = 5

    @inline(__always)
    static func read(_ bytes: ArraySlice<UInt8>, at start: Int) -> Reading {
        guard start < bytes.endIndex else { return .truncated }
        let first = bytes[start]
        return first < 0x80 ? .value(Int(first), end: start + 1) : readLong(bytes, at: start)
    }

    private static func readLong(_ bytes: ArraySlice<UInt8>, at start: Int) -> Reading {
        // A first byte without a bit of the number is a leading zero.
        guard bytes[start] != 0x80 else { return .refused }
        var value = 0
        for index in start..<start + mostBytes {
            guard index < bytes.endIndex else { return .truncated }
            value = value << 7 | Int(bytes[index] & 0x7f)
            if bytes[index] < 0x80 { return value <= limit ? .value(value, end: index + 1) : .refused }
        }
        return .refused
    }

    static func byteCount(_ value: Int) -> Int { max((Int.bitWidth - value.leadingZeroBitCount + 6) / 7, 1) }

    static func append(_ value: Int, to bytes: inout [UInt8]) {
        for group in stride(from: byteCount(value) - 1, to: 0, by: -1) {
            bytes.append(UInt8(truncatingIfNeeded: value >> (7 * group)) | 0x80)
        }
        bytes.append(UInt8(truncatingIfNeeded: value) & 0x7f)
    }
}

/// Comparing bytes, eight at a time.
enum ByteOrder {
    static func areEqual(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Bool {
        left.count == right.count && compare(left, right) == 0
    }

    /// Negative, zero or positive, as the first differing byte, or else the length, is less, equal or greater.
    static func compare(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Int {
        left.withUnsafeBytes { left in right.withUnsafeBytes { right in compare(left, right) } }
    }

    static func compare(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
        let common = min(left.count, right.count)
        var index = 0
        while index + 8 <= common {
            let one = UInt64(bigEndian: left.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let other = UInt64(bigEndian: right.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            if one != other { return one < other ? -1 : 1 }
            index += 8
        }
        while index < common {
            if left[index] != right[index] { return Int(left[index]) - Int(right[index]) }
            index += 1
        }
        return left.count - right.count
    }
}

extension [UInt8] {
    /// Appends an integer of fixed width, its highest byte first.
    mutating func append<Value: FixedWidthInteger>(bigEndian value: Value) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
