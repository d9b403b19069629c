import Foundation

/// A value as SQLite stores it: one of the five storage classes.
/// - SeeAlso: <https://www.sqlite.org/datatype3.html>
public struct DatabaseValue: Sendable {
    /// The storage class and the value.
    public enum Storage: Hashable, Sendable {
        case null
        case int64(Int64)
        case double(Double)
        case string(String)
        case blob(Data)
    }

    public let storage: Storage
    /// Whether this stands for a value that could not be encoded. Storing it is an error.
    @usableFromInline package let isUnencodable: Bool

    @inlinable
    public init(_ storage: Storage) {
        self.storage = storage
        isUnencodable = false
    }

    private init(isUnencodable: Bool) {
        storage = .null
        self.isUnencodable = isUnencodable
    }

    /// The stand-in of a value that could not be encoded, for example one whose JSON cannot be made.
    static let unencodable = DatabaseValue(isUnencodable: true)

    /// The value of any Swift value that a database can hold; NULL for all others.
    public init?(value: Any) {
        switch value {
        case let value as any DatabaseValueConvertible: self = value.databaseValue
        case Optional<Any>.none: self = .null
        default: return nil
        }
    }

    @inlinable
    public static var null: DatabaseValue { DatabaseValue(.null) }

    /// Whether the value is NULL. The stand-in of a value that could not be encoded is not: storing it throws.
    @inlinable
    public var isNull: Bool { if case .null = storage { !isUnencodable } else { false } }
}

extension DatabaseValue.Storage {
    /// Whether both are the same value of one storage class. Texts are equal where their bytes are, as in SQLite: Swift
    /// holds two spellings of one character equal.
    public static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.int64(let left), .int64(let right)): left == right
        case (.double(let left), .double(let right)): left == right
        case (.string(let left), .string(let right)): left.hasSameBytes(as: right)
        case (.blob(let left), .blob(let right)): left == right
        default: false
        }
    }
}

extension DatabaseValue: Hashable {
    /// Whether both are the same value. An INTEGER and a REAL of the same number are equal, as in SQLite; their
    /// ``storage`` differs. Texts are equal where their bytes are.
    public static func == (left: DatabaseValue, right: DatabaseValue) -> Bool {
        switch (left.storage, right.storage) {
        case (.int64(let integer), .double(let double)), (.double(let double), .int64(let integer)):
            Int64(exactly: double) == integer
        case (.null, .null): left.isUnencodable == right.isUnencodable
        default: left.storage == right.storage
        }
    }

    public func hash(into hasher: inout Hasher) {
        if case .int64(let integer) = storage {
            // Equal values have the same hash.
            hasher.combine(Storage.double(Double(integer)))
        } else {
            hasher.combine(storage)
        }
    }
}

extension DatabaseValue: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { self }
    public static func fromDatabaseValue(_ value: DatabaseValue) -> DatabaseValue? { value }
    public static func fromMissingColumn() -> DatabaseValue? { nil }
}

extension DatabaseValue: StatementColumnConvertible {
    @inlinable
    public static var acceptsNull: Bool { true }

    public init(sqliteStatement: SQLiteStatement, index: CInt) {
        self.init(statement: StatementHandle(sqliteStatement), index: index)
    }

    @inlinable
    init(statement: StatementHandle, index: CInt) {
        switch statement.storageClass(at: index) {
        case .null: self.init(.null)
        case .integer: self.init(.int64(statement.int64(at: index)))
        case .real: self.init(.double(statement.double(at: index)))
        case .text: self.init(.string(statement.stringOrNil(at: index) ?? ""))
        case .blob: self.init(.blob(Data(copying: statement.bytes(at: index))))
        }
    }
}

extension DatabaseValue: StatementBinding {
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        let statement = StatementHandle(sqliteStatement)
        return switch storage {
        case .null: isUnencodable ? ResultCode.SQLITE_MISMATCH.rawValue : statement.bindNull(at: index)
        case .int64(let value): statement.bind(value, at: index)
        case .double(let value): statement.bind(value, at: index)
        case .string(let value): statement.bind(value, at: index)
        case .blob(let value): value.withUnsafeBytes { statement.bind($0, at: index) }
        }
    }
}

extension DatabaseValue: ExpressibleByNilLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral
{
    public init(nilLiteral: ()) { self = .null }
    public init(integerLiteral value: Int64) { self.init(.int64(value)) }
    public init(floatLiteral value: Double) { self.init(.double(value)) }
    public init(stringLiteral value: String) { self.init(.string(value)) }
}

extension DatabaseValue: CustomStringConvertible {
    /// The value as an SQL literal.
    public var description: String {
        switch storage {
        case .null: "NULL"
        case .int64(let value): String(value)
        case .double(let value): String(value)
        case .string(let value): "'" + value.replacingOccurrences(of: "'", with: "''") + "'"
        case .blob(let value): "x'" + value.map { String(format: "%02X", $0) }.joined() + "'"
        }
    }
}

extension DatabaseError {
    /// The error of a value that could not be encoded.
    static func unencodable(sql: String?) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISMATCH,
            message:
                "a value could not be encoded, so the statement did not run. JSON contains neither NaN nor infinity, and "
                + "a type may refuse a value",
            sql: sql)
    }
}

extension DatabaseValue {
    /// The value for people, in rows and arguments: texts in double quotes, and the length of bytes.
    var summary: String {
        switch storage {
        case .string(let value): String(reflecting: value)
        case .blob(let value): "Data(\(value.count) bytes)"
        case .null, .int64, .double: description
        }
    }
}

extension DatabaseValue.Storage {
    /// The stored value as a Swift value; nil for NULL.
    public var value: (any DatabaseValueConvertible)? {
        switch self {
        case .null: nil
        case .int64(let value): value
        case .double(let value): value
        case .string(let value): value
        case .blob(let value): value
        }
    }
}
