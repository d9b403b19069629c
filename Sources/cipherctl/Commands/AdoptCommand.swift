import CipherStore
import StoreTools

/// `adopt DB`: replaces a standard SQLCipher file by a store.
struct AdoptCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "adopt",
        summary: "convert an existing SQLCipher database to a store, in place",
        operands: [OperandSyntax("DB", "the database; no process may have it open")],
        options: [
            OptionSyntax("--compatibility", value: "1|2|3|4", "the version of SQLCipher that made it; 4 unless given"),
            Scheme.option("direct unless given"), FleetOptions.dryRun, .json, .quiet, .progress,
        ] + KeyOptions.newStore,
        examples: [
            "cipherctl adopt app.db",
            "cipherctl adopt app.db --key-file app.key",
            "cipherctl adopt old.db --compatibility 3 --key-file app.key --json",
        ],
        notes: [
            "A database of SQLCipher 4 keeps its key and all pages but the first, which is rewritten: its first 32 "
                + "bytes become readable, and the salt that was there moves to the sidecar. A database of an older "
                + "version is copied row by row, and the original stays beside it as DB.sqlcipher3 (or 2, or 1).",
            "With --scheme slots the last step adds a keyslot for its key; the database keeps its key, so that the "
                + "former passphrase opens it with any SQLCipher until `cipherctl rotate` has run.",
            "The content hash is compared before the store takes the file's place. A run that is interrupted, by a "
                + "kill or a power failure, leaves either the former file or the store; the same command completes it.",
            "If an index of the source does not fit its table, it is named, and the exit code is 2. "
                + "The rows are as they were: build the index anew with REINDEX.",
            "Programs that open the database without CipherStore need its salt and header size from now on: "
                + "`cipherctl key reveal` prints them.",
        ])

    private let path: String
    private let version: Int
    private let scheme: KeyScheme
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        guard let version = Int(arguments.value("--compatibility") ?? "4"), (1...4).contains(version) else {
            throw UsageError("There is no such version of SQLCipher.", hint: "Give --compatibility 1, 2, 3 or 4.")
        }
        self.version = version
        scheme = try Scheme.parse(arguments) ?? .direct
    }

    func run(_ console: Console) throws -> ExitCode {
        var tool = StoreAdoption(path, key: ToolKey(new: arguments, asksTwice: false))
        tool.sqlCipherVersion = version
        tool.scheme = scheme
        if arguments.has("--dry-run") { return try rehearse(tool, console) }
        let report = try console.run(tool, "adopting")
        let isCompletion = report.completedEarlierAdoption
        var lines = ["\(isCompletion ? "completed" : "adopted")     \(path)", "store id    \(report.storeID)"]
        if let hash = report.contentHash {
            lines += [
                "content     \(hash.hex)",
                "verified    the store, read back, has the same content as the original file"
                    + (report.leftOut.isEmpty ? "" : ", without the indexes that were left out"),
            ]
        }
        if let original = report.original {
            lines.append("original    \(original): remove it when you no longer need it")
        }
        lines.append(
            "sidecar     \(path)-sidecar and its .bak: keep both with the store; they hold its salt from now on")
        lines += report.leftOut.map { "left out    \($0.text)" }
        let damaged = report.damagedIndexes.map {
            SuggestedCommand.completing(report.original == nil ? $0.textOfOriginal(path) : $0.textOfCopy)
        }
        lines += damaged.map { "damaged     \($0)" }
        // The lines have the sentences, the JSON has the names.
        if console.isJSON { for text in report.leftOut.map(\.text) + damaged { console.note(text) } }
        try console.report(
            json: .object([
                "store": .string(path), "store_id": .string("\(report.storeID)"), "scheme": .string(scheme.rawValue),
                "compatibility": .int(version), "completed_earlier_adoption": .bool(isCompletion),
                "content_hash": .optional(report.contentHash) { .string($0.hex) }, "verified": .bool(!isCompletion),
                "original": .optional(report.original, JSON.string),
                "left_out": .array(report.leftOut.map { .string($0.name) }),
                "damaged_indexes": .array(report.damagedIndexes.map(\.json)),
                "seconds": .real(report.duration / .seconds(1)),
            ]),
            lines: lines)
        return report.leftOut.isEmpty && damaged.isEmpty ? .ok : .needsAttention
    }
}

extension AdoptCommand {
    /// Says whether the adoption could begin. The file stays as it is.
    private func rehearse(_ tool: StoreAdoption, _ console: Console) throws -> ExitCode {
        let completes = try tool.rehearse()
        let original = completes || version == 4 ? nil : "\(path).sqlcipher\(version)"
        try console.report(
            json: .object([
                "store": .string(path), "dry_run": .bool(true), "scheme": .string(scheme.rawValue),
                "compatibility": .int(version), "completes_earlier_adoption": .bool(completes),
                "original": .optional(original, JSON.string),
            ]),
            lines: ["would \(completes ? "complete the adoption of" : "adopt") \(path): the key opens it"]
                + (original.map { ["would keep  the original as \($0)"] } ?? []))
        return .ok
    }
}

extension DamagedIndex {
    /// The table and SQLite's findings.
    var json: JSON { .string("\(table): \(findings.joined(separator: "; "))") }
}
