import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An open file that several threads read and write at positions, and that is closed when its owner says so.
///
/// For files that will become a database: their descriptor must be closed before SQLite opens them, at a known moment.
package final class OpenFile: Sendable {
    private struct Owner: ~Copyable {
        var descriptor: FileDescriptor?
    }

    package let path: String
    private let number: Int32
    private let owner: Mutex<Owner>
    private let isClosed = Atomic<Bool>(false)

    package init(_ descriptor: consuming FileDescriptor) {
        path = descriptor.path
        number = descriptor.number
        owner = Mutex(Owner(descriptor: consume descriptor))
    }

    /// Fills the buffer from a position of the file.
    ///
    /// - Returns: The number of bytes read; fewer than the buffer holds when the file ends before.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try requireOpen("pread")
        return try readAt(number, path, offset, buffer)
    }

    /// Writes all bytes at a position of the file.
    package func write(at offset: Int, _ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        try requireOpen("pwrite")
        try writeAt(number, path, offset, bytes)
    }

    /// Waits until the file's content and length are on the medium.
    package func synchronize() throws(SystemError) {
        try requireOpen("fsync")
        try owner.withLock { owner throws(SystemError) in
            switch owner.descriptor {
            case .some(let descriptor): try descriptor.synchronize()
            case .none: break
            }
        }
    }

    /// Begins to bring the content to the medium, and waits only while that has too much to do.
    ///
    /// An fsync commits the filesystem's journal, for which whoever writes to another file waits; this does not. It proves
    /// nothing: what is not on the medium yet, and every error, is left to ``synchronize()``.
    package func beginWriteback() {
        owner.withLock { if $0.descriptor != nil { _ = cplatform_writeback_begin(number) } }
    }

    /// Cuts or extends the file to `byteCount` bytes.
    package func truncate(toByteCount byteCount: Int) throws(SystemError) {
        try requireOpen("ftruncate")
        try owner.withLock { owner throws(SystemError) in
            switch owner.descriptor {
            case .some(let descriptor): try descriptor.truncate(toByteCount: byteCount)
            case .none: break
            }
        }
    }

    /// Closes the file, as ``FileDescriptor/closeGradually()`` does; nobody may be reading or writing it at this moment. A
    /// second call does nothing.
    package func close() {
        isClosed.store(true, ordering: .sequentiallyConsistent)
        let last = owner.withLock { $0.descriptor.take() }
        last?.closeGradually()
    }

    private func requireOpen(_ call: String) throws(SystemError) {
        if isClosed.load(ordering: .acquiring) { throw SystemError(call: call, path: path, errorNumber: EBADF) }
    }
}
