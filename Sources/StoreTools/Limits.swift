/// Bounds of the tools, in one place.
enum Limits {
    /// How long a tool waits for other processes that open or make the store at its target.
    static let openingWait = Duration.seconds(30)
    /// How long a page that does not authenticate is read again before it counts: a checkpoint may be writing it, or the WAL
    /// be reset.
    static let recheckTime = Duration.milliseconds(100)
    /// The pause between two of these readings.
    static let recheckPause = Duration.milliseconds(5)
    /// Messages of `integrity_check`.
    static let integrityMessages = 100
    /// Bytes of a file that are copied at once.
    static let copiedBytes = 1 << 20
    /// A WAL that is larger needs attention.
    static let largeWALBytes = 256 << 20
    /// How far the clocks of machines may be apart before a time counts as one that is still to come, in seconds.
    static let clockTolerance: UInt64 = 300
}
