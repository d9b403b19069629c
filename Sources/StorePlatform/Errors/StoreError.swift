/// An error of a store as a whole: its files, its key, its schema or its sharing.
///
/// Every value says what happened, why, and what to do. It contains no key, salt or row value. Errors compare by
/// their ``code``, so both forms below work:
///
/// ```swift
/// catch StoreError.wrongKey { ... }
/// catch let error as StoreError where error.code == .wrongKey { ... }
/// ```
///
/// Errors of single SQL statements are `DatabaseError` instead.
public struct StoreError: Error, Sendable {
    /// The kind of the error; the list is closed, so a `switch` over it can be complete.
    public enum Code: Hashable, Sendable {
        /// The SQLite library of this process is not SQLCipher 4 with a codec.
        case unsupportedLibrary
        /// The store is on a filesystem whose locks are not reliable for WAL.
        case unsupportedFilesystem
        /// A key, salt or key source of the wrong form, or one that may not be used.
        case invalidKey
        /// The key is valid, but not the one of this store.
        case wrongKey
        /// No key was set for a database file.
        case keyMissing
        /// The salt of a file with a plaintext header is in neither copy of its sidecar.
        case saltMissing
        /// Both copies of the sidecar are unreadable.
        case sidecarDamaged
        /// The sidecar is readable, but was not written by a holder of the key.
        case sidecarForged
        /// The sidecar is older than the version that the store itself records: former copies were put back.
        case sidecarRolledBack
        /// The sidecar was written by a newer version of this library, in a format that this one does not know.
        case sidecarAhead
        /// The sidecar belongs to another store.
        case foreignSidecar
        /// The requested cipher settings contradict those of the file.
        case settingsConflict
        /// The requested rotation does not fit the store, or the pending rotation.
        case modeConflict
        /// The file is not an encrypted store: plain SQLite, another SQLCipher format, or no database at all.
        case notEncrypted
        /// The plaintext header (bytes 0 to 31) holds values that SQLCipher never writes.
        case headerDamaged
        /// A page fails its authentication; pages count from 1.
        case pageDamaged(UInt32)
        /// Pages that the header or the WAL requires are missing from the end of the file.
        case truncated
        /// The file has no bytes although its sidecar says that it had.
        case emptyFile
        /// The file does not exist although its sidecar says that there was a store.
        case databaseMissing
        /// The WAL or its index is missing, and a read-only process may not create it.
        case walMissing
        /// The WAL does not match its index, or is that of another database.
        case walDamaged
        /// A rollback journal beside the database is not played back: another user can have made it, or it names a further file.
        case journalUntrusted
        /// There is no store at this path.
        case noSuchStore
        /// A file or folder exists that would have to be overwritten.
        case alreadyExists
        /// The name belongs to the files of another store, or the files of the new store would have the name of another.
        case storeName
        /// The path has more bytes than SQLite allows.
        case pathTooLong
        /// A backup is not complete, or was changed after it was made.
        case backupDamaged
        /// The database of a backup: it is read in place, and never written.
        case backupReadOnly
        /// The data key changed; numbers are epochs.
        case keyRotated(from: UInt64, to: UInt64)
        /// A rotation was interrupted and must be completed or undone first.
        case rotationPending
        /// Other processes hold the store.
        case storeInUse
        /// The path no longer names the file that is open.
        case storeMoved
        /// The file has a second name (a hard link), under which a second WAL could be written for it.
        case hardLinked
        /// The store was closed.
        case storeClosed
        /// The schema was migrated by a newer program.
        case schemaAhead
        /// A migrator would erase a store that other processes may have open (`eraseDatabaseOnSchemaChange`).
        case erasureRefused
        /// No keyslot has this name.
        case slotNotFound
        /// The owner of the files could not open them if this user wrote them again. The owner or root can do it.
        case notOwner
        /// The last keyslot cannot be removed.
        case lastSlot
        /// The store has the maximum number of keyslots, or trying all of them would cost too much.
        case tooManySlots
    }

    /// The kind of the error.
    public let code: Code
    /// The event, as one sentence that names the file.
    public let what: String
    /// Why it happened, or what was found.
    public let why: String
    /// The remedy.
    public let remedy: String

    public init(_ code: Code, what: String, why: String, remedy: String) {
        self.code = code
        self.what = what
        self.why = why
        self.remedy = remedy
    }
}

extension StoreError: Equatable {
    public static func == (left: StoreError, right: StoreError) -> Bool { left.code == right.code }
    public static func == (left: StoreError, right: Code) -> Bool { left.code == right }
}

extension StoreError: CustomStringConvertible {
    /// The three sentences after the name of the code, as in `wrongKey: what why remedy`.
    public var description: String { "\(code.name): \(what) \(why) \(remedy)" }
}

extension StoreError {
    public static var unsupportedLibrary: Code { .unsupportedLibrary }
    public static var unsupportedFilesystem: Code { .unsupportedFilesystem }
    public static var invalidKey: Code { .invalidKey }
    public static var wrongKey: Code { .wrongKey }
    public static var keyMissing: Code { .keyMissing }
    public static var saltMissing: Code { .saltMissing }
    public static var sidecarDamaged: Code { .sidecarDamaged }
    public static var sidecarForged: Code { .sidecarForged }
    public static var sidecarRolledBack: Code { .sidecarRolledBack }
    public static var sidecarAhead: Code { .sidecarAhead }
    public static var foreignSidecar: Code { .foreignSidecar }
    public static var settingsConflict: Code { .settingsConflict }
    public static var modeConflict: Code { .modeConflict }
    public static var notEncrypted: Code { .notEncrypted }
    public static var headerDamaged: Code { .headerDamaged }
    public static func pageDamaged(_ page: UInt32) -> Code { .pageDamaged(page) }
    public static var truncated: Code { .truncated }
    public static var emptyFile: Code { .emptyFile }
    public static var databaseMissing: Code { .databaseMissing }
    public static var walMissing: Code { .walMissing }
    public static var walDamaged: Code { .walDamaged }
    public static var journalUntrusted: Code { .journalUntrusted }
    public static var alreadyExists: Code { .alreadyExists }
    public static var storeName: Code { .storeName }
    public static var pathTooLong: Code { .pathTooLong }
    public static var backupDamaged: Code { .backupDamaged }
    public static var backupReadOnly: Code { .backupReadOnly }
    public static var noSuchStore: Code { .noSuchStore }
    public static func keyRotated(from: UInt64, to: UInt64) -> Code { .keyRotated(from: from, to: to) }
    public static var rotationPending: Code { .rotationPending }
    public static var storeInUse: Code { .storeInUse }
    public static var storeMoved: Code { .storeMoved }
    public static var hardLinked: Code { .hardLinked }
    public static var storeClosed: Code { .storeClosed }
    public static var schemaAhead: Code { .schemaAhead }
    public static var erasureRefused: Code { .erasureRefused }
    public static var notOwner: Code { .notOwner }
    public static var slotNotFound: Code { .slotNotFound }
    public static var lastSlot: Code { .lastSlot }
    public static var tooManySlots: Code { .tooManySlots }
}

extension StoreError.Code {
    /// Lets `catch StoreError.wrongKey` work.
    public static func ~= (code: StoreError.Code, error: any Error) -> Bool {
        (error as? StoreError)?.code == code
    }

    /// The name of the code without its numbers, as it is printed: `wrongKey`.
    public var name: String {
        let text = String(describing: self)
        return text.firstIndex(of: "(").map { String(text[..<$0]) } ?? text
    }
}
