import CipherStore
import StoreTools

/// `import PLAIN STORE`: encrypts a plain SQLite database into a new store.
struct ImportCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "import",
        summary: "encrypt a plain SQLite database into a new store",
        operands: [
            OperandSyntax("PLAIN", "the plain database; it is only read, with its WAL"),
            OperandSyntax("STORE", "the store to create; nothing may exist there yet"),
        ],
        options: [
            Scheme.option("slots unless given"), FileMode.option, .json, .quiet, .progress,
        ] + KeyOptions.newStore,
        examples: [
            "cipherctl import plain.db app.db",
            "cipherctl import plain.db app.db --key-file app.key",
            "cipherctl import plain.db app.db --key-command 'vault read -field=key secret/app' --json",
        ],
        notes: [
            "Everything is copied: rows with their row ids, schema, indexes, views, triggers, full-text tables, "
                + "sqlite_sequence, user_version, application_id, encoding and auto_vacuum. Pages have at least 4096 "
                + "bytes.",
            "The store appears as a whole or not at all: it is made in a directory of its own beside STORE, read back "
                + "and compared by content hash first. The plain database stays: delete it yourself when you no longer "
                + "need it, and note that deleting does not erase it from the medium.",
            "If an index of the source does not fit its table, it is named, and the exit code is 2. "
                + "The store has the rows of the table and new indexes.",
            FileMode.note,
        ])

    private let plainPath: String
    private let storePath: String
    private let scheme: KeyScheme
    private let mode: Int?
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        plainPath = arguments.operands[0]
        storePath = arguments.operands[1]
        scheme = try Scheme.parse(arguments) ?? .slots
        mode = try FileMode.parse(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        var tool = StoreImport(of: plainPath, to: storePath, key: ToolKey(new: arguments, asksTwice: true))
        tool.scheme = scheme
        tool.fileMode = mode
        let report = try console.run(tool, "importing")
        if report.didEnlargePages {
            console.note("pages have \(report.pageBytes) bytes now; the source's were smaller")
        }
        // The lines have the sentences, the JSON has the names.
        let damaged = report.damagedIndexes.map(\.textOfCopy)
        if console.isJSON { for text in report.leftOut.map(\.text) + damaged { console.note(text) } }
        try console.report(
            json: .object([
                "store": .string(storePath), "store_id": .string("\(report.storeID)"),
                "scheme": .string(scheme.rawValue), "rows": .int(report.rowCount),
                "file_bytes": .int(report.fileBytes), "page_bytes": .int(report.pageBytes),
                "content_hash": .string(report.contentHash.hex), "verified": .bool(true),
                "left_out": .array(report.leftOut.map { .string($0.name) }),
                "damaged_indexes": .array(report.damagedIndexes.map(\.json)),
                "seconds": .real(report.duration / .seconds(1)),
            ]),
            lines: [
                "imported      \(plainPath) -> \(storePath)",
                "rows          \(report.rowCount)",
                "content hash  \(report.contentHash.hex)",
                "verified      the store, read back, has \(LeftOutIndex.sameContentHash(report.leftOut))",
            ] + report.leftOut.map { "left out      \($0.text)" } + damaged.map { "damaged       \($0)" })
        return report.leftOut.isEmpty && damaged.isEmpty ? .ok : .needsAttention
    }
}
