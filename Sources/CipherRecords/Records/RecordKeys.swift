import CipherDatabase
import Foundation

// Records by their keys.

/// Values of primary keys.
enum RecordKey {
    /// The rows with keys, of which there is one at least.
    static func condition(_ values: [DatabaseValue]) -> Term {
        let terms = values.map { Term($0) }
        if terms.count > ListedValues.mostParameters, let list = ListedValues.query(of: terms) {
            return Term(.apply(.primaryKey, [list] + (ListedValues.exactQuery(of: terms).map { [$0] } ?? [])))
        }
        return Term(.apply(.primaryKey, terms))
    }

    /// How the records of a type store their keys: their strategies for data, dates and UUIDs hold for keys too.
    struct Encoding {
        private let record: any EncodableRecord.Type

        /// - Returns: nil where keys are stored as they are: most keys are numbers and texts.
        init?<Key>(_ key: Key.Type, for type: Any.Type) {
            let isEncoded =
                key == UUID.self || key == Date.self || key == Data.self || key == UUID?.self || key == Date?.self
                || key == Data?.self
            guard isEncoded else { return nil }
            self.init(recordsOf: type)
        }

        /// - Returns: nil for a type that stores nothing.
        init?(recordsOf type: Any.Type) {
            guard let record = type as? any EncodableRecord.Type else { return nil }
            self.record = record
        }

        func value(of key: some DatabaseValueConvertible, column: String) throws -> DatabaseValue {
            try value(of: EncodedKey(key), column: column)
        }

        private func value(of key: EncodedKey, column: String) throws -> DatabaseValue {
            switch key {
            case .uuid(let uuid): record.databaseUUIDEncodingStrategy(for: column).value(of: uuid)
            case .date(let date): try record.databaseDateEncodingStrategy(for: column).value(of: date)
            case .data(let data): try record.databaseDataEncodingStrategy(for: column).value(of: data)
            case .other(let value): value
            }
        }

        /// The values in the column of a table's key, which only a connection knows.
        func values(
            of keys: some Collection<some DatabaseValueConvertible>
        ) -> @Sendable (Database, _ table: String) throws -> [DatabaseValue] {
            let keys = keys.map { EncodedKey($0) }
            return { db, table in
                let column = try db.primaryKey(table).columns.first ?? ""
                return try keys.map { try value(of: $0, column: column) }.filter { !$0.isNull }
            }
        }
    }

    /// The values of a key in a dictionary, as the records of a type store them.
    ///
    /// - Throws: `EncodingError` for a value that they cannot store.
    static func stored(
        _ key: [String: (any DatabaseValueConvertible)?], for type: Any.Type
    ) throws -> [String: DatabaseValue] {
        let encoding = Encoding(recordsOf: type)
        var values: [String: DatabaseValue] = [:]
        for (column, value) in key {
            guard let value else {
                values[column] = .null
                continue
            }
            values[column] = try encoding?.value(of: value, column: column) ?? value.databaseValue
        }
        return values
    }

    private enum EncodedKey: Sendable {
        case uuid(UUID)
        case date(Date)
        case data(Data)
        case other(DatabaseValue)

        init(_ key: some DatabaseValueConvertible) {
            switch key {
            case let uuid as UUID: self = .uuid(uuid)
            case let date as Date: self = .date(date)
            case let data as Data: self = .data(data)
            default: self = .other(key.databaseValue)
            }
        }
    }
}

extension FetchableRecord where Self: TableRecord {
    // MARK: One record

    /// The record with a primary key of one column; nil when there is none, and for nil.
    @inlinable
    public static func fetchOne<Key: DatabaseValueConvertible>(_ db: Database, key: Key?) throws -> Self? {
        guard let key, let statement = try statement(db, key: key) else { return nil }
        return try fetchOne(statement)
    }

