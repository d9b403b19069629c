import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// How the tools open existing stores.
package enum StoreOpening {
    // MARK: With the sidecar only

    /// The sidecar, authenticated by a key: the database itself is not opened, and may be damaged.
    ///
    /// - Throws: `StoreError` `noSuchStore` where no store exists, and any other error of opening the store.
    package static func sidecar(
        _ path: String, _ key: UnlockedKey, onNotice: (String) -> Void
    ) throws -> AuthenticatedSidecar {
        let files = SidecarFiles(databasePath: StorePaths(path).database)
        guard let kind = try Files.kind(path) else { throw noSuchStore(path) }
        // The WAL may have the pages that the file has lost.
        let isPlausible =
            try kind == .regular
            && (Files.byteCount(path) ?? 0 > 0 || Files.byteCount(StorePaths(path).wal) ?? 0 > 0)
        let choice =
            try isPlausible ? key.explainingRefusal { try files.choose(files.read(), unlock: key.unlock) } : nil
        if let choice { return choice }
        // No sidecar, no file, no content: an opening reports the precise error.
        try readOnly(path, key, onNotice: onNotice).close()
        throw noSuchStore(path)
    }

    // MARK: As a store

    /// Opens a store read-only.
    ///
    /// - Throws: The errors of `SharedStore.openReadOnly`; `StoreError` `noSuchStore` when the store does not exist
    ///   yet; ``ToolError`` `needsWriting`.
    package static func readOnly(
        _ path: String, _ key: UnlockedKey, configuration: Configuration = .ofTool(),
        onNotice: (String) -> Void
    ) throws -> SharedStore {
        let configuration = untrusting(configuration)
        let store = try readOnly(path, onNotice) {
            try key.explainingRefusal {
                try SharedStore.openReadOnly(at: path, unlockedBy: key.source, configuration: configuration)
            }
        }
        noteLostCommits(path, onNotice)
        return store
    }

    /// Reports the commits that SQLite does not read. An opening for writing keeps them, and reports them itself.
    private static func noteLostCommits(_ path: String, _ onNotice: (String) -> Void) {
        guard BackupBundle(holding: path) == nil, let loss = (try? WALContent.loss(of: path, nil)) ?? nil,
            loss.needsAttention
        else { return }
        onNotice("\(loss.note): \(loss.remedy(for: path))")
    }

    /// Opens a store read-only with keys that its sidecar has already proved, which costs no derivation.
    static func readOnly(
        _ path: String, holding keys: SidecarKeys, configuration: Configuration = .ofTool(),
        onNotice: (String) -> Void
    ) throws -> SharedStore {
        let configuration = untrusting(configuration)
        return try readOnly(path, onNotice) {
            try SharedStore.openReadOnly(at: path, holding: keys, configuration: configuration)
        }
    }

    private static func readOnly(
        _ path: String, _ onNotice: (String) -> Void, _ open: () throws -> SharedStore?
    ) throws -> SharedStore {
        let opened: SharedStore?
        // Its manifest is there: it was no store that somebody could give up.
        if BackupBundle(holding: path) != nil, try Files.kind(path) == nil { throw noSuchStore(path) }
        do {
            opened = try open()
        } catch let error as DatabaseError where [.SQLITE_READONLY, .SQLITE_CANTOPEN].contains(error.resultCode) {
            // Too few descriptors, or too little memory, have nothing to do with the store's files.
            if let shortage = error.shortage, !shortage.isReadOnlyFilesystem { throw error }
            throw needsWAL(path, isReadOnly: error.shortage != nil || Files.isOnReadOnlyFilesystem(path))
        }
        guard let store = opened else { throw noSuchStore(path) }
        for notice in store.notices { onNotice(notice) }
        return store
    }

    /// Opens an existing store for writing; never creates one.
    ///
    /// - Parameter isCancelled: Called during waits for other processes; nil where a signal ends the process anyway.
    /// - Throws: The errors of `SharedStore.open`; `CancellationError`.
    package static func writable(
        _ path: String, _ key: UnlockedKey, isCancelled: (@Sendable () -> Bool)? = nil, onNotice: (String) -> Void
    ) throws -> SharedStore {
        guard let bytes = try Files.byteCount(path), bytes > 0 else { throw noSuchStore(path) }
        // A file that is no store is refused before a lock file is made beside it.
        if try isUnknown(StorePaths(path)) { try readOnly(path, key, onNotice: { _ in }).close() }
        var configuration = Configuration.ofTool()
        configuration.isOpeningCancelled = isCancelled
        configuration.requiresStore = true
        let store = try key.explainingRefusal {
            try SharedStore.open(at: path, unlockedBy: key.source, configuration: configuration)
        }
        for notice in store.notices { onNotice(notice) }
        return store
    }

    /// Whether no file beside a database says that it is a store.
    private static func isUnknown(_ paths: StorePaths) throws -> Bool {
        try SidecarFiles(databasePath: paths.database).read().areAbsent && !Files.entryExists(paths.lock)
    }

    /// The configuration of a connection that has what the schema needs, and nothing else of the program's.
    static func configuration(of program: Configuration) -> Configuration { .ofTool(program) }

    /// The same configuration, which trusts the schema of the store only if a program with functions does.
    private static func untrusting(_ configuration: Configuration) -> Configuration {
        var untrusting = configuration
        untrusting.trustsSchema = configuration.trustsSchemaOfOthers
        return untrusting
    }

    /// Writes to the key log that a store was created, which was made elsewhere and then published.
    static func logCreation(_ path: String, _ scheme: KeyScheme, _ run: ToolRun) {
        let log = KeyLog(databasePath: StorePaths(path).database)
        if let notice = log.note(.storeCreated(scheme: scheme.rawValue, store: storeID(path))) { run.notice(notice) }
    }

    /// Writes to the key log that a database became a store, unless a killed adoption has done so.
    static func logAdoption(_ path: String, _ run: ToolRun) {
        let log = KeyLog(databasePath: StorePaths(path).database)
        let known = (try? log.verify().entries) ?? []
        guard !known.contains(where: { $0.event == "adopted" }) else { return }
        let event = KeyEvent.adopted(scheme: KeyScheme.direct.rawValue, store: storeID(path))
        if let notice = log.note(event) { run.notice(notice) }
    }

    private static func storeID(_ path: String) -> StoreID? {
        SidecarFiles(databasePath: StorePaths(path).database).read().newestClaimed?.storeID
    }

    private static func needsWAL(_ path: String, isReadOnly: Bool) -> ToolError {
        let paths = StorePaths(path)
        for file in [paths.wal, paths.sharedMemory] where (try? Files.kind(file)) == .directory {
            return ToolError(
                .needsWriting, what: "\"\(path)\" cannot be read.",
                why: "\"\(Files.name(of: file))\" is a folder, where SQLite has a file.",
                remedy: "Find out who made the folder, and move it away.")
        }
        if isReadOnly {
            return ToolError(
                .needsWriting, what: "\"\(path)\" cannot be read without writing beside it.",
                why: "Its -wal and -shm are missing or need recovery, and the filesystem is mounted read-only.",
                remedy: "Mount the read-only filesystem with the right to write, or copy the store with all files of "
                    + "its name to another one. A backup is read in place.")
        }
        return ToolError(
            .needsWriting, what: "\"\(path)\" cannot be read without writing beside it.",
            why: "Its -wal and -shm are missing or need recovery, and this user may not make or change them.",
            remedy: "Open the store once for writing (cipherctl sql --write) as a user who may; they stay from then on."
        )
    }

    package static func noSuchStore(_ path: String) -> StoreError {
        let paths = StorePaths(path)
        if let bundle = BackupBundle(holding: path), (try? Files.kind(path)) == nil {
            return bundle.damaged(
                "its \(BackupBundle.databaseName) is missing",
                remedy: "Restore the store from another backup: `cipherctl restore DIR STORE`. Nothing was changed.")
        }
        if let reason = (try? MissingDatabase.reason(paths)) ?? nil { return reason }
        if let interrupted = InterruptedRestoration.error(.saltMissing, paths) { return interrupted }
        if let emptied = (try? MissingDatabase.emptied(paths)) ?? nil { return emptied }
        if let foreign = foreignFile(paths) { return foreign.error }
        if let owner = (try? StorePaths.owner(of: path)) ?? nil {
            return StoreError.noStore(
                at: path, why: "It is a file of the store \"\(owner)\".",
                remedy: "Name the store: \(ShellWord.path(owner)).")
        }
        if let at = path.lastIndex(of: "@"), Files.exists(path[..<at] + "/f/format") {
            let (place, identifier) = (ShellWord.path(String(path[..<at])), path[path.index(after: at)...])
            return StoreError.noStore(
                at: path, why: "It names a backup in a repository, which `cipherctl sql` alone reads in its place.",
                remedy: "Restore it: `cipherctl restore \(place) NEW --backup \(ShellWord.path(String(identifier)))`.")
        }
        let why =
            switch try? Files.kind(path) {
            case .regular:
                (try? Files.byteCount(path)) == 0 && SidecarFiles(databasePath: paths.database).read().areAbsent
                    ? "The file is empty." : "Its creation has begun but was not completed."
            case .directory where Files.exists(path + "/" + BackupBundle.databaseName):
                "The path names a directory with a \(BackupBundle.databaseName) and without a \(BackupBundle.manifestName): "
                    + "if it was a backup, it is not complete."
            case .directory: "The path names a directory."
            case .other: "The path names a device or a pipe."
            case nil: "The file does not exist."
            }
        return StoreError.noStore(
            at: path, why: why,
            remedy: [.directory, .other].contains(try? Files.kind(path))
                ? "Check the path." : "Check the path, or make the store with `cipherctl create`.")
    }

    /// Refuses a file that is no store, for commands that open none.
    ///
    /// - Throws: `StoreError` `notEncrypted`.
    package static func refuseForeignFile(_ path: String) throws {
        guard BackupBundle(holding: path) == nil, let foreign = foreignFile(StorePaths(path)) else { return }
        throw foreign.error
    }

    /// A file with content that is no store.
    private static func foreignFile(_ paths: StorePaths) -> ForeignFile? {
        guard (try? Files.kind(paths.database)) == .regular, let bytes = (try? Files.byteCount(paths.database)) ?? nil,
            bytes > 0, let first = try? RawFile(paths.database).bytes(at: 0, count: PageLayout.largestPageBytes)
        else { return nil }
        return ForeignFile(paths, DatabaseHeader.examine(first, fileBytes: bytes, settings: nil))
    }
}
