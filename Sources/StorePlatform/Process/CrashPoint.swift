#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif
import Synchronization

/// A named place at which tests let a process die as if it had been killed or the power had gone.
///
/// Release builds have none of it. In debug builds a process dies by SIGKILL at the place that the environment variable
/// `CIPHERSTORE_CRASH_AT` names: `fileRenamed`, or `fileRenamed:2` for the second time that it comes there.
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

    /// The locks of a change of keys are held, and the sidecar was read under them.
    case keyChangeLocked
    /// The new version of the sidecar is made and proved; nothing is written.
    case keyChangeProved
    /// Both copies are the new version, and nothing beside the store keeps what was removed.
    case keyChangeEnded

    /// The places that the creation of a store passes.
    package static let ofCreation = allCases.filter { !ofAdoption.contains($0) && !ofKeyChange.contains($0) }
    /// The places of its own that a change of keys passes.
    package static let ofKeyChange = allCases.filter { $0.rawValue.hasPrefix("keyChange") }
    /// The places of their own that an adoption passes.
    package static let ofAdoption = allCases.filter { $0.rawValue.hasPrefix("adoption") }

    #if DEBUG
        private static let chosen: (point: CrashPoint, time: Int)? = {
            guard let variable = getenv("CIPHERSTORE_CRASH_AT") else { return nil }
            let parts = String(cString: variable).split(separator: ":")
            guard let point = parts.first.flatMap({ CrashPoint(rawValue: String($0)) }) else { return nil }
            return (point, parts.count > 1 ? Int(parts[1]) ?? 1 : 1)
        }()
        private static let passed = Atomic(0)
    #endif

    /// Ends the process here if this is the chosen place.
    @inline(__always)
    package static func reach(_ point: CrashPoint) {
        #if DEBUG
            guard let chosen, chosen.point == point else { return }
            if passed.add(1, ordering: .relaxed).newValue == chosen.time { kill(getpid(), SIGKILL) }
        #endif
    }
}
