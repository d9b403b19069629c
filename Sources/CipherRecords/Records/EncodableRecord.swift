import CipherDatabase
import Foundation

/// A type that can be stored as the columns of a row.
///
/// Types that are `Encodable` need no `encode(to:)` of a container.
public protocol EncodableRecord: SendableMetatype {
    /// Gives the columns and their values. Each record of a type gives the same columns, ideally in the same order.
    func encode(to container: inout PersistenceContainer) throws

    // MARK: Encodable records

    /// The content of `userInfo` in the encoder of an `Encodable` record.
    static var databaseEncodingUserInfo: [CodingUserInfoKey: Any] { get }

    /// How `Data` of an `Encodable` record is stored.
    static func databaseDataEncodingStrategy(for column: String) -> DatabaseDataEncodingStrategy

    /// How `Data` of an `Encodable` record is stored in all columns, unless the method for a column is there: the form
    /// that programs for GRDB 6 and earlier have.
    static var databaseDataEncodingStrategy: DatabaseDataEncodingStrategy { get }

    /// How a `Date` of an `Encodable` record is stored.
    static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy

    /// How a `Date` of an `Encodable` record is stored in all columns, unless the method for a column is there: the form
    /// that programs for GRDB 6 and earlier have.
    static var databaseDateEncodingStrategy: DatabaseDateEncodingStrategy { get }

    /// How a `UUID` of an `Encodable` record is stored.
    static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy

    /// How a `UUID` of an `Encodable` record is stored in all columns, unless the method for a column is there: the form
    /// that programs for GRDB 6 and earlier have.
    static var databaseUUIDEncodingStrategy: DatabaseUUIDEncodingStrategy { get }

    /// How the columns of an `Encodable` record are named.
    static var databaseColumnEncodingStrategy: DatabaseColumnEncodingStrategy { get }

    /// The encoder of a property that is stored as JSON.
    static func databaseJSONEncoder(for key: String) -> JSONEncoder
}

extension EncodableRecord {
    public static var databaseEncodingUserInfo: [CodingUserInfoKey: Any] { [:] }

    public static func databaseDataEncodingStrategy(for column: String) -> DatabaseDataEncodingStrategy {
        databaseDataEncodingStrategy
    }

    public static var databaseDataEncodingStrategy: DatabaseDataEncodingStrategy { .deferredToData }

    public static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy {
        databaseDateEncodingStrategy
    }

    public static var databaseDateEncodingStrategy: DatabaseDateEncodingStrategy { .deferredToDate }

    public static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
        databaseUUIDEncodingStrategy
    }

    public static var databaseUUIDEncodingStrategy: DatabaseUUIDEncodingStrategy { .deferredToUUID }

    public static var databaseColumnEncodingStrategy: DatabaseColumnEncodingStrategy { .useDefaultKeys }

    /// Data in base 64, dates as milliseconds since 1970, keys sorted: the same value has the same text every time.
    public static func databaseJSONEncoder(for key: String) -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.dataEncodingStrategy = .base64
        encoder.dateEncodingStrategy = .millisecondsSince1970
        encoder.nonConformingFloatEncodingStrategy = .throw
        encoder.outputFormatting = .sortedKeys
        encoder.userInfo = databaseEncodingUserInfo.ofCoder
        return encoder
    }

    // MARK: Values

    /// The columns and their values.
    public var databaseDictionary: [String: DatabaseValue] {
        get throws { try PersistenceContainer(self).dictionary }
    }

    /// Whether both records store the same values.
    public func databaseEquals(_ record: Self) -> Bool { (try? databaseChanges(from: record).isEmpty) ?? false }

    /// The columns that differ from another record, with the values that they have there.
    public func databaseChanges(from record: some EncodableRecord) throws -> [String: DatabaseValue] {
        let changes = try PersistenceContainer(self).changes(from: PersistenceContainer(record))
        return Dictionary(changes.map { ($0.column, $0.former) }, uniquingKeysWith: { first, _ in first })
    }

    /// Changes the record.
    ///
    /// - Returns: The columns that differ, with the values that they had.
    public mutating func databaseChanges(modify: (inout Self) throws -> Void) throws -> [String: DatabaseValue] {
        let former = try PersistenceContainer(self)
        try modify(&self)
        let changes = try PersistenceContainer(self).changes(from: former)
        return Dictionary(changes.map { ($0.column, $0.former) }, uniquingKeysWith: { first, _ in first })
    }
}

extension [CodingUserInfoKey: Any] {
    /// The user info as Foundation's coders declare it.
    // Safe because: a coder of a record is made, used and released by one thread. `Sendable` has no representation at
    // run time, so both types of a value are the same there.
    var ofCoder: [CodingUserInfoKey: any Sendable] { mapValues { unsafeBitCast($0 as Any, to: (any Sendable).self) } }
}

// MARK: - Strategies

