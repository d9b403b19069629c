import CipherDatabase
import KeyCustody
import PageFormat
import RotationCore
import StoreCrypto
import StorePlatform
import StoreSharing

/// Makes a store from a backup, at a free path or in place of an existing store, in the steps of Docs/Backup.md:
///
/// 1. Verifies the whole backup.
/// 2. Acquires the lock `admin`, copies the database beside the path (`<database>-restoring`), and reads it back.
/// 3. Acquires `opening`, the exclusive lease, and SQLite's lock bytes of the former database.
/// 4. Gives the former files second names in a folder. From here on no process opens the former store.
/// 5. Removes the names of the former sidecar and WAL.
/// 6. Writes the sidecar of the backup, both copies.
/// 7. Renames the copy to the database: the commit point.
/// 8. Opens the store once for writing.
///
/// An interruption before step 4 leaves the former store as it was. An interruption in steps 4 to 6 leaves a store that
/// cannot be opened until the restoration is run again, which continues.
struct StoreRestoration {
    let source: any RestorationSource
    let paths: StorePaths
    let isReplacing: Bool
    /// Whether a file that is not known to be a store is replaced, too.
    let isReplacingAnyFile: Bool
    let watch: BackupWatch

    func run(unlock: (Sidecar) throws -> SidecarKeys?) throws -> RestorationReport {
        let start = ContinuousClock.now
        try BackupBundle.refuse(writing: paths.database)
        try requirePossiblePlace()
        if isReplacing, !isReplacingAnyFile { try ReplacedFile(paths: paths).requireStore() }
        let opened = try source.open(watch, unlock: unlock)
        let directory = Files.directory(of: paths.database)
        try SharedStore.requireSafe(try FilesystemKind.of(directory), of: directory, Configuration())
        try MissingDatabase.requireNoDestruction(paths)
        let former = try FormerFiles(paths: paths, newSidecar: try opened.sidecar.encoded(keys: opened.keys))
        try requireFree(former)
        if isReplacing { try former.requireReplaceable() }
        let isThere = try Files.kind(paths.database) == .regular
        let mayLend = try isThere && isOwn(opened)
        let reference = mayLend ? paths.database : source.attributesPath ?? paths.restoring
        let isPlaceNew = try !Files.entryExists(paths.lock)
        let file = try LockFile(path: paths.lock, likeFile: reference)
        let deadline = ContinuousClock.now + StoreLimits.restorationWait
        // Key changes, rotations and other restorations are locked out all the time, openings only at the end.
        let admin = try file.lock(.admin, .exclusive, deadline: deadline, isCancelled: watch.isCancelled)
        defer { admin.release() }
        var isDone = false
        defer { if !isDone, isPlaceNew { removeLock(file) } }
        let copy = try copy(opened, likeFile: reference)
        let parent = try OpenFolder(opening: directory, followsLinks: false)
        defer { if !isDone { try? parent.remove(Files.name(of: paths.restoring), verifiedAs: copy) } }
        CrashPoint.reach(.restorePrepared)
        let (folder, failure) = try exchange(opened, copy, former, file)
        isDone = true
        try? LockFile.matchAttributes(of: paths.lock, to: paths.database)
        admin.release()
        return RestorationReport(
            backup: BackupReport(
                opened.facts, folder: source.name, since: start, notices: source.notices,
                foreignFiles: source.foreignFiles),
            path: paths.database, formerFiles: folder,
            notices: source.notices
                + [
                    isThere && !mayLend ? notLent : nil, failure.map(notDurable), prepareReaders(opened.keys),
                    folder.flatMap { otherStore(than: opened.sidecar.storeID, in: $0) },
                    KeyLog(databasePath: paths.database).note(
                        .restored(store: opened.sidecar.storeID)),
                ].compactMap(\.self))
    }

    /// A notice when the replaced store is not the one that was backed up; nil when it is, and when its sidecar does
    /// not say.
    private func otherStore(than id: StoreID, in folder: String) -> String? {
        let copies = SidecarFiles(databasePath: folder + "/" + Files.name(of: paths.database)).read()
        let former = copies.claimed.map(\.storeID)
        guard let other = former.first, !former.contains(id) else { return nil }
        return "\"\(paths.database)\" was another store (\(other)) than that of the backup (\(id)): its files are kept "
            + "in \"\(folder)\"."
    }

    /// Removes the lock file that a failed restoration has created, unless a process uses the place by now.
    private func removeLock(_ file: LockFile) {
        guard let opening = try? file.tryLock(.opening, .exclusive) else { return }
        defer { opening.release() }
        guard let lease = try? file.tryLock(.lease, .exclusive) else { return }
        defer { lease.release() }
        let parts = [paths.database, paths.sidecar, paths.sidecarBackup]
        guard parts.allSatisfy({ (try? Files.entryExists($0)) == false }) else { return }
        _ = try? file.removeUnlessCoordinated()
    }

