/// A date, a time of day, or both, as a text contains them.
struct DateTextParts {
    var date: (year: Int64, month: Int64, day: Int64)?
    var hour: Int64?
    var minute: Int64?
    var second: Int64?
    /// The fraction of the second, where the text has one.
    var fraction: Double?
    /// The nanoseconds of the fraction; smaller parts are dropped.
    var nanosecond: Int64?
    /// East of Greenwich; nil where the text names no zone.
    var secondsFromGMT: Int64?

    var secondsOfDay: Int64 { (hour ?? 0) * 3600 + (minute ?? 0) * 60 + (second ?? 0) }
}

/// Reads the date and time formats of SQLite.
/// - SeeAlso: <https://www.sqlite.org/lang_datefunc.html>
struct DateTextReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Reads `YYYY-MM-DD`, `HH:MM`, `HH:MM:SS` or `HH:MM:SS.SSS`, or a date and a time with a blank or a T between
    /// them, and `Z` or `+HH:MM` after a time.
    ///
    /// - Returns: nil for every other text.
    static func parts(of bytes: UnsafeBufferPointer<UInt8>) -> DateTextParts? {
        var reader = DateTextReader(bytes)
        var parts = DateTextParts()
        // Only in a time is the third character a colon.
        if bytes.count > 2 && bytes[2] == UInt8(ascii: ":") {
            guard reader.readTime(&parts) else { return nil }
        } else {
            guard let year = reader.year(), reader.skip("-"),
                let month = reader.number(digits: 2), (1...12).contains(month), reader.skip("-"),
                let day = reader.number(digits: 2), (1...31).contains(day)
            else { return nil }
            parts.date = (year, month, day)
            if reader.skip(" ") || reader.skip("T") { guard reader.readTime(&parts) else { return nil } }
        }
        return reader.position == bytes.count ? parts : nil
    }

    static func parts(of text: String) -> DateTextParts? {
        var text = text
        return text.withUTF8 { parts(of: $0) }
    }

    // MARK: Pieces

    private mutating func readTime(_ parts: inout DateTextParts) -> Bool {
        guard let hour = number(digits: 2), hour < 25, skip(":"), let minute = number(digits: 2), minute < 60
        else { return false }
        (parts.hour, parts.minute) = (hour, minute)
        if skip(":") {
            guard let second = number(digits: 2), second < 61 else { return false }
            parts.second = second
            if skip(".") {
                guard readFraction(&parts) else { return false }
            }
        }
        return readZone(&parts)
    }

    private mutating func readFraction(_ parts: inout DateTextParts) -> Bool {
        var (value, unit): (Double, Double) = (0, 1)
        var (nanosecond, nanoseconds): (Int64, Int64) = (0, 100_000_000)
        let start = position
        while let digit = digit() {
            // A Double cannot hold more digits.
            if unit < 1e15 { (value, unit) = (value * 10 + Double(digit), unit * 10) }
            nanosecond += digit * nanoseconds
            nanoseconds /= 10
            position += 1
        }
        (parts.fraction, parts.nanosecond) = (value / unit, nanosecond)
        return position > start
    }

    private mutating func readZone(_ parts: inout DateTextParts) -> Bool {
        while skip(" ") {}
        if position == bytes.count { return true }
        if skip("Z") {
            parts.secondsFromGMT = 0
            return true
        }
        let isEast = skip("+")
        guard isEast || skip("-"), let hours = number(digits: 2), skip(":"), let minutes = number(digits: 2) else {
            return false
        }
        parts.secondsFromGMT = (isEast ? 1 : -1) * (hours * 3600 + minutes * 60)
        return true
    }

    private mutating func year() -> Int64? {
        let sign: Int64 = skip("-") ? -1 : 1
        let digits = bytes[position...].prefix { (48...57).contains($0) }.count
        guard (4...9).contains(digits), let number = number(digits: digits) else { return nil }
        return sign * number
    }

    private mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private func digit() -> Int64? {
        guard position < bytes.count, (48...57).contains(bytes[position]) else { return nil }
        return Int64(bytes[position]) - 48
    }

    private mutating func number(digits: Int) -> Int64? {
        var value: Int64 = 0
        for _ in 0..<digits {
            guard let digit = digit() else { return nil }
            value = value * 10 + digit
            position += 1
        }
        return value
    }
}