/// How `Data` is stored.
public enum DatabaseDataEncodingStrategy: Sendable {
    /// As a BLOB.
    case deferredToData
    /// As a TEXT; bytes that are not UTF-8 are refused.
    case text
    case custom(@Sendable (Data) -> (any DatabaseValueConvertible)?)
}

/// How a `Date` is stored.
public enum DatabaseDateEncodingStrategy: Sendable {
    /// As a TEXT `yyyy-MM-dd HH:mm:ss.SSS` in UTC.
    case deferredToDate
    /// As a number of seconds since 2001.
    case timeIntervalSinceReferenceDate
    /// As a number of seconds since 1970, with their fraction.
    case timeIntervalSince1970
    /// As a whole number of seconds since 1970, rounded down.
    case secondsSince1970
    /// As a whole number of milliseconds since 1970, rounded down.
    case millisecondsSince1970
    /// As a TEXT of ISO 8601, as in `2026-01-31T12:30:00Z`. A date that is no point in time, or has no such text, is
    /// refused with an `EncodingError`.
    case iso8601
    /// As the text of a formatter. A date that is no point in time, or that the formatter does not reach, is refused with
    /// an `EncodingError`.
    case formatted(DateFormatter)
    case custom(@Sendable (Date) -> (any DatabaseValueConvertible)?)
}

/// How a `UUID` is stored.
public enum DatabaseUUIDEncodingStrategy: Sendable {
    /// As a BLOB of 16 bytes.
    case deferredToUUID
    /// As a TEXT such as `E621E1F8-C36C-495A-93FC-0C247A3E6E5F`.
    case uppercaseString
    /// As a TEXT such as `e621e1f8-c36c-495a-93fc-0c247a3e6e5f`.
    case lowercaseString

    /// The name of ``uppercaseString`` in GRDB 5.
    public static var string: DatabaseUUIDEncodingStrategy { .uppercaseString }
}

/// How columns are named.
public enum DatabaseColumnEncodingStrategy: Sendable {
    /// As the coding keys.
    case useDefaultKeys
    /// As the coding keys in the form `snake_case`.
    case convertToSnakeCase
    case custom(@Sendable (any CodingKey) -> String)

    func column(of key: some CodingKey) -> String {
        switch self {
        case .useDefaultKeys: key.stringValue
        case .convertToSnakeCase: SnakeCase.snake(key.stringValue)
        case .custom(let name): name(key)
        }
    }
}

/// How `Data` is read.
public enum DatabaseDataDecodingStrategy: Sendable {
    /// From a BLOB or a TEXT.
    case deferredToData
    case custom(@Sendable (DatabaseValue) -> Data?)
}

/// How a `Date` is read.
public enum DatabaseDateDecodingStrategy: Sendable {
    /// From a TEXT in one of SQLite's formats, or a number of seconds since 1970.
    case deferredToDate
    /// From a number of seconds since 2001.
    case timeIntervalSinceReferenceDate
    /// From a number of seconds since 1970.
    case timeIntervalSince1970
    /// From a number of milliseconds since 1970.
    case millisecondsSince1970
    /// From a TEXT of ISO 8601.
    case iso8601
    case formatted(DateFormatter)
    case custom(@Sendable (DatabaseValue) -> Date?)
}

/// How columns are named.
public enum DatabaseColumnDecodingStrategy: Sendable {
    /// As the coding keys.
    case useDefaultKeys
    /// Columns in the form `snake_case` have the coding key `snakeCase`.
    case convertFromSnakeCase
    /// From a column to its coding key.
    case custom(@Sendable (String) -> any CodingKey)
}

extension DatabaseDataEncodingStrategy {
    func value(of data: Data) throws -> DatabaseValue {
        switch self {
        case .deferredToData: return data.databaseValue
        case .text:
            guard let text = String(data: data, encoding: .utf8) else {
                throw EncodingError.invalidValue(
                    "Data(\(data.count) bytes)",
                    EncodingError.Context(codingPath: [], debugDescription: "the bytes are not UTF-8"))
            }
            return text.databaseValue
        case .custom(let convert): return convert(data)?.databaseValue ?? .null
        }
    }
}

extension DatabaseDateEncodingStrategy {
    /// - Throws: `EncodingError` for a date that has no text.
    func value(of date: Date) throws -> DatabaseValue {
        switch self {
        case .deferredToDate: date.databaseValue
        case .timeIntervalSinceReferenceDate: date.timeIntervalSinceReferenceDate.databaseValue
        case .timeIntervalSince1970: date.timeIntervalSince1970.databaseValue
        case .secondsSince1970: Self.whole(date.timeIntervalSince1970)
        case .millisecondsSince1970: Self.whole(date.timeIntervalSince1970 * 1000)
        case .iso8601: try Self.iso8601(date).databaseValue
        case .formatted(let formatter): try Self.text(of: date, formatter).databaseValue
        case .custom(let convert): convert(date)?.databaseValue ?? .null
        }
    }

