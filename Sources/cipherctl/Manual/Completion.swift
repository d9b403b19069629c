/// The possible next words of the command line: the part that all shells share.
enum Completion {
    /// The completion of a value.
    enum Value: Equatable {
        case file
        case program
        case variable
        case choice([String])
        /// Nothing that a shell can complete.
        case free
    }

    /// From the placeholder in the help.
    static func value(_ placeholder: String) -> Value {
        switch placeholder {
        case "F", "STORE", "PLAIN", "DB", "FILE", "DIR": .file
        case "C": .program
        case "VAR": .variable
        default:
            placeholder.contains("|") || placeholder == placeholder.lowercased()
                ? .choice(placeholder.split(separator: "|").map(String.init)) : .free
        }
    }

    /// A first word, and the commands that begin with it: one with this name, several of two words, or both.
    struct Group {
        let word: String
        let commands: [CommandSyntax]

        var isSingle: Bool { commands.count == 1 && commands[0].name == word }

        /// The command whose name is the word alone, which has operands where others have their second word.
        var own: CommandSyntax? { commands.first { $0.name == word } }

        /// For lists of commands.
        var summary: String { own?.summary ?? "\(word) " + seconds.joined(separator: ", ") }

        /// The second words.
        var seconds: [String] {
            commands.compactMap { $0.name.split(separator: " ").dropFirst().first.map(String.init) }
        }
    }

    /// All commands by their first words, in their order.
    static var groups: [Group] {
        var words: [String] = []
        for word in Catalogue.all.map({ firstWord($0.syntax) }) where !words.contains(word) { words.append(word) }
        return words.map { word in
            Group(word: word, commands: Catalogue.all.map { $0.syntax }.filter { firstWord($0) == word })
        }
    }

    /// The possible replacements of a command.
    static let topics = ["keys", "exit-codes"]
    static let globals = ["--help", "--version"]

    private static func firstWord(_ syntax: CommandSyntax) -> String {
        syntax.name.split(separator: " ").first.map(String.init) ?? syntax.name
    }

    /// In single quotes, for the shells here.
    static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }
}

extension CommandSyntax {
    /// The choices of the operand at a position; nil for files and free text.
    func choices(ofOperand index: Int) -> [String]? {
        guard case .choice(let words) = Completion.value(operands[index].name) else { return nil }
        return words
    }
}

/// `completions SHELL`: prints a script that completes cipherctl's commands and options.
struct CompletionsCommand: Command {
    static let syntax = CommandSyntax(
        name: "completions",
        summary: "print the completion script for a shell",
        operands: [OperandSyntax("bash|zsh|fish", "the shell")],
        options: [],
        examples: [
            "cipherctl completions bash > /etc/bash_completion.d/cipherctl",
            "cipherctl completions zsh > /usr/local/share/zsh/site-functions/_cipherctl",
            "cipherctl completions fish > ~/.config/fish/completions/cipherctl.fish",
        ],
        notes: ["`make install` installs all three."])

    static let needsCryptography = false

    private let script: String

    init(_ arguments: ParsedArguments) throws {
        switch arguments.operands[0] {
        case "bash": script = BashCompletion.script
        case "zsh": script = ZshCompletion.script
        case "fish": script = FishCompletion.script
        default: throw UsageError("There are no completions for this shell.", hint: "Give bash, zsh or fish.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        try console.output.write(script)
        return .ok
    }
}
