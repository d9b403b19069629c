import CipherStore
import ChangesetSync
import StorePlatform
import StoreTools

/// `sync push STORE`: puts what the remotes lack.
struct SyncPushCommand: SyncCommand {
    static let writes = true
    static let syntax = CommandSyntax(
        name: "sync push",
        summary: "put the commits that the remotes lack, of all authors; exit code 2 when some cannot be put",
        operands: [SyncAccess.storeOperand], options: [SyncRemotes.option] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync push app.db --key-file app.key",
            "cipherctl sync push app.db --remote dir:/mnt/other --key-file app.key --json",
        ],
        notes: ["It may be interrupted and repeated at any time."])

    let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncRemotes.address(arguments)
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(remote, console)
        let progress = SyncProgress()
        let exchange = try SyncExchange(access, given: remote, progress)
        let round = try exchange.run(.putting)
        let problems = try SyncStatusReport(access.repository).problems(of: exchange.names)
        try console.report(
            json: .object([
                "store": .string(access.path), "remotes": .array(exchange.names.map(JSON.string)),
                "pushed": .int(round.pushed), "repaired": .int(round.repaired), "failures": round.failuresJSON,
                "attention": .array(problems.map(JSON.string)),
            ]),
            lines: ["pushed \(CountText.text(round.pushed, "commit")) to \(CountText.list(exchange.names))"]
                + problems.map { "attention: \($0)" })
        try round.throwFailure()
        return problems.isEmpty ? .ok : .needsAttention
    }
}

/// `sync fetch STORE`: stores what is new at the remotes.
struct SyncFetchCommand: SyncCommand {
    static let writes = true
    static let syntax = CommandSyntax(
        name: "sync fetch",
        summary: "store what is new at the remotes; exit code 2 when a remote has something that cannot be used",
        operands: [SyncAccess.storeOperand], options: [SyncRemotes.option] + SyncAccess.longOptions,
        examples: ["cipherctl sync fetch app.db --key-file app.key"],
        notes: ["The rows stay as they are: cipherctl sync pull joins what was fetched."])

    let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncRemotes.address(arguments)
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(remote, console)
        let progress = SyncProgress()
        let exchange = try SyncExchange(access, given: remote, progress)
        let round = try exchange.run(.fetching)
        let report = try SyncStatusReport(access.repository)
        let problems = report.problems(of: exchange.names)
        try console.report(
            json: .object([
                "store": .string(access.path), "remotes": .array(exchange.names.map(JSON.string)),
                "fetched": .int(round.fetched), "snapshots": .int(round.snapshots),
                "ready": .int(report.status.readyCount), "failures": round.failuresJSON,
                "attention": .array(problems.map(JSON.string)),
            ]),
            lines: ["fetched \(CountText.text(round.fetched, "commit")) from \(CountText.list(exchange.names))"]
                + problems.map { "attention: \($0)" })
        try round.throwFailure()
        return problems.isEmpty ? .ok : .needsAttention
    }
}

/// `sync pull STORE`: joins what was fetched.
struct SyncPullCommand: SyncCommand {
    static let writes = true
    static let syntax = CommandSyntax(
        name: "sync pull",
        summary: "join the commits that were fetched: the rows follow",
        operands: [SyncAccess.storeOperand], options: SyncAccess.longOptions,
        examples: ["cipherctl sync pull app.db --key-file app.key"],
        notes: ["It never fetches. Other processes write meanwhile: a long pull is several short transactions."])

    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let progress = SyncProgress()
        progress.begin("joining")
        let hasJoined = try access.repository.join { Interruption.hasArrived }
        progress.end()
        try Interruption.shared.check()
        let head = try access.repository.status().head
        try console.report(
            json: .object([
                "store": .string(access.path), "joined": .bool(hasJoined), "head": .optional(head, JSON.string),
            ]),
            lines: [hasJoined ? "joined; the head is \(head ?? "none")" : "nothing to join"])
        return .ok
    }
}

/// `sync snapshot STORE`: replaces old commits at the remotes by the rows.
struct SyncSnapshotCommand: SyncCommand {
    static let writes = true
    static let syntax = CommandSyntax(
        name: "sync snapshot",
        summary: "put a snapshot of the rows at the remotes, and delete the commits there that it replaces",
        operands: [SyncAccess.storeOperand], options: [SyncRemotes.option] + SyncAccess.longOptions,
        examples: ["cipherctl sync snapshot app.db --key-file app.key"],
        notes: [
            "Any writer may make one at any time; no other device has to agree. New devices begin with it, and devices "
                + "that were away join it. The commits stay in the stores that have them."
        ])

    let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncRemotes.address(arguments)
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(remote, console)
        let progress = SyncProgress()
        let exchange = try SyncExchange(access, given: remote, progress)
        _ = try access.repository.join { Interruption.hasArrived }
        let made = try exchange.compact()
        try console.report(
            json: .object([
                "store": .string(access.path),
                "remotes": .array(
                    made.map { made in
                        .object([
                            "name": .string(made.remote), "snapshots": .int(made.report.sentSnapshots),
                            "bytes": .int(made.report.sentBytes), "deleted": .int(made.report.deletedObjects),
                        ])
                    }),
            ]),
            lines: made.map { made in
                made.report.sentSnapshots == 0
                    ? "\(made.remote): no snapshot. The store is a reader, is between two slices of a join, or lacks values of "
                        + "a dropped column or table whose commits it has forgotten. Let another device make one."
                    : "\(made.remote): a snapshot replaces \(CountText.text(made.report.deletedObjects, "object"))"
            })
        return made.allSatisfy { $0.report.sentSnapshots > 0 } ? .ok : .needsAttention
    }
}
