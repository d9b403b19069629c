import CipherStore
import StorePlatform

/// `import PLAIN STORE`: encrypts a plain SQLite database into a new store.
struct ImportCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "import",
        summary: "encrypt a plain SQLite database into a new store",
        operands: [
            OperandSyntax("PLAIN", "the plain database; it is only read, with its write-ahead log"),
            OperandSyntax("STORE", "the store to make; nothing may stand there yet"),
        ],
        options: [
            Scheme.option("slots unless given"), FileMode.option, .json,
        ] + KeyOptions.all,
        examples: [
            "cipherctl import plain.db app.db",
            "cipherctl import plain.db app.db --key-file app.key",
            "cipherctl import plain.db app.db --key-command 'vault read -field=key secret/app' --json",
        ],
        notes: [
            "Everything comes along: rows with their row ids, schema, indexes, views, triggers, full-text tables, "
                + "sqlite_sequence, user_version, application_id, encoding and auto_vacuum. Pages have at least 4096 bytes.",
            "The store appears as a whole or not at all: it is made in a directory of its own beside STORE, read back and "
                + "compared by content hash first. The plain database stays: delete it yourself when you no longer need "
                + "it, and know that deleting does not erase a medium.",
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
        let started = ContinuousClock.now
        let target = ImportTarget(path: storePath)
        for directory in try target.removeAbandoned(.importing) {
            console.note("removed \"\(directory)\", which an import left that was killed")
        }
        try target.requireFree()
        let source = try PlainSource.open(plainPath)
        defer { try? source.close() }
        let key = try UnlockedKey(new: KeyOptions.source(arguments, isNew: true), console)
        _ = Interruption.shared
        let progress = ProgressBar("importing", isAllowed: !console.isJSON)
        defer { progress.end() }
        let result = try StoreImport(
            source: source, target: target, key: key, scheme: scheme, mode: mode, progress: progress
        ).run()
        progress.end()
        let store = try open(key, console)
        defer { try? store.close() }
        for notice in store.notices { console.note(notice) }
        StoreOpening.logCreation(storePath, scheme, console)
        if result.didEnlargePages {
            console.note("pages have \(result.pageBytes) bytes now; the source's were smaller")
        }
        try report(result, store, seconds: (ContinuousClock.now - started) / .seconds(1), console)
        return .ok
    }

    /// Opens the store that got its name, which makes -wal and -shm.
    ///
    /// - Throws: ``CommandFailure`` that says that the store is there, so that nobody imports it again.
    private func open(_ key: UnlockedKey, _ console: Console) throws -> SharedStore {
        do {
            return try SharedStore.open(at: storePath, unlockedBy: key.source)
        } catch {
            StoreOpening.logCreation(storePath, scheme, console)
            let report = ErrorReport(error)
            throw CommandFailure(
                report.exitCode, report.name,
                what: "\"\(storePath)\" was imported and verified, but could not be opened afterwards.",
                why: report.message,
                hint: "The store is complete: do not import it again. The next opening for writing does what is left.")
        }
    }

    private func report(_ result: StoreImport.Result, _ store: SharedStore, seconds: Double, _ console: Console) throws
    {
        let bytes = try Files.byteCount(storePath) ?? 0
        try console.report(
            json: .object([
                "store": .string(storePath), "store_id": .string("\(store.storeID)"),
                "scheme": .string(scheme.rawValue), "rows": .int(result.rowCount),
                "file_bytes": .int(bytes), "page_bytes": .int(result.pageBytes),
                "content_hash": .string(result.hash.hex), "verified": .bool(true), "seconds": .real(seconds),
            ]),
            lines: [
                "imported      \(plainPath) -> \(storePath)",
                "rows          \(result.rowCount)",
                "content hash  \(result.hash.hex)",
                "verified      the store, read back, has the same content hash",
            ])
    }
}
