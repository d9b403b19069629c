/// The arguments of one command, parsed by a ``CommandSyntax``.
///
/// Options may be anywhere, as `--name value` or `--name=value`; all arguments after `--` are operands.
struct ParsedArguments: Equatable {
    private var values: [String: [String]] = [:]
    private(set) var flags: Set<String> = []
    private(set) var operands: [String] = []
    /// The operand that is the store, as it was typed; nil where a command has none or several.
    var store: String? { storePlace.flatMap { $0 < operands.count ? operands[$0] : nil } }
    /// The options that the command has.
    private let known: Set<String>
    private let storePlace: Int?

    /// - Throws: ``UsageError``.
    init(_ arguments: [String], syntax: CommandSyntax) throws(UsageError) {
        known = Set(syntax.options.map(\.name))
        storePlace = syntax.operands.firstIndex { $0.name == "STORE" && !$0.isRepeated }
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                operands += rest
                break
            }
            // A single dash is an operand: standard input.
            if argument.hasPrefix("-"), argument != "-" {
                try takeOption(argument, &rest, syntax)
            } else {
                operands.append(argument)
            }
        }
        try checkOperands(syntax)
    }

    /// The value of an option; nil when it was not given.
    func value(_ name: String) -> String? { values[name]?.first }

    /// The values of an option that may be given several times, in their order.
    func values(_ name: String) -> [String] { values[name] ?? [] }

    /// Whether the command has an option.
    func offers(_ name: String) -> Bool { known.contains(name) }

    /// Whether an option without a value was given.
    func has(_ name: String) -> Bool { flags.contains(name) }

    private mutating func takeOption(
        _ argument: String, _ rest: inout ArraySlice<String>, _ syntax: CommandSyntax
    ) throws(UsageError) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        guard let option = syntax.option(name) else { throw Self.unknown(name, syntax) }
        if !option.isRepeatable, values[name] != nil || flags.contains(name) {
            throw UsageError("\(name) was given twice.", hint: "Give it once.")
        }
        let attached = parts.count > 1 ? String(parts[1]) : nil
        guard let placeholder = option.value else {
            if attached != nil { throw UsageError("\(name) takes no value.", hint: "Write: \(name)") }
            flags.insert(name)
            return
        }
        if option.isValueOptional, attached == nil, rest.first?.hasPrefix("-") ?? true {
            flags.insert(name)
            return
        }
        guard let value = attached ?? rest.popFirst(), option.mayBeEmpty || !value.isEmpty else {
            throw UsageError("\(name) needs a value.", hint: "Write: \(name) \(placeholder)")
        }
        values[name, default: []].append(value)
    }

    private static func unknown(_ name: String, _ syntax: CommandSyntax) -> UsageError {
        let stem = name.hasPrefix("--new-") ? "--" + name.dropFirst(6) : name
        let looksLikeKey = ["--key", "--passphrase", "--password", "--raw-key", "-k", "-p"].contains(stem)
        if looksLikeKey {
            return UsageError(
                "Keys are never taken from the command line, where every user of the machine can read them.",
                hint: "Use --key-file, --key-fd, --key-command or the prompt: cipherctl help keys")
        }
        if let path = path(name) {
            return UsageError(
                "\"\(path)\" begins with a dash, and so is read as an option, which \"\(syntax.name)\" does not have.",
                hint: "If it is a file, write ./\(path), or put -- before it.")
        }
        if name.contains(" ") {
            return UsageError(
                "An argument that begins with a dash is read as an option, and \"\(syntax.name)\" has no such option.",
                hint: "Put -- before a text that begins with a dash.")
        }
        // Shortened: a user may have typed anything after a dash.
        let shown = name.count <= 32 && name.allSatisfy { $0.isASCII && ($0.isLetter || $0 == "-") } ? " \(name)" : ""
        return UsageError(
            "\"\(syntax.name)\" has no option\(shown).", hint: "See: cipherctl \(syntax.name) --help")
    }

    /// A text that looks like the name of a database rather than an option or a secret; nil for everything else.
    private static func path(_ name: String) -> String? {
        let isSpelledSo = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
            default: false
            }
        }
        let endings = [".db", ".sqlite", ".sqlite3", ".db3", ".store"]
        return isSpelledSo && name.utf8.count <= 64 && endings.contains { name.hasSuffix($0) } ? name : nil
    }

    private func checkOperands(_ syntax: CommandSyntax) throws(UsageError) {
        let hint = "Usage: \(syntax.usage)"
        if asksForFleet {
            guard operands.isEmpty else {
                throw UsageError(
                    "Arguments beside --fleet were given.",
                    hint: "The fleet file names the stores; --only GLOB chooses among them.")
            }
            return
        }
        if operands.count > syntax.operands.count, syntax.operands.last?.isRepeated != true {
            throw UsageError("There are more arguments than \"\(syntax.name)\" takes.", hint: hint)
        }
        if operands.count < syntax.operands.count, !syntax.operands[operands.count].isOptional {
            throw UsageError("\(syntax.operands[operands.count].name) is missing.", hint: hint)
        }
        if operands.contains("") { throw UsageError("An argument is empty.", hint: hint) }
    }
}

