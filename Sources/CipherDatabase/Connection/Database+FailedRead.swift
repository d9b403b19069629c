import StorePlatform

// The state after the system has refused to read a page.
//
// SQLite takes that for damage, and other programs would too. The store may be sound: a disk or a network filesystem that
// fails once can answer the next read. So the error says that a read failed (`SQLITE_IOERR_READ`).

extension ResultCode {
    /// Whether SQLite reports a failed read so.
    var mayBeFailedRead: Bool {
        primaryResultCode == .SQLITE_CORRUPT || self == .SQLITE_IOERR_CORRUPTFS || self == .SQLITE_IOERR_READ
    }
}

extension Database {
    /// The error of a read that has failed; nil if none has failed since the last error. Each failure is reported once.
    func failedRead(_ sql: String?, _ arguments: StatementArguments?) -> DatabaseError? {
        guard let failure = handle.takeReadFailure() else { return nil }
        return DatabaseError(
            resultCode: .SQLITE_IOERR_READ, sql: sql, arguments: arguments,
            publicStatementArguments: configuration.publicStatementArguments
        ).causedBySystem(failure.errorNumber)
    }
}

extension Database {
    /// Called after a check of SQLite has found something: it reports pages that could not be read as damaged ones.
    ///
    /// - Throws: ``DatabaseError`` `SQLITE_IOERR_READ` if a read has failed since the last error.
    package func requireNoFailedRead() throws {
        if let failure = failedRead(nil, nil) { throw failure }
    }
}

extension DatabaseError {
    /// Whether the system failed to read a page of the database or of its WAL. No damage was found.
    package var isFailedRead: Bool {
        extendedResultCode == .SQLITE_IOERR_READ || extendedResultCode == .SQLITE_IOERR_CORRUPTFS
    }

    /// The meaning of the error for the database: one wording for the library and the command line.
    static let failedReadMeaning =
        "The system could not read a page of the database or of its WAL. No damage was found, and the next read may succeed"
}
