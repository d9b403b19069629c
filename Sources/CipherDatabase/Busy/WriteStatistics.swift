/// Statistics of the writes of one connection since it was opened: how long they kept others from writing, and how long
/// they waited for others.
///
/// A write lasts from its first statement that writes until its transaction has ended. Percentiles are exact within an
/// eighth.
public struct WriteStatistics: Sendable, Equatable {
    /// The number of writes that have ended.
    public var count = 0
    /// Half of the writes were shorter.
    public var p50 = Duration.zero
    /// All but one in a hundred were shorter.
    public var p99 = Duration.zero
    /// The longest write.
    public var longest = Duration.zero
    /// The longest write: its label, or else its first statement. No value that was bound is in it.
    public var longestLabel: String?
    /// The number of writes that waited for another connection and then began.
    public var waitCount = 0
    /// The total time for which they waited.
    public var timeWaited = Duration.zero
    /// All but one in a hundred of those that waited did so for a shorter time.
    public var waitP99 = Duration.zero
    /// The longest wait.
    public var longestWait = Duration.zero
    /// The number of writes whose wait failed with `SQLITE_BUSY`.
    public var timeoutCount = 0
    /// Whether the connection waits in the writer queue of all processes; otherwise only SQLite's locks keep writers
    /// apart.
    public var usesWriterQueue = false

    public init() {}
}

/// A write that has ended, for logs and metrics.
public struct WriteEvent: Sendable {
    /// ``Database/writeLabel``, or else the first statement, without bound values.
    public let label: String
    /// How long other connections could not write.
    public let held: Duration
    /// How long the write had waited before.
    public let waited: Duration
    /// The name of the connection.
    public let connection: String
}

/// Counts durations in classes, each an eighth wider than the one before; it never grows.
struct DurationHistogram {
    private static let bits = 3
    private var counts = [UInt64](repeating: 0, count: (64 - bits + 1) << bits)
    private(set) var total: UInt64 = 0

    mutating func add(_ nanoseconds: UInt64) {
        counts[Self.index(of: nanoseconds)] &+= 1
        total &+= 1
    }

    /// The longest duration of the class in which the given part of all durations ends.
    func percentile(_ part: Double) -> UInt64 {
        guard total > 0 else { return 0 }
        let rank = max(1, UInt64((part * Double(total)).rounded(.up)))
        var seen: UInt64 = 0
        for (index, count) in counts.enumerated() {
            seen += count
            if seen >= rank { return Self.upperBound(of: index) }
        }
        return .max
    }

    private static func index(of value: UInt64) -> Int {
        guard value >= 1 << (bits + 1) else { return Int(value) }
        let shift = 63 - value.leadingZeroBitCount - bits
        return shift << bits + Int(value >> UInt64(shift))
    }

    private static func upperBound(of index: Int) -> UInt64 {
        guard index >= 2 << bits else { return UInt64(index) }
        let shift = UInt64(index >> bits - 1)
        let first = UInt64(index & (1 << bits - 1) | 1 << bits) << shift
        return first + (1 << shift - 1)
    }
}
