import KeyCustody
import PageFormat

// A frame of which a few bytes were changed that the code of its page does not cover.

extension WALFrames {
    /// The header that a frame had before it was changed, if all else of it shows that it follows the frame before it; nil
    /// where nothing shows that.
    ///
    /// - Parameter before: The checksum of the frame before it.
    /// - Throws: `SystemError`.
    package func original(
        of frame: UInt32, _ found: WALFrameHeader, after before: WALChecksum
    ) throws -> WALFrameHeader? {
        var words = try FrameWords(stored(frame), header, after: before)
        guard words.isComplete else { return nil }
        var original = found
        original.salts = header.salts
        // A former run has other salts, both of them.
        guard isOfRun(found) else { return nil }
        if found.salts != header.salts { return original }
        let expected = words.checksum
        if expected == found.checksum { return nil }
        if (expected.first == found.checksum.first) != (expected.second == found.checksum.second) {
            original.checksum = expected
            return original
        }
        if let number = words.value(at: WALFrameHeader.Offset.pageNumber, giving: found.checksum) {
            original.pageNumber = number
            return original
        }
        if let pages = words.value(at: WALFrameHeader.Offset.databasePages, giving: found.checksum) {
            original.databasePages = pages
            return original
        }
        guard found.pageNumber == 1 else { return nil }
        for word in stride(from: 0, to: clearBytes, by: 4)
        where words.value(at: WALFrameHeader.headerBytes + word, giving: found.checksum) != nil {
            return original
        }
        return nil
    }
}

/// The words of a frame, of which one may have been changed.
private struct FrameWords {
    private var stored: [UInt8]
    private let header: WALHeader
    private let before: WALChecksum

    /// - Parameter before: The checksum of the frame before it.
    init(_ stored: [UInt8], _ header: WALHeader, after before: WALChecksum) {
        (self.stored, self.header, self.before) = (stored, header, before)
    }

    var isComplete: Bool { stored.count == header.frameStrideBytes }

    /// The checksum that the frame should have.
    var checksum: WALChecksum {
        var checksum = before
        stored.withUnsafeBytes { checksum.add(frame: $0, bigEndian: header.checksumsAreBigEndian) }
        return checksum
    }

    /// The value of one word with which the checksum would be right; nil if no value does. The bytes stay as they are.
    ///
    /// A checksum is linear in each word, so the checksums for 0 and 1 give the one for any value. A frame with another
    /// predecessor has such a value by chance in one of 2^32 cases.
    mutating func value(at offset: Int, giving wanted: WALChecksum) -> UInt32? {
        let kept = Array(stored[offset..<offset + 4])
        defer { stored.replaceSubrange(offset..<offset + 4, with: kept) }
        let (zero, one) = (checksum(with: 0, at: offset), checksum(with: 1, at: offset))
        let steps = (one.first &- zero.first, one.second &- zero.second)
        let missing = (wanted.first &- zero.first, wanted.second &- zero.second)
        // Of two neighbours in Fibonacci's sequence at least one is odd.
        let isFirstOdd = steps.0 % 2 == 1
        let value = isFirstOdd ? missing.0 &* Self.inverse(of: steps.0) : missing.1 &* Self.inverse(of: steps.1)
        guard checksum(with: value, at: offset) == wanted else { return nil }
        // The fields of a frame are big-endian, whatever words the checksum reads.
        return header.checksumsAreBigEndian ? value : value.byteSwapped
    }

    private mutating func checksum(with value: UInt32, at offset: Int) -> WALChecksum {
        let word = header.checksumsAreBigEndian ? value.bigEndian : value.littleEndian
        stored.replaceSubrange(offset..<offset + 4, with: withUnsafeBytes(of: word) { Array($0) })
        return checksum
    }

    /// The number by which an odd one is multiplied to give 1, modulo 2^32.
    private static func inverse(of odd: UInt32) -> UInt32 {
        var inverse = odd
        // Each step doubles the number of right bits, of which there are three.
        for _ in 0..<4 { inverse = inverse &* (2 &- odd &* inverse) }
        return inverse
    }
}
