import CipherDatabase

/// The texts of `help`, `--help` and `--version`: examples first.
enum Help {
    static var overview: String {
        """
        cipherctl: encrypted SQLite stores that many processes share

        Examples:
          cipherctl create app.db --key-file app.key
          cipherctl import plain.db app.db --key-file app.key
          cipherctl sql app.db "SELECT count(*) FROM note" --key-file app.key
          cipherctl verify app.db --key-file app.key

        Commands:
        \(list(Catalogue.all))

        cipherctl help COMMAND explains one; cipherctl help keys and cipherctl help exit-codes explain what is common
        to all.

        """
    }

    /// - Throws: ``UsageError`` for a topic that does not exist.
    static func topic(_ words: [String]) throws(UsageError) -> String {
        switch words {
        case []: return overview
        case ["keys"]: return keys
        case ["exit-codes"]: return exitCodes
        default:
            if let (command, rest) = Catalogue.find(words), rest.isEmpty { return text(of: command.syntax) }
            let group = Catalogue.group(words)
            guard !group.isEmpty else { throw UsageError("There is no help on this.", hint: "See: cipherctl help") }
            return "\(words.joined(separator: " ")): one of these commands\n\n\(list(group))\n"
        }
    }

    /// The names of commands, each with what it does.
    private static func list(_ commands: [any Command.Type]) -> String {
        let width = commands.map { $0.syntax.name.count }.max() ?? 0
        return commands.map { "  \(padded($0.syntax.name, to: width))  \($0.syntax.summary)" }.joined(separator: "\n")
    }

    static func text(of syntax: CommandSyntax) -> String {
        var lines = ["\(syntax.name): \(syntax.summary)", "", "Examples:"]
        lines += syntax.examples.map { "  \($0)" }
        lines += ["", "Usage: \(syntax.usage)", ""]
        lines += rows(syntax.operands, syntax.options)
        for note in syntax.notes { lines += ["", note] }
        let group = Catalogue.group(syntax.name.split(separator: " ").map(String.init))
        if !group.isEmpty { lines += ["", list(group)] }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Operands and options, a line each, with their explanations in one column.
    static func rows(_ operands: [OperandSyntax], _ options: [OptionSyntax]) -> [String] {
        let rows = operands.map { ($0.name, $0.help) } + options.map { ($0.form, $0.help) }
        let width = rows.map(\.0.count).max() ?? 0
        return rows.map { "  \(padded($0.0, to: width))  \($0.1)" }
    }

    private static var keys: String {
        let width = KeyOptions.all.map(\.form.count).max() ?? 0
        func rows(_ options: [OptionSyntax]) -> String {
            options.map { "  \(padded($0.form, to: width))  \($0.help)" }.joined(separator: "\n")
        }
        return """
            keys: where the key of a store comes from

            Give exactly one. Without any, the command asks at the terminal and does not show what is typed. A printed
            recovery key is given like a passphrase.
            \(rows(KeyOptions.opening))

            A plugin, token or TPM takes these as well:
            \(rows(DeviceOptions.settings))

            New keys come from the same options with --new- in front: --new-key-file F, --new-raw-key-file F, ...
            No key is ever taken from the command line itself, where every user of the machine can read it.
            A key command that takes longer than 30 seconds is killed, with the programs that it has started; the
            environment variable CIPHERSTORE_KEY_COMMAND_TIMEOUT sets another limit, for example 5m. When the command ends,
            its output is the key, and the programs that it has left in the background are killed. A program with a session
            of its own, such as an agent, stays. The command gets PATH, HOME and a few more variables of the environment;
            CIPHERSTORE_KEY_COMMAND_ENVIRONMENT names others that it needs.

            What to do in which case:

            \(answers.map { "  \($0.question)\n    \($0.answer)" }.joined(separator: "\n"))

            Copies of the store and of its sidecar that were taken before still open with the keys of their time.

            """
    }

    /// Which command helps in which situation.
    static let answers: [(question: String, answer: String)] = [
        (
            "A passphrase or key file is forgotten or lost, and nobody else has it:",
            "cipherctl key change, or key add and key remove, with another key of the store"
        ),
        (
            "A passphrase, key file or recovery key is known to others:",
            "cipherctl key change or key remove, and then cipherctl rotate --compromised: new master key, data key, salt"
        ),
        (
            "The data key is known to others (as printed by key reveal), or it is old:",
            "cipherctl rotate: a new data key and salt; no slot changes"
        ),
        (
            "A backup, or a copy of the files, is in the wrong hands:",
            "if its key may be known too, rotate --compromised; the copy itself stays readable with the keys of its time"
        ),
        (
            "The key of a direct store is known to others:",
            "cipherctl rotate --new-key-file F: a direct store has one key only"
        ),
        (
            "A store is refused with sidecarRolledBack: an older sidecar was put back:",
            "restore the newest sidecar from a backup; if there is none: cipherctl key accept"
        ),
    ]

    private static var exitCodes: String {
        let rows = ExitCode.allCases.map { code in
            String(repeating: " ", count: 5 - String(code.rawValue).count) + "\(code.rawValue)  \(code.meaning)"
        }
        return "exit codes\n\n" + rows.joined(separator: "\n") + "\n"
    }

    static var versionLines: [String] {
        [
            "cipherctl \(Program.version)",
            "SQLCipher \(SQLiteLibrary.cipherVersion ?? "not found")",
            "SQLite \(SQLiteLibrary.sqliteVersion)",
        ]
    }

    static var versionJSON: JSON {
        .object([
            "cipherctl_version": .string(Program.version),
            "sqlcipher_version": .optional(SQLiteLibrary.cipherVersion, JSON.string),
            "sqlite_version": .string(SQLiteLibrary.sqliteVersion),
        ])
    }

    static func padded(_ text: String, to width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}
