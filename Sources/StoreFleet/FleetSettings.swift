import StoreBackups

/// The settings of a store, as the fleet file gives them; nil for those that it does not give.
package struct FleetSettings: Hashable, Sendable {
    /// The source of the key: an option of `cipherctl` with its value. No secret is in it.
    package struct Key: Hashable, Sendable {
        package let option: String
        package let value: String
    }

    package var key: Key?
    /// A duration, or `none`.
    package var maxKeyAge: String?
    package var maxBackupAge: String?
    /// Bytes.
    package var maxWAL: Int?
    package var minFree: Int?
    /// The repository of the store's backups.
    package var backupPlace: String?
    /// The repository to which the store is replicated.
    package var replicaPlace: String?
    /// How long the oldest commit may wait that is not replicated: a duration, or `none`.
    package var maxReplicationLag: String?
    /// How many backups are kept, by the options of `cipherctl backup prune`.
    package var retention: [String: Int] = [:]
    /// The folder for the backup before a rotation.
    package var rotationBackup: String?
    /// The age from which on a data key is rotated.
    package var rotateAfter: String?
    /// When a rotation may begin; empty for any time.
    package var rotationWindows: [RotationWindow]?

    package init() {}

    /// These settings, with those of an entry in their place where it gives them.
    ///
    /// Rules of retention are one setting: an entry that gives one gives all.
    func overridden(by other: FleetSettings) -> FleetSettings {
        var result = self
        result.key = other.key ?? key
        result.maxKeyAge = other.maxKeyAge ?? maxKeyAge
        result.maxBackupAge = other.maxBackupAge ?? maxBackupAge
        result.maxWAL = other.maxWAL ?? maxWAL
        result.minFree = other.minFree ?? minFree
        result.backupPlace = other.backupPlace ?? backupPlace
        result.replicaPlace = other.replicaPlace ?? replicaPlace
        result.maxReplicationLag = other.maxReplicationLag ?? maxReplicationLag
        if !other.retention.isEmpty { result.retention = other.retention }
        result.rotationBackup = other.rotationBackup ?? rotationBackup
        result.rotateAfter = other.rotateAfter ?? rotateAfter
        result.rotationWindows = other.rotationWindows ?? rotationWindows
        return result
    }
}
