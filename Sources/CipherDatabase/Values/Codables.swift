import Foundation

// Codable types that are DatabaseValueConvertible without more code: a single value is stored directly, others as JSON.

extension DatabaseValueConvertible {
    /// The encoder of values that are stored as JSON: Data in base 64, dates as milliseconds since 1970, keys sorted.
    public static func databaseJSONEncoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.dataEncodingStrategy = .base64
        encoder.dateEncodingStrategy = .millisecondsSince1970
        encoder.nonConformingFloatEncodingStrategy = .throw
        // The text of a value is always the same, so texts can be compared.
        encoder.outputFormatting = .sortedKeys
        return encoder
    }

    /// The decoder of values that are stored as JSON, for what ``databaseJSONEncoder()`` writes.
    public static func databaseJSONDecoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dataDecodingStrategy = .base64
        decoder.dateDecodingStrategy = .millisecondsSince1970
        decoder.nonConformingFloatDecodingStrategy = .throw
        return decoder
    }
}

extension DatabaseValueConvertible where Self: Encodable {
    /// The value itself when the type encodes a single value, JSON as TEXT otherwise.
    ///
    /// A value that cannot be encoded, such as a number that is not finite in JSON, is not NULL. Storing it, or
    /// comparing a column with it, throws `DatabaseError` `.SQLITE_MISMATCH`.
    public var databaseValue: DatabaseValue {
        do {
            if let value = try SingleValueEncoder.databaseValue(of: self) { return value }
            return String(decoding: try Self.databaseJSONEncoder().encode(self), as: UTF8.self).databaseValue
        } catch {
            return .unencodable
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

// A raw value takes precedence over the coding that enums have as well.

extension DatabaseValueConvertible where Self: Encodable & RawRepresentable, RawValue: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { rawValue.databaseValue }
}

extension DatabaseValueConvertible where Self: Decodable & RawRepresentable, RawValue: DatabaseValueConvertible {
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        RawValue.fromDatabaseValue(value).flatMap { Self(rawValue: $0) }
    }
}
