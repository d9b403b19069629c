/// Every bound of this module.
enum BackupLimits {
    /// The bytes of the pages in a full pack.
    static let packBytes = 8 << 20
    /// The bytes of pages that are read from a store at once.
    static let batchBytes = 256 * 1024
    /// How many bytes of earlier packs a backup reads and hashes, of packs that it chooses at random.
    static let sampledBytes = 64 << 20
    /// How many earlier packs are read between two polls for a cancellation.
    static let packsAtOnce = 32
    /// The longest record of a backup, in bytes: 32 for each pack of its pages.
    static let recordBytes = 64 << 20
    /// The longest map of a backup, in bytes: 16 for each run of pages.
    static let mapBytes = 512 << 20
    /// The longest sidecar, in bytes.
    static let sidecarBytes = 64 * 1024
    /// The longest key log, in bytes. A longer one is not kept.
    static let keyLogBytes = 16 << 20
    /// The most objects of a kind.
    static let objects = 16_000_000
    /// How long a backup or a restoration waits for a prune of the repository.
    static let useWait = Duration.seconds(60)
    /// How long a prune waits for backups, restorations and verifications.
    static let removalWait = Duration.seconds(10)
    /// The pause between two attempts to lock a repository.
    static let lockPause = Duration.milliseconds(20)
    /// How many calls a place at a server gets at once.
    static let serverCalls = 8
    /// How many packs of a place at a server are kept in memory.
    static let cachedPacks = 16
    /// The fewest bytes for which a whole pack is fetched from a server.
    static let cachedReadBytes = 512
    /// The fewest digits of the identifier of a backup that a person may give.
    static let identifierDigits = 4
}
