import CipherDatabase
import CipherRecords
import Foundation
import KeyCustody

/// Names one row of one store, in any process: to be kept, sent, or put into a link.
///
/// ```swift
/// let id = try store.read { db in try store.recordID(of: player, db) }
/// let url = id.url  // cipherstore://5f0c.../player?id=i42
/// let player = try RecordID(url: url).flatMap { id in try store.read { try Player.fetchOne($0, recordID: id) } }
/// ```
///
/// A store keeps its identifier when it is moved, backed up, restored, or given another key. The primary key is written
/// as it is: where it says something that must stay secret, so does the URL.
public struct RecordID: Sendable {
    /// The scheme of the URLs.
    public static let urlScheme = "cipherstore"

    /// The identifier of the store: see ``SharedStore/storeID``.
    public let storeID: StoreID
    public let tableName: String
    /// The primary key, by column.
    public let key: [String: DatabaseValue]

    /// Makes an identifier; nil for a key without columns, with NULL, or with one column twice.
    public init?(storeID: StoreID, tableName: String, key: [String: DatabaseValue]) {
        let names = Set(key.keys.map(\.lowercasedASCII))
        if key.isEmpty || names.count != key.count || key.values.contains(where: \.isNull) { return nil }
        self.storeID = storeID
        self.tableName = tableName
        self.key = key
    }

    /// The key with the names of columns as they are compared.
    private var comparedKey: [String: DatabaseValue] {
        Dictionary(key.map { ($0.key.lowercasedASCII, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}

extension RecordID: Hashable {
    /// Names are compared as SQLite does, without regard to the case of ASCII letters.
    public static func == (left: RecordID, right: RecordID) -> Bool {
        left.storeID == right.storeID && left.tableName.lowercasedASCII == right.tableName.lowercasedASCII
            && left.comparedKey == right.comparedKey
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(storeID)
        hasher.combine(tableName.lowercasedASCII)
        hasher.combine(comparedKey)
    }
}

// MARK: - URLs

extension RecordID {
    /// The identifier as a URL: `cipherstore://`, the store's identifier, the table, and each column of the key with a
    /// letter for the kind of its value: `i` an integer, `r` a real number by its bits, `t` a text, `b` a blob in
    /// hexadecimal digits. The columns are in alphabetical order.
    public var url: URL {
        var components = URLComponents()
        components.scheme = Self.urlScheme
        components.host = "\(storeID)"
        components.percentEncodedPath = "/" + Self.encode(tableName)
        components.percentEncodedQuery = key.sorted {
            ($0.key.lowercasedASCII, $0.key) < ($1.key.lowercasedASCII, $1.key)
        }
        .map { Self.encode($0.key) + "=" + Self.encode(Self.text(of: $0.value)) }.joined(separator: "&")
        // Scheme, host, path and query have no character that is not allowed there.
        guard let url = components.url else { preconditionFailure("a URL of unreserved characters is not one") }
        return url
    }

    /// Reads an identifier; nil for a URL that ``url`` does not make.
    public init?(url: URL) {
        guard let components = URLComponents(url: url, resolvingAgainstBaseURL: false),
            components.scheme == Self.urlScheme, components.user == nil, components.password == nil,
            components.port == nil, components.fragment == nil, let host = components.host,
            let storeID = Hex.bytes(host.utf8).flatMap(StoreID.init(bytes:)),
            components.percentEncodedPath.hasPrefix("/"),
            let table = String(components.percentEncodedPath.dropFirst()).removingPercentEncoding, !table.isEmpty,
            let query = components.percentEncodedQuery
        else { return nil }
        var key: [String: DatabaseValue] = [:]
        for item in query.split(separator: "&", omittingEmptySubsequences: false) {
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let column = String(parts[0]).removingPercentEncoding, !column.isEmpty,
                let value = String(parts[1]).removingPercentEncoding.flatMap(Self.value),
                key.updateValue(value, forKey: column) == nil
            else { return nil }
        }
        self.init(storeID: storeID, tableName: table, key: key)
    }

    private static func text(of value: DatabaseValue) -> String {
        switch value.storage {
        case .null: "n"
        case .int64(let integer): "i\(integer)"
        case .double(let double): "r\(String(double.bitPattern, radix: 16))"
        case .string(let text): "t" + text
        case .blob(let data): "b" + Hex.text([UInt8](data))
        }
    }

    private static func value(_ text: String) -> DatabaseValue? {
        // By scalars: a combining character would belong to the letter before it.
        let content = text.unicodeScalars.dropFirst().reduce(into: "") { $0.unicodeScalars.append($1) }
        return switch text.unicodeScalars.first {
        case "i": Int64(content).map(\.databaseValue)
        case "r": UInt64(content, radix: 16).map { Double(bitPattern: $0).databaseValue }
        case "t": content.databaseValue
        case "b": Hex.bytes(content.utf8).map { Data($0).databaseValue }
        default: nil
        }
    }

    /// Only characters that no part of a URL gives a meaning are left as they are.
    private static func encode(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                encoded.append(byte)
            default: encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}

extension RecordID: Codable {
    /// Writes ``url`` as one text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(url.absoluteString)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let url = URL(string: try container.decode(String.self)), let id = RecordID(url: url) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not the URL of a record")
        }
        self = id
    }
}

extension RecordID: CustomStringConvertible {
    /// Store and table, and the columns of the key without their values.
    public var description: String {
        "RecordID(\(storeID), \(tableName)(\(key.keys.sorted().joined(separator: ", "))))"
    }
}

// MARK: - Rows

extension SharedStore {
    /// The identifier of a record's row.
    ///
    /// - Throws: `RecordError.recordNotFound` for a record without a key, `DatabaseError` for one that does not
    ///   encode it, or whose table is not there.
    public func recordID(of record: some EncodableRecord & TableRecord, _ db: Database) throws -> RecordID {
        let key = try record.primaryKey(db)
        let values = Dictionary(key.map { ($0.column, $0.value) }, uniquingKeysWith: { first, _ in first })
        let table = type(of: record).databaseTableName
        guard let id = RecordID(storeID: storeID, tableName: table, key: values) else {
            throw record.recordNotFound(db)
        }
        return id
    }
}

extension FetchableRecord where Self: TableRecord {
    /// The record of an identifier; nil where there is no such row, and for an identifier of another table. Whether it
    /// is one of this store the caller compares: see ``RecordID/storeID``.
    public static func fetchOne(_ db: Database, recordID: RecordID) throws -> Self? {
        guard recordID.tableName.lowercasedASCII == databaseTableName.lowercasedASCII else { return nil }
        return try fetchOne(db, key: recordID.key.mapValues { $0 as (any DatabaseValueConvertible)? })
    }
}
