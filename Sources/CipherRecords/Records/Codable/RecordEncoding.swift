import CipherDatabase
import Foundation

// Storing `Encodable` records: one pass over the coding keys, straight into the container of columns.

extension EncodableRecord where Self: Encodable {
    public func encode(to container: inout PersistenceContainer) throws {
        let encoder = RecordEncoder(Self.self, container)
        // The encoder alone has the container now, so that nothing is copied.
        container = PersistenceContainer()
        try encode(to: encoder as any Encoder)
        try encoder.finish()
        container = encoder.container
    }
}

/// Encodes a record into the columns of a row.
final class RecordEncoder: Encoder {
    let record: any EncodableRecord.Type
    @exclusivity(unchecked) var container: PersistenceContainer
    private let columnStrategy: DatabaseColumnEncodingStrategy
    /// The columns that the record writes piece by piece.
    private var drafts: [(column: String, key: any CodingKey, draft: JSONDraft)] = []

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { record.databaseEncodingUserInfo }

    init(_ record: any EncodableRecord.Type, _ container: PersistenceContainer) {
        self.record = record
        self.container = container
        columnStrategy = record.databaseColumnEncodingStrategy
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RecordContainer<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { RefusedArray(path: []) }

    func singleValueContainer() -> any SingleValueEncodingContainer { RecordPart(encoder: self) }

    @inline(__always)
    func column(of key: some CodingKey) -> String {
        if case .useDefaultKeys = columnStrategy { key.stringValue } else { columnStrategy.column(of: key) }
    }

    /// The encoder of a column that the record writes piece by piece.
    func draft(_ key: some CodingKey) -> JSONDraftEncoder {
        let draft = JSONDraft()
        let column = column(of: key)
        drafts.append((column, key, draft))
        // It takes its place among the columns.
        container.set(column, .null)
        return JSONDraftEncoder(draft: draft, codingPath: [key], userInfo: userInfo)
    }

    /// Stores what was written piece by piece.
    func finish() throws {
        for (column, key, draft) in drafts { container.set(column, try draft.stored(self, column: column, key: key)) }
    }

    /// The value of a property of any encodable type.
    func value<Value: Encodable>(of value: Value, column: String, key: some CodingKey) throws -> DatabaseValue {
        switch value {
        case let data as Data: return try record.databaseDataEncodingStrategy(for: column).value(of: data)
        case let date as Date: return try record.databaseDateEncodingStrategy(for: column).value(of: date)
        case let uuid as UUID: return record.databaseUUIDEncodingStrategy(for: column).value(of: uuid)
        case let value as any DatabaseValueConvertible:
            let stored = value.databaseValue
            if stored.isUnencodable { throw Self.unencodable(value, key) }
            return stored
        default: break
        }
        let encoder = ValueEncoder(self, column: column, key: key)
        do {
            try value.encode(to: encoder)
            if let stored = encoder.stored, !encoder.needsJSON { return stored }
        } catch is JSONNeeded {
            // The value is encoded again, as a whole.
        }
        return try json(value, key)
    }

    func json(_ value: some Encodable, _ key: some CodingKey) throws -> DatabaseValue {
        do {
            let json = try record.databaseJSONEncoder(for: key.stringValue).encode(value)
            return String(decoding: json, as: UTF8.self).databaseValue
        } catch is EncodingError {
            // Its text may quote the value, and its path a key that is data.
            throw Self.unencodable(value, key)
        }
    }

    private static func unencodable(_ value: some Any, _ key: some CodingKey) -> EncodingError {
        EncodingError.invalidValue(
            "a value of type \(type(of: value))",
            EncodingError.Context(
                codingPath: [key],
                debugDescription:
                    "encoding the value has failed: JSON has no number that is not finite, and a type may refuse a value"
            ))
    }
}

/// The columns of a row, by coding keys.
struct RecordContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: RecordEncoder
    var codingPath: [any CodingKey] { [] }

    @inline(__always)
    private func set(_ key: Key, _ value: DatabaseValue) { encoder.container.set(encoder.column(of: key), value) }

    func encodeNil(forKey key: Key) throws { set(key, .null) }
    func encode(_ value: Bool, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: String, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Double, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Float, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Int, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Int8, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Int16, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Int32, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: Int64, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: UInt, forKey key: Key) throws { try set(key, whole: value) }
    func encode(_ value: UInt8, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: UInt16, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: UInt32, forKey key: Key) throws { set(key, value.databaseValue) }
    func encode(_ value: UInt64, forKey key: Key) throws { try set(key, whole: value) }

