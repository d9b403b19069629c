import CPlatform

/// The bytes of a database file that SQLite locks: every connection that reads, writes or has the file in WAL mode open
/// holds a lock on one of them.
///
/// A lock on all of them proves that no such connection is open, those of other programs included, and keeps new ones
/// out. It belongs to the open file, so it ends with the descriptor.
/// - SeeAlso: <https://www.sqlite.org/src/file/src/os.h>
enum SQLiteLockBytes {
    /// SQLite's PENDING_BYTE.
    private static let first: Int64 = 1 << 30
    /// PENDING, RESERVED and the 510 bytes for readers.
    private static let count: Int64 = 512

    static func tryLock(_ descriptor: Int32, _ path: String) throws(SystemError) -> Bool {
        try set(CPLATFORM_LOCK_EXCLUSIVE, descriptor, path)
    }

    static func unlock(_ descriptor: Int32, _ path: String) throws(SystemError) {
        _ = try set(CPLATFORM_UNLOCK, descriptor, path)
    }

    /// Whether nobody, this process included, holds a lock on one of them. The file may be open for reading alone.
    static func areFree(_ descriptor: Int32, _ path: String) throws(SystemError) -> Bool {
        var found = Int32(CPLATFORM_UNLOCK.rawValue)
        let failure = cplatform_lock_probe(
            descriptor, Int32(CPLATFORM_LOCK_EXCLUSIVE.rawValue), first, count, &found)
        guard failure == 0 else {
            throw SystemError(call: "fcntl(F_OFD_GETLK)", path: path, errorNumber: failure)
        }
        return found == Int32(CPLATFORM_UNLOCK.rawValue)
    }

    private static func set(
        _ kind: cplatform_lock_kind, _ descriptor: Int32, _ path: String
    ) throws(SystemError) -> Bool {
        let failure = cplatform_lock_set(descriptor, Int32(kind.rawValue), first, count)
        guard failure != 0 else { return true }
        let error = SystemError(call: "fcntl(F_OFD_SETLK)", path: path, errorNumber: failure)
        if error.isLocked { return false }
        throw error
    }
}

extension FileDescriptor {
    /// Locks all of SQLite's lock bytes if they are free. The file must be open for writing.
    ///
    /// - Returns: Whether they were free.
    package func tryLockSQLiteBytes() throws(SystemError) -> Bool { try SQLiteLockBytes.tryLock(number, path) }

    /// Lets SQLite's connections in again.
    package func unlockSQLiteBytes() throws(SystemError) { try SQLiteLockBytes.unlock(number, path) }
}
