import KeyCustody
import StorePlatform
import StoreSharing

/// The state of the files beside a path at which no database exists.
package enum MissingDatabase {
    /// Why a database must not be created there; nil when it may be created.
    ///
    /// After an interrupted destruction an empty file is treated as missing: another program may have created it since.
    /// A file that is not empty was put complete in place of the destroyed store, and is a database like any other.
    package static func reason(_ paths: StorePaths) throws(SystemError) -> StoreError? {
        if let error = try interruptedDestruction(paths) { return error }
        guard try Files.kind(paths.database) == nil else { return nil }
        return isAnnouncedComplete(paths) ? gone(paths) : nil
    }

    /// The error for a database that has lost its content; nil when it has a byte, or was never completed.
    package static func emptied(_ paths: StorePaths) throws(SystemError) -> StoreError? {
        guard try Files.byteCount(paths.database) == 0, isAnnouncedComplete(paths) else { return nil }
        return FileDiagnosis.emptyFile(paths.database)
    }

    /// Whether a sidecar says that the store was completed.
    private static func isAnnouncedComplete(_ paths: StorePaths) -> Bool {
        SidecarFiles(databasePath: paths.database).read().claimed.contains { $0.state != .creating }
    }

    /// The error for a store whose destruction was started and not completed; nil when none was.
    package static func interruptedDestruction(_ paths: StorePaths) throws(SystemError) -> StoreError? {
        guard let left = try Files.ownStatus(of: paths.destroying), try !isTaken(paths) else { return nil }
        // Another user can give that name to any file.
        let folder = try Files.status(of: Files.directory(of: paths.database))
        if ![0, ProcessInspector.effectiveUser, folder?.owner].contains(left.owner) {
            return StoreError.noLongerStore(
                at: paths.database,
                why: "\"\(paths.destroying)\" is there, which a destruction that was interrupted leaves. User "
                    + "\(left.owner), who owns neither the folder nor this process, made it.",
                remedy: "If no store of this name was destroyed, have that user or the owner of the folder remove the "
                    + "file, or choose another name. Otherwise complete the destruction with `cipherctl destroy`.")
        }
        return StoreError.noLongerStore(
            at: paths.database,
            why: "\"\(paths.destroying)\" is left, to which a destruction first renames the database: "
                + "the destruction was interrupted before all files were removed.",
            remedy: "Complete it with `cipherctl destroy` (SharedStore.destroy(at:) in a program). Then a store can be "
                + "created there. If nobody destroyed this store, somebody has renamed its database: rename that "
                + "file back.")
    }

    /// Refuses a path at which the database of an interrupted destruction exists, even if another database has been put
    /// there. For callers that are about to put a database there, or to remove the one that exists.
    ///
    /// - Throws: ``StoreError`` `noSuchStore` when only that database exists, `alreadyExists` when there are two.
    package static func requireNoDestruction(_ paths: StorePaths) throws {
        if let interrupted = try interruptedDestruction(paths) { throw interrupted }
        guard try Files.entryExists(paths.destroying) else { return }
        throw StoreError(
            .alreadyExists, what: "There are two databases at the place of the store \"\(paths.database)\".",
            why: "A destruction that was interrupted left \"\(paths.destroying)\", and \"\(paths.database)\" was put "
                + "there afterwards.",
            remedy: "Move \"\(paths.destroying)\" away, that file alone, or remove it; then do this again. Nothing was "
                + "changed.")
    }

    /// Whether the path has an entry that is not an empty file.
    private static func isTaken(_ paths: StorePaths) throws(SystemError) -> Bool {
        guard let status = try Files.status(of: paths.database) else { return false }
        return status.kind != .regular || status.byteCount > 0
    }

    /// A file beside the missing database that may be the database under another name: the copies of a rotation and of a
    /// restoration are there only while these run, or after they were interrupted.
    private static func renamed(_ paths: StorePaths) -> String? {
        [paths.database + "-restoring", paths.rotationCopy].first { path in
            let status = (try? Files.ownStatus(of: path)) ?? nil
            return status?.kind == .regular && status?.byteCount ?? 0 > 0
        }
    }

    /// The WAL can be all that is left of the rows, so no remedy removes it.
    private static func gone(_ paths: StorePaths) -> StoreError {
        let place = ShellWord.path(paths.database)
        let back = renamed(paths).map { " (\"\($0)\" may be it)" } ?? ""
        let restoring = "restore the store from a backup: `cipherctl restore DIR \(place) --replace`"
        let removed = "Its sidecar says that the store was created and is ready, so the file was removed or moved away."
        let what = "The database file \"\(paths.database)\" is gone."
        guard let (there, counted) = (try? FileDiagnosis.pagesOfDatabaseInWAL(paths.database)) ?? nil else {
            return StoreError(
                .databaseMissing, what: what, why: removed + " Its WAL has no commit.",
                remedy: "Put the file back\(back), or \(restoring).")
        }
        let isWhole = there == counted
        let has =
            isWhole
            ? "all \(CountText.text(counted, "page")) of the database"
            : "\(there) of the \(counted) pages of the database"
        let salvaging = "copy their rows into another store: `cipherctl salvage \(place) NEW`"
        return StoreError(
            .databaseMissing, what: what, why: "\(removed) Its WAL \"\(paths.wal)\" has \(has).",
            remedy: "Keep the WAL. Put the database file back\(back); or "
                + (isWhole ? "\(salvaging); or \(restoring)." : "\(restoring); or \(salvaging)."))
    }
}
