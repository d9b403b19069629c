import CipherStore

/// What a rotation would need and meet: the result of ``KeyRotation/preflight(isCancelled:)``.
public struct RotationPlan: Sendable {
    /// Something that a person should know before.
    public struct Finding: Hashable, Sendable {
        /// What was found, as a plain sentence.
        public let what: String
        /// What to do about it.
        public let remedy: String
    }

    /// The epoch of the present data key.
    public internal(set) var epoch: UInt64
    /// Whether the store has key slots.
    public internal(set) var hasSlots: Bool
    /// Pages of the database.
    public internal(set) var pages: Int
    /// Bytes of the database.
    public internal(set) var databaseBytes: Int
    /// Bytes of the write-ahead log now.
    public internal(set) var logBytes: Int
    /// To what length the log may grow meanwhile.
    public internal(set) var logLimitBytes: Int
    /// Bytes that are free for this process on the filesystem.
    public internal(set) var freeBytes: Int
    /// How fast some pages were re-encrypted on all threads, in memory.
    public internal(set) var sampleBytesPerSecond: Int
    /// How many threads re-encrypt.
    public internal(set) var workers: Int
    /// How long copy and verification take at this speed, or at the throttled one.
    public internal(set) var expectedDuration: Duration
    /// Everybody who has the store open, this process included.
    public internal(set) var holders: [StoreHolder]
    /// The type of the filesystem, such as `ext4`.
    public internal(set) var filesystem: String
    /// The versions of SQLCipher and SQLite in this process.
    public internal(set) var library: String
    /// When the last verified backup was made, in seconds since 1970, as the log of key events tells; nil for never.
    public internal(set) var lastBackup: UInt64?
    /// Whether a key slot is a recovery key; nil for stores without slots.
    public internal(set) var hasRecoverySlot: Bool?
    /// What `integrity_check` found, a line each; empty when all is well. Nil when it was not asked for.
    public internal(set) var damage: [String]?

    /// What stands in the way: the rotation would be refused.
    public internal(set) var obstacles: [Finding] = []
    /// What is risky: the rotation would begin all the same.
    public internal(set) var warnings: [Finding] = []

    /// Whether a rotation can begin.
    public var canBegin: Bool { obstacles.isEmpty }
}
