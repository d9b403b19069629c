import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An open file that several threads read and write at positions. It is closed by ``close()``, or with the object.
///
/// For files that no database connection has open. A file that will become a database must be closed before its first
/// connection is opened, at a known moment: ``close()``.
package final class OpenFile: Sendable {
    let path: String
    private let number: Int32
    private let descriptor: Mutex<FileDescriptor?>
    private let hasClosed = Atomic<Bool>(false)

    /// Whether ``close()`` was called.
    package var isClosed: Bool { hasClosed.load(ordering: .acquiring) }

    package init(_ descriptor: consuming FileDescriptor) {
        path = descriptor.path
        number = descriptor.number
        self.descriptor = Mutex(consume descriptor)
    }

    /// Fills the buffer from a position of the file.
    ///
    /// - Returns: The number of bytes read; fewer than the buffer holds when the file ends before.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try requireOpen("pread")
        return try readAt(number, path, offset, buffer)
    }

    /// Reads `byteCount` bytes from a position of the file, or fewer when it ends before.
    package func read(at offset: Int, byteCount: Int) throws(SystemError) -> [UInt8] {
        try requireOpen("pread")
        return try readAt(number, path, offset, byteCount: byteCount)
    }

    /// Writes all bytes at a position of the file.
    package func write(at offset: Int, _ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        try requireOpen("pwrite")
        try writeAt(number, path, offset, bytes)
    }

    /// The first position from `offset` on that is not in a hole of the file; nil where only a hole follows, or nothing.
    ///
    /// A filesystem that does not know holes reports none: then it is `offset` itself.
    package func nextData(from offset: Int) throws(SystemError) -> Int? {
        try requireOpen("lseek")
        return try nextDataAt(number, path, offset)
    }

    /// Whether another file has the same bytes, from a position on. Holes of both files are not read.
    ///
    /// - Parameter pieceBytes: The bytes that are read at once.
    package func hasSameBytes(
        as other: OpenFile, from start: Int = 0, pieceBytes: Int
    ) throws(SystemError) -> Bool {
        let length = try status().byteCount
        guard try other.status().byteCount == length else { return false }
        var offset = start
        while offset < length {
            let data = min(try nextData(from: offset) ?? length, try other.nextData(from: offset) ?? length)
            if data >= length { break }
            let count = min(pieceBytes, length - data)
            let piece = try read(at: data, byteCount: count)
            let same = try other.read(at: data, byteCount: count)
            guard piece.count == count, same == piece else { return false }
            offset = data + count
        }
        return true
    }

    /// The status of the file.
    package func status() throws(SystemError) -> FileStatus {
        try withDescriptor("fstat") { file throws(SystemError) in try file.status() }
    }

    /// Whether any other open file holds a lock in the range that conflicts with one of this kind.
    package func isLocked(_ bytes: Range<Int64>, against kind: LockKind = .exclusive) throws(SystemError) -> Bool {
        try withDescriptor("fcntl") { file throws(SystemError) in try file.isLocked(bytes, against: kind) }
    }

    /// Waits until the file's content and length are written to disk.
    package func synchronize() throws(SystemError) {
        try withDescriptor("fsync") { file throws(SystemError) in try file.synchronize() }
    }

    /// Starts to write the content to disk, and waits only while the disk has too much to do.
    ///
    /// An fsync commits the filesystem's journal, and writers of other files wait for that; this call does not. It
    /// proves nothing: ``synchronize()`` writes the rest to disk and reports every error.
    package func beginWriteback() {
        descriptor.withLock { if $0 != nil { _ = cplatform_writeback_begin(number) } }
    }

    /// Truncates or extends the file to `byteCount` bytes.
    package func truncate(toByteCount byteCount: Int) throws(SystemError) {
        try withDescriptor("ftruncate") { file throws(SystemError) in try file.truncate(toByteCount: byteCount) }
    }

    /// Closes the file, as ``FileDescriptor/closeGradually()`` does; no thread may be reading or writing it at this
    /// moment. A second call does nothing.
    package func close() {
        hasClosed.store(true, ordering: .sequentiallyConsistent)
        let last = descriptor.withLock { $0.take() }
        last?.closeGradually()
    }

    private func withDescriptor<Result>(
        _ call: String, _ body: (borrowing FileDescriptor) throws(SystemError) -> Result
    ) throws(SystemError) -> Result {
        try descriptor.withLock { descriptor throws(SystemError) in
            switch descriptor {
            case .some(let file): return try body(file)
            case .none: throw SystemError(call: call, path: path, errorNumber: EBADF)
            }
        }
    }

    private func requireOpen(_ call: String) throws(SystemError) {
        if isClosed { throw SystemError(call: call, path: path, errorNumber: EBADF) }
    }
}