/// An option of a command, as `--key-file F`.
struct OptionSyntax: Sendable, Equatable {
    /// With its two dashes.
    let name: String
    /// The placeholder for the value in the help; nil for options without one.
    let value: String?
    let help: String
    /// Whether it may be given several times.
    let isRepeatable: Bool
    /// Whether its value may be empty, as in `--label=`.
    let mayBeEmpty: Bool
    /// Whether its value may be left out, as in `--fleet`.
    let isValueOptional: Bool

    init(
        _ name: String, value: String? = nil, _ help: String, isRepeatable: Bool = false, mayBeEmpty: Bool = false,
        isValueOptional: Bool = false
    ) {
        self.name = name
        self.value = value
        self.help = help
        self.isRepeatable = isRepeatable
        self.mayBeEmpty = mayBeEmpty
        self.isValueOptional = isValueOptional
    }

    /// Its form in the help: `--key-file F`.
    var form: String { value.map { isValueOptional ? "\(name) [\($0)]" : "\(name) \($0)" } ?? name }
}

/// A positional argument.
struct OperandSyntax: Sendable, Equatable {
    let name: String
    let help: String
    let isOptional: Bool
    /// Whether more of the same may follow; only the last operand may.
    let isRepeated: Bool

    init(_ name: String, _ help: String, isOptional: Bool = false, isRepeated: Bool = false) {
        self.name = name
        self.help = help
        self.isOptional = isOptional
        self.isRepeated = isRepeated
    }
}

/// The name, arguments and help texts of a command.
struct CommandSyntax: Sendable {
    /// One word, or two as in `key reveal`.
    let name: String
    let summary: String
    let operands: [OperandSyntax]
    let options: [OptionSyntax]
    let examples: [String]
    /// Paragraphs after the options.
    var notes: [String] = []

    func option(_ name: String) -> OptionSyntax? { options.first { $0.name == name } }

    /// The line of the help that shows the order of operands.
    var usage: String {
        let operands = operands.map { ($0.isOptional ? "[\($0.name)]" : $0.name) + ($0.isRepeated ? "..." : "") }
        return (["cipherctl", name] + operands + (options.isEmpty ? [] : ["[options]"])).joined(separator: " ")
    }
}

extension OptionSyntax {
    static let json = OptionSyntax("--json", "print the result, notes, warnings and errors as JSON")
    static let quiet = OptionSyntax("--quiet", "print neither notes nor progress; warnings and errors stay")
    static let progress = OptionSyntax(
        "--progress", value: "bar|json", "bar, at a terminal only (the default); json: lines on standard error")
    static let yes = OptionSyntax("--yes", "do it without asking")
}

/// Arguments that do not form a command.
///
/// It never repeats a value or an unknown operand: the user may have typed a passphrase there.
struct UsageError: Error, Equatable {
    let message: String
    let hint: String

    init(_ message: String, hint: String) {
        self.message = message
        self.hint = hint
    }
}
