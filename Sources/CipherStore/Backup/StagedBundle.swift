import StorePlatform
import StoreSharing

/// The folder in which a backup is made before it gets its name: a ``StagingDirectory`` that becomes the backup. The
/// manifest, which is written last, makes it one.
final class StagedBundle {
    let bundle: BackupBundle
    private let target: String
    private let directory: StagingDirectory
    /// The folders of killed backups that were removed.
    let removed: [String]
    private var isPublished = false

    /// - Throws: ``StoreError`` `alreadyExists` when the target exists, `storeName` when another user has put a symbolic link
    ///   into its path; ``SystemError``.
    init(for target: BackupBundle) throws {
        self.target = target.folder
        try OtherUserLink.refuse(Files.directory(of: target.folder))
        try StorePaths(target.folder).requireShortPath(suffix: ".partial-4194304-00000000/" + BackupBundle.databaseName)
        try Self.requireFree(target.folder)
        removed = try StagingDirectory.removeAbandoned(for: target.folder, .backup)
        directory = try StagingDirectory(for: target.folder, .backup)
        bundle = BackupBundle(directory.path)
    }

    deinit {
        if !isPublished { directory.remove() }
    }

    /// Creates a file of the backup in its folder, whatever the path of the folder names by now.
    func newFile(_ name: String) throws(SystemError) -> FileDescriptor { try directory.folder.newFile(name) }

    /// Opens the database of the backup for reading.
    func openDatabase() throws(SystemError) -> OpenFile {
        guard let file = try directory.folder.file(BackupBundle.databaseName) else {
            throw SystemError.exchanged("openat", bundle.databasePath)
        }
        return file
    }

    /// Renames the finished backup to its name, durably.
    ///
    /// - Returns: A notice when the backup has its name but the system did not confirm that the rename is on disk.
    @discardableResult
    func publish() throws -> String? {
        let files = [
            BackupBundle.databaseName, BackupBundle.sidecarName, BackupBundle.manifestName,
            StagingDirectory.Purpose.backup.lockName,
        ]
        let folder = directory.folder
        for name in try folder.names(limit: StoreLimits.stagedFiles)
        where !files.contains(name) && BackupBundle.isOwn(name) {
            try folder.remove(name)
        }
        try folder.synchronize()
        CrashPoint.reach(.backupComplete)
        try Self.requireFree(target)
        var notice: String?
        do {
            try directory.moveItself(to: target)
        } catch {
            // It may have the name without being durable. A backup that is reported as failed must not exist: the same
            // command, run again, would be refused. So the rename is undone; where that fails, the backup is reported
            // as made.
            if try isNamed(target), try !Files.entryExists(bundle.folder) {
                try? AtomicFile.move(target, to: bundle.folder)
            }
            // Another user may have renamed it meanwhile.
            guard try isNamed(target) else { throw error }
            notice =
                "the backup \"\(target)\" is complete, but the system did not confirm that its name is on the disk (\(error)): "
                + "verify it before you rely on it (cipherctl backup verify)"
        }
        isPublished = true
        // If the lock file cannot be removed, the backup is still valid.
        directory.releaseRenamed()
        CrashPoint.reach(.backupPublished)
        return notice
    }

    /// Whether a path names the folder itself.
    private func isNamed(_ path: String) throws(SystemError) -> Bool {
        try Files.ownStatus(of: path)?.identity == directory.folder.status().identity
    }

    private static func requireFree(_ folder: String) throws {
        guard try Files.entryExists(folder) else { return }
        throw StoreError(
            .alreadyExists, what: "There is something at \"\(folder)\" already.",
            why: "A backup never overwrites anything.", remedy: "Name a folder that does not exist yet.")
    }
}
