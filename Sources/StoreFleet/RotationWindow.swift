import Foundation

/// The times of a week in which a rotation may begin, by the clock of a place: `Sat,Sun 01:00-05:00`.
///
/// One that begins in the window may end after it.
package struct RotationWindow: Hashable, Sendable {
    /// Weekdays, 1 for Sunday, as Foundation numbers them.
    let days: Set<Int>
    /// Minutes after midnight. An end that is not later than the start is on the next day.
    let start: Int
    let end: Int

    private static let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

    /// - Returns: Nil for a text of another form than `[DAYS ]HH:MM-HH:MM`, in which DAYS is a list such as `Mon-Fri,Sun`.
    package init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard (1...2).contains(words.count), let times = words.last else { return nil }
        guard let days = words.count == 2 ? Self.days(words[0]) : Set(1...7) else { return nil }
        let ends = times.split(separator: "-", omittingEmptySubsequences: false).map(Self.minutes)
        guard ends.count == 2, let start = ends[0], let end = ends[1], start != end, start < 1440 else { return nil }
        (self.days, self.start, self.end) = (days, start, end)
    }

    private static func days(_ text: Substring) -> Set<Int>? {
        var days: Set<Int> = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let ends = part.split(separator: "-", omittingEmptySubsequences: false).map {
                names.firstIndex(of: $0.lowercased())
            }
            guard (1...2).contains(ends.count), let first = ends[0], let last = ends[ends.count - 1] else { return nil }
            var day = first
            days.insert(day + 1)
            while day != last {
                day = (day + 1) % 7
                days.insert(day + 1)
            }
        }
        return days.isEmpty ? nil : days
    }

    private static func minutes(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let isNumber = parts.allSatisfy { $0.count == 2 && $0.allSatisfy { $0.isASCII && $0.isNumber } }
        guard parts.count == 2, isNumber, let hours = Int(parts[0]), let minutes = Int(parts[1]), minutes < 60 else {
            return nil
        }
        return hours < 24 || (hours == 24 && minutes == 0) ? hours * 60 + minutes : nil
    }

    /// Whether a rotation may begin.
    package func isOpen(at time: Date, in calendar: Calendar = .machine) -> Bool {
        openings(around: time, calendar).contains { $0.contains(time) && time < $0.end }
    }

    /// The next beginning of the window after a time.
    package func nextOpening(after time: Date, in calendar: Calendar = .machine) -> Date? {
        openings(around: time, calendar).map(\.start).filter { $0 > time }.min()
    }

    /// The openings from the day before a time to a week and a day after it.
    private func openings(around time: Date, _ calendar: Calendar) -> [DateInterval] {
        let today = calendar.startOfDay(for: time)
        return (-1...8).compactMap { offset in
            guard let day = calendar.date(byAdding: .day, value: offset, to: today),
                days.contains(calendar.component(.weekday, from: day)),
                let start = Self.date(start, on: day, calendar),
                let lastDay = end > self.start ? day : calendar.date(byAdding: .day, value: 1, to: day),
                let end = Self.date(end, on: lastDay, calendar), end > start
            else { return nil }
            return DateInterval(start: start, end: end)
        }
    }

    /// A time of a day. One that a change of the clock leaves out is the next one that there is.
    private static func date(_ minutes: Int, on day: Date, _ calendar: Calendar) -> Date? {
        if minutes == 1440 { return calendar.date(byAdding: .day, value: 1, to: day) }
        return calendar.date(bySettingHour: minutes / 60, minute: minutes % 60, second: 0, of: day)
    }
}

extension Calendar {
    /// The Gregorian calendar in the time zone of this machine, or of `TZ`.
    package static var machine: Calendar {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .current
        return calendar
    }
}
