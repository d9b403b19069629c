/// Every bound of this module.
enum Limits {
    /// How long the opening lock is waited for where nobody is kept waiting meanwhile.
    static let openingWait = Duration.seconds(30)
    /// How long it is waited for before the wait is reported.
    static let waitBeforeReport = Duration.seconds(2)
    /// How long a change of slots may take that comes before.
    static let adminWait = Duration.seconds(2)
    /// How long the write lock is waited for where nobody is kept waiting meanwhile.
    static let busyWait = Duration.seconds(30)
    /// How long it is waited for while everybody waits to go on.
    static let pausedBusyWait = Duration.milliseconds(50)
    /// A page that fails its authentication is read again this often, with ``rereadPause`` in between.
    static let rereads = 100
    static let rereadPause = Duration.milliseconds(1)
    /// So much of the copy is written before the system is asked to pass it on to the medium.
    static let writebackBytes = 8 * 1024 * 1024
    /// The pause after a request to yield that was withdrawn; it doubles with each.
    static let firstWithdrawal = Duration.milliseconds(100)
    static let longestWithdrawal = Duration.seconds(10)
    /// How often progress is told.
    static let progressInterval = Duration.milliseconds(100)
    /// Pages by which the speed is measured before.
    static let sampleBytes = 16 * 1024 * 1024
    /// Reading the copy back costs so much of what copying costs; for the estimate of the time only.
    static let verificationShare = 0.45
    /// What carrying one page over costs before it was measured.
    static let assumedPageCost = Duration.microseconds(40)
    /// The log may grow to this length wherever there is room.
    static let smallestLogLimitBytes = 64 * 1024 * 1024
    /// What the log needs at least, beside the copy.
    static let smallestLogGrowthBytes = 16 * 1024 * 1024
    /// Problems that `integrity_check` reports at most.
    static let integrityProblems = 20
    /// How often it is looked whether `integrity_check` is to end.
    static let cancellationInterval = Duration.milliseconds(50)
}
