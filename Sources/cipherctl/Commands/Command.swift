/// One command of the program: made from its arguments, then run.
protocol Command {
    static var syntax: CommandSyntax { get }
    /// Whether it goes on when nobody reads its output any more, so that it ends what it has begun.
    static var changesFiles: Bool { get }

    /// - Throws: ``UsageError``.
    init(_ arguments: ParsedArguments) throws

    func run(_ console: Console) throws -> ExitCode
}

extension Command {
    static var changesFiles: Bool { false }
}

/// All commands, in the order in which help lists them.
enum Catalogue {
    static var all: [any Command.Type] {
        [
            CreateCommand.self, ImportCommand.self, AdoptCommand.self, SQLCommand.self, StatusCommand.self,
            DoctorCommand.self, VerifyCommand.self, HashCommand.self, KeyListCommand.self, KeyAddCommand.self,
            KeyChangeCommand.self, KeyLabelCommand.self, KeyRemoveCommand.self, KeyTestCommand.self,
            KeyRecoveryCommand.self, KeyRevealCommand.self, KeyConvertCommand.self, KeyAcceptCommand.self,
            KeyLogCommand.self, ExportCommand.self, BackupCommand.self, RestoreCommand.self, RotateCommand.self,
            DestroyCommand.self, CompletionsCommand.self, ManCommand.self,
        ]
    }

    /// The command that arguments begin with, and the arguments behind its name; nil when there is none.
    static func find(_ arguments: [String]) -> (command: any Command.Type, rest: [String])? {
        for command in all {
            let words = command.syntax.name.split(separator: " ").map(String.init)
            if arguments.starts(with: words) { return (command, Array(arguments.dropFirst(words.count))) }
        }
        return nil
    }
}
