import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

@Suite("How records become columns")
struct RecordEncodingTests {
    // MARK: Names

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// One property of any name.
    private struct Named: Codable, EncodableRecord, FetchableRecord {
        static let databaseColumnEncodingStrategy = DatabaseColumnEncodingStrategy.convertToSnakeCase
        static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.convertFromSnakeCase
        let name: String
        init(name: String) { self.name = name }
        init(from decoder: any Decoder) throws {
            name = try decoder.container(keyedBy: Key.self).allKeys.first?.stringValue ?? ""
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(1, forKey: Key(name))
        }
    }

    private func snake(_ name: String) throws -> String? { try Named(name: name).databaseDictionary.keys.first }
    private func camel(_ column: String) throws -> String { try Named(row: [column: 1]).name }

    private func foundationSnake(_ name: String) throws -> String? {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let json = try JSONSerialization.jsonObject(with: encoder.encode(Named(name: name)))
        return (json as? [String: Any])?.keys.first
    }

    private func foundationCamel(_ column: String) throws -> String {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Named.self, from: JSONEncoder().encode([column: 1])).name
    }

    @Test(
        "snake case is Foundation's",
        arguments: [
            ("hasMP3ID", "has_mp3id"), ("isH264HD", "is_h264hd"), ("myA1B", "my_a1b"), ("my_Prop", "my__prop"),
            ("_ID", "__id"), ("myURLProperty", "my_url_property"), ("id", "id"), ("", ""), ("ID", "i_d"),
        ])
    func snakeCase(_ name: String, _ column: String) throws {
        try #expect(snake(name) == column)
        try #expect(foundationSnake(name) == column)
    }

    @Test("names of random letters, digits and underscores are Foundation's, both ways")
    func randomNames() throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SplitMix(state: seed)
        let letters = Array("aabbxyzABCXYZ__019éÉßǅİıжЖ中٣-. \u{301}$")
        for _ in 0..<3000 {
            let count = Int.random(in: 0...9, using: &random)
            let name = String((0..<count).compactMap { _ in letters.randomElement(using: &random) })
            try #expect(snake(name) == foundationSnake(name), "seed \(seed), name \(name)")
            try #expect(camel(name) == foundationCamel(name), "seed \(seed), column \(name)")
        }
    }

    private struct SplitMix: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            return mixed ^ (mixed >> 31)
        }
    }

    // MARK: Nested models

    private struct Address: Codable, Equatable {
        var street: String
        var city: String?
    }

    private struct Base: Codable, Equatable, FetchableRecord, EncodableRecord {
        static let databaseColumnEncodingStrategy = DatabaseColumnEncodingStrategy.convertToSnakeCase
        static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.convertFromSnakeCase
        var firstName: String
    }

    /// Puts the columns of a model beside its own, in any order.
    private struct Flat<Part: Codable & Equatable>: Codable, Equatable, FetchableRecord, EncodableRecord {
        enum Keys: String, CodingKey { case id }
        var id: Int
        var part: Part
        init(id: Int, part: Part) { (self.id, self.part) = (id, part) }
        init(from decoder: any Decoder) throws {
            part = try decoder.singleValueContainer().decode(Part.self)
            id = try decoder.container(keyedBy: Keys.self).decode(Int.self, forKey: .id)
        }
        func encode(to encoder: any Encoder) throws {
            var value = encoder.singleValueContainer()
            try value.encode(part)
            var container = encoder.container(keyedBy: Keys.self)
            try container.encode(id, forKey: .id)
        }
    }

    @Test("a single value container and a keyed one give the columns of both")
    func singleAndKeyed() throws {
        let flat = Flat(id: 1, part: Address(street: "S", city: nil))
        let columns = try flat.databaseDictionary
        #expect(columns == ["id": 1, "street": "S", "city": .null])
        try #expect(Flat<Address>(row: Row(columns)) == flat)
        let record = Flat(id: 1, part: Base(firstName: "Ann"))
        try #expect(record.databaseDictionary == ["id": 1, "first_name": "Ann"])
        try #expect(Flat<Base>(row: Row(record.databaseDictionary)) == record)
        let nested = Flat(id: 1, part: Flat<Address>(id: 2, part: Address(street: "S", city: "C")))
        try #expect(nested.databaseDictionary == ["id": 1, "street": "S", "city": "C"])
    }

    @Test("a value without columns beside others is refused")
    func singleValues() throws {
        #expect(throws: EncodingError.self) { try Flat(id: 1, part: 5).databaseDictionary }
        #expect(throws: EncodingError.self) { try Flat(id: 1, part: "text").databaseDictionary }
        #expect(throws: EncodingError.self) { try Flat(id: 1, part: [1]).databaseDictionary }
        #expect(throws: EncodingError.self) { try Flat(id: 1, part: Address?.none).databaseDictionary }
    }

    // MARK: What cannot be stored

    private struct Ratio: Codable, DatabaseValueConvertible {
        var value: Double
        var note = "note"
    }

    private struct Failing: Encodable, DatabaseValueConvertible {
        struct Refusal: Error {}
        static func fromDatabaseValue(_ value: DatabaseValue) -> Failing? { nil }
        func encode(to encoder: any Encoder) throws { throw Refusal() }
    }

    private struct Holder<Value: Encodable>: Encodable, PersistableRecord {
        static var databaseTableName: String { "t" }
        var a: Value
    }

    private struct Plain: PersistableRecord {
        static let databaseTableName = "t"
        var a: any DatabaseValueConvertible
        func encode(to container: inout PersistenceContainer) { container["a"] = a }
    }

    @Test("a value whose JSON cannot be made is an error, and never NULL")
    func unencodableValues() throws {
        let values: [any DatabaseValueConvertible & Encodable] = [Ratio(value: .nan), Failing()]
        for value in values {
            try expectRefusals(of: value)
        }
    }

    private func expectRefusals(of value: some DatabaseValueConvertible & Encodable) throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE t (a)")
            let stores: [() throws -> Void] = [
                { try Holder(a: value).insert(db) },
                { try Holder(a: [value]).insert(db) },
                { try Holder(a: Optional(value)).insert(db) },
                { try Plain(a: value).insert(db) },
                { try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [value]) },
                { try db.execute(sql: "INSERT INTO t VALUES (:a)", arguments: ["a": value]) },
                { try db.execute(literal: "INSERT INTO t VALUES (\(value))") },
                { try db.makeStatement(sql: "INSERT INTO t VALUES (?)").execute(arguments: [value]) },
                {
                    let statement = try db.makeStatement(sql: "INSERT INTO t VALUES (?)")
                    statement.setUncheckedArguments([value])
                    try statement.execute()
                },
                { _ = try Table("t").filter(Column("a") == value).fetchCount(db) },
                { _ = try Table("t").filter([value, value].contains(Column("a"))).fetchCount(db) },
                { _ = try Table("t").updateAll(db, Column("a").set(to: value)) },
                { try db.create(table: "u") { $0.column("a").defaults(to: value) } },
            ]
            for (index, store) in stores.enumerated() {
                #expect(throws: (any Error).self, "place \(index)") { try store() }
            }
            try #expect(Int.fetchOne(db, sql: "SELECT count(*) FROM t") == 0)
        }
    }

    private struct Huge: Encodable, EncodableRecord {
        var number: UInt64 = 9_999_999_999_999_999_999
    }
    private struct NotFinite: Encodable, EncodableRecord {
        var list = [Double.infinity, .nan]
        var secret = ["secret-text"]
    }

    @Test("an error of encoding carries no value")
    func privacyOfErrors() throws {
        for record in [Huge(), NotFinite(), Flat(id: 1, part: "secret-text")] as [any EncodableRecord] {
            let error = try #require(throws: EncodingError.self) { try record.databaseDictionary }
            let text = "\(error) \(String(reflecting: error)) \(error.localizedDescription)"
            #expect(!text.contains("9999999999999999999") && !text.contains("secret") && !text.contains("inf"))
        }
    }
}
