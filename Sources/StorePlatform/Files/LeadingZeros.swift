import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The zeros with which a file begins. Holes of the file are not read.
package enum LeadingZeros: Hashable, Sendable {
    /// The file is empty, or has zeros throughout.
    case throughout
    /// The position of the first byte that is no zero.
    case upTo(Int)
    /// There are more than were read.
    case unknown

    /// - Parameter limitBytes: The most bytes that are read.
    package init(of file: borrowing FileDescriptor, limitBytes: Int) throws(SystemError) {
        var (offset, left) = (0, limitBytes)
        while let data = try nextDataAt(file.number, file.path, offset) {
            guard left > 0 else {
                self = .unknown
                return
            }
            let bytes = try file.read(at: data, byteCount: min(left, PlatformLimits.zeroSearchBytes))
            if let index = bytes.firstIndex(where: { $0 != 0 }) {
                self = .upTo(data + index)
                return
            }
            if bytes.isEmpty { break }
            offset = data + bytes.count
            left -= bytes.count
        }
        self = .throughout
    }
}

/// The first position from `offset` on that is not in a hole of a file; nil where only a hole follows, or nothing. A
/// filesystem that does not know holes reports none: then it is `offset` itself.
func nextDataAt(_ number: Int32, _ path: String, _ offset: Int) throws(SystemError) -> Int? {
    var found: Int64 = 0
    return switch cplatform_next_data(number, Int64(offset), &found) {
    case 0: Int(found)
    case ENXIO: nil
    case EINVAL, ENOTSUP: offset
    case let failure: throw SystemError(call: "lseek", path: path, errorNumber: failure)
    }
}

extension RegularFile {
    /// Reads from a position of an open file, fewer bytes where it is shorter; nil where they cannot be read.
    package static func bytes(of number: Int32, at offset: Int, byteCount: Int) -> [UInt8]? {
        try? readAt(number, "", offset, byteCount: byteCount)
    }

    /// The first position from `offset` on that is not in a hole of an open file; nil where only a hole follows, or
    /// nothing.
    package static func nextData(of number: Int32, from offset: Int) -> Int? {
        (try? nextDataAt(number, "", offset)) ?? nil
    }

    /// The length of an open file, in bytes; nil where the system does not tell it.
    package static func byteCount(of number: Int32) -> Int? {
        var found = stat()
        return fstat(number, &found) == 0 ? FileStatus(found).byteCount : nil
    }
}
