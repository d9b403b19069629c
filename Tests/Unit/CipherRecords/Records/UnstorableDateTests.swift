import CipherDatabase
import CipherRecords
import Foundation
import Testing

/// Dates that a text cannot say.
@Suite struct UnstorableDateTests {
    private struct Text: Codable, FetchableRecord, PersistableRecord {
        static let databaseTableName = "event"
        static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy { .iso8601 }
        static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy { .iso8601 }
        var at: Date
    }

    private struct Formatted: Codable, FetchableRecord, PersistableRecord {
        static let databaseTableName = "event"
        static let formatter = {
            let formatter = DateFormatter()
            formatter.locale = Locale(identifier: "en_US_POSIX")
            formatter.timeZone = TimeZone(secondsFromGMT: 0)
            formatter.dateFormat = "yyyy-MM-dd HH:mm"
            return formatter
        }()
        static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy {
            .formatted(formatter)
        }
        static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
            .formatted(formatter)
        }
        var at: Date
    }

    private func withTable<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE event (at TEXT)")
            return try body(db)
        }
    }

    private static let unstorable = [
        Double.nan, .infinity, -.infinity, 1e14, -1e14, .greatestFiniteMagnitude, -.greatestFiniteMagnitude,
    ]

    // Story: NaN was stored as a day in -4712, and infinity as one in 506713.
    @Test("a date that is no point in time, or too far away, is refused", arguments: unstorable)
    func refused(_ seconds: Double) throws {
        let date = Date(timeIntervalSince1970: seconds)
        try withTable { (db: Database) throws -> Void in
            #expect(throws: EncodingError.self) { try Text(at: date).insert(db) }
            if !seconds.isFinite || abs(seconds) > 1e20 {
                #expect(throws: EncodingError.self) { try Formatted(at: date).insert(db) }
            }
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM event") == 0)
        }
    }

    @Test("every date that is stored is read as itself", arguments: [-62_135_596_800, -1, 0, 253_402_300_799.0])
    func stored(_ seconds: Double) throws {
        let date = Date(timeIntervalSince1970: seconds)
        try withTable { (db: Database) throws -> Void in
            try Text(at: date).insert(db)
            #expect(try Text.fetchOne(db)?.at == date)
        }
    }

    @Test("so is a date far away, or it is refused", arguments: [-6e10, -6.3e10, -1e11, 3e11, 1e12, 1e13])
    func far(_ seconds: Double) throws {
        let date = Date(timeIntervalSince1970: seconds)
        try withTable { (db: Database) throws -> Void in
            do { try Text(at: date).insert(db) } catch is EncodingError { return }
            #expect(try Text.fetchOne(db)?.at == date)
        }
    }
}
