import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform

/// Encrypts a plain SQLite database into a new store, row by row.
///
/// ```swift
/// let report = try StoreImport(of: "plain.db", to: "app.db", unlockedBy: .keyFile(path: "app.key")).run()
/// print(report.rowCount, report.contentHash.hex)
/// ```
///
/// The import is complete: rows with their row ids, schema, indexes, views, triggers, full-text tables,
/// `sqlite_sequence`, `user_version`, `application_id`, encoding and auto-vacuum. The store appears as a whole or not
/// at all: it is made in a directory beside the target, read back, compared by content hash, and then put in place. The
/// plain database is only read, and may be in use.
public struct StoreImport: StoreTool {
    /// The plain database.
    public let source: String
    /// The database file of the store to create; the path must be free.
    public let target: String
    /// How the store keeps its data key.
    public var scheme = KeyScheme.slots
    /// The permissions of its files, one of `Configuration.fileModes`; nil for the default of a new store.
    public var fileMode: Int?
    /// Its `prepareDatabase` gives the connections the functions, collations and modules that the schema needs. An index
    /// that needs a missing one is left out, and named.
    public var configuration = Configuration()
    private let key: ToolKey

    /// - Parameters:
    ///   - source: The path of the plain database.
    ///   - target: The database file of the store to create.
    ///   - keySource: Where the key of the store comes from; it is read once, when the database has proved to be
    ///     importable.
    public init(of source: String, to target: String, unlockedBy keySource: KeySource) {
        self.init(of: source, to: target, key: ToolKey(keySource))
    }

    package init(of source: String, to target: String, key: ToolKey) {
        self.source = source
        self.target = target
        self.key = key
    }

    /// The result of an import. The store, read back, has the same content hash as the plain database.
    public struct Report: Sendable {
        /// The database file of the store.
        public let path: String
        /// The store's identifier, which never changes.
        public let storeID: StoreID
        /// The number of copied rows.
        public let rowCount: Int
        /// Size of the database file in bytes.
        public let fileBytes: Int
        /// The page size in bytes.
        public let pageBytes: Int
        /// Whether the source's pages were too small for a store, and were replaced by larger ones.
        public let didEnlargePages: Bool
        /// The hash of the content, before and after.
        public let contentHash: ContentHash
        /// The indexes that were not built, because they need what only the program has.
        public let leftOut: [LeftOutIndex]
        /// The indexes of the source that do not fit their tables: the copy has sound ones.
        public let damagedIndexes: [DamagedIndex]
        /// How long it took.
        public let duration: Duration
        /// Notices that are not failures.
        public let notices: [String]
    }

    /// - Throws: ``ToolError`` `noSuchFile`, `notPlain`, `plainNeedsRecovery`, `noDirectory`, `exists`,
    ///   `storeName`, `contentDiffers`, and the errors of reading and writing: the store is removed then. `importInterrupted` and
    ///   `incomplete` describe the state and the remaining steps. `CancellationError`.
    public func perform(_ run: ToolRun) throws -> Report {
        let start = ContinuousClock.now
        let place = TargetPlace(path: target, source: source, run: run)
        try ToolError.requireForeign(target, to: source, place.noun)
        try place.removeAbandoned(.importing, whose: "a killed import had left")
        try place.requireFree()
        let plain = try PlainSource.open(source, program: configuration)
        defer { try? plain.close() }
        let note = try PlainSource.read(source) { try plain.read { try PlainSource.tailNote(of: source, $0) } }
        if let note { run.notice(note) }
        if let loss = try WALContent.loss(of: source, nil), loss.needsAttention { run.notice(loss.note) }
        let key = try key.unlocked()
        try run.check()
        let copied = try PlainSource.read(source) { try copy(plain, key, to: place, run) }
        let store = try open(key, run)
        defer { try? store.close() }
        for notice in store.notices { run.notice(notice) }
        DoubleQuotedStrings.report(store, run)
        StoreOpening.logCreation(target, scheme, run)
        return Report(
            path: target, storeID: store.storeID, rowCount: copied.rowCount,
            fileBytes: try Files.byteCount(target) ?? 0, pageBytes: copied.pageBytes,
            didEnlargePages: copied.didEnlargePages, contentHash: copied.hash, leftOut: copied.leftOut,
            damagedIndexes: copied.damagedIndexes, duration: .now - start,
            notices: run.notices)
    }

    private func copy(
        _ plain: DatabaseQueue, _ key: UnlockedKey, to place: TargetPlace, _ run: ToolRun
    ) throws -> EncryptedCopy.Result {
        let staging = try StagingDirectory(for: target, .importing)
        defer { staging.remove() }
        let longestValue = try PlainSource.longestValue(of: source)
        let copied = try EncryptedCopy(
            source: plain, key: key, scheme: scheme, mode: fileMode, program: configuration,
            longestValue: longestValue, run: run
        )
        .make(in: staging)
        try run.check()
        try place.publish(staging)
        try place.removeSecondName(in: staging)
        return copied
    }

