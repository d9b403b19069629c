import CipherDatabase
import Foundation

// Reading `Decodable` records: one pass over the coding keys, with the columns of the keys found once for all rows of one
// layout.

extension FetchableRecord where Self: Decodable {
    public init(row: Row) throws { self = try DecodingPlan.read(Self.self, from: row, as: Self.self) }
}

/// Decodes records from rows, as `init(row:)` of a `Decodable` record does.
public final class FetchableRecordDecoder: Sendable {
    public init() {}

    /// The record of a row.
    ///
    /// - Throws: `RowDecodingError` for a column that does not fit, and what the record throws.
    public func decode<Record: FetchableRecord & Decodable>(
        _ type: Record.Type = Record.self, from row: Row
    ) throws -> Record {
        try DecodingPlan.read(type, from: row, as: type)
    }
}

/// What is known of a record type and the columns of one layout of rows.
// Safe because: one thread uses a plan at a time. It stays with a statement, whose rows are read by the one thread of
// its access, or it is taken from the idle plans of a layout and returned after the record.
final class DecodingPlan: @unchecked Sendable {
    let record: any FetchableRecord.Type
    /// The columns of keys, for each type of coding keys.
    @exclusivity(unchecked) private var tables: [(type: ObjectIdentifier, table: KeyColumns)] = []

    private init(_ record: any FetchableRecord.Type) { self.record = record }

    /// Reads a value from the columns of a row.
    ///
    /// - Parameters:
    ///   - record: The record type whose strategies hold for it: its own, or that of the record it is part of.
    ///   - path: The keys that led to it.
    static func read<Value: Decodable>(
        _ type: Value.Type, from row: Row, as record: any FetchableRecord.Type, path: [any CodingKey] = []
    ) throws -> Value {
        let id = ObjectIdentifier(record)
        if let known = row.plan(of: id) {
            // Nobody else makes plans.
            let plan = unsafeDowncast(known, to: DecodingPlan.self)
            return try Value(from: RowDecoder(row: row, plan: plan, codingPath: path))
        }
        var plan = idle(of: id, row) ?? DecodingPlan(record)
        if row.statement != nil {
            row.keep(RowPlan(record: id, content: plan))
            return try Value(from: RowDecoder(row: row, plan: plan, codingPath: path))
        }
        defer {
            // A value that keeps its decoder keeps the plan too.
            if isKnownUniquelyReferenced(&plan) { row.addIdlePlan(RowPlan(record: id, content: plan)) }
        }
        return try Value(from: RowDecoder(row: row, plan: plan, codingPath: path))
    }

    private static func idle(of record: ObjectIdentifier, _ row: Row) -> DecodingPlan? {
        row.takeIdlePlan(of: record).map { unsafeDowncast($0.content, to: DecodingPlan.self) }
    }

    /// A plan that belongs to nobody else, for a decoder that outlives a call.
    static func separate(_ record: any FetchableRecord.Type) -> DecodingPlan { DecodingPlan(record) }

    /// The columns of coding keys.
    func columns<Key: CodingKey>(_ type: Key.Type) -> KeyColumns {
        let id = ObjectIdentifier(type)
        if let known = tables.first(where: { $0.type == id }) { return known.table }
        let table = KeyColumns(of: type, strategy: record.databaseColumnDecodingStrategy)
        tables.append((id, table))
        return table
    }

    /// The table of the record, for errors.
    var tableName: String? { (record as? any TableRecord.Type)?.databaseTableName }
}

/// The columns of the keys of one type, found when they are first asked for.
final class KeyColumns {
    static let unknown = -2
    static let missing = -1

    /// The column of each key of a type whose values are single bytes, as those of most enumerations are; nil for others.
    private let byByte: UnsafeMutablePointer<Int16>?
    private let strategy: DatabaseColumnDecodingStrategy
    init<Key: CodingKey>(of type: Key.Type, strategy: DatabaseColumnDecodingStrategy) {
        self.strategy = strategy
        guard MemoryLayout<Key>.size == 1 else {
            byByte = nil
            return
        }
        let table = UnsafeMutablePointer<Int16>.allocate(capacity: 256)
        table.initialize(repeating: Int16(Self.unknown), count: 256)
        byByte = table
    }

    deinit { byByte?.deallocate() }

