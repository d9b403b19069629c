/// Reads bytes that may be damaged or hostile. Each failure is a ``CommitError`` with its offset.
struct ByteReader: Sendable {
    private let bytes: ArraySlice<UInt8>
    private(set) var index: Int

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        index = bytes.startIndex
    }

    init(_ bytes: [UInt8]) { self.init(bytes[...]) }

    /// The number of bytes before the next one.
    package var offset: Int { index - bytes.startIndex }
    package var remaining: Int { bytes.endIndex - index }
    package var isAtEnd: Bool { index == bytes.endIndex }
    /// The bytes that are not consumed.
    var rest: ArraySlice<UInt8> { bytes[index...] }

    func error(_ code: CommitError.Code) -> CommitError { CommitError(code, at: offset) }

    mutating func byte() throws(CommitError) -> UInt8 {
        guard index < bytes.endIndex else { throw error(.truncated) }
        defer { index += 1 }
        return bytes[index]
    }

    /// Consumes `count` bytes; the number may come from the bytes themselves.
    mutating func take(_ count: Int) throws(CommitError) -> ArraySlice<UInt8> {
        guard count >= 0, count <= remaining else { throw error(.truncated) }
        defer { index += count }
        return bytes[index..<index + count]
    }

    /// Reads an integer of fixed width, the highest byte first.
    mutating func integer<Number: FixedWidthInteger & UnsignedInteger>(
        as type: Number.Type
    ) throws(CommitError) -> Number {
        try take(MemoryLayout<Number>.size).reduce(0) { $0 << 8 | Number($1) }
    }

    mutating func varint() throws(CommitError) -> UInt64 {
        guard index < bytes.endIndex else { throw error(.truncated) }
        let first = bytes[index]
        if first < 0x80 {
            index += 1
            return UInt64(first)
        }
        return try longVarint()
    }

    private mutating func longVarint() throws(CommitError) -> UInt64 {
        // A first byte without a bit of the number is a leading zero.
        guard bytes[index] != 0x80 else { throw error(.malformedNumber) }
        var (value, next) = (UInt64(0), index)
        while next < bytes.endIndex {
            guard value >> 57 == 0 else { throw error(.malformedNumber) }
            value = value << 7 | UInt64(bytes[next] & 0x7f)
            next += 1
            if bytes[next - 1] < 0x80 {
                index = next
                return value
            }
        }
        throw error(.truncated)
    }

    /// Reads a count or length; one above the limit is refused.
    mutating func count(limit: Int) throws(CommitError) -> Int {
        let start = self
        let value = try varint()
        guard value <= UInt64(limit) else { throw start.error(.malformedNumber) }
        return Int(value)
    }

    mutating func identifier<ID: FixedIdentifier>(_ type: ID.Type) throws(CommitError) -> ID {
        let start = self
        guard let id = try ID(bytes: take(ID.byteCount)) else { throw start.error(.truncated) }
        return id
    }

    /// Reads a length and so many bytes of UTF-8.
    mutating func text(limit: Int) throws(CommitError) -> String {
        let start = self
        let bytes = try take(count(limit: limit))
        guard let text = String(validating: bytes, as: UTF8.self) else { throw start.error(.notUTF8) }
        return text
    }

    /// Consumes everything up to an index, which a decoder of a part has reached.
    package mutating func move(to index: Int) { self.index = min(max(index, self.index), bytes.endIndex) }
}
