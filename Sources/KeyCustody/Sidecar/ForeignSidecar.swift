import StorePlatform

extension StoreError {
    /// How the own sidecar of a store comes back.
    ///
    /// - Parameter databasePath: The database.
    package static func sidecarRemedy(_ databasePath: String) -> String {
        let files = SidecarFiles(databasePath: databasePath)
        let (main, backup) = (files.path(of: .main), files.path(of: .backup))
        return "Bring back this store's own sidecar: move \"\(main)\" and \"\(backup)\" away, and copy "
            + "\"store.db-sidecar\" of its newest backup to \"\(main)\". Without a backup, look for the two files where they were moved to."
    }

    /// The key opens the sidecar, and no page.
    package static func foreignSidecar(_ databasePath: String) -> StoreError {
        StoreError(
            .foreignSidecar, what: "The sidecar of \"\(databasePath)\" belongs to another store.",
            why: "The key opens the sidecar, but none of the file's first pages: the sidecar does not belong to the "
                + "file.",
            remedy: sidecarRemedy(databasePath)
                + " If the sidecar is the right one, restore the store from a backup: `cipherctl restore DIR "
                + "\(ShellWord.path(databasePath)) --replace`.")
    }

    /// The key opens no copy of a sidecar whose store is not the one of the key log.
    static func foreignSidecar(_ databasePath: String, logged: String, found: String) -> StoreError {
        StoreError(
            .foreignSidecar, what: "The sidecar of \"\(databasePath)\" belongs to another store.",
            why: "It is that of store \(found), and the key log beside it is that of store \(logged). The key was not "
                + "judged.",
            remedy: sidecarRemedy(databasePath)
                + " If the whole store was put here from elsewhere, only its key log is missing: move "
                + "\"\(KeyLog(databasePath: databasePath).path)\" away, and give the key of store \(found).")
    }
}
