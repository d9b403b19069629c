import CipherDatabase
import Foundation
import Testing

@Suite struct CodableValueTests {
    private struct Point: Codable, Hashable, DatabaseValueConvertible {
        var x: Int
        var y: Int?
        var tags: [String] = []
    }

    private struct Wrapped<Value: Codable & Hashable>: Codable, Hashable, DatabaseValueConvertible {
        var value: Value
        init(_ value: Value) { self.value = value }
        init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(Value.self) }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(value)
        }
    }

    private struct List: Codable, Hashable, DatabaseValueConvertible {
        var items: [Int]
        init(_ items: [Int]) { self.items = items }
        init(from decoder: any Decoder) throws { items = try [Int](from: decoder) }
        func encode(to encoder: any Encoder) throws { try items.encode(to: encoder) }
    }

    private struct Custom: Codable, Hashable, DatabaseValueConvertible {
        var firstName: String
        static func databaseJSONEncoder() -> JSONEncoder {
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            return encoder
        }
        static func databaseJSONDecoder() -> JSONDecoder {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            return decoder
        }
    }

    private struct Moment: Codable, Hashable, DatabaseValueConvertible {
        var date: Date
        var bytes: Data
    }

    private struct Empty: Codable, Hashable, DatabaseValueConvertible {}
    private struct Ratio: Codable, Hashable, DatabaseValueConvertible { var value: Double }
    private enum Color: String, Codable, DatabaseValueConvertible { case red, green }
    private enum Shape: Codable, Hashable, DatabaseValueConvertible { case circle(radius: Int), none }

    private func back<Value: DatabaseValueConvertible>(_ value: Value) throws -> Value? {
        try DatabaseQueue().read { try Value.fetchOne($0, sql: "SELECT ?", arguments: [value]) }
    }

    @Test("objects and arrays stand as JSON with sorted keys")
    func json() throws {
        #expect(Point(x: 1, y: 2, tags: ["b", "a"]).databaseValue == #"{"tags":["b","a"],"x":1,"y":2}"#)
        #expect(List([1, 2]).databaseValue == "[1,2]")
        #expect(List([]).databaseValue == "[]")
        #expect(Empty().databaseValue == "{}")
        let points = [Point(x: 1), Point(x: -1, y: 0, tags: ["\"", "\u{1}"])]
        for point in points { #expect(try back(point) == point) }
        #expect(try back(List([3])) == List([3]))
        #expect(try back(Empty()) == Empty())
        for shape in [Shape.circle(radius: 3), .none] { #expect(try back(shape) == shape) }
    }

    // A function of the program returned NULL for it.
    @Test("an SQL function that returns what cannot be encoded fails")
    func functionResult() throws {
        try DatabaseQueue().write { db in
            db.add(function: DatabaseFunction("ratio", argumentCount: 0) { _ in Ratio(value: .nan) })
            #expect(throws: DatabaseError.self) { try Row.fetchOne(db, sql: "SELECT ratio()") }
        }
    }

    @Test("what encodes a single value stands as that value, in its own form")
    func singleValues() throws {
        let (uuid, date) = (UUID(), Date(timeIntervalSince1970: 1000.5))
        #expect(Wrapped(7).databaseValue == 7)
        #expect(Wrapped("x").databaseValue == "x")
        #expect(Wrapped(uuid).databaseValue == uuid.databaseValue)
        #expect(Wrapped(date).databaseValue == date.databaseValue)
        #expect(Wrapped<Int?>(nil).databaseValue == .null)
        #expect(Wrapped(Wrapped(1.5)).databaseValue == 1.5)
        #expect(try back(Wrapped(uuid)) == Wrapped(uuid))
        #expect(try back(Wrapped(date)) == Wrapped(date))
        #expect(try back(Wrapped(Wrapped(Data([1])))) == Wrapped(Wrapped(Data([1]))))
        #expect(try back(Wrapped([1, 2])) == Wrapped([1, 2]))
    }

    @Test("raw values go before coding")
    func rawValues() throws {
        #expect(Color.red.databaseValue == "red")
        #expect(Color.fromDatabaseValue("green") == .green)
        #expect(Color.fromDatabaseValue("\"green\"") == nil)
    }

    @Test("dates in JSON are milliseconds, and bytes base 64, unless a type brings coders of its own")
    func formats() throws {
        let moment = Moment(date: Date(timeIntervalSince1970: 1.5), bytes: Data([1, 2]))
        #expect(moment.databaseValue == #"{"bytes":"AQI=","date":1500}"#)
        #expect(try back(moment) == moment)
        #expect(Custom(firstName: "Ann").databaseValue == #"{"first_name":"Ann"}"#)
        #expect(try back(Custom(firstName: "Ann")) == Custom(firstName: "Ann"))
    }

    @Test("what is no value of the type is refused, and what cannot be encoded is not NULL")
    func refusals() {
        for stored in ["", "{}", "[1]", "{\"x\":\"1\"}", "nonsense"] as [DatabaseValue] {
            #expect(Point.fromDatabaseValue(stored) == nil)
        }
        #expect(Point.fromDatabaseValue(1) == nil && Point.fromDatabaseValue(nil) == nil)
        #expect(Point.fromDatabaseValue(Data(#"{"x":1,"tags":[]}"#.utf8).databaseValue) == Point(x: 1))
        #expect(Wrapped<Int>.fromDatabaseValue("x") == nil && Wrapped<Int>.fromDatabaseValue(nil) == nil)
        #expect(!Ratio(value: .nan).databaseValue.isNull && Ratio(value: .nan).databaseValue != .null)
    }

    @Test("a value that does not fit an optional is refused, and NULL is nil")
    func optionals() throws {
        // Story: what did not fit was read as nil, and a later update wrote NULL in its place.
        for stored in ["x", 1e30, Data([1]).databaseValue] as [DatabaseValue] {
            #expect(Wrapped<Int?>.fromDatabaseValue(stored) == nil)
            #expect(Wrapped<Wrapped<Int?>>.fromDatabaseValue(stored) == nil)
            #expect(Wrapped<Date??>.fromDatabaseValue(Data([1]).databaseValue) == nil)
        }
        #expect(Wrapped<Color?>.fromDatabaseValue("blue") == nil)
        #expect(Wrapped<Int?>.fromDatabaseValue(nil) == Wrapped(nil))
        #expect(Wrapped<Int?>.fromDatabaseValue(7) == Wrapped(7))
        #expect(Wrapped<Wrapped<Color?>>.fromDatabaseValue("red") == Wrapped(Wrapped(.red)))
        #expect(try back(Wrapped<Int?>(nil)) == Wrapped(nil))
    }

    @Test("random values of nested types come back as they went in")
    func roundTrips() throws {
        var numbers = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let tags = (0..<Int.random(in: 0..<4, using: &numbers)).map { _ in
                let scalars = (0..<5).compactMap { _ in Unicode.Scalar(UInt32.random(in: 0..<0x3000, using: &numbers)) }
                return String(String.UnicodeScalarView(scalars))
            }
            let point = Point(x: .random(in: .min ... .max), y: Bool.random() ? nil : .random(in: -9...9), tags: tags)
            #expect(try back(point) == point)
        }
    }
}
