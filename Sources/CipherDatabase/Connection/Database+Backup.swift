import KeyCustody
import StorePlatform

/// The progress of a copy of a database.
public struct DatabaseBackupProgress: Sendable {
    /// The number of pages still to be copied.
    public let remainingPageCount: Int
    /// The number of pages of the source.
    public let totalPageCount: Int
    /// Whether all pages were copied.
    public let isCompleted: Bool
    /// The number of pages that were copied.
    public var completedPageCount: Int { totalPageCount - remainingPageCount }
}

extension Database {
    /// Copies the whole database into another one and replaces the content there. Others may use both meanwhile; the
    /// destination keeps its own key and salt.
    ///
    /// Both sides must be encrypted, or neither: SQLCipher copies pages and cannot change whether they are encrypted.
    /// Inside a transaction of the source the copy is of that moment; otherwise a copy in steps restarts when another
    /// connection writes in between.
    ///
    /// - Parameters:
    ///   - destDb: A connection to the destination, outside of any transaction.
    ///   - pagesPerStep: How many pages are copied between two calls of `progress`; by default all at once.
    ///   - progress: Called after each step. An error that it throws before the end rolls the copy back and is
    ///     rethrown; one thrown at the end is too late and ignored.
    /// - Throws: ``DatabaseError``; the destination is then as it was before.
    public func backup(
        to destDb: Database, pagesPerStep: CInt = -1, progress: ((DatabaseBackupProgress) throws -> Void)? = nil
    ) throws {
        requireAccess()
        destDb.requireAccess()
        if isClosed || destDb.isClosed { throw DatabaseError.connectionIsClosed() }
        try requireSameProtection(as: destDb)
        try destDb.enterCall(.write, sql: Self.backupName)
        defer { destDb.leaveCall() }
        if let writeTurn = destDb.writing.writeTurn { try destDb.acquireWriteTurn(writeTurn, sql: Self.backupName) }
        // A reader's snapshot is of one moment, so no gate is needed.
        let isGatedSource = isGated || gating.gatesReads
        if isGatedSource { try enterCall(.read, sql: Self.backupName) }
        defer { if isGatedSource { leaveCall() } }
        guard let backup = BackupHandle.begin(from: handle, to: destDb.handle) else {
            throw destDb.error(destDb.lastErrorCode)
        }
        let failure = copy(backup, to: destDb, pagesPerStep: pagesPerStep, progress: progress)
        let code = backup.finish()
        destDb.clearSchemaCache()
        if let failure { throw failure }
        try destDb.check(code)
    }

    private static let backupName = "a backup"

    /// - Returns: Why the copy is not complete.
    private func copy(
        _ backup: borrowing BackupHandle, to destination: Database, pagesPerStep: CInt,
        progress: ((DatabaseBackupProgress) throws -> Void)?
    ) -> (any Error)? {
        var left = pagesPerStep
        while true {
            // In pieces, between which a suspension is noticed: SQLite itself does not check for an interruption here.
            let piece = left < 0 ? DatabaseLimits.backupPages : min(left, DatabaseLimits.backupPages)
            pageReads.hold()
            let code = ResultCode(rawValue: pageReads.judge(backup.copy(pages: piece).rawValue))
            pageReads.release()
            if gating.gate.isWanted || destination.gating.gate.isWanted, code == .SQLITE_OK {
                return DatabaseError.suspended(sql: Self.backupName)
            }
            if pagesPerStep < 0, code == .SQLITE_OK { continue }
            left -= piece
            if left > 0, code == .SQLITE_OK { continue }
            left = pagesPerStep
            guard code == .SQLITE_OK || code == .SQLITE_DONE else {
                let isRefused = code.rawValue == PageReads.refused
                return DatabaseError(
                    resultCode: isRefused ? .SQLITE_CORRUPT : code,
                    message: pageReads.message(of: code.rawValue, SQLiteLibrary.message(of: code)))
            }
            let state = DatabaseBackupProgress(
                remainingPageCount: backup.remainingPageCount, totalPageCount: backup.totalPageCount,
                isCompleted: code == .SQLITE_DONE)
            if code == .SQLITE_DONE {
                try? progress?(state)
                // SQLite does not report this commit, and the WAL may be longer than ever.
                destination.writing.walFrames += state.totalPageCount
                return nil
            }
            do {
                try progress?(state)
                if let flag = access.cancellation ?? destination.access.cancellation, flag.isSet {
                    throw CancellationError()
                }
            } catch {
                return error
            }
        }
    }

