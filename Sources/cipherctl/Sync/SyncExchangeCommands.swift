import ChangesetSync
import CipherStore
import Foundation
import StorePlatform
import StoreTools

/// `sync push STORE`: sends commits to the remote.
struct SyncPushCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync push",
        summary: "send the commits that the remote does not have; exit code 2 when rows are in no commit",
        operands: [SyncAccess.storeOperand],
        options: [SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync push app.db --key-file app.key",
            "cipherctl sync push app.db --remote dir:/mnt/other --key-file app.key --json",
        ],
        notes: ["It may be interrupted and repeated at any time. What the remote has acknowledged is not sent again."])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let (name, count, foreign) = try SyncAccess.exchange(arguments, with: remote, console) { manager, progress in
            progress.begin("pushing", total: try manager.status().ahead)
            let count = try await manager.push()
            let foreign = try manager.repository.summary().foreignWrites
            return (manager.remote.name, count, foreign)
        }
        // They are in no commit, and so go nowhere.
        if !foreign.isEmpty {
            console.warn(
                "rows of \(foreign.joined(separator: ", ")) were written outside of commits, and were not pushed. "
                    + SyncErrorReport.hint(.foreignWrites))
        }
        try console.report(
            json: .object([
                "store": .string(arguments.operands[0]), "remote": .string(name), "pushed": .int(count),
                "foreign_writes": .array(foreign.map(JSON.string)),
            ]),
            lines: ["pushed \(CountText.text(count, "commit")) to \(name)"])
        return foreign.isEmpty ? .ok : .needsAttention
    }
}

/// `sync fetch STORE`: stores what is new at the remote.
struct SyncFetchCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync fetch",
        summary: "store what is new at the remote; exit code 2 when objects were refused or a log is damaged",
        operands: [SyncAccess.storeOperand],
        options: [SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: ["cipherctl sync fetch app.db --key-file app.key"],
        notes: [
            "The rows stay as they are: cipherctl sync merge and cipherctl sync pull take it up. Objects that are damaged "
                + "or forged are set aside, and asked for again by the next fetch."
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let (name, count, status) = try SyncAccess.exchange(arguments, with: remote, console) { manager, progress in
            progress.begin("fetching")
            let count = try await manager.fetch()
            return (manager.remote.name, count, try manager.status())
        }
        let refused = status.quarantined.sorted { $0.key < $1.key }
        let stalled = SyncReport.attention(to: status.stalledLogs, at: name)
        try console.report(
            json: .object([
                "store": .string(arguments.operands[0]), "remote": .string(name), "fetched": .int(count),
                "behind": .int(status.behind), "pending": .int(status.pending),
                "stalled_logs": SyncReport.stalledLogs(status), "quarantined": SyncReport.quarantined(status),
            ]),
            lines: ["fetched \(CountText.text(count, "commit")) from \(name)"]
                + refused.map { "refused: object \($0.key): \($0.value)" } + stalled)
        return refused.isEmpty && stalled.isEmpty ? .ok : .needsAttention
    }
}

/// `sync pull STORE`: moves the rows to what was fetched.
struct SyncPullCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync pull",
        summary: "move the rows to what was fetched; exit code 2 when something must be merged or updated before",
        operands: [SyncAccess.storeOperand],
        options: SyncAccess.longOptions,
        examples: ["cipherctl sync pull app.db --key-file app.key"],
        notes: [
            "It never fetches. Other processes go on writing meanwhile: a long pull is divided, and each part ends at a "
                + "commit. When two devices have made commits, cipherctl sync merge comes first."
        ])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        let progress = SyncProgress()
        defer { progress.end() }
        progress.begin("pulling")
        let moved = try access.repository.pull() != nil
        progress.end()
        let summary = try access.repository.summary()
        // The head may be one of several leaves: then there is nothing to pull, and what others have done is not in it.
        let needsMerge = summary.leafCount > 1
        try console.report(
            json: .object([
                "store": .string(access.path), "moved": .bool(moved),
                "head": .optional(summary.head) { .string("\($0)") }, "needs_merge": .bool(needsMerge),
            ]),
            lines: [moved ? "the rows are now at \(summary.head.map { "\($0)" } ?? "-")" : "nothing to pull"]
                + (needsMerge ? ["several devices have made commits: cipherctl sync merge"] : []))
        return needsMerge ? .needsAttention : .ok
    }
}

