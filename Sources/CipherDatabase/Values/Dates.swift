import Foundation

// A Date stands as TEXT `YYYY-MM-DD HH:MM:SS.SSS` in UTC, which sorts by time and which SQLite's date functions read.

extension Date: DatabaseValueConvertible {
    /// NULL for dates that are no point in time, as for numbers that are no number.
    public var databaseValue: DatabaseValue { DateText.string(from: self).map { DatabaseValue(.string($0)) } ?? .null }

    /// A TEXT in one of SQLite's date formats (UTC where no zone is given), or a number of seconds since 1970.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Date? {
        switch value.storage {
        case .string(let text): DateText.date(from: text)
        case .int64(let seconds): Date(timeIntervalSince1970: Double(seconds))
        case .double(let seconds): Date(timeIntervalSince1970: seconds)
        default: nil
        }
    }
}

/// The text form of a date, with arithmetic of its own: a formatter is slow, and shared ones must be locked.
enum DateText {
    /// `YYYY-MM-DD HH:MM:SS.SSS`, rounded to the millisecond; nil where the date is not a number, or no calendar counts
    /// so far. Years outside of 0 to 9999, which SQLite's functions do not know, take a sign or more digits.
    static func string(from date: Date) -> String? {
        guard let milliseconds = Int64(exactly: (date.timeIntervalSince1970 * 1000).rounded()) else { return nil }
        let (seconds, fraction) = milliseconds.flooredQuotient(by: 1000)
        let (days, second) = seconds.flooredQuotient(by: 86_400)
        let (year, month, day) = civil(fromDays: days)
        return padded(year, 4) + "-" + padded(month, 2) + "-" + padded(day, 2) + " "
            + padded(second / 3600, 2) + ":" + padded(second / 60 % 60, 2) + ":" + padded(second % 60, 2) + "."
            + padded(fraction, 3)
    }

    /// Reads `YYYY-MM-DD`, with `HH:MM`, `HH:MM:SS` or `HH:MM:SS.SSS` behind a blank or a T, and `Z` or `+HH:MM`.
    /// - SeeAlso: <https://www.sqlite.org/lang_datefunc.html>
    static func date(from text: String) -> Date? {
        var reader = Reader(rest: Array(text.utf8)[...])
        guard let year = reader.year(), reader.skip("-"),
            let month = reader.number(digits: 2), (1...12).contains(month), reader.skip("-"),
            let day = reader.number(digits: 2), (1...31).contains(day)
        else { return nil }
        var seconds = Double(days(fromYear: year, month: month, day: day)) * 86_400
        if reader.skip(" ") || reader.skip("T") {
            guard let time = reader.timeOfDay() else { return nil }
            seconds += time
            guard let offset = reader.zoneOffset() else { return nil }
            seconds -= offset
        }
        return reader.rest.isEmpty ? Date(timeIntervalSince1970: seconds) : nil
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

    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        mutating func year() -> Int64? {
            let sign: Int64 = skip("-") ? -1 : 1
            let digits = rest.prefix { (48...57).contains($0) }.count
            guard (4...9).contains(digits), let number = number(digits: digits) else { return nil }
            return sign * number
        }

        mutating func number(digits: Int) -> Int64? {
            guard rest.count >= digits else { return nil }
            var value: Int64 = 0
            for byte in rest.prefix(digits) {
                guard (48...57).contains(byte) else { return nil }
                value = value * 10 + Int64(byte - 48)
            }
            rest.removeFirst(digits)
            return value
        }

        mutating func timeOfDay() -> Double? {
            guard let hour = number(digits: 2), hour < 25, skip(":"), let minute = number(digits: 2), minute < 60
            else { return nil }
            var seconds = Double(hour * 3600 + minute * 60)
            guard skip(":") else { return seconds }
            guard let second = number(digits: 2), second < 61 else { return nil }
            seconds += Double(second)
            guard skip(".") else { return seconds }
            let digits = rest.prefix { (48...57).contains($0) }
            guard !digits.isEmpty, let fraction = Double("0." + String(decoding: digits, as: UTF8.self)) else {
                return nil
            }
            rest.removeFirst(digits.count)
            return seconds + fraction
        }

        mutating func zoneOffset() -> Double? {
            if rest.isEmpty || skip("Z") { return 0 }
            let sign: Double
            if skip("+") { sign = 1 } else if skip("-") { sign = -1 } else { return nil }
            guard let hours = number(digits: 2), skip(":"), let minutes = number(digits: 2) else { return nil }
            return sign * Double(hours * 3600 + minutes * 60)
        }
    }
}

extension Int64 {
    /// Quotient and remainder with the remainder never negative.
    fileprivate func flooredQuotient(by divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
