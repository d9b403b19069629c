/// What a rotation did.
public struct RotationReport: Hashable, Sendable {
    /// The epoch of the former data key.
    public internal(set) var fromEpoch: UInt64
    /// The epoch of the new data key.
    public internal(set) var toEpoch: UInt64
    /// Pages of the store.
    public internal(set) var pages = 0
    /// Bytes of the store.
    public internal(set) var bytes = 0
    /// How often what was written meanwhile was carried over.
    public internal(set) var rounds = 0
    /// Pages that were carried over in these rounds.
    public internal(set) var carriedPages = 0
    /// How often the other processes were asked to pause.
    public internal(set) var attempts = 0
    /// The longest time from asking them to letting them go on.
    public internal(set) var longestPause: Duration = .zero
    /// How fast pages were copied, without their verification.
    public internal(set) var copyBytesPerSecond = 0
    /// How long all of it took.
    public internal(set) var duration: Duration = .zero
    /// Whether the rotation that was pending had only to be finished.
    public internal(set) var wasFinished = false
    /// Where the backup that was made before is; nil when none was asked for, or the switch had only to be finished.
    public internal(set) var backupPath: String?
    /// What went wrong without harm, such as a key log that could not be written: plain sentences.
    public internal(set) var notices: [String] = []

    init(fromEpoch: UInt64, toEpoch: UInt64) {
        self.fromEpoch = fromEpoch
        self.toEpoch = toEpoch
    }
}
