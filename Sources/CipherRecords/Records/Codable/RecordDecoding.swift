import CipherDatabase
import Foundation

// Reading `Decodable` records: one pass over the coding keys, with the columns of the keys found once for all rows of one
// layout.

extension FetchableRecord where Self: Decodable {
    // Inlined where the type is known: elsewhere the record would be copied by code that looks up its size.
    @inlinable
    public init(row: Row) throws { self = try Self.decoded(from: row) }

    @usableFromInline
    static func decoded(from row: Row) throws -> Self { try LayoutDecoder.read(Self.self, from: row, as: Self.self) }
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
        try LayoutDecoder.read(type, from: row, as: type)
    }
}

/// The known facts about a record type and the columns of one layout of rows.
// Safe because: one thread uses a decoder at a time. It stays with a statement, whose rows are read by the one thread of
// its access, or it is taken from the idle decoders of a layout and returned after the record.
final class LayoutDecoder: @unchecked Sendable {
    let record: any FetchableRecord.Type
    /// The columns of keys, for each type of coding keys.
    @exclusivity(unchecked) private var tables: [(type: ObjectIdentifier, table: KeyColumns)] = []
    /// The types of prefetched records: casting takes longer than reading.
    @exclusivity(unchecked) private var arrays: [(type: ObjectIdentifier, array: (any RecordArray.Type)?)] = []
    /// Whether a record is being read.
    @exclusivity(unchecked) private var isReading = false
    /// The context of one record after another, unless a program has kept it.
    @exclusivity(unchecked) private var context: RowContext?

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
        if let known = row.decoder(of: id) as? LayoutDecoder { return try known.read(type, row, path) }
        var layout = idle(of: id, row) ?? LayoutDecoder(record)
        if row.keepsDecoders {
            row.keep(KeptDecoder(record: id, content: layout))
            return try layout.read(type, row, path)
        }
        defer {
            // A value that keeps its decoder keeps this one too.
            if isKnownUniquelyReferenced(&layout) { row.addIdleDecoder(KeptDecoder(record: id, content: layout)) }
        }
        return try layout.read(type, row, path)
    }

    @inline(__always)
    private func read<Value: Decodable>(_ type: Value.Type, _ row: Row, _ path: [any CodingKey]) throws -> Value {
        // A record within another one that the same decoder reads has a context of its own.
        if isReading || !path.isEmpty {
            return try Value(from: RowDecoder(row: row, layout: self, codingPath: path))
        }
        isReading = true
        defer { endReading(row) }
        return try Value(from: decoder(of: row))
    }

    private static func idle(of record: ObjectIdentifier, _ row: Row) -> LayoutDecoder? {
        var layout = row.takeIdleDecoder(of: record) as? LayoutDecoder
        // A decoder that a program has kept may refer to it, on any thread.
        return isKnownUniquelyReferenced(&layout) ? layout : nil
    }

    /// A layout decoder that belongs to nobody else, for a `Decoder` that outlives a call.
    static func separate(_ record: any FetchableRecord.Type) -> LayoutDecoder { LayoutDecoder(record) }

    /// The columns of coding keys.
    func columns<Key: CodingKey>(_ type: Key.Type) -> KeyColumns {
        let id = ObjectIdentifier(type)
        if let known = tables.first(where: { $0.type == id }) { return known.table }
        let table = KeyColumns(of: type, strategy: record.databaseColumnDecodingStrategy)
        tables.append((id, table))
        return table
    }

    /// A type of prefetched records as an array of them; nil when it is none.
    fileprivate func recordArray<Value>(_ type: Value.Type) -> (any RecordArray.Type)? {
        let id = ObjectIdentifier(type)
        if let known = arrays.first(where: { $0.type == id }) { return known.array }
        let array = type as? any RecordArray.Type
        arrays.append((id, array))
        return array
    }

    /// The table of the record, for errors.
    var tableName: String? { (record as? any TableRecord.Type)?.databaseTableName }

    // MARK: Contexts

    @inline(__always)
    private func decoder(of row: Row) -> RowDecoder {
        guard let context else {
            let made = RowContext(showing: row, of: self)
            context = made
            return RowDecoder(context: made)
        }
        context.show(row)
        return RowDecoder(context: context)
    }

    /// The container of a decoder. The first one has the decoder's context, others have contexts of their own: they may
    /// be of other keys, and each has its own key of the whole row.
    @inline(__always)
    func container<Key: CodingKey>(_ type: Key.Type, for decoder: RowContext) -> KeyedDecodingContainer<Key> {
        let columns = columns(type)
        if decoder.beginContainer(columns) { return KeyedDecodingContainer(RowContainer<Key>(context: decoder)) }
        return KeyedDecodingContainer(
            RowContainer<Key>(
                context: RowContext(row: decoder.row, layout: self, columns: columns, codingPath: decoder.codingPath)))
    }

    /// Ends the record of a row. A program that has kept its decoder or container keeps the context, with a row and a
    /// layout decoder of its own.
    @inline(__always)
    private func endReading(_ row: Row) {
        isReading = false
        if !isKnownUniquelyReferenced(&context) { leaveContext(row) }
    }

    @inline(never)
    private func leaveContext(_ row: Row) {
        context?.own(row.copy(), .separate(record))
        context = nil
    }
}

