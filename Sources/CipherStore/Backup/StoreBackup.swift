import CipherDatabase
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// Makes a backup of a store that is in use.
///
/// 1. A ``FrozenView`` keeps one moment; writers go on.
/// 2. Its pages are authenticated and written into a folder beside the target, the log folded in.
/// 3. The sidecar is read *behind* that moment, so that it is never older than what the database knows of it.
/// 4. What was written is made durable, read back, authenticated, hashed, and opened by SQLite.
/// 5. The manifest is written, which makes the folder a backup, and the folder gets its name.
struct StoreBackup {
    let pool: DatabasePool
    let keyring: Keyring
    let target: BackupBundle
    let watch: BackupWatch

    private var paths: StorePaths { StorePaths(pool.path) }

    func run() throws -> BackupReport {
        let start = ContinuousClock.now
        guard let keys = keyring.keys else { throw pool.noKeys() }
        try requireNoSwitch(keys)
        let staged = try StagedBundle(for: target)
        CrashPoint.reach(.backupBegun)
        let view = try pool.makeFrozenView()
        defer { try? view.close() }
        let transfer = PageTransfer(key: view.key, pages: view.databasePages, watch: watch)
        let sidecar = try sidecar(keys, of: view)
        let sidecarBytes = try sidecar.encoded(keys: keys)
        try transfer.copy(
            paths.database, read: { try view.readBytes(at: $0, into: $1) }, to: staged.bundle.databasePath,
            likeFile: paths.database)
        // From here on the log may be begun anew.
        try view.close()
        try write(sidecarBytes, to: staged.bundle.sidecarPath)
        let (hash, badPage) = try transfer.readBack(staged.bundle.databasePath)
        if let badPage { throw PageTransfer.damaged(badPage, of: staged.bundle.databasePath) }
        try BundleOpening.check(staged.bundle, keys, pages: view.databasePages)
        CrashPoint.reach(.backupVerified)
        var manifest = manifest(sidecar, view)
        manifest.database = BackupManifest.File(
            name: BackupBundle.databaseName, byteCount: Int(view.databasePages) * view.pageBytes, sha256: hash)
        manifest.sidecar = BackupManifest.File(
            name: BackupBundle.sidecarName, byteCount: sidecarBytes.count, sha256: try sha256(sidecarBytes))
        try write(manifest.encoded(view.key.dataKey), to: staged.bundle.manifestPath)
        try watch.check()
        try staged.publish()
        return BackupReport(manifest, folder: target.folder, since: start)
    }

    private func manifest(_ sidecar: Sidecar, _ view: FrozenView) -> BackupManifest {
        let none = BackupManifest.File(name: "", byteCount: 0, sha256: [])
        return BackupManifest(
            storeID: sidecar.storeID, epoch: sidecar.epoch, generation: sidecar.generation,
            created: WallClock.secondsSince1970, pageBytes: view.pageBytes, pages: view.databasePages, database: none,
            sidecar: none, library: BackupManifest.printable(SQLiteLibrary.cipherVersion ?? "unknown"))
    }

    private func write(_ bytes: [UInt8], to path: String) throws(SystemError) {
        let file = try FileDescriptor(
            opening: path, .writeOnly, creating: .always(permissions: FileAttributes.privatePermissions))
        try FileAttributes(of: paths.database)?.apply(to: file)
        try file.write(bytes)
        try file.synchronize()
    }

    private func sha256(_ bytes: [UInt8]) throws -> [UInt8] {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return try digest.finish()
    }

    // MARK: The sidecar

    /// The sidecar that belongs to the frozen pages: the present one, without the rotation that may be under way.
    private func sidecar(_ keys: SidecarKeys, of view: FrozenView) throws -> Sidecar {
        let files = SidecarFiles(databasePath: paths.database)
        guard let choice = try files.choose(files.read(), unlock: { _ in keys }) else { throw pool.noKeys() }
        switch choice.sidecar.state {
        case .switching: throw switching()
        case .ready, .creating, .rotating: break
        }
        guard choice.sidecar.salt == view.key.salt, choice.dataKey.isEqual(to: view.key.dataKey) else {
            throw switching()
        }
        return choice.sidecar.state == .rotating ? try choice.sidecar.abandoningRotation() : choice.sidecar
    }

    private func requireNoSwitch(_ keys: SidecarKeys) throws {
        let files = SidecarFiles(databasePath: paths.database)
        let copies = files.read()
        if SidecarCopy.allCases.contains(where: { copies[$0].parsed?.claimed.state == .switching }) {
            throw switching()
        }
    }

    private func switching() -> StoreError {
        StoreError(
            .rotationPending, what: "\"\(paths.database)\" is being switched to a new key.",
            why: "A backup needs the database and the sidecar of one key.",
            remedy: "Make the backup when the rotation has ended; that takes moments, or an opening of the store.")
    }
}

extension FrozenView {
    /// Reads pages at their place in the file.
    func readBytes(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        try read(firstPage: UInt32(offset / pageBytes) + 1, count: buffer.count / pageBytes, into: buffer)
        return buffer.count
    }
}

extension DatabasePool {
    fileprivate func noKeys() -> StoreError {
        StoreError(
            .saltMissing, what: "\"\(path)\" has no sidecar that its key opens.",
            why: "A backup holds the sidecar too; without it a passphrase opens nothing.",
            remedy: "Open the store anew, which mends the sidecar or says what is wrong with it.")
    }
}
