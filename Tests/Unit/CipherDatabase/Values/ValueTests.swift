import CSQLCipher
import CipherDatabase
import Foundation
import Testing

/// Binds its raw value, and is no value of the database otherwise.
private struct Bound<RawValue>: RawRepresentable { var rawValue: RawValue }
extension Bound: StatementBinding where RawValue: StatementBinding {}

@Suite struct ValueTests {
    let queue = DatabaseQueue()

    private enum Color: String, DatabaseValueConvertible { case red, green }
    /// Stores something else than its raw value.
    private enum Coded: String, DatabaseValueConvertible {
        case first
        var databaseValue: DatabaseValue { 1 }
        static func fromDatabaseValue(_ value: DatabaseValue) -> Coded? { value == 1 ? .first : nil }
    }
    private enum Grade: Int, DatabaseValueConvertible, StatementColumnConvertible { case low = 1, high }

    private func fetch<Value: DatabaseValueConvertible>(
        _ value: (any DatabaseValueConvertible)?, as type: Value.Type = Value.self
    ) throws -> Value? {
        try queue.read { try Value.fetchOne($0, sql: "SELECT ?", arguments: [value]) }
    }

    private func storageClass(of value: (any DatabaseValueConvertible)?) throws -> String? {
        try queue.read { try String.fetchOne($0, sql: "SELECT typeof(?)", arguments: [value]) }
    }

    @Test("every type stands in its storage class")
    func storageClasses() throws {
        #expect(try storageClass(of: true) == "integer")
        #expect(try storageClass(of: UInt32.max) == "integer")
        #expect(try storageClass(of: 1.0) == "real")
        #expect(try storageClass(of: Float(0.5)) == "real")
        #expect(try storageClass(of: "1") == "text")
        #expect(try storageClass(of: "") == "text")
        #expect(try storageClass(of: Data()) == "blob")
        #expect(try storageClass(of: UUID()) == "blob")
        #expect(try storageClass(of: Date()) == "text")
        #expect(try storageClass(of: Decimal(1)) == "text")
        #expect(try storageClass(of: URL(string: "https://example.org/a?b=c")) == "text")
        #expect(try storageClass(of: Color.red) == "text")
        #expect(try storageClass(of: Grade.high) == "integer")
        #expect(try storageClass(of: nil) == "null")
        #expect(try storageClass(of: Int?.none) == "null")
    }

