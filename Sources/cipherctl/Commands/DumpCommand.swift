import CipherStore
import StorePlatform
import StoreTools

/// `dump STORE [TABLE...] --insecure-plaintext`: the content as SQL text.
struct DumpCommand: Command {
    static let insecure = OptionSyntax(
        "--insecure-plaintext", "confirm that everybody who can read the text may read everything in it")
    static let syntax = CommandSyntax(
        name: "dump",
        summary: "print a store's content as SQL text, readable without any key",
        operands: [
            OperandSyntax("STORE", "the store; it may be in use"),
            OperandSyntax(
                "TABLE", "the tables to print, with their indexes and triggers; everything unless given",
                isOptional: true, isRepeated: true),
        ],
        options: [insecure, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl dump app.db --insecure-plaintext --key-file app.key | sqlite3 plain.db",
            "cipherctl dump app.db note person --insecure-plaintext --key-file app.key > two.sql",
        ],
        notes: [
            "sqlite3 makes an equal database of it. Rows come in the order of their row ids or primary keys, so that equal "
                + "contents give equal texts. The store's own tables, as the history of changes, are left out.",
            "Set umask 077 before you write a file. export makes a database in place of text, and compares it with the "
                + "store.",
        ])

    private let path: String
    private let tables: [String]
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        tables = Array(arguments.operands.dropFirst())
        try Self.requireConfirmation(arguments.has(Self.insecure.name))
    }

    /// - Throws: ``UsageError``.
    static func requireConfirmation(_ isConfirmed: Bool) throws(UsageError) {
        guard !isConfirmed else { return }
        throw UsageError(
            "The content would be readable in the text, without any key.",
            hint: "Add --insecure-plaintext if that is what you want.")
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store = try StoreOpening.readOnly(path, key, onNotice: console.note)
        defer { try? store.close() }
        try store.read { try Self.write(tables, of: $0, console) }
        return .ok
    }

    /// Prints a dump.
    ///
    /// - Parameter check: Called for each row; an error ends the dump.
    /// - Throws: ``CommandFailure`` if there is no such table.
    static func write(
        _ tables: [String], of db: Database, _ console: Console, check: () throws -> Void = {}
    ) throws {
        var dump = SQLDump(tables: tables)
        let isTerminal = Terminal.isTerminal(1)
        dump.escapesControls = isTerminal
        if let missing = try dump.missingTables(db).first {
            throw CommandFailure(
                .usage, "noTable", what: "There is no table \"\(missing)\".", why: "Nothing was printed.",
                hint: "Check the name: `cipherctl sql STORE \"SELECT name FROM sqlite_schema\"` lists them.")
        }
        try dump.run(db) { text in
            try console.output.write(isTerminal ? text.withoutControls(keepsLines: true) : text)
            try check()
        }
    }
}
