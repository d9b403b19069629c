/// `man`: the manual page.
struct ManCommand: Command {
    static let syntax = CommandSyntax(
        name: "man",
        summary: "print the manual page, as man reads it",
        operands: [],
        options: [],
        examples: ["cipherctl man | man -l -", "cipherctl man > /usr/local/share/man/man1/cipherctl.1"],
        notes: ["`make install` installs it."])

    init(_ arguments: ParsedArguments) throws {}

    func run(_ console: Console) throws -> ExitCode {
        try console.output.write(ManualPage.roff)
        return .ok
    }
}
