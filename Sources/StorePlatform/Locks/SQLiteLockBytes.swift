import CPlatform

/// The bytes of a database file that SQLite locks: every connection that reads, writes or has the file in WAL mode open
/// holds a lock on one of them.
///
/// A lock on all of them proves that no such connection is open, those of other programs included, and keeps new ones
/// out. It belongs to the open file, so it ends with the descriptor.
/// - SeeAlso: <https://www.sqlite.org/src/file/src/os.h>
extension FileDescriptor {
    /// SQLite's PENDING_BYTE.
    private static let firstLockByte: Int64 = 1 << 30
    /// PENDING, RESERVED and the 510 bytes for readers.
    private static let lockByteCount: Int64 = 512

    /// Locks all of SQLite's lock bytes if they are free. The file must be open for writing.
    ///
    /// - Returns: Whether they were free.
    package func tryLockSQLiteBytes() throws(SystemError) -> Bool {
        try setSQLiteLock(CPLATFORM_LOCK_EXCLUSIVE)
    }

    /// Lets SQLite's connections in again.
    package func unlockSQLiteBytes() throws(SystemError) {
        _ = try setSQLiteLock(CPLATFORM_UNLOCK)
    }

    private func setSQLiteLock(_ kind: cplatform_lock_kind) throws(SystemError) -> Bool {
        let failure = cplatform_lock_set(number, Int32(kind.rawValue), Self.firstLockByte, Self.lockByteCount)
        guard failure != 0 else { return true }
        let error = SystemError(call: "fcntl(F_OFD_SETLK)", path: path, errorNumber: failure)
        if error.isLocked { return false }
        throw error
    }
}