    // MARK: Steps

    /// Whether the file at the path may lend its owner and mode: nobody else could put it there, or its page 1 has the key
    /// of the backup.
    private func isOwn(_ opened: OpenedBackup) throws -> Bool {
        guard let folder = try Files.status(of: Files.directory(of: paths.database)),
            let status = try Files.ownStatus(of: paths.database)
        else { return false }
        let isShared = folder.permissions & 0o022 != 0 && folder.permissions & 0o1000 == 0
        if !isShared || [ProcessInspector.effectiveUser, folder.owner].contains(status.owner) { return true }
        let parent = try OpenFolder(opening: Files.directory(of: paths.database), followsLinks: false)
        guard let file = try parent.file(Files.name(of: paths.database)) else { return false }
        return try PageTransfer(key: opened.key, pages: 1, watch: watch).firstBadPage(of: file) == nil
    }

    private var notLent: String {
        "owner and mode of \"\(paths.database)\" were not taken over: it belonged to another user, and is not known to be "
            + "this store. Set them with chown and chmod if other users need the store."
    }

    /// Refuses everything at the path that is neither absent nor a file, and a name that no new store may have.
    private func requirePossiblePlace() throws {
        try paths.requireShortPath()
        guard try Files.kind(Files.directory(of: paths.database)) == .directory else { return }
        switch try Files.kind(paths.database) {
        case .directory, .other:
            throw StoreError(
                .alreadyExists, what: "\"\(paths.database)\" is no place for a store.",
                why: "It is a directory, a device, a pipe or a socket, and a store is a regular file.",
                remedy: "Give the name of a file; nothing was changed.")
        case .regular: try paths.requireFreeName()
        case nil:
            try paths.requireFreeName()
            if try paths.isFreeForStore { try paths.requireFreeCompanions() }
        }
    }

    private func requireFree(_ former: FormerFiles) throws {
        guard !isReplacing, let first = try former.foundWithoutLeftovers().first else { return }
        throw StoreError(
            .alreadyExists, what: "There is already something at the path of the store: \"\(first)\".",
            why: "A restoration replaces a store only if that was requested.",
            remedy: "Restore to another path"
                + (ReplacedFile(paths: paths).isKnown
                    ? ", or replace the store with --replace (replacing: true in a program): its files are kept in a "
                        + "folder beside it." : "."))
    }

    /// - Returns: The copy, which was read back.
    private func copy(_ opened: OpenedBackup, likeFile reference: String) throws -> FileIdentity {
        let folder = try OpenFolder(opening: Files.directory(of: paths.restoring), followsLinks: false)
        let name = Files.name(of: paths.restoring)
        let read = try source.makeReader()
        let transfer = PageTransfer(key: opened.key, pages: opened.facts.pages, watch: watch)
        try requireNoDatabase(name, in: folder) { try isCopy($0, of: opened, transfer, read) }
        switch try RotationLeftover.remove(at: paths.restoring) {
        case .absent, .copy: break
        case .foreign(let why):
            throw StoreError(
                .alreadyExists, what: "\"\(paths.restoring)\" is in the way of a restoration.", why: why,
                remedy: "Find out what it is, and move it away.")
        }
        do {
            let new = try folder.newFile(name)
            try transfer.copy(source.name, read: read, to: new, likeFile: reference)
            guard let copy = try folder.file(name) else { throw SystemError.exchanged("openat", paths.restoring) }
            guard try isCopy(copy, of: opened, transfer, read) else {
                throw source.damaged("its copy, read back, differs from what was verified before")
            }
            return try copy.status().identity
        } catch {
            try? folder.remove(name)
            throw error
        }
    }

    /// Refuses to remove what an interrupted restoration leaves where it may be the database under another name: the database is
    /// missing, a sidecar is there, and the file is no copy of this backup. A restoration that was interrupted between the
    /// two leaves a whole copy.
    private func requireNoDatabase(
        _ name: String, in folder: OpenFolder, isCopy: (OpenFile) throws -> Bool
    ) throws {
        guard try !Files.entryExists(paths.database), try folder.status(of: name)?.kind == .regular,
            try Files.entryExists(paths.sidecar) || Files.entryExists(paths.sidecarBackup),
            let left = try folder.file(name), (try? isCopy(left)) != true
        else { return }
        throw StoreError(
            .alreadyExists, what: "\"\(paths.restoring)\" may be the database of the store under another name.",
            why: "\"\(paths.database)\" is missing and its sidecar is there, and the file is no copy of this backup, "
                + "which an interrupted restoration would leave.",
            remedy: "If it is the database, rename it back: `mv -n \(ShellWord.path(paths.restoring)) "
                + "\(ShellWord.path(paths.database))`. Otherwise move it away. Nothing was changed.")
    }