    private func set(_ key: Key, whole number: some BinaryInteger) throws {
        guard let number = Int64(exactly: number) else {
            throw EncodingError.invalidValue(
                "a number of type \(type(of: number))",
                EncodingError.Context(
                    codingPath: [key],
                    debugDescription: "SQLite stores integers up to \(Int64.max): store a greater one as text"))
        }
        set(key, number.databaseValue)
    }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        let column = encoder.column(of: key)
        encoder.container.set(column, try encoder.value(of: value, column: column, key: key))
    }

    // Optional properties give NULL, so that all records of a type give the same columns.
    func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: String?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Double?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Float?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Int?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: UInt?, forKey key: Key) throws {
        if let value { try set(key, whole: value) } else { set(key, .null) }
    }
    func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { set(key, value.databaseValue) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws {
        if let value { try set(key, whole: value) } else { set(key, .null) }
    }
    func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
        if let value { try encode(value, forKey: key) } else { set(key, .null) }
    }

    // MARK: Nested containers

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        encoder.draft(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        encoder.draft(key).unkeyedContainer()
    }

    // The columns of a superclass are columns of the same row.
    func superEncoder() -> any Encoder { encoder }
    func superEncoder(forKey key: Key) -> any Encoder { encoder.draft(key) }
}

/// Encodes a property that is one value; all others throw ``JSONNeeded``.
private final class ValueEncoder: Encoder, SingleValueEncodingContainer {
    private let parent: RecordEncoder
    private let column: String
    private let key: any CodingKey
    private(set) var stored: DatabaseValue?
    private(set) var needsJSON = false

    var codingPath: [any CodingKey] { [key] }
    var userInfo: [CodingUserInfoKey: Any] { parent.userInfo }

    init(_ parent: RecordEncoder, column: String, key: any CodingKey) {
        self.parent = parent
        self.column = column
        self.key = key
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        needsJSON = true
        return KeyedEncodingContainer(RefusedObject<Key>(path: [], error: JSONNeeded()))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        needsJSON = true
        return RefusedArray(path: [], error: JSONNeeded())
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func encodeNil() throws { stored = .null }

    func encode<Value: Encodable>(_ value: Value) throws {
        stored = try parent.value(of: value, column: column, key: key)
    }
}

// MARK: - Columns written piece by piece

/// A value that a record writes by a nested container or `superEncoder(forKey:)`: JSON, or a single value.
final class JSONDraft: Encodable {
    fileprivate enum Kind {
        case null
        case value(any Encodable)
        case object
        case array
    }

    /// nil for a value that was never written.
    fileprivate var kind: Kind?
    private var members: [(key: ColumnKey, draft: JSONDraft)] = []
    private var positions: [String: Int] = [:]
    private var elements: [JSONDraft] = []

    /// The draft of a key, in the place of a former one.
    fileprivate func member(_ key: some CodingKey) -> JSONDraft {
        let member = (key: ColumnKey(key.stringValue), draft: JSONDraft())
        if let position = positions[key.stringValue] {
            members[position] = member
        } else {
            positions[key.stringValue] = members.count
            members.append(member)
        }
        return member.draft
    }

    /// The draft of the next element.
    fileprivate func nextElement() -> JSONDraft {
        elements.append(JSONDraft())
        return elements[elements.count - 1]
    }

    fileprivate var elementCount: Int { elements.count }

    /// The value of the column.
    func stored(_ encoder: RecordEncoder, column: String, key: some CodingKey) throws -> DatabaseValue {
        switch kind {
        case nil, .null: .null
        case .value(let value): try encoder.value(of: value, column: column, key: key)
        case .object, .array: try encoder.json(self, key)
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch kind {
        case nil, .null:
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        case .value(let value):
            // As a value of the container, so that the strategies of the encoder hold for it.
            var container = encoder.singleValueContainer()
            try container.encode(value)
        case .object:
            var container = encoder.container(keyedBy: ColumnKey.self)
            for (key, draft) in members { try container.encode(draft, forKey: key) }
        case .array:
            var container = encoder.unkeyedContainer()
            for draft in elements { try container.encode(draft) }
        }
    }
}

/// Encodes into a draft.
struct JSONDraftEncoder: Encoder {
    let draft: JSONDraft
    let codingPath: [any CodingKey]
    let userInfo: [CodingUserInfoKey: Any]

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        draft.kind = .object
        return KeyedEncodingContainer(DraftObject<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        draft.kind = .array
        return DraftArray(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { DraftValue(encoder: self) }

    /// The encoder of a member.
    fileprivate func member(_ key: some CodingKey) -> JSONDraftEncoder {
        JSONDraftEncoder(draft: draft.member(key), codingPath: codingPath + [key], userInfo: userInfo)
    }

    /// The encoder of the next element.
    fileprivate func element() -> JSONDraftEncoder {
        JSONDraftEncoder(draft: draft.nextElement(), codingPath: codingPath, userInfo: userInfo)
    }
}

private struct DraftObject<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: JSONDraftEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }

