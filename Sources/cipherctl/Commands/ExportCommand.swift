import CipherStore
import StorePlatform

/// `export STORE PLAIN --insecure-plaintext`: the whole content as a plain SQLite database.
struct ExportCommand: Command {
    static let syntax = CommandSyntax(
        name: "export",
        summary: "write a store's content into a plain SQLite database, readable without any key",
        operands: [
            OperandSyntax("STORE", "the store; it may be in use"),
            OperandSyntax("PLAIN", "the plain database to make; nothing may stand there yet"),
        ],
        options: [
            OptionSyntax("--insecure-plaintext", "confirm that everything may be read by whoever reads the file"),
            .json,
        ] + KeyOptions.all,
        examples: [
            "cipherctl export app.db plain.db --insecure-plaintext --key-file app.key",
            "cipherctl export app.db plain.db --insecure-plaintext --key-file app.key --json",
        ],
        notes: [
            "Everything comes along, as with import: the content hash is the same. The file's mode is 0600, and it appears "
                + "as a whole or not at all.",
            "Deleting it later does not erase a medium: export to a filesystem in memory, or to an encrypted one.",
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
                "The whole content would be readable in \"PLAIN\", without any key.",
                hint: "Add --insecure-plaintext if that is what you want.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let started = ContinuousClock.now
        let target = ImportTarget(path: plainPath, noun: "database")
        try target.requireFree()
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store = try StoreOpening.readOnly(storePath, key, console)
        defer { try? store.close() }
        // Only now: a wrong key changes nothing.
        for directory in try target.removeAbandoned(.exporting) {
            console.note("removed \"\(directory)\", which an export left that was killed; it held readable rows")
        }
        _ = Interruption.shared
        let progress = ProgressBar("exporting", isAllowed: !console.isJSON)
        defer { progress.end() }
        let result = try PlainExport(store: store, target: target, progress: progress).run()
        progress.end()
        console.warn("everything in \"\(plainPath)\" can be read without a key")
        let bytes = try Files.byteCount(plainPath) ?? 0
        let seconds = (ContinuousClock.now - started) / .seconds(1)
        try console.report(
            json: .object([
                "store": .string(storePath), "plain": .string(plainPath), "rows": .int(result.rowCount),
                "file_bytes": .int(bytes), "content_hash": .string(result.hash.hex),
                "verified": .bool(true), "seconds": .real(seconds),
            ]),
            lines: [
                "exported      \(storePath) -> \(plainPath)",
                "rows          \(result.rowCount)",
                "content hash  \(result.hash.hex)",
                "verified      the plain database, read back, has the same content hash",
            ])
        return .ok
    }
}
