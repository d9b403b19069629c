import StorePlatform
import StoreSharing

/// A file that is read below SQLite, on several threads.
///
/// A program may have the store open while a tool works. Closing any descriptor of a database or of its -shm would drop
/// all locks that the process has on it, so these are never closed here (``LiveFiles``). A WAL has no locks.
package final class RawFile: Sendable {
    private enum Handle {
        case kept(LiveFile)
        case closed(OpenFile)
    }

    private let handle: Handle
    package let path: String

    /// A database, or the -shm of one.
    ///
    /// - Throws: `SystemError`.
    package init(_ path: String) throws {
        self.path = path
        handle = .kept(try LiveFiles.descriptor(of: path))
    }

    /// - Throws: `SystemError`.
    package init(wal path: String) throws {
        self.path = path
        handle = .closed(OpenFile(try FileDescriptor(opening: path, .readOnly, mustBeRegular: true)))
    }

    private var status: FileStatus {
        get throws {
            switch handle {
            case .kept(let file): try file.status()
            case .closed(let file): try file.status()
            }
        }
    }

    package var byteCount: Int { get throws { try status.byteCount } }

    /// Whether the path still names this file.
    package var isInPlace: Bool {
        get throws {
            // A file that lost its name may be closed already (``LiveFiles``): then it has no status.
            guard let status = try? status else { return false }
            return try Files.identity(path) == status.identity
        }
    }

    /// The bytes at a position, fewer where the file ends.
    package func bytes(at offset: Int, count: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            filled = try read(at: offset, into: UnsafeMutableRawBufferPointer(buffer))
        }
    }

    /// The first position from `offset` on that is not in a hole of the file; nil where only a hole follows, or nothing.
    func nextData(from offset: Int) throws -> Int? {
        switch handle {
        case .kept(let file): try file.nextData(from: offset)
        case .closed(let file): try file.nextData(from: offset)
        }
    }

    /// Reads into a buffer and returns the number of bytes read.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        switch handle {
        case .kept(let file): try file.read(at: offset, into: buffer)
        case .closed(let file): try file.read(at: offset, into: buffer)
        }
    }
}
