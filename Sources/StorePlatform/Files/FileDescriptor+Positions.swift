#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Reading and writing at a position, into and from memory that the caller has: several threads may share a descriptor.
extension FileDescriptor {
    /// Reads from a position of the file, up to the length of `buffer` or the end of the file.
    ///
    /// - Returns: How many bytes there were.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try readAt(number, path, offset, buffer)
    }

    /// Writes all bytes at a position of the file.
    package func write(at offset: Int, _ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        try writeAt(number, path, offset, bytes)
    }
}

/// Reads at a position until `buffer` is full or the file ends.
func readAt(
    _ number: Int32, _ path: String, _ offset: Int, _ buffer: UnsafeMutableRawBufferPointer
) throws(SystemError) -> Int {
    var filled = 0
    while filled < buffer.count {
        let count = retryingInterrupts {
            pread(number, buffer.baseAddress?.advanced(by: filled), buffer.count - filled, off_t(offset + filled))
        }
        guard count >= 0 else { throw SystemError("pread", path) }
        if count == 0 { break }
        filled += count
    }
    return filled
}

/// Writes all bytes at a position.
func writeAt(
    _ number: Int32, _ path: String, _ offset: Int, _ bytes: UnsafeRawBufferPointer
) throws(SystemError) {
    var written = 0
    while written < bytes.count {
        let count = retryingInterrupts {
            pwrite(number, bytes.baseAddress?.advanced(by: written), bytes.count - written, off_t(offset + written))
        }
        guard count >= 0 else { throw SystemError("pwrite", path) }
        written += count
    }
}

/// An open file that several threads use.
package final class SharedFile: Sendable {
    package let descriptor: FileDescriptor

    package init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }
}
