import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing
import StoreTools

/// `key log STORE`: prints what happened to the keys of a store.
struct KeyLogCommand: Command {
    static let syntax = CommandSyntax(
        name: "key log",
        summary:
            "show what happened to the keys of a store, and check the log; exit code 65 if it was changed, 2 if it is missing",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: [
            OptionSyntax("--acknowledge", "accept the log as it is: its problems were investigated"),
            OptionSyntax("--since", value: "WHEN", "only lines after a number, or from a time in UTC on"),
            OptionSyntax("--follow", "print each line as it is written, until a signal ends it"), .json, .quiet,
        ],
        examples: [
            "cipherctl key log app.db", "cipherctl key log app.db --json", "cipherctl key log app.db --acknowledge",
            "cipherctl key log app.db --follow --since 2026-11-28T10:15:30Z",
        ],
        notes: [
            "--acknowledge appends a line with the digests of the present log files. From then on status and "
                + "doctor report these problems, or a missing log, only if the log is changed again.",
            "No key is needed. Each line carries the hash of the one before, so that a line which was changed, removed "
                + "or moved is named. Lines missing at the end are not noticed, unless the sidecar is at a later epoch "
                + "than the log. Anybody who may write the file could rewrite it: keep the last hash elsewhere if that "
                + "matters.",
            "authorized-by is the keyslot whose key authorized a change. With --follow, --json prints a line of JSON for each "
                + "line. If standard output is systemd's journal, each line is a message with fields: CIPHERSTORE_STORE, "
                + "CIPHERSTORE_EVENT, CIPHERSTORE_AUTHORIZED_BY and one for each other detail. Signals end it with exit code 0.",
        ])

    private let path: String
    private let acknowledges: Bool
    private let follows: Bool
    private let since: KeyLogStart
    var changesFiles: Bool { acknowledges }
    var endsBySignal: Bool { follows }

    init(_ arguments: ParsedArguments) throws {
        path = BackupBundle.database(meantBy: arguments.operands[0])
        acknowledges = arguments.has("--acknowledge")
        follows = arguments.has("--follow")
        since = try KeyLogStart(arguments.value("--since"))
        if acknowledges, follows {
            throw UsageError("--acknowledge and --follow were given.", hint: "Leave one of them out.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let database = StorePaths(path).database
        guard try Files.kind(database) != nil else { throw StoreOpening.noSuchStore(path) }
        try StoreOpening.refuseForeignFile(path)
        let log = KeyLog(databasePath: database)
        let sidecar = SidecarFiles(databasePath: database).read().newestClaimed
        if acknowledges {
            try BackupBundle.refuse(writing: path)
            Interruption.beginWork()
            let count = try log.acknowledge(epoch: sidecar?.epoch ?? 1)
            console.note(
                count.map { "acknowledged: \($0) problem\($0 == 1 ? "" : "s") and what is missing, up to this line" }
                    ?? "nothing is wrong with the log: there is nothing to acknowledge")
        }
        if follows { return try KeyLogFollower(path: path, log: log, since: since, console: console).run() }
        let audit = try log.verify()
        let notes = audit.notes + [sidecar.flatMap { audit.note(onEpoch: $0.epoch) }].compactMap(\.self)
        for note in notes { console.note(note) }
        try console.report(json: json(audit, notes), lines: shown(audit).map(\.summary) + verdict(audit))
        guard audit.problems.isEmpty else { return .damagedData }
        return isMissing(audit, sidecar) ? .needsAttention : .ok
    }

    /// Whether the log of a store with keyslots, which begins with its creation, has no line.
    private func isMissing(_ audit: KeyLogAudit, _ sidecar: Sidecar?) -> Bool {
        audit.entries.isEmpty && sidecar?.slotted != nil && BackupBundle(holding: path) == nil
    }

    private func verdict(_ audit: KeyLogAudit) -> [String] {
        if audit.entries.isEmpty && audit.problems.isEmpty {
            return ["the log has no line: it was removed or emptied, or this store never had one"]
        }
        let lines = CountText.text(audit.entries.count, "line")
        return audit.acknowledged.map { "acknowledged: \($0)" } + audit.problems.map { "problem: \($0)" }
            + [audit.problems.isEmpty ? "the chain of \(lines) holds" : "the chain is broken"]
    }

    private func shown(_ audit: KeyLogAudit) -> [KeyLogEntry] { audit.entries.filter(since.includes) }

    private func json(_ audit: KeyLogAudit, _ notes: [String]) -> JSON {
        .object([
            "store": .string(path), "sound": .bool(audit.problems.isEmpty),
            "last_hash": .optional(audit.entries.last) { .string(Hex.text($0.hash)) },
            "problems": .array(audit.problems.map(Self.json)),
            "acknowledged": .array(audit.acknowledged.map(Self.json)),
            "notes": .array(notes.map(JSON.string)),
            "entries": .array(shown(audit).map(\.json)),
        ])
    }

    private static func json(_ problem: KeyLogAudit.Problem) -> JSON {
        .object(["file": .string(problem.file), "line": .int(problem.line), "reason": .string(problem.reason)])
    }
}