/// The columns of the keys of one type, found when they are first asked for.
final class KeyColumns {
    static let unknown = -2
    static let missing = -1

    /// The column of each key of a type whose values are single bytes, as those of most enumerations are; nil for others.
    let byByte: UnsafeMutablePointer<Int16>?
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

    /// The byte of a key of one byte, which refers to nothing: so its byte tells which key it is.
    @inline(__always)
    static func byte<Key: CodingKey>(of key: Key) -> UInt8 { withUnsafeBytes(of: key) { $0[0] } }

    /// Finds the column of a key.
    ///
    /// - Returns: ``missing`` when the row has none.
    @inline(never)
    func findIndex<Key: CodingKey>(of key: Key, in row: Row) -> Int {
        let index = find(key, in: row) ?? Self.missing
        if let byByte, index <= Int(Int16.max) {
            byByte[Int(Self.byte(of: key))] = Int16(index)
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
    // One reference: each is counted several times for each record.
    let context: RowContext

    init(context: RowContext) { self.context = context }

    init(row: Row, layout: LayoutDecoder, codingPath: [any CodingKey]) {
        context = RowContext(row: row, layout: layout, columns: nil, codingPath: codingPath)
    }

    var codingPath: [any CodingKey] { context.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { layout.record.databaseDecodingUserInfo }
    private var row: Row { context.row }
    private var layout: LayoutDecoder { context.layout }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        context.withLayout { $0.container(type, for: context) }
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw DecodingError.typeMismatch(layout.record, wrongShape("an array"))
    }

    // A type that wraps a record, as an optional does, has the row of the record.
    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { !row.containsNonNullValue }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if type is any DatabaseValueConvertible.Type {
            throw DecodingError.valueNotFound(layout.record, wrongShape("a single value"))
        }
        if let record = type as? any FetchableRecord.Type, let made = try record.make(type, of: row) { return made }
        return try Value(from: self)
    }

    private func wrongShape(_ shape: String) -> DecodingError.Context {
        DecodingError.Context(
            codingPath: codingPath,
            debugDescription:
                "a record is read from the columns of a row, and a part of \(layout.record) decodes \(shape)")
    }
}

/// Decodes an array or a set of records from prefetched rows.
struct RowsDecoder: Decoder, UnkeyedDecodingContainer {
    private let rows: PrefetchedRecords
    let codingPath: [any CodingKey]
    private(set) var currentIndex = 0
    /// Whether it decodes what an optional property wraps.
    private var isWrapped = false

    init(rows: PrefetchedGroup, layout: LayoutDecoder, codingPath: [any CodingKey]) {
        self.rows = PrefetchedRecords(rows, layout)
        self.codingPath = codingPath
    }

    private var layout: LayoutDecoder { rows.layout }
    var userInfo: [CodingUserInfoKey: Any] { layout.record.databaseDecodingUserInfo }
    var count: Int? { rows.count }
    var isAtEnd: Bool { currentIndex >= rows.count }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { self }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        throw wrongShape("the columns of a row")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        if isWrapped { throw wrongShape("a single value") }
        var wrapped = self
        wrapped.isWrapped = true
        return RowsValue(decoder: wrapped)
    }

    mutating func decodeNil() throws -> Bool { false }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard !isAtEnd else { throw wrongShape("more rows") }
        defer { currentIndex += 1 }
        return try rows.decode(type, at: currentIndex, codingPath)
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
        return RowDecoder(row: rows.row(at: currentIndex - 1), layout: .separate(layout.record), codingPath: codingPath)
    }

    private func wrongShape(_ wanted: String) -> DecodingError {
        DecodingError.typeMismatch(
            layout.record,
            DecodingError.Context(
                codingPath: codingPath,
                debugDescription: "prefetched rows are read as an array of records, not as \(wanted)"))
    }
}

