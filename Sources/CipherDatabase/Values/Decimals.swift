import Foundation

extension Decimal: DatabaseValueConvertible {
    /// The digits, as TEXT with a point: a REAL could not hold all of them.
    public var databaseValue: DatabaseValue { description.databaseValue }

    /// A TEXT that is a decimal number, or a number.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Decimal? {
        switch value.storage {
        case .int64(let integer): Decimal(integer)
        case .double(let double): Decimal(double)
        case .string(let text): Decimal(wholeText: text)
        default: nil
        }
    }

    // Foundation accepts a number at the beginning of a text and ignores the rest.
    private init?(wholeText text: String) {
        let isNumber = text.wholeMatch(of: /[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/) != nil
        guard isNumber, let value = Decimal(string: text, locale: Locale(identifier: "en_US_POSIX")) else { return nil }
        self = value
    }
}
