import CipherDatabase
import Foundation
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

/// The result of a destruction.
public struct DestructionReport: Sendable {
    /// The database file, with all links resolved.
    public let path: String
    /// The files that were removed, in order. Temporary files left by killed processes are not listed.
    public let removed: [String]
    /// Files that resemble files of the store and were kept, with the reason: one sentence each.
    public let notices: [String]
}

extension SharedStore {
    /// Removes a store with every file that belongs to it, permanently: database, WAL, both copies of the sidecar,
    /// leftovers of interrupted work, lock file, and the key log last. It needs no key, only write access to the
    /// directory.
    ///
    /// No process may have the store open, this one included. A destruction that was interrupted leaves a store that
    /// cannot be opened (`noSuchStore`, with the reason), and is completed by calling this again. Backups, the folders
    /// in which restorations keep former files, and the original of an adoption are not touched. The lock file stays,
    /// with a notice, while a process is inside `FileCoordinator` for the store, the caller included: others may wait
    /// for its lock. Files are removed, not overwritten.
    ///
    /// - Parameter path: The database file, not a link to it.
    /// - Returns: The files that were removed and kept.
    /// - Throws: `StoreError` `noSuchStore` when there is nothing to remove, `storeInUse` with the holders' names,
    ///   `notEncrypted`, `saltMissing` or `sidecarDamaged` for a file that is not known to be a store, `backupReadOnly`
    ///   for the database of a backup, `alreadyExists` when something other than a file has the name of one, or when
    ///   another database was created at the path after a destruction was interrupted, `hardLinked`; `SystemError`.
    ///   Nothing was changed then, unless the system refused in the middle.
    @discardableResult
    public static func destroy(at path: String) throws -> DestructionReport {
        try StoreDestruction(path: path, paths: StorePaths(path)).run()
    }

    /// The files that ``destroy(at:)-(String)`` would remove now. Nothing is changed.
    ///
    /// - Throws: What a destruction throws before it removes a file.
    package static func filesToDestroy(at path: String) throws -> [String] {
        try StoreDestruction(path: path, paths: StorePaths(path)).plan()
    }

    /// Removes a store with every file that belongs to it.
    @discardableResult
    public static func destroy(at url: URL) throws -> DestructionReport { try destroy(at: url.path) }
}

/// Removes a store.
///
/// 1. The path holds a store, or the leftovers of an interrupted destruction.
/// 2. The path is locked: no process opens it or has a lease, and SQLite's bytes of the database are free.
/// 3. The database is renamed to `<database>-destroying`: the commit point. From here on there is no store.
/// 4. WAL, journal, sidecars, copies and temporary files are removed, then the renamed database.
/// 5. The lock file, unless a `FileCoordinator` uses it, and, last of all, the key log are removed.
///
/// Each step is durable before the next begins. An interruption before step 3 leaves the store as it was. After it,
/// openings find `<database>-destroying` and report it (``MissingDatabase``).
struct StoreDestruction {
    /// The path as the caller gave it.
    let path: String
    let paths: StorePaths

    /// The files to remove.
    private enum Found {
        case store
        /// Files of a store whose database does not exist, or no longer.
        case remains
        /// The lock file alone. Other files with names of a store may belong to a database that was moved away.
        case lockFile
    }

    private var keyLog: KeyLog { KeyLog(databasePath: paths.database) }
    private var sidecars: SidecarFiles { SidecarFiles(databasePath: paths.database) }

    /// The files that are removed before the database, in this order. Without a sidecar no process could open the
    /// remaining files.
    private var companions: [String] {
        [paths.wal, paths.sharedMemory, paths.journal, paths.notifications]
            + SidecarCopy.allCases.flatMap { [sidecars.path(of: $0), sidecars.setAsidePath(of: $0)] }
    }

    /// The files whose writers leave temporary files.
    private var written: [String] {
        [paths.wal, paths.damagedWAL, paths.sidecar, paths.sidecarBackup, paths.lock, keyLog.path]
    }

    /// Every file that is removed with the database. A file that is missing here can end a destruction in its middle.
    private func removable() throws -> [String] {
        companions + (try DamagedWAL.copies(of: paths)) + [
            keyLog.formerPath, paths.destroying, paths.lock, keyLog.path,
        ]
    }

