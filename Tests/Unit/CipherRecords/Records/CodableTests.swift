import CipherDatabase
import CipherRecords
import Foundation
import Testing

@Suite("Codable records")
struct CodableTests {
    private enum Color: String, Codable { case red, green }
    private struct Wrapped: Codable, Equatable {
        var number: Int
        init(_ number: Int) { self.number = number }
        init(from decoder: any Decoder) throws { number = try decoder.singleValueContainer().decode(Int.self) }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(number)
        }
    }
    private struct Address: Codable, Equatable {
        var street: String
        var city: String
    }

    private struct Everything: Codable, Equatable, FetchableRecord, PersistableRecord {
        static let databaseTableName = "t"
        var bool: Bool
        var int: Int
        var int8: Int8
        var int16: Int16
        var int32: Int32
        var int64: Int64
        var uint: UInt
        var uint8: UInt8
        var uint16: UInt16
        var uint32: UInt32
        var uint64: UInt64
        var float: Float
        var double: Double
        var string: String
        var data: Data
        var date: Date
        var uuid: UUID
        var url: URL
        var color: Color
        var wrapped: Wrapped
        var address: Address
        var list: [Int]
        var none: String?
        var some: Int?
        var noDate: Date?
        var someAddress: Address?

        static let sample = Everything(
            bool: true, int: -1, int8: -8, int16: -16, int32: -32, int64: .min, uint: 1, uint8: 255, uint16: 65_535,
            uint32: .max, uint64: 7, float: 1.5, double: -0.1, string: "é\"'", data: Data([0, 255]),
            date: Date(timeIntervalSince1970: 1_700_000_000.25), uuid: UUID(), url: URL(filePath: "/a/b"),
            color: .green, wrapped: Wrapped(3), address: Address(street: "S", city: "C"), list: [1, 2], none: nil,
            some: 5, noDate: nil, someAddress: Address(street: "x", city: "y"))
    }

    private func columns<Record: EncodableRecord>(_ record: Record) throws -> [String: DatabaseValue] {
        try record.databaseDictionary
    }

    @Test("every type goes to a row and back")
    func roundTrip() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            let sample = Everything.sample
            let names = try columns(sample).keys.sorted()
            try db.execute(sql: "CREATE TABLE t (\(names.map(\.quotedDatabaseIdentifier).joined(separator: ", ")))")
            try sample.insert(db)
            try sample.insert(db)
            try #expect(Everything.fetchAll(db) == [sample, sample])
            try #expect(Everything.fetchOne(db) == sample)
            // A kept row too.
            let row = try #require(try Row.fetchOne(db, sql: "SELECT * FROM t"))
            try #expect(Everything(row: row) == sample)
        }
    }

    @Test("how values are stored")
    func storage() throws {
        let stored = try columns(Everything.sample)
        #expect(stored["bool"] == true.databaseValue)
        #expect(stored["date"] == "2023-11-14 22:13:20.250".databaseValue)
        #expect(stored["data"] == Data([0, 255]).databaseValue)
        #expect(stored["uuid"]?.storageClass == .blob)
        #expect(stored["color"] == "green".databaseValue)
        #expect(stored["wrapped"] == 3.databaseValue)
        #expect(stored["address"] == #"{"city":"C","street":"S"}"#.databaseValue)
        #expect(stored["list"] == "[1,2]".databaseValue)
        #expect(stored["none"] == DatabaseValue.null && stored["noDate"] == DatabaseValue.null)
        #expect(stored.count == 26)
    }

    // MARK: Strategies

    private static let moment = Date(timeIntervalSince1970: 1_700_000_000.75)

    private struct Dated<Strategy: DateStrategy>: Codable, FetchableRecord, EncodableRecord {
        var date: Date
        static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy {
            Strategy.encoding
        }
        static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
            Strategy.decoding
        }
    }

    private protocol DateStrategy {
        static var encoding: DatabaseDateEncodingStrategy { get }
        static var decoding: DatabaseDateDecodingStrategy { get }
    }

    private enum Reference: DateStrategy {
        static let encoding = DatabaseDateEncodingStrategy.timeIntervalSinceReferenceDate
        static let decoding = DatabaseDateDecodingStrategy.timeIntervalSinceReferenceDate
    }
    private enum Unix: DateStrategy {
        static let encoding = DatabaseDateEncodingStrategy.timeIntervalSince1970
        static let decoding = DatabaseDateDecodingStrategy.timeIntervalSince1970
    }
    private enum Seconds: DateStrategy {
        static let encoding = DatabaseDateEncodingStrategy.secondsSince1970
        static let decoding = DatabaseDateDecodingStrategy.deferredToDate
    }
    private enum Milliseconds: DateStrategy {
        static let encoding = DatabaseDateEncodingStrategy.millisecondsSince1970
        static let decoding = DatabaseDateDecodingStrategy.millisecondsSince1970
    }
    private enum ISO: DateStrategy {
        static let encoding = DatabaseDateEncodingStrategy.iso8601
        static let decoding = DatabaseDateDecodingStrategy.iso8601
    }
    private enum Custom: DateStrategy {
        static let encoding = DatabaseDateEncodingStrategy.custom { _ in "now" }
        static let decoding = DatabaseDateDecodingStrategy.custom { _ in CodableTests.moment }
    }

    private func check<S: DateStrategy>(_ strategy: S.Type, _ stored: DatabaseValue, _ read: Date) throws {
        let record = Dated<S>(date: Self.moment)
        try #expect(columns(record) == ["date": stored])
        try #expect(Dated<S>(row: ["date": stored]).date == read)
    }

    @Test("a date is stored and read by the strategy of its record")
    func dates() throws {
        let whole = Date(timeIntervalSince1970: 1_700_000_000)
        try check(Reference.self, 721_692_800.75.databaseValue, Self.moment)
        try check(Unix.self, 1_700_000_000.75.databaseValue, Self.moment)
        try check(Seconds.self, 1_700_000_000.databaseValue, whole)
        try check(Milliseconds.self, 1_700_000_000_750.databaseValue, Self.moment)
        try check(ISO.self, "2023-11-14T22:13:20Z".databaseValue, whole)
        try check(Custom.self, "now".databaseValue, Self.moment)
        #expect(throws: RowDecodingError.self) { try Dated<ISO>(row: ["date": "yesterday"]) }
        #expect(throws: RowDecodingError.self) { try Dated<Unix>(row: ["date": nil]) }
    }

    private struct Formed: Codable, FetchableRecord, EncodableRecord, Equatable {
        var userID: UUID
        var rawBytes: Data
        var more: Int?
        static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
            .lowercaseString
        }
        static func databaseDataEncodingStrategy(for column: String) -> DatabaseDataEncodingStrategy { .text }
        static let databaseColumnEncodingStrategy = DatabaseColumnEncodingStrategy.convertToSnakeCase
        static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.custom { name in
            CodingName(name == "user_id" ? "userID" : name == "raw_bytes" ? "rawBytes" : name)
        }
    }

    private struct CodingName: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    @Test("UUIDs, data and column names")
    func otherStrategies() throws {
        let uuid = try #require(UUID(uuidString: "E621E1F8-C36C-495A-93FC-0C247A3E6E5F"))
        let record = Formed(userID: uuid, rawBytes: Data("text".utf8))
        let stored = try columns(record)
        #expect(stored["user_id"] == "e621e1f8-c36c-495a-93fc-0c247a3e6e5f".databaseValue)
        #expect(stored["raw_bytes"] == "text".databaseValue)
        #expect(stored["more"] == DatabaseValue.null)
        try #expect(Formed(row: Row(stored)) == record)
        #expect(throws: EncodingError.self) { try Formed(userID: uuid, rawBytes: Data([255])).databaseDictionary }
    }

    private struct Snake: Codable, FetchableRecord, EncodableRecord, Equatable {
        var firstName: String
        var myURLIs: Int
        static let databaseColumnEncodingStrategy = DatabaseColumnEncodingStrategy.convertToSnakeCase
        static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.convertFromSnakeCase
        enum CodingKeys: String, CodingKey { case firstName, myURLIs = "myUrlIs" }
    }

    @Test("snake case, both ways")
    func snakeCase() throws {
        let record = Snake(firstName: "Ann", myURLIs: 1)
        let stored = try columns(record)
        #expect(stored.keys.sorted() == ["first_name", "my_url_is"])
        try #expect(Snake(row: Row(stored)) == record)
    }

    // MARK: Columns written piece by piece

    private struct Pieces: Codable, FetchableRecord, PersistableRecord, Equatable {
        var id = 1
        var address = Address(street: "S", city: "C")
        var dates = [Date(timeIntervalSince1970: 2)]
        var name = "n"

        enum CodingKeys: CodingKey { case id, address, dates, name, none }
        enum AddressKeys: CodingKey { case street, city }

        init() {}

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            id = try container.decode(Int.self, forKey: .id)
            let parts = try container.nestedContainer(keyedBy: AddressKeys.self, forKey: .address)
            address.street = try parts.decode(String.self, forKey: .street)
            address.city = try parts.decode(String.self, forKey: .city)
            var list = try container.nestedUnkeyedContainer(forKey: .dates)
            dates = [try list.decode(Date.self)]
            name = try container.decode(String.self, forKey: .name)
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            var parts = container.nestedContainer(keyedBy: AddressKeys.self, forKey: .address)
            try parts.encode(address.street, forKey: .street)
            try parts.encode(address.city, forKey: .city)
            var list = container.nestedUnkeyedContainer(forKey: .dates)
            for date in dates { try list.encode(date) }
            try name.encode(to: container.superEncoder(forKey: .name))
            _ = container.superEncoder(forKey: .none)
        }
    }

    private struct Handed: Codable, FetchableRecord, PersistableRecord, Equatable {
        var address = Address(street: "S", city: "C")
        enum CodingKeys: CodingKey { case address }
        init() {}
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            address = try Address(from: container.superDecoder(forKey: .address))
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try address.encode(to: container.superEncoder(forKey: .address))
        }
    }

    private class Base: Codable {
        var id = 1
    }
    private final class Derived: Base, FetchableRecord, EncodableRecord {
        var name = "n"
        enum CodingKeys: CodingKey { case name }
        override init() { super.init() }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            name = try container.decode(String.self, forKey: .name)
            try super.init(from: container.superDecoder())
        }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(name, forKey: .name)
            try super.encode(to: container.superEncoder())
        }
    }

    @Test("nested containers and super encoders write JSON, in the place of their column; a superclass writes columns")
    func pieces() throws {
        var container = try PersistenceContainer(Pieces())
        #expect(container["address"] == #"{"city":"C","street":"S"}"#)
        #expect(container["dates"] == "[2000]" && container["name"] == "n" && container["id"] == 1)
        let stored = try Pieces().databaseDictionary
        #expect(stored["none"] == DatabaseValue.null && stored.count == 5)
        try #expect(Pieces(row: Row(stored)) == Pieces())
        try #expect(Handed(row: Row(Handed().databaseDictionary)) == Handed())
        container["name"] = "m"
        #expect(container["name"] == "m")
        let derived = Derived()
        (derived.id, derived.name) = (7, "x")
        let columns = try derived.databaseDictionary
        #expect(columns == ["id": 7.databaseValue, "name": "x".databaseValue])
        let read = try Derived(row: Row(columns))
        #expect(read.id == 7 && read.name == "x")
    }

    private struct Situated: Encodable, EncodableRecord {
        static let place = CodingUserInfoKey(rawValue: "place")
        static var databaseEncodingUserInfo: [CodingUserInfoKey: Any] {
            Dictionary(uniqueKeysWithValues: place.map { [($0, "here")] } ?? [])
        }
        static func text(_ encoder: any Encoder) -> String {
            let path = encoder.codingPath.map(\.stringValue).joined(separator: ".")
            return "\(path) \(place.flatMap { encoder.userInfo[$0] as? String } ?? "-")"
        }
        struct Single: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(Situated.text(encoder))
            }
        }
        struct List: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode(Situated.text(encoder))
            }
        }
        var single = Single()
        var list = List()
    }

    @Test("encoders know their keys and the user info")
    func encoderContext() throws {
        let stored = try Situated().databaseDictionary
        // JSON is encoded as a whole, by an encoder of its own.
        #expect(stored == ["single": "single here".databaseValue, "list": #"[" here"]"#.databaseValue])
    }

    // MARK: Errors

    private struct Strict: Codable, FetchableRecord, TableRecord {
        var name: String
        var score: Int8
    }

    @Test("what cannot be read names table, column, type and what was found, never the value")
    func errors() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE strict (name VARCHAR(20), score INTEGER)")
            func failure(_ values: String) throws -> RowDecodingError {
                try db.execute(sql: "DELETE FROM strict; INSERT INTO strict VALUES (\(values))")
                return try #require(#expect(throws: RowDecodingError.self) { try Strict.fetchAll(db) })
            }
            let null = try failure("NULL, 1")
            #expect(null.tableName == "strict" && null.columnName == "name" && null.columnIndex == 0)
            #expect(
                null.description
                    == #"could not read a value of type String from column "name" (at index 0) declared VARCHAR(20)"#
                    + #" of table "strict" of row 0, which holds NULL"#)
            let text = try failure("'a', 'secret'")
            #expect(text.storageClass == .text && !text.description.contains("secret"))
            let large = try failure("'a', 4711")
            #expect(large.storageClass == .integer && !large.description.contains("4711"))
            let missing = try #require(
                #expect(throws: RowDecodingError.self) { try Strict.fetchAll(db, sql: "SELECT name FROM strict") })
            #expect(missing.columnIndex == nil && missing.columnName == "score")
        }
    }

    @Test("integers that SQLite cannot hold are refused")
    func hugeIntegers() {
        var record = Everything.sample
        record.uint64 = .max
        #expect(throws: EncodingError.self) { try record.databaseDictionary }
    }

    // MARK: Parts of rows

    private struct Team: Codable, FetchableRecord, Equatable {
        var id: Int
        var name: String
    }
    private struct PlayerInfo: Decodable, FetchableRecord, Equatable {
        struct Player: Decodable, Equatable {
            var id: Int
            var name: String
        }
        var player: Player
        var team: Team?
    }

    @Test("a scope is read by its name, and the first other key takes the row itself")
    func scopes() throws {
        let queue = DatabaseQueue()
        try queue.read { db in
            let adapter = ScopeAdapter(["team": SuffixRowAdapter(fromIndex: 2)])
            let sql = "SELECT 1 AS id, 'Ann' AS name, 2 AS id, 'Reds' AS name UNION SELECT 3, 'Bob', NULL, NULL"
            let infos = try PlayerInfo.fetchAll(db, sql: sql, adapter: adapter)
            #expect(
                infos == [
                    PlayerInfo(player: PlayerInfo.Player(id: 1, name: "Ann"), team: Team(id: 2, name: "Reds")),
                    PlayerInfo(player: PlayerInfo.Player(id: 3, name: "Bob"), team: nil),
                ])
        }
    }
}
