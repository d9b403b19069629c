import CSQLCipher

/// The C functions of a copy of one database into another.
/// - SeeAlso: <https://www.sqlite.org/c3ref/backup_finish.html>
struct BackupHandle: ~Copyable {
    private let pointer: OpaquePointer

    /// Begins a copy of a whole main database.
    /// - Returns: nil when it cannot begin; the destination has the error.
    static func begin(from source: ConnectionHandle, to destination: ConnectionHandle) -> BackupHandle? {
        sqlite3_backup_init(destination.pointer, "main", source.pointer, "main").map { BackupHandle(pointer: $0) }
    }

    private init(pointer: OpaquePointer) { self.pointer = pointer }

    /// Copies pages; all remaining ones when the number is negative.
    /// - Returns: `SQLITE_OK` when pages are left, `SQLITE_DONE` when there are none.
    func copy(pages: CInt) -> ResultCode { ResultCode(rawValue: sqlite3_backup_step(pointer, pages)) }

    var remainingPageCount: Int { Int(sqlite3_backup_remaining(pointer)) }
    var totalPageCount: Int { Int(sqlite3_backup_pagecount(pointer)) }

    /// Ends the copy. An incomplete copy is rolled back.
    consuming func finish() -> ResultCode { ResultCode(rawValue: sqlite3_backup_finish(pointer)) }
}
