import CipherStore
import Foundation
import KeyCustody

/// The values of a statement's named parameters, as `--param` gives them.
struct SQLParameters {
    static let option = OptionSyntax(
        "--param", value: "NAME[:TYPE]=VALUE",
        "the value of :NAME, @NAME or $NAME; TYPE is text (unless given), int, real, blob (hexadecimal) or null",
        isRepeatable: true)

    private var values: [String: DatabaseValue] = [:]
    /// Whether a statement had parameters.
    private(set) var wereUsed = false

    var isEmpty: Bool { values.isEmpty }

    /// No values.
    static let none = SQLParameters()

    private init() {}

    /// - Throws: ``UsageError``, which repeats no value.
    init(_ texts: [String]) throws(UsageError) {
        for text in texts {
            let (name, value) = try Self.parse(text)
            guard values.updateValue(value, forKey: name) == nil else {
                throw UsageError("A parameter was given twice.", hint: "Give --param once for each name.")
            }
        }
    }

    private static func parse(_ text: String) throws(UsageError) -> (name: String, value: DatabaseValue) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        var names = parts[0]
        if let first = names.first, ":@$?".contains(first) { names.removeFirst() }
        let words = names.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        let isName = !words[0].isEmpty && words[0].allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
        guard isName, words.count <= 2 else {
            throw UsageError(
                "--param has no name of a parameter.", hint: "Write --param NAME=VALUE, or --param NAME:int=5.")
        }
        let type = words.count == 2 ? words[1] : "text"
        if type == "null", parts.count == 1 || parts[1].isEmpty { return (words[0], .null) }
        guard parts.count == 2 else {
            throw UsageError(
                "--param has no value for \"\(words[0])\".",
                hint: "Write --param \(words[0])=VALUE, or :null without =.")
        }
        guard let value = value(parts[1], type) else {
            throw UsageError(
                "The value of the parameter \"\(words[0])\" does not fit its type.",
                hint: "The types are text, int (5), real (1.5), blob (00FF) and null (without a value).")
        }
        return (words[0], value)
    }

    private static func value(_ text: String, _ type: String) -> DatabaseValue? {
        switch type {
        case "text": text.databaseValue
        case "int": Int64(text)?.databaseValue
        case "real": Double(text)?.databaseValue
        case "blob": Hex.bytes(text.utf8).map { Data($0).databaseValue }
        default: nil
        }
    }

    /// Binds the values to a statement that has parameters.
    ///
    /// - Throws: `DatabaseError` `SQLITE_MISUSE` if one of its parameters has no value.
    mutating func bind(to statement: Statement) throws {
        guard !isEmpty, (try? statement.validateArguments(StatementArguments())) == nil else { return }
        wereUsed = true
        try statement.setArguments(StatementArguments(plain: [], named: values))
    }
}
