import CipherDatabase
import Foundation

// The containers that records are decoded from: the columns of a row, by coding keys.

/// The common state of the containers of one record.
final class RowContext {
    // References that are not counted are to what the layout decoder of the context has during the record; `own` makes
    // them counted ones.

    @exclusivity(unchecked) private var shown: Unmanaged<Row>
    @exclusivity(unchecked) private var reader: Unmanaged<LayoutDecoder>
    @exclusivity(unchecked) private var owned: (row: Row, layout: LayoutDecoder)?
    /// The statement whose current row is shown; nil for a kept row, and where the context may outlive the statement.
    @exclusivity(unchecked) private var statement: StatementHandle?
    /// The column of the statement that is the row's first.
    @exclusivity(unchecked) private var firstColumn: CInt
    /// The columns of the keys of the container that was made last; nil for a decoder without one.
    @exclusivity(unchecked) private(set) var columns: KeyColumns?
    /// Whether the record has a container of this context.
    @exclusivity(unchecked) private var hasContainer = false
    /// The columns of keys of one byte: those of ``columns``.
    @exclusivity(unchecked) private var byByte: UnsafeMutablePointer<Int16>?
    let codingPath: [any CodingKey]
    /// The key that the whole row was read for: the first one that nothing in the row stands for.
    @exclusivity(unchecked) private var keyOfRow: String?

    init(row: Row, layout: LayoutDecoder, columns: KeyColumns?, codingPath: [any CodingKey]) {
        shown = Unmanaged.passUnretained(row)
        // A program may keep the container longer than the row shows the statement.
        statement = nil
        firstColumn = 0
        reader = Unmanaged.passUnretained(layout)
        owned = (row, layout)
        self.columns = columns
        byByte = columns?.byByte
        hasContainer = columns != nil
        self.codingPath = codingPath
    }

    /// A context that shows one row after another to the records of a layout.
    init(showing row: Row, of layout: LayoutDecoder) {
        shown = Unmanaged.passUnretained(row)
        statement = row.statement
        firstColumn = row.statementColumn(0)
        reader = Unmanaged.passUnretained(layout)
        codingPath = []
    }

    var row: Row { shown.takeUnretainedValue() }
    var layout: LayoutDecoder { reader.takeUnretainedValue() }

    /// Shows another row, for as long as the caller has it.
    @inline(__always)
    func show(_ row: Row) {
        shown = Unmanaged.passUnretained(row)
        statement = row.statement
        firstColumn = row.statementColumn(0)
        hasContainer = false
        if keyOfRow != nil { keyOfRow = nil }
    }

    /// Takes the columns of the keys of a container.
    ///
    /// - Returns: Whether the container is the first one of its record.
    @inline(__always)
    func beginContainer(_ columns: KeyColumns) -> Bool {
        if hasContainer { return false }
        hasContainer = true
        if self.columns !== columns {
            self.columns = columns
            byByte = columns.byByte
        }
        return true
    }

    @inline(__always)
    func withLayout<Value>(_ body: (LayoutDecoder) throws -> Value) rethrows -> Value {
        try reader._withUnsafeGuaranteedRef { try body($0) }
    }

    /// Keeps its row and its layout from now on.
    func own(_ row: Row, _ layout: LayoutDecoder) {
        let (key, hadContainer) = (keyOfRow, hasContainer)
        show(row)
        // The row may stop showing its statement.
        statement = nil
        (keyOfRow, hasContainer) = (key, hadContainer)
        owned = (row, layout)
        reader = Unmanaged.passUnretained(layout)
    }

    // MARK: Columns

    /// The column of a key; ``KeyColumns/missing`` when the row has none.
    @inline(__always)
    func index<Key: CodingKey>(of key: Key) -> Int {
        if let byByte {
            let known = Int(byByte[Int(KeyColumns.byte(of: key))])
            if known != KeyColumns.unknown { return known }
        }
        return columns?.findIndex(of: key, in: row) ?? KeyColumns.missing
    }

    /// The column of a key; nil when the row has none.
    func column<Key: CodingKey>(of key: Key) -> Int? {
        let index = index(of: key)
        return index < 0 ? nil : index
    }

    // Numbers are read where numbers are stored: SQLite would make 0 of any text.

    @inline(__always)
    func integer<Value: FixedWidthInteger & DatabaseValueConvertible, Key: CodingKey>(
        _ type: Value.Type, _ key: Key
    ) throws -> Value {
        let index = index(of: key)
        if let stored = integer(at: index), let value = Value(exactly: stored) { return value }
        return try otherColumn(type, key)
    }

