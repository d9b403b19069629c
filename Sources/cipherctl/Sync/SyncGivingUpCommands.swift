import ChangesetSync
import CipherStore
import StorePlatform
import StoreTools

/// `sync discard STORE`: gives up what a remote has refused or damaged.
struct SyncDiscardCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync discard",
        summary: "give up what the remote has damaged and nobody can restore",
        operands: [SyncAccess.storeOperand],
        options: [
            OptionSyntax("--object", value: "ID", "only this object, as cipherctl sync status --json lists it"),
            SyncAccess.remoteOption,
        ] + SyncAccess.longOptions,
        examples: ["cipherctl sync discard app.db --key-file app.key"],
        notes: [
            "Refused objects are not asked for again, and commits that wait for them are removed. A log that cannot be read "
                + "on needs no attention any more; it is read on if its entry is whole again. Before, let a device that has "
                + "the commits put them there again: cipherctl sync reset"
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?
    private let object: CommitID?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
        object = try arguments.value("--object").map { text in
            guard let id = CommitID(text.lowercased()) else {
                throw UsageError(
                    "--object is not the identifier of an object.",
                    hint: "Give all 64 digits, as cipherctl sync status --json lists them.")
            }
            return id
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let object = object
        let (name, objects, logs) = try SyncAccess.exchange(arguments, with: remote, console) { manager, _ in
            let objects = try await manager.removeQuarantined(object)
            var logs = 0
            if object == nil { logs = try await manager.giveUpStalledLogs() }
            return (manager.remote.name, objects, logs)
        }
        let found = [
            objects > 0 ? CountText.text(objects, "object") : nil, logs > 0 ? CountText.text(logs, "log") : nil,
        ].compactMap { $0 }
        try console.report(
            json: .object([
                "store": .string(arguments.operands[0]), "remote": .string(name), "objects": .int(objects),
                "logs": .int(logs),
            ]),
            lines: [
                found.isEmpty
                    ? "nothing of \(name) was refused or is damaged"
                    : "gave up \(found.joined(separator: " and ")) of \(name)"
            ])
        return .ok
    }
}

/// `sync forget STORE`: removes a remote from the store.
struct SyncForgetCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync forget",
        summary: "no longer exchange with a remote",
        operands: [SyncAccess.storeOperand],
        options: [SyncAccess.remoteOption] + SyncAccess.options,
        examples: ["cipherctl sync forget app.db --remote dir:/mnt/old --key-file app.key"],
        notes: [
            "Rows and commits stay, and so does the remote. To use it again, name it with --remote. Checkpoints of the other "
                + "devices wait for this store at that remote: cipherctl sync retire, on one of them, leaves it out."
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        let name = try access.name(of: remote)
        guard let left = try access.repository.forgetRemote(named: name) else {
            let known = try access.repository.knownRemotes().map(\.name)
            throw UsageError(
                "The store has no remote \(name).",
                hint: known.isEmpty ? "It has none." : "It has: \(known.joined(separator: ", ")).")
        }
        try console.report(
            json: .object([
                "store": .string(access.path), "remote": .string(name), "not_pushed": .int(left),
            ]),
            lines: [
                "\(name) is forgotten"
                    + (left == 0
                        ? "" : "; \(CountText.text(left, "commit")) \(left == 1 ? "was" : "were") not pushed to it")
            ])
        return .ok
    }
}
