import CipherDatabase
import CipherRecords
import Foundation
import Testing

/// Keys in a dictionary, of records that store UUIDs, dates and data in forms of their own.
@Suite struct DictionaryKeyTests {
    private struct Visit: Codable, FetchableRecord, PersistableRecord, Hashable {
        var id: UUID
        var day: Date
        var token: Data
        var note: String

        static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
            column.lowercased() == "id" ? .lowercaseString : .deferredToUUID
        }
        static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy { .iso8601 }
        static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy { .iso8601 }
        static func databaseDataEncodingStrategy(for column: String) -> DatabaseDataEncodingStrategy { .text }
    }

    private typealias Key = [String: (any DatabaseValueConvertible)?]

    private let visits = (0..<100).map { number in
        Visit(
            id: UUID(), day: Date(timeIntervalSince1970: Double(number) * 86_400), token: Data("t\(number)".utf8),
            note: "\(number)")
    }

    private func withVisits<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(
                sql:
                    "CREATE TABLE visit (id TEXT PRIMARY KEY, day TEXT, token TEXT UNIQUE, note TEXT, UNIQUE (id, day))"
            )
            for visit in visits { try visit.insert(db) }
            return try body(db)
        }
    }

    // Story: `fetchOne(db, key: id)` found the record, and `fetchOne(db, key: ["id": id])` looked for the bytes of the UUID.
    @Test("a key in a dictionary finds what the same key finds alone")
    func one() throws {
        try withVisits { (db: Database) throws -> Void in
            let visit = visits[3]
            #expect(try Visit.fetchOne(db, key: visit.id) == visit)
            let keys: [Key] = [
                ["id": visit.id], ["ID": UUID?.some(visit.id)], ["token": visit.token],
                ["id": visit.id, "day": visit.day],
            ]
            for key in keys {
                #expect(try Visit.fetchOne(db, key: key) == visit, "\(key.keys)")
                #expect(try Visit.find(db, key: key) == visit)
                #expect(try Visit.exists(db, key: key))
                #expect(try Visit.filter(key: key).fetchAll(db) == [visit])
                #expect(try Visit.all().filter(keys: [key]).fetchCount(db) == 1)
                #expect(try Table<Visit>("visit").filter(key: key).fetchCount(db) == 1)
            }
            #expect(try Visit.filter(key: ["id": "\(visit.id)".lowercased()]).fetchCount(db) == 1)
        }
    }

    @Test("so do several, in short and in long lists", arguments: [2, 64, 65, 100])
    func several(_ count: Int) throws {
        try withVisits { (db: Database) throws -> Void in
            let wanted = visits.prefix(count)
            let keys: [Key] = wanted.map { ["id": $0.id, "day": $0.day] }
            #expect(try Visit.fetchAll(db, keys: keys).count == count)
            #expect(try Visit.fetchSet(db, keys: keys) == Set(wanted))
            #expect(try Visit.deleteAll(db, keys: wanted.map { ["token": $0.token] }) == count)
            #expect(try Visit.fetchCount(db) == visits.count - count)
        }
    }

    @Test("so does a deletion, and the error of a missing record has the stored value")
    func deletion() throws {
        try withVisits { (db: Database) throws -> Void in
            let visit = visits[5]
            #expect(try Visit.deleteOne(db, key: ["id": visit.id]))
            let error = #expect(throws: RecordError.self) { try Visit.find(db, key: ["id": visit.id]) }
            #expect(
                error
                    == .recordNotFound(
                        databaseTableName: "visit", key: ["id": visit.id.uuidString.lowercased().databaseValue]))
        }
    }

    @Test("data that is no text is refused, as alone")
    func unstorable() throws {
        try withVisits { (db: Database) throws -> Void in
            #expect(throws: EncodingError.self) { try Visit.fetchOne(db, key: ["token": Data([0xff])]) }
            #expect(throws: EncodingError.self) { try Visit.deleteOne(db, key: ["token": Data([0xff])]) }
        }
    }
}
