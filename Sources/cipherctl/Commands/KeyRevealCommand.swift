struct KeyRevealCommand: Command {
    static let syntax = CommandSyntax(name: "key reveal", summary: "", operands: [], options: [], examples: [])
    init(_ arguments: ParsedArguments) throws {}
    func run(_ console: Console) throws -> ExitCode { .ok }
}
