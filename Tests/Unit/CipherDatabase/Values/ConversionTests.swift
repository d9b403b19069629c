import CipherDatabase
import Foundation
import Testing

@Suite struct ConversionTests {
    let queue = DatabaseQueue()

    private func back<Value: DatabaseValueConvertible>(_ value: Value) throws -> Value? {
        try queue.read { try Value.fetchOne($0, sql: "SELECT ?", arguments: [value]) }
    }

    @Test("drawing coordinates stand as numbers")
    func coordinates() throws {
        #expect(CGFloat(1.5).databaseValue == 1.5)
        #expect(try back(CGFloat(1.5)) == 1.5)
        #expect(CGFloat.fromDatabaseValue("x") == nil)
    }

    @Test("Foundation's objects stand as the Swift types do")
    func foundationClasses() throws {
        #expect(NSNumber(value: 7).databaseValue.storage == .int64(7))
        #expect(NSNumber(value: 1.5).databaseValue.storage == .double(1.5))
        #expect(NSNumber(value: true).databaseValue.storage == .int64(1))
        #expect(NSNumber(value: UInt8(200)).databaseValue.storage == .int64(200))
        #expect(NSNumber.fromDatabaseValue(3) == 3)
        #expect(NSNumber.fromDatabaseValue("x") == nil)
        let decimal = NSDecimalNumber(string: "12345678901234567890.5")
        #expect(decimal.databaseValue == "12345678901234567890.5")
        #expect(NSDecimalNumber.fromDatabaseValue(decimal.databaseValue) == decimal)
        #expect(NSDecimalNumber.fromDatabaseValue(3) == 3)
        #expect(NSString("x").databaseValue == "x")
        #expect(try back(NSString("x")) == "x")
        #expect(try back(NSData(data: Data([1, 2]))) == NSData(data: Data([1, 2])))
        let date = NSDate(timeIntervalSince1970: 1.5)
        #expect(date.databaseValue == "1970-01-01 00:00:01.500")
        #expect(try back(date) == date)
        let uuid = NSUUID()
        #expect(try back(uuid) == uuid)
        #expect(UUID.fromDatabaseValue(uuid.databaseValue)?.uuidString == uuid.uuidString)
        let url = try #require(NSURL(string: "https://example.org/a"))
        #expect(try back(url) == url)
        #expect(NSNull().databaseValue.isNull)
        #expect(NSNull.fromDatabaseValue(nil) == nil)
    }

    @Test("optional values are values: nil is NULL, in cursors and lists too")
    func optionals() throws {
        try queue.read { db throws in
            let sql = "SELECT NULL UNION ALL SELECT 1"
            #expect(try Int?.fetchAll(db, sql: sql) == [nil, 1])
            #expect(try UUID?.fetchAll(db, sql: "SELECT NULL") == [nil])
            #expect(try Decimal?.fetchAll(db, sql: sql) == [nil, 1])
            #expect(try Int?.fetchSet(db, sql: sql) == [nil, 1])
            #expect(try Int?.fetchOne(db, sql: sql) == .some(nil))
            #expect(try Int.fetchOne(db, sql: sql) == nil)
            #expect(throws: RowDecodingError.self) { try Int8?.fetchAll(db, sql: "SELECT 300") }
        }
    }

    @Test("an INTEGER and a REAL of the same number are equal, and hash alike; their storage is not")
    func numericEquality() {
        let (integer, real): (DatabaseValue, DatabaseValue) = (1, 1.0)
        #expect(integer == real && integer.hashValue == real.hashValue && integer.storage != real.storage)
        #expect(Set([integer, real]).count == 1)
        #expect(integer != 1.5 && real != "1" && integer != "1")
        let big = DatabaseValue(.int64(.max))
        #expect(big != DatabaseValue(.double(Double(Int64.max))))
    }

    @Test("components of a date stand in the format that is chosen")
    func dateComponents() throws {
        var parts = DateComponents(year: 2024, month: 2, day: 29, hour: 7, minute: 8, second: 9)
        parts.nanosecond = 123_456_789
        let texts: [DatabaseDateComponents.Format: String] = [
            .YMD: "2024-02-29", .YMD_HM: "2024-02-29 07:08", .YMD_HMS: "2024-02-29 07:08:09",
            .YMD_HMSS: "2024-02-29 07:08:09.123", .HM: "07:08", .HMS: "07:08:09", .HMSS: "07:08:09.123",
        ]
        for format in DatabaseDateComponents.Format.allCases {
            let stored = DatabaseDateComponents(parts, format: format).databaseValue
            #expect(stored.storage.value as? String == texts[format])
            let read = try #require(DatabaseDateComponents.fromDatabaseValue(stored))
            #expect(read.format == format && read.databaseValue == stored)
        }
        #expect(DatabaseDateComponents(DateComponents(), format: .YMD_HM).databaseValue == "0000-01-01 00:00")
    }

