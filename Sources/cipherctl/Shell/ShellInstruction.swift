import StoreTools

/// A line of the shell that begins with a point: no SQL, and without a semicolon.
enum ShellInstruction {
    case tables(pattern: String?)
    case schema(name: String?)
    case indexes(table: String?)
    case mode(ResultMode, table: String?)
    case showMode
    case headers(Bool)
    case timer(Bool)
    case pager(Bool)
    case importCSV(file: String, CSVImport)
    case dump(tables: [String])
    case read(file: String)
    case help
    case quit

    private static let importSyntax = CommandSyntax(
        name: ".import", summary: "", operands: [OperandSyntax("FILE", ""), OperandSyntax("TABLE", "")],
        options: CSVOptions.all, examples: [])

    /// The effect of each instruction, in the order of the help.
    static let descriptions: [(form: String, text: String)] = [
        (".tables [PATTERN]", "list the tables and views, or those whose names are LIKE the pattern"),
        (".schema [NAME]", "print the definitions, or those of one table or view"),
        (".indexes [TABLE]", "list the indexes"),
        (".mode [MODE [TABLE]]", "print rows as \(ResultMode.names)"),
        (".headers on|off", "print the names of the columns"),
        (".timer on|off", "print how long each statement took"),
        (".pager on|off", "show long results in the program that PAGER names, or in less"),
        (".import FILE TABLE [options]", "insert the records of a CSV file, with the options of import-csv"),
        (".dump --insecure-plaintext [TABLE...]", "print the content as SQL text"),
        (".read FILE", "run the statements of a file"),
        (".help", "print this list"),
        (".quit", "end the shell, as Ctrl-D does"),
    ]

    static let names = descriptions.map { String($0.form.prefix { $0 != " " }) }

    /// - Throws: ``UsageError``.
    init(_ line: String) throws(UsageError) {
        var words = try Self.words(line)[...]
        let name = words.popFirst() ?? ""
        let rest = Array(words)
        switch name {
        case ".tables": self = .tables(pattern: try Self.optional(rest, name))
        case ".schema": self = .schema(name: try Self.optional(rest, name))
        case ".indexes", ".indices": self = .indexes(table: try Self.optional(rest, name))
        case ".mode": self = try Self.mode(rest)
        case ".headers", ".header": self = .headers(try Self.isOn(rest, name))
        case ".timer": self = .timer(try Self.isOn(rest, name))
        case ".pager": self = .pager(try Self.isOn(rest, name))
        case ".import":
            let arguments = try ParsedArguments(rest, syntax: Self.importSyntax)
            self = .importCSV(
                file: arguments.operands[0], try CSVOptions.tool(arguments, table: arguments.operands[1]))
        case ".dump":
            try DumpCommand.requireConfirmation(rest.contains(DumpCommand.insecure.name))
            self = .dump(tables: rest.filter { $0 != DumpCommand.insecure.name })
        case ".read":
            guard rest.count == 1 else { throw Self.wrongUse(name) }
            self = .read(file: rest[0])
        case ".help": self = .help
        case ".quit", ".exit": self = .quit
        default:
            throw UsageError("There is no such instruction of the shell.", hint: ".help lists them.")
        }
    }

    private static func wrongUse(_ name: String) -> UsageError {
        let form = descriptions.first { $0.form.prefix { $0 != " " } == name }?.form ?? name
        return UsageError("The arguments of \(name) are wrong.", hint: "Write: \(form)")
    }

    private static func optional(_ words: [String], _ name: String) throws(UsageError) -> String? {
        if words.count > 1 { throw wrongUse(name) }
        return words.first
    }

    private static func isOn(_ words: [String], _ name: String) throws(UsageError) -> Bool {
        guard words.count == 1, ["on", "off"].contains(words[0]) else { throw wrongUse(name) }
        return words[0] == "on"
    }

    private static func mode(_ words: [String]) throws(UsageError) -> ShellInstruction {
        guard let name = words.first else { return .showMode }
        guard let mode = ResultMode(rawValue: name) else {
            throw UsageError("There is no such mode.", hint: ResultMode.hint)
        }
        guard words.count == 1 || words.count == 2 && mode == .insert else { throw wrongUse(".mode") }
        return .mode(mode, table: words.count == 2 ? words[1] : nil)
    }

    /// The words of a line: separated by blanks, or in quotes.
    private static func words(_ line: String) throws(UsageError) -> [String] {
        var words: [String] = []
        var word: String?
        var quote: Character?
        for character in line {
            if let open = quote {
                if character == open { quote = nil } else { word = (word ?? "") + String(character) }
            } else if character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if character.isWhitespace {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        if quote != nil { throw UsageError("A quote is not closed.", hint: "Close it on the same line.") }
        if let word { words.append(word) }
        return words
    }
}
