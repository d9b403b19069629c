/// Every bound of this module.
enum RotationLimits {
    /// The longest wait for the opening lock while no process is paused.
    static let openingWait = Duration.seconds(30)
    /// The length of a wait after which it is reported.
    static let waitBeforeReport = Duration.seconds(2)
    /// The longest wait for a change of keyslots that holds the admin lock.
    static let adminWait = Duration.seconds(2)
    /// The longest wait for the write lock while no process is paused.
    static let busyWait = Duration.seconds(30)
    /// The longest wait for a program without leases that closes its connection.
    static let closingWait = Duration.seconds(1)
    /// The longest wait for the write lock while all processes are paused.
    static let pausedBusyWait = Duration.milliseconds(50)
    /// A page that fails its authentication is read again this often, with ``rereadPause`` in between.
    static let rereads = 100
    static let rereadPause = Duration.milliseconds(1)
    /// Bytes of the copy that are written before the system is asked to write them to disk.
    static let writebackBytes = 8 * 1024 * 1024
    /// The time after a withdrawn request to yield until the next one; it doubles with each.
    static let firstWithdrawal = Duration.milliseconds(100)
    static let longestWithdrawal = Duration.seconds(10)
    /// The interval of progress reports.
    static let progressInterval = Duration.milliseconds(100)
    /// Bytes of pages with which the preflight measures the speed.
    static let sampleBytes = 16 * 1024 * 1024
    /// The time to read the copy back, as a share of the time to copy. Used for the time estimate only.
    static let verificationShare = 0.45
    /// The assumed time to carry over one page, until it was measured.
    static let assumedPageCost = Duration.microseconds(40)
    /// The WAL may grow to this length wherever there is space.
    static let smallestWALLimitBytes = 64 * 1024 * 1024
    /// The space that the WAL needs at least, in addition to the copy.
    static let smallestLogGrowthBytes = 16 * 1024 * 1024
    /// The most problems that `integrity_check` reports.
    static let integrityProblems = 20
    /// The interval at which the cancellation of `integrity_check` is checked.
    static let cancellationInterval = Duration.milliseconds(50)
}
