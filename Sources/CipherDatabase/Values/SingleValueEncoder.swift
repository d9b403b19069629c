import Foundation

/// Thrown by a coder that accepts single values only: the value is an object or an array, and is stored as JSON.
struct NeedsJSON: Error {}

/// Encodes a value as one database value: `Encodable` types that put a single value into their container.
///
/// The containers of objects and arrays refuse everything: such values are encoded again, as JSON.
final class SingleValueEncoder: Encoder {
    private(set) var stored: DatabaseValue?
    private(set) var needsJSON = false
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// The value as one database value; nil when it is an object or an array.
    static func databaseValue(of value: some Encodable) throws -> DatabaseValue? {
        let encoder = SingleValueEncoder()
        do {
            try value.encode(to: encoder)
        } catch is NeedsJSON {
            return nil
        }
        return encoder.needsJSON ? nil : encoder.stored
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(refusing(Key.self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { refusing(NoKey.self) }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    private func refusing<Key>(_ type: Key.Type) -> RefusingContainer<Key> {
        needsJSON = true
        return RefusingContainer(encoder: self)
    }
}

extension SingleValueEncoder: SingleValueEncodingContainer {
    func encodeNil() throws { stored = .null }

    func encode(_ value: some Encodable) throws {
        if let value = value as? any DatabaseValueConvertible {
            stored = value.databaseValue
        } else {
            try value.encode(to: self)
        }
    }
}

/// The key of containers that have none.
private struct NoKey: CodingKey {
    var stringValue: String { "" }
    var intValue: Int? { nil }
    init?(stringValue: String) { nil }
    init?(intValue: Int) { nil }
}

/// The container of an object or an array, which refuses everything.
private struct RefusingContainer<Key: CodingKey> {
    let encoder: SingleValueEncoder
    var codingPath: [any CodingKey] { [] }
}

extension RefusingContainer: KeyedEncodingContainerProtocol {
    func encodeNil(forKey key: Key) throws { throw NeedsJSON() }
    func encode(_ value: some Encodable, forKey key: Key) throws { throw NeedsJSON() }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        encoder.container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { encoder.unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder }
    func superEncoder(forKey key: Key) -> any Encoder { encoder }
}

extension RefusingContainer: UnkeyedEncodingContainer {
    var count: Int { 0 }
    func encodeNil() throws { throw NeedsJSON() }
    func encode(_ value: some Encodable) throws { throw NeedsJSON() }

    func nestedContainer<NestedKey: CodingKey>(keyedBy type: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
        encoder.container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder.unkeyedContainer() }
}

/// Decodes a type that reads a single value from its container.
struct SingleValueDecoder: Decoder {
    let stored: DatabaseValue
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> { throw NeedsJSON() }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw NeedsJSON() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }
}

extension SingleValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { stored.isNull }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard let convertible = type as? any DatabaseValueConvertible.Type else { return try Value(from: self) }
        // In two steps: a cast makes an optional nil of no value.
        if let fitting = convertible.fromDatabaseValue(stored), let value = fitting as? Value { return value }
        throw DecodingError.dataCorrupted(
            DecodingError.Context(codingPath: [], debugDescription: "the stored value does not fit \(type)"))
    }
}
