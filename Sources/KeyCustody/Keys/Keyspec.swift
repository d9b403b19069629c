import StoreCrypto

extension SecretBytes {
    /// A key of 32 bytes as SQLCipher takes raw keys: `x'<64 digits>'`, or with its salt `x'<64 digits><32 digits>'`.
    ///
    /// - SeeAlso: <https://www.zetetic.net/sqlcipher/sqlcipher-api/#key>
    package borrowing func keyspec(salt: Salt?) -> SecretBytes {
        withBytes { key in
            SecretBytes(count: 2 * (key.count + (salt?.bytes.count ?? 0)) + 3) { text in
                text[0] = UInt8(ascii: "x")
                text[1] = UInt8(ascii: "'")
                Self.writeHex(key, into: text, at: 2)
                salt?.bytes.withUnsafeBytes { Self.writeHex($0, into: text, at: 2 + 2 * key.count) }
                text[text.count - 1] = UInt8(ascii: "'")
            }
        }
    }

    // Written into locked memory byte by byte: a String of the digits would stay behind in ordinary memory.
    private static func writeHex(
        _ bytes: UnsafeRawBufferPointer, into text: UnsafeMutableRawBufferPointer, at start: Int
    ) {
        func digit(_ value: UInt8) -> UInt8 { value < 10 ? value + 48 : value + 87 }
        for (index, byte) in bytes.enumerated() {
            text[start + 2 * index] = digit(byte >> 4)
            text[start + 2 * index + 1] = digit(byte & 15)
        }
    }
}
