import Foundation

// A Date is stored as TEXT `YYYY-MM-DD HH:MM:SS.SSS` in UTC: it sorts by time and SQLite's date functions read it.

extension Date: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    /// NULL for dates that are not a point in time, as from a number that is NaN.
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

    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        let statement = StatementHandle(sqliteStatement)
        let date: Date? =
            switch statement.storageClass(at: index) {
            case .text: DateText.date(from: statement.utf8(at: index).assumingMemoryBound(to: UInt8.self))
            case .integer, .real: Date(timeIntervalSince1970: statement.double(at: index))
            case .null, .blob: nil
            }
        guard let date else { return nil }
        self = date
    }

    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        DateText.withPlainText(of: self) { StatementHandle(sqliteStatement).bind(utf8: $0, at: index) }
            ?? databaseValue.bind(to: sqliteStatement, at: index)
    }

    /// The point in time that components name, in UTC where they name no zone; nil for a time of day without a date.
    public init?(databaseDateComponents components: DatabaseDateComponents) {
        guard components.format.hasDate, let date = Date.fromDatabaseValue(components.databaseValue) else { return nil }
        self = date - TimeInterval(components.dateComponents.timeZone?.secondsFromGMT() ?? 0)
    }

    /// The point in time of a Julian day number, as SQLite's `julianday()` returns it: to the millisecond.
    ///
    /// - Parameter julianDay: Days, with their fraction, since noon in Greenwich on November 24, 4714 BC.
    /// - Returns: nil for what SQLite's functions do not accept: days outside of 0 to 5,373,484.5, the end of year
    ///   9999.
    /// - SeeAlso: <https://www.sqlite.org/lang_datefunc.html>
    public init?(julianDay: Double) {
        guard julianDay >= 0 && julianDay < 5_373_484.5 else { return nil }
        let beginOfUnixTime = 2_440_587.5
        self.init(timeIntervalSince1970: ((julianDay - beginOfUnixTime) * 86_400_000).rounded() / 1000)
    }
}
