import CipherStore
import PageFormat
import StorePlatform
import StoreSharing

/// A plain SQLite database, opened read-only: it is never changed.
package enum PlainSource {
    /// Opens the database, with the content of its WAL.
    ///
    /// - Parameter program: Its `prepareDatabase` gives the connection what the schema needs.
    /// - Throws: ``ToolError`` when it is no plain SQLite database, `StoreError`, `DatabaseError`, `SystemError`.
    package static func open(
        _ path: String, program: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        try requirePlain(path)
        var configuration = Configuration()
        configuration.readonly = true
        configuration.allowsUnencrypted = true
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(5)
        configuration.label = "StoreTools.plain"
        configuration.trustsSchema = program.trustsSchemaOfOthers
        let longest = try longestValue(of: path)
        configuration.prepareDatabase { db in
            db.limitLengths(toBytes: longest)
            try program.prepareDatabase?(db)
        }
        do {
            return try DatabaseQueue(path: path, configuration: configuration)
        } catch let error as DatabaseError where [.SQLITE_CANTOPEN, .SQLITE_READONLY].contains(error.resultCode) {
            if let shortage = error.shortage, !shortage.isReadOnlyFilesystem { throw error }
            let isReadOnly = error.shortage != nil || Files.isOnReadOnlyFilesystem(path)
            throw ToolError(
                .plainNeedsRecovery, what: "\"\(path)\" cannot be read without changing something.",
                why:
                    "\(error.message ?? "SQLite refused"): its journal or WAL needs files beside it, "
                    + (isReadOnly
                        ? "and the filesystem is mounted read-only."
                        : "which this process may not make or change."),
                remedy: "Copy the file with its -wal and -journal to a place of your own"
                    + (isReadOnly ? " that is not read-only" : "") + ", and use the copy.")
        } catch let error as StoreError where error.code == .walMissing {
            throw needsRecovery(path, error)
        } catch let error as StoreError where [.notEncrypted, .truncated, .headerDamaged].contains(error.code) {
            // The error of an opening recommends an import, which has failed here.
            throw unreadable(path, error)
        }
    }

    /// The error of a file that begins like a plain database. SQLite's message tells a page that is damaged from an entry of
    /// the schema that SQLite cannot parse.
    private static func unreadable(_ path: String, _ cause: StoreError) -> ToolError {
        var reason: String?
        do throws(DatabaseError) {
            _ = try StockConnection.countSchema(of: path, key: nil, isImmutable: true)
        } catch {
            reason = error.message
        }
        let file = ShellWord.path(path)
        return ToolError(
            .notPlain, what: "\"\(path)\" cannot be read.",
            why: "It begins like a plain SQLite database"
                + (reason.map { ", and SQLite refuses it: \($0)." } ?? ", and is damaged or cut at its end."),
            remedy: "Restore it from a backup. If SQLite names a part of the schema, correct its entry in a copy "
                + "(`PRAGMA writable_schema = ON`). Otherwise recover the rows with `sqlite3 \(file) .recover`. The file "
                + "was left as it was.", cause: cause)
    }

    /// The longest value that is read from a plain database or computed from one, in bytes. No row is longer than the file;
    /// what a definition computes of a row may be.
    ///
    /// - Throws: `SystemError`.
    static func longestValue(of path: String) throws -> Int {
        let bytes = try (Files.byteCount(path) ?? 0) + (Files.byteCount(StorePaths(path).wal) ?? 0)
        return max(ToolLimits.longestSmallValue, bytes * ToolLimits.valuesInFile)
    }

    /// Runs a block that reads a plain database, whose damage is not that of a store.
    ///
    /// - Throws: ``ToolError`` `notPlain` where SQLite finds the file damaged; `plainNeedsRecovery`; the errors of `body`.
    package static func read<T>(_ path: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError
            where [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_TOOBIG].contains(error.resultCode.primaryResultCode)
        {
            throw ToolError(
                .notPlain, what: "The plain database \"\(path)\" is damaged.", why: "\(error).",
                remedy:
                    "Restore it from a backup, or recover its rows with `sqlite3 \(ShellWord.path(path)) .recover`. The "
                    + "file was left as it was.", cause: error)
        } catch let error as StoreError where error.code == .walMissing {
            throw needsRecovery(path, error)
        }
    }

    /// The error of a database that SQLite cannot read without a file beside it.
    private static func needsRecovery(_ path: String, _ error: StoreError) -> ToolError {
        let isHot = ((try? Files.byteCount(StorePaths(path).journal)) ?? nil) ?? 0 > 0
        if isHot, let refusal = untrustedJournal(of: path) { return refusal }
        return ToolError(
            .plainNeedsRecovery, what: "\"\(path)\" cannot be read without changing something.",
            why: isHot
                ? "A program was killed while it wrote, and \"\(Files.name(of: path))-journal\" has to be rolled back."
                : "It is in WAL mode, and this process may not make its -wal and -shm.",
            remedy: isHot
                ? "Open it once with sqlite3: `sqlite3 \(ShellWord.path(path)) 'SELECT count(*) FROM sqlite_schema'`."
                : "Copy the file, with its -wal if there is one, to a place of your own, and use the copy.",
            cause: error)
    }

    /// The error where another user can have made the journal, or it names a further file: sqlite3 would overwrite the
    /// database by it, and remove that file.
    private static func untrustedJournal(of path: String) -> ToolError? {
        let journal = StorePaths(path).journal
        var why: String?
        do {
            try RollbackJournal(beside: path)?.requireTrusted()
            let status = try Files.ownStatus(of: journal)
            if let status, status.kind != .regular || status.linkCount > 1 {
                why = "It is no regular file with one name."
            } else if let status, ![0, ProcessInspector.effectiveUser].contains(status.owner) {
                why = "It belongs to user \(status.owner), and sqlite3 would overwrite the database by it."
            } else if let status, status.permissions & 0o022 != 0 {
                why = "Other users may write it, and sqlite3 would overwrite the database by it."
            }
        } catch let error as StoreError {
            why = error.why
        } catch {
            why = "It cannot be examined: \(error)."
        }
        guard let why else { return nil }
        return ToolError(
            .plainNeedsRecovery, what: "\"\(path)\" has a rollback journal that is not to be trusted.",
            why: "\"\(Files.name(of: journal))\": \(why)",
            remedy:
                "Do not open the database with sqlite3. Find out who made the journal. If a program of yours did, open the "
                + "database with that program. Otherwise copy the database without the journal to a folder of your own, and "
                + "use the copy.")
    }

    /// A note about a file that is longer than its pages, as where it is allocated in chunks; nil for none.
    ///
    /// - Parameter db: A connection to the file.
    /// - Throws: `DatabaseError`, `SystemError`.
    /// - SeeAlso: `SQLITE_FCNTL_CHUNK_SIZE` of <https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>
    package static func tailNote(of path: String, _ db: Database) throws -> String? {
        let pages = try Int.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0
        let pageBytes = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0
        let excess = (try Files.byteCount(path) ?? 0) - pages * pageBytes
        guard excess > 0 else { return nil }
        return "the last \(CountText.text(excess, "byte")) of \"\(path)\" belong to no page: they are not read"
    }

    private static func requirePlain(_ path: String) throws {
        guard let status = try Files.status(of: path) else {
            throw ToolError.noFile(path)
        }
        guard status.kind == .regular else {
            throw ToolError(
                .notPlain, what: "\"\(path)\" is not a plain SQLite database.",
                why: status.kind == .directory ? "It is a directory." : "It is a device, a pipe or a socket.",
                remedy: "Give the name of a database file.")
        }
        let first = try RawFile(path).bytes(at: 0, count: 4096)
        switch DatabaseHeader.examine(first, fileBytes: status.byteCount, settings: nil) {
        case .plainSQLite: return
        case .empty:
            throw notPlain(path, "It has no bytes.", "Check the path. The command create makes an empty store.")
        case .plaintextHeader, .damagedHeader: throw notPlain(path, "It looks like an encrypted store.")
        case .tooShort: throw notPlain(path, "It is too short for a database.")
        case .opaque(let traits):
            throw notPlain(path, traits.looksRandom ? "It may be encrypted already." : "It is not a database.")
        }
    }

    private static let encryptedRemedy =
        "Check the path; the file was left as it is. An encrypted store needs no import: commands read it with its key."

    private static func notPlain(_ path: String, _ why: String, _ remedy: String = encryptedRemedy) -> ToolError {
        ToolError(
            .notPlain, what: "\"\(path)\" is not a plain SQLite database.", why: why, remedy: remedy)
    }
}
