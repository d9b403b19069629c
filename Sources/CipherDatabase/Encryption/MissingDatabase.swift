import KeyCustody
import StorePlatform
import StoreSharing

/// What the files beside the name of a database say when no database has that name.
package enum MissingDatabase {
    /// Why a database must not be created there; nil where nothing speaks against it.
    ///
    /// An empty file counts as none where a destruction was interrupted: another program may have made it since. One that
    /// is not empty came whole to the place of the destroyed store, and is a database like any other.
    package static func reason(_ paths: StorePaths) throws(SystemError) -> StoreError? {
        if let error = try interruptedDestruction(paths) { return error }
        guard try Files.kind(paths.database) == nil else { return nil }
        return isAnnouncedComplete(paths) ? gone(paths) : nil
    }

    /// What to say of a database that has lost its content; nil where it has a byte, or was never completed.
    package static func emptied(_ paths: StorePaths) throws(SystemError) -> StoreError? {
        guard try Files.byteCount(paths.database) == 0, isAnnouncedComplete(paths) else { return nil }
        return FileDiagnosis.emptyFile(paths.database)
    }

    /// Whether a sidecar says that the store was completed.
    private static func isAnnouncedComplete(_ paths: StorePaths) -> Bool {
        SidecarFiles(databasePath: paths.database).read().claimed.contains { $0.state != .creating }
    }

    /// What to say of a store whose destruction has begun and was not completed; nil where none has.
    package static func interruptedDestruction(_ paths: StorePaths) throws(SystemError) -> StoreError? {
        guard try Files.entryExists(paths.destroying), try !isTaken(paths) else { return nil }
        return StoreError(
            .noSuchStore, what: "There is no store at \"\(paths.database)\" any more.",
            why: "It was destroyed, and the destruction was interrupted before all of its files were removed.",
            remedy: "Complete it with `cipherctl destroy` (SharedStore.destroy(at:) in a program). Then a store can be "
                + "created there.")
    }

    /// Refuses a place at which the database of an interrupted destruction lies, whatever else does: for who is about to
    /// put a database there, or to remove the one that is there.
    ///
    /// - Throws: ``StoreError`` `noSuchStore` where there is no database but that one, `alreadyExists` where there are two.
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

    /// Whether there is something of that name that is no empty file.
    private static func isTaken(_ paths: StorePaths) throws(SystemError) -> Bool {
        guard let status = try Files.status(of: paths.database) else { return false }
        return status.kind != .regular || status.byteCount > 0
    }

    private static func gone(_ paths: StorePaths) -> StoreError {
        StoreError(
            .databaseMissing, what: "The database file \"\(paths.database)\" is gone.",
            why: "Its sidecar says that the store was created and is ready, so the file was removed or moved away.",
            remedy:
                "Put the file back, or restore the store from a backup. To give the store up, remove what is left of "
                + "it with `cipherctl destroy`.")
    }
}
