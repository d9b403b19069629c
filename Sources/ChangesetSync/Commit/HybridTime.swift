/// The time of a commit by a hybrid logical clock: milliseconds since 1970 times 65,536, plus a counter.
///
/// - SeeAlso: S. Kulkarni and others, "Logical Physical Clocks", 2014
package struct HybridTime: Hashable, Sendable, Comparable {
    /// The number, as it is stored and compared. At most ``latest``, so that SQLite stores it as an INTEGER.
    package let rawValue: UInt64

    /// A greater number than that of ``latest`` counts as ``latest``.
    package init(rawValue: UInt64) { self.rawValue = min(rawValue, UInt64(Int64.max)) }

    private static let counterBits: UInt64 = 16
    /// The latest time, the greatest INTEGER of SQLite.
    package static let latest = HybridTime(rawValue: UInt64(Int64.max))
    /// The latest time that a wall clock gives, in the year 4199. A later clock counts as this one.
    package static let latestOfWallClock = HybridTime(rawValue: 1 << 62)

    /// Milliseconds since 1970.
    package var milliseconds: UInt64 { rawValue >> Self.counterBits }
    /// Distinguishes the commits of one millisecond.
    package var counter: UInt64 { rawValue & (1 << Self.counterBits - 1) }

    /// The time of a wall clock; one before 1970 counts as 1970.
    package init(wallClock milliseconds: Int64) {
        let most = Self.latestOfWallClock.rawValue >> Self.counterBits
        rawValue = min(UInt64(clamping: milliseconds), most) << Self.counterBits
    }

    /// The least later time. The latest time has none and is its own successor.
    package var successor: HybridTime { HybridTime(rawValue: rawValue + 1) }

    /// How far it is ahead of a wall clock; zero if it is not.
    func lead(overWallClock milliseconds: Int64) -> Duration {
        let ahead = Int64(clamping: self.milliseconds).subtractingReportingOverflow(milliseconds)
        return .milliseconds(ahead.overflow ? .max : max(ahead.partialValue, 0))
    }

    package static func < (left: HybridTime, right: HybridTime) -> Bool { left.rawValue < right.rawValue }
}
