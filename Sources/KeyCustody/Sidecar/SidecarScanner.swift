import StorePlatform

/// Reads a sidecar's bytes from first to last. Anything that is not exactly as expected is an error with its line.
struct SidecarScanner {
    private let bytes: [UInt8]
    private(set) var position = 0
    private(set) var line = 1

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    /// The bytes read so far.
    var consumed: ArraySlice<UInt8> { bytes[..<position] }

    func startsWith(_ text: String) -> Bool { bytes[position...].starts(with: text.utf8) }

    func malformed(_ expected: String) -> SidecarSyntaxError { .malformed(line: line, expected: expected) }

    /// Reads exactly this text.
    mutating func literal(_ text: String) throws(SidecarSyntaxError) {
        guard startsWith(text) else { throw malformed(text) }
        position += text.utf8.count
    }

    mutating func endOfLine() throws(SidecarSyntaxError) {
        guard !isAtEnd, bytes[position] == UInt8(ascii: "\n") else { throw malformed("the end of the line") }
        position += 1
        line += 1
    }

    /// Reads a number of bytes as lower-case hexadecimal digits.
    mutating func hex(byteCount: Int, _ field: String) throws(SidecarSyntaxError) -> [UInt8] {
        let digits = bytes[position...].prefix(byteCount * 2)
        let hasCapitals = digits.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        guard digits.count == byteCount * 2, !hasCapitals, let value = Hex.bytes(digits) else {
            throw malformed("\(field): \(byteCount * 2) lower-case hexadecimal digits")
        }
        position += digits.count
        return value
    }

    /// Reads 1 to `limitBytes` bytes as lower-case hexadecimal digits, up to a quote, which is not read.
    mutating func hex(upTo limitBytes: Int, _ field: String) throws(SidecarSyntaxError) -> [UInt8] {
        let digits = bytes[position...].prefix(limitBytes * 2 + 1).prefix { $0 != UInt8(ascii: "\"") }
        guard digits.count <= limitBytes * 2 else { throw .outOfRange(line: line, field: field) }
        guard !digits.isEmpty, digits.count.isMultiple(of: 2) else {
            throw malformed("\(field): pairs of lower-case hexadecimal digits")
        }
        return try hex(byteCount: digits.count / 2, field)
    }

    /// Reads a positive decimal number without sign, leading zero, fraction or exponent.
    mutating func number(_ field: String, atLeast least: UInt64 = 1) throws(SidecarSyntaxError) -> UInt64 {
        let digits = bytes[position...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard !digits.isEmpty, digits.count == 1 || digits.first != UInt8(ascii: "0") else {
            throw malformed("\(field): a number")
        }
        guard digits.count <= CustodyLimits.counterDigits else { throw .outOfRange(line: line, field: field) }
        let value = digits.reduce(UInt64(0)) { $0 * 10 + UInt64($1 - UInt8(ascii: "0")) }
        guard value >= least else { throw .outOfRange(line: line, field: field) }
        position += digits.count
        return value
    }

    /// Reads lower-case letters, digits and hyphens.
    mutating func word(_ field: String) throws(SidecarSyntaxError) -> String {
        let letters = bytes[position...].prefix { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "-")
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard !letters.isEmpty, letters.count <= 32 else { throw malformed("\(field): a word") }
        position += letters.count
        return String(decoding: letters, as: UTF8.self)
    }

    /// Reads a label: printable characters that need no escaping, up to a quote, which is not read.
    mutating func label() throws(SidecarSyntaxError) -> SlotLabel {
        let text = bytes[position...].prefix { SlotLabel.isAllowed($0) }
        guard let label = try? SlotLabel(String(decoding: text, as: UTF8.self)) else {
            throw malformed("label: printable characters")
        }
        position += text.count
        return label
    }
}
