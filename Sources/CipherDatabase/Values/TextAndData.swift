import Foundation

// How texts and bytes are stored in a database: String as TEXT in UTF-8, Data as BLOB.

extension String: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public var databaseValue: DatabaseValue { DatabaseValue(.string(self)) }

    /// A TEXT, or a BLOB that is UTF-8.
    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> String? {
        switch value.storage {
        case .string(let text): text
        case .blob(let bytes): String(data: bytes, encoding: .utf8)
        default: nil
        }
    }

    @inlinable
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        guard let text = StatementHandle(sqliteStatement).stringOrNil(at: index) else { return nil }
        self = text
    }

    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        StatementHandle(sqliteStatement).bind(self, at: index)
    }
}

extension Data: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    @inlinable
    public var databaseValue: DatabaseValue { DatabaseValue(.blob(self)) }

    /// A BLOB, or the UTF-8 bytes of a TEXT.
    @inlinable
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Data? {
        switch value.storage {
        case .blob(let bytes): bytes
        case .string(let text): Data(text.utf8)
        default: nil
        }
    }

    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        let statement = StatementHandle(sqliteStatement)
        let bytes = statement.bytes(at: index)
        // An empty blob and NULL are both read as no bytes.
        if bytes.isEmpty && statement.isNull(at: index) { return nil }
        self.init(copying: bytes)
    }

    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        withUnsafeBytes { StatementHandle(sqliteStatement).bind($0, at: index) }
    }
}

extension Data {
    /// A copy of bytes. Their number is known, so it takes fewer instructions than the bytes of any other collection.
    @usableFromInline
    init(copying bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else {
            self.init()
            return
        }
        self.init(bytes: start, count: bytes.count)
    }
}

extension UUID: DatabaseValueConvertible, StatementColumnConvertible, StatementBinding {
    @inlinable
    public static var acceptsNull: Bool { true }

    /// The 16 bytes, as a BLOB.
    public var databaseValue: DatabaseValue {
        withUnsafeBytes(of: uuid) { DatabaseValue(.blob(Data($0))) }
    }

    /// A BLOB of 16 bytes, or a TEXT in the usual form.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> UUID? {
        switch value.storage {
        case .blob(let bytes) where bytes.count == 16:
            bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
        case .string(let text): UUID(uuidString: text)
        default: nil
        }
    }

    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        let statement = StatementHandle(sqliteStatement)
        guard statement.storageClass(at: index) == .blob else {
            guard let text = String(sqliteStatement: sqliteStatement, index: index) else { return nil }
            self.init(uuidString: text)
            return
        }
        let bytes = statement.bytes(at: index)
        guard bytes.count == 16 else { return nil }
        self.init(uuid: bytes.loadUnaligned(as: uuid_t.self))
    }

    public func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        withUnsafeBytes(of: uuid) { StatementHandle(sqliteStatement).bind($0, at: index) }
    }
}

extension URL: DatabaseValueConvertible {
    /// The absolute string, as TEXT on every platform.
    public var databaseValue: DatabaseValue { absoluteString.databaseValue }

    public static func fromDatabaseValue(_ value: DatabaseValue) -> URL? {
        String.fromDatabaseValue(value).flatMap { URL(string: $0) }
    }
}
