import StorePlatform

extension QRCode {
    /// The code as an image of black and white, 8 by 8 pixels for a module: one byte of a row of pixels.
    ///
    /// - SeeAlso: <https://www.w3.org/TR/png-3/>; RFC 1950 and RFC 1951 for the data, which are not compressed.
    package func png() -> WipedBuffer {
        let side = width + 2 * Self.margin
        // A row has a byte for its filter, none.
        let pixels = withModules { isDark in
            var pixels = WipedBuffer(capacity: side * 8 * (side + 1))
            for row in 0..<side * 8 {
                pixels.append(0)
                for column in 0..<side { pixels.append(isDark(column - Self.margin, row / 8 - Self.margin) ? 0 : 0xff) }
            }
            return pixels
        }
        var png = PNGChunks(capacity: pixels.count + 256)
        png.chunk("IHDR") { png in
            png.number(UInt32(side * 8))
            png.number(UInt32(side * 8))
            // One bit for a pixel, grey; the one compression, the one filter, not interlaced.
            png.bytes([1, 0, 0, 0, 0])
        }
        png.chunk("IDAT") { png in
            png.bytes([0x78, 0x01])
            pixels.withBytes { pixels in
                for start in stride(from: 0, to: pixels.count, by: PNGChunks.blockBytes) {
                    let block = pixels[start..<min(start + PNGChunks.blockBytes, pixels.count)]
                    let count = UInt16(block.count)
                    png.bytes([block.endIndex == pixels.endIndex ? 1 : 0])
                    png.bytes([count, ~count].flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] })
                    png.bytes(block)
                }
                let sums = pixels.reduce((UInt32(1), UInt32(0))) { sums, byte in
                    let first = (sums.0 + UInt32(byte)) % 65_521
                    return (first, (sums.1 + first) % 65_521)
                }
                png.number(sums.1 << 16 | sums.0)
            }
        }
        png.chunk("IEND") { _ in }
        return png.file
    }
}

/// The bytes of a PNG file that is being written.
private struct PNGChunks: ~Copyable {
    /// The most bytes of a block that is not compressed.
    static let blockBytes = 65_535
    private(set) var file: WipedBuffer
    /// The complement of the CRC-32 of the present chunk.
    private var check = UInt32.max

    init(capacity: Int) {
        file = WipedBuffer(capacity: capacity)
        bytes([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
    }

    /// Writes a chunk; its length comes first, so its content is written twice.
    mutating func chunk(_ type: String, _ content: (inout PNGChunks) -> Void) {
        let start = file.count
        content(&self)
        let count = file.count - start
        file.removeLast(count)
        number(UInt32(count))
        check = .max
        bytes(type.utf8)
        content(&self)
        number(~check)
    }

    mutating func number(_ value: UInt32) {
        bytes(stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> UInt32($0)) })
    }

    mutating func bytes(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            file.append(byte)
            check ^= UInt32(byte)
            for _ in 0..<8 { check = check >> 1 ^ 0xedb8_8320 & (0 &- check & 1) }
        }
    }
}
