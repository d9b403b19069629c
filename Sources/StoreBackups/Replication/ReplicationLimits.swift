/// Every bound of continuous replication.
enum ReplicationLimits {
    /// The pause between two looks at the WAL: so exact are the times of commits.
    static let pollPause = Duration.milliseconds(20)
    /// The same while a WAL is long, or may be reset.
    static let urgentPause = Duration.milliseconds(4)
    /// How long commits wait for others that are stored with them.
    static let shippingPause = Duration.milliseconds(400)
    /// The same while a WAL is long.
    static let urgentShippingPause = Duration.milliseconds(50)
    /// The frames of a WAL from which a reset is wanted.
    static let resetFrames: UInt32 = 500
    /// The frames of a WAL from which it is polled more often.
    static let urgentFrames: UInt32 = 3000
    /// How long a writer may reset the WAL at a time. No checkpoint is possible meanwhile.
    static let resetWindow = Duration.milliseconds(100)
    /// The pause after a time in which no writer reset the WAL.
    static let resetPause = Duration.seconds(1)
    /// The bytes of frames in a segment. A frame is never divided.
    static let segmentBytes = 8 << 20
    /// The longest object of a replica, in bytes: a segment, or a base of a large store with 32 for each pack.
    static let objectBytes = 64 << 20
    /// The time without commits after which a segment without frames says that there were none, in milliseconds.
    static let idleMilliseconds: UInt64 = 300_000
    /// The same at the end of a run.
    static let endMilliseconds: UInt64 = 1000
    /// The fewest bytes of segments before a base that is not due yet.
    static let bytesBeforeBase = 256 << 20
    /// How long a switch to a new key waits at most for a replica that waits for the other users of the store.
    static let yieldWait = Duration.milliseconds(400)
    /// How long a lease is waited for.
    static let leaseWait = Duration.seconds(30)
    /// The pause between two looks whether such a switch has ended.
    static let yieldPause = Duration.milliseconds(50)
    /// How long a short lock of another process is waited for.
    static let lockWait = Duration.seconds(2)
    static let lockPause = Duration.milliseconds(5)
    /// How long a checkpoint is waited for before a base is made.
    static let checkpointWait = Duration.seconds(60)
    /// The pauses after errors, doubled from one to the next.
    static let firstRetry = Duration.milliseconds(500)
    static let longestRetry = Duration.seconds(30)
    /// How often the sidecar is compared.
    static let sidecarPause = Duration.seconds(1)
}
