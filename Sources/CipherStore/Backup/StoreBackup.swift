import CipherDatabase
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing

/// Makes a backup of a store that is in use, in the steps of Docs/Backup.md:
///
/// 1. Makes a folder beside the target (``StagedBundle``).
/// 2. Copies the pages of a ``PageSnapshot``, those of the WAL included, and authenticates each one.
/// 3. Copies the sidecar, which was read *after* the snapshot began, so that it is never older than the database.
/// 4. Reads the files back, authenticates and hashes them, and opens the database by SQLite.
/// 5. Writes the manifest, which makes the folder a backup.
/// 6. Gives the folder its name (``StagedBundle/publish()``).
struct StoreBackup {
    let store: SharedStore
    let target: BackupBundle
    let watch: BackupWatch

    private var paths: StorePaths { store.paths }

    /// The data that was copied while the store could not be switched to a new key.
    private struct Copy {
        let key: PageKey
        let pages: UInt32
        let sidecar: Sidecar
        let sidecarBytes: [UInt8]
    }

    func run() throws -> BackupReport {
        let start = ContinuousClock.now
        let staged = try StagedBundle(for: target)
        CrashPoint.reach(.backupBegun)
        let (copy, keys) = try store.withBackupKeys { try (copyPages(of: $0, $1, into: staged), $1) }
        try write(copy.sidecarBytes, to: staged.newFile(BackupBundle.sidecarName))
        let transfer = PageTransfer(key: copy.key, pages: copy.pages, watch: watch)
        let (hash, badPage) = try transfer.readBack(staged.openDatabase())
        if let badPage { throw PageTransfer.damaged(badPage, of: staged.bundle.databasePath) }
        try BundleOpening.check(staged.bundle, keys, pages: copy.pages)
        CrashPoint.reach(.backupVerified)
        let manifest = try manifest(copy, hash)
        try write(manifest.encoded(copy.key.dataKey), to: staged.newFile(BackupBundle.manifestName))
        try watch.check()
        let notDurable = try staged.publish()
        let log = KeyLog(databasePath: paths.database)
        let notices =
            staged.removed.map { "removed \"\($0)\", which a killed backup had left" }
            + [notDurable, log.note(.backupMade), log.note(.backupVerified)].compactMap(\.self)
        return BackupReport(manifest, folder: target.folder, since: start, notices: notices)
    }

    private func copyPages(of pool: DatabasePool, _ keys: SidecarKeys, into staged: StagedBundle) throws -> Copy {
        try store.withBackupMoment(of: pool, keys, watch) { moment, watch in
            try PageTransfer(key: moment.view.key, pages: moment.view.databasePages, watch: watch).copy(
                paths.database, read: { try moment.view.readBytes(at: $0, into: $1) },
                to: staged.newFile(BackupBundle.databaseName), likeFile: paths.database)
            return Copy(
                key: moment.view.key, pages: moment.view.databasePages, sidecar: moment.sidecar,
                sidecarBytes: moment.sidecarBytes)
        }
    }

    private func manifest(_ copy: Copy, _ hash: [UInt8]) throws -> BackupManifest {
        BackupManifest(
            storeID: copy.sidecar.storeID, epoch: copy.sidecar.epoch, generation: copy.sidecar.generation,
            created: WallClock.secondsSince1970, pageBytes: copy.key.settings.pageBytes, pages: copy.pages,
            database: BackupManifest.File(
                name: BackupBundle.databaseName, byteCount: Int(copy.pages) * copy.key.settings.pageBytes,
                sha256: hash),
            sidecar: BackupManifest.File(
                name: BackupBundle.sidecarName, byteCount: copy.sidecarBytes.count,
                sha256: try ContentDigest.sha256(copy.sidecarBytes)),
            library: BackupManifest.printable(SQLiteLibrary.cipherVersion ?? "unknown"))
    }

    private func write(_ bytes: [UInt8], to file: borrowing FileDescriptor) throws(SystemError) {
        try FileAttributes(of: paths.database)?.apply(to: file)
        try file.write(bytes)
        try file.synchronize()
    }
}

extension PageSnapshot {
    /// Reads pages at their position in the file.
    func readBytes(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        try read(firstPage: UInt32(offset / pageBytes) + 1, count: buffer.count / pageBytes, into: buffer)
        return buffer.count
    }
}

extension ContentDigest {
    /// The digest of the given bytes.
    package static func sha256(_ bytes: [UInt8]) throws -> [UInt8] {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return try digest.finish()
    }
}