    private func requireSameProtection(as destination: Database) throws {
        guard connectionKey.isKeyed != destination.connectionKey.isKeyed else { return }
        let (encrypted, plain) = connectionKey.isKeyed ? (self, destination) : (destination, self)
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "cannot back up between \(encrypted.label), which is encrypted, and \(plain.label), which is not: "
                + "give both a key in prepareDatabase, or copy the rows with SQL")
    }
}

extension DatabaseReader {
    /// Copies the whole database, as of one moment, into another one and replaces the content there. The destination
    /// keeps its own key and salt.
    ///
    /// Both sides must be encrypted, or neither.
    ///
    /// - Parameters:
    ///   - writer: The destination. Reads of a pool that are under way keep their snapshot.
    ///   - pagesPerStep: How many pages are copied between two calls of `progress`; by default all at once.
    ///   - progress: Called after each step. An error that it throws before the end rolls the copy back and is
    ///     rethrown; one thrown at the end is too late and ignored.
    /// - Throws: ``DatabaseError``; the destination is then as it was before.
    public func backup(
        to writer: some DatabaseWriter, pagesPerStep: CInt = -1,
        progress: ((DatabaseBackupProgress) throws -> Void)? = nil
    ) throws {
        try writer.writeWithoutTransaction { destination in
            try read { source in
                try source.backup(to: destination, pagesPerStep: pagesPerStep, progress: progress)
            }
        }
    }
}

extension Database {
    /// Copies the database into a file that does not exist yet, without free pages.
    ///
    /// - Parameters:
    ///   - key: Where the key of this database came from; the copy gets its key from there too.
    ///   - scheme: How a copy that gets a sidecar keeps its key.
    func copy(into path: String, key: KeyOrigin, scheme: KeyScheme) throws {
        guard try Files.byteCount(path) ?? 0 == 0 else { throw DatabaseError(message: "output file already exists") }
        var configuration = configuration
        configuration.readonly = false
        configuration.keyScheme = scheme
        let copy = try WritingConnection(
            path: path, label: label + ".copy", configuration: configuration,
            fileKey: FileKey(path: path, configuration: configuration), key: key, wal: false)
        try copy.sync { db in
            try backup(to: db)
            try db.execute(sql: "VACUUM")
        }
        try copy.close()
    }
}

extension DatabaseQueue {
    /// A copy of a database file in memory. Changes of it leave no trace on disk.
    ///
    /// - Parameters:
    ///   - path: The file; it is opened read-only.
    ///   - configuration: Sets the key of the file, under which the copy is encrypted too. With `readonly` the copy
    ///     cannot be changed.
    /// - Throws: As opening the file does, or ``DatabaseError``.
    public static func inMemoryCopy(
        fromPath path: String, configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        var reading = configuration
        reading.readonly = true
        let source = try DatabaseQueue(path: path, configuration: reading)
        var writing = configuration
        writing.readonly = false
        let copy = DatabaseQueue(configuration: writing)
        try source.backup(to: copy)
        try source.close()
        if configuration.readonly { try copy.inDatabase { try $0.execute(sql: "PRAGMA query_only = 1") } }
        return copy
    }

    /// A copy of a database file that exists only as long as the queue. It is kept in memory: a temporary file would be
    /// one more place on disk that contains the rows.
    ///
    /// - Parameters:
    ///   - path: The file; it is opened read-only.
    ///   - configuration: Sets the key of the file.
    /// - Throws: As opening the file does, or ``DatabaseError``.
    public static func temporaryCopy(
        fromPath path: String, configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        try inMemoryCopy(fromPath: path, configuration: configuration)
    }
}