    func run() throws -> DestructionReport {
        try requireStore(isLocked: false)
        try Files.requireWritable(directory: Files.directory(of: paths.database))
        // Once: a folder that gets this name from now on keeps its files.
        let folder = try OpenFolder(opening: Files.directory(of: paths.database), followsLinks: false)
        let file = try LockFile(path: paths.lock, likeFile: paths.database)
        let deadline = ContinuousClock.now + StoreLimits.restorationWait
        let admin = try file.lock(.admin, .exclusive, deadline: deadline)
        defer { admin.release() }
        let opening = try file.lock(.opening, .exclusive, deadline: deadline)
        defer { opening.release() }
        guard let lease = try file.tryLock(.lease, .exclusive) else { throw inUse() }
        defer { lease.release() }
        // A file may have appeared while this waited for the locks.
        let found = try requireStore(isLocked: true)
        let live = found == .store ? try LiveFiles.descriptor(of: paths.database) : nil
        guard try folder.status(of: Files.name(of: paths.database))?.identity == live?.status().identity else {
            throw SystemError.exchanged("openat", paths.database)
        }
        if let live, try !live.tryLockSQLiteBytes() { throw inUse() }
        defer { try? live?.unlockSQLiteBytes() }
        // A connection that has not read yet holds no lock.
        guard StoreHolders.unleased(of: paths.database).isEmpty else { throw inUse() }
        CrashPoint.reach(.destroyLocked)
        if found == .lockFile { return try removeLockFile(file, folder) }
        return try remove(live, file, folder)
    }

    /// The files that ``run()`` would remove. No lock is taken, and no file is made.
    func plan() throws -> [String] {
        let found = try requireStore(isLocked: false)
        try Files.requireWritable(directory: Files.directory(of: paths.database))
        guard try StoreHolders(of: paths.database).isEmpty else { throw inUse() }
        let names =
            found == .lockFile
            ? [paths.lock] : [paths.database, paths.rotationCopy, paths.restoring] + (try removable())
        return try names.filter { try Files.entryExists($0) }
    }

    // MARK: Existing files

    /// Refuses anything that is not known to be a store or the remains of one.
    ///
    /// - Parameter isLocked: Whether the path is locked, so that a lone lock file is that of a store which another
    ///   destruction has removed in the meantime.
    @discardableResult
    private func requireStore(isLocked: Bool) throws -> Found {
        try refuseBackup()
        try paths.requireNoOwnedStore()
        if try Files.kindOfName(path) == .other, try Files.kind(path) != .other {
            throw noStore("The path is a symbolic link.", "Give the path of the store itself: \"\(paths.database)\".")
        }
        let found: Found
        switch try Files.kindOfName(paths.database) {
        case .regular:
            try requireDatabase()
            found = .store
        case nil: found = try requireRemains(isLocked)
        case .directory: throw noStore("The path names a directory.", "Check the path.")
        case .other: throw noStore("The path names a device, a pipe or a link.", "Check the path.")
        }
        try requireOwnDestroying()
        let ours = try removable()
        for name in ours where try !isRegularOrAbsent(name) {
            throw StoreError(
                .alreadyExists, what: "\"\(name)\" is not a regular file.",
                why: "It has the name of a part of the store, but it is a directory, a link or a device.",
                remedy: "Find out what it is, and move it away. Nothing was removed.")
        }
        let leftovers = try written.flatMap { try AtomicFile.leftovers(of: $0) }
        try requireRemovable(ours + leftovers + [paths.database, paths.rotationCopy, paths.restoring])
        return found
    }

    /// Refuses a store of which one file would stay: in a folder as /tmp, another user can give a name of the store to a
    /// file that this user may not remove.
    private func requireRemovable(_ names: [String]) throws {
        let folder = try OpenFolder(opening: Files.directory(of: paths.database))
        for name in names {
            guard let status = try folder.status(of: Files.name(of: name)), try !folder.permitsRemoval(of: status)
            else { continue }
            throw StoreError(
                .alreadyExists, what: "\"\(paths.database)\" was not destroyed.",
                why:
                    "\"\(name)\" belongs to user \(status.owner), and the folder (with the sticky bit) keeps this user "
                    + "from removing it.",
                remedy: "Let that user, the owner of the folder or root remove it, then destroy the store. Nothing was "
                    + "removed.")
        }
    }

