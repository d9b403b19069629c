/// The transaction of the history's rows as one number: its time and its author.
///
/// The numbers of two transactions that follow each other differ, so a transaction begins where the number changes.
struct HistoryStamp: Equatable {
    /// Milliseconds since the beginning of 2020.
    let time: Int64
    /// The number of the author; 0 where it could not be recorded.
    let author: Int64

    /// The highest number of an author.
    static let authors: Int64 = 1 << authorBits - 1
    private static let authorBits: Int64 = 22
    fileprivate static let times: Int64 = 1 << 41 - 1
    /// The beginning of 2020, in seconds of Unix time.
    private static let epoch: Int64 = 1_577_836_800

    init(time: Int64, author: Int64) {
        self.time = min(max(time, 1), Self.times)
        self.author = author & Self.authors
    }

    /// - Returns: Nil for a number that is no stamp.
    init?(_ number: Int64) {
        guard number > 0 else { return nil }
        time = number >> Self.authorBits
        author = number & Self.authors
    }

    var number: Int64 { time << Self.authorBits | author }

    /// In seconds of Unix time.
    var seconds: Double { Double(Self.epoch) + Double(time) / 1_000 }

    /// The time of a moment that is given in seconds of Unix time.
    static func time(ofSeconds seconds: Double) -> Int64 {
        let milliseconds = (seconds - Double(epoch)) * 1_000
        return milliseconds > 0 ? Int64(min(milliseconds, Double(times))) : 0
    }
}

/// Gives each transaction of a connection a time that the transaction before it does not have, whatever the clock does.
struct HistoryClock {
    /// The time of the transaction under way; nil before its first recorded row.
    private var current: Int64?
    /// The latest time that was given, perhaps to a transaction that was rolled back.
    private var latest: Int64 = 0
    private var committed: Int64 = 0
    /// Below this, a clock that was set back only makes the times lag.
    private static let slackMilliseconds: Int64 = 10_000

    /// The time of the transaction under way.
    mutating func time(now: @autoclosure () -> Int64) -> Int64 {
        if let current { return current }
        var time = min(max(now(), 1), HistoryStamp.times)
        if time <= latest && latest - time < Self.slackMilliseconds { time = min(latest + 1, HistoryStamp.times) }
        if time == committed { time += time < HistoryStamp.times ? 1 : -1 }
        (current, latest) = (time, time)
        return time
    }

    mutating func transactionDidEnd(committing: Bool) {
        if committing, let current { committed = current }
        current = nil
    }
}
