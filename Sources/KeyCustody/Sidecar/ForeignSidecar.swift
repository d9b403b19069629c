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
    ///
    /// Nothing in a page names its store or its epoch. The epoch in the sidecar, which the key authenticates, shows that
    /// the store was rotated; the key log, which no key authenticates, shows later rotations.
    ///
    /// - Parameter sidecar: The sidecar that the key opens, if it is known.
    package static func foreignSidecar(_ databasePath: String, _ sidecar: Sidecar?) -> StoreError {
        if let sidecar, let otherState = otherState(databasePath, sidecar) { return otherState }
        return foreignSidecar(databasePath)
    }

    /// The error for a database and a sidecar of one store before and after a rotation; nil where nothing shows that.
    private static func otherState(_ databasePath: String, _ sidecar: Sidecar) -> StoreError? {
        let log = try? KeyLog(databasePath: databasePath).verify()
        let logged = log?.storeID
        if let logged, logged != "\(sidecar.storeID)" { return nil }
        let place = ShellWord.path(databasePath)
        let fromOneBackup =
            "Database and sidecar must be of one state. Restore both from one backup: `cipherctl restore DIR \(place) "
            + "--replace`"
        if logged != nil, let last = log?.lastEpoch, last > sidecar.epoch {
            let files = SidecarFiles(databasePath: databasePath)
            let (main, backup) = (files.path(of: .main), files.path(of: .backup))
            return StoreError(
                .foreignSidecar,
                what:
                    "The sidecar of \"\(databasePath)\" is older than the database: it is from before the rotation to "
                    + "epoch \(sidecar.epoch + 1).",
                why:
                    "The sidecar is of epoch \(sidecar.epoch), and the key log of this store records epoch \(last). The "
                    + "key of the sidecar opens none of the file's first pages.",
                remedy: "\(fromOneBackup). Or bring back the sidecar of epoch \(last): move \"\(main)\" and "
                    + "\"\(backup)\" away, and copy \"store.db-sidecar\" of a backup of that epoch to \"\(main)\".")
        }
        guard sidecar.epoch > 1 else { return nil }
        return StoreError(
            .foreignSidecar,
            what: "\"\(databasePath)\" is older than its sidecar: it is from before the rotation to epoch "
                + "\(sidecar.epoch), or of another store.",
            why: "The sidecar is of epoch \(sidecar.epoch), and its key opens none of the file's first pages. Each "
                + "rotation gives all pages another key.",
            remedy: "\(fromOneBackup). Or put back the database file of epoch \(sidecar.epoch).")
    }

    private static func foreignSidecar(_ databasePath: String) -> StoreError {
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
