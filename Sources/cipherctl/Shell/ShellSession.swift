import CipherStore
import StorePlatform
import StoreTools

/// The statements and instructions of one shell, from its start to its end.
///
/// The store is accessed for one statement at a time, so that a shell at its prompt blocks neither writers nor a rotation.
/// While a transaction is open, the access stays open with it.
final class ShellSession {
    private let store: SharedStore
    private let console: Console
    private let isWriting: Bool
    /// The file name of the store, for the prompt.
    private let name: String
    /// Whether a user types: errors are printed, and the shell continues.
    private let isInteractive: Bool
    private let runner: StatementRunner
    private var isTimed = false
    private var usesPager: Bool
    /// The access that is open, with its transaction.
    private var openAccess: Database?
    private var hasQuit = false
    /// How many files are being read, one by another.
    private var depth = 0

    private static let mostDepth = 16
    private static let mostNames = 10_000

    /// - Parameter usesPager: Whether long results are shown in a pager, at a terminal.
    init(_ store: SharedStore, path: String, isWriting: Bool, isInteractive: Bool, usesPager: Bool, _ console: Console)
    {
        self.store = store
        self.console = console
        self.isWriting = isWriting
        self.isInteractive = isInteractive
        self.usesPager = usesPager && isInteractive
        name = Files.name(of: path).withoutControls()
        let stops = isWriting ? StoppedStatements(store) : nil
        runner = StatementRunner(console, ResultFormat(), stops: stops, parameters: .none)
        guard isInteractive else { return }
        runner.check = {
            if ShellSignals.hasArrived { throw DatabaseError(resultCode: .SQLITE_INTERRUPT) }
        }
    }

    // MARK: The prompt

    /// Shows the store, whether it may be written, and whether a transaction is open; shorter on a narrow terminal.
    var prompt: String {
        let isOpen = openAccess != nil
        if (Terminal.columns(of: 1) ?? 80) < 60 { return "\(isWriting ? "rw" : "ro")\(isOpen ? "*" : "")> " }
        return "\(name) (\(isWriting ? "write" : "read-only")\(isOpen ? ", in transaction" : ""))> "
    }

    /// As wide as the prompt, so that the lines of a statement are aligned.
    var continuation: String { String(repeating: " ", count: max(0, prompt.count - 5)) + "...> " }

    /// The names of tables, views and columns, for completion; none if they cannot be read.
    func schemaNames() -> [String] {
        let sql = """
            SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'cipherstore\\_%' ESCAPE '\\'
            UNION SELECT c.name FROM main.sqlite_schema AS t, pragma_table_info(t.name) AS c
            WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'cipherstore\\_%' ESCAPE '\\' LIMIT \(Self.mostNames)
            """
        let names = try? access { try String.fetchAll($0, sql: sql) }
        return names ?? []
    }

    // MARK: Running

    /// Runs everything that an input has.
    ///
    /// - Throws: The first error of a script; nothing for a user's statements.
    func run(_ input: any ShellInput) throws {
        while !hasQuit, let entry = try next(input) {
            // The errors of an access itself, as of a store that was rotated.
            try printingErrors {
                try access { db in
                    defer { leave(db) }
                    try step(entry, input, db)
                    try continueTransaction(input, db)
                }
            }
        }
    }

    /// Runs further entries in the same access until no transaction is open.
    private func continueTransaction(_ input: any ShellInput, _ db: Database) throws {
        while db.isInsideTransaction {
            openAccess = db
            guard !hasQuit, let entry = try next(input) else { return try leaveOpenTransaction(db) }
            guard db.isInsideTransaction else {
                // Ctrl-Z at the prompt: a stopped process must not keep others from writing.
                return console.warn(
                    "the transaction was rolled back while the shell was stopped; the statement did not run")
            }
            try step(entry, input, db)
        }
    }

    /// A transaction must not outlive the access, whatever happens.
    private func leave(_ db: Database) {
        if db.isInsideTransaction { try? db.rollback() }
        openAccess = nil
    }

    private func leaveOpenTransaction(_ db: Database) throws {
        guard isInteractive else {
            throw CommandFailure(
                .failed, "transactionLeftOpen", what: "The statements end inside a transaction.",
                why: "It was rolled back.", hint: "Write COMMIT at the end.")
        }
        try? db.rollback()
        console.warn("the open transaction was rolled back")
        hasQuit = true
    }

