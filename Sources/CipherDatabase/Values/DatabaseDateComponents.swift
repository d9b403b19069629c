import Foundation

/// A date, a time of day, or both, with the format in which the database stores them as TEXT.
public struct DatabaseDateComponents: Sendable, Hashable {
    /// The formats that SQLite's date functions read.
    /// - SeeAlso: <https://www.sqlite.org/lang_datefunc.html>
    public enum Format: String, Sendable, CaseIterable {
        case YMD = "yyyy-MM-dd"
        case YMD_HM = "yyyy-MM-dd HH:mm"
        case YMD_HMS = "yyyy-MM-dd HH:mm:ss"
        case YMD_HMSS = "yyyy-MM-dd HH:mm:ss.SSS"
        case HM = "HH:mm"
        case HMS = "HH:mm:ss"
        case HMSS = "HH:mm:ss.SSS"

        var hasDate: Bool { rawValue.hasPrefix("y") }
    }

    public let dateComponents: DateComponents
    public let format: Format

    /// - Parameter format: The components to store. Missing ones are 0, or 1 for month and day. Other components, the
    ///   time zone included, are not stored.
    public init(_ dateComponents: DateComponents, format: Format) {
        self.dateComponents = dateComponents
        self.format = format
    }

    /// The text in the format.
    var text: String {
        let parts = dateComponents
        let date = String(format: "%04d-%02d-%02d", parts.year ?? 0, parts.month ?? 1, parts.day ?? 1)
        let minutes = String(format: "%02d:%02d", parts.hour ?? 0, parts.minute ?? 0)
        let seconds = minutes + String(format: ":%02d", parts.second ?? 0)
        return switch format {
        case .YMD: date
        case .YMD_HM: date + " " + minutes
        case .YMD_HMS: date + " " + seconds
        case .YMD_HMSS: date + " " + seconds + milliseconds
        case .HM: minutes
        case .HMS: seconds
        case .HMSS: seconds + milliseconds
        }
    }

    private var milliseconds: String {
        // Components may contain any number. A value outside of a second would be read as another time.
        String(format: ".%03d", min(max((dateComponents.nanosecond ?? 0) / 1_000_000, 0), 999))
    }

    init?(text: String) {
        guard let parts = DateTextReader.parts(of: text) else { return nil }
        var components = DateComponents()
        if let date = parts.date {
            (components.year, components.month, components.day) = (Int(date.year), Int(date.month), Int(date.day))
        }
        components.hour = parts.hour.map { Int($0) }
        components.minute = parts.minute.map { Int($0) }
        components.second = parts.second.map { Int($0) }
        components.nanosecond = parts.nanosecond.map { Int($0) }
        components.timeZone = parts.secondsFromGMT.flatMap { TimeZone(secondsFromGMT: Int($0)) }
        self.init(components, format: Format(parts))
    }
}

extension DatabaseDateComponents.Format {
    fileprivate init(_ parts: DateTextParts) {
        let hasDate = parts.date != nil
        if parts.fraction != nil {
            self = hasDate ? .YMD_HMSS : .HMSS
        } else if parts.second != nil {
            self = hasDate ? .YMD_HMS : .HMS
        } else if parts.hour != nil {
            self = hasDate ? .YMD_HM : .HM
        } else {
            self = .YMD
        }
    }
}

extension DatabaseDateComponents: DatabaseValueConvertible {
    /// The text in the format, as TEXT.
    public var databaseValue: DatabaseValue { text.databaseValue }

    /// A TEXT in one of the formats, with or without a time zone.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> DatabaseDateComponents? {
        guard case .string(let text) = value.storage else { return nil }
        return DatabaseDateComponents(text: text)
    }
}

extension DatabaseDateComponents: StatementColumnConvertible {
    /// The date of a column; nil for all but a text in one of the formats.
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        let value = DatabaseValue(sqliteStatement: sqliteStatement, index: index)
        guard let components = DatabaseDateComponents.fromDatabaseValue(value) else { return nil }
        self = components
    }
}

extension DatabaseDateComponents: Codable {
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let components = DatabaseDateComponents(text: text) else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "not a date format of SQLite"))
        }
        self = components
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
