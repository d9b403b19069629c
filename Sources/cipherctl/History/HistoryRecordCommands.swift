import CipherStore
import StorePlatform
import StoreTools

/// `history record STORE`: begins to record the changes of tables.
struct HistoryRecordCommand: Command {
    static let syntax = CommandSyntax(
        name: "history record",
        summary: "record the changes of tables from now on",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: RecordedTables.options + [
            OptionSyntax("--columns", "record which columns an update has changed"),
            OptionSyntax(
                "--keep", value: "T.COLUMN", "keep this column's values of rows that are deleted", isRepeatable: true),
            .json, .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl history record app.db --all --key-file app.key",
            "cipherctl history record app.db --table note --table photo --keep photo.file --key-file app.key",
        ],
        notes: [
            "Triggers record each change in the transaction that makes it, also the changes of other programs. A table that "
                + "is changed or renamed keeps its triggers. --all includes tables that are created later.",
            "--all leaves out tables that cannot be recorded, and names each. The exit code is 2 if one of them is an "
                + "ordinary table. Where the reason is a function or a collation that only the program of the store has, let "
                + "that program record the table.",
            "A second run for a table adds to what is recorded of the table. `cipherctl history stop` forgets --columns "
                + "and --keep.",
            "Recording makes writes slower: inserting rows in bulk takes up to twice as long.",
        ])

    private let path: String
    private let tables: RecordedTables
    private let kept: [String: [String]]
    private let arguments: ParsedArguments
    var changesFiles: Bool { true }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        tables = try RecordedTables(arguments)
        var kept: [String: [String]] = [:]
        for name in arguments.values("--keep") {
            // A name may have a point; that of a column seldom has.
            guard let point = name.lastIndex(of: "."), point > name.startIndex, name.index(after: point) < name.endIndex
            else { throw UsageError("--keep has no table and column.", hint: "For example: --keep photo.file") }
            kept[String(name[..<point]), default: []].append(String(name[name.index(after: point)...]))
        }
        self.kept = kept
    }

    func run(_ console: Console) throws -> ExitCode {
        try tables.change(path, arguments, console) { store in
            try requireTables(store)
            let lacking = try store.addToHistory(tables.scope, columns: arguments.has("--columns"), keeping: kept)
            return try store.read { try leftOut($0, lacking) }
        }
    }

    /// Refuses names of no table, all at once.
    private func requireTables(_ store: SharedStore) throws {
        let named = arguments.values("--table")
        let (missing, names) = try store.read { db in
            let missing = try named.filter { try !db.tableExists($0, in: "main") && !db.viewExists($0, in: "main") }
            return (missing, try ProgramTables(db).names)
        }
        guard let first = missing.first else { return }
        let shown = CountText.list(names.map { "\"\($0)\"" }, limit: 10)
        throw CommandFailure(
            .usage, "noSuchTable",
            what: "\"\(path)\" has no table " + missing.map { "\"\($0)\"" }.joined(separator: ", ") + ".",
            why: names.isEmpty ? "No program has created a table in it." : "Its tables are \(shown).",
            hint: names.isEmpty
                ? "Create \"\(first)\" first, or record all tables that are to come: `cipherctl history record --all`"
                : "Name one of them with --table, or record all: `cipherctl history record --all`. All tables are listed by: "
                    + "`\(SuggestedCommand("sql", Self.listing).text)`")
    }

    private static let listing = ShellWord.quoted("SELECT name FROM pragma_table_list WHERE schema = 'main'")

    /// The tables that `--all` does not record.
    ///
    /// - Parameter lacking: Those that this program cannot record.
    private func leftOut(_ db: Database, _ lacking: [String: String]) throws -> [LeftOutTable] {
        guard case .allTables = tables.scope else { return [] }
        let recorded = try Set(db.historyStatus()?.tableNames ?? [])
        let all = try ProgramTables(db)
        let unsuitable = try all.names.filter { !recorded.contains($0) }.map { name in
            let reason = try lacking[name] ?? db.obstacleToHistory(of: name) ?? "\"\(name)\" was not recorded"
            let kind = try String.fetchOne(
                db, sql: "SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ?", arguments: [name])
            return LeftOutTable(name: name, reason: reason, isOrdinary: kind == "table")
        }
        return all.leftOut.map { LeftOutTable(name: $0.name, reason: $0.reason, isOrdinary: false) } + unsuitable
    }
}

/// `history stop STORE`: ends the recording of tables.
struct HistoryStopCommand: Command {
    static let syntax = CommandSyntax(
        name: "history stop",
        summary: "record the changes of tables no longer; what was recorded stays",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: RecordedTables.options + [.json, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl history stop app.db --table note --key-file app.key",
            "cipherctl history stop app.db --all --key-file app.key",
        ],
        notes: ["If all tables are recorded, --all also ends the recording of tables that are created later."])

    private let path: String
    private let tables: RecordedTables
    private let arguments: ParsedArguments
    var changesFiles: Bool { true }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        tables = try RecordedTables(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        try tables.change(path, arguments, console) { store in
            try store.stopRecordingHistory(of: tables.scope)
            return []
        }
    }
}

/// A table that is not recorded though all were meant, with the sentence that says why.
private struct LeftOutTable {
    let name: String
    let reason: String
    /// Whether it is neither virtual nor a part of a virtual table.
    let isOrdinary: Bool
}

/// Which tables the two commands are about.
private struct RecordedTables {
    static let options = [
        OptionSyntax("--table", value: "T", "this table", isRepeatable: true), OptionSyntax("--all", "all tables"),
    ]

    let scope: HistoryScope

    /// - Throws: ``UsageError``.
    init(_ arguments: ParsedArguments) throws(UsageError) {
        let names = arguments.values("--table")
        guard arguments.has("--all") == names.isEmpty else {
            throw UsageError(
                names.isEmpty ? "No table was given." : "--table and --all were given.",
                hint: "Give --table for each table, or --all.")
        }
        scope = names.isEmpty ? .allTables : .tables(names)
    }

    /// Changes what is recorded, and prints what is recorded from then on.
    ///
    /// - Parameter body: Returns the tables that are not recorded though all were meant; each gets a warning.
    func change(
        _ path: String, _ arguments: ParsedArguments, _ console: Console,
        _ body: @escaping (SharedStore) throws -> [LeftOutTable]
    ) throws -> ExitCode {
        try BackupBundle.refuse(writing: path)
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        Interruption.beginWork()
        let store = try StoreOpening.writable(
            path, key, isCancelled: { Interruption.shared.isSet }, onNotice: console.note)
        defer { try? store.close() }
        let (recorded, missing) = try Interruption.explaining {
            let missing = try body(store)
            return (try store.read { try $0.historyStatus()?.tableNames ?? [] }, missing)
        }
        for table in missing { console.warn(table.reason) }
        try console.report(
            json: .object([
                "store": .string(path), "recorded": .array(recorded.map(JSON.string)),
                "left_out": .array(missing.map { .string($0.name) }),
            ]),
            lines: [recorded.isEmpty ? "no table is recorded" : "recorded: \(CountText.list(recorded))"])
        return missing.contains(where: \.isOrdinary) ? .needsAttention : .ok
    }
}