/// `sync merge STORE`: merges what several devices have done.
struct SyncMergeCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync merge",
        summary: "merge what several devices have done; exit code 2 when there were conflicts",
        operands: [SyncAccess.storeOperand],
        options: SyncAccess.longOptions,
        examples: ["cipherctl sync merge app.db --key-file app.key"],
        notes: [
            "Each cell that one side has changed is taken; of two changes of one cell the later wins. Every device makes "
                + "the same merge. What was chosen is listed by cipherctl sync conflicts. The rows move with cipherctl "
                + "sync pull."
        ])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        let progress = SyncProgress()
        defer { progress.end() }
        progress.begin("merging")
        let before = try access.repository.summary().conflicts
        let merges = try access.repository.mergeAll()
        progress.end()
        let conflicts = max(0, try access.repository.summary().conflicts - before)
        try console.report(
            json: .object([
                "store": .string(access.path), "merges": .array(merges.map { .string($0.uuid) }),
                "conflicts": .int(conflicts),
            ]),
            lines: [
                merges.isEmpty
                    ? "nothing to merge"
                    : "made \(CountText.text(merges.count, "merge")), with \(CountText.text(conflicts, "conflict"))"
            ])
        return conflicts == 0 ? .ok : .needsAttention
    }
}

/// `sync commit STORE`: makes a commit of what was written outside of commits.
struct SyncCommitCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync commit",
        summary: "make a commit of what was written outside of commits",
        operands: [SyncAccess.storeOperand],
        options: [SyncMeta.option] + SyncAccess.options,
        examples: [
            "cipherctl sync commit app.db --key-file app.key",
            "cipherctl sync commit app.db --meta '{\"by\": \"import\"}' --key-file app.key",
        ],
        notes: [
            "Programs commit by themselves. This is for rows that `cipherctl sql`, a migration or a program without this "
                + "library has written: until then neither merges nor pulls are made."
        ])

    private let arguments: ParsedArguments
    private let meta: String

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        meta = try SyncMeta.text(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        let made = try access.repository.commitForeignWrites(meta: meta)
        try console.report(
            json: .object([
                "store": .string(access.path), "commit": .optional(made) { .string($0.uuid) },
            ]),
            lines: [made.map { "commit \($0.uuid)" } ?? "nothing differs from the last commit"])
        return .ok
    }
}

/// `sync reset STORE`: begins the exchange with a remote again.
struct SyncResetCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync reset",
        summary: "read the remote from its beginning again, and push everything again",
        operands: [SyncAccess.storeOperand],
        options: [SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: ["cipherctl sync reset app.db --key-file app.key"],
        notes: [
            "For a remote that was emptied, restored or exchanged, and for a store that was restored from a backup or "
                + "copied: it pushes under a new name from then on. Rows and commits stay as they are, and what the remote "
                + "has already is not stored twice. The exchange itself comes with the next cipherctl sync run."
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let (name, ahead) = try SyncAccess.exchange(arguments, with: remote, console) { manager, _ in
            try await manager.reset()
            return (manager.remote.name, try manager.status().ahead)
        }
        try console.report(
            json: .object(["store": .string(arguments.operands[0]), "remote": .string(name), "ahead": .int(ahead)]),
            lines: [
                "\(name) is read from its beginning again; \(CountText.text(ahead, "commit")) "
                    + (ahead == 1 ? "is" : "are") + " to be pushed"
            ])
        return .ok
    }
}

/// The description of a commit.
enum SyncMeta {
    static let option = OptionSyntax("--meta", value: "TEXT", "what is said of the commit, as JSON; {} unless given")

    static func text(_ arguments: ParsedArguments) throws(UsageError) -> String {
        guard let text = arguments.value(option.name) else { return "{}" }
        guard (try? JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)) != nil else {
            throw UsageError("--meta is no JSON.", hint: "For example: --meta '{\"by\": \"import\"}'")
        }
        return text
    }
}
