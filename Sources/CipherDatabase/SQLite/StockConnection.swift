import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing

/// A connection as programs make it that use SQLite, or SQLCipher with a key, and not this library: it shows what they
/// can do with a file.
package enum StockConnection {
    /// How long a read waits for a lock.
    private static let waitMilliseconds = 2000

    /// Counts the entries of the schema, without writing.
    ///
    /// - Parameters:
    ///   - key: nil for SQLite without a key.
    ///   - isImmutable: Whether the file cannot change meanwhile: SQLite then makes no WAL beside it.
    /// - Throws: ``DatabaseError`` when the file cannot be read, or a file beside it is not its own.
    package static func countSchema(
        of path: String, key: PageKey?, isImmutable: Bool = false
    ) throws(DatabaseError) -> Int {
        if !isImmutable { try requireOwnCompanions(of: path) }
        // The first look lowers SQLCipher's log level: it prints to standard error otherwise.
        _ = SQLiteLibrary.cipherVersion
        let handle = try ConnectionHandle.open(path, readonly: true, immutable: isImmutable)
        defer { handle.close() }
        if let key { try check(handle.setRawKey(key), handle) }
        // A rotation locks the file while it replaces it.
        try check(handle.runPragma("PRAGMA busy_timeout = \(waitMilliseconds)"), handle)
        let (code, compiled, _) = handle.prepare("SELECT count(*) FROM sqlite_schema", persistent: false)
        try check(code, handle)
        guard let compiled else { throw DatabaseError(resultCode: .SQLITE_ERROR) }
        let statement = StatementHandle(compiled)
        defer { statement.finalize() }
        let step = ResultCode(rawValue: statement.step())
        guard step == .SQLITE_ROW else {
            throw DatabaseError(resultCode: step, message: handle.lastMessage)
        }
        return Int(statement.int64(at: 0))
    }

    /// Writes to page 1 without a key. The file must be a copy: that destroys it.
    ///
    /// - Returns: The code of SQLite.
    package static func destroyFirstPage(of path: String) throws(DatabaseError) -> ResultCode {
        try requireOwnCompanions(of: path)
        let handle = try ConnectionHandle.open(path, readonly: false)
        defer { handle.close() }
        return handle.runPragma("PRAGMA user_version = 5")
    }

    private static func requireOwnCompanions(of path: String) throws(DatabaseError) {
        do throws(StoreError) {
            try CompanionFiles(StorePaths(path)).requireOwn()
        } catch {
            throw DatabaseError(resultCode: .SQLITE_IOERR, message: error.what)
        }
    }

    private static func check(_ code: ResultCode, _ handle: ConnectionHandle) throws(DatabaseError) {
        if code != .SQLITE_OK { throw DatabaseError(resultCode: code, message: handle.lastMessage) }
    }
}
