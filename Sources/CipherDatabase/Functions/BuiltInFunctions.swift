import Foundation

// The functions and collations that every connection has. Their SQL names are GRDB's: its users' schemas contain them.

extension DatabaseFunction {
    /// The first letter of each word in upper case; NULL for a value that is not text.
    public static let capitalize = ofText("swiftCapitalizedString") { $0.capitalized }
    /// In lower case, by Unicode; NULL for a value that is not text.
    public static let lowercase = ofText("swiftLowercaseString") { $0.lowercased() }
    /// In upper case, by Unicode; NULL for a value that is not text.
    public static let uppercase = ofText("swiftUppercaseString") { $0.uppercased() }
    /// As ``capitalize``, by the rules of the user's language.
    public static let localizedCapitalize = ofText("swiftLocalizedCapitalizedString") { $0.localizedCapitalized }
    /// As ``lowercase``, by the rules of the user's language.
    public static let localizedLowercase = ofText("swiftLocalizedLowercaseString") { $0.localizedLowercase }
    /// As ``uppercase``, by the rules of the user's language.
    public static let localizedUppercase = ofText("swiftLocalizedUppercaseString") { $0.localizedUppercase }

    static let builtIn = [
        capitalize, lowercase, uppercase, localizedCapitalize, localizedLowercase, localizedUppercase,
    ]

    private static func ofText(
        _ name: String, _ transform: @escaping @Sendable (String) -> String
    ) -> DatabaseFunction {
        DatabaseFunction(name, argumentCount: 1, pure: true) { values in
            String.fromDatabaseValue(values[0]).map(transform)
        }
    }
}

extension DatabaseCollation {
    /// The order of Swift's `<` and `==`, by Unicode and independent of any language.
    public static let unicodeCompare = DatabaseCollation("swiftCompare") { left, right in
        left == right ? .orderedSame : left < right ? .orderedAscending : .orderedDescending
    }
    /// The order of `caseInsensitiveCompare`.
    public static let caseInsensitiveCompare = DatabaseCollation("swiftCaseInsensitiveCompare") {
        $0.caseInsensitiveCompare($1)
    }
    /// The order of `localizedCaseInsensitiveCompare`: it differs from user to user, so never index by it.
    public static let localizedCaseInsensitiveCompare = DatabaseCollation("swiftLocalizedCaseInsensitiveCompare") {
        $0.localizedCaseInsensitiveCompare($1)
    }
    /// The order of `localizedCompare`: it differs from user to user, so never index by it.
    public static let localizedCompare = DatabaseCollation("swiftLocalizedCompare") { $0.localizedCompare($1) }
    /// The order of `localizedStandardCompare`, as in file lists: it differs from user to user, so never index by it.
    public static let localizedStandardCompare = DatabaseCollation("swiftLocalizedStandardCompare") {
        $0.localizedStandardCompare($1)
    }

    static let builtIn = [
        unicodeCompare, caseInsensitiveCompare, localizedCaseInsensitiveCompare, localizedCompare,
        localizedStandardCompare,
    ]
}
