import CipherStore
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform

/// Copies a database into a new store: copy, verify, publish.
struct StoreImport {
    let source: DatabaseQueue
    let target: ImportTarget
    let key: UnlockedKey
    var scheme = KeyScheme.slots
    /// The permissions of its files; nil for those that every new store has.
    var mode: Int?
    let progress: ProgressBar

    struct Result {
        let rowCount: Int
        let pageBytes: Int
        /// The source had pages too small for a store, which got larger ones.
        let didEnlargePages: Bool
        let hash: ContentHash
    }

    /// - Throws: What reading and writing throw; ``CommandFailure`` when the copy is not the same. Nothing that was
    ///   begun is left behind then.
    func run() throws -> Result {
        let staging = try ImportStaging(for: target)
        defer { staging.remove() }
        let result = try make(at: staging.storePath)
        try Interruption.shared.check()
        // With the opening lock of the store held: a stop waits for these few calls.
        try JobControlSuspension.withoutStopping { try staging.publish(to: target) }
        try staging.removeSecondName(of: target)
        return result
    }

    /// Makes the store and compares it with the source.
    ///
    /// - Parameter atEnd: Runs in the transaction that read the source.
    func make(at path: String, atEnd: () throws -> Void = {}) throws -> Result {
        let (result, keys) = try source.read { db in
            let result = try copy(db, into: path)
            try atEnd()
            return result
        }
        try verify(path, keys, expecting: result.hash)
        return result
    }

    // MARK: Copying

    /// - Returns: What was copied, and the keys of the sidecar that was made.
    private func copy(_ source: Database, into path: String) throws -> (Result, SidecarKeys?) {
        let layout = try SourceLayout(source)
        let configuration = configuration(layout)
        let keyring = Keyring(path: path, configuration: configuration)
        let queue = try DatabaseQueue(
            path: path, configuration: configuration, keyring: keyring,
            key: .material(key.secret, creatingWith: layout.settings))
        let rows: Int
        do {
            rows = try queue.inDatabase { db in
                try db.execute(sql: "PRAGMA writable_schema = ON; PRAGMA ignore_check_constraints = ON")
                var rows = 0
                try db.inTransaction(.immediate) {
                    rows = try copyRows(source, db)
                    return .commit
                }
                return rows
            }
            try queue.close()
        } catch {
            try? queue.close()
            throw error
        }
        // In the same transaction as the copy: another process may be writing to the source.
        let hash = try ContentHash.of(source) { try tick("reading again") }
        let result = Result(
            rowCount: rows, pageBytes: layout.storePageBytes,
            didEnlargePages: layout.storePageBytes != layout.pageBytes, hash: hash)
        return (result, keyring.keys)
    }

    private func copyRows(_ source: Database, _ db: Database) throws -> Int {
        var count = 0
        return try DatabaseCopy(source: source, target: db) { table in
            count += 1
            if count.isMultiple(of: 1000) {
                try Interruption.shared.check()
                progress.show("\(count) rows, table \(table)")
            }
        }.run()
    }

    private func configuration(_ layout: SourceLayout) -> Configuration {
        var configuration = Configuration()
        configuration.label = "cipherctl.import"
        configuration.keyScheme = scheme
        if let mode { configuration.fileMode = mode }
        configuration.foreignKeysEnabled = false
        // Old schemas quote strings so; they are taken over as they are.
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA encoding = '\(layout.encoding)'")
            try db.execute(sql: "PRAGMA auto_vacuum = \(layout.autoVacuum)")
            // Nobody else sees the file, and a copy that fails is thrown away as a whole.
            try db.execute(sql: "PRAGMA journal_mode = OFF")
            try db.execute(sql: "PRAGMA synchronous = OFF")
            try db.execute(sql: "PRAGMA cache_size = -65536")
        }
        return configuration
    }

    // MARK: Verifying

    /// Reads everything back from the file, through a new connection, and compares.
    private func verify(_ path: String, _ keys: SidecarKeys?, expecting hash: ContentHash) throws {
        var configuration = Configuration()
        configuration.label = "cipherctl.verify"
        let copied: ContentHash
        // A pool: opening it turns the file to write-ahead logging, as every store has it; closing it removes the log.
        let pool = try DatabasePool(
            path: path, configuration: configuration,
            keyring: Keyring(path: path, configuration: configuration, holding: keys), key: .held)
        do {
            copied = try pool.read { db in try ContentHash.of(db) { try tick("verifying") } }
            try pool.close()
        } catch {
            try? pool.close()
            throw error
        }
        guard copied == hash else {
            throw CommandFailure(
                .failed, "contentDiffers", what: "The encrypted copy is not the same as the source.",
                why: "The content hash of the source is \(hash.hex), that of the copy \(copied.hex).",
                hint: "Nothing was made. This is a defect of this program: please report it.")
        }
    }

    private func tick(_ what: String) throws {
        if Interruption.shared.isSet { try Interruption.shared.check() }
        progress.show(what)
    }
}

/// What a new file must be told before its first page exists.
private struct SourceLayout: Sendable {
    let pageBytes: Int
    let encoding: String
    let autoVacuum: Int

    init(_ db: Database) throws {
        pageBytes = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4096
        encoding = try String.fetchOne(db, sql: "PRAGMA main.encoding") ?? "UTF-8"
        autoVacuum = try Int.fetchOne(db, sql: "PRAGMA main.auto_vacuum") ?? 0
    }

    /// Each page of a store carries 80 bytes of its own, too much for the small pages of old databases.
    var storePageBytes: Int { max(pageBytes, CipherSettings.plaintextHeader.pageBytes) }

    var settings: CipherSettings {
        var settings = CipherSettings.plaintextHeader
        settings.pageBytes = storePageBytes
        return settings
    }
}
