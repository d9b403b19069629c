/// Work that was made from arguments, and runs.
protocol PreparedCommand {
    /// Whether the command completes its work after the reader of its output has gone. Every other command ends then.
    var changesFiles: Bool { get }
    /// Whether it runs until a signal asks it to end, and then ends by itself.
    var endsBySignal: Bool { get }
    /// The time after a signal in which its work is undone. Then the process ends, as SIGKILL would end it.
    var endingGrace: Duration { get }

    func run(_ console: Console) throws -> ExitCode
}

/// One command of the program: made from its arguments, then run.
protocol Command: PreparedCommand {
    static var syntax: CommandSyntax { get }
    /// The hint of the message when a signal ended it at once.
    static var interruptionHint: String { get }
    /// The usual ``PreparedCommand/endingGrace``.
    static var grace: Duration { get }
    /// Whether it can do nothing without the algorithms of libcrypto.
    static var needsCryptography: Bool { get }

    /// - Throws: ``UsageError``.
    init(_ arguments: ParsedArguments) throws
}

extension Command {
    var changesFiles: Bool { false }
    var endsBySignal: Bool { false }
    var endingGrace: Duration { Self.grace }
    static var interruptionHint: String { "Run it again; it has changed nothing." }
    static var grace: Duration { .seconds(5) }
    static var needsCryptography: Bool { true }
}