    func encodeNil(forKey key: Key) throws { encoder.draft.member(key).kind = .null }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        encoder.draft.member(key).kind = .value(value)
    }
    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        encoder.member(key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        encoder.member(key).unkeyedContainer()
    }
    func superEncoder() -> any Encoder { encoder.member(ColumnKey("super")) }
    func superEncoder(forKey key: Key) -> any Encoder { encoder.member(key) }
}

private struct DraftArray: UnkeyedEncodingContainer {
    let encoder: JSONDraftEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.draft.elementCount }

    func encodeNil() throws { encoder.draft.nextElement().kind = .null }
    func encode<Value: Encodable>(_ value: Value) throws { encoder.draft.nextElement().kind = .value(value) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        encoder.element().container(keyedBy: type)
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder.element().unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder.element() }
}

private struct DraftValue: SingleValueEncodingContainer {
    let encoder: JSONDraftEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    func encodeNil() throws { encoder.draft.kind = .null }
    func encode<Value: Encodable>(_ value: Value) throws { encoder.draft.kind = .value(value) }
}

// MARK: - What is refused

private func refusal(_ path: [any CodingKey]) -> EncodingError {
    EncodingError.invalidValue(
        "a nested container",
        EncodingError.Context(
            codingPath: path,
            debugDescription: "a record is encoded as the columns of one row: encode a nested value as a whole"))
}

private struct RefusedObject<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let path: [any CodingKey]
    let error: any Error
    var codingPath: [any CodingKey] { path }

    init(path: [any CodingKey], error: (any Error)? = nil) {
        self.path = path
        self.error = error ?? refusal(path)
    }

    func encodeNil(forKey key: Key) throws { throw error }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws { throw error }
    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(RefusedObject<Nested>(path: path + [key], error: error))
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        RefusedArray(path: path + [key], error: error)
    }
    func superEncoder() -> any Encoder { RefusedEncoder(path: path, error: error) }
    func superEncoder(forKey key: Key) -> any Encoder { RefusedEncoder(path: path + [key], error: error) }
}

private struct RefusedArray: UnkeyedEncodingContainer {
    let path: [any CodingKey]
    let error: any Error
    var codingPath: [any CodingKey] { path }
    var count: Int { 0 }

    init(path: [any CodingKey], error: (any Error)? = nil) {
        self.path = path
        self.error = error ?? refusal(path)
    }

    func encodeNil() throws { throw error }
    func encode<Value: Encodable>(_ value: Value) throws { throw error }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(RefusedObject<Nested>(path: path, error: error))
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }
    func superEncoder() -> any Encoder { RefusedEncoder(path: path, error: error) }
}

private struct RefusedEncoder: Encoder {
    let path: [any CodingKey]
    let error: any Error
    var codingPath: [any CodingKey] { path }
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RefusedObject<Key>(path: path, error: error))
    }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { RefusedArray(path: path, error: error) }
    func singleValueContainer() -> any SingleValueEncodingContainer { RefusedSingle(error: error) }
}

private struct RefusedSingle: SingleValueEncodingContainer {
    let error: any Error
    var codingPath: [any CodingKey] { [] }
    func encodeNil() throws { throw error }
    func encode<Value: Encodable>(_ value: Value) throws { throw error }
}

/// The single value that a record encodes: a part whose columns are columns of the same row.
private struct RecordPart: SingleValueEncodingContainer {
    let encoder: RecordEncoder
    var codingPath: [any CodingKey] { [] }

    func encodeNil() throws { throw refusal }

    func encode<Value: Encodable>(_ value: Value) throws {
        if let record = value as? any EncodableRecord {
            let part = try PersistenceContainer(record)
            for (column, value) in zip(part.columns, part.values) { encoder.container.set(column, value) }
        } else if value is any DatabaseValueConvertible {
            throw refusal
        } else {
            try value.encode(to: encoder)
        }
    }

    private var refusal: EncodingError {
        EncodingError.invalidValue(
            "a single value",
            EncodingError.Context(
                codingPath: [],
                debugDescription: "\(encoder.record) is a record: it is encoded as the columns of a row"))
    }
}
