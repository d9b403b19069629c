/// Bytes that are no object of the format.
struct FormatFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The fault, as the end of a sentence.
    let description: String
    /// Whether a newer version has written them.
    var isAhead = false

    init(_ description: String, isAhead: Bool = false) {
        self.description = description
        self.isAhead = isAhead
    }
}

/// Reads fields of fixed width, the highest byte first.
struct FieldReader {
    private let bytes: ArraySlice<UInt8>
    private var index: Int

    init(_ bytes: some Collection<UInt8>) {
        self.bytes = Array(bytes)[...]
        index = 0
    }

    var isAtEnd: Bool { index == bytes.endIndex }

    mutating func take(_ count: Int) throws(FormatFault) -> [UInt8] {
        guard count >= 0, count <= bytes.endIndex - index else { throw FormatFault("ends too early") }
        defer { index += count }
        return Array(bytes[index..<index + count])
    }

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(
        _ type: Number.Type = Number.self
    ) throws(FormatFault) -> Number {
        try take(MemoryLayout<Number>.size).reduce(0) { $0 << 8 | Number($1) }
    }

    mutating func hash() throws(FormatFault) -> ObjectHash { ObjectHash(unchecked: try take(ObjectHash.byteCount)) }

    /// Reads the first field of every object, and its version.
    mutating func begin(_ magic: String, version: UInt16) throws(FormatFault) {
        guard try take(magic.utf8.count) == Array(magic.utf8) else { throw FormatFault("begins with other bytes") }
        let found = try number(UInt16.self)
        guard found == version else {
            throw FormatFault(
                "is of version \(found), and this program knows version \(version)", isAhead: found > version)
        }
    }

    func requireEnd() throws(FormatFault) {
        guard isAtEnd else { throw FormatFault("is longer than its content") }
    }
}

extension [UInt8] {
    /// Appends a number, the highest byte first.
    mutating func append(number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.bigEndian) { append(contentsOf: $0) }
    }

    mutating func begin(_ magic: String, version: UInt16) {
        append(contentsOf: magic.utf8)
        append(number: version)
    }
}
