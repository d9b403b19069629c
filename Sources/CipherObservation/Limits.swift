/// Every bound of this module.
enum Limits {
    /// How many observers are looked at in each end of a transaction, to find those that are gone.
    static let observersLookedAt = 8
    /// After this time the monitor of other connections polls for the first time without being woken.
    static let firstPollTime = Duration.milliseconds(500)
    /// The same after anything has happened.
    static let pollTime = Duration.seconds(5)
    /// The same where nothing has happened since the poll before.
    static let longestPollTime = Duration.seconds(60)
    /// The same where it cannot be woken by programs that do not use the library.
    static let pollTimeWithoutWatch = Duration.seconds(1)
    /// The first and the longest pause between two polls for a commit whose frames are being written.
    static let firstCommitPause = Duration.milliseconds(2)
    static let longestCommitPause = Duration.milliseconds(20)
    /// How long files are not watched after a change; it doubles up to the longest time while the changes are known
    /// from elsewhere.
    static let firstFileRest = Duration.milliseconds(1)
    static let longestFileRest = Duration.milliseconds(250)
    /// After this time without a change the next one is again followed by the shortest rest.
    static let quietFileTime = Duration.seconds(1)
    /// The longest fetch, by the one before it, that is made on the writing connection when others have changed what it
    /// reads, in nanoseconds.
    static let longestFetchInPoll: UInt64 = 1_000_000
    /// After this time, in nanoseconds, a poll leaves the fetches of more observers to the readers.
    static let longestPoll: UInt64 = 2_000_000
}
