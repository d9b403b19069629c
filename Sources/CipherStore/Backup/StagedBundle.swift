import CipherDatabase
import StorePlatform
import StoreSharing

/// The folder in which a backup is made before it gets its name: `<name>.partial-<pid>-<8 hex digits>`, beside it.
///
/// It is this process's own as long as its lock is held. What a process left that died is removed by the next backup to the
/// same name. A folder is taken for a backup by its manifest, which is written last.
final class StagedBundle {
    static let lockName = "backup.lock"

    let bundle: BackupBundle
    private let target: String
    private var lock: HeldLock?
    private var isPublished = false

    /// - Parameter afterMaking: Called when a folder is made and not yet locked, where tests take it away.
    /// - Throws: ``StoreError`` `alreadyExists` when there is something at the target; ``SystemError``.
    init(for target: BackupBundle, afterMaking: (String) throws -> Void = { _ in }) throws {
        self.target = target.folder
        try Self.requireFree(target.folder)
        try Self.removeAbandoned(of: target.folder)
        while true {
            let digits = String(UInt32.random(in: 0x1000_0000 ... .max), radix: 16)
            let folder = "\(target.folder).partial-\(ProcessInspector.currentProcess)-\(digits)"
            try Files.makeDirectory(folder)
            try afterMaking(folder)
            // Another backup to the same name may take the folder for an abandoned one, and remove it.
            guard let lock = try Self.lock(folder) else { continue }
            bundle = BackupBundle(folder)
            self.lock = lock
            return
        }
    }

    /// Takes the lock of a folder just made; nil when the folder is somebody else's by now, or gone.
    private static func lock(_ folder: String) throws -> HeldLock? {
        do {
            return try LockFile(path: folder + "/" + lockName, likeFile: nil).tryLock(.admin, .exclusive)
        } catch {
            if error.isNotFound { return nil }
            try? BackupBundle.remove(folder)
            throw error
        }
    }

    deinit {
        guard !isPublished else { return }
        lock?.release()
        try? BackupBundle.remove(bundle.folder)
    }

    /// Gives the finished backup its name, durably.
    ///
    /// - Returns: A notice when the backup has its name and the system did not confirm that this is on the disk.
    @discardableResult
    func publish() throws -> String? {
        let files = [BackupBundle.databaseName, BackupBundle.sidecarName, BackupBundle.manifestName, Self.lockName]
        for name in try Files.names(inDirectory: bundle.folder) where !files.contains(name) && BackupBundle.isOwn(name)
        {
            try Files.remove(bundle.folder + "/" + name)
        }
        try Files.synchronize(directory: bundle.folder)
        CrashPoint.reach(.backupComplete)
        try Self.requireFree(target)
        var notice: String?
        do {
            try AtomicFile.move(bundle.folder, to: target)
        } catch {
            // It may have the name without being durable. A backup that is reported as failed must not be there: the same
            // command, run again, would be refused. So it is taken back, and where that fails it is a backup.
            if try !Files.entryExists(bundle.folder) { try? AtomicFile.move(target, to: bundle.folder) }
            if try Files.entryExists(bundle.folder) { throw error }
            notice =
                "the backup \"\(target)\" is complete, but the system did not confirm that its name is on the disk (\(error)): "
                + "verify it before you rely on it (cipherctl backup verify)"
        }
        isPublished = true
        // Not before: a folder that is being made is known by it. Where it stays, the backup is one all the same.
        try? Files.remove(target + "/" + Self.lockName)
        lock?.release()
        CrashPoint.reach(.backupPublished)
        return notice
    }

    private static func requireFree(_ folder: String) throws {
        guard try Files.entryExists(folder) else { return }
        throw StoreError(
            .alreadyExists, what: "There is something at \"\(folder)\" already.",
            why: "A backup is never written over anything.", remedy: "Name a folder that does not exist yet.")
    }

    /// Removes what backups left that were killed.
    private static func removeAbandoned(of target: String) throws(SystemError) {
        let parent = Files.directory(of: target)
        for name in try Files.names(inDirectory: parent) where isStaging(name, of: Files.name(of: target)) {
            let folder = parent == "/" ? "/" + name : parent + "/" + name
            guard (try? Files.kind(folder)) == .directory else { continue }
            let lock = folder + "/" + lockName
            // Its maker was killed before it had made the lock file, or is about to.
            guard Files.exists(lock) else {
                try? BackupBundle.remove(folder)
                continue
            }
            guard let held = try? LockFile(path: lock, likeFile: nil).tryLock(.admin, .exclusive) else { continue }
            try? BackupBundle.remove(folder)
            held.release()
        }
    }

    /// Whether a name is that of a folder in which a backup of this name is made.
    static func isStaging(_ name: String, of target: String) -> Bool {
        guard name.hasPrefix(target + ".partial-") else { return false }
        let parts = name.dropFirst(target.count + 9).split(separator: "-", omittingEmptySubsequences: false)
        return parts.count == 2 && Int32(parts[0]) != nil && parts[1].count == 8 && parts[1].allSatisfy(\.isHexDigit)
    }
}
