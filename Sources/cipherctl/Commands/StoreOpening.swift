import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform

/// Opening existing stores, as the commands do it.
enum StoreOpening {
    /// Opens a store for reading alone.
    ///
    /// - Throws: What `SharedStore.openReadOnly` throws; `StoreError` `noSuchStore` when there is none yet.
    static func readOnly(_ path: String, _ key: UnlockedKey, _ console: Console) throws -> SharedStore {
        try readOnly(path, console) {
            try key.explainingRefusal { try SharedStore.openReadOnly(at: path, unlockedBy: key.source) }
        }
    }

    /// Opens a store for reading alone with keys that its sidecar has proved already, which costs no derivation.
    static func readOnly(_ path: String, holding keys: SidecarKeys, _ console: Console) throws -> SharedStore {
        try readOnly(path, console) { try SharedStore.openReadOnly(at: path, holding: keys) }
    }

    private static func readOnly(
        _ path: String, _ console: Console, _ open: () throws -> SharedStore?
    ) throws -> SharedStore {
        let opened: SharedStore?
        do {
            opened = try open()
        } catch let error as DatabaseError where [.SQLITE_READONLY, .SQLITE_CANTOPEN].contains(error.resultCode) {
            throw needsLog(path)
        }
        guard let store = opened else { throw noSuchStore(path) }
        for notice in store.notices { console.note(notice) }
        return store
    }

    /// Opens a store that exists for writing; never creates one.
    ///
    /// - Parameter isCancelled: Asked while other processes are waited for; nil where a signal ends the command anyway.
    /// - Throws: What `SharedStore.open` throws; `CancellationError`.
    static func writable(
        _ path: String, _ key: UnlockedKey, _ console: Console, isCancelled: (@Sendable () -> Bool)? = nil
    ) throws -> SharedStore {
        guard let bytes = try Files.byteCount(path), bytes > 0 else { throw noSuchStore(path) }
        var configuration = Configuration()
        configuration.isOpeningCancelled = isCancelled
        let store = try key.explainingRefusal {
            try SharedStore.open(at: path, unlockedBy: key.source, configuration: configuration)
        }
        for notice in store.notices { console.note(notice) }
        return store
    }

    /// Tells the key log of a store that was made elsewhere and then got its place.
    static func logCreation(_ path: String, _ scheme: KeyScheme, _ console: Console) {
        let log = KeyLog(databasePath: StorePaths(path).database)
        if let notice = log.note(.storeCreated(scheme: scheme.rawValue)) { console.note(notice) }
    }

    private static func needsLog(_ path: String) -> CommandFailure {
        CommandFailure(
            .notPermitted, "needsWriting", what: "\"\(path)\" cannot be read without writing beside it.",
            why: "Its -wal and -shm are missing or need recovery, and this user may not make or change them.",
            hint: "Open the store once for writing (cipherctl sql --write) as a user who may; they stay from then on.")
    }

    static func noSuchStore(_ path: String) -> StoreError {
        if let reason = (try? MissingDatabase.reason(StorePaths(path))) ?? nil { return reason }
        let why =
            switch try? Files.kind(path) {
            case .regular: "Its creation has begun but was not completed."
            case .directory: "The path names a directory."
            case .other: "The path names a device or a pipe."
            case nil: "The file does not exist."
            }
        return StoreError(
            .noSuchStore, what: "There is no store at \"\(path)\".", why: why,
            remedy: "Check the path, or make the store with `cipherctl create`.")
    }
}
