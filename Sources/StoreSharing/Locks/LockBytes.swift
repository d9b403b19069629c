// Every byte that is a lock between processes, in three files: SQLite's in the database and in the wal-index, and this
// library's in the lock file. No other source file contains an offset of a lock.

/// The bytes of a database file that SQLite locks: every connection that reads, writes or has the file in WAL mode open
/// holds a lock on at least one of them.
///
/// A lock on all of them proves that no such connection is open, those of other programs included, and keeps new ones
/// out.
/// - SeeAlso: <https://www.sqlite.org/src/file/src/os.h>
package enum SQLiteLockByte {
    /// PENDING_BYTE: a writer of a rollback-mode database waits for its readers.
    package static let pending: Int64 = 1 << 30
    /// RESERVED_BYTE: the write lock of the other journal modes.
    static let reserved = pending + 1
    /// PENDING, RESERVED and the 510 bytes of SHARED.
    package static let all = pending..<pending + 512
}

/// The bytes of a wal-index (`-shm`) that SQLite locks. They are in its header, which has no other use for them.
/// - SeeAlso: <https://www.sqlite.org/walformat.html#wal_locks>
package enum WALLockByte {
    /// WAL_WRITE_LOCK.
    package static let write: Int64 = 120
    /// WAL_CKPT_LOCK.
    package static let checkpoint: Int64 = 121
    /// WAL_RECOVER_LOCK.
    static let recovery: Int64 = 122
    /// WAL_READ_LOCK(0) to WAL_READ_LOCK(4), one for each read mark.
    package static let readMarks: Range<Int64> = 123..<128
    /// The byte that readers of a mark lock.
    package static func readMark(_ index: Int) -> Int64 { readMarks.lowerBound + Int64(index) }
    /// The lock that every connection shares while it has the wal-index open (`UNIX_SHM_DMS`).
    package static let open: Int64 = 128
    /// All lock bytes in the header.
    package static let all = write..<128
}

/// The bytes of the lock file, each a lock for one purpose (`Docs/Formats/LockFile.md` tabulates them).
///
/// The locks are on positions, which need not exist; the content of the file does not matter.
package enum LockByte: Int64, CaseIterable, Sendable {
    /// Creating, migrating and opening a store: one process at a time.
    case opening = 16
    /// Asks newcomers to wait while a switch to a new key is in progress.
    case intent = 17
    /// Shared by every process that has the store open; exclusive for the switch to a new key.
    case lease = 18
    /// Changing keyslots and rotating keys.
    case admin = 19
    /// `FileCoordinator`, for the use of programs.
    case coordinator = 20
    /// Creating the table of holders.
    case table = 21
    /// Appending a line to the key log.
    case keyLog = 22

    /// The bytes of the table of holders: the holder of row n locks byte n of them.
    static let rows: Range<Int64> = 1024..<2048
    /// Where the mapped shared memory begins; no lock is at or after it.
    static let mappedBase: Int64 = 4096

    /// The byte as a range, for locking it.
    package var range: Range<Int64> { rawValue..<rawValue + 1 }

    /// The byte that the holder of a row locks.
    static func row(_ number: Int) -> Range<Int64> {
        let byte = rows.lowerBound + Int64(number)
        return byte..<byte + 1
    }

    /// A description of what the holder of the byte does, for messages.
    package var purpose: String {
        switch self {
        case .opening: "is creating, migrating or opening the store"
        case .intent: "is about to switch the store to a new key"
        case .lease: "has the store open"
        case .admin: "is changing the keys of the store"
        case .coordinator: "is coordinating access to the file"
        case .table: "is making the table of holders"
        case .keyLog: "is writing the key log of the store"
        }
    }
}
