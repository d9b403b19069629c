/// The running checksum of a WAL: it detects torn writes, and anybody can compute it.
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

    /// Continues the checksum over `bytes`, whose length is a multiple of 8 and whose address is a multiple of 4.
    package mutating func add(_ bytes: UnsafeRawBufferPointer, bigEndian: Bool) {
        let before = (first, second)
        // Plain words and indices: in builds without optimization a rotation walks over the WAL sixteen times as fast
        // as with strides and unaligned loads, and so keeps up with its writers.
        (first, second) = bytes.withMemoryRebound(to: UInt32.self) { words in
            var (first, second) = before
            let count = words.count / 2 * 2
            var index = 0
            // The byte order is tested once, so that the loop stays tight.
            if bigEndian == (1.bigEndian == 1) {
                while index < count {
                    first &+= words[index] &+ second
                    second &+= words[index + 1] &+ first
                    index += 2
                }
            } else {
                while index < count {
                    first &+= words[index].byteSwapped &+ second
                    second &+= words[index + 1].byteSwapped &+ first
                    index += 2
                }
            }
            return (first, second)
        }
    }

    /// Continues the checksum over a frame: the first 8 bytes of its header, then its page.
    package mutating func add(frame: UnsafeRawBufferPointer, bigEndian: Bool) {
        add(UnsafeRawBufferPointer(rebasing: frame[..<WALFrameHeader.Offset.salt1]), bigEndian: bigEndian)
        add(UnsafeRawBufferPointer(rebasing: frame[WALFrameHeader.headerBytes...]), bigEndian: bigEndian)
    }
}
