import CipherDatabase
import CipherSchema
import Foundation

/// A type that is read from rows.
///
/// ```swift
/// struct Player: FetchableRecord {
///     var name: String
///     init(row: Row) { name = row["name"] }
/// }
/// let players = try Player.fetchAll(db, sql: "SELECT * FROM player")
/// ```
///
/// Types that are `Decodable` need no `init(row:)`.
public protocol FetchableRecord {
    /// Makes a record of a row.
    ///
    /// The same `Row` object is reused for each row of a result. To keep a row, store `row.copy()`.
    init(row: Row) throws

    // MARK: Decodable records

    /// The content of `userInfo` in the decoder of a `Decodable` record.
    static var databaseDecodingUserInfo: [CodingUserInfoKey: Any] { get }

    /// How `Data` of a `Decodable` record is read.
    static func databaseDataDecodingStrategy(for column: String) -> DatabaseDataDecodingStrategy

    /// How `Data` of a `Decodable` record is read from all columns, unless the method for a column is there: the form
    /// that programs for GRDB 6 and earlier have.
    static var databaseDataDecodingStrategy: DatabaseDataDecodingStrategy { get }

    /// How a `Date` of a `Decodable` record is read.
    static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy

    /// How a `Date` of a `Decodable` record is read from all columns, unless the method for a column is there: the form
    /// that programs for GRDB 6 and earlier have.
    static var databaseDateDecodingStrategy: DatabaseDateDecodingStrategy { get }

    /// How the columns of a `Decodable` record are named.
    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { get }

    /// The decoder of a property that is stored as JSON.
    static func databaseJSONDecoder(for key: String) -> JSONDecoder
}

extension FetchableRecord {
    public static var databaseDecodingUserInfo: [CodingUserInfoKey: Any] { [:] }

    public static func databaseDataDecodingStrategy(for column: String) -> DatabaseDataDecodingStrategy {
        databaseDataDecodingStrategy
    }

    public static var databaseDataDecodingStrategy: DatabaseDataDecodingStrategy { .deferredToData }

    public static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
        databaseDateDecodingStrategy
    }

    public static var databaseDateDecodingStrategy: DatabaseDateDecodingStrategy { .deferredToDate }

    public static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { .useDefaultKeys }

    /// The decoder for what ``EncodableRecord/databaseJSONEncoder(for:)`` writes.
    public static func databaseJSONDecoder(for key: String) -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dataDecodingStrategy = .base64
        decoder.dateDecodingStrategy = .millisecondsSince1970
        decoder.nonConformingFloatDecodingStrategy = .throw
        decoder.userInfo = databaseDecodingUserInfo.ofCoder
        return decoder
    }
}

/// The records of a statement, one after another.
public final class RecordCursor<Record: FetchableRecord>: DatabaseCursor {
    @usableFromInline let rows: RowCursor
    /// The error of a row that could not be read: it ends the cursor.
    @exclusivity(unchecked) @usableFromInline var failure: (any Error)?

    public var statement: Statement { rows.statement }

    @usableFromInline
    init(_ rows: RowCursor) { self.rows = rows }

    @inlinable
    public func next() throws -> Record? {
        if let failure { throw failure }
        guard let row = try rows.next() else { return nil }
        do {
            return try Record(row: row)
        } catch {
            failure = error
            throw error
        }
    }
}

extension FetchableRecord {
    // MARK: From statements

