import CipherStore
import StorePlatform
import StoreTools

/// `shell STORE`: statements that a user types, or a script from standard input.
struct ShellCommand: Command {
    static let interruptionHint = SQLCommand.interruptionHint
    static let syntax = CommandSyntax(
        name: "shell",
        summary: "read SQL statements at the terminal and print their rows",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup, which is only read")],
        options: [
            OptionSyntax("--write", "let statements change the store; without it they only read"),
            OptionSyntax("--no-history", "neither read nor write the file of earlier statements"),
            OptionSyntax("--no-pager", "print long results without a pager"), .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl shell app.db --key-file app.key",
            "cipherctl shell app.db --write --no-history",
            "cipherctl shell app.db --key-file app.key < report.sql > report.txt",
        ],
        notes: [
            "A statement ends with a semicolon. The prompt shows whether the store may be written, and whether a "
                + "transaction is open. Ctrl-C ends a statement, Ctrl-D the shell. The Tab key completes names of tables "
                + "and columns, keywords and instructions.",
            ShellInstruction.helpLines.dropLast().map { "  " + $0 }.joined(separator: "\n"),
            "The history is $CIPHERSTORE_HISTORY, or cipherstore/history in ~/.local/state, with mode 0600. It holds "
                + "statements with the values in them, readable without a key. Statements that could hold a key or a "
                + "password are left out.",
            "Without a terminal, standard input is a script: there is no prompt, and the first error ends it.",
        ])

    private let path: String
    private let isWriting: Bool
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        isWriting = arguments.has("--write")
    }

    func run(_ console: Console) throws -> ExitCode {
        if isWriting { try BackupBundle.refuse(writing: path) }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store =
            isWriting
            ? try StoreOpening.writable(path, key, onNotice: console.note)
            : try StoreOpening.readOnly(path, key, onNotice: console.note)
        defer { try? store.close() }
        let tracked = isWriting ? try TrackedWrites(store) : nil
        defer { tracked?.warn(console) }
        let isInteractive = Terminal.isTerminal(0) && Terminal.isTerminal(1)
        // A pager that ends, or the reader of a script's output, must not end the shell in the middle of a statement.
        if isInteractive || isWriting { IgnoredSignals.outliveReaders() }
        let session = ShellSession(
            store, path: path, isWriting: isWriting, isInteractive: isInteractive,
            usesPager: !arguments.has("--no-pager"), console)
        guard isInteractive else {
            try session.run(ScriptInput("-"))
            return .ok
        }
        try ShellSignals.begin()
        if !Console.manner.isQuiet {
            Console.talk("cipherctl \(Program.version): .help lists instructions; SQL ends with a semicolon\n")
        }
        let history = ShellHistory(path: arguments.has("--no-history") ? nil : ShellHistory.usualPath())
        try session.run(TerminalInput(history))
        return ShellSignals.endsShell ? .interrupted : .ok
    }
}
