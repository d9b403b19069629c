extension Substring: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    public var databaseValue: DatabaseValue { String(self).databaseValue }

    /// The same values as for a String.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Substring? {
        String.fromDatabaseValue(value).map { $0[...] }
    }

    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let text = String(sqliteStatement: sqliteStatement, index: index) else { return nil }
        self = text[...]
    }

    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        String(self).bind(to: sqliteStatement, at: index)
    }
}
