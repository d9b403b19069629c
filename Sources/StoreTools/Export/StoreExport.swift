import CipherStore
import KeyCustody
import StorePlatform

/// Writes the content of a store into a new plain SQLite database, which **anyone can read without a key**.
///
/// ```swift
/// let report = try StoreExport(of: "app.db", toInsecurePlaintext: "plain.db", unlockedBy: source).run()
/// ```
///
/// The export is complete, as with ``StoreImport``. The file's mode is 0600, and it appears as a whole or not at all:
/// it is made in a directory beside the target, read back and compared by content hash. The store may be in use.
public struct StoreExport: StoreTool {
    /// The store, or the folder of a backup.
    public let source: String
    /// The plain database to create; the path must be free.
    public let target: String
    /// Its `prepareDatabase` gives the connections the functions, collations and modules that the schema needs. An index
    /// that needs a missing one is left out, and named.
    public var configuration = Configuration()
    private let key: ToolKey

    /// - Parameters:
    ///   - source: The database file of the store, or the folder of a backup.
    ///   - target: The plain database to create.
    ///   - keySource: Where the key of the store comes from; it is read once, when the target has proved to be free.
    public init(of source: String, toInsecurePlaintext target: String, unlockedBy keySource: KeySource) {
        self.init(of: source, toInsecurePlaintext: target, key: ToolKey(keySource))
    }

    package init(of source: String, toInsecurePlaintext target: String, key: ToolKey) {
        self.source = source
        self.target = target
        self.key = key
    }

    /// The result of an export. The plain database, read back, has the same content hash as the store.
    public struct Report: Sendable {
        /// The plain database.
        public let path: String
        /// The number of copied rows.
        public let rowCount: Int
        /// Size of the plain database in bytes.
        public let fileBytes: Int
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

    /// - Throws: ``ToolError`` `noDirectory`, `exists`, `storeName`, `needsWriting`, `contentDiffers`; the errors of opening and
    ///   reading the store and of writing the file; `CancellationError`. The plain database is removed then.
    public func perform(_ run: ToolRun) throws -> Report {
        let start = ContinuousClock.now
        let place = TargetPlace(path: target, noun: "database", source: source, followsLinks: false, run: run)
        do {
            try place.requireFree()
        } catch let error as ToolError where error.code == .exists {
            // A killed export may have put the database in place, and left a second name of it.
            try removeAbandoned(place)
            throw error
        }
        let store = try StoreOpening.readOnly(
            BackupBundle.database(meantBy: source), key.unlocked(), configuration: configuration, onNotice: run.notice)
        defer { try? store.close() }
        // Only now: a wrong key must not change anything.
        try removeAbandoned(place)
        try run.check()
        let staging = try StagingDirectory(for: target, .exporting)
        defer { staging.remove() }
        // Created first, so that only its owner can access it from the first byte on.
        try staging.folder.createFile(staging.fileName, [])
        let copied = try store.read { try copy($0, into: staging, run) }
        try verify(staging, expecting: copied.hash, run)
        try run.check()
        try publish(staging, at: place)
        return Report(
            path: target, rowCount: copied.rows, fileBytes: try Files.byteCount(target) ?? 0, contentHash: copied.hash,
            leftOut: copied.leftOut, damagedIndexes: copied.damagedIndexes, duration: .now - start, notices: run.notices
        )
    }

    private func removeAbandoned(_ place: TargetPlace) throws {
        try place.removeAbandoned(.exporting, whose: "a killed export had left; it contained readable rows")
    }

    private func copy(
        _ source: Database, into staging: StagingDirectory, _ run: ToolRun
    ) throws -> DatabaseCopy.Copied {
        var configuration = try DatabaseLayout(source).configuration(
            label: "StoreTools.export", setsPageSize: true, program: configuration)
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: staging.filePath, configuration: configuration)
        // Before the first row is written: the file has no journal, so all of them go there.
        do {
            try staging.requireOpened()
        } catch {
            try? queue.close()
            throw error
        }
        return try DatabaseCopy.copy(source, into: queue, run)
    }

    private func verify(
        _ staging: StagingDirectory, expecting hash: ContentHash, _ run: ToolRun
    ) throws {
        let copy = try PlainSource.open(staging.filePath, program: configuration)
        defer { try? copy.close() }
        try staging.requireOpened()
        let copied = try copy.read { db in
            OrphanRow.report(db, run)
            return try ContentHash.of(db, run, .verifyingCopy)
        }
        guard copied == hash else {
            throw ToolError(
                .contentDiffers, what: "The plain copy is not the same as the store.",
                why: "The content hash of the store is \(hash.hex), that of the copy \(copied.hex).",
                remedy: "Nothing was created. This is a defect of this program: please report it.")
        }
    }

    private func publish(_ staging: StagingDirectory, at place: TargetPlace) throws {
        try staging.synchronize(staging.fileName)
        try place.requireFree()
        let published = try staging.link(staging.fileName, to: target)
        do {
            try Files.synchronize(directory: Files.directory(of: target))
        } catch {
            try? published.remove()
            throw error
        }
    }
}
