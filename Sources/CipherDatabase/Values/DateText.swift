import Foundation

/// The text form of a date, with its own arithmetic: a formatter is slow, and shared ones must be locked.
enum DateText {
    /// `YYYY-MM-DD HH:MM:SS.SSS`, rounded to the millisecond; nil where the date is not a number, or out of the range
    /// of any calendar. Years outside of 0 to 9999, which SQLite's functions do not accept, have a sign or more digits.
    static func string(from date: Date) -> String? {
        if let plain = withPlainText(of: date, { String(decoding: $0, as: UTF8.self) }) { return plain }
        guard let moment = Moment(date) else { return nil }
        return padded(moment.year, 4) + "-" + padded(moment.month, 2) + "-" + padded(moment.day, 2) + " "
            + padded(moment.hour, 2) + ":" + padded(moment.minute, 2) + ":" + padded(moment.second, 2) + "."
            + padded(moment.millisecond, 3)
    }

    /// The length of the text of a date in the years 0 to 9999, in bytes.
    private static let plainBytes = 23

    /// Passes the text of a date in the years 0 to 9999 to a closure; nil for others.
    static func withPlainText<T>(of date: Date, _ body: (UnsafeBufferPointer<UInt8>) -> T) -> T? {
        guard let moment = Moment(date), (0...9999).contains(moment.year) else { return nil }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: plainBytes) { text in
            put(moment.year, 4, in: text, at: 0, behind: nil)
            put(moment.month, 2, in: text, at: 5, behind: "-")
            put(moment.day, 2, in: text, at: 8, behind: "-")
            put(moment.hour, 2, in: text, at: 11, behind: " ")
            put(moment.minute, 2, in: text, at: 14, behind: ":")
            put(moment.second, 2, in: text, at: 17, behind: ":")
            put(moment.millisecond, 3, in: text, at: 20, behind: ".")
            return body(UnsafeBufferPointer(text))
        }
    }

    /// A point in time by calendar and clock in UTC.
    private struct Moment {
        let (year, month, day): (Int64, Int64, Int64)
        let (hour, minute, second): (Int64, Int64, Int64)
        let millisecond: Int64

        init?(_ date: Date) {
            guard let milliseconds = Int64(exactly: (date.timeIntervalSince1970 * 1000).rounded()) else { return nil }
            let (seconds, millisecond) = milliseconds.flooredQuotient(by: 1000)
            let (days, secondOfDay) = seconds.flooredQuotient(by: 86_400)
            (year, month, day) = civil(fromDays: days)
            (hour, minute, second) = (secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60)
            self.millisecond = millisecond
        }
    }

    /// Writes a number with all of its digits, after a given character.
    private static func put(
        _ number: Int64, _ width: Int, in text: UnsafeMutableBufferPointer<UInt8>, at position: Int,
        behind separator: Unicode.Scalar?
    ) {
        if let separator { text[position - 1] = UInt8(ascii: separator) }
        var rest = number
        for index in (position..<(position + width)).reversed() {
            text[index] = UInt8(48 + rest % 10)
            rest /= 10
        }
    }

    /// The point in time of a text in one of SQLite's formats with a date; UTC where no zone is given.
    static func date(from text: String) -> Date? {
        var text = text
        return text.withUTF8 { date(from: $0) }
    }

    static func date(from bytes: UnsafeBufferPointer<UInt8>) -> Date? {
        if let plain = plainDate(from: bytes) { return plain }
        guard let parts = DateTextReader.parts(of: bytes), let date = parts.date else { return nil }
        let days = days(fromYear: date.year, month: date.month, day: date.day)
        let seconds = days * 86_400 + parts.secondsOfDay - (parts.secondsFromGMT ?? 0)
        return Date(timeIntervalSince1970: Double(seconds) + (parts.fraction ?? 0))
    }

    /// Reads the form in which dates are written: most texts have it, and it needs no branches. nil for every other
    /// text.
    private static func plainDate(from bytes: UnsafeBufferPointer<UInt8>) -> Date? {
        guard bytes.count == plainBytes, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: " "), bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            bytes[19] == UInt8(ascii: ".")
        else { return nil }
        // No branch for each digit: a byte that is not a digit leaves a value above 9, and is found at the end.
        var highest: UInt8 = 0
        @inline(__always)
        func number(at start: Int, _ digits: Int) -> Int64 {
            var value: Int64 = 0
            for index in start..<(start &+ digits) {
                let digit = bytes[index] &- 48
                highest = max(highest, digit)
                value = value &* 10 &+ Int64(digit)
            }
            return value
        }
        let (year, month, day) = (number(at: 0, 4), number(at: 5, 2), number(at: 8, 2))
        let (hour, minute, second) = (number(at: 11, 2), number(at: 14, 2), number(at: 17, 2))
        let millisecond = number(at: 20, 3)
        guard highest < 10, (1...12).contains(month), (1...31).contains(day), hour < 25, minute < 60, second < 61
        else { return nil }
        let minutes = (days(fromYear: year, month: month, day: day) * 24 + hour) * 60 + minute
        return Date(timeIntervalSince1970: Double(minutes * 60 + second) + Double(millisecond) / 1000)
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(abs(number))
        return (number < 0 ? "-" : "") + String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    // Both directions of the proleptic Gregorian calendar count years from March, so that the leap day comes last.
    private static func civil(fromDays days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = (days + 719_468).flooredQuotient(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    private static func days(fromYear year: Int64, month: Int64, day: Int64) -> Int64 {
        let (era, yearOfEra) = (month <= 2 ? year - 1 : year).flooredQuotient(by: 400)
        let shiftedMonth = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * shiftedMonth + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension Int64 {
    /// Quotient and remainder with the remainder never negative.
    fileprivate func flooredQuotient(by divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