    private func refuseBackup() throws(StoreError) {
        guard let bundle = BackupBundle(holding: paths.database) else { return }
        throw StoreError(
            .backupReadOnly, what: "\"\(bundle.databasePath)\" is the database of a backup, not a store.",
            why: "A destruction removes stores, but not their backups.",
            remedy: "To delete the backup, remove the folder \"\(bundle.folder)\" yourself. Nothing was removed.")
    }

    private func isRegularOrAbsent(_ path: String) throws(SystemError) -> Bool {
        let kind = try Files.kindOfName(path)
        return kind == nil || kind == .regular
    }

    private func requireDatabase() throws {
        let live = try LiveFiles.descriptor(of: paths.database)
        let status = try live.status()
        // Of an interrupted destruction: another program created an empty file since.
        if status.byteCount == 0, try Files.entryExists(paths.destroying) { return }
        // Completing the destruction of the former database must not remove a database that the user put there since.
        try MissingDatabase.requireNoDestruction(paths)
        guard status.linkCount <= 1 else {
            throw StoreError(
                .hardLinked, what: "\"\(paths.database)\" has \(status.linkCount) names.",
                why: "Under the other names its content would remain.",
                remedy:
                    "Remove the other links (find them with `find -samefile`), then destroy the store. An interrupted "
                    + "restoration must be completed first.")
        }
        let copies = sidecars.read()
        let claimed = copies.claimed
        guard !claimed.isEmpty else {
            throw StoreError(
                copies.areAbsent ? .saltMissing : .sidecarDamaged,
                what: "\"\(paths.database)\" is not known to be a store.",
                why: copies.areAbsent ? "It has no sidecar." : "No copy of its sidecar can be read.",
                remedy: "Check the path. To delete it, remove it yourself. Nothing was removed.")
        }
        let isAnnounced = claimed.allSatisfy { $0.state == .creating }
        try requireEncrypted(live, byteCount: status.byteCount, isAnnounced: isAnnounced)
    }

    /// Refuses a file that has the name of a database which is being destroyed, and is none.
    private func requireOwnDestroying() throws {
        guard try Files.kindOfName(paths.destroying) == .regular else { return }
        let live = try LiveFiles.descriptor(of: paths.destroying)
        let status = try live.status()
        let isForeign = Self.isForeign(try verdict(live, byteCount: status.byteCount), isAnnounced: false)
        guard isForeign || status.linkCount > 1 else { return }
        throw StoreError(
            .notEncrypted, what: "\"\(paths.destroying)\" is not known to be the database of a store.",
            why: "A destruction that was interrupted leaves a database under this name, but this is another file.",
            remedy: "Find out what it is, and move it away; then destroy the store again. Nothing was removed.")
    }

    private func verdict(_ live: LiveFile, byteCount: Int) throws -> HeaderVerdict {
        var first = [UInt8](repeating: 0, count: 4096)
        let count = try first.withUnsafeMutableBytes { try live.read(at: 0, into: $0) }
        first.removeLast(first.count - count)
        return DatabaseHeader.examine(first, fileBytes: byteCount, settings: nil)
    }

    /// Whether a file is no encrypted database.
    ///
    /// - Parameter isAnnounced: Whether the creation of the store was not completed.
    private static func isForeign(_ verdict: HeaderVerdict, isAnnounced: Bool) -> Bool {
        switch verdict {
        case .empty, .plaintextHeader, .damagedHeader: false
        case .plainSQLite: true
        case .tooShort(_, let looksLikeText): looksLikeText
        case .opaque(let traits): !traits.looksRandom || (isAnnounced && traits.mayBeStandardSQLCipher)
        }
    }

    /// Refuses a file beside a sidecar that belongs to another program.
    private func requireEncrypted(_ live: LiveFile, byteCount: Int, isAnnounced: Bool) throws {
        guard Self.isForeign(try verdict(live, byteCount: byteCount), isAnnounced: isAnnounced) else { return }
        throw StoreError(
            .notEncrypted, what: "\"\(paths.database)\" is not the store of its sidecar.",
            why: isAnnounced
                ? "The sidecar belongs to a store whose creation was not completed, and the file is another database."
                : "It is a plain database or another file.",
            remedy: "Check the path. To delete it, remove it yourself. Nothing was removed.")
    }

