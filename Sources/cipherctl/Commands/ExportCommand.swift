import CipherStore
import StoreTools

/// `export STORE PLAIN --insecure-plaintext`: the whole content as a plain SQLite database.
struct ExportCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "export",
        summary: "write a store's content into a plain SQLite database, readable without any key",
        operands: [
            OperandSyntax("STORE", "the store; it may be in use"),
            OperandSyntax("PLAIN", "the plain database to create; nothing may exist there yet"),
        ],
        options: [
            OptionSyntax(
                "--insecure-plaintext", "confirm that everybody who can read the file may read everything in it"),
            .json, .quiet, .progress,
        ] + KeyOptions.all,
        examples: [
            "cipherctl export app.db plain.db --insecure-plaintext --key-file app.key",
            "cipherctl export app.db plain.db --insecure-plaintext --key-file app.key --json",
        ],
        notes: [
            "Everything is copied, as with import: the content hash is the same. The file's mode is 0600, and it "
                + "appears as a whole or not at all.",
            "If an index of the source does not fit its table, it is named, and the exit code is 2. "
                + "The copy has the rows of the table and new indexes.",
            "Deleting it later does not erase it from the medium: export to a filesystem in memory, or to an encrypted "
                + "one.",
        ])

    private let storePath: String
    private let plainPath: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        storePath = BackupBundle.database(meantBy: arguments.operands[0])
        plainPath = arguments.operands[1]
        guard arguments.has("--insecure-plaintext") else {
            throw UsageError(
                "The whole content would be readable in \"\(plainPath)\", without any key.",
                hint: "Add --insecure-plaintext if that is what you want.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let tool = StoreExport(of: storePath, toInsecurePlaintext: plainPath, key: ToolKey(arguments))
        let report = try console.run(tool, "exporting")
        console.warn("everything in \"\(plainPath)\" can be read without a key")
        // The lines have the sentences, the JSON has the names.
        let damaged = report.damagedIndexes.map(\.textOfCopy)
        if console.isJSON { for text in report.leftOut.map(\.text) + damaged { console.note(text) } }
        try console.report(
            json: .object([
                "store": .string(storePath), "plain": .string(plainPath), "rows": .int(report.rowCount),
                "file_bytes": .int(report.fileBytes), "content_hash": .string(report.contentHash.hex),
                "verified": .bool(true),
                "left_out": .array(report.leftOut.map { .string($0.name) }),
                "damaged_indexes": .array(report.damagedIndexes.map(\.json)),
                "seconds": .real(report.duration / .seconds(1)),
            ]),
            lines: [
                "exported      \(storePath) -> \(plainPath)",
                "rows          \(report.rowCount)",
                "content hash  \(report.contentHash.hex)",
                "verified      the plain database, read back, has \(LeftOutIndex.sameContentHash(report.leftOut))",
            ] + report.leftOut.map { "left out      \($0.text)" } + damaged.map { "damaged       \($0)" })
        return report.leftOut.isEmpty && damaged.isEmpty ? .ok : .needsAttention
    }
}
