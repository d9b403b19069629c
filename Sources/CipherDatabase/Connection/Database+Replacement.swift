// The state after SQLCipher has met a page that is not authentic.
//
// From version 4.9 on a connection then refuses every other page too, with errors that name a damaged file, a file that
// is no database, or one that is read-only. Another connection reads those pages. So a connection that may be meant is
// asked for page 1 when its access has ended, and another one takes its place.

extension ResultCode {
    /// Whether a connection with which SQLite reads no page reports its reads and writes so.
    var mayMeanUnusable: Bool {
        switch primaryResultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_NOMEM, .SQLITE_READONLY: true
        default: false
        }
    }
}

extension Database {
    /// Whether SQLite reads page 1 from the file.
    func canReadPages() -> Bool {
        beginAccess()
        defer { endAccess(allowsOpenTransaction: true) }
        access.cancellation = nil
        // Not from its cache.
        handle.releaseMemory()
        do {
            _ = try Int.fetchOne(self, sql: "SELECT COUNT(*) FROM sqlite_schema")
            return true
        } catch let error as DatabaseError {
            return !error.extendedResultCode.mayMeanUnusable
        } catch {
            return true
        }
    }

    /// Discards a connection in whose place another one was opened. The remaining part of it throws a reason.
    func discard(because reason: any Error) {
        health.openingFailure = reason
        health.wasReplaced = true
        writing.keepsWriteTurn = true
        discard()
    }
}

extension DatabaseError {
    /// A use of something that belongs to a connection in whose place another one was opened.
    static func connectionWasReplaced() -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message:
                "this connection met a damaged page, and another one was opened in its place. Prepare the statement "
                + "again in the next access; `cipherctl verify` lists the damaged pages")
    }

    /// A use of something that belongs to a connection of an empty file, which another connection has filled.
    static func fileWasCreated() -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message:
                "this connection was opened before the file had a page, and another one was opened in its place. Prepare the "
                + "statement again in the next access")
    }
}