    @Test("components are read with T, with a zone, and from nothing else")
    func readingDateComponents() throws {
        let read = try #require(DatabaseDateComponents.fromDatabaseValue("2024-02-29T07:08:09.5+02:00"))
        #expect(read.format == .YMD_HMSS && read.dateComponents.nanosecond == 500_000_000)
        #expect(read.dateComponents.timeZone == TimeZone(secondsFromGMT: 7200))
        #expect(Date(databaseDateComponents: read) == Date.fromDatabaseValue("2024-02-29 05:08:09.5"))
        #expect(DatabaseDateComponents.fromDatabaseValue("07:08Z")?.dateComponents.hour == 7)
        let refused = [
            "", "2024", "2024-02", "2024-13-01", "7:08", "07:60", "07:08:", "2024-02-29 ", "2024-02-29 07:08 x",
        ]
        for text in refused {
            #expect(DatabaseDateComponents.fromDatabaseValue(text.databaseValue) == nil, "\(text)")
        }
        #expect(DatabaseDateComponents.fromDatabaseValue(1) == nil)
        #expect(Date.fromDatabaseValue("07:08") == nil)
        #expect(Date(databaseDateComponents: DatabaseDateComponents(DateComponents(hour: 1), format: .HM)) == nil)
    }

    @Test("a program may make types of Swift and Foundation values that are none for GRDB")
    func conformancesOfPrograms() throws {
        #expect(try back(DateComponents(hour: 1, minute: 2)) == DateComponents(hour: 1, minute: 2))
        #expect(try back("hello".dropFirst()) == "ello")
    }

    @Test("components of a date are coded as their text")
    func codedDateComponents() throws {
        let parts = DateComponents(year: 2024, month: 1, day: 2, hour: 3, minute: 4)
        let coded = try JSONEncoder().encode([DatabaseDateComponents(parts, format: .YMD)])
        #expect(String(decoding: coded, as: UTF8.self) == #"["2024-01-02"]"#)
        #expect(try JSONDecoder().decode([DatabaseDateComponents].self, from: coded).first?.format == .YMD)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([DatabaseDateComponents].self, from: Data(#"["x"]"#.utf8))
        }
    }

    @Test("texts and blobs with any bytes at all are read without a trap by every type")
    func anyBytes() throws {
        try queue.read { db throws in
            for round in 0..<300 {
                let bytes = Data((0..<(round % 40)).map { _ in UInt8.random(in: 0...255) })
                let cursor = try Row.fetchCursor(db, sql: "SELECT CAST(?1 AS TEXT), ?1", arguments: [bytes])
                let live = try #require(try cursor.next())
                for row in [live, live.copy()] {
                    for index in 0..<2 {
                        _ = try? row.decode(String.self, atIndex: index)
                        _ = try? row.decode(Date.self, atIndex: index)
                        _ = try? row.decode(UUID.self, atIndex: index)
                        _ = try? row.decode(Decimal.self, atIndex: index)
                        _ = try? row.decode(URL.self, atIndex: index)
                        _ = try? row.decode(DatabaseDateComponents.self, atIndex: index)
                        #expect(try row.decode(Data.self, atIndex: 1) == bytes)
                    }
                }
            }
        }
    }
}

// As a program for GRDB writes them.

extension DateComponents: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { "\(hour ?? 0):\(minute ?? 0)".databaseValue }
    public static func fromDatabaseValue(_ value: DatabaseValue) -> DateComponents? {
        guard let parts = String.fromDatabaseValue(value)?.split(separator: ":"), parts.count == 2 else { return nil }
        return DateComponents(hour: Int(parts[0]), minute: Int(parts[1]))
    }
}

extension Substring: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { String(self).databaseValue }
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Substring? {
        String.fromDatabaseValue(value).map { $0[...] }
    }

    // Story: an infinite REAL ended the process, and one of 1e300 was read as NaN.
    @Test("a REAL that no Decimal can hold is none")
    func decimals() {
        for double in [Double.infinity, -.infinity, 1e300, 1e-300] {
            #expect(Decimal.fromDatabaseValue(double.databaseValue) == nil, "\(double)")
            #expect(NSDecimalNumber.fromDatabaseValue(double.databaseValue) == nil, "\(double)")
        }
        #expect(Decimal.fromDatabaseValue(1e20.databaseValue) == Decimal(string: "100000000000000000000"))
        #expect(Decimal.fromDatabaseValue(0.1.databaseValue) == Decimal(string: "0.1"))
        #expect(Decimal.nan.databaseValue.isNull)
    }
}
