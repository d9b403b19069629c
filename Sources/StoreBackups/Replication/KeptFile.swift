import StorePlatform
import StoreSharing
import Synchronization

/// A database or the index of its WAL, open to lock bytes of it for a replica. One replica uses it at a time.
///
/// Closing any descriptor of such a file drops the locks of all SQLite connections of this process. So a file that is no
/// longer needed stays open until it has lost its name and nobody has it locked, and the next replica gets it.
/// - SeeAlso: `LiveFiles`
final class KeptFile: Sendable {
    private let descriptor: FileDescriptor
    let identity: FileIdentity

    private static let idle = Mutex<[KeptFile]>([])

    private init(_ descriptor: consuming FileDescriptor) throws(SystemError) {
        identity = try descriptor.status().identity
        self.descriptor = descriptor
    }

    /// Opens the file that a path names now.
    static func take(_ path: String, _ access: FileDescriptor.Access) throws -> KeptFile {
        let wanted = try Files.identity(path)
        let known = idle.withLock { idle in
            idle.removeAll { $0.isUnused }
            return idle.firstIndex { $0.identity == wanted }.map { idle.remove(at: $0) }
        }
        return try known ?? KeptFile(FileDescriptor(opening: path, access, followsLinks: false, mustBeRegular: true))
    }

    /// Keeps the file open for the next replica. Its locks must be released.
    func giveBack() { Self.idle.withLock { $0.append(self) } }

    /// Whether the file has lost its name, and no connection has it open.
    private var isUnused: Bool {
        (try? descriptor.status().linkCount) == 0 && (try? descriptor.isLocked(SQLiteLockByte.all)) == false
            && (try? descriptor.isLocked(WALLockByte.write..<WALLockByte.open + 1)) == false
    }

    func status() throws(SystemError) -> FileStatus { try descriptor.status() }

    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try descriptor.read(at: offset, into: buffer)
    }

    func read(at offset: Int, byteCount: Int) throws(SystemError) -> [UInt8] {
        try descriptor.read(at: offset, byteCount: byteCount)
    }

    func tryLock(_ byte: Int64, _ kind: LockKind) throws(SystemError) -> Bool {
        try descriptor.tryLock(byte..<byte + 1, kind)
    }

    func unlock(_ byte: Int64) throws(SystemError) { try descriptor.unlock(byte..<byte + 1) }

    /// Whether any other open file has a lock on the byte that conflicts with one of this kind.
    func isLockedElsewhere(_ byte: Int64, against kind: LockKind = .exclusive) throws(SystemError) -> Bool {
        try descriptor.isLocked(byte..<byte + 1, against: kind)
    }
}
