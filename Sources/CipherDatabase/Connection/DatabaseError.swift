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
    /// The SQL text that failed; nil when there is none, or when it could hold a key.
    public let sql: String?
    /// The arguments of the statement, only with ``Configuration/publicStatementArguments``; nil otherwise.
    public let arguments: StatementArguments?
    /// All arguments, for ``expandedDescription`` alone.
    let allArguments: StatementArguments?

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

    private func text(with arguments: StatementArguments?) -> String {
        var text = "SQLite error \(resultCode.rawValue)"
        if let message { text += ": \(message)" }
        if let sql { text += " - while executing `\(sql)`" }
        if let arguments, !arguments.isEmpty { text += " with arguments \(arguments)" }
        return text
    }
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
