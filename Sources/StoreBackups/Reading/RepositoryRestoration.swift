import CipherStore
import PageFormat
import StoreCrypto

/// A backup in a repository, to be restored.
struct RepositorySource: RestorationSource {
    let repository: BackupRepository
    let backup: StoredBackup

    var name: String { "\(repository.place.description)@\(backup.shortID)" }
    var attributesPath: String? { nil }
    var notices: [String] { [] }
    var foreignFiles: [String] { [] }

    func open(_ watch: BackupWatch, unlock: (Sidecar) throws -> SidecarKeys?) throws -> OpenedBackup {
        let facts = backup.record.facts
        let sealed = try repository.sidecar(of: backup.record)
        let (keys, dataKey) = try self.unlock(sealed, unlock)
        guard try backup.record.isAuthentic(backup.bytes, dataKey) else {
            throw damaged("its record was made by somebody without the key, or is that of another store")
        }
        let sidecar = sealed.claimed
        guard sidecar.storeID == facts.storeID, sidecar.epoch == facts.epoch, sidecar.generation == facts.generation,
            sidecar.settings.pageBytes == facts.pageBytes, sidecar.state == .ready
        else { throw damaged("its sidecar is not that of its pages") }
        return OpenedBackup(
            facts: facts, sidecar: sidecar, keys: keys,
            key: PageKey(dataKey, salt: sidecar.salt, settings: sidecar.settings), sha256: nil)
    }

    func makeReader() throws -> PageScan.Reader {
        let pages = try RepositoryPages(backup.record, in: repository)
        return { try pages.read(at: $0, into: $1) }
    }

    func damaged(_ why: String) -> StoreError {
        StoreError(
            .backupDamaged, what: "The backup \"\(name)\" is not complete and unchanged.",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).", remedy: "Use another backup. Nothing was changed.")
    }
}

extension BackupRepository {
    /// The sidecar of a backup, not authenticated yet.
    func sidecar(of record: BackupRecord) throws -> UnauthenticatedSidecar {
        let bytes = try object(.blob, record.sidecar, limitBytes: BackupLimits.sidecarBytes)
        do {
            return try UnauthenticatedSidecar.parse(bytes)
        } catch {
            throw damaged("its object \(ObjectKind.blob.name(record.sidecar)) is no sidecar: \(error)")
        }
    }

    /// Makes a store from a backup, in the steps and with the errors of
    /// `SharedStore.restore(from:to:unlockedBy:replacing:replacingAnyFile:progress:isCancelled:)`.
    ///
    /// Each page is compared with its hash and authenticated. The store has the data key, the salt and the keyslots of the
    /// time of the backup.
    ///
    /// - Parameters:
    ///   - backup: The backup, of ``backups(onDamage:)``.
    ///   - path: The database file to create.
    ///   - source: A key that opened the store when the backup was made; it is read once.
    ///   - isReplacing: Whether an existing store is replaced; its files are kept in a folder beside it.
    ///   - isReplacingAnyFile: Whether a file that is not known to be a store is replaced as well.
    @discardableResult
    public func restore(
        _ backup: StoredBackup, to path: String, unlockedBy source: KeySource, replacing isReplacing: Bool = false,
        replacingAnyFile isReplacingAnyFile: Bool = false, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> RestorationReport {
        let lock = try place.lockForUse(isWriting: false, isCancelled)
        defer { lock.release() }
        return try SharedStore.restore(
            from: RepositorySource(repository: self, backup: backup), to: path, unlockedBy: source,
            replacing: isReplacing, replacingAnyFile: isReplacingAnyFile,
            watch: BackupWatch(progress: progress, isCancelled: isCancelled))
    }
}