    @Test("texts of different bytes are different values, as in SQLite, also where Swift holds them equal")
    func equalTexts() throws {
        // Story: a record that changed from one spelling of a letter to the other had no changes.
        let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}")
        #expect(composed == decomposed)
        #expect(composed.databaseValue != decomposed.databaseValue)
        #expect(composed.databaseValue.storage != decomposed.databaseValue.storage)
        #expect(Set([composed, decomposed, composed].map(\.databaseValue)).count == 2)
        #expect(composed.databaseValue == String(decoding: Array(composed.utf8), as: UTF8.self).databaseValue)
        #expect("".databaseValue == "".databaseValue && "a".databaseValue != "ab".databaseValue)
        let stored = try queue.read { try Bool.fetchOne($0, sql: "SELECT ? = ?", arguments: [composed, decomposed]) }
        #expect(stored == false)
    }

    @Test("an integer that does not fit is nil as a value, and an error when fetched")
    func integersThatDoNotFit() throws {
        #expect(Int8.fromDatabaseValue(128.databaseValue) == nil)
        #expect(UInt.fromDatabaseValue((-1).databaseValue) == nil)
        #expect(UInt16.fromDatabaseValue(65_536.databaseValue) == nil)
        #expect(Int64.fromDatabaseValue(9.3e18.databaseValue) == nil)
        #expect(Int.fromDatabaseValue(Double.infinity.databaseValue) == nil)
        #expect(Int.fromDatabaseValue(Double.nan.databaseValue) == nil)
        #expect(Int.fromDatabaseValue("1".databaseValue) == nil)
        #expect(Int.fromDatabaseValue((-1.9).databaseValue) == -1)
        #expect(UInt64.fromDatabaseValue(Int64.max.databaseValue) == UInt64(Int64.max))
        #expect(throws: RowDecodingError.self) { try fetch(-1, as: UInt.self) }
        #expect(throws: RowDecodingError.self) { try fetch(40_000, as: Int16.self) }
    }

    @Test("numbers are true unless they are zero, and texts are no truth")
    func booleans() throws {
        #expect(try fetch(2, as: Bool.self) == true)
        #expect(try fetch(0, as: Bool.self) == false)
        #expect(Bool.fromDatabaseValue(0.5.databaseValue) == true)
        #expect(Bool.fromDatabaseValue("true".databaseValue) == nil)
        #expect(try fetch(true, as: Int.self) == 1)
    }

    @Test("infinities stay, and what is no number becomes NULL")
    func specialNumbers() throws {
        #expect(try fetch(Double.infinity, as: Double.self) == .infinity)
        #expect(try fetch(-Double.infinity, as: Float.self) == -.infinity)
        #expect(try fetch(Double.nan, as: Double.self) == nil)
        #expect(try fetch(-0.0, as: Double.self) == 0)
        #expect(try fetch(7, as: Double.self) == 7)
        #expect(try fetch(0.1 as Float, as: Float.self) == 0.1)
    }

    @Test("a text keeps its NUL characters; bytes that are not UTF-8 become replacement characters")
    func texts() throws {
        #expect(try fetch("a\0b", as: String.self) == "a\0b")
        #expect(try fetch("", as: String.self) == "")
        #expect(try fetch("naïve 😀", as: String.self) == "naïve 😀")
        let broken = try queue.read { try String.fetchOne($0, sql: "SELECT CAST(x'61ff62' AS TEXT)") }
        #expect(broken == "a\u{fffd}b")
        #expect(String.fromDatabaseValue(Data([0xff]).databaseValue) == nil)
        #expect(String.fromDatabaseValue(Data("ok".utf8).databaseValue) == "ok")
        #expect(String.fromDatabaseValue(1.databaseValue) == nil)
    }

    @Test("empty bytes are not NULL, and a slice of bytes is stored as it is")
    func bytes() throws {
        #expect(try fetch(Data(), as: Data.self) == Data())
        #expect(try fetch(nil, as: Data.self) == nil)
        #expect(try fetch(Data([1, 2, 3])[1...], as: Data.self) == Data([2, 3]))
        #expect(try fetch("abc", as: Data.self) == Data("abc".utf8))
        #expect(try queue.read { try Data.fetchOne($0, sql: "SELECT zeroblob(3)") } == Data(count: 3))
        #expect(try queue.read { try Row.fetchOne($0, sql: "SELECT x''")?[0] as Data? } == Data())
    }

    @Test("a UUID is read from 16 bytes and from its text, and from nothing else")
    func uuids() throws {
        let uuid = UUID()
        #expect(try fetch(uuid, as: UUID.self) == uuid)
        #expect(try fetch(uuid.uuidString.lowercased(), as: UUID.self) == uuid)
        #expect(UUID.fromDatabaseValue(Data(count: 15).databaseValue) == nil)
        #expect(UUID.fromDatabaseValue("no uuid".databaseValue) == nil)
        #expect(UUID.fromDatabaseValue(1.databaseValue) == nil)
    }

    @Test("a URL is stored as its plain text")
    func urls() throws {
        let url = try #require(URL(string: "https://example.org/a%20b?c=d#e"))
        #expect(try fetch(url, as: String.self) == "https://example.org/a%20b?c=d#e")
        #expect(try fetch(url, as: URL.self) == url)
    }

    @Test("a decimal number keeps all of its digits, and is read from numbers too")
    func decimals() throws {
        let decimal = try #require(Decimal(string: "123456789012345678901234567.89"))
        #expect(try fetch(decimal, as: String.self) == "123456789012345678901234567.89")
        #expect(try fetch(decimal, as: Decimal.self) == decimal)
        #expect(try fetch(-3, as: Decimal.self) == -3)
        #expect(try fetch(0.5, as: Decimal.self) == Decimal(string: "0.5"))
        #expect(try fetch("1e3", as: Decimal.self) == 1000)
        #expect(Decimal.fromDatabaseValue("12 apples".databaseValue) == nil)
        #expect(Decimal.fromDatabaseValue("".databaseValue) == nil)
    }

    @Test("an enumeration is stored as its raw value, and an unknown one is refused")
    func enumerations() throws {
        #expect(try fetch(Color.green, as: Color.self) == .green)
        #expect(try fetch(Grade.low, as: Grade.self) == .low)
        #expect(throws: RowDecodingError.self) { try fetch("blue", as: Color.self) }
        #expect(throws: RowDecodingError.self) { try fetch(9, as: Grade.self) }
        #expect(try queue.read { try Grade.fetchAll($0, sql: "VALUES (1), (2)") } == [.low, .high])
        #expect(try fetch(Coded.first, as: Coded.self) == .first)
        #expect(try storageClass(of: Coded.first) == "integer")
    }

    @Test("what has a raw value that can be bound is bound as that")
    func rawBinding() throws {
        try queue.read { db throws in
            let statement = try db.makeStatement(sql: "SELECT ?")
            let pointer = statement.sqliteStatement
            #expect(Bound(rawValue: "text").bind(to: pointer, at: 1) == SQLITE_OK)
            #expect(sqlite3_step(pointer) == SQLITE_ROW)
            #expect(String(sqliteStatement: pointer, index: 0) == "text")
            sqlite3_reset(pointer)
        }
    }

    @Test("a stored value prints as an SQL literal that gives it back")
    func literals() throws {
        let values: [DatabaseValue] = [nil, 1, -1.5, "it's", "", Data([0, 255]).databaseValue]
        for value in values {
            #expect(try queue.read { try DatabaseValue.fetchOne($0, sql: "SELECT \(value)") ?? .null } == value)
        }
        #expect(DatabaseValue(value: "x") == "x")
        #expect(DatabaseValue(value: [1: 2]) == nil)
        #expect(StatementArguments([1, "x", Data()] as [Any]) == [1, "x", Data()])
        #expect(StatementArguments([[1: 2]] as [Any]) == nil)
    }
}