    /// The records of a statement, one after another.
    @inlinable
    public static func fetchCursor(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> RecordCursor<Self> {
        RecordCursor(try Row.fetchCursor(statement, arguments: arguments, adapter: adapter))
    }

    /// All records of a statement.
    @inlinable
    public static func fetchAll(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> [Self] {
        let rows = try Row.fetchCursor(statement, arguments: arguments, adapter: adapter)
        guard let row = try rows.next() else { return [] }
        var records = [try Self(row: row)]
        if rows.showsAllRows(by: row) {
            while try rows.advance() {
                if records.count == records.capacity {
                    records.reserveCapacity(statement.capacity(after: records.count))
                }
                records.append(try Self(row: row))
            }
        } else {
            while let row = try rows.next() { records.append(try Self(row: row)) }
        }
        statement.latestRowCount = records.count
        return records
    }

    /// The first record of a statement; nil when there is none.
    @inlinable
    public static func fetchOne(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Self? {
        if adapter == nil { return try statement.readFirstRow(arguments: arguments) { try Self(row: $0) } }
        let rows = try Row.fetchCursor(statement, arguments: arguments, adapter: adapter)
        guard let row = try rows.next() else { return nil }
        if statement.isReadonly { return try Self(row: row) }
        // A statement that changes rows has changed them all, and has to come to its end. The record may keep its row.
        let record = try Self(row: row.copy())
        while try rows.next() != nil {}
        return record
    }

    // MARK: From SQL

    /// The records of a query, one after another.
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> RecordCursor<Self> {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments, adapter: adapter)
    }

    /// All records of a query.
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> [Self] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    /// The first record of a query; nil when there is none.
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Self? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    // MARK: From requests

    /// The records of a request, one after another.
    public static func fetchCursor(_ db: Database, _ request: some FetchRequest) throws -> RecordCursor<Self> {
        let request = try request.makePreparedRequest(db, forSingleResult: false)
        try request.requireNoSupplement()
        return try fetchCursor(request.statement, adapter: request.adapter)
    }

    /// All records of a request.
    @inlinable
    public static func fetchAll(_ db: Database, _ request: some FetchRequest) throws -> [Self] {
        let request = try request.makePreparedRequest(db, forSingleResult: false)
        if request.adapter == nil, let prefetch = request.prefetch {
            let rows = try KeptRows(request.statement)
            var records: [Self] = []
            records.reserveCapacity(rows.count)
            try rows.forEachLentRow(with: prefetch(rows)) { records.append(try Self(row: $0)) }
            return records
        }
        if let supplement = request.supplement {
            let rows = try Row.fetchAll(request.statement, adapter: request.adapter)
            return try supplement(rows).map { try Self(row: $0) }
        }
        return try fetchAll(request.statement, adapter: request.adapter)
    }

    /// The first record of a request; nil when there is none.
    @inlinable
    public static func fetchOne(_ db: Database, _ request: some FetchRequest) throws -> Self? {
        let request = try request.makePreparedRequest(db, forSingleResult: true)
        if let supplement = request.supplement {
            guard let row = try Row.fetchOne(request.statement, adapter: request.adapter) else { return nil }
            return try supplement([row]).first.map { try Self(row: $0) }
        }
        return try fetchOne(request.statement, adapter: request.adapter)
    }
}

extension FetchableRecord where Self: Hashable {
    /// The different records of a statement.
    public static func fetchSet(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Set<Self> {
        try Set(fetchCursor(statement, arguments: arguments, adapter: adapter))
    }

    /// The different records of a query.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Set<Self> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    /// The different records of a request.
    public static func fetchSet(_ db: Database, _ request: some FetchRequest) throws -> Set<Self> {
        let prepared = try request.makePreparedRequest(db, forSingleResult: false)
        if prepared.supplement != nil { return try Set(fetchAll(db, request)) }
        return try fetchSet(prepared.statement, adapter: prepared.adapter)
    }
}

extension FetchRequest where RowDecoder: FetchableRecord {
    /// The records, one after another.
    public func fetchCursor(_ db: Database) throws -> RecordCursor<RowDecoder> { try RowDecoder.fetchCursor(db, self) }

    /// All records.
    @inlinable
    public func fetchAll(_ db: Database) throws -> [RowDecoder] { try RowDecoder.fetchAll(db, self) }

    /// The first record; nil when there is none.
    @inlinable
    public func fetchOne(_ db: Database) throws -> RowDecoder? { try RowDecoder.fetchOne(db, self) }
}

extension FetchRequest where RowDecoder: FetchableRecord & Hashable {
    /// The different records.
    public func fetchSet(_ db: Database) throws -> Set<RowDecoder> { try RowDecoder.fetchSet(db, self) }
}

extension FetchableRecord where Self: TableRecord {
    /// The records of the table, one after another.
    public static func fetchCursor(_ db: Database) throws -> RecordCursor<Self> { try all().fetchCursor(db) }

    /// All records of the table.
    public static func fetchAll(_ db: Database) throws -> [Self] { try all().fetchAll(db) }

    /// A record of the table; nil when there is none.
    public static func fetchOne(_ db: Database) throws -> Self? { try all().fetchOne(db) }
}

extension FetchableRecord where Self: TableRecord & Hashable {
    /// The different records of the table.
    public static func fetchSet(_ db: Database) throws -> Set<Self> { try all().fetchSet(db) }
}

// The facts about a schema that SQLite gives as rows.

extension ColumnInfo: FetchableRecord {}

extension ForeignKeyViolation: FetchableRecord {}
