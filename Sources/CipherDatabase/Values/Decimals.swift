import Foundation

extension Decimal: DatabaseValueConvertible {
    /// The digits, as TEXT with a point: a REAL could not hold all of them. Declare the column TEXT. A column of a numeric
    /// type stores a double instead, of 15 to 17 digits; a record with more digits is refused there.
    /// NaN is NULL, as that of a double is.
    public var databaseValue: DatabaseValue { isNaN ? .null : description.databaseValue }

    /// A TEXT that is a decimal number, or a number. A REAL has the fewest digits that stand for it; infinite ones, and those
    /// that a `Decimal` cannot hold (about 1e127 and more, 1e-128 and less), are none.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Decimal? {
        switch value.storage {
        case .int64(let integer): Decimal(integer)
        // Not Decimal(double): for many doubles it adds digits that no column of a numeric type stores.
        case .double(let double): Decimal(wholeText: "\(double)")
        case .string(let text): Decimal(wholeText: text)
        default: nil
        }
    }

    // Foundation accepts a number at the beginning of a text and ignores the rest.
    private init?(wholeText text: String) {
        let isNumber = text.wholeMatch(of: /[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/) != nil
        guard isNumber, let value = Decimal(string: text, locale: Locale(identifier: "en_US_POSIX")),
            !value.isNaN
        else { return nil }
        self = value
    }
}
