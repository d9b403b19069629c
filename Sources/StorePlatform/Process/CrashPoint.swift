import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif
import Synchronization

/// A named point at which tests make a process die as if it had been killed or the power had failed.
///
/// Release builds do not contain it. In debug builds a process dies by SIGKILL at the point that the environment
/// variable `CIPHERSTORE_CRASH_AT` names, or that ``choose(_:passing:)`` names later: `fileRenamed`, or `fileRenamed:2`
/// for the second time that it is reached. Instead of dying the process may run a function there, once.
package enum CrashPoint: String, CaseIterable, Sendable {
    /// The opening lock is held, nothing is written yet.
    case openingLockTaken
    /// The first sidecar is in its temporary file, and not yet in place.
    case temporaryFileWritten
    /// A file was renamed into place; its folder is not yet synced.
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
    /// All migrations have run; the lease is not yet acquired.
    case storeMigrated

    /// A migration has done its work and is about to be committed.
    case migrationReady
    /// A migration is committed; later ones have not run.
    case migrationCommitted

    /// A commit is requested; nothing of it is in the WAL, or only what did not fit the cache.
    case commitBegun
    /// A commit is in the WAL; the processes that watch commits are not woken yet.
    case commitUnnoticed
    /// A commit is done; the program has not received the result.
    case commitDone

    /// The WAL is synced for a checkpoint that holds no lock yet.
    case checkpointWALSynced
    /// The write lock is held for a checkpoint that has not copied anything yet.
    case checkpointLocked
    /// The checkpoint has ended; the write lock is still held.
    case checkpointEnded

    /// The readers are closed, the writer is not.
    case closingReadersClosed
    /// All connections are closed, the last of them with its own checkpoint; the lease is still held.
    case closingConnectionsClosed

    /// The file to be adopted is closed, the pages of its WAL copied into it, SQLite's lock bytes held.
    case adoptionLocked
    /// The store that replaces it is complete and durable beside it.
    case adoptionPrepared
    /// The sidecar of the new store is durable.
    case adoptionAnnounced
    /// The store has replaced the file.
    case adoptionRenamed
    /// The sidecar says that the store is ready.
    case adoptionEnded

    /// The locks of a change of keys are held, and the sidecar was read under them.
    case keyChangeLocked
    /// The new version of the sidecar is made and verified; nothing is written.
    case keyChangeProved
    /// Both copies are the new version, and no file beside the store contains what was removed.
    case keyChangeEnded

    /// The folder in which a backup is made exists, and is empty.
    case backupBegun
    /// The pages of a backup, or of a restoration, are written and not yet durable.
    case backupPagesCopied
    /// The pages of a backup are durable, and were read back and opened; it has no manifest yet.
    case backupVerified
    /// A backup is complete and still has its temporary name.
    case backupComplete
    /// A backup has its name.
    case backupPublished

    /// The database to be restored is complete and durable beside the store's path; nothing else was changed.
    case restorePrepared
    /// The former files of the store have second names in the folder where they are kept.
    case restoreFormerKept
    /// The former sidecar and WAL have lost their names.
    case restoreFormerRemoved
    /// The sidecar of the restored store is durable; its database is not in place yet.
    case restoreAnnounced
    /// The restored database has its name.
    case restoreRenamed

    /// The locks of a destruction are held; nothing is removed.
    case destroyLocked
    /// The database was renamed: there is no store now.
    case destroyRenamed
    /// The WAL of a store that is destroyed is removed; its index is not.
    case destroyLogRemoved
    /// The main copy of its sidecar is removed, the backup is not.
    case destroySidecarRemoved
    /// All files but the renamed database, the lock file and the key log are removed, durably.
    case destroyCompanionsRemoved
    /// The database is removed as well.
    case destroyDatabaseRemoved
    /// The key log has a name that no other code uses.
    case destroyKeyLogSetAside
    /// The lock file is removed; the key log alone is left.
    case destroyLockRemoved

    /// An interrupted rotation is recovered: its lock is held, nothing is done.
    case recoveryBegun
    /// The copy of a rotation that is undone is removed; the sidecar still records the rotation.
    case recoveryCopyRemoved
    /// An empty WAL has replaced the former one, durably; the copy has not replaced the database.
    case recoveryWALReplaced
    /// The copy has the database's name; the folder is not yet synced.
    case recoveryRenamed
    /// The copy has replaced the database durably.
    case recoveryDurable
    /// The first page of the former database, where it was still there, is overwritten; the sidecar still says that the
    /// switch is under way.
    case recoveryInvalidated

    /// The pending key of a rotation is durable; nothing is copied.
    case rotationBegun
    /// The copy's file exists and has no page.
    case rotationCopyBegun
    /// Some pages are copied.
    case rotationCopyHalf
    /// All pages are copied.
    case rotationCopied
    /// The copy was read back.
    case rotationVerified
    /// The writes of the meantime are copied, up to this moment.
    case rotationDeltaRound
    /// The processes are asked to yield.
    case rotationYieldAsked
    /// All of them have yielded.
    case rotationLeaseTaken
    /// The rest is copied, and not yet durable.
    case rotationLastDelta
    /// The copy is complete and durable; the rotation's own connections are closed.
    case rotationCopySynced
    /// SQLite's bytes are locked, and the WAL ends where the copy does.
    case rotationBytesLocked
    /// The sidecar says that the switch has begun.
    case rotationSwitchingWritten
    /// An empty WAL has replaced the former one, durably.
    case rotationWALReplaced
    /// The copy has the database's name; the folder is not yet synced.
    case rotationRenamed
    /// The folder is synced; the sidecar still says that the switch is under way.
    case rotationDirectorySynced
    /// The sidecar says that the store is ready, with its new key; all are still waiting.
    case rotationCompleted
    /// All processes continue with the new key.
    case rotationReleased

    /// The points that the creation of a store passes before any other.
    package static let ofCreation: [CrashPoint] = [
        .openingLockTaken, .temporaryFileWritten, .fileRenamed, .sidecarMainWritten, .sidecarWritten, .databaseKeyed,
        .journalModeSet, .firstPageWritten, .storeCreated, .storeMigrated,
    ]
    /// The points of each migration.
    package static let ofMigration: [CrashPoint] = [.migrationReady, .migrationCommitted]
    /// The points of each commit, checkpoint and close.
    package static let ofUse: [CrashPoint] = [
        .commitBegun, .commitUnnoticed, .commitDone, .checkpointWALSynced, .checkpointLocked, .checkpointEnded,
        .closingReadersClosed, .closingConnectionsClosed,
    ]
    /// The points that a backup passes.
    package static let ofBackup = allCases.filter { $0.rawValue.hasPrefix("backup") }
    /// The points that only a restoration passes.
    package static let ofRestoration = allCases.filter { $0.rawValue.hasPrefix("restore") }
    /// The points that a destruction passes.
    package static let ofDestruction = allCases.filter { $0.rawValue.hasPrefix("destroy") }

    /// The points that only the recovery of a rotation passes.
    package static let ofRecovery = allCases.filter { $0.rawValue.hasPrefix("recovery") }
    /// The points that only a rotation passes.
    package static let ofRotation = allCases.filter { $0.rawValue.hasPrefix("rotation") }
    /// The points that only an adoption passes.
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

        /// Makes the process die at a point from now on.
        ///
        /// - Parameters:
        ///   - point: The point; nil for none.
        ///   - passes: How often it is passed without effect before.
        package static func choose(_ point: CrashPoint?, passing passes: Int = 0) {
            chosen.withLock { $0 = point.map { Choice(point: $0, passes: passes) } }
        }

        /// Makes the process run a function at a point instead, on the thread that reaches it, and continue; once.
        package static func choose(_ point: CrashPoint, doing action: @escaping @Sendable () -> Void) {
            chosen.withLock { $0 = Choice(point: point, action: action) }
        }
    #endif

    /// Ends the process here, or runs the chosen function, if this is the chosen point.
    @inline(__always)
    package static func reach(_ point: CrashPoint) {
        #if DEBUG
            let action = chosen.withLock { choice -> (@Sendable () -> Void)? in
                guard let found = choice, found.point == point else { return nil }
                choice = found.passes > 0 ? Choice(point: point, passes: found.passes - 1, action: found.action) : nil
                return choice == nil ? found.action : nil
            }
            // Without the lock: other threads may reach other points meanwhile.
            action?()
        #endif
    }
}
