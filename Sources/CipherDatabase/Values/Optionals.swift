// Optional values: nil is stored as NULL.

extension Optional: DatabaseValueConvertible where Wrapped: DatabaseValueConvertible {
    @inlinable
    public var databaseValue: DatabaseValue { self?.databaseValue ?? .null }

    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Wrapped?? {
        if let wrapped = Wrapped.fromDatabaseValue(value) { return .some(wrapped) }
        return value.isNull ? .some(nil) : nil
    }

    public static func fromMissingColumn() -> Wrapped?? { .some(nil) }
}

extension Optional: StatementColumnConvertible where Wrapped: StatementColumnConvertible {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        let statement = StatementHandle(sqliteStatement)
        if let wrapped = Wrapped(column: index, of: statement) {
            self = wrapped
        } else if statement.isNull(at: index) {
            self = .none
        } else {
            return nil
        }
    }
}

extension Optional: StatementBinding where Wrapped: StatementBinding {
    @inlinable
    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        self?.bind(to: sqliteStatement, at: index) ?? StatementHandle(sqliteStatement).bindNull(at: index)
    }
}
