import Foundation
import StorePlatform

/// An error of SQLite: a statement that failed, a lock that was not acquired, a file that could not be read.
///
/// It names the code, SQLite's message and the SQL text, and leaves the statement's arguments out unless
/// ``Configuration/publicStatementArguments`` is set. Errors of a store as a whole are `StoreError`.
///
/// - SeeAlso: <https://www.sqlite.org/rescode.html>
public struct DatabaseError: Error, Sendable {
    /// The extended code, as `SQLITE_CONSTRAINT_UNIQUE`.
    public let extendedResultCode: ResultCode
    /// SQLite's message, or the library's own.
    public let message: String?
    /// The whole SQL text that failed, so that a program can compare it with what it has run; nil when there is none, or
    /// when it could hold a key. The descriptions have its first 200 characters.
    public let sql: String?
    /// The arguments of the statement, only with ``Configuration/publicStatementArguments``; nil otherwise.
    public let arguments: StatementArguments?
    /// All arguments, for ``expandedDescription`` alone.
    let allArguments: StatementArguments?
    /// The system's error number behind `SQLITE_CANTOPEN` and `SQLITE_IOERR`; nil where there is none.
    private(set) var systemErrorNumber: Int32?

    /// The primary code, as `SQLITE_CONSTRAINT`.
    public var resultCode: ResultCode { extendedResultCode.primaryResultCode }

    public init(
        resultCode: ResultCode = .SQLITE_ERROR,
        message: String? = nil,
        sql: String? = nil,
        arguments: StatementArguments? = nil,
        publicStatementArguments: Bool = false
    ) {
        extendedResultCode = resultCode
        self.message = message ?? SQLiteLibrary.message(of: resultCode)
        self.sql = sql.flatMap { CipherPragma.mayHoldKey($0) ? nil : $0 }
        allArguments = arguments
        self.arguments = publicStatementArguments ? arguments : nil
    }

    /// The same error with the system's error number behind it.
    ///
    /// - SeeAlso: <https://www.sqlite.org/c3ref/system_errno.html>
    func causedBySystem(_ number: Int32) -> DatabaseError {
        guard number != 0, [.SQLITE_CANTOPEN, .SQLITE_IOERR].contains(resultCode) else { return self }
        var error = self
        error.systemErrorNumber = number
        return error
    }

    /// The resource that this process or its system lacks, or a filesystem that is mounted read-only; nil for any other
    /// cause.
    package var shortage: SystemError? {
        let noMemory = resultCode == .SQLITE_NOMEM || extendedResultCode == .SQLITE_IOERR_NOMEM
        guard let number = noMemory ? ENOMEM : systemErrorNumber else { return nil }
        let error = SystemError(call: "sqlite3", path: nil, errorNumber: number)
        return error.isShortage ? error : nil
    }

    /// Whether the error comes from an interruption or a suspension: the same access may succeed later.
    public var isInterruptionError: Bool {
        resultCode == .SQLITE_INTERRUPT || resultCode == .SQLITE_ABORT
    }
}

/// Lets `catch DatabaseError.SQLITE_BUSY` match an error by its code, and a `StoreError` by the code that stands for
/// it: see `StoreError.resultCode`.
public func ~= (code: ResultCode, error: any Error) -> Bool {
    if let error = error as? StoreError { return error.resultCode.map { code ~= $0 } ?? false }
    guard let error = error as? DatabaseError else { return false }
    return code ~= error.extendedResultCode
}

extension DatabaseError: CustomStringConvertible {
    /// The code, the message and the SQL; arguments only where they are public.
    public var description: String { text(with: arguments) }

    /// The same with the statement's arguments: for debugging only, never for a log file.
    public var expandedDescription: String { text(with: allArguments) }

    /// Cuts a statement for people: it may have thousands of columns. ``sql`` has all of it.
    static func cut(_ sql: String) -> String {
        let length = DatabaseLimits.reportedSQLCharacters
        return sql.dropFirst(length).isEmpty ? sql : sql.prefix(length) + "\u{2026}"
    }