/// Prefetched rows as the value of an optional property of a generic record, which asks for an optional array.
private struct RowsValue: SingleValueDecodingContainer {
    let decoder: RowsDecoder
    var codingPath: [any CodingKey] { decoder.codingPath }

    func decodeNil() -> Bool { false }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try Value(from: decoder) }
}

/// Reads records from prefetched rows.
private final class PrefetchedRecords {
    let layout: LayoutDecoder
    private let rows: PrefetchedGroup
    /// The row that shows one of them after another.
    @exclusivity(unchecked) private var lent: Row?
    /// The type that was read last, with what it is as a record: casting takes longer than reading.
    @exclusivity(unchecked) private var latest: (type: ObjectIdentifier, record: (any FetchableRecord.Type)?)?

    init(_ rows: PrefetchedGroup, _ layout: LayoutDecoder) {
        self.rows = rows
        self.layout = layout
    }

    var count: Int { rows.count }

    func row(at index: Int) -> Row { rows[rows.startIndex + index] }

    func decode<Value: Decodable>(_ type: Value.Type, at index: Int, _ path: [any CodingKey]) throws -> Value {
        let record = record(type)
        // Not by the property itself: a record may ask for another one.
        var lent = lent.take()
        defer { self.lent = lent }
        return try rows.withLentRow(at: index, by: &lent) { row in
            if let record, let made = try record.make(Value.self, of: row) { return made }
            if type is any DatabaseValueConvertible.Type { return try value(type, of: row, path) }
            do {
                return try LayoutDecoder.read(type, from: row, as: layout.record, path: path)
            } catch DecodingError.valueNotFound(let record, _) where record == layout.record && row.hasOneOwnColumn {
                // A type that decodes a single value, as enumerations do.
                return try value(type, of: row, path)
            }
        }
    }

    /// The value of the only column of a row.
    private func value<Value: Decodable>(_ type: Value.Type, of row: Row, _ path: [any CodingKey]) throws -> Value {
        guard row.hasOneOwnColumn else {
            throw DecodingError.typeMismatch(
                layout.record,
                DecodingError.Context(
                    codingPath: path,
                    debugDescription:
                        "\(type) is read from one column, and the prefetched rows have \(row.count): select one"))
        }
        let context = RowContext(row: row, layout: layout, columns: nil, codingPath: path)
        if row.hasNull(atIndex: 0), let value = ColumnDecoding.valueOfNull(type) { return value }
        return try ColumnDecoding.decode(type, context, 0)
    }

    private func record<Value>(_ type: Value.Type) -> (any FetchableRecord.Type)? {
        let id = ObjectIdentifier(type)
        if let latest, latest.type == id { return latest.record }
        let record = type as? any FetchableRecord.Type
        latest = (id, record)
        return record
    }
}

extension Row {
    /// Whether the program has selected one column. Columns that link prefetched rows with others stand behind it.
    fileprivate var hasOneOwnColumn: Bool {
        count > 0 && columnNames.dropFirst().allSatisfy { $0.hasPrefix(Prefetching.linkPrefix) }
    }
}

/// An array of records, which is read without a container.
private protocol RecordArray {
    init(prefetched rows: PrefetchedGroup) throws
}

extension Array: RecordArray where Element: FetchableRecord {
    fileprivate init(prefetched rows: PrefetchedGroup) throws {
        self.init()
        reserveCapacity(rows.count)
        try rows.forEachLentRow { append(try Element(row: $0)) }
    }
}

extension FetchableRecord {
    /// Makes a record.
    ///
    /// - Parameter type: This type, by another name.
    /// - Returns: Nil for another type.
    static func make<Value>(_ type: Value.Type, of row: Row) throws -> Value? { try Self(row: row) as? Value }
}

extension LayoutDecoder {
    /// A value from prefetched rows.
    func read<Value: Decodable>(
        _ type: Value.Type, _ rows: PrefetchedGroup, _ path: @autoclosure () -> [any CodingKey]
    ) throws -> Value {
        if let array = recordArray(type), let made = try array.make(type, of: rows) { return made }
        // A program may keep the decoder.
        return try Value(from: RowsDecoder(rows: rows.independent, layout: self, codingPath: path()))
    }
}

extension RecordArray {
    /// - Parameter type: This type, by another name.
    /// - Returns: Nil for another type.
    fileprivate static func make<Value>(_ type: Value.Type, of rows: PrefetchedGroup) throws -> Value? {
        try Self(prefetched: rows) as? Value
    }
}
