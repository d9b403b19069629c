import CipherDatabase
import CipherRecords
import Foundation

extension Calls {
    /// A log entry with a property of each kind.
    private struct Entry: Codable, Equatable, FetchableRecord, PersistableRecord {
        struct Position: Codable, Equatable {
            var north: Double
            var east: Double
        }
        enum Kind: String, Codable { case sail, steam }
        var id: UUID
        var at: Date
        var photo: Data
        var kind: Kind
        var position: Position
        var tags: [String]
        var remark: String?

        static let table = """
            CREATE TABLE entry (id BLOB PRIMARY KEY, at TEXT, photo BLOB, kind TEXT, position TEXT, tags TEXT, remark TEXT)
            """
        static func sample() -> Entry {
            Entry(
                id: UUID(), at: Date(timeIntervalSince1970: 1_000_000), photo: Data([1, 2]), kind: .sail,
                position: Position(north: 1.5, east: 2), tags: ["a", "b"])
        }
    }

    /// Section 3: Codable records.
    static func codable(_ call: inout Calls) {
        call("Codable") { db in
            try db.execute(sql: Entry.table)
            let entry = Entry.sample()
            try entry.insert(db)
            return try Entry.fetchAll(db) == [entry]
                && String.fetchOne(db, sql: "SELECT position FROM entry") == #"{"east":2,"north":1.5}"#
                && String.fetchOne(db, sql: "SELECT at FROM entry") == "1970-01-12 13:46:40.000"
                && Int.fetchOne(db, sql: "SELECT length(id) FROM entry") == 16
        }
        strategies(&call)
        names(ofColumns: &call)
        json(&call)
    }