    /// The column of a key that has been asked for before; ``unknown`` for others, ``missing`` where the row has none.
    @inline(__always)
    func knownIndex<Key: CodingKey>(of key: Key) -> Int {
        // A value of one byte refers to nothing, so its byte says which it is.
        byByte.map { Int($0[Int(unsafeBitCast(key, to: UInt8.self))]) } ?? Self.unknown
    }

    /// Finds the column of a key.
    ///
    /// - Returns: ``missing`` when the row has none.
    @inline(never)
    func findIndex<Key: CodingKey>(of key: Key, in row: Row) -> Int {
        let index = find(key, in: row) ?? Self.missing
        if let byByte, index <= Int(Int16.max) {
            byByte[Int(unsafeBitCast(key, to: UInt8.self))] = Int16(index)
        }
        return index
    }

    private func find<Key: CodingKey>(_ key: Key, in row: Row) -> Int? {
        if case .useDefaultKeys = strategy { return row.index(of: key.stringValue) }
        return row.columnNames.firstIndex { self.key($0) == key.stringValue }
    }

    /// The coding key of a column.
    func key(_ column: String) -> String {
        switch strategy {
        case .useDefaultKeys: column
        case .convertFromSnakeCase: SnakeCase.camel(column)
        case .custom(let codingKey): codingKey(column).stringValue
        }
    }
}

/// Decodes a record from a row.
struct RowDecoder: Decoder, SingleValueDecodingContainer {
    // Three words: Swift stores no more of a decoder without allocating memory.
    let row: Row
    let plan: DecodingPlan
    let codingPath: [any CodingKey]

    var userInfo: [CodingUserInfoKey: Any] { plan.record.databaseDecodingUserInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(
            RowContainer<Key>(
                RowContext(row: row, plan: plan, columns: plan.columns(type), codingPath: codingPath)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw DecodingError.typeMismatch(plan.record, wrongShape("an array"))
    }

    // A type that wraps a record, as an optional does, has the row of the record.
    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { !row.containsNonNullValue }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if type is any DatabaseValueConvertible.Type {
            throw DecodingError.valueNotFound(plan.record, wrongShape("a single value"))
        }
        if let record = type as? any FetchableRecord.Type, let value = try record.init(row: row) as? Value {
            return value
        }
        return try Value(from: self)
    }

    private func wrongShape(_ shape: String) -> DecodingError.Context {
        DecodingError.Context(
            codingPath: codingPath,
            debugDescription:
                "a record is read from the columns of a row, and a part of \(plan.record) decodes \(shape)")
    }
}

/// What the containers of one record have in common.
final class RowContext {
    let row: Row
    let plan: DecodingPlan
    let columns: KeyColumns
    let codingPath: [any CodingKey]
    /// The statement whose current row is shown; nil for a kept row.
    let statement: StatementHandle?
    /// The key that the whole row was read for: the first one that nothing in the row stands for.
    @exclusivity(unchecked) var keyOfRow: String?

    init(row: Row, plan: DecodingPlan, columns: KeyColumns, codingPath: [any CodingKey]) {
        self.row = row
        self.plan = plan
        self.columns = columns
        self.codingPath = codingPath
        statement = row.statement
    }
}

/// The columns of a row, by coding keys.
struct RowContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    // The methods of a container are called through the box that Swift has for it, for each property of each record, by
    // code that is not specialized for the type of the keys and copies the container each time. So it is one reference.

    private let context: RowContext

    init(_ context: RowContext) { self.context = context }

    private var row: Row { context.row }
    private var plan: DecodingPlan { context.plan }

    /// The column of a key; ``KeyColumns/missing`` when the row has none.
    @inline(__always)
    private func index(of key: Key) -> Int {
        let known = context.columns.knownIndex(of: key)
        return known == KeyColumns.unknown ? context.columns.findIndex(of: key, in: context.row) : known
    }

    /// The column of a key; nil when the row has none.
    private func column(of key: Key) -> Int? {
        let index = index(of: key)
        return index < 0 ? nil : index
    }

    var codingPath: [any CodingKey] { context.codingPath }
    var allKeys: [Key] {
        var known: Set<String> = []
        let names = row.columnNames.map(context.columns.key) + row.scopesTree.names + row.prefetchedRows.keys
        return names.filter { known.insert($0).inserted }.compactMap { Key(stringValue: $0) }
    }

