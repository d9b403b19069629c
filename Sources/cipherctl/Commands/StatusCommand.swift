struct StatusCommand: Command {
    static let syntax = CommandSyntax(name: "status", summary: "", operands: [], options: [], examples: [])
    init(_ arguments: ParsedArguments) throws {}
    func run(_ console: Console) throws -> ExitCode { .ok }
}