    private struct Coded: Codable, Equatable, FetchableRecord, PersistableRecord {
        var id: UUID
        var at: Date
        var photo: Data
        static func databaseDataEncodingStrategy(for column: String) -> DatabaseDataEncodingStrategy { .text }
        static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy {
            .secondsSince1970
        }
        static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
            .lowercaseString
        }
        static func databaseDataDecodingStrategy(for column: String) -> DatabaseDataDecodingStrategy {
            .custom { String.fromDatabaseValue($0).map { Data($0.utf8) } }
        }
        static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
            .timeIntervalSince1970
        }
        static func sample() -> Coded {
            Coded(id: UUID(), at: Date(timeIntervalSince1970: 5), photo: Data("abc".utf8))
        }
    }

    private static func strategies(_ call: inout Calls) {
        call("databaseDataEncodingStrategy(for:)") { _ in
            _ = Coded.databaseDataEncodingStrategy(for: "photo")
            return try Coded.sample().databaseDictionary["photo"] == "abc".databaseValue
        }
        call("databaseDateEncodingStrategy(for:)") { _ in
            _ = Coded.databaseDateEncodingStrategy(for: "at")
            return try Coded.sample().databaseDictionary["at"] == 5.databaseValue
        }
        call("databaseUUIDEncodingStrategy(for:)") { _ in
            _ = Coded.databaseUUIDEncodingStrategy(for: "id")
            let coded = Coded.sample()
            return try coded.databaseDictionary["id"] == coded.id.uuidString.lowercased().databaseValue
        }
        call("databaseDataDecodingStrategy(for:)") { _ in
            _ = Coded.databaseDataDecodingStrategy(for: "photo")
            let coded = Coded.sample()
            return try Coded(row: Row(coded.databaseDictionary)).photo == coded.photo
        }
        call("databaseDateDecodingStrategy(for:)") { _ in
            _ = Coded.databaseDateDecodingStrategy(for: "at")
            let coded = Coded.sample()
            return try Coded(row: Row(coded.databaseDictionary)) == coded
        }
        call(".deferredToData .text .custom") { _ in
            let all: [DatabaseDataEncodingStrategy] = [.deferredToData, .text, .custom { $0.count }]
            return all.count == 3
        }
        call(
            ".deferredToDate .timeIntervalSinceReferenceDate .timeIntervalSince1970 .secondsSince1970 "
                + ".millisecondsSince1970 .iso8601 .formatted .custom"
        ) { _ in
            let all: [DatabaseDateEncodingStrategy] = [
                .deferredToDate, .timeIntervalSinceReferenceDate, .timeIntervalSince1970, .secondsSince1970,
                .millisecondsSince1970, .iso8601, .formatted(DateFormatter()), .custom { _ in nil },
            ]
            return all.count == 8
        }
        call(".deferredToUUID .uppercaseString .lowercaseString") { _ in
            let all: [DatabaseUUIDEncodingStrategy] = [.deferredToUUID, .uppercaseString, .lowercaseString]
            return all.count == 3
        }
    }

    private struct Snake: Codable, Equatable, FetchableRecord, PersistableRecord {
        var shipName = "x"
        static let databaseColumnEncodingStrategy = DatabaseColumnEncodingStrategy.convertToSnakeCase
        static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.convertFromSnakeCase
    }

    private static func names(ofColumns call: inout Calls) {
        call("databaseColumnEncodingStrategy") { _ in
            _ = Snake.databaseColumnEncodingStrategy
            return try Snake().databaseDictionary.keys.sorted() == ["ship_name"]
        }
        call("databaseColumnDecodingStrategy") { _ in
            _ = Snake.databaseColumnDecodingStrategy
            return try Snake(row: ["ship_name": "y"]).shipName == "y"
        }
        call(".useDefaultKeys .convertToSnakeCase .custom") { _ in
            let all: [DatabaseColumnEncodingStrategy] = [
                .useDefaultKeys, .convertToSnakeCase, .custom { $0.stringValue },
            ]
            return all.count == 3
        }
        call(".useDefaultKeys .convertFromSnakeCase .custom") { _ in
            let all: [DatabaseColumnDecodingStrategy] = [
                .useDefaultKeys, .convertFromSnakeCase,
                .custom { name in Fleet.Berth.Key(stringValue: name) ?? .number },
            ]
            return all.count == 3
        }
    }

    private struct Chart: Codable, Equatable, FetchableRecord, PersistableRecord {
        struct Area: Codable, Equatable { var at: Date }
        var area: Area
        static func databaseJSONEncoder(for column: String) -> JSONEncoder {
            let encoder = JSONEncoder()
            encoder.dateEncodingStrategy = .secondsSince1970
            return encoder
        }
        static func databaseJSONDecoder(for column: String) -> JSONDecoder {
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = .secondsSince1970
            return decoder
        }
    }

    private struct Informed: Codable, FetchableRecord, PersistableRecord {
        enum CodingKeys: String, CodingKey { case text }
        var text: String
        static let key = CodingUserInfoKey(rawValue: "suffix")
        static var databaseEncodingUserInfo: [CodingUserInfoKey: any Sendable] { key.map { [$0: "!"] } ?? [:] }
        static var databaseDecodingUserInfo: [CodingUserInfoKey: any Sendable] { key.map { [$0: "?"] } ?? [:] }
        init(text: String) { self.text = text }
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            let suffix = Self.key.flatMap { decoder.userInfo[$0] as? String } ?? ""
            text = try container.decode(String.self, forKey: .text) + suffix
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            let suffix = Self.key.flatMap { encoder.userInfo[$0] as? String } ?? ""
            try container.encode(text + suffix, forKey: .text)
        }
    }

    private static func json(_ call: inout Calls) {
        call("databaseJSONEncoder(for:)") { _ in
            _ = Chart.databaseJSONEncoder(for: "area")
            let chart = Chart(area: Chart.Area(at: Date(timeIntervalSince1970: 5)))
            return try chart.databaseDictionary["area"] == #"{"at":5}"#.databaseValue
        }
        call("databaseJSONDecoder(for:)") { _ in
            _ = Chart.databaseJSONDecoder(for: "area")
            return try Chart(row: ["area": #"{"at":5}"#]).area.at == Date(timeIntervalSince1970: 5)
        }
        call("databaseEncodingUserInfo") { _ in
            try !Informed.databaseEncodingUserInfo.isEmpty
                && (Informed(text: "a").databaseDictionary) == ["text": "a!".databaseValue]
        }
        call("databaseDecodingUserInfo") { _ in
            try !Informed.databaseDecodingUserInfo.isEmpty && (Informed(row: ["text": "a"]).text) == "a?"
        }
    }
}
