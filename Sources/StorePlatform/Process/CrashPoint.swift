#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A named place at which tests let a process die as if it had been killed or the power had gone.
///
/// Release builds have none of it. In debug builds a process dies by SIGKILL at the place that the environment variable
/// `CIPHERSTORE_CRASH_AT` names.
package enum CrashPoint: String, CaseIterable, Sendable {
    /// The opening lock is held, nothing is written yet.
    case openingLockTaken
    /// The first sidecar stands in its temporary file, not yet in its place.
    case temporaryFileWritten
    /// A file took its place; its folder is not yet durable.
    case fileRenamed
    /// The main copy of the sidecar is durable, the backup is not.
    case sidecarMainWritten
    /// Both copies of the sidecar are durable.
    case sidecarWritten
    /// The database is keyed; its file has no bytes yet.
    case databaseKeyed
    /// The database file is in WAL mode.
    case journalModeSet
    /// Page 1 is on disk; the sidecar still says that the store is being created.
    case firstPageWritten
    /// The sidecar says that the store is ready; no migration has run.
    case storeCreated
    /// All migrations have run; the lease is not yet taken.
    case storeMigrated

    /// The file to be adopted is closed, its log folded in, SQLite's lock bytes held.
    case adoptionLocked
    /// The store that takes its place is complete and durable beside it.
    case adoptionPrepared
    /// The sidecar of the store to come is durable.
    case adoptionAnnounced
    /// The store has taken the file's place.
    case adoptionRenamed
    /// The sidecar says that the store is ready.
    case adoptionEnded

    /// The places that the creation of a store passes.
    package static let ofCreation = allCases.filter { !$0.rawValue.hasPrefix("adoption") }
    /// The places of their own that an adoption passes.
    package static let ofAdoption = allCases.filter { $0.rawValue.hasPrefix("adoption") }

    #if DEBUG
        private static let chosen = getenv("CIPHERSTORE_CRASH_AT").flatMap { CrashPoint(rawValue: String(cString: $0)) }
    #endif

    /// Ends the process here if this is the chosen place.
    @inline(__always)
    package static func reach(_ point: CrashPoint) {
        #if DEBUG
            if point == chosen { kill(getpid(), SIGKILL) }
        #endif
    }
}
