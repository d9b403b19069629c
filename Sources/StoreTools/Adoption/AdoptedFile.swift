import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The file to adopt, open without SQLite from the first read of it to the end.
///
/// Its descriptor is opened before the first connection of this process and closed after the last one: closing any
/// descriptor of a file drops the POSIX locks of the process on it (section 2.2 of
/// <https://www.sqlite.org/howtocorrupt.html>).
final class AdoptedFile {
    let path: String
    private let descriptor: FileDescriptor

    /// - Throws: `StoreError` `storeInUse` when a connection of this process has a lock on the file, which closing the
    ///   descriptor would drop; `SystemError`, also when the file may not be written.
    init(_ path: String) throws {
        self.path = path
        let locks = try SystemLocks.posixLocks(on: path) ?? []
        guard !locks.contains(where: { $0.process == ProcessInspector.currentProcess }) else {
            throw Self.inUse(path, "This program has it open.")
        }
        descriptor = try FileDescriptor(opening: path, .readWrite, mustBeRegular: true)
    }

    var byteCount: Int { get throws { try descriptor.status().byteCount } }

    func beginning(_ count: Int) throws -> [UInt8] { try descriptor.read(at: 0, byteCount: count) }

    /// Keeps out every connection of every program.
    ///
    /// - Throws: `StoreError` `storeInUse` when there is one.
    func lock() throws {
        guard try descriptor.tryLock(SQLiteLockByte.all, .exclusive) else {
            throw Self.inUse(path, "A connection holds a lock on it.")
        }
        let others = ProcessInspector.others(using: path)
        guard others.isEmpty else {
            let names = others.map { "\($0) (\(ProcessInspector.commandName(of: $0) ?? "?"))" }.joined(separator: ", ")
            throw Self.inUse(
                path, others.count == 1 ? "Process \(names) has it open." : "Processes \(names) have it open.")
        }
        guard try Files.identity(path) == descriptor.status().identity else {
            throw Self.inUse(path, "Another file took its place a moment ago.")
        }
    }

    /// - Throws: `StoreError` `storeInUse` when a connection has the file open.
    func requireUnused() throws {
        try lock()
        unlock()
    }

    func unlock() { try? descriptor.unlock(SQLiteLockByte.all) }

    /// Copies the file, except its first page, into a new file, which becomes durable and gets the same users.
    ///
    /// - Parameter total: The bytes of its pages. A file that is allocated in chunks has more, which no page uses.
    func copy(
        to target: borrowing FileDescriptor, firstPage: [UInt8], byteCount total: Int,
        progress: (_ done: Int, _ total: Int) throws -> Void
    ) throws {
        try FileAttributes(of: path)?.apply(to: target)
        try target.write(firstPage)
        var done = firstPage.count
        while done < total {
            let piece = try descriptor.read(at: done, byteCount: min(ToolLimits.copiedBytes, total - done))
            guard !piece.isEmpty else { throw SystemError.inputOutput("read", path) }
            try target.write(piece)
            done += piece.count
            try progress(done, total)
        }
        try target.synchronize()
    }

    static func inUse(_ path: String, _ why: String) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" is in use.", why: why,
            remedy: "End the programs that use it, then adopt it again. The file was not changed.")
    }
}

/// A standard SQLCipher file, opened through SQLite unchanged.
final class ForeignDatabase {
    private let path: String
    private var configuration: Configuration
    private var queue: DatabaseQueue?
    private var wasInWAL = false

    /// - Parameters:
    ///   - version: SQLCipher's major version.
    ///   - settings: The settings that the probe has found; nil leaves them to SQLCipher.
    ///   - program: Its `prepareDatabase` gives the connection what the schema needs.
    init(
        _ path: String, _ key: UnlockedKey, version: Int, settings: CipherSettings?,
        program: Configuration = Configuration()
    ) {
        self.path = path
        var configuration = Configuration()
        configuration.label = "StoreTools.adopt"
        configuration.trustsSchema = program.trustsSchemaOfOthers
        configuration.foreignKeysEnabled = false
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.busyMode = .timeout(2)
        configuration.prepareDatabase { db in
            try key.give(to: db)
            if version < 4 { try db.execute(sql: "PRAGMA cipher_compatibility = \(version)") }
            if let settings { try settings.apply(to: db, version: version) }
            try program.prepareDatabase?(db)
        }
        self.configuration = configuration
    }

    /// Opens the file, copies its WAL into it, and switches it to a rollback journal.
    ///
    /// After the store has replaced the file, a program that still has it open cannot write to it: SQLite checks the name
    /// before it creates a journal, but not before it appends to a WAL.
    /// - Throws: `StoreError` `storeInUse` when another connection has it open, `journalUntrusted` for a rollback
    ///   journal that another user can have made, and the errors of opening.
    func fold() throws {
        if let journal = try RollbackJournal(beside: path) {
            try journal.requireTrusted()
        } else {
            // A journal that appears later is ignored: no process that has the file open can have written it.
            configuration.ignoresRollbackJournal = true
        }
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            self.queue = queue
            try queue.inDatabase { db in
                guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else { return }
                wasInWAL = true
                // To the end of the statement: its row comes before its commit, which may fail.
                let mode = try String.fetchAll(db, sql: "PRAGMA journal_mode = DELETE").first
                guard mode == "delete" else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
            }
        } catch let error as DatabaseError where [.SQLITE_BUSY, .SQLITE_LOCKED].contains(error.resultCode) {
            throw AdoptedFile.inUse(path, "Another connection has it open.")
        }
    }

    /// The open queue.
    func opened() throws -> DatabaseQueue {
        guard let queue else { throw DatabaseError(message: "the file is not open") }
        return queue
    }

    func close() throws {
        try queue?.close()
        queue = nil
    }

    /// Restores the WAL mode of the file that ``fold()`` ended.
    func restore() {
        try? close()
        guard wasInWAL, let queue = try? DatabaseQueue(path: path, configuration: configuration) else { return }
        try? queue.inDatabase { _ = try String.fetchAll($0, sql: "PRAGMA journal_mode = WAL") }
        try? queue.close()
    }
}

extension CipherSettings {
    /// Sets the settings that differ from the defaults of a version, after the key. The data key is given itself, so the
    /// number of rounds has no effect; the hash of the derivation makes the key of the authentication codes.
    func apply(to db: Database, version: Int) throws {
        let usual = version == 4 ? CipherSettings.sqlCipher4 : CipherSettings.sqlCipher3
        if kdfHash != usual.kdfHash {
            try db.execute(sql: "PRAGMA cipher_kdf_algorithm = PBKDF2_HMAC_\(kdfHash.rawValue.uppercased())")
        }
        if pageBytes != usual.pageBytes { try db.execute(sql: "PRAGMA cipher_page_size = \(pageBytes)") }
        if hmacHash != usual.hmacHash {
            try db.execute(sql: "PRAGMA cipher_hmac_algorithm = HMAC_\(hmacHash.rawValue.uppercased())")
        }
    }
}
