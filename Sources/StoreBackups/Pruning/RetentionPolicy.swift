/// Which backups of a store are kept: each rule keeps some, and a backup that no rule keeps is removed.
///
/// Days, weeks (from Monday) and months are those of UTC. A rule counts only those that have backups, and keeps the last
/// backup of each.
public struct RetentionPolicy: Hashable, Sendable {
    /// The rules, in the order in which they are reported.
    public enum Rule: String, CaseIterable, Sendable {
        case last, daily, weekly, monthly
    }

    private var counts: [Rule: Int] = [:]
    /// For how long a replica must reach back; nil keeps all of it.
    let continuousSeconds: UInt64?

    /// - Parameters:
    ///   - last: How many of the newest backups are kept.
    ///   - daily: Of how many days the last backup is kept; so are `weekly` and `monthly`.
    ///   - continuousSeconds: The time, up to now, of which each moment of a replica is kept, in seconds; nil keeps all of
    ///     it. Without another rule all backups are kept.
    public init(
        last: Int = 0, daily: Int = 0, weekly: Int = 0, monthly: Int = 0, continuousSeconds: UInt64? = nil
    ) {
        let isForReplicas = continuousSeconds != nil && [last, daily, weekly, monthly].allSatisfy { $0 <= 0 }
        counts = [.last: isForReplicas ? .max : last, .daily: daily, .weekly: weekly, .monthly: monthly]
        self.continuousSeconds = continuousSeconds
    }

    /// Whether it keeps anything.
    public var keepsSomething: Bool { counts.values.contains { $0 > 0 } }

    /// A backup, as far as the rules regard it.
    struct Candidate: Hashable {
        let sequence: UInt64
        /// Seconds since 1970.
        let created: UInt64
    }

    /// The rules that keep each backup of one store.
    ///
    /// - Parameter backups: In the order in which they were made. The last one is kept by every policy.
    func reasons(_ backups: [Candidate]) -> [[Rule]] {
        var reasons = [[Rule]](repeating: [], count: backups.count)
        for rule in Rule.allCases {
            let limit = counts[rule] ?? 0
            if rule == .last {
                for index in backups.indices.suffix(max(1, limit)) { reasons[index].append(.last) }
                continue
            }
            // The newest of each period, by time: the clock may have jumped between two backups.
            var newest: [Int: Int] = [:]
            for (index, backup) in backups.enumerated() {
                let period = Self.period(rule, backup.created)
                if let other = newest[period], backups[other].created > backup.created { continue }
                newest[period] = index
            }
            for (_, index) in newest.sorted(by: { $0.key > $1.key }).prefix(max(0, limit)) {
                reasons[index].append(rule)
            }
        }
        return reasons
    }

    /// The number of the day, week or month of a time.
    static func period(_ rule: Rule, _ seconds: UInt64) -> Int {
        let day = Int(seconds / 86_400)
        switch rule {
        case .last, .daily: return day
        // 1970 began on a Thursday.
        case .weekly: return (day + 3) / 7
        case .monthly: return month(ofDay: day)
        }
    }

    /// Months since the year 0, by <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
    private static func month(ofDay day: Int) -> Int {
        let shifted = day + 719_468
        let era = shifted / 146_097
        let ofEra = shifted % 146_097
        let year = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * year + year / 4 - year / 100)
        let month = (5 * ofYear + 2) / 153
        // The year of this calendar begins in March.
        return (year + era * 400) * 12 + month + 2
    }
}