    private func access<T>(_ body: (Database) throws -> T) throws -> T {
        if let openAccess { return try body(openAccess) }
        return isWriting ? try store.writeWithoutTransaction(body) : try store.unsafeRead(body)
    }

    private func next(_ input: any ShellInput) throws -> ShellEntry? {
        while true {
            do {
                return try input.next(self)
            } catch  where isInteractive && error is UsageError {
                Console.talk(ErrorReport(error).text)
            }
        }
    }

    /// Runs one entry; at a terminal a signal ends it, and its error is printed.
    private func step(_ entry: ShellEntry, _ input: any ShellInput, _ db: Database) throws {
        guard isInteractive else { return try perform(entry, input, db) }
        let wasInside = db.isInsideTransaction
        let store = store
        try printingErrors {
            try ShellSignals.during({ store.interrupt() }) { try perform(entry, input, db) }
        }
        if wasInside, !db.isInsideTransaction, ShellSignals.hasArrived {
            console.warn("the transaction was rolled back")
        }
        closePager()
    }

    /// Prints the error of a user's statement, after which the shell continues.
    private func printingErrors(_ body: () throws -> Void) throws {
        guard isInteractive else { return try body() }
        do {
            try body()
        } catch is Pager.Ended {
            console.output.discard()
        } catch {
            closePager()
            let cause = (error as? StatementFailure)?.error ?? error
            if ShellSignals.hasArrived, (cause as? DatabaseError)?.isInterruptionError == true {
                console.output.discard()
                return Console.talk("cipherctl: the statement was interrupted\n")
            }
            // Rows that were read before the error are results as well.
            try console.output.flush()
            Console.talk(ErrorReport(explained(error)).text)
        }
    }

    private func closePager() {
        try? console.output.pager?.end()
        console.output.pager = nil
    }

    private func perform(_ entry: ShellEntry, _ input: any ShellInput, _ db: Database) throws {
        if usesPager, depth == 0 { console.output.pager = Pager() }
        switch entry {
        case .sql(let piece): try perform(piece, input, db)
        case .instruction(let text, let line):
            do {
                try perform(try ShellInstruction(text), db)
            } catch  where !isInteractive || depth > 0 {
                throw error is StatementFailure
                    ? error : StatementFailure(explained(error), line: line, isScript: true, file: input.file)
            }
        }
        try console.output.flush()
    }

