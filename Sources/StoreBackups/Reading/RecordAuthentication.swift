import CipherStore
import StoreCrypto

/// The records that a key has authenticated.
struct RecordAuthentication {
    var authentic: Set<ObjectHash> = []
    /// Records of stores of the key that it did not authenticate.
    var problems: [RepositoryVerification.Problem] = []
}

extension BackupRepository {
    /// Authenticates records by a key. It opens the sidecar of each, and with that its data key.
    ///
    /// - Throws: ``SystemError``; an error of a slow derivation.
    func authentication(of backups: [StoredBackup], by material: Secret) throws -> RecordAuthentication {
        // Keyslots are derived once for each sidecar.
        var opened: [ObjectHash: SidecarKeys?] = [:]
        var result = RecordAuthentication()
        for backup in backups {
            do {
                let source = RepositorySource(repository: self, backup: backup)
                _ = try source.open(BackupWatch(progress: nil, isCancelled: { false })) { sidecar in
                    if let keys = opened[backup.record.sidecar] { return keys }
                    let keys = try material.unlock(sidecar)
                    opened[backup.record.sidecar] = .some(keys)
                    return keys
                }
                result.authentic.insert(backup.id)
            } catch let error as StoreError where error.code == .wrongKey {
                // The backup of another store, or of a time with other keys.
            } catch let error as StoreError where [.backupDamaged, .sidecarForged].contains(error.code) {
                result.problems.append(
                    .init(object: ObjectKind.backup.name(backup.id), sentence: error.why, backups: [backup.id]))
            }
        }
        return result
    }

    /// The error where a key authenticates no record.
    func opensNothing(_ remedy: String) -> StoreError {
        StoreError(
            .wrongKey, what: "The key opens no backup in \"\(place.description)\".",
            why: "A backup opens with the keys that its store had when it was made.", remedy: remedy)
    }
}
