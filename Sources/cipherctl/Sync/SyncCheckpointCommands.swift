import ChangesetSync
import CipherStore
import StorePlatform
import StoreTools

/// `sync checkpoint STORE`: replaces history that every replica has.
struct SyncCheckpointCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync checkpoint",
        summary: "replace the history that every device has by the rows of its last commit",
        operands: [SyncAccess.storeOperand],
        options: [SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: ["cipherctl sync checkpoint app.db --key-file app.key"],
        notes: [
            "Commits below the checkpoint are removed from the remote and from this store; rows stay as they are. New "
                + "devices begin with the checkpoint. It waits for every device that has used the remote: "
                + "cipherctl sync status lists them, and cipherctl sync retire leaves one out that does not come back."
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let (name, made, replicas) = try SyncAccess.exchange(arguments, with: remote, console) { manager, progress in
            progress.begin("making a checkpoint")
            return (manager.remote.name, try await manager.checkpoint(), try manager.status().replicas)
        }
        let own = replicas.first(where: \.isThisStore)?.commit
        let waiting = made == nil ? replicas.filter { !$0.isRetired && $0.commit != own } : []
        try console.report(
            json: .object([
                "store": .string(arguments.operands[0]), "remote": .string(name),
                "checkpoint": .optional(made) { .string("\($0.commit)") },
                "replaced": .int(made?.commitCount ?? 0), "rows": .int(made?.rowCount ?? 0),
                "waits_for": .array(waiting.map { .string("\($0.author)") }),
            ]),
            lines: [Self.line(made)]
                + waiting.map { "waits for    \($0.author), \(SyncReplicaReport.place($0))" })
        return .ok
    }

    private static func line(_ made: SyncCheckpoint?) -> String {
        guard let made else { return "nothing can be replaced yet" }
        return "checkpoint \(made.commit): \(CountText.text(made.rowCount, "row")) "
            + (made.rowCount == 1 ? "replaces" : "replace") + " \(CountText.text(made.commitCount, "commit"))"
    }
}

/// `sync retire STORE REPLICA`: no longer waits for a replica.
struct SyncRetireCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync retire",
        summary: "no longer wait for a device that does not come back",
        operands: [
            SyncAccess.storeOperand,
            OperandSyntax("REPLICA", "its name, or its first digits, as cipherctl sync status lists it"),
        ],
        options: [SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: ["cipherctl sync retire app.db 5a3e90c1 --key-file app.key"],
        notes: [
            "Checkpoints do not wait for it any more. Nothing is taken from it: if it does come back, it goes on under "
                + "another name, and cipherctl sync rejoin keeps its work."
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let digits = arguments.operands[1].lowercased()
        let (name, author) = try SyncAccess.exchange(arguments, with: remote, console) { manager, _ in
            let replicas = try manager.status().replicas.filter { "\($0.author)".hasPrefix(digits) }
            let found = replicas.map(\.author)
            guard digits.utf8.count >= 4, found.count == 1 else {
                throw UsageError(
                    found.count > 1 ? "Several replicas begin so." : "There is no such replica.",
                    hint: "They are listed by `cipherctl sync status`; give four digits at least.")
            }
            if replicas[0].isThisStore {
                throw UsageError(
                    "This replica is this store itself, and is not retired.",
                    hint: "Name one that does not come back; they are listed by `cipherctl sync status`.")
            }
            try await manager.retire(found[0])
            return (manager.remote.name, found[0])
        }
        try console.report(
            json: .object([
                "store": .string(arguments.operands[0]), "remote": .string(name), "retired": .string("\(author)"),
            ]),
            lines: ["checkpoints at \(name) do not wait for \(author) any more"])
        return .ok
    }
}

/// `sync rejoin STORE`: joins a checkpoint after a long absence.
struct SyncRejoinCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync rejoin",
        summary: "take up the checkpoint after a long absence, and keep what was not pushed",
        operands: [SyncAccess.storeOperand],
        options: [SyncMeta.option, SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: ["cipherctl sync rejoin app.db --key-file app.key"],
        notes: [
            "For a store whose commands end with baseTooOld. The rows become those of the checkpoint; what this store has "
                + "not pushed becomes one commit on top of it. Where others have changed the same, the value of this store "
                + "stays, and theirs is listed by cipherctl sync conflicts. It is done as a whole or not at all."
        ])

    private let arguments: ParsedArguments
    private let meta: String
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        meta = try SyncMeta.text(arguments)
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let meta = meta
        let (name, made, former, head) = try SyncAccess.exchange(arguments, with: remote, console) {
            manager, progress in
            progress.begin("rejoining")
            let former = try manager.repository.summary().head
            let made = try await manager.rejoin(meta: meta)
            return (manager.remote.name, made, former, try manager.repository.summary().head)
        }
        let hasRejoined = former != head
        try console.report(
            json: .object([
                "store": .string(arguments.operands[0]), "remote": .string(name),
                "rejoined": .bool(hasRejoined), "commit": .optional(made) { .string($0.uuid) },
                "head": .optional(head) { .string("\($0)") },
            ]),
            lines: [
                made.map { "commit \($0.uuid) has what was not pushed" }
                    ?? (hasRejoined
                        ? "the checkpoint was taken up; nothing was left to push"
                        : "\(name) has no checkpoint that this store lacks: nothing was to be done")
            ])
        return .ok
    }
}

/// The replicas of a remote, as `sync status` shows them.
enum SyncReplicaReport {
    static func json(_ replicas: [SyncReplica]) -> JSON {
        .array(
            replicas.map { replica in
                .object([
                    "replica": .string("\(replica.author)"), "commit": .optional(replica.commit) { .string("\($0)") },
                    "time": .optional(replica.date) { .string(HistoryReport.moment($0)) },
                    "retired": .bool(replica.isRetired), "this_store": .bool(replica.isThisStore),
                ])
            })
    }

    static func lines(_ replicas: [SyncReplica]) -> [String] {
        replicas.map { replica in
            "replica      \(replica.author)\(replica.isThisStore ? " (this store)" : ""): \(place(replica))"
        }
    }

    static func place(_ replica: SyncReplica) -> String {
        if replica.isRetired { return "retired" }
        let time = replica.date.map { ", " + HistoryReport.moment($0) } ?? ""
        return (replica.commit.map { "at \("\($0)".prefix(12))" } ?? "before its first commit") + time
    }
}
