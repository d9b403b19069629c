/// An option of a command, as `--key-file F`.
struct OptionSyntax: Sendable, Equatable {
    /// With its two dashes.
    let name: String
    /// What stands for the value in the help; nil for options that take none.
    let value: String?
    let help: String
    /// Whether it may be given several times.
    let isRepeatable: Bool
    /// Whether its value may be empty, as in `--label=`.
    let mayBeEmpty: Bool

    init(
        _ name: String, value: String? = nil, _ help: String, isRepeatable: Bool = false, mayBeEmpty: Bool = false
    ) {
        self.name = name
        self.value = value
        self.help = help
        self.isRepeatable = isRepeatable
        self.mayBeEmpty = mayBeEmpty
    }

    /// As it stands in the help: `--key-file F`.
    var form: String { value.map { "\(name) \($0)" } ?? name }
}

/// An argument known by its place.
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

/// What a command is called and takes, and how it is explained.
struct CommandSyntax: Sendable {
    /// One word, or two as in `key reveal`.
    let name: String
    let summary: String
    let operands: [OperandSyntax]
    let options: [OptionSyntax]
    let examples: [String]
    /// Paragraphs behind the options.
    var notes: [String] = []

    func option(_ name: String) -> OptionSyntax? { options.first { $0.name == name } }

    /// The line of the help that shows the order of operands.
    var usage: String {
        let operands = operands.map { ($0.isOptional ? "[\($0.name)]" : $0.name) + ($0.isRepeated ? "..." : "") }
        return (["cipherctl", name] + operands + (options.isEmpty ? [] : ["[options]"])).joined(separator: " ")
    }
}

extension OptionSyntax {
    static let json = OptionSyntax("--json", "print the result, and errors, as JSON")
    static let yes = OptionSyntax("--yes", "do not ask, do it")
}
