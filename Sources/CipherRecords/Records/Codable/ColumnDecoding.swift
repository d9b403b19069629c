import CipherDatabase
import Foundation

// Reading one column of a row as a property of a `Decodable` record.

/// Reads one column as any decodable type.
enum ColumnDecoding {
    static func decode<Value: Decodable>(_ type: Value.Type, _ context: RowContext, _ index: Int) throws -> Value {
        if type == Date.self, let date = try date(context, index) as? Value { return date }
        if type == Data.self, let data = try data(context, index) as? Value { return data }
        if type == Date?.self || type == Data?.self {
            // Reads the date, or the data, by its strategy.
            return try Value(from: ColumnDecoder(context: context, index: index))
        }
        if let convertible = type as? any DatabaseValueConvertible.Type {
            // In two steps: a cast makes an optional nil of no value.
            let stored = context.row.databaseValue(at: index)
            if let fitting = fitting(convertible, stored), let value = fitting as? Value { return value }
            throw context.misfit(type, at: index)
        }
        do {
            return try Value(from: ColumnDecoder(context: context, index: index))
        } catch is JSONNeeded {
            return try json(type, context, index)
        } catch is DecodingError {
            // Its text may quote the value.
            throw context.misfit(type, at: index)
        }
    }

    /// The value that a type has for NULL; nil for most.
    static func valueOfNull<Value>(_ type: Value.Type) -> Value? {
        if type == Date.self || type == Data.self { return nil }
        guard let convertible = type as? any DatabaseValueConvertible.Type else { return nil }
        return fitting(convertible, .null).flatMap { $0 as? Value }
    }

    static func json<Value: Decodable>(_ type: Value.Type, _ context: RowContext, _ index: Int) throws -> Value {
        let key = context.key(ofColumnAt: index)
        guard let data = Data.fromDatabaseValue(context.row.databaseValue(at: index)) else {
            throw context.misfit(type, at: index)
        }
        do {
            return try context.layout.record.databaseJSONDecoder(for: key).decode(type, from: data)
        } catch let failure as DecodingError {
            // Its text may quote the value.
            throw context.misfit(type, at: index, jsonPath: failure.jsonPath)
        }
    }

    private static func fitting<Value: DatabaseValueConvertible>(_ type: Value.Type, _ stored: DatabaseValue) -> Any? {
        Value.fromDatabaseValue(stored)
    }

    // Dates and data have strategies.

    static func date(_ context: RowContext, _ index: Int) throws -> Date {
        let row = context.row
        let strategy = context.layout.record.databaseDateDecodingStrategy(for: row.columnNames[index])
        let date =
            if case .deferredToDate = strategy {
                row.fittingValue(Date.self, at: index)
            } else {
                strategy.date(from: row.databaseValue(at: index))
            }
        guard let date else { throw context.misfit(Date.self, at: index) }
        return date
    }

    static func data(_ context: RowContext, _ index: Int) throws -> Data {
        let row = context.row
        let data =
            switch context.layout.record.databaseDataDecodingStrategy(for: row.columnNames[index]) {
            case .deferredToData: row.fittingValue(Data.self, at: index)
            case .custom(let convert): convert(row.databaseValue(at: index))
            }
        guard let data else { throw context.misfit(Data.self, at: index) }
        return data
    }
}

extension RowContext {
    /// The coding key of a column.
    fileprivate func key(ofColumnAt index: Int) -> String {
        let name = row.columnNames[index]
        return columns?.key(name) ?? name
    }

    /// The error of a column that does not fit a type.
    fileprivate func misfit(_ type: Any.Type, at index: Int, jsonPath: String? = nil) -> RowDecodingError {
        row.decodingError(column: "", at: index, wanted: type, table: layout.tableName, jsonPath: jsonPath)
    }
}

/// The decoder of the JSON of a column, for a record that reads parts of it.
struct JSONContent: Decodable {
    let decoder: any Decoder
    init(from decoder: any Decoder) { self.decoder = decoder }
}

/// A column does not hold a single value: it is JSON.
struct JSONNeeded: Error {}

/// Decodes what takes a single value out of a column.
private struct ColumnDecoder: Decoder, SingleValueDecodingContainer {
    let context: RowContext
    let index: Int

    var codingPath: [any CodingKey] { context.codingPath + [ColumnKey(context.key(ofColumnAt: index))] }
    var userInfo: [CodingUserInfoKey: Any] { context.layout.record.databaseDecodingUserInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> { throw JSONNeeded() }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw JSONNeeded() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { context.row.hasNull(atIndex: index) }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try ColumnDecoding.decode(type, context, index)
    }
}

/// The coding key of a column by its name.
struct ColumnKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

extension DecodingError {
    /// The place in the JSON that does not fit, as in `address.lines[2]`; empty for the JSON as a whole.
    fileprivate var jsonPath: String {
        let path: [any CodingKey] =
            switch self {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
                context.codingPath
            case .keyNotFound(let key, let context): context.codingPath + [key]
            @unknown default: []
            }
        return path.reduce(into: "") { text, key in
            if let index = key.intValue, !Self.isWritten(key) {
                text += "[\(index)]"
            } else {
                text += (text.isEmpty ? "" : ".") + (Self.isWritten(key) ? key.stringValue : "*")
            }
        }
    }

    /// Whether a key is written in the program: the case of an enumeration. All others may be data.
    private static func isWritten<Key: CodingKey>(_ key: Key) -> Bool { MemoryLayout<Key>.size <= 1 }
}
