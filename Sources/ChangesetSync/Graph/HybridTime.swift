/// The time of a commit by a hybrid logical clock: milliseconds since 1970 times 65,536, plus a counter.
///
/// It follows the wall clock, and each commit is later than its parents, whatever their clocks said. Only parents
/// count: a commit that was fetched moves the time of its descendants alone.
///
/// - SeeAlso: S. Kulkarni and others, "Logical Physical Clocks", 2014
public struct HybridTime: Hashable, Sendable {
    /// The number, as it is stored and compared.
    public let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    private static let counterBits: UInt64 = 16
    /// The latest time, the greatest INTEGER of SQLite.
    package static let latest = HybridTime(rawValue: UInt64(Int64.max))
    /// The latest time that a wall clock gives, in the year 4199. A clock that is later, and so is wrong, counts as
    /// this, so that 2^62 commits after it have a time.
    static let latestOfWallClock = HybridTime(rawValue: 1 << 62)

    /// Milliseconds since 1970.
    public var milliseconds: UInt64 { rawValue >> Self.counterBits }
    /// Distinguishes the commits of one millisecond. With more than 65,536 of them the milliseconds run ahead of the
    /// clock.
    public var counter: UInt64 { rawValue & (1 << Self.counterBits - 1) }

    /// The time of a wall clock; one before 1970 counts as 1970.
    package init(wallClock milliseconds: Int64) {
        let most = Self.latestOfWallClock.rawValue >> Self.counterBits
        rawValue = min(UInt64(clamping: milliseconds), most) << Self.counterBits
    }

    /// The time of a new commit.
    ///
    /// - Parameter parents: The times of its parents.
    /// - Throws: ``CommitError`` when a parent has the latest time there is; no clock gives it.
    package init(wallClock milliseconds: Int64, after parents: [HybridTime]) throws(CommitError) {
        let wall = HybridTime(wallClock: milliseconds)
        guard let parent = parents.max() else {
            self = wall
            return
        }
        guard parent < .latest else { throw CommitError(.timeExhausted) }
        self = max(wall, HybridTime(rawValue: parent.rawValue + 1))
    }

    /// The time of a merge: that of its later parent. Nothing of the machine that merges is in it.
    package init(mergeOf first: HybridTime, _ second: HybridTime) { self = max(first, second) }

    /// Whether a commit of this kind with these parents can have the time. A time later than any clock's must be
    /// reached by single steps, so nobody can use up all times at once.
    package func isPossible(for kind: Commit.Kind, after parents: [HybridTime]) -> Bool {
        let parent = parents.max()
        if kind == .merge { return self == parent }
        guard let parent else { return self <= .latestOfWallClock }
        return self > parent && (self <= .latestOfWallClock || rawValue - 1 == parent.rawValue)
    }

    /// How far it is ahead of a wall clock; zero when it is not.
    package func lead(overWallClock milliseconds: Int64) -> Duration {
        let ahead = Int64(clamping: self.milliseconds).subtractingReportingOverflow(milliseconds)
        return .milliseconds(ahead.overflow ? .max : max(ahead.partialValue, 0))
    }
}

extension HybridTime: Comparable {
    public static func < (left: HybridTime, right: HybridTime) -> Bool { left.rawValue < right.rawValue }
}

/// The place of a commit among all others: by time, then author, then identifier. The order is the same at every
/// replica, and a commit comes after its ancestors.
struct CommitStamp: Hashable, Comparable, Sendable {
    let time: HybridTime
    let author: AuthorID
    let id: CommitID

    static func < (left: CommitStamp, right: CommitStamp) -> Bool {
        (left.time, left.author, left.id) < (right.time, right.author, right.id)
    }
}