    /// Without a database: the leftovers of an interrupted destruction, or of a store whose database alone was removed.
    ///
    /// A lock file proves little: `FileCoordinator` creates one next to any file, and other programs use that name.
    private func requireRemains(_ isLocked: Bool) throws -> Found {
        let signs = [paths.destroying, paths.sidecar, paths.sidecarBackup, keyLog.path]
        if try signs.dropLast().contains(where: { try Files.entryExists($0) }) { return .remains }
        if try Files.entryExists(keyLog.path) || !AtomicFile.leftovers(of: keyLog.path).isEmpty {
            try requireNoCommits()
            return .remains
        }
        guard try Files.entryExists(paths.lock) else {
            throw noStore("The file does not exist, and no file of a store is beside it.", "Check the path.")
        }
        if isLocked || LockFile.isLibrarys(paths.lock) { return .lockFile }
        throw noStore(
            "The file does not exist, and \"\(paths.lock)\" beside it may be another program's.",
            "Check the path. To delete that file, remove it yourself. Nothing was removed.")
    }

    /// Refuses a WAL or a journal with content beside which there is neither a database nor a sidecar: a destruction removes
    /// it before them.
    private func requireNoCommits() throws {
        for name in [paths.wal, paths.journal] {
            guard let bytes = try Files.byteCount(name), bytes > 0 else { continue }
            throw StoreError(
                .alreadyExists, what: "\"\(paths.database)\" was not destroyed.",
                why:
                    "\"\(name)\" has \(CountText.text(bytes, "byte")), and neither a database nor a sidecar is there: it may "
                    + "have rows of a database that was moved away.",
                remedy: "Put its database back, or move that file away. Nothing was removed.")
        }
    }

    private func noStore(_ why: String, _ remedy: String) -> StoreError {
        StoreError.noStore(at: path, why: why, remedy: remedy)
    }

    private func inUse() -> StoreError {
        let holders = (try? StoreHolders(of: paths.database))?.map(\.description) ?? []
        let who = holders.isEmpty ? "A process that cannot be identified" : holders.joined(separator: ", ")
        return StoreError(
            .storeInUse, what: "\"\(paths.database)\" cannot be destroyed while it is open.",
            why: "\(who) has it open.",
            remedy: "Close it in every process, then destroy it. Nothing was removed.")
    }

    // MARK: Removing

    private func remove(_ live: LiveFile?, _ file: LockFile, _ folder: OpenFolder) throws -> DestructionReport {
        var removed: [String] = []
        if live != nil {
            try folder.rename(Files.name(of: paths.database), to: folder, Files.name(of: paths.destroying))
            try folder.synchronize()
            removed.append(paths.database)
        }
        CrashPoint.reach(.destroyRenamed)
        for (number, name) in companions.enumerated() {
            try remove(name, in: folder, &removed)
            if number == 0 { CrashPoint.reach(.destroyLogRemoved) }
            if name == paths.sidecar { CrashPoint.reach(.destroySidecarRemoved) }
        }
        for copy in try DamagedWAL.copies(of: paths) { try remove(copy, in: folder, &removed) }
        var notices = try removeCopies(in: folder, &removed)
        try remove(keyLog.formerPath, in: folder, &removed)
        // The removal of the database must be the last to reach the disk: openings report by it what happened.
        try folder.synchronize()
        CrashPoint.reach(.destroyCompanionsRemoved)
        if try removeDatabase(live, in: folder), live == nil { removed.append(paths.destroying) }
        try folder.synchronize()
        CrashPoint.reach(.destroyDatabaseRemoved)
        notices += try removeLockAndKeyLog(file, folder, &removed)
        notices += confirmRemoval(folder)
        notices += try kept(in: folder)
        return DestructionReport(path: paths.database, removed: removed, notices: notices)
    }

    private func remove(_ path: String, in folder: OpenFolder, _ removed: inout [String]) throws(SystemError) {
        guard try folder.status(of: Files.name(of: path)) != nil else { return }
        try folder.remove(Files.name(of: path))
        removed.append(path)
    }