    /// The statement for a key; nil for a key that is NULL.
    @usableFromInline
    static func statement<Key: DatabaseValueConvertible>(_ db: Database, key: Key) throws -> Statement? {
        let stored = key.databaseValue
        if stored.isNull { return nil }
        let table = try db.records().table(of: Self.self, db)
        let encoding = RecordKey.Encoding(Key.self, for: Self.self)
        let value = try encoding?.value(of: key, column: table.key.columns.first ?? "") ?? stored
        // A request knows which row it reads, and has the values of the selection.
        if db.isRecordingRegion || !table.keepsFetching(Self.self) {
            return try filter(key: value).makePreparedRequest(db, forSingleResult: true).statement
        }
        let statement = try table.statement(.fetch, .none, db) {
            try SQLGenerator.generate(
                .select(filter(key: value).relation, singleResult: true), facts: SchemaFacts(db)
            ).text
        }
        try statement.setArgument(value)
        return statement
    }

    /// The record with the columns of a unique key; nil when there is none, and for nil.
    public static func fetchOne(_ db: Database, key: [String: (any DatabaseValueConvertible)?]?) throws -> Self? {
        guard let key else { return nil }
        return try filter(key: key).fetchOne(db)
    }

    /// The record with a primary key of one column.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public static func find(_ db: Database, key: some DatabaseValueConvertible) throws -> Self {
        if let record = try fetchOne(db, key: key) { return record }
        throw recordNotFound(db, key: key)
    }

    /// The record with the columns of a unique key.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public static func find(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> Self {
        if let record = try fetchOne(db, key: key) { return record }
        throw recordNotFound(key: key)
    }

    // MARK: Several records

    /// The records with primary keys of one column, one after another.
    public static func fetchCursor(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> RecordCursor<Self> {
        try filter(keys: keys).fetchCursor(db)
    }

    /// The records with primary keys of one column, in any order.
    public static func fetchAll(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> [Self] {
        keys.isEmpty ? [] : try filter(keys: keys).fetchAll(db)
    }

    /// The records with the columns of unique keys, one after another.
    public static func fetchCursor(
        _ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]
    ) throws -> RecordCursor<Self> {
        try filter(keys: keys).fetchCursor(db)
    }

    /// The records with the columns of unique keys, in any order.
    public static func fetchAll(_ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]) throws -> [Self] {
        keys.isEmpty ? [] : try filter(keys: keys).fetchAll(db)
    }
}

extension FetchableRecord where Self: TableRecord & Hashable {
    /// The records with primary keys of one column.
    public static func fetchSet(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> Set<Self> {
        keys.isEmpty ? [] : try filter(keys: keys).fetchSet(db)
    }

    /// The records with the columns of unique keys.
    public static func fetchSet(_ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]) throws -> Set<Self> {
        keys.isEmpty ? [] : try filter(keys: keys).fetchSet(db)
    }
}

extension FetchableRecord where Self: TableRecord & Identifiable, ID: DatabaseValueConvertible {
    /// The record with an identifier; nil when there is none.
    public static func fetchOne(_ db: Database, id: ID) throws -> Self? { try fetchOne(db, key: id) }

    /// The record with an identifier.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public static func find(_ db: Database, id: ID) throws -> Self { try find(db, key: id) }

    /// The records with identifiers, one after another.
    public static func fetchCursor(_ db: Database, ids: some Collection<ID>) throws -> RecordCursor<Self> {
        try fetchCursor(db, keys: ids)
    }

    /// The records with identifiers, in any order.
    public static func fetchAll(_ db: Database, ids: some Collection<ID>) throws -> [Self] {
        try fetchAll(db, keys: ids)
    }
}

extension FetchableRecord where Self: TableRecord & Identifiable & Hashable, ID: DatabaseValueConvertible {
    /// The records with identifiers.
    public static func fetchSet(_ db: Database, ids: some Collection<ID>) throws -> Set<Self> {
        try fetchSet(db, keys: ids)
    }
}

extension TableRecord {
    // MARK: Existence and deletion

    /// Whether a row has a primary key of one column; not for NULL.
    public static func exists(_ db: Database, key: some DatabaseValueConvertible) throws -> Bool {
        try !key.databaseValue.isNull && !filter(key: key).isEmpty(db)
    }

    /// Whether a row has the columns of a unique key.
    public static func exists(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> Bool {
        try !filter(key: key).isEmpty(db)
    }

    /// Deletes the row with a primary key of one column; none for NULL.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public static func deleteOne(_ db: Database, key: some DatabaseValueConvertible) throws -> Bool {
        try !key.databaseValue.isNull && filter(key: key).deleteAll(db) > 0
    }

