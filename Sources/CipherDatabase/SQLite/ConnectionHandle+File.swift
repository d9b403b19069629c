import CSQLCipher
import PageFormat
import StorePlatform
import StoreSharing

// The files of a connection, by the descriptors and the mapping that SQLite has: closing another descriptor would drop
// every lock of the process on the file.
extension ConnectionHandle {
    /// Whether the database's path names another file now.
    var hasMoved: Bool {
        var moved: CInt = 0
        let code = sqlite3_file_control(pointer, "main", SQLITE_FCNTL_HAS_MOVED, &moved)
        return code == SQLITE_OK && moved != 0
    }

    /// Size of the main database file in bytes; nil when it cannot be read.
    var fileBytes: Int? {
        withFile { file, methods in
            var size: sqlite3_int64 = 0
            return methods.xFileSize?(file, &size) == SQLITE_OK ? Int(size) : nil
        }
    }

    /// Cuts the main database file off to nothing.
    ///
    /// - Returns: Whether it has no bytes now.
    func emptyFile() -> Bool {
        withFile { file, methods in methods.xTruncate?(file, 0) == SQLITE_OK ? true : nil } ?? false
    }

    /// Raw bytes of the main database file, read through the connection's own descriptor.
    ///
    /// Closing a second descriptor would drop every lock of the process on the file.
    /// - Returns: The bytes, fewer than `count` at the end of the file; nil when they cannot be read.
    func readFile(_ count: Int, at offset: Int) -> [UInt8]? {
        guard let size = fileBytes else { return nil }
        let available = max(0, min(count, size - offset))
        guard available > 0 else { return [] }
        return withFile { file, methods in
            var bytes = [UInt8](repeating: 0, count: available)
            let code = methods.xRead?(file, &bytes, CInt(available), sqlite3_int64(offset))
            // If the file shrank in between, zeros follow what was read.
            return code == SQLITE_OK || code == ResultCode.SQLITE_IOERR_SHORT_READ.rawValue ? bytes : nil
        }
    }

    private func withFile<T>(
        _ part: CInt = SQLITE_FCNTL_FILE_POINTER, of schema: UnsafePointer<CChar>? = nil,
        _ body: (UnsafeMutablePointer<sqlite3_file>, sqlite3_io_methods) -> T?
    ) -> T? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        // Without a name it is the main database.
        guard sqlite3_file_control(pointer, schema, part, &file) == SQLITE_OK,
            let file, let methods = file.pointee.pMethods
        else { return nil }
        return body(file, methods.pointee)
    }

    // MARK: Reads that failed

    /// The read of a database or its WAL that has failed since the last call; nil if none has.
    ///
    /// SQLite reports a read that the system has refused (EIO) as damage (`SQLITE_CORRUPT`), or as the general
    /// `SQLITE_ERROR`. Only the file keeps the error number, and a read behind the end of the file removes the number.
    /// - SeeAlso: <https://www.sqlite.org/rescode.html#ioerr_corruptfs>,
    ///   <https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntllasterrno>
    func takeReadFailure() -> SystemError? {
        var failure: SystemError?
        var place: CInt = 0
        while let name = sqlite3_db_name(pointer, place) {
            for part in [SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER] {
                failure = withFile(part, of: name, Self.takeReadFailure) ?? failure
            }
            place += 1
        }
        return failure
    }

    private static func takeReadFailure(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ methods: sqlite3_io_methods
    ) -> SystemError? {
        var number: CInt = 0
        guard methods.xFileControl?(file, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK, number != 0 else {
            return nil
        }
        var size: sqlite3_int64 = 0
        var byte: UInt8 = 0
        if methods.xFileSize?(file, &size) == SQLITE_OK { _ = methods.xRead?(file, &byte, 1, size + 1 << 32) }
        let failure = SystemError(call: "read", path: nil, errorNumber: number)
        return failure.isFailedRead ? failure : nil
    }

    // MARK: The wal-index

    /// The header of the wal-index; nil when there is none, or while it is being written.
    var walIndex: WALIndex? {
        for _ in 0..<10 {
            if let index = sharedMemory({ WALIndex($0) }) { return index }
        }
        return nil
    }

    /// Whether no reader uses the WAL, so that the next commit may reset it. For a connection outside of transactions.
    var isWALUnread: Bool {
        let first = CInt(WALLockByte.readMark(1) - WALLockByte.all.lowerBound)
        let count = CInt(WALIndex.readMarkCount - 1)
        return withFile { file, methods in
            guard methods.xShmLock?(file, first, count, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) == SQLITE_OK else {
                return false
            }
            return methods.xShmLock?(file, first, count, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE) == SQLITE_OK
        } ?? false
    }

    private func sharedMemory<T>(_ body: (UnsafeRawBufferPointer) -> T?) -> T? {
        withFile { file, methods in
            // The size of a region is fixed in SQLite; 0: a region that does not exist is not created.
            var region: UnsafeMutableRawPointer?
            let code = withUnsafeMutablePointer(to: &region) {
                methods.xShmMap?(file, 0, CInt(WALIndex.regionBytes), 0, $0)
            }
            guard code == SQLITE_OK, let region else { return nil }
            return body(UnsafeRawBufferPointer(start: region, count: WALIndex.headerBytes))
        }
    }
}
