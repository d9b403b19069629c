/// Which numbers of a branch a remote has: disjoint ranges in ascending order.
struct Coverage: Hashable, Sendable {
    private(set) var ranges: [ClosedRange<UInt64>] = []

    mutating func insert(_ range: ClosedRange<UInt64>) {
        var merged = range
        var kept: [ClosedRange<UInt64>] = []
        for other in ranges {
            // Ranges that touch become one.
            if other.upperBound < merged.lowerBound && merged.lowerBound - other.upperBound > 1
                || other.lowerBound > merged.upperBound && other.lowerBound - merged.upperBound > 1
            {
                kept.append(other)
            } else {
                merged = min(merged.lowerBound, other.lowerBound)...max(merged.upperBound, other.upperBound)
            }
        }
        ranges = (kept + [merged]).sorted { $0.lowerBound < $1.lowerBound }
    }

    /// The ranges of 1...last that are not covered.
    func gaps(upTo last: UInt64) -> [ClosedRange<UInt64>] {
        var (found, next) = ([ClosedRange<UInt64>](), UInt64(1))
        for range in ranges where range.lowerBound <= last {
            if range.lowerBound > next { found.append(next...range.lowerBound - 1) }
            next = range.upperBound + 1
        }
        if next <= last { found.append(next...last) }
        return found
    }
}
