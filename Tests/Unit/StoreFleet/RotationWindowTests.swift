import Foundation
import StoreFleet
import Testing

@Suite("Rotation windows")
struct RotationWindowTests {
    private func calendar(_ zone: String) throws -> Calendar {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: zone))
        return calendar
    }

    private func date(_ text: String) throws -> Date { try Date(text, strategy: .iso8601) }

    @Test(
        "a window is open from its start to its end, on its days",
        arguments: [
            ("Sat,Sun 01:00-05:00", "2026-11-28T01:00:00Z", true),
            ("Sat,Sun 01:00-05:00", "2026-11-28T04:59:59Z", true),
            ("Sat,Sun 01:00-05:00", "2026-11-28T05:00:00Z", false),
            ("Sat,Sun 01:00-05:00", "2026-11-30T02:00:00Z", false),
            ("22:30-04:00", "2026-11-30T03:59:00Z", true), ("22:30-04:00", "2026-11-30T22:30:00Z", true),
            ("22:30-04:00", "2026-11-30T12:00:00Z", false), ("fri 23:00-01:00", "2026-11-28T00:30:00Z", true),
            ("Fri 23:00-01:00", "2026-11-27T00:30:00Z", false), ("Mon-Fri 00:00-24:00", "2026-11-27T23:59:59Z", true),
            ("Mon-Fri 00:00-24:00", "2026-11-28T00:00:00Z", false),
            ("Sat-Mon 10:00-11:00", "2026-11-29T10:00:00Z", true),
        ])
    func open(_ text: String, _ time: String, _ isOpen: Bool) throws {
        let window = try #require(RotationWindow(text))
        #expect(try window.isOpen(at: date(time), in: calendar("UTC")) == isOpen)
    }

    @Test("the next opening is named, over the end of a week and in the time of the machine")
    func next() throws {
        let window = try #require(RotationWindow("Sat 01:00-05:00"))
        let utc = try calendar("UTC")
        #expect(try window.nextOpening(after: date("2026-11-28T01:00:00Z"), in: utc) == date("2026-12-05T01:00:00Z"))
        #expect(try window.nextOpening(after: date("2026-11-28T00:59:59Z"), in: utc) == date("2026-11-28T01:00:00Z"))
        let berlin = try calendar("Europe/Berlin")
        #expect(try window.nextOpening(after: date("2026-11-25T12:00:00Z"), in: berlin) == date("2026-11-28T00:00:00Z"))
    }

    @Test("a change of the clock neither loses nor doubles a window")
    func clockChanges() throws {
        let berlin = try calendar("Europe/Berlin")
        let window = try #require(RotationWindow("02:30-04:00"))
        // On 2026-03-29 the clock goes from 02:00 to 03:00: the window begins at once then.
        #expect(try window.isOpen(at: date("2026-03-29T01:30:00Z"), in: berlin))
        #expect(try !window.isOpen(at: date("2026-03-29T02:00:00Z"), in: berlin))
        // On 2026-10-25 it goes from 03:00 to 02:00.
        #expect(try window.isOpen(at: date("2026-10-25T02:30:00Z"), in: berlin))
    }

    @Test(
        "other texts are no window",
        arguments: [
            "", "01:00", "01:00-01:00", "1:00-2:00", "25:00-26:00", "24:00-25:00", "01:60-02:00", "Foo 01:00-02:00",
            "Sat,  01:00-02:00",
            "Sat 01:00-02:00 x", "Sat, 01:00-02:00", "01:00-02:00-03:00", "Mon-Tue-Wed 01:00-02:00", "-",
            "01:00 - 02:00",
        ])
    func invalid(_ text: String) { #expect(RotationWindow(text) == nil) }
}