    @inline(__always)
    private func integer(at index: Int) -> Int64? {
        guard let statement else { return shown._withUnsafeGuaranteedRef { $0.storedInteger(at: index) } }
        return index < 0 ? nil : statement.storedInteger(at: CInt(truncatingIfNeeded: index) &+ firstColumn)
    }

    @inline(__always)
    func number<Key: CodingKey>(_ key: Key) throws -> Double {
        let index = index(of: key)
        if let statement {
            if index >= 0, let stored = statement.storedNumber(at: CInt(truncatingIfNeeded: index) &+ firstColumn) {
                return stored
            }
        } else if let stored = shown._withUnsafeGuaranteedRef({ $0.storedNumber(at: index) }) {
            return stored
        }
        return try otherColumn(Double.self, key)
    }

    @inline(__always)
    func text<Key: CodingKey>(_ key: Key) throws -> String {
        let index = index(of: key)
        if let text = shown._withUnsafeGuaranteedRef({ $0.fittingValue(String.self, at: index) }) { return text }
        return try otherColumn(String.self, key)
    }

    /// Whether a column has a value for an optional property.
    @inline(__always)
    func hasValue<Key: CodingKey>(_ key: Key) -> Bool {
        let index = index(of: key)
        return index >= 0 && !shown._withUnsafeGuaranteedRef { $0.hasNull(atIndex: index) }
    }

    // A value that is not stored as the type reads it, as a number in an integer column that holds a REAL.
    @inline(never)
    func otherColumn<Value: DatabaseValueConvertible, Key: CodingKey>(_ type: Value.Type, _ key: Key) throws -> Value {
        let index = column(of: key)
        if let index, let value = Value.fromDatabaseValue(row.databaseValue(at: index)) { return value }
        throw row.decodingError(column: key.stringValue, at: index, wanted: type, table: layout.tableName)
    }

    @inline(__always)
    func value<Value: Decodable, Key: CodingKey>(_ type: Value.Type, _ key: Key) throws -> Value {
        let index = index(of: key)
        if index >= 0 {
            if type == Date.self, let date = try ColumnDecoding.date(self, index) as? Value { return date }
            if type == Data.self, let data = try ColumnDecoding.data(self, index) as? Value { return data }
        }
        return try otherValue(type, key)
    }

    // MARK: Other values

    @inline(never)
    private func otherValue<Value: Decodable, Key: CodingKey>(_ type: Value.Type, _ key: Key) throws -> Value {
        if let index = column(of: key) { return try ColumnDecoding.decode(type, self, index) }
        let row = row
        if let scope = row.scopesTree[key.stringValue] { return try value(type, of: scope, key) }
        if let rows = row.prefetchedGroup(key.stringValue) {
            return try layout.read(type, rows, codingPath + [key])
        }
        // The first key that nothing stands for takes the whole row: the record is a part of this one. A single value
        // has no columns of its own, and a record that is a part of itself has no end.
        if type is any DatabaseValueConvertible.Type { throw missing(type, key) }
        if let keyOfRow, keyOfRow != key.stringValue { throw nothing(for: key, nor: keyOfRow) }
        if type == layout.record { throw nothing(for: key) }
        keyOfRow = key.stringValue
        return try valueOfRow(type, key)
    }

    private func valueOfRow<Value: Decodable, Key: CodingKey>(_ type: Value.Type, _ key: Key) throws -> Value {
        let (row, layout) = (row, layout)
        if let record = type as? any FetchableRecord.Type, let made = try record.make(type, of: row) { return made }
        do {
            return try Value(from: RowDecoder(row: row, layout: layout, codingPath: codingPath + [key]))
        } catch DecodingError.typeMismatch(let record, _) where record == layout.record {
            // An array.
            throw nothing(for: key)
        } catch DecodingError.valueNotFound(let record, _) where record == layout.record {
            throw missing(type, key)
        }
    }

    func valueIfPresent<Value: Decodable, Key: CodingKey>(_ type: Value.Type, _ key: Key) throws -> Value? {
        let row = row
        if let index = column(of: key) {
            return row.hasNull(atIndex: index)
                ? ColumnDecoding.valueOfNull(type) : try ColumnDecoding.decode(type, self, index)
        }
        if let scope = row.scopesTree[key.stringValue] {
            return scope.containsNonNullValue ? try value(type, of: scope, key) : nil
        }
        return try prefetchedValue(type, key)
    }

    private func value<Value: Decodable, Key: CodingKey>(
        _ type: Value.Type, of scope: Row, _ key: Key
    ) throws -> Value {
        if let record = type as? any FetchableRecord.Type, let made = try record.make(type, of: scope) { return made }
        return try LayoutDecoder.read(type, from: scope, as: layout.record, path: codingPath + [key])
    }

