import Foundation

// How Swift's numbers are stored in a database: integers as INTEGER, Bool as 0 and 1, floating point as REAL, decimals
// as TEXT.

// Codable is named to take precedence over the conformance that Codable types have by default.
extension DatabaseValueConvertible where Self: FixedWidthInteger & Codable {
    @inlinable
    public var databaseValue: DatabaseValue {
        // SQLite cannot store a UInt64 above Int64.max; NULL would lose it silently, so it traps.
        DatabaseValue(.int64(Int64(self)))
    }

    /// An INTEGER that fits, or a REAL that fits without its fraction, as SQLite itself converts it.
    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        switch value.storage {
        case .int64(let integer): Self(exactly: integer)
        case .double(let double): Int64(exactly: double.rounded(.towardZero)).flatMap { Self(exactly: $0) }
        default: nil
        }
    }
}

extension StatementColumnConvertible where Self: FixedWidthInteger {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let value = StatementHandle(sqliteStatement).int64OrNil(at: index) else { return nil }
        self.init(exactly: value)
    }
}

extension StatementBinding where Self: FixedWidthInteger {
    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        StatementHandle(sqliteStatement).bind(Int64(self), at: index)
    }
}

extension Int: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension Int8: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension Int16: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension Int32: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension Int64: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension UInt: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension UInt8: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension UInt16: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension UInt32: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}
extension UInt64: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {}

extension Bool: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public var databaseValue: DatabaseValue { DatabaseValue(.int64(self ? 1 : 0)) }

    /// Zero is false, every other number is true.
    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Bool? {
        switch value.storage {
        case .int64(let integer): integer != 0
        case .double(let double): double != 0
        default: nil
        }
    }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let value = StatementHandle(sqliteStatement).int64OrNil(at: index) else { return nil }
        self = value != 0
    }

    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        StatementHandle(sqliteStatement).bind(Int64(self ? 1 : 0), at: index)
    }
}

extension Double: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public var databaseValue: DatabaseValue { DatabaseValue(.double(self)) }

    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Double? {
        switch value.storage {
        case .int64(let integer): Double(integer)
        case .double(let double): double
        default: nil
        }
    }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let value = StatementHandle(sqliteStatement).doubleOrNil(at: index) else { return nil }
        self = value
    }

    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        StatementHandle(sqliteStatement).bind(self, at: index)
    }
}

extension Float: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public var databaseValue: DatabaseValue { DatabaseValue(.double(Double(self))) }

    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Float? {
        Double.fromDatabaseValue(value).map { Float($0) }
    }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let value = StatementHandle(sqliteStatement).doubleOrNil(at: index) else { return nil }
        self = Float(value)
    }

    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        StatementHandle(sqliteStatement).bind(Double(self), at: index)
    }
}

extension CGFloat: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public var databaseValue: DatabaseValue { DatabaseValue(.double(Double(self))) }

    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> CGFloat? {
        Double.fromDatabaseValue(value).map { CGFloat($0) }
    }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let value = StatementHandle(sqliteStatement).doubleOrNil(at: index) else { return nil }
        self = CGFloat(value)
    }

    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        StatementHandle(sqliteStatement).bind(Double(self), at: index)
    }
}

// Decimals are in this file because every program links it. A record finds the conformance at run time, and a linker
// leaves out an object of a static library that nothing names.
extension Decimal: DatabaseValueConvertible {
    /// The digits, as TEXT with a point: a REAL could not hold all of them. Declare the column TEXT. A column of a numeric
    /// type stores a double instead, of 15 to 17 digits; a record with more digits is refused there.
    /// NaN is NULL, as that of a double is.
    public var databaseValue: DatabaseValue { isNaN ? .null : description.databaseValue }

    /// A TEXT that is a decimal number, or a number. A REAL has the fewest digits that stand for it; infinite ones, and those
    /// that a `Decimal` cannot hold (about 1e127 and more, 1e-128 and less), are none.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Decimal? {
        switch value.storage {
        case .int64(let integer): Decimal(integer)
        // Not Decimal(double): for many doubles it adds digits that no column of a numeric type stores.
        case .double(let double): Decimal(wholeText: "\(double)")
        case .string(let text): Decimal(wholeText: text)
        default: nil
        }
    }

    // Foundation accepts a number at the beginning of a text and ignores the rest.
    private init?(wholeText text: String) {
        let isNumber = text.wholeMatch(of: /[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/) != nil
        guard isNumber, let value = Decimal(string: text, locale: Locale(identifier: "en_US_POSIX")),
            !value.isNaN
        else { return nil }
        self = value
    }
}
