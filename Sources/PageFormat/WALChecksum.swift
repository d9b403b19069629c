/// The running checksum of a write-ahead log: it finds torn writes, and anybody can compute it.
///
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#checksum_algorithm>
package struct WALChecksum: Hashable, Sendable {
    package private(set) var first: UInt32 = 0
    package private(set) var second: UInt32 = 0

    package init() {}

    init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        first = bytes.bigEndian(at: offset, as: UInt32.self)
        second = bytes.bigEndian(at: offset + 4, as: UInt32.self)
    }

    /// Goes on over `bytes`, whose length is a multiple of 8.
    package mutating func add(_ bytes: UnsafeRawBufferPointer, bigEndian: Bool) {
        var first = first
        var second = second
        // Swapping is decided once, so that the loop stays tight.
        if bigEndian == (1.bigEndian == 1) {
            for offset in stride(from: 0, through: bytes.count - 8, by: 8) {
                first &+= bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self) &+ second
                second &+= bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self) &+ first
            }
        } else {
            for offset in stride(from: 0, through: bytes.count - 8, by: 8) {
                first &+= bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self).byteSwapped &+ second
                second &+= bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self).byteSwapped &+ first
            }
        }
        self.first = first
        self.second = second
    }

    /// Goes on over a frame: the first 8 bytes of its header, then its page.
    package mutating func add(frame: UnsafeRawBufferPointer, bigEndian: Bool) {
        add(UnsafeRawBufferPointer(rebasing: frame[..<WALFrameHeader.Offset.salt1]), bigEndian: bigEndian)
        add(UnsafeRawBufferPointer(rebasing: frame[WALFrameHeader.headerBytes...]), bigEndian: bigEndian)
    }
}