    /// The seconds since 1970 of the years 1 to 9999, which ISO 8601 and every calendar say.
    private static let plainSeconds = -62_135_596_800.0..<253_402_300_800.0

    /// Foundation writes another date for one that its calendar does not reach.
    private static func iso8601(_ date: Date) throws -> String {
        let text = date.formatted(.iso8601)
        if plainSeconds.contains(date.timeIntervalSince1970) { return text }
        // The text has no fraction of a second.
        guard let read = try? Date(text, strategy: .iso8601), abs(read.timeIntervalSince(date)) <= 1 else {
            throw noText
        }
        return text
    }

    private static func text(of date: Date, _ formatter: DateFormatter) throws -> String {
        let text = formatter.string(from: date)
        let isInReach = date.timeIntervalSince1970.isFinite && !text.isEmpty
        if !isInReach { throw noText }
        return text
    }

    /// The value stays out of the error.
    private static var noText: EncodingError {
        EncodingError.invalidValue(
            "Date",
            EncodingError.Context(
                codingPath: [], debugDescription: "the date is no point in time, or lies beyond what its format can say"
            ))
    }

    // A date that no integer can count is stored as the number it is.
    private static func whole(_ number: Double) -> DatabaseValue {
        Int64(exactly: number.rounded(.down))?.databaseValue ?? number.databaseValue
    }
}

extension DatabaseUUIDEncodingStrategy {
    func value(of uuid: UUID) -> DatabaseValue {
        switch self {
        case .deferredToUUID: uuid.databaseValue
        case .uppercaseString: uuid.uuidString.databaseValue
        case .lowercaseString: uuid.uuidString.lowercased().databaseValue
        }
    }
}

extension DatabaseDateDecodingStrategy {
    func date(from value: DatabaseValue) -> Date? {
        switch self {
        case .deferredToDate: Date.fromDatabaseValue(value)
        case .timeIntervalSinceReferenceDate:
            Double.fromDatabaseValue(value).map { Date(timeIntervalSinceReferenceDate: $0) }
        case .timeIntervalSince1970: Double.fromDatabaseValue(value).map { Date(timeIntervalSince1970: $0) }
        case .millisecondsSince1970: Double.fromDatabaseValue(value).map { Date(timeIntervalSince1970: $0 / 1000) }
        case .iso8601: String.fromDatabaseValue(value).flatMap { try? Date($0, strategy: .iso8601) }
        case .formatted(let formatter): String.fromDatabaseValue(value).flatMap { formatter.date(from: $0) }
        case .custom(let convert): convert(value)
        }
    }
}

/// Names in the forms `snakeCase` and `snake_case`.
///
/// Both are those of Foundation's coders, so that the columns of a table fit whichever program made it.
/// - SeeAlso: <https://github.com/swiftlang/swift-foundation/blob/main/Sources/FoundationEssentials/JSON/JSONEncoder.swift>
enum SnakeCase {
    /// `myURLProperty` becomes `my_url_property`.
    static func snake(_ name: String) -> String {
        guard !name.isEmpty else { return name }
        var words: [Range<String.Index>] = []
        var wordStart = name.startIndex
        // A word that begins the name may be of capitals.
        var rest = name.index(after: wordStart)..<name.endIndex
        while let capital = first(in: name, rest, where: isUppercase) {
            words.append(wordStart..<capital)
            rest = capital..<rest.upperBound
            guard let small = first(in: name, rest, where: isLowercase) else {
                // The capitals, and what is among them, are the last word.
                wordStart = rest.lowerBound
                break
            }
            if small == name.index(after: capital) {
                wordStart = capital
            } else {
                // The last of several capitals begins the next word.
                let last = name.index(before: small)
                words.append(capital..<last)
                wordStart = last
            }
            rest = name.unicodeScalars.index(after: small)..<rest.upperBound
        }
        words.append(wordStart..<rest.upperBound)
        return words.map { name[$0].lowercased() }.joined(separator: "_")
    }

    private static func first(
        in name: String, _ range: Range<String.Index>, where isWanted: (Unicode.Scalar) -> Bool
    ) -> String.Index? {
        name.unicodeScalars[range].firstIndex(where: isWanted)
    }

    private static func isUppercase(_ scalar: Unicode.Scalar) -> Bool {
        let category = scalar.properties.generalCategory
        return category == .uppercaseLetter || category == .titlecaseLetter
    }

    private static func isLowercase(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .lowercaseLetter
    }

    /// `my_url_property` becomes `myUrlProperty`; underscores at both ends stay.
    static func camel(_ name: String) -> String {
        let head = name.prefix { $0 == "_" }
        let rest = name.dropFirst(head.count)
        let tail = rest.reversed().prefix { $0 == "_" }
        let words = rest.dropLast(tail.count).split(separator: "_")
        guard words.count > 1, let first = words.first else { return name }
        return head + first.lowercased() + words.dropFirst().map(\.capitalized).joined() + String(tail)
    }
}