    func contains(_ key: Key) -> Bool {
        column(of: key) != nil || row.scopesTree[key.stringValue] != nil
            || row.prefetchedRows[key.stringValue] != nil
    }

    func decodeNil(forKey key: Key) throws -> Bool {
        if let index = column(of: key) { return row.hasNull(atIndex: index) }
        if let scope = row.scopesTree[key.stringValue] { return !scope.containsNonNullValue }
        return row.prefetchedRows[key.stringValue] == nil
    }

    // MARK: Plain columns

    // Numbers are read where numbers are stored: SQLite would make 0 of any text.

    @inline(__always)
    private func integer<Value: FixedWidthInteger & DatabaseValueConvertible>(
        _ type: Value.Type, _ key: Key
    ) throws -> Value {
        let index = index(of: key)
        if index >= 0 {
            let stored =
                context.statement?.storedInteger(at: row.statementColumn(index)) ?? keptInteger(index)
            if let stored, let value = Value(exactly: stored) { return value }
        }
        return try otherColumn(type, key)
    }

    private func keptInteger(_ index: Int) -> Int64? {
        context.statement == nil ? row.storedInteger(at: index) : nil
    }

    @inline(__always)
    private func number(_ key: Key) throws -> Double {
        let index = index(of: key)
        if index >= 0, let stored = row.storedNumber(at: index) { return stored }
        return try otherColumn(Double.self, key)
    }

    @inline(__always)
    private func text(_ key: Key) throws -> String {
        let index = index(of: key)
        if index >= 0, let value = row.fittingValue(String.self, at: index) { return value }
        return try otherColumn(String.self, key)
    }

    /// Whether a column has a value for an optional property.
    @inline(__always)
    private func hasValue(_ key: Key) -> Bool {
        column(of: key).map { !row.hasNull(atIndex: $0) } ?? false
    }

