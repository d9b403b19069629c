import Foundation

// Foundation's classes are stored like the Swift types of the same meaning.

extension NSNull: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { .null }

    /// Always nil: NULL means no value, and no other value is an NSNull.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? { nil }
}

extension NSNumber: DatabaseValueConvertible {
    /// An INTEGER, or a REAL for floating-point numbers; a decimal number is stored as TEXT. Traps for a whole number
    /// above `Int64.max`, which SQLite cannot hold.
    public var databaseValue: DatabaseValue {
        if let number = self as? NSDecimalNumber { return number.decimalValue.databaseValue }
        return switch UInt8(bitPattern: objCType.pointee) {
        case UInt8(ascii: "f"), UInt8(ascii: "d"): doubleValue.databaseValue
        case UInt8(ascii: "Q"), UInt8(ascii: "L"): uint64Value.databaseValue
        default: int64Value.databaseValue
        }
    }

    /// An INTEGER or a REAL; a TEXT that is a number, for decimal numbers.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        switch value.storage {
        case .int64(let integer): NSNumber(value: integer) as? Self ?? decimal(value)
        case .double(let double): NSNumber(value: double) as? Self ?? decimal(value)
        case .string: decimal(value)
        default: nil
        }
    }

    private static func decimal(_ value: DatabaseValue) -> Self? {
        Decimal.fromDatabaseValue(value).flatMap { NSDecimalNumber(decimal: $0) as? Self }
    }
}

extension NSString: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { String(describing: self).databaseValue }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        String.fromDatabaseValue(value).flatMap { NSString(string: $0) as? Self }
    }
}

extension NSData: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { Data(referencing: self).databaseValue }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        Data.fromDatabaseValue(value).flatMap { NSData(data: $0) as? Self }
    }
}

extension NSDate: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { Date(timeIntervalSince1970: timeIntervalSince1970).databaseValue }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        Date.fromDatabaseValue(value).flatMap { NSDate(timeIntervalSince1970: $0.timeIntervalSince1970) as? Self }
    }
}

extension NSURL: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue {
        // Optional on Apple's platforms alone.
        let text: String? = absoluteString
        return text?.databaseValue ?? .null
    }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        String.fromDatabaseValue(value).flatMap { NSURL(string: $0) as? Self }
    }
}

extension NSUUID: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { UUID(uuidString: uuidString)?.databaseValue ?? .null }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        UUID.fromDatabaseValue(value).flatMap { NSUUID(uuidString: $0.uuidString) as? Self }
    }
}
