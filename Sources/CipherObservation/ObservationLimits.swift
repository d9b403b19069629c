/// Every bound of this module.
enum ObservationLimits {
    /// How many observers the end of each transaction checks, to remove those that were released.
    static let observersLookedAt = 8
    /// The monitor of external commits polls for the first time after this time, without a wake-up.
    static let firstPollTime = Duration.milliseconds(500)
    /// It polls after this time if a wake-up or a change of the files preceded the last poll.
    static let pollTime = Duration.seconds(5)
    /// It polls after this time if nothing has happened since the last poll.
    static let longestPollTime = Duration.seconds(60)
    /// It polls after this time if the system does not watch the files, so that other programs cannot wake it.
    static let pollTimeWithoutWatch = Duration.seconds(1)
    /// The first and the longest pause between two polls for a commit whose frames are being written.
    static let firstCommitPause = Duration.milliseconds(2)
    static let longestCommitPause = Duration.milliseconds(20)
    /// How long files are not watched after a change. The time doubles up to the longest one while wake-ups have already
    /// reported the changes.
    static let firstFileRest = Duration.milliseconds(1)
    static let longestFileRest = Duration.milliseconds(250)
    /// After this time without a change, the shortest pause follows the next change.
    static let quietFileTime = Duration.seconds(1)
    /// After an external commit, an observer fetches on the writing connection if its last fetch took at most this time,
    /// in nanoseconds.
    static let longestFetchInPoll: UInt64 = 1_000_000
    /// After this time, in nanoseconds, a poll leaves the fetches of more observers to the readers.
    static let longestPoll: UInt64 = 2_000_000
}