    // A value that is not stored as the type reads it, as a number in an integer column that holds a REAL.
    private func otherColumn<Value: DatabaseValueConvertible>(_ type: Value.Type, _ key: Key) throws
        -> Value
    {
        let index = column(of: key)
        if let index, let value = Value.fromDatabaseValue(row.databaseValue(at: index)) { return value }
        throw row.decodingError(column: key.stringValue, at: index, wanted: type, table: plan.tableName)
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try otherColumn(type, key) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try text(key) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try number(key) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try Float(number(key)) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try integer(type, key) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try integer(type, key) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try integer(type, key) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try integer(type, key) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try integer(type, key) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try integer(type, key) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try integer(type, key) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try integer(type, key) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try integer(type, key) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try integer(type, key) }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
        hasValue(key) ? try decode(type, forKey: key) : nil
    }

    // MARK: Other types

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        if let index = column(of: key) {
            // The types are those that are compared: nothing is converted. Casting would take longer than reading.
            if type == Date.self { return unsafeBitCast(try ColumnDecoding.date(context, index), to: type) }
            if type == Data.self { return unsafeBitCast(try ColumnDecoding.data(context, index), to: type) }
            return try ColumnDecoding.decode(type, context, index)
        }
        if let scope = row.scopesTree[key.stringValue] { return try decode(type, from: scope, forKey: key) }
        if let value = try decodePrefetched(type, forKey: key) { return value }
        // The first key that nothing stands for takes the whole row: the record is a part of this one. A single value
        // has no columns of its own, and a record that is a part of itself has no end.
        if type is any DatabaseValueConvertible.Type { throw missing(type, key) }
        if let keyOfRow = context.keyOfRow, keyOfRow != key.stringValue { throw nothing(for: key, nor: keyOfRow) }
        if type == plan.record { throw nothing(for: key) }
        context.keyOfRow = key.stringValue
        return try decodeBaseRow(type, forKey: key)
    }

    private func decodeBaseRow<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        if let record = type as? any FetchableRecord.Type, let value = try record.init(row: row) as? Value {
            return value
        }
        do {
            return try Value(from: RowDecoder(row: row, plan: plan, codingPath: codingPath + [key]))
        } catch DecodingError.typeMismatch(let record, _) where record == plan.record {
            // An array.
            throw nothing(for: key)
        } catch DecodingError.valueNotFound(let record, _) where record == plan.record {
            throw missing(type, key)
        }
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        if let index = column(of: key) {
            return row.hasNull(atIndex: index)
                ? ColumnDecoding.valueOfNull(type) : try ColumnDecoding.decode(type, context, index)
        }
        if let scope = row.scopesTree[key.stringValue] {
            return scope.containsNonNullValue ? try decode(type, from: scope, forKey: key) : nil
        }
        return try decodePrefetched(type, forKey: key)
    }

    private func decode<Value: Decodable>(_ type: Value.Type, from scope: Row, forKey key: Key) throws -> Value {
        if let record = type as? any FetchableRecord.Type, let value = try record.init(row: scope) as? Value {
            return value
        }
        return try DecodingPlan.read(type, from: scope, as: plan.record, path: codingPath + [key])
    }

    /// A value from the prefetched rows of a key; nil when there are none.
    private func decodePrefetched<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        guard let rows = row.prefetchedRows[key.stringValue] else { return nil }
        return try Value(from: RowsDecoder(rows: rows, plan: plan, codingPath: codingPath + [key]))
    }

    private func missing(_ type: Any.Type, _ key: Key) -> RowDecodingError {
        row.decodingError(column: key.stringValue, at: nil, wanted: type, table: plan.tableName)
    }

    /// The error of a record, or an array of records, that the row does not have.
    private func nothing(for key: Key) -> DecodingError {
        let prefetched = row.prefetchedRows.keys.sorted().joined(separator: ", ")
        return notFound(
            key,
            "the row has no column, no scope and no prefetched rows for key \(key.stringValue) of \(plan.record): its "
                + "columns are \(row.columnNames.joined(separator: ", ")), its prefetched rows are "
                + (prefetched.isEmpty ? "none" : prefetched))
    }

    /// The error of a second key that only the row itself could stand for. The program meant it for one of both.
    private func nothing(for key: Key, nor former: String) -> DecodingError {
        notFound(key, "No such key: \(former) or \(key.stringValue)")
    }

    private func notFound(_ key: Key, _ message: String) -> DecodingError {
        DecodingError.keyNotFound(key, DecodingError.Context(codingPath: codingPath, debugDescription: message))
    }

    // MARK: Nested containers

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try superDecoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try superDecoder(forKey: key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { RowDecoder(row: row, plan: plan, codingPath: codingPath) }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        if let index = column(of: key) { return try ColumnDecoding.json(JSONContent.self, context, index).decoder }
        let path = codingPath + [key]
        if let scope = row.scopesTree[key.stringValue] {
            return RowDecoder(row: scope, plan: .separate(plan.record), codingPath: path)
        }
        if let rows = row.prefetchedRows[key.stringValue] {
            return RowsDecoder(rows: rows, plan: plan, codingPath: path)
        }
        throw nothing(for: key)
    }
}

/// Decodes an array or a set of records from prefetched rows.
struct RowsDecoder: Decoder, UnkeyedDecodingContainer {
    let rows: [Row]
    let plan: DecodingPlan
    let codingPath: [any CodingKey]
    var currentIndex = 0

    var userInfo: [CodingUserInfoKey: Any] { plan.record.databaseDecodingUserInfo }
    var count: Int? { rows.count }
    var isAtEnd: Bool { currentIndex >= rows.count }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { self }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        throw wrongShape("the columns of a row")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw wrongShape("a single value") }

    mutating func decodeNil() throws -> Bool { false }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard !isAtEnd else { throw wrongShape("more rows") }
        defer { currentIndex += 1 }
        let row = rows[currentIndex]
        if let record = type as? any FetchableRecord.Type, let value = try record.init(row: row) as? Value {
            return value
        }
        return try DecodingPlan.read(type, from: row, as: plan.record, path: codingPath)
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try nextRow().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { throw wrongShape("arrays") }

    mutating func superDecoder() throws -> any Decoder { try nextRow() }

    private mutating func nextRow() throws -> RowDecoder {
        guard !isAtEnd else { throw wrongShape("more rows") }
        currentIndex += 1
        return RowDecoder(row: rows[currentIndex - 1], plan: .separate(plan.record), codingPath: codingPath)
    }

    private func wrongShape(_ wanted: String) -> DecodingError {
        DecodingError.typeMismatch(
            plan.record,
            DecodingError.Context(
                codingPath: codingPath,
                debugDescription: "prefetched rows are read as an array of records, not as \(wanted)"))
    }
}
