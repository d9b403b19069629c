import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform

/// A standard SQLCipher file, opened through SQLite as it is.
final class ForeignDatabase {
    private let path: String
    private let configuration: Configuration
    private var queue: DatabaseQueue?
    private var wasInWAL = false

    /// - Parameters:
    ///   - version: SQLCipher's major version.
    ///   - settings: What the probe has found; nil leaves it to SQLCipher.
    init(_ path: String, _ key: UnlockedKey, version: Int, settings: CipherSettings?) {
        self.path = path
        var configuration = Configuration()
        configuration.label = "cipherctl.adopt"
        configuration.foreignKeysEnabled = false
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.busyMode = .timeout(2)
        configuration.prepareDatabase { db in
            try key.give(to: db)
            if version < 4 { try db.execute(sql: "PRAGMA cipher_compatibility = \(version)") }
            if let settings { try settings.apply(to: db) }
        }
        self.configuration = configuration
    }

    /// Opens the file, brings what its log holds into it, and gives it a rollback journal.
    ///
    /// A program that still finds the file under its old name when the store has taken its place can then not write
    /// to it: SQLite looks for that before it makes a journal, but not before it appends to a log.
    /// - Throws: `StoreError` `storeInUse` when somebody has it open, and what opening throws.
    func fold() throws {
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

    /// Gives the file back the log that ``fold()`` took.
    func restore() {
        try? close()
        guard wasInWAL, let queue = try? DatabaseQueue(path: path, configuration: configuration) else { return }
        try? queue.inDatabase { _ = try String.fetchAll($0, sql: "PRAGMA journal_mode = WAL") }
        try? queue.close()
    }
}

extension CipherSettings {
    /// Asks for what differs from SQLCipher's defaults, behind the key.
    func apply(to db: Database) throws {
        let usual = kdfHash == .sha512 ? CipherSettings.sqlCipher4 : CipherSettings.sqlCipher3
        if pageBytes != usual.pageBytes { try db.execute(sql: "PRAGMA cipher_page_size = \(pageBytes)") }
        if hmacHash != usual.hmacHash {
            try db.execute(sql: "PRAGMA cipher_hmac_algorithm = HMAC_\(hmacHash.rawValue.uppercased())")
        }
    }
}
