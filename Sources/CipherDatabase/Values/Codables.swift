import Foundation

// Codable types that are DatabaseValueConvertible without more: a single value stands as itself, all others as JSON.

extension DatabaseValueConvertible {
    /// The encoder of values that stand as JSON: Data in base 64, dates as milliseconds since 1970, keys sorted.
    public static func databaseJSONEncoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.dataEncodingStrategy = .base64
        encoder.dateEncodingStrategy = .millisecondsSince1970
        encoder.nonConformingFloatEncodingStrategy = .throw
        // The same value has the same text every time, so texts can be compared.
        encoder.outputFormatting = .sortedKeys
        return encoder
    }

    /// The decoder of values that stand as JSON, for what ``databaseJSONEncoder()`` writes.
    public static func databaseJSONDecoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dataDecodingStrategy = .base64
        decoder.dateDecodingStrategy = .millisecondsSince1970
        decoder.nonConformingFloatDecodingStrategy = .throw
        return decoder
    }
}

extension DatabaseValueConvertible where Self: Encodable {
    /// The value itself when the type encodes a single value, JSON as TEXT otherwise. NULL for what cannot be encoded,
    /// as a number that is not finite in JSON.
    public var databaseValue: DatabaseValue {
        do {
            if let value = try SingleValueEncoder.databaseValue(of: self) { return value }
            return String(decoding: try Self.databaseJSONEncoder().encode(self), as: UTF8.self).databaseValue
        } catch {
            return .null
        }
    }
}

extension DatabaseValueConvertible where Self: Decodable {
    /// The value of a single stored value, or of JSON in a TEXT or BLOB.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        do {
            return try Self(from: SingleValueDecoder(stored: value))
        } catch is NeedsJSON {
            return Data.fromDatabaseValue(value).flatMap { try? databaseJSONDecoder().decode(Self.self, from: $0) }
        } catch {
            return nil
        }
    }
}

// A raw value goes before the coding that enums have as well.

extension DatabaseValueConvertible where Self: Encodable & RawRepresentable, RawValue: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { rawValue.databaseValue }
}

extension DatabaseValueConvertible where Self: Decodable & RawRepresentable, RawValue: DatabaseValueConvertible {
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        RawValue.fromDatabaseValue(value).flatMap { Self(rawValue: $0) }
    }
}
