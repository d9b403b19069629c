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
            OptionSyntax("--acknowledge", "accept the log as it is: its problems were investigated"), .json, .quiet,
        ],
        examples: [
            "cipherctl key log app.db", "cipherctl key log app.db --json", "cipherctl key log app.db --acknowledge",
        ],
        notes: [
            "--acknowledge appends a line with the digests of the present log files. From then on status and "
                + "doctor report these problems, or a missing log, only if the log is changed again.",
            "No key is needed. Each line carries the hash of the one before, so that a line which was changed, removed "
                + "or moved is named. Lines missing at the end are not noticed, unless the sidecar is at a later epoch "
                + "than the log. Anybody who may write the file could rewrite it: keep the last hash elsewhere if that "
                + "matters.",
        ])

    private let path: String
    private let acknowledges: Bool
    var changesFiles: Bool { acknowledges }

    init(_ arguments: ParsedArguments) throws {
        path = BackupBundle.database(meantBy: arguments.operands[0])
        acknowledges = arguments.has("--acknowledge")
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
        let audit = try log.verify()
        let notes = audit.notes + [sidecar.flatMap { audit.note(onEpoch: $0.epoch) }].compactMap(\.self)
        for note in notes { console.note(note) }
        try console.report(json: json(audit, notes), lines: audit.entries.map(line) + verdict(audit))
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

    private func line(_ entry: KeyLogEntry) -> String {
        let details = entry.details.map { field in
            switch field.value {
            case .number(let number): "\(field.name) \(number)"
            case .word(let word): "\(field.name) \(word)"
            }
        }
        let head = "\(SlotReport.moment(entry.time))  \(entry.event)"
        return (["\(entry.number)  \(head)"] + details + ["by user \(entry.user), process \(entry.process)"])
            .joined(separator: ", ")
    }

    private func json(_ audit: KeyLogAudit, _ notes: [String]) -> JSON {
        .object([
            "store": .string(path), "sound": .bool(audit.problems.isEmpty),
            "last_hash": .optional(audit.entries.last) { .string(Hex.text($0.hash)) },
            "problems": .array(audit.problems.map(Self.json)),
            "acknowledged": .array(audit.acknowledged.map(Self.json)),
            "notes": .array(notes.map(JSON.string)),
            "entries": .array(audit.entries.map(Self.json)),
        ])
    }

    private static func json(_ problem: KeyLogAudit.Problem) -> JSON {
        .object(["file": .string(problem.file), "line": .int(problem.line), "reason": .string(problem.reason)])
    }

    private static func json(_ entry: KeyLogEntry) -> JSON {
        let details = entry.details.map { field in
            switch field.value {
            case .number(let number): JSON.Member(name: field.name, value: .int(number))
            case .word(let word): JSON.Member(name: field.name, value: .string(word))
            }
        }
        return .object(
            [
                .init(name: "number", value: .int(entry.number)), .init(name: "time", value: .int(entry.time)),
                .init(name: "event", value: .string(entry.event)),
            ] + details + [
                .init(name: "process", value: .int(entry.process)), .init(name: "user", value: .int(entry.user)),
            ])
    }
}