    /// A value from the prefetched rows of a key; nil when there are none.
    private func prefetchedValue<Value: Decodable, Key: CodingKey>(_ type: Value.Type, _ key: Key) throws -> Value? {
        guard let rows = row.prefetchedGroup(key.stringValue) else { return nil }
        return try layout.read(type, rows, codingPath + [key])
    }

    // MARK: Errors

    private func missing<Key: CodingKey>(_ type: Any.Type, _ key: Key) -> RowDecodingError {
        row.decodingError(column: key.stringValue, at: nil, wanted: type, table: layout.tableName)
    }

    /// The error of a record, or an array of records, that the row does not have.
    private func nothing<Key: CodingKey>(for key: Key) -> DecodingError {
        let prefetched = row.prefetchedRows.keys.sorted().joined(separator: ", ")
        return notFound(
            key,
            "the row has no column, no scope and no prefetched rows for key \(key.stringValue) of \(layout.record): its "
                + "columns are \(row.columnNames.joined(separator: ", ")), its prefetched rows are "
                + (prefetched.isEmpty ? "none" : prefetched))
    }

    /// The error of a second key that only the row itself could stand for. The program meant it for one of both.
    private func nothing<Key: CodingKey>(for key: Key, nor former: String) -> DecodingError {
        notFound(key, "No such key: \(former) or \(key.stringValue)")
    }

    private func notFound<Key: CodingKey>(_ key: Key, _ message: String) -> DecodingError {
        DecodingError.keyNotFound(key, DecodingError.Context(codingPath: codingPath, debugDescription: message))
    }

    // MARK: Keys and nested containers

    func allKeys<Key: CodingKey>(_ type: Key.Type) -> [Key] {
        var known: Set<String> = []
        let row = row
        let names = row.columnNames.map { columns?.key($0) ?? $0 } + row.scopesTree.names + row.prefetchedRows.keys
        return names.filter { known.insert($0).inserted }.compactMap { Key(stringValue: $0) }
    }

    func contains<Key: CodingKey>(_ key: Key) -> Bool {
        if index(of: key) >= 0 { return true }
        let row = row
        return row.scopesTree[key.stringValue] != nil || row.prefetchedRows.group(key.stringValue) != nil
    }

    func hasNull<Key: CodingKey>(_ key: Key) -> Bool {
        let row = row
        if let index = column(of: key) { return row.hasNull(atIndex: index) }
        if let scope = row.scopesTree[key.stringValue] { return !scope.containsNonNullValue }
        return row.prefetchedRows.group(key.stringValue) == nil
    }

    var decoder: RowDecoder { RowDecoder(row: row, layout: layout, codingPath: codingPath) }

    func decoder<Key: CodingKey>(_ key: Key) throws -> any Decoder {
        if let index = column(of: key) { return try ColumnDecoding.json(JSONContent.self, self, index).decoder }
        let path = codingPath + [key]
        if let scope = row.scopesTree[key.stringValue] {
            return RowDecoder(row: scope, layout: .separate(layout.record), codingPath: path)
        }
        if let rows = row.prefetchedRows.group(key.stringValue) {
            return RowsDecoder(rows: rows, layout: layout, codingPath: path)
        }
        throw nothing(for: key)
    }
}

/// The columns of a row, by coding keys.
struct RowContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    // The methods of a container are called through the object that Swift has for it, for each property of each record,
    // by code that is not specialized for the type of the keys.
    let context: RowContext

    var codingPath: [any CodingKey] { context.codingPath }
    var allKeys: [Key] { context.allKeys(Key.self) }
    func contains(_ key: Key) -> Bool { context.contains(key) }
    func decodeNil(forKey key: Key) throws -> Bool { context.hasNull(key) }

    @inline(__always)
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try context.otherColumn(type, key) }
    @inline(__always)
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try context.text(key) }
    @inline(__always)
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try context.number(key) }
    @inline(__always)
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { Float(try context.number(key)) }
    @inline(__always)
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try context.integer(type, key) }
    @inline(__always)
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try context.integer(type, key) }

    @inline(__always)
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }
    @inline(__always)
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
        context.hasValue(key) ? try decode(type, forKey: key) : nil
    }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try context.value(type, key)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try context.valueIfPresent(type, key)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try superDecoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try superDecoder(forKey: key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { context.decoder }
    func superDecoder(forKey key: Key) throws -> any Decoder { try context.decoder(key) }
}