    /// Reads the copy back: every page is authentic, and it is the backup's database.
    private func isCopy(
        _ copy: OpenFile, of opened: OpenedBackup, _ transfer: PageTransfer, _ read: PageScan.Reader
    ) throws -> Bool {
        if let expected = opened.sha256 {
            let (hash, badPage) = try transfer.readBack(copy)
            return badPage == nil && hash == expected
        }
        // The clear bytes of page 1 are not authenticated; each page has passed its hash while it was copied.
        let first = try copy.read(at: 0, byteCount: opened.facts.pageBytes)
        var expected = [UInt8](repeating: 0, count: opened.facts.pageBytes)
        let count = try expected.withUnsafeMutableBytes { try read(0, $0) }
        return try count == expected.count && first == expected && transfer.firstBadPage(of: copy) == nil
    }

    /// Puts the copy in the database's place while no process can open it.
    ///
    /// - Returns: The folder with the former files, nil when there were none; and the error, if any, after the database
    ///   had its name, from which on the store is restored.
    private func exchange(
        _ opened: OpenedBackup, _ copy: FileIdentity, _ former: FormerFiles, _ file: LockFile
    ) throws -> (folder: String?, failure: (any Error)?) {
        let deadline = ContinuousClock.now + StoreLimits.restorationWait
        let opening = try file.lock(.opening, .exclusive, deadline: deadline, isCancelled: watch.isCancelled)
        defer { opening.release() }
        guard let lease = try file.tryLock(.lease, .exclusive) else { throw inUse() }
        defer { lease.release() }
        let database = try lockFormer()
        defer { database?.release() }
        // A connection that has not read yet holds no lock. Its first read would find the WAL of the restored store.
        guard StoreHolders.unleased(of: paths.database).isEmpty else { throw inUse() }
        // A file may have appeared while the database was copied, or a destruction may have been interrupted.
        try MissingDatabase.requireNoDestruction(paths)
        try requireFree(former)
        try watch.check()
        let folder = try isReplacing ? former.keep() : nil
        var failure: (any Error)?
        do {
            CrashPoint.reach(.restoreFormerKept)
            if isReplacing { try former.remove() }
            CrashPoint.reach(.restoreFormerRemoved)
            // The database may not exist yet; its copy already has its owner and mode.
            try SidecarFiles(databasePath: paths.database, likeFile: paths.restoring)
                .write(opened.sidecar, keys: opened.keys)
            CrashPoint.reach(.restoreAnnounced)
            try AtomicFile.move(paths.restoring, verifiedAs: copy, to: paths.database)
        } catch {
            // If the copy already has the database's name, only the sync has failed.
            guard ((try? Files.ownStatus(of: paths.database)) ?? nil)?.identity == copy else {
                try former.putBack(from: folder)
                throw error
            }
            failure = error
        }
        CrashPoint.reach(.restoreRenamed)
        return (folder?.path, failure)
    }

    /// SQLite's bytes of the database that is replaced; nil where there is none.
    private func lockFormer() throws -> LockedDatabase? {
        guard try Files.kind(paths.database) == .regular else { return nil }
        guard let database = try LockedDatabase.lock(paths.database) else { throw inUse() }
        return database
    }

    private func notDurable(_ error: any Error) -> String {
        "\"\(paths.database)\" is restored, but the system did not confirm that its name is on the disk (\(error)): if the "
            + "machine stops now, the restoration may have to be run again."
    }

    /// Opens the store once for writing, which creates the WAL and its index: readers may not be able to. The part of
    /// the database that SQLite sees was verified before it got its name.
    ///
    /// - Returns: The reason of a failure, for a notice: the store is still restored.
    private func prepareReaders(_ keys: SidecarKeys) -> String? {
        var configuration = Configuration.ofTool()
        configuration.persistentWAL = true
        configuration.observesSuspensionNotifications = false
        do {
            let pool = try DatabasePool(reading: paths.database, keys: keys, configuration)
            defer { try? pool.close() }
            _ = try pool.read { try Int.fetchOne($0, sql: "PRAGMA page_count") }
            try pool.close()
            return nil
        } catch {
            return
                "\"\(paths.database)\" is restored, but could not be opened yet (\(error)): the next opening for writing "
                + "makes the -wal and -shm that readers need."
        }
    }

    private func inUse() -> StoreError {
        let holders = (try? StoreHolders(of: paths.database))?.map(\.description) ?? []
        let who = holders.isEmpty ? "A process that cannot be identified holds it." : "It is held by \(holders.list)."
        return StoreError(
            .storeInUse, what: "\"\(paths.database)\" cannot be replaced while it is open.", why: who,
            remedy: "Close it in every process, then restore again. Nothing was changed.")
    }
}

extension [String] {
    /// The items as a phrase: `a, b and c`.
    fileprivate var list: String {
        guard count > 1, let last else { return first ?? "" }
        return dropLast().joined(separator: ", ") + " and " + last
    }
}
