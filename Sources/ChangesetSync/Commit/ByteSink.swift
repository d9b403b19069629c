/// Takes encoded bytes: a buffer keeps them, a comparison only tells whether they are the expected ones.
protocol ByteSink {
    mutating func append(_ byte: UInt8)
    mutating func append(contentsOf bytes: ArraySlice<UInt8>)
    mutating func append(contentsOf bytes: [UInt8])
    /// The number of bytes so far.
    var byteCount: Int { get }
}

extension [UInt8]: ByteSink {
    var byteCount: Int { count }
}

/// Compares what an encoder writes with what a decoder has read. It needs no memory.
struct ByteComparison: ByteSink {
    private let expected: ArraySlice<UInt8>
    private(set) var isEqual = true
    private(set) var byteCount = 0

    init(_ expected: ArraySlice<UInt8>) { self.expected = expected }

    /// Whether all expected bytes were written, and no others.
    var isComplete: Bool { isEqual && byteCount == expected.count }

    mutating func append(_ byte: UInt8) {
        let index = expected.startIndex + byteCount
        isEqual = isEqual && index < expected.endIndex && expected[index] == byte
        byteCount += 1
    }

    mutating func append(contentsOf bytes: ArraySlice<UInt8>) {
        let start = expected.startIndex + byteCount
        isEqual =
            isEqual && bytes.count <= expected.endIndex - start
            && ByteOrder.areEqual(expected[start..<start + bytes.count], bytes)
        byteCount += bytes.count
    }

    mutating func append(contentsOf bytes: [UInt8]) { append(contentsOf: bytes[...]) }
}

extension ByteSink {
    /// Appends an integer of fixed width, its highest byte first.
    mutating func append<Value: FixedWidthInteger>(bigEndian value: Value) {
        for shift in stride(from: Value.bitWidth - 8, through: 0, by: -8) {
            append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    /// Appends a number in its shortest form: 7 bits a byte, the highest first, and bit 7 in all bytes but the last.
    mutating func append(varint value: UInt64) {
        if value < 0x80 { return append(UInt8(truncatingIfNeeded: value)) }
        var shift = (63 - value.leadingZeroBitCount) / 7 * 7
        while shift > 0 {
            append(UInt8(truncatingIfNeeded: value >> shift) | 0x80)
            shift -= 7
        }
        append(UInt8(truncatingIfNeeded: value) & 0x7f)
    }

    mutating func append(varint value: Int) { append(varint: UInt64(value)) }
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

    private static func compare(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
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
