/// The manual page, in roff with the macros of man(7).
enum ManualPage {
    static var roff: String {
        var lines = [
            ".\\\" Made by: cipherctl man", ".TH CIPHERCTL 1 \"\" \"cipherctl \(Program.version)\" \"User Commands\"",
            ".SH NAME", "cipherctl \\- create, check and maintain encrypted SQLite stores",
            ".SH SYNOPSIS", ".B cipherctl", ".I COMMAND", "[\\fIarguments\\fR] [\\fIoptions\\fR]",
            ".SH DESCRIPTION",
            text(
                "Stores are encrypted SQLite databases that many processes share. Results go to standard output, "
                    + "everything else to standard error. Options may stand anywhere, as --name value or --name=value; "
                    + "after -- everything is an operand."),
            ".SH COMMANDS",
        ]
        lines += Catalogue.all.flatMap { command($0.syntax) }
        lines += keys + exitCodes + files
        lines += [".SH SEE ALSO", ".BR sqlite3 (1),", ".BR sqlcipher (1)"]
        return lines.joined(separator: "\n") + "\n"
    }

    private static func command(_ syntax: CommandSyntax) -> [String] {
        var lines = [".SS \(text(syntax.usage))", text(syntax.summary.capitalizedFirst + ".")]
        let keys = Set((KeyOptions.all + KeyOptions.new).map(\.name))
        let rows =
            syntax.operands.map { ($0.name, $0.help) }
            + syntax.options.filter { !keys.contains($0.name) }.map { ($0.form, $0.help) }
        lines += rows.flatMap { tagged($0.0, $0.1) }
        if syntax.options.contains(where: { keys.contains($0.name) }) {
            let isNew = syntax.options.contains { $0.name == KeyOptions.new[0].name }
            lines += [".PP", isNew ? "It takes a key and a new key: see KEYS." : "It takes a key: see KEYS."]
        }
        for note in syntax.notes { lines += [".PP", text(note)] }
        lines += [".PP", "Examples:", ".PP", ".nf", ".RS 4"] + syntax.examples.map(text) + [".RE", ".fi"]
        return lines
    }

    private static var keys: [String] {
        let intro =
            "Exactly one of these says where the key comes from. Without any, the command asks at the terminal and "
            + "does not show what is typed. No key is ever taken from the command line itself."
        let new = "The same for a new key, where a command takes one:"
        return [".SH KEYS", text(intro)] + KeyOptions.all.flatMap { tagged($0.form, $0.help) } + [".PP", text(new)]
            + KeyOptions.new.flatMap { tagged($0.form, $0.help) }
            + Help.answers.flatMap { [".PP", text($0.question), ".RS 4", text($0.answer), ".RE"] }
    }

    private static var exitCodes: [String] {
        [".SH EXIT STATUS"] + ExitCode.allCases.flatMap { tagged(String($0.rawValue), $0.meaning) }
    }

    private static var files: [String] {
        [".SH FILES"]
            + [
                ("STORE", "the database"), ("STORE-wal, STORE-shm", "SQLite's WAL and its index; they remain"),
                ("STORE-sidecar, STORE-sidecar.bak", "salt and cipher settings, twice: keep both with the store"),
                ("STORE-keylog", "what happened to its keys; see key log"),
                ("STORE-lock", "locks between processes; it contains no data"),
                ("STORE-notify", "where programs notify each other: hashes of names, no data"),
            ].flatMap { tagged($0.0, $0.1) }
    }

    private static func tagged(_ tag: String, _ body: String) -> [String] {
        [".TP", "\\fB\(text(tag))\\fR", text(body)]
    }

    /// Text in which no character has a meaning to roff.
    static func text(_ text: String) -> String {
        var escaped = text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("'", with: "\\(aq")
        if escaped.hasPrefix(".") { escaped = "\\&" + escaped }
        return escaped
    }
}

/// `man`: prints the manual page.
struct ManCommand: Command {
    static let syntax = CommandSyntax(
        name: "man",
        summary: "print the manual page, as man reads it",
        operands: [],
        options: [],
        examples: ["cipherctl man | man -l -", "cipherctl man > /usr/local/share/man/man1/cipherctl.1"],
        notes: ["`make install` installs it."])

    static let needsCryptography = false

    init(_ arguments: ParsedArguments) throws {}

    func run(_ console: Console) throws -> ExitCode {
        try console.output.write(ManualPage.roff)
        return .ok
    }
}