    private func text(with arguments: StatementArguments?) -> String {
        var text = "SQLite error \(resultCode.rawValue)"
        if let message { text += ": \(message)" }
        if let number = systemErrorNumber, isFailedRead || shortage?.errorNumber == number {
            text += " (\(SystemError(call: "sqlite3", path: nil, errorNumber: number).reason), errno \(number))"
        }
        if let sql { text += " - while executing `\(Self.cut(sql))`" }
        if let arguments, !arguments.isEmpty { text += " with arguments \(arguments)" }
        if isFailedRead { text += ". " + Self.failedReadMeaning }
        // SQLite's message is that of a damaged file, which this is not.
        if extendedResultCode == .SQLITE_CORRUPT_VTAB {
            text += ". " + Self.virtualTableHint
        }
        return text
    }
}

extension DatabaseError {
    /// The remedy for a virtual table that contradicts itself (`SQLITE_CORRUPT_VTAB`): one wording for the library and
    /// the command line.
    /// - SeeAlso: <https://www.sqlite.org/rescode.html#corrupt_vtab>
    package static let virtualTableHint =
        "The index of a virtual table does not fit its rows; the rows of other tables are not damaged. "
        + "To make a full-text index again: INSERT INTO ft(ft) VALUES('rebuild'). An R-tree is made again from the rows "
        + "of which it is the index"
}

extension DatabaseError: CustomNSError {
    /// The domain of the errors as `NSError`.
    public static var errorDomain: String { "CipherStore.DatabaseError" }

    /// The extended code, as a number.
    public var errorCode: Int { Int(extendedResultCode.rawValue) }

    /// The description, and the message as the reason of the failure.
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        info[NSLocalizedFailureReasonErrorKey] = message
        return info
    }
}

extension DatabaseError {
    /// The connection was opened by the process that forked this one.
    static func connectionOfParent() -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "The database was opened before this process was forked: its locks belong to the parent. "
                + "Open it again in the child, or start a program (exec) instead of forking")
    }

    /// A statement that would write where only reading is allowed.
    static func readonly(sql: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_READONLY, message: "attempt to write a readonly database", sql: sql)
    }

    /// The connection was closed before this use of it.
    package static func connectionIsClosed() -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: "Connection is closed")
    }
}

