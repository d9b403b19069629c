import CipherDatabase
import Foundation
import Testing

@Suite struct DateTests {
    let queue = DatabaseQueue()

    private func date(_ text: String) -> Double? {
        Date.fromDatabaseValue(text.databaseValue)?.timeIntervalSince1970
    }

    private func text(_ seconds: Double) -> DatabaseValue { Date(timeIntervalSince1970: seconds).databaseValue }

    @Test(
        "a date is read from every format that SQLite's functions take",
        arguments: [
            ("2024-02-29", 1_709_164_800), ("2024-02-29 12:30", 1_709_209_800), ("2024-02-29T12:30", 1_709_209_800),
            ("2024-02-29 12:30:15", 1_709_209_815), ("2024-02-29T12:30:15.25", 1_709_209_815.25),
            ("2024-02-29 12:30:15.123456", 1_709_209_815.123456), ("2024-02-29T12:30:15Z", 1_709_209_815),
            ("2024-02-29T12:30:15.5+02:00", 1_709_202_615.5), ("2024-02-29 12:30-01:30", 1_709_215_200),
            ("1970-01-01 00:00:00.000", 0), ("0001-01-01 00:00:00.000", -62_135_596_800),
            ("9999-12-31 23:59:59.999", 253_402_300_799.999), ("2023-02-29", 1_677_628_800),
        ])
    func formats(text: String, seconds: Double) throws {
        let found = try #require(date(text))
        #expect(abs(found - seconds) < 0.00001)
        let days = try queue.read { try Double.fetchOne($0, sql: "SELECT julianday(?)", arguments: [text]) }
        #expect(abs((try #require(days) - 2_440_587.5) * 86_400 - found) < 0.002)
    }

    @Test(
        "what is no date is refused",
        arguments: [
            "", "2024", "2024-13-01", "2024-00-01", "2024-01-00", "2024-01-32", "24-01-01", "2024-1-1", "2024/01/01",
            "2024-01-01 ", "2024-01-01 12", "2024-01-01 12:60", "2024-01-01 25:00", "2024-01-01 12:00:61",
            "2024-01-01 12:00:00.", "2024-01-01 12:00:00+0200", "2024-01-01 12:00:00 UTC", "2024-01-01x", "tomorrow",
            "-2024-01-0١",
        ])
    func refused(text: String) {
        #expect(date(text) == nil)
    }

    @Test("numbers are seconds since 1970, and bytes are no date")
    func numbers() {
        #expect(Date.fromDatabaseValue(1_709_164_800.databaseValue)?.timeIntervalSince1970 == 1_709_164_800)
        #expect(Date.fromDatabaseValue(0.25.databaseValue)?.timeIntervalSince1970 == 0.25)
        #expect(Date.fromDatabaseValue(Data([1]).databaseValue) == nil)
        #expect(Date.fromDatabaseValue(.null) == nil)
    }

    @Test("a date is written in UTC, rounded to the millisecond")
    func writing() {
        #expect(text(0) == "1970-01-01 00:00:00.000")
        #expect(text(0.0004) == "1970-01-01 00:00:00.000")
        #expect(text(0.0006) == "1970-01-01 00:00:00.001")
        #expect(text(59.9996) == "1970-01-01 00:01:00.000")
        #expect(text(-0.001) == "1969-12-31 23:59:59.999")
        #expect(text(951_782_400) == "2000-02-29 00:00:00.000")
        #expect(text(1_709_209_815.25) == "2024-02-29 12:30:15.250")
    }

    @Test("dates beyond the years of SQLite come back, and dates without end are NULL")
    func extremes() throws {
        for seconds in [253_402_300_800.0, -62_167_219_201, 1e12, -1e12] {
            let stored = Date(timeIntervalSince1970: seconds).databaseValue
            #expect(Date.fromDatabaseValue(stored)?.timeIntervalSince1970 == seconds, "\(stored)")
        }
        for seconds in [Double.infinity, -.infinity, .nan, 1e300] { #expect(text(seconds).isNull) }
        #expect(Date.fromDatabaseValue(Date.distantFuture.databaseValue) == .distantFuture)
        #expect(Date.fromDatabaseValue(Date.distantPast.databaseValue) == .distantPast)
    }

    // The components of `.9999999999` had 1,000,000,000 nanoseconds, which were written as `.1000`: a tenth of a
    // second.
    @Test(
        "a fraction of more digits than there are nanoseconds stays in its second",
        arguments: [
            ("23:59:59.9999999999", 999_999_999), ("00:00:00.00000000099", 0), ("10:20:30.123456789999", 123_456_789),
            ("10:20:30.1", 100_000_000), ("10:20:30.000000001", 1), ("10:20:30.0000000000000000000000001", 0),
        ])
    func longFractions(text: String, nanoseconds: Int) throws {
        let found = try #require(DatabaseDateComponents.fromDatabaseValue("2024-02-29 \(text)".databaseValue))
        #expect(found.dateComponents.nanosecond == nanoseconds)
        let date = try #require(Date(databaseDateComponents: found)).timeIntervalSince1970
        let second = try #require(self.date("2024-02-29 " + text.prefix(8)))
        #expect(date >= second && date < second + 1)
        #expect(abs(date - second - Double(nanoseconds / 1_000_000) / 1000) < 0.00001)
    }

    @Test("nanoseconds that are no part of a second do not spoil the text")
    func wrongNanoseconds() {
        func text(_ nanosecond: Int) -> DatabaseValue {
            DatabaseDateComponents(DateComponents(hour: 1, nanosecond: nanosecond), format: .HMSS).databaseValue
        }
        #expect(text(1_000_000_000) == "01:00:00.999")
        #expect(text(-5_000_000) == "01:00:00.000")
    }

    @Test("a Julian day is the point in time that SQLite takes it for")
    func julianDays() throws {
        let texts = ["1970-01-01 00:00:00.000", "2024-02-29 12:30:15.123", "0000-01-01", "9999-12-31 23:59:59.999"]
        for text in texts {
            let day = try queue.read { try Double.fetchOne($0, sql: "SELECT julianday(?)", arguments: [text]) }
            let seconds = try #require(day.flatMap { Date(julianDay: $0)?.timeIntervalSince1970 })
            let expected = try #require(date(text))
            #expect(abs(seconds - expected) < 0.0005, "\(text)")
        }
        #expect(Date(julianDay: 2_456_293.520833)?.databaseValue == "2013-01-01 00:29:59.971")
        #expect(Date(julianDay: 0) != nil)
        for day in [-0.1, 5_373_484.5, .infinity, .nan] { #expect(Date(julianDay: day) == nil) }
    }
}
