/// `completions SHELL`: a script by which a shell completes cipherctl's commands and options.
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