// Lets `catch DatabaseError.SQLITE_BUSY` name every code of ``ResultCode``.
extension DatabaseError {
    public static var SQLITE_OK: ResultCode { .SQLITE_OK }
    public static var SQLITE_ERROR: ResultCode { .SQLITE_ERROR }
    public static var SQLITE_INTERNAL: ResultCode { .SQLITE_INTERNAL }
    public static var SQLITE_PERM: ResultCode { .SQLITE_PERM }
    public static var SQLITE_ABORT: ResultCode { .SQLITE_ABORT }
    public static var SQLITE_BUSY: ResultCode { .SQLITE_BUSY }
    public static var SQLITE_LOCKED: ResultCode { .SQLITE_LOCKED }
    public static var SQLITE_NOMEM: ResultCode { .SQLITE_NOMEM }
    public static var SQLITE_READONLY: ResultCode { .SQLITE_READONLY }
    public static var SQLITE_INTERRUPT: ResultCode { .SQLITE_INTERRUPT }
    public static var SQLITE_IOERR: ResultCode { .SQLITE_IOERR }
    public static var SQLITE_CORRUPT: ResultCode { .SQLITE_CORRUPT }
    public static var SQLITE_NOTFOUND: ResultCode { .SQLITE_NOTFOUND }
    public static var SQLITE_FULL: ResultCode { .SQLITE_FULL }
    public static var SQLITE_CANTOPEN: ResultCode { .SQLITE_CANTOPEN }
    public static var SQLITE_PROTOCOL: ResultCode { .SQLITE_PROTOCOL }
    public static var SQLITE_EMPTY: ResultCode { .SQLITE_EMPTY }
    public static var SQLITE_SCHEMA: ResultCode { .SQLITE_SCHEMA }
    public static var SQLITE_TOOBIG: ResultCode { .SQLITE_TOOBIG }
    public static var SQLITE_CONSTRAINT: ResultCode { .SQLITE_CONSTRAINT }
    public static var SQLITE_MISMATCH: ResultCode { .SQLITE_MISMATCH }
    public static var SQLITE_MISUSE: ResultCode { .SQLITE_MISUSE }
    public static var SQLITE_NOLFS: ResultCode { .SQLITE_NOLFS }
    public static var SQLITE_AUTH: ResultCode { .SQLITE_AUTH }
    public static var SQLITE_FORMAT: ResultCode { .SQLITE_FORMAT }
    public static var SQLITE_RANGE: ResultCode { .SQLITE_RANGE }
    public static var SQLITE_NOTADB: ResultCode { .SQLITE_NOTADB }
    public static var SQLITE_NOTICE: ResultCode { .SQLITE_NOTICE }
    public static var SQLITE_WARNING: ResultCode { .SQLITE_WARNING }
    public static var SQLITE_ROW: ResultCode { .SQLITE_ROW }
    public static var SQLITE_DONE: ResultCode { .SQLITE_DONE }
    public static var SQLITE_ERROR_MISSING_COLLSEQ: ResultCode { .SQLITE_ERROR_MISSING_COLLSEQ }
    public static var SQLITE_ERROR_RETRY: ResultCode { .SQLITE_ERROR_RETRY }
    public static var SQLITE_ERROR_SNAPSHOT: ResultCode { .SQLITE_ERROR_SNAPSHOT }
    public static var SQLITE_IOERR_READ: ResultCode { .SQLITE_IOERR_READ }
    public static var SQLITE_IOERR_SHORT_READ: ResultCode { .SQLITE_IOERR_SHORT_READ }
    public static var SQLITE_IOERR_WRITE: ResultCode { .SQLITE_IOERR_WRITE }
    public static var SQLITE_IOERR_FSYNC: ResultCode { .SQLITE_IOERR_FSYNC }
    public static var SQLITE_IOERR_DIR_FSYNC: ResultCode { .SQLITE_IOERR_DIR_FSYNC }
    public static var SQLITE_IOERR_TRUNCATE: ResultCode { .SQLITE_IOERR_TRUNCATE }
    public static var SQLITE_IOERR_FSTAT: ResultCode { .SQLITE_IOERR_FSTAT }
    public static var SQLITE_IOERR_UNLOCK: ResultCode { .SQLITE_IOERR_UNLOCK }
    public static var SQLITE_IOERR_RDLOCK: ResultCode { .SQLITE_IOERR_RDLOCK }
    public static var SQLITE_IOERR_DELETE: ResultCode { .SQLITE_IOERR_DELETE }
    public static var SQLITE_IOERR_BLOCKED: ResultCode { .SQLITE_IOERR_BLOCKED }
    public static var SQLITE_IOERR_NOMEM: ResultCode { .SQLITE_IOERR_NOMEM }
    public static var SQLITE_IOERR_ACCESS: ResultCode { .SQLITE_IOERR_ACCESS }
    public static var SQLITE_IOERR_CHECKRESERVEDLOCK: ResultCode { .SQLITE_IOERR_CHECKRESERVEDLOCK }
    public static var SQLITE_IOERR_LOCK: ResultCode { .SQLITE_IOERR_LOCK }
    public static var SQLITE_IOERR_CLOSE: ResultCode { .SQLITE_IOERR_CLOSE }
    public static var SQLITE_IOERR_DIR_CLOSE: ResultCode { .SQLITE_IOERR_DIR_CLOSE }
    public static var SQLITE_IOERR_SHMOPEN: ResultCode { .SQLITE_IOERR_SHMOPEN }
    public static var SQLITE_IOERR_SHMSIZE: ResultCode { .SQLITE_IOERR_SHMSIZE }
    public static var SQLITE_IOERR_SHMLOCK: ResultCode { .SQLITE_IOERR_SHMLOCK }
    public static var SQLITE_IOERR_SHMMAP: ResultCode { .SQLITE_IOERR_SHMMAP }
    public static var SQLITE_IOERR_SEEK: ResultCode { .SQLITE_IOERR_SEEK }
    public static var SQLITE_IOERR_DELETE_NOENT: ResultCode { .SQLITE_IOERR_DELETE_NOENT }
    public static var SQLITE_IOERR_MMAP: ResultCode { .SQLITE_IOERR_MMAP }
    public static var SQLITE_IOERR_GETTEMPPATH: ResultCode { .SQLITE_IOERR_GETTEMPPATH }
    public static var SQLITE_IOERR_CONVPATH: ResultCode { .SQLITE_IOERR_CONVPATH }
    public static var SQLITE_IOERR_VNODE: ResultCode { .SQLITE_IOERR_VNODE }
    public static var SQLITE_IOERR_AUTH: ResultCode { .SQLITE_IOERR_AUTH }
    public static var SQLITE_IOERR_BEGIN_ATOMIC: ResultCode { .SQLITE_IOERR_BEGIN_ATOMIC }
    public static var SQLITE_IOERR_COMMIT_ATOMIC: ResultCode { .SQLITE_IOERR_COMMIT_ATOMIC }
    public static var SQLITE_IOERR_ROLLBACK_ATOMIC: ResultCode { .SQLITE_IOERR_ROLLBACK_ATOMIC }
    public static var SQLITE_IOERR_DATA: ResultCode { .SQLITE_IOERR_DATA }
    public static var SQLITE_IOERR_CORRUPTFS: ResultCode { .SQLITE_IOERR_CORRUPTFS }
    public static var SQLITE_IOERR_IN_PAGE: ResultCode { .SQLITE_IOERR_IN_PAGE }
    public static var SQLITE_LOCKED_SHAREDCACHE: ResultCode { .SQLITE_LOCKED_SHAREDCACHE }
    public static var SQLITE_LOCKED_VTAB: ResultCode { .SQLITE_LOCKED_VTAB }
    public static var SQLITE_BUSY_RECOVERY: ResultCode { .SQLITE_BUSY_RECOVERY }
    public static var SQLITE_BUSY_SNAPSHOT: ResultCode { .SQLITE_BUSY_SNAPSHOT }
    public static var SQLITE_BUSY_TIMEOUT: ResultCode { .SQLITE_BUSY_TIMEOUT }
    public static var SQLITE_CANTOPEN_NOTEMPDIR: ResultCode { .SQLITE_CANTOPEN_NOTEMPDIR }
    public static var SQLITE_CANTOPEN_ISDIR: ResultCode { .SQLITE_CANTOPEN_ISDIR }
    public static var SQLITE_CANTOPEN_FULLPATH: ResultCode { .SQLITE_CANTOPEN_FULLPATH }
    public static var SQLITE_CANTOPEN_CONVPATH: ResultCode { .SQLITE_CANTOPEN_CONVPATH }
    public static var SQLITE_CANTOPEN_DIRTYWAL: ResultCode { .SQLITE_CANTOPEN_DIRTYWAL }
    public static var SQLITE_CANTOPEN_SYMLINK: ResultCode { .SQLITE_CANTOPEN_SYMLINK }
    public static var SQLITE_CORRUPT_VTAB: ResultCode { .SQLITE_CORRUPT_VTAB }
    public static var SQLITE_CORRUPT_SEQUENCE: ResultCode { .SQLITE_CORRUPT_SEQUENCE }
    public static var SQLITE_CORRUPT_INDEX: ResultCode { .SQLITE_CORRUPT_INDEX }
    public static var SQLITE_READONLY_RECOVERY: ResultCode { .SQLITE_READONLY_RECOVERY }
    public static var SQLITE_READONLY_CANTLOCK: ResultCode { .SQLITE_READONLY_CANTLOCK }
    public static var SQLITE_READONLY_ROLLBACK: ResultCode { .SQLITE_READONLY_ROLLBACK }
    public static var SQLITE_READONLY_DBMOVED: ResultCode { .SQLITE_READONLY_DBMOVED }
    public static var SQLITE_READONLY_CANTINIT: ResultCode { .SQLITE_READONLY_CANTINIT }
    public static var SQLITE_READONLY_DIRECTORY: ResultCode { .SQLITE_READONLY_DIRECTORY }
    public static var SQLITE_ABORT_ROLLBACK: ResultCode { .SQLITE_ABORT_ROLLBACK }
    public static var SQLITE_CONSTRAINT_CHECK: ResultCode { .SQLITE_CONSTRAINT_CHECK }
    public static var SQLITE_CONSTRAINT_COMMITHOOK: ResultCode { .SQLITE_CONSTRAINT_COMMITHOOK }
    public static var SQLITE_CONSTRAINT_FOREIGNKEY: ResultCode { .SQLITE_CONSTRAINT_FOREIGNKEY }
    public static var SQLITE_CONSTRAINT_FUNCTION: ResultCode { .SQLITE_CONSTRAINT_FUNCTION }
    public static var SQLITE_CONSTRAINT_NOTNULL: ResultCode { .SQLITE_CONSTRAINT_NOTNULL }
    public static var SQLITE_CONSTRAINT_PRIMARYKEY: ResultCode { .SQLITE_CONSTRAINT_PRIMARYKEY }
    public static var SQLITE_CONSTRAINT_TRIGGER: ResultCode { .SQLITE_CONSTRAINT_TRIGGER }
    public static var SQLITE_CONSTRAINT_UNIQUE: ResultCode { .SQLITE_CONSTRAINT_UNIQUE }
    public static var SQLITE_CONSTRAINT_VTAB: ResultCode { .SQLITE_CONSTRAINT_VTAB }
    public static var SQLITE_CONSTRAINT_ROWID: ResultCode { .SQLITE_CONSTRAINT_ROWID }
    public static var SQLITE_CONSTRAINT_PINNED: ResultCode { .SQLITE_CONSTRAINT_PINNED }
    public static var SQLITE_CONSTRAINT_DATATYPE: ResultCode { .SQLITE_CONSTRAINT_DATATYPE }
    public static var SQLITE_NOTICE_RECOVER_WAL: ResultCode { .SQLITE_NOTICE_RECOVER_WAL }
    public static var SQLITE_NOTICE_RECOVER_ROLLBACK: ResultCode { .SQLITE_NOTICE_RECOVER_ROLLBACK }
    public static var SQLITE_NOTICE_RBU: ResultCode { .SQLITE_NOTICE_RBU }
    public static var SQLITE_WARNING_AUTOINDEX: ResultCode { .SQLITE_WARNING_AUTOINDEX }
    public static var SQLITE_AUTH_USER: ResultCode { .SQLITE_AUTH_USER }
    public static var SQLITE_OK_LOAD_PERMANENTLY: ResultCode { .SQLITE_OK_LOAD_PERMANENTLY }
    public static var SQLITE_OK_SYMLINK: ResultCode { .SQLITE_OK_SYMLINK }
}

extension StoreError {
    /// The code that SQLite or SQLCipher alone would have returned; nil where they have no such error.
    ///
    /// With it `catch DatabaseError.SQLITE_NOTADB`, as programs write it around an opening, catches a wrong key here
    /// too.
    public var resultCode: ResultCode? {
        switch code {
        case .wrongKey, .keyMissing, .saltMissing, .sidecarDamaged, .sidecarForged, .sidecarRolledBack, .foreignSidecar,
            .settingsConflict, .notEncrypted, .headerDamaged:
            .SQLITE_NOTADB
        case .pageDamaged, .truncated, .emptyFile, .walDamaged, .journalUntrusted: .SQLITE_CORRUPT
        case .storeInUse: .SQLITE_BUSY
        case .noSuchStore, .databaseMissing, .walMissing: .SQLITE_CANTOPEN
        case .storeClosed: .SQLITE_MISUSE
        default: nil
        }
    }
}
