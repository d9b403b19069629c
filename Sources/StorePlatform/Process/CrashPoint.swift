import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif
import Synchronization

/// A named place at which tests let a process die as if it had been killed or the power had gone.
///
/// Release builds have none of it. In debug builds a process dies by SIGKILL at the place that the environment variable
/// `CIPHERSTORE_CRASH_AT` names, or that ``choose(_:passing:)`` names later: `fileRenamed`, or `fileRenamed:2` for
/// the second time that it comes there. Instead of dying it may do something there, once.
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

    /// A migration has done its work and is about to be committed.
    case migrationReady
    /// A migration is committed; later ones have not run.
    case migrationCommitted

    /// A commit is asked for; nothing of it is in the log, or only what did not fit the cache.
    case commitBegun
    /// A commit is done; the program has not been told.
    case commitDone

    /// The log is brought to the medium for a checkpoint that holds no lock yet.
    case checkpointLogSynced
    /// The write lock is held for a checkpoint that has copied nothing yet.
    case checkpointLocked
    /// The checkpoint has ended; the write lock is still held.
    case checkpointEnded

    /// The readers are closed, the writer is not.
    case closingReadersClosed
    /// All connections are closed, the last of them with its own checkpoint; the lease is still held.
    case closingConnectionsClosed

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

    /// The folder in which a backup is made is there, with nothing in it.
    case backupBegun
    /// The pages of a backup, or of a restoration, are written and not yet durable.
    case backupPagesCopied
    /// The pages of a backup are durable, and were read back and opened; it has no manifest yet.
    case backupVerified
    /// A backup is complete and has another name still.
    case backupComplete
    /// A backup has its name.
    case backupPublished

    /// The database to be restored is complete and durable beside its place; nothing else was changed.
    case restorePrepared
    /// The former files of the store have second names in the folder where they are kept.
    case restoreFormerKept
    /// The former sidecar and log have lost their names at the store's place.
    case restoreFormerRemoved
    /// The sidecar of the restored store is durable; its database is not in its place yet.
    case restoreAnnounced
    /// The restored database has its name.
    case restoreRenamed

    /// The locks of a destruction are held; nothing is removed.
    case destroyLocked
    /// The database has given its name away: there is no store any more.
    case destroyRenamed
    /// The write-ahead log of a store that is destroyed is removed; its index is not.
    case destroyLogRemoved
    /// The main copy of its sidecar is removed, the backup is not.
    case destroySidecarRemoved
    /// All but the renamed database, the lock file and the key log is removed, durably.
    case destroyCompanionsRemoved
    /// So is the database.
    case destroyDatabaseRemoved
    /// The key log has a name that nobody else uses.
    case destroyKeyLogSetAside
    /// The lock file is removed; the key log alone is left.
    case destroyLockRemoved

    /// A rotation that was cut is taken over: its lock is held, nothing is done.
    case recoveryBegun
    /// The copy of a rotation that is undone is removed; the sidecar still tells of it.
    case recoveryCopyRemoved
    /// The log of the former key is empty, durably; the copy has not taken the database's place.
    case recoveryLogEmptied
    /// The copy has the database's name; the folder is not yet durable.
    case recoveryRenamed
    /// The copy has taken the database's place durably.
    case recoveryMoved
    /// The same was made sure; the sidecar still says that the switch is under way.
    case recoveryDurable

    /// The pending key of a rotation is durable; nothing is copied.
    case rotationBegun
    /// The copy's file is made and has no page.
    case rotationCopyBegun
    /// Some pages are copied.
    case rotationCopyHalf
    /// All pages are copied.
    case rotationCopied
    /// The copy was read back.
    case rotationVerified
    /// What was written meanwhile is carried over, for now.
    case rotationDeltaRound
    /// The processes are asked to pause.
    case rotationYieldAsked
    /// All of them have.
    case rotationLeaseTaken
    /// The rest is carried over, and not yet durable.
    case rotationLastDelta
    /// The copy is complete and durable; the rotation's own connections are closed.
    case rotationCopySynced
    /// SQLite's bytes are locked, and the log ends where the copy does.
    case rotationBytesLocked
    /// The sidecar says that the switch has begun.
    case rotationSwitchingWritten
    /// The log is empty, durably.
    case rotationLogEmptied
    /// The copy has the database's name; the folder is not yet durable.
    case rotationRenamed
    /// The folder is durable; the sidecar still says that the switch is under way.
    case rotationDirectorySynced
    /// The sidecar says that the store is ready, with its new key; all are still waiting.
    case rotationCompleted
    /// All go on with the new key.
    case rotationReleased

    /// The places that the creation of a store passes first of all.
    package static let ofCreation: [CrashPoint] = [
        .openingLockTaken, .temporaryFileWritten, .fileRenamed, .sidecarMainWritten, .sidecarWritten, .databaseKeyed,
        .journalModeSet, .firstPageWritten, .storeCreated, .storeMigrated,
    ]
    /// The places of each migration.
    package static let ofMigration: [CrashPoint] = [.migrationReady, .migrationCommitted]
    /// The places of each commit, checkpoint and closing.
    package static let ofUse: [CrashPoint] = [
        .commitBegun, .commitDone, .checkpointLogSynced, .checkpointLocked, .checkpointEnded,
        .closingReadersClosed, .closingConnectionsClosed,
    ]
    /// The places of its own that a change of keys passes.
    package static let ofKeyChange = allCases.filter { $0.rawValue.hasPrefix("keyChange") }
    /// The places that a backup passes.
    package static let ofBackup = allCases.filter { $0.rawValue.hasPrefix("backup") }
    /// The places of its own that a restoration passes.
    package static let ofRestoration = allCases.filter { $0.rawValue.hasPrefix("restore") }
    /// The places that a destruction passes.
    package static let ofDestruction = allCases.filter { $0.rawValue.hasPrefix("destroy") }

    /// The places of its own that the recovery of a rotation passes.
    package static let ofRecovery = allCases.filter { $0.rawValue.hasPrefix("recovery") }
    /// The places of its own that a rotation passes.
    package static let ofRotation = allCases.filter { $0.rawValue.hasPrefix("rotation") }
    /// The places of their own that an adoption passes.
    package static let ofAdoption = allCases.filter { $0.rawValue.hasPrefix("adoption") }

    #if DEBUG
        private struct Choice {
            let point: CrashPoint
            var passes = 0
            var action: @Sendable () -> Void = die
        }

        private static let die: @Sendable () -> Void = { kill(getpid(), SIGKILL) }

        private static let named: Choice? = {
            guard let variable = getenv("CIPHERSTORE_CRASH_AT") else { return nil }
            let parts = String(cString: variable).split(separator: ":")
            guard let point = parts.first.flatMap({ CrashPoint(rawValue: String($0)) }) else { return nil }
            return Choice(point: point, passes: parts.count > 1 ? (Int(parts[1]) ?? 1) - 1 : 0)
        }()
        private static let chosen = Mutex(named)

        /// Lets the process die at a place from now on.
        ///
        /// - Parameters:
        ///   - point: The place; nil for none.
        ///   - passes: How often it is passed unharmed before.
        package static func choose(_ point: CrashPoint?, passing passes: Int = 0) {
            chosen.withLock { $0 = point.map { Choice(point: $0, passes: passes) } }
        }

        /// Lets the process do something at a place instead, on the thread that comes there, and go on; once.
        package static func choose(_ point: CrashPoint, doing action: @escaping @Sendable () -> Void) {
            chosen.withLock { $0 = Choice(point: point, action: action) }
        }
    #endif

    /// Ends the process here, or does what was asked for, if this is the chosen place.
    @inline(__always)
    package static func reach(_ point: CrashPoint) {
        #if DEBUG
            let action = chosen.withLock { choice -> (@Sendable () -> Void)? in
                guard let found = choice, found.point == point else { return nil }
                choice = found.passes > 0 ? Choice(point: point, passes: found.passes - 1, action: found.action) : nil
                return choice == nil ? found.action : nil
            }
            // Without the lock: other threads come to other places meanwhile.
            action?()
        #endif
    }
}