    private func perform(_ piece: SQLPiece, _ input: any ShellInput, _ db: Database) throws {
        let start = ContinuousClock.now
        let isScript = !isInteractive || depth > 0 || piece.text.hasSeveralLines
        do {
            try runner.run(piece, on: db, isScript: isScript, file: input.file)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY && !isWriting {
            throw isInteractive && depth == 0
                ? explained(error)
                : StatementFailure(explained(error), at: 0, in: piece, isScript: true, file: input.file)
        }
        try endResult(start)
    }

    /// Prints what follows a result.
    private func endResult(_ start: ContinuousClock.Instant) throws {
        let duration = ContinuousClock.now - start
        defer { runner.resetAffectedRows() }
        if isInteractive {
            try console.output.flush()
            try console.output.pager?.end()
            console.output.pager = nil
            if let rows = runner.affectedRows { try console.output.line("\(CountText.text(rows, "row")) affected") }
        }
        if isTimed { try console.output.line(Self.timeLine(duration)) }
    }

    /// In milliseconds: most statements take some of them.
    private static func timeLine(_ duration: Duration) -> String {
        "time \((duration / .milliseconds(1)).rounded() / 1000) s"
    }

    /// The error of a store that is only read says what to do.
    private func explained(_ error: any Error) -> any Error {
        guard let error = error as? DatabaseError, error.resultCode == .SQLITE_READONLY, !isWriting else {
            return error
        }
        return CommandFailure(
            .notPermitted, "readOnly", what: "The store is open for reading alone.",
            why: "\(error.message ?? "SQLite refused to write").", hint: "Start the shell with --write.")
    }

    // MARK: Instructions

    private func perform(_ instruction: ShellInstruction, _ db: Database) throws {
        switch instruction {
        case .tables(let pattern): try printNames(.tables, pattern, db)
        case .indexes(let table): try printNames(.indexes, table, db)
        case .schema(let name): try printSchema(name, db)
        case .showMode: try console.line("\(runner.format.mode)")
        case .mode(let mode, let table):
            runner.format.mode = mode
            if let table { runner.format.table = table }
        case .headers(let isOn): runner.format.hasHeaders = isOn
        case .timer(let isOn): isTimed = isOn
        case .pager(let isOn): usesPager = isOn && isInteractive
        case .importCSV(let file, let tool): try importCSV(file, tool, db)
        case .dump(let tables):
            let check = runner.check
            try inReading(db) { try DumpCommand.write(tables, of: db, console, check: check) }
        case .read(let file): try read(file, db)
        case .help:
            for line in ShellInstruction.helpLines { try console.output.line(line) }
        case .quit: hasQuit = true
        }
    }

    private enum Listing: String {
        case tables = """
            SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
            AND name NOT LIKE 'cipherstore\\_%' ESCAPE '\\' AND (?1 IS NULL OR name LIKE ?1) ORDER BY name
            """
        case indexes = """
            SELECT name FROM main.sqlite_schema WHERE type = 'index' AND tbl_name NOT LIKE 'cipherstore\\_%' ESCAPE '\\'
            AND (?1 IS NULL OR tbl_name LIKE ?1) ORDER BY name
            """
    }

    private func printNames(_ listing: Listing, _ pattern: String?, _ db: Database) throws {
        let names = try Row.fetchCursor(db, sql: listing.rawValue, arguments: [pattern])
        while let row = try names.next() { try console.line(row[0]) }
    }

    private func printSchema(_ name: String?, _ db: Database) throws {
        let sql = """
            SELECT sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
            AND tbl_name NOT LIKE 'cipherstore\\_%' ESCAPE '\\' AND (?1 IS NULL OR tbl_name LIKE ?1) ORDER BY tbl_name, rowid
            """
        let definitions = try Row.fetchCursor(db, sql: sql, arguments: [name])
        while let row = try definitions.next() {
            let text: String = row[0]
            try console.output.line((isInteractive ? text.withoutControls(keepsLines: true) : text) + ";")
        }
    }

    /// Runs a block in one transaction, so that it reads the content of one moment.
    private func inReading(_ db: Database, _ body: () throws -> Void) throws {
        guard !db.isInsideTransaction else { return try body() }
        try db.beginTransaction(.deferred)
        defer { if db.isInsideTransaction { try? db.rollback() } }
        try body()
    }

    private func importCSV(_ file: String, _ tool: CSVImport, _ db: Database) throws {
        guard isWriting else { throw explained(DatabaseError(resultCode: .SQLITE_READONLY)) }
        if tool.batchRows != nil, db.isInsideTransaction {
            throw UsageError("--batch commits, and a transaction is open.", hint: "COMMIT it, or leave --batch out.")
        }
        let start = ContinuousClock.now
        let input = try InputFile(file)
        let check = runner.check
        let report = try CSVOptions.explaining(tool, file) { try tool.run(into: db, check: check, read: input.read) }
        for line in report.badLines { console.warn("line \(line.line) was left out: \(line.reason)") }
        if report.badLineCount > 0 { console.warn("\(CountText.text(report.badLineCount, "bad line")) left out") }
        try console.line("\(CountText.text(report.rowCount, "row")) imported")
        if isTimed { try console.output.line(Self.timeLine(.now - start)) }
    }

    private func read(_ file: String, _ db: Database) throws {
        guard depth < Self.mostDepth else {
            throw UsageError(".read is nested too deeply.", hint: "Check whether a file reads itself.")
        }
        depth += 1
        defer { depth -= 1 }
        let input = try ScriptInput(file)
        while !hasQuit, let entry = try input.next(self) { try perform(entry, input, db) }
    }
}

extension ShellInstruction {
    /// The list of instructions.
    static var helpLines: [String] {
        let width = descriptions.map(\.form.count).max() ?? 0
        return descriptions.map { "\($0.form)\(String(repeating: " ", count: width - $0.form.count))  \($0.text)" }
            + ["SQL ends with a semicolon. The Tab key completes names; Ctrl-C ends a statement, Ctrl-D the shell."]
    }
}
