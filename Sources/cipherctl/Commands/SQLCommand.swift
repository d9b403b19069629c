import CipherStore
import Foundation
import StorePlatform
import StoreTools

/// `sql STORE "SQL"`: runs statements and prints their rows.
struct SQLCommand: Command {
    static let interruptionHint =
        "Statements that had ended have run; the one that was running, or a transaction that was open, is rolled back."
    static let syntax = CommandSyntax(
        name: "sql",
        summary: "run SQL statements and print their rows",
        operands: [
            OperandSyntax(
                "STORE", "the store, or the folder of a backup, or PLACE@ID of a repository; backups are only read"),
            OperandSyntax(
                "SQL", "one statement or several; - or nothing reads them from standard input", isOptional: true),
        ],
        options: [
            OptionSyntax("--write", "let statements change the store; without it they only read"),
            OptionSyntax("--file", value: "FILE", "the file with the statements, in the place of SQL"),
            SQLParameters.option, ResultOptions.mode, ResultOptions.table, ResultOptions.noHeader,
            OptionSyntax("--json", "the same as --mode json, and notes, warnings and errors as JSON too"), .quiet,
        ] + RepositoryPlace.options + KeyOptions.all,
        examples: [
            "cipherctl sql app.db \"SELECT * FROM note\" --key-file app.key",
            "cipherctl sql app.db \"INSERT INTO note (text) VALUES ('hello')\" --write --key-file app.key",
            "cipherctl sql app.db \"SELECT * FROM note WHERE id = :id\" --param id:int=5 --key-file app.key",
            "cipherctl sql app.db --file report.sql --mode csv --key-file app.key > report.csv",
        ],
        notes: [
            "PLACE@ID restores a backup into a private folder of $TMPDIR, encrypted as it is, and removes that at the end. A "
                + "kill or a signal leaves the folder `cipherctl-...`: remove it.",
            "Each statement is a transaction of its own unless you write BEGIN and COMMIT; one left open is rolled back.",
            "A text that is not UTF-8 is CAST(X'FF' AS TEXT) in tables and CSV, and {\"text\": \"FF\"} in JSON.",
            "NULL is NULL in tables, an empty field in CSV (the empty text is \"\") and null in JSON. Blobs are "
                + "X'00FF' in tables and CSV, and {\"blob\": \"00FF\"} in JSON. Each statement that returns rows prints "
                + "a result of its own. The mode list separates values by |, and jsonl prints an object on each line.",
            "With --write, a note on standard error says how many rows were inserted, changed or deleted.",
        ])

    private let path: String
    private let sql: String?
    private let file: String?
    private let isWriting: Bool
    private let format: ResultFormat
    private let parameters: SQLParameters
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        file = arguments.value("--file")
        if file != nil, arguments.operands.count > 1 {
            throw UsageError("SQL and --file were given.", hint: "Give one of them.")
        }
        let text = arguments.operands.count > 1 ? arguments.operands[1] : "-"
        sql = text == "-" ? nil : text
        isWriting = arguments.has("--write")
        format = try ResultOptions.format(arguments)
        parameters = try SQLParameters(arguments.values(SQLParameters.option.name))
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let text = try sql ?? file.map { try InputFile($0).text() } ?? Self.standardInput()
        if text.utf8.contains(0) { throw UsageError("The SQL text holds a NUL byte.", hint: "Give plain text.") }
        do {
            if isWriting {
                // A reader that is gone must not end the script in silence, with a part of its statements committed.
                IgnoredSignals.outliveReaders()
                let store = try StoreOpening.writable(path, key, onNotice: console.note)
                defer { try? store.close() }
                let stops = StoppedStatements(store)
                let tracked = try TrackedWrites(store)
                defer { tracked?.warn(console) }
                try store.writeWithoutTransaction { try run(text, on: $0, console, stops) }
            } else {
                let backup = try ReadableBackup(path, arguments, key)
                defer { backup?.remove() }
                let store = try StoreOpening.readOnly(backup?.path ?? path, key, onNotice: console.note)
                defer { try? store.close() }
                try store.unsafeRead { try run(text, on: $0, console, nil) }
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY && !isWriting {
            try BackupBundle.refuse(writing: path)
            throw CommandFailure(
                .notPermitted, "readOnly", what: "The store is open for reading alone.",
                why: "\(error.message ?? "SQLite refused to write").", hint: "Add --write.")
        }
        return .ok
    }

    private func run(_ text: String, on db: Database, _ console: Console, _ stops: StoppedStatements?) throws {
        // A transaction must not outlive the access, whatever happens.
        defer { if db.isInsideTransaction { try? db.rollback() } }
        let runner = StatementRunner(console, format, stops: stops, parameters: parameters)
        var lines = LineReader(text)
        var assembly = SQLAssembly()
        let isScript = text.hasSeveralLines
        do {
            while let line = try lines.nextLine() {
                guard let piece = try assembly.append(line) else { continue }
                try runner.run(piece, on: db, isScript: isScript, file: file)
            }
            if let rest = try assembly.finish() { try runner.run(rest, on: db, isScript: isScript, file: file) }
        } catch let error as SystemError where isWriting {
            throw Self.outputFailure(error, runner, rollsBack: db.isInsideTransaction)
        }
        if db.isInsideTransaction {
            throw CommandFailure(
                .failed, "transactionLeftOpen", what: "The statements end inside a transaction.",
                why: "It was rolled back.", hint: "Write COMMIT at the end.")
        }
        if isWriting, let rows = runner.affectedRows { console.note("\(CountText.text(rows, "row")) affected") }
        if !parameters.isEmpty, !runner.parameters.wereUsed {
            console.warn("no statement has a parameter, so --param had no effect")
        }
    }

    /// The error of rows that cannot be printed, with what has changed by then.
    private static func outputFailure(
        _ error: SystemError, _ runner: StatementRunner, rollsBack: Bool
    ) -> CommandFailure {
        let rollback = rollsBack ? " The open transaction was rolled back." : ""
        return CommandFailure(
            ExitCode(error), "outputFailed", what: "The rows of a statement could not be printed.",
            why: "\(error.description).\(rollback) The statements after it did not run.",
            hint: runner.hasCommitted
                ? "Statements up to this one have changed the store; do not run them again."
                : "No statement has changed the store: run them again.")
    }

    static func standardInput() throws -> String {
        if Terminal.isTerminal(0) { Console.talk("cipherctl: reading SQL from the terminal; end with Ctrl-D\n") }
        return try InputFile("-").text()
    }
}