    /// Opens the published store, which creates -wal and -shm.
    ///
    /// - Throws: ``ToolError``, whose text says that the store exists and need not be imported again.
    private func open(_ key: UnlockedKey, _ run: ToolRun) throws -> SharedStore {
        do {
            return try SharedStore.open(
                at: target, unlockedBy: key.source, configuration: StoreOpening.configuration(of: configuration))
        } catch {
            StoreOpening.logCreation(target, scheme, run)
            throw ToolError(
                .incomplete, what: "\"\(target)\" was imported and verified, but could not be opened afterwards.",
                why: ToolError.explanation(of: error),
                remedy:
                    "The store is complete: do not import it again. The next opening for writing does what is left.",
                cause: error)
        }
    }
}

/// Copies a database into a new encrypted one that no other process sees, and verifies the copy.
struct EncryptedCopy {
    let source: DatabaseQueue
    let key: UnlockedKey
    let scheme: KeyScheme
    /// The permissions of its files; nil for the default of a new store.
    var mode: Int?
    /// Its `prepareDatabase` gives the connections what the schema needs.
    var program = Configuration()
    /// The longest value that an index of the copy may compute, in bytes; nil for SQLite's own limit.
    var longestValue: Int?
    let run: ToolRun

    struct Result {
        let rowCount: Int
        let pageBytes: Int
        /// The source's pages were too small for a store, and were replaced by larger ones.
        let didEnlargePages: Bool
        let hash: ContentHash
        /// The indexes that were not built.
        let leftOut: [LeftOutIndex]
        let damagedIndexes: [DamagedIndex]
    }

    /// - Parameter atEnd: Runs in the transaction that read the source.
    /// - Throws: The errors of reading and writing; ``ToolError`` `contentDiffers`; `SystemError` with `ESTALE` where SQLite
    ///   has opened a file of another directory.
    func make(in staging: StagingDirectory, atEnd: () throws -> Void = {}) throws -> Result {
        let (result, keys) = try source.read { db in
            let result = try copy(db, into: staging)
            try atEnd()
            return result
        }
        try verify(staging, keys, expecting: result.hash)
        return result
    }

    /// - Returns: The result, and the keys of the new sidecar.
    private func copy(_ source: Database, into staging: StagingDirectory) throws -> (Result, SidecarKeys?) {
        let path = staging.filePath
        let layout = try DatabaseLayout(source)
        var settings = CipherSettings.plaintextHeader
        // Each page of a store has 80 bytes of overhead, too much for the small pages of old databases.
        settings.pageBytes = max(layout.pageBytes, settings.pageBytes)
        var configuration = layout.configuration(label: "StoreTools.import", setsPageSize: false, program: program)
        configuration.keyScheme = scheme
        if let mode { configuration.fileMode = mode }
        let fileKey = FileKey(path: path, configuration: configuration)
        let queue = try DatabaseQueue(
            path: path, configuration: configuration, fileKey: fileKey,
            key: .secret(key.secret, creatingWith: settings))
        let copied: DatabaseCopy.Copied
        do {
            try staging.requireOpened()
            if let longestValue { queue.inDatabase { $0.limitLengths(toBytes: longestValue) } }
            copied = try DatabaseCopy.copy(source, into: queue, run)
        } catch {
            try? queue.close()
            throw error
        }
        let result = Result(
            rowCount: copied.rows, pageBytes: settings.pageBytes,
            didEnlargePages: settings.pageBytes != layout.pageBytes, hash: copied.hash, leftOut: copied.leftOut,
            damagedIndexes: copied.damagedIndexes)
        return (result, fileKey.keys)
    }

    /// Reads the file back completely, through a new connection, and compares.
    private func verify(_ staging: StagingDirectory, _ keys: SidecarKeys?, expecting hash: ContentHash) throws {
        let path = staging.filePath
        var configuration = Configuration.ofTool(program)
        configuration.label = "StoreTools.verify"
        let copied: ContentHash
        // A pool: opening it sets WAL mode, which every store has; closing it removes the WAL.
        let pool = try DatabasePool(
            path: path, configuration: configuration,
            fileKey: FileKey(path: path, configuration: configuration, holding: keys), key: .knownKeys)
        do {
            try staging.requireOpened()
            copied = try pool.read { db in
                OrphanRow.report(db, run)
                return try ContentHash.of(db, run, .verifyingCopy)
            }
            try pool.close()
        } catch {
            try? pool.close()
            throw error
        }
        guard copied == hash else {
            if let damage { throw damage }
            throw ToolError(
                .contentDiffers, what: "The encrypted copy is not the same as the source.",
                why: "The content hash of the source is \(hash.hex), that of the copy \(copied.hex).",
                remedy: "Nothing was created. This is a defect of this program: please report it.")
        }
    }

    /// The error where the source itself contradicts its schema: values of another type than their column, or keys in the
    /// order of another function. The copy then has other values, or another order.
    private var damage: ToolError? {
        guard let messages = try? source.read({ try ContentCheck($0, run).messages }), messages != ["ok"] else {
            return nil
        }
        return ToolError(
            .contentDiffers, what: "The encrypted copy is not the same as the source, because the source is damaged.",
            why: "SQLite says of it: \(messages.prefix(3).joined(separator: "; ")).",
            remedy:
                "Recover its rows with `sqlite3 FILE .recover`, and check them. If its program replaces functions or "
                + "collations of SQLite, let that program make the copy: it gives its `prepareDatabase` to the `configuration` of "
                + "StoreTools. Nothing was created.",
            cause: DatabaseError(resultCode: .SQLITE_CORRUPT, message: messages.first))
    }
}