    /// Deletes the row with the columns of a unique key.
    ///
    /// - Returns: Whether there was one.
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` if several rows have the key, as with NULL.
    @discardableResult
    public static func deleteOne(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> Bool {
        try filter(key: key).deleteOnly(db, of: key.keys)
    }

    /// Deletes the rows with primary keys of one column.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public static func deleteAll(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> Int {
        keys.isEmpty ? 0 : try filter(keys: keys).deleteAll(db)
    }

    /// Deletes the rows with the columns of unique keys.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public static func deleteAll(_ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]) throws -> Int {
        keys.isEmpty ? 0 : try filter(keys: keys).deleteAll(db)
    }
}

extension TableRecord where Self: Identifiable, ID: DatabaseValueConvertible {
    /// Whether a row has an identifier.
    public static func exists(_ db: Database, id: ID) throws -> Bool { try exists(db, key: id) }

    /// Deletes the row with an identifier.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public static func deleteOne(_ db: Database, id: ID) throws -> Bool { try deleteOne(db, key: id) }

    /// Deletes the rows with identifiers.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public static func deleteAll(_ db: Database, ids: some Collection<ID>) throws -> Int {
        try deleteAll(db, keys: ids)
    }
}

extension TableRecord {
    // MARK: Errors

    /// The error of a primary key that no row has: a ``RecordError``, unless the key cannot be that of the table.
    public static func recordNotFound<Key: DatabaseValueConvertible>(_ db: Database, key: Key) -> any Error {
        do {
            let columns = try db.primaryKey(databaseTableName).columns
            guard let column = columns.first, columns.count == 1 else {
                return DatabaseError.compositeKey(columns, of: databaseTableName)
            }
            let value = try RecordKey.Encoding(Key.self, for: Self.self)?.value(of: key, column: column)
            return RecordError.recordNotFound(
                databaseTableName: databaseTableName, key: [column: value ?? key.databaseValue])
        } catch {
            return error
        }
    }

    /// The error of a key that no row has.
    public static func recordNotFound(key: [String: (any DatabaseValueConvertible)?]) -> RecordError {
        let values = (try? RecordKey.stored(key, for: Self.self)) ?? key.mapValues { $0?.databaseValue ?? .null }
        return .recordNotFound(databaseTableName: databaseTableName, key: values)
    }
}

extension TableRecord where Self: Identifiable, ID: DatabaseValueConvertible {
    /// The error of an identifier that no row has: a ``RecordError``, unless it cannot be the key of the table.
    public static func recordNotFound(_ db: Database, id: ID) -> any Error { recordNotFound(db, key: id) }
}

extension TableRecord where Self: EncodableRecord {
    /// The primary key, by column.
    ///
    /// - Throws: `DatabaseError` of a record that does not encode it, ``RecordError`` of one that has none yet.
    package func primaryKey(_ db: Database) throws -> [(column: String, value: DatabaseValue)] {
        let table = type(of: self).databaseTableName
        let container = try PersistenceContainer(self)
        let key = try db.primaryKey(table).columns.map { column in
            if let value = container.value(of: column) { return (column: column, value: value) }
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "\(type(of: self)) does not encode the column \"\(column)\" of the primary key of \"\(table)\""
            )
        }
        if key.allSatisfy(\.value.isNull) { throw recordNotFound(db) }
        return key
    }

    /// The error of a record that has no row: a ``RecordError``, unless the record cannot be encoded, or the table is
    /// not there.
    public func recordNotFound(_ db: Database) -> any Error {
        do {
            // The class of an object may be below that of its variable.
            let table = type(of: self).databaseTableName
            let container = try PersistenceContainer(self)
            let key = try db.primaryKey(table).columns.map { ($0, container.value(of: $0) ?? .null) }
            return RecordError.recordNotFound(
                databaseTableName: table, key: Dictionary(key, uniquingKeysWith: { first, _ in first })
            )
        } catch {
            return error
        }
    }
}
