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
            OptionSyntax("--mode", value: "table|csv|json", "how rows are printed; as a table unless given"),
            OptionSyntax("--json", "the same as --mode json, and notes, warnings and errors as JSON too"), .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl sql app.db \"SELECT * FROM note\" --key-file app.key",
            "cipherctl sql app.db \"INSERT INTO note (text) VALUES ('hello')\" --write --key-file app.key",
            "cipherctl sql app.db --mode csv --key-file app.key < report.sql > report.csv",
        ],
        notes: [
            "PLACE@ID restores a backup into a private folder of $TMPDIR, encrypted as it is, and removes that at the end. A "
                + "kill or a signal leaves the folder `cipherctl-...`: remove it.",
            "Each statement is a transaction of its own unless you write BEGIN and COMMIT; one left open is rolled back.",
            "A text that is not UTF-8 is CAST(X'FF' AS TEXT) in tables and CSV, and {\"text\": \"FF\"} in JSON.",
            "NULL is NULL in tables, an empty field in CSV (the empty text is \"\") and null in JSON. Blobs are "
                + "X'00FF' in "
                + "tables and CSV, and {\"blob\": \"00FF\"} in JSON. In CSV and JSON each statement that returns rows "
                + "prints "
                + "a result of its own.",
        ])

    private let path: String
    private let sql: String?
    private let isWriting: Bool
    private let mode: ResultMode
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        let text = arguments.operands.count > 1 ? arguments.operands[1] : "-"
        sql = text == "-" ? nil : text
        isWriting = arguments.has("--write")
        mode = try Self.mode(arguments)
    }

    private static func mode(_ arguments: ParsedArguments) throws(UsageError) -> ResultMode {
        let hint = "Use --mode table, csv or json."
        guard let name = arguments.value("--mode") else { return arguments.has("--json") ? .json : .table }
        guard let mode = ResultMode(rawValue: name) else { throw UsageError("There is no such mode.", hint: hint) }
        if arguments.has("--json") && mode != .json {
            throw UsageError("--json and --mode contradict each other.", hint: hint)
        }
        return mode
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let text = try sql ?? Self.standardInput()
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
                let backup = try ReadableBackup(path, key)
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
        var position = 0
        var hasCommitted = false
        do {
            try db.forEachStatement(in: text, willCompile: { position = $0 }) { statement in
                var hasPrinted = false
                let step = {
                    try Self.run(statement, mode, console) { hasPrinted = true }
                    // If rows cannot be printed, no further statement changes the store.
                    if isWriting { try console.output.flush() }
                }
                // SQLite makes all changes of a statement before it returns the first row.
                defer { if !statement.isReadonly && !db.isInsideTransaction { hasCommitted = true } }
                if let stops { try stops.survive(on: db, isRepeatable: { !hasPrinted }, step) } else { try step() }
            }
        } catch let error as DatabaseError where !error.isInterruptionError && error.resultCode != .SQLITE_READONLY {
            throw StatementFailure(error, at: position, in: text)
        } catch let error as SystemError where isWriting {
            let rollback = db.isInsideTransaction ? " The open transaction was rolled back." : ""
            throw CommandFailure(
                ExitCode(error), "outputFailed", what: "The rows of a statement could not be printed.",
                why: "\(error.description).\(rollback) The statements after it did not run.",
                hint: hasCommitted
                    ? "Statements up to this one have changed the store; do not run them again."
                    : "No statement has changed the store: run them again.")
        }
        if db.isInsideTransaction {
            throw CommandFailure(
                .failed, "transactionLeftOpen", what: "The statements end inside a transaction.",
                why: "It was rolled back.", hint: "Write COMMIT at the end.")
        }
    }

    private static func run(
        _ statement: Statement, _ mode: ResultMode, _ console: Console, willPrint: () -> Void
    ) throws {
        if statement.columnCount == 0 { return try statement.execute(arguments: nil) }
        var writer = mode.makeWriter()
        let rows = try Row.fetchCursor(statement)
        var row = try rows.next()
        willPrint()
        try writer.begin(statement.columnNames, to: console.output)
        while let current = row {
            try writer.add(ResultValue.all(of: current), to: console.output)
            row = try rows.next()
        }
        try writer.end(to: console.output)
    }

    static func standardInput() throws -> String {
        if Terminal.isTerminal(0) { Console.talk("cipherctl: reading SQL from the terminal; end with Ctrl-D\n") }
        let stream = try FileDescriptor(duplicating: 0, path: "standard input")
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = try piece.withUnsafeMutableBytes({ try stream.read(into: $0) }), count > 0 {
            bytes += piece[..<count]
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UsageError("The SQL text is not UTF-8.", hint: "Convert it, as with iconv -t utf-8.")
        }
        return text
    }
}

/// An error of SQLite, with the line of the statement in its script.
struct StatementFailure: Error {
    let error: DatabaseError
    /// The line in which the statement begins, from 1 on.
    let line: Int
    private let isScript: Bool

    /// - Parameter position: Where the text of the statement begins, with blanks and comments before it, in bytes.
    init(_ error: DatabaseError, at position: Int, in text: String) {
        self.error = error
        let start = text.utf8.index(text.startIndex, offsetBy: position)
        let rest = text[start...]
        let skipped = rest.utf8.count - String(rest).droppingLeadingComments().utf8.count
        let before = text.utf8.prefix(position + skipped)
        line = 1 + before.count { $0 == UInt8(ascii: "\n") }
        let ends: Set<UInt8> = [UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: " "), UInt8(ascii: "\t")]
        // The end of the only line begins no further one.
        isScript = text.utf8.drop { ends.contains($0) }.reversed().drop { ends.contains($0) }.contains(
            UInt8(ascii: "\n"))
    }

    /// The line, in front of a message; empty for a text of one line, where it would say nothing.
    var place: String { isScript ? "Line \(line): " : "" }
}