    /// Removes the copies of rotations and restorations, and temporary files left by killed writers.
    private func removeCopies(in folder: OpenFolder, _ removed: inout [String]) throws(SystemError) -> [String] {
        var notices: [String] = []
        for name in [paths.rotationCopy, paths.restoring] {
            switch try RotationLeftover.remove(Files.name(of: name), in: folder) {
            case .absent: break
            case .copy: removed.append(name)
            case .foreign(let why): notices.append("\"\(name)\" was not removed. \(why)")
            }
        }
        for base in written {
            try AtomicFile.removeLeftovers(of: Files.name(of: base), in: folder)
        }
        return notices
    }

    /// - Returns: Whether it was there.
    private func removeDatabase(_ live: LiveFile?, in folder: OpenFolder) throws -> Bool {
        let name = Files.name(of: paths.destroying)
        guard try folder.status(of: name) != nil else { return false }
        guard let live else {
            guard let file = try folder.writableFile(name, creating: nil) else { return false }
            try folder.remove(name)
            file.closeGradually()
            return true
        }
        try folder.remove(name)
        // A file that a power failure brings back must still have its first page, or a repetition takes it for a stranger's.
        let confirmation = Result { () throws(SystemError) in try folder.synchronize() }
        // A connection that has not read yet, and could not be seen, must not use the unnamed file as the store.
        try live.invalidateFirstPage()
        live.giveUp()
        try confirmation.get()
        return true
    }

    /// A process that waits for the lock file creates a new one as soon as this one is removed, and may create a store.
    /// Its key log must not be removed: the key log of the destroyed store is renamed before.
    ///
    /// - Returns: Why the lock file was kept, where it was.
    private func removeLockAndKeyLog(
        _ file: LockFile, _ folder: OpenFolder, _ removed: inout [String]
    ) throws(SystemError) -> [String] {
        let log = try AtomicFile.setAside(Files.name(of: keyLog.path), in: folder)
        CrashPoint.reach(.destroyKeyLogSetAside)
        let notices = try removeLock(file, folder, &removed)
        CrashPoint.reach(.destroyLockRemoved)
        guard let log else { return notices }
        // A lock file that reappears after a power failure is recognised as a store's by the key log.
        try folder.synchronize()
        try folder.remove(log)
        removed.append(keyLog.path)
        return notices
    }

    private func removeLockFile(_ file: LockFile, _ folder: OpenFolder) throws -> DestructionReport {
        var removed: [String] = []
        try AtomicFile.removeLeftovers(of: Files.name(of: paths.lock), in: folder)
        let notices = try removeLock(file, folder, &removed) + confirmRemoval(folder)
        return DestructionReport(path: paths.database, removed: removed, notices: notices)
    }

    /// Makes the last removals durable. No work is left if that fails, so it is not an error.
    private func confirmRemoval(_ folder: OpenFolder) -> [String] {
        do throws(SystemError) {
            try folder.synchronize()
            return []
        } catch {
            return [
                "every file of \"\(paths.database)\" is removed, but the system did not confirm that this is on the disk "
                    + "(\(error)): after a power failure files may be there again, and destroying it again removes them."
            ]
        }
    }

    private func removeLock(
        _ file: LockFile, _ folder: OpenFolder, _ removed: inout [String]
    ) throws(SystemError) -> [String] {
        guard let who = try file.removeUnlessCoordinated(in: folder) else {
            removed.append(paths.lock)
            return []
        }
        return [
            "\"\(paths.lock)\" was kept: \(who) is coordinating access to the file, and others may be waiting for it. "
                + "Destroy the store again after that has ended, to remove it. It contains nothing of the store's "
                + "content."
        ]
    }

    /// Files that resemble files of the store and are separate copies.
    private func kept(in folder: OpenFolder) throws(SystemError) -> [String] {
        let name = Files.name(of: paths.database)
        return try folder.names(limit: .max).sorted().compactMap { found in
            guard found.hasPrefix(name) else { return nil }
            let ending = found.dropFirst(name.count)
            let isOriginal = ending.hasPrefix(".sqlcipher") && ["1", "2", "3"].contains(ending.dropFirst(10))
            guard ending.hasPrefix(InterruptedRestoration.folderInfix) || isOriginal else { return nil }
            return "\"\(found)\" was kept: it is a former copy of the store, and opens with the keys of its time."
        }
    }
}
