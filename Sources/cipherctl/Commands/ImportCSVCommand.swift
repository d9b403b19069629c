import CipherStore
import StorePlatform
import StoreTools

/// `import-csv STORE FILE TABLE`: inserts the records of a CSV file into a table.
struct ImportCSVCommand: Command {
    let changesFiles = true
    static let interruptionHint = "Nothing was inserted; with --batch, the batches before stay."
    static let syntax = CommandSyntax(
        name: "import-csv",
        summary: "insert the records of a CSV file into a table of a store",
        operands: [
            OperandSyntax("STORE", "the store; it may be in use"),
            OperandSyntax("FILE", "the CSV file, in UTF-8; - reads standard input"),
            OperandSyntax("TABLE", "the table"),
        ],
        options: CSVOptions.all + [.json, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl import-csv app.db people.csv person --key-file app.key",
            "cipherctl import-csv app.db export.csv sale --separator ';' --null NULL --batch 10000 --key-file app.key",
            "cipherctl import-csv app.db people.csv person --create --key-file app.key",
        ],
        notes: [
            "The first line names columns of the table, in any order; the others get their default values. Numbers become "
                + "what the column's type says. Nothing between separators is NULL, and \"\" is the empty text. X'00FF' is "
                + "a blob, except in a column of text. So a result of --mode csv is read back as it was.",
            "A line is bad if it has another number of fields, a text in a column of integers or reals, or is refused by a "
                + "constraint. The first bad line is named, and nothing is imported; with --batch the batches before stay. "
                + "--skip-bad-lines names the bad lines, and ends with 2.",
        ])

    private let path: String
    private let file: String
    private let tool: CSVImport
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        file = arguments.operands[1]
        tool = try CSVOptions.tool(arguments, table: arguments.operands[2])
    }

    func run(_ console: Console) throws -> ExitCode {
        try BackupBundle.refuse(writing: BackupBundle.database(meantBy: path))
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let input = try InputFile(file)
        let store = try StoreOpening.writable(path, key, onNotice: console.note)
        defer { try? store.close() }
        let tracked = try TrackedWrites(store)
        defer { tracked?.warn(console) }
        let report = try store.writeWithoutTransaction { db in
            try CSVOptions.explaining(tool, file) { try tool.run(into: db, read: input.read) }
        }
        for line in report.badLines { console.warn("line \(line.line) was left out: \(line.reason)") }
        let unnamed = report.badLineCount - report.badLines.count
        if unnamed > 0 { console.warn("\(CountText.text(unnamed, "further line")) were left out") }
        try console.report(
            json: .object([
                "store": .string(path), "table": .string(tool.table), "rows": .int(report.rowCount),
                "bad_lines": .int(report.badLineCount),
            ]),
            lines: [
                "imported      \(file) -> \(path), table \(tool.table)", "rows          \(report.rowCount)",
            ] + (report.badLineCount > 0 ? ["bad lines     \(report.badLineCount)"] : []))
        return report.badLineCount > 0 ? .needsAttention : .ok
    }
}

/// The options of an import, for the command and for the shell.
enum CSVOptions {
    static let all = [
        OptionSyntax("--separator", value: "CHAR", "the character between fields, or tab; a comma unless given"),
        OptionSyntax("--null", value: "TEXT", "the unquoted text that stands for NULL; nothing unless given"),
        OptionSyntax("--no-header", "the first line has values: the columns of the table in their order"),
        OptionSyntax("--create", "make the table, with a column of text for each name of the first line"),
        OptionSyntax("--batch", value: "ROWS", "commit after so many rows; one transaction unless given"),
        OptionSyntax("--skip-bad-lines", "leave bad lines out, and name the first 20"),
    ]

    /// - Throws: ``UsageError``.
    static func tool(_ arguments: ParsedArguments, table: String) throws(UsageError) -> CSVImport {
        var tool = CSVImport(into: table)
        if let text = arguments.value("--separator") {
            let bytes = Array((text == "tab" || text == "\\t" ? "\t" : text).utf8)
            guard bytes.count == 1, bytes[0] < 0x80, ![0x0a, 0x0d, 0x22].contains(bytes[0]) else {
                throw UsageError(
                    "--separator needs one ASCII character, and no quote.", hint: "For example: --separator ';'")
            }
            tool.separator = bytes[0]
        }
        if let text = arguments.value("--null") { tool.nullText = text }
        tool.hasHeader = !arguments.has("--no-header")
        tool.createsTable = arguments.has("--create")
        if tool.createsTable, !tool.hasHeader {
            throw UsageError(
                "--create and --no-header were given.", hint: "The first line must name the columns of a new table.")
        }
        if let text = arguments.value("--batch") {
            guard let rows = Int(text), rows > 0 else {
                throw UsageError("--batch needs a number of rows.", hint: "For example: --batch 10000")
            }
            tool.batchRows = rows
        }
        tool.skipsBadLines = arguments.has("--skip-bad-lines")
        return tool
    }

    /// Runs an import whose failures become errors of the command.
    static func explaining<T>(_ tool: CSVImport, _ file: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let failure as CSVImport.Failure {
            throw error(failure, tool, file)
        }
    }

    /// Whether no line can be read after a bad one, so that leaving it out does not help.
    private static func isLast(_ reason: String) -> Bool {
        [CSVReader.Fault.openQuote, .tooLong].contains { $0.sentence == reason }
    }

    private static func error(_ failure: CSVImport.Failure, _ tool: CSVImport, _ file: String) -> any Error {
        let name = file == "-" ? "standard input" : "\"\(file)\""
        let line = failure.line.map { "Line \($0) of \(name)" } ?? name
        let kept =
            failure.committedRows == 0
            ? "Nothing was imported."
            : "\(CountText.text(failure.committedRows, "row")) stay, up to line \(failure.committedLine)."
        switch failure.cause {
        case .error(let error):
            if failure.committedRows > 0 { Console.warn("the import ended early. \(kept)") }
            return error
        case .badLine(let reason):
            return CommandFailure(
                .damagedData, "badLine", what: "\(line) cannot be imported: \(reason).", why: kept,
                hint: tool.skipsBadLines || isLast(reason)
                    ? "Correct the line." : "Correct the line, or leave bad lines out with --skip-bad-lines.")
        case .header(let reason):
            return CommandFailure(
                .damagedData, "badHeader", what: "\(line) does not name the columns: \(reason).", why: kept,
                hint: "Check --separator, or give --no-header if the first line has values.")
        case .noTable:
            return CommandFailure(
                .usage, "noTable", what: "There is no table \"\(tool.table)\".", why: kept,
                hint: "Check the name, or make the table with --create.")
        case .noWritableTable:
            return CommandFailure(
                .usage, "noTable", what: "\"\(tool.table)\" is a view.", why: kept, hint: "Name a table.")
        case .tableExists:
            return CommandFailure(
                .usage, "exists", what: "There is a table or view \"\(tool.table)\" already.", why: kept,
                hint: "Leave --create out, or choose another name.")
        case .transactionEnded:
            return CommandFailure(
                .failed, "transactionEnded", what: "\(line) ended the transaction.",
                why: "A trigger or a constraint of the table rolls back. \(kept)", hint: "Correct the line.")
        }
    }
}
