import Foundation

/// A type whose values a database can store and return.
public protocol DatabaseValueConvertible: SQLExpressible, StatementBinding {
    /// The value as SQLite stores it.
    var databaseValue: DatabaseValue { get }

    /// The Swift value of a stored one; nil when it does not fit.
    static func fromDatabaseValue(_ value: DatabaseValue) -> Self?

    /// The Swift value of a column that is not in the row; nil when there is none.
    static func fromMissingColumn() -> Self?

    /// The encoder of values that are stored as JSON.
    static func databaseJSONEncoder() -> JSONEncoder

    /// The decoder of values that are stored as JSON.
    static func databaseJSONDecoder() -> JSONDecoder
}

extension DatabaseValueConvertible {
    public static func fromMissingColumn() -> Self? { nil }

    /// Binds ``databaseValue``.
    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        databaseValue.bind(to: sqliteStatement, at: index)
    }
}

/// A type that reads itself directly from a statement's current row, without a ``DatabaseValue`` in between.
public protocol StatementColumnConvertible {
    /// Reads a column of the current row.
    ///
    /// - Parameters:
    ///   - sqliteStatement: A statement that has a current row.
    ///   - index: The column, counted from 0.
    /// - Returns: nil for values that the type cannot hold. It is never called for NULL, for which SQLite's functions
    ///   return 0 or no bytes, unless ``acceptsNull`` says so.
    init?(sqliteStatement: SQLiteStatement, index: CInt)

    /// Whether `init(sqliteStatement:index:)` may be called for NULL, and distinguishes it from other values itself.
    ///
    /// False unless a type says otherwise. For the library's own types it is true, which saves the test in most
    /// columns.
    static var acceptsNull: Bool { get }
}

extension StatementColumnConvertible {
    @inlinable
    public static var acceptsNull: Bool { false }

    /// The value of a column of the current row; nil for NULL, and for values that the type cannot hold. An optional
    /// type has NULL as a value.
    ///
    /// - Parameters:
    ///   - sqliteStatement: A statement that has a current row.
    ///   - index: One of its columns, counted from 0. It is not compared with their number.
    @inlinable
    public static func fromStatement(_ sqliteStatement: SQLiteStatement, atUncheckedIndex index: CInt) -> Self? {
        Self(column: index, of: StatementHandle(sqliteStatement))
    }

    /// Reads a column of the current row; nil for NULL, and for values that the type cannot hold. Every read of a
    /// column uses this function.
    @inlinable @inline(__always)
    init?(column index: CInt, of statement: StatementHandle) {
        if !Self.acceptsNull && statement.isNull(at: index) { return nil }
        self.init(sqliteStatement: statement.pointer, index: index)
    }
}

/// A type that binds itself directly to a statement's parameter.
public protocol StatementBinding {
    /// Binds the value.
    ///
    /// - Parameters:
    ///   - sqliteStatement: A statement that is not running.
    ///   - index: The parameter, counted from 1.
    /// - Returns: SQLite's result code.
    func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt
}

extension DatabaseValueConvertible where Self: RawRepresentable, RawValue: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { rawValue.databaseValue }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        RawValue.fromDatabaseValue(value).flatMap { Self(rawValue: $0) }
    }
}

extension StatementColumnConvertible where Self: RawRepresentable, RawValue: StatementColumnConvertible {
    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let raw = RawValue(sqliteStatement: sqliteStatement, index: index) else { return nil }
        self.init(rawValue: raw)
    }
}

extension StatementBinding where Self: RawRepresentable, RawValue: StatementBinding {
    /// Binds the raw value.
    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        rawValue.bind(to: sqliteStatement, at: index)
    }
}

extension DatabaseValueConvertible where Self: RawRepresentable, RawValue: StatementBinding {
    /// Binds ``databaseValue``, which a type may define itself.
    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        databaseValue.bind(to: sqliteStatement, at: index)
    }
}
