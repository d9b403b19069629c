import ChangesetSync
import CipherStore
import StorePlatform
import StoreTools

/// `sync status STORE`: where a store stands to its remotes.
struct SyncStatusCommand: Command {
    static let syntax = CommandSyntax(
        name: "sync status",
        summary: "show where a store stands to its remotes; exit code 2 when something needs attention",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: SyncAccess.options,
        examples: [
            "cipherctl sync status app.db --key-file app.key", "cipherctl sync status app.db --json --key-file app.key",
        ],
        notes: [
            "It asks no remote: it shows what the store knows since its last push and fetch. Attention is needed for "
                + "conflicts, refused objects, rows that were written outside of commits, tracked tables that are gone, "
                + "commits of a newer schema, commits that cannot be pulled, something to merge, a log of the remote that "
                + "cannot be read on, an error of the last exchange, and a clock that is more than a day ahead."
        ])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.readOnly(arguments, console)
        defer { access.close() }
        let report = try SyncReport(access.repository)
        try console.report(json: report.json(of: access.path), lines: report.lines(of: access.path))
        return report.attention.isEmpty ? .ok : .needsAttention
    }
}

/// The state of a repository and its remotes.
struct SyncReport {
    let summary: RepositorySummary
    private let remotes: [(known: KnownRemote, status: SyncStatus)]

    init(_ repository: ChangesetRepository) throws {
        summary = try repository.summary()
        let id = summary.repository
        remotes = try repository.knownRemotes().map { known in
            (known, try SyncManager(repository, remote: NamedRemote(name: known.name, repository: id)).status())
        }
    }

    var isInSync: Bool { !remotes.isEmpty && remotes.allSatisfy { $0.status.isInSync } }

    /// The findings that need a person's attention, as sentences.
    var attention: [String] { found.map { SuggestedCommand.completing($0) } }

    private var found: [String] {
        var found = summary.missingTables.map { name in
            "Table \"\(name)\": \(SyncError.Code.tableMissing.reason) "
                + SyncErrorReport.hint(.tableMissing)
        }
        if !summary.foreignWrites.isEmpty {
            let tables = summary.foreignWrites.joined(separator: ", ")
            found.append("Rows of \(tables) were written outside of commits. \(SyncErrorReport.hint(.foreignWrites))")
        }
        if let obstacle = summary.schemaObstacle {
            found.append(SyncErrorReport(of: obstacle).sentences)
        } else if summary.leafCount > 1 {
            found.append("Several devices have made commits: cipherctl sync merge")
        }
        if let obstacle = summary.pullObstacle {
            found.append("The last pull has stopped. \(SyncErrorReport(of: obstacle).sentences)")
        }
        if summary.conflicts > 0 {
            let what = summary.conflicts == 1 ? "1 conflict was" : "\(summary.conflicts) conflicts were"
            found.append("\(what) decided by rule: cipherctl sync conflicts")
        }
        for (known, status) in remotes {
            if !status.quarantined.isEmpty {
                let count = status.quarantined.count
                let objects = CountText.text(count, "object")
                let first = status.quarantined.min { $0.key < $1.key }
                let example = first.map { " (\(count == 1 ? "" : "one is ")\($0.key): \($0.value))" } ?? ""
                found.append(
                    "\(objects) of \(known.name) \(count == 1 ? "was" : "were") refused\(example). Let a device that has the "
                        + "commits push again (cipherctl sync reset), or give up what stays damaged: cipherctl sync discard"
                )
            }
            found += Self.attention(to: status.stalledLogs, at: known.name)
            if status.pending > 0, status.quarantined.isEmpty, status.stalled == 0, status.hasFetched {
                found.append(
                    "\(CountText.text(status.pending, "commit")) \(status.pending == 1 ? "waits" : "wait") for one that "
                        + "\(known.name) does not have. Let a device that has it push again: cipherctl sync reset")
            }
            if let error = status.lastError {
                found.append("The last exchange with \(known.name) failed: \(SyncErrorReport.text(ofKept: error))")
            }
        }
        if let skew = remotes.compactMap(\.status.skew).max() {
            let lead = AgeText.text(UInt64(max(0, skew.components.seconds)))
            found.append(
                "The clock of a device was \(lead) ahead at its last commit. Set it right: its next commit ends this notice"
            )
        }
        return found
    }

    /// The remedies for logs that cannot be read.
    static func attention(to logs: [StalledLog], at remote: String) -> [String] {
        logs.filter(\.needsAttention).map { log in
            let what =
                log.isDamaged
                ? "is damaged" : "or its object is missing since \(HistoryReport.moment(log.since))"
            return "Nothing new of one device is received from \(remote): entry \(log.position.sequence) of log "
                + "\(log.position.author) \(what). Restore it from a backup of the remote. Or let that device push "
                + "again (cipherctl sync reset), and then give the old log up here: cipherctl sync discard"
        }
    }

    /// Whether ``attention`` has an error that has stopped a merge or a pull.
    func names(_ error: SyncError) -> Bool {
        switch error.code {
        case .tableMissing: !summary.missingTables.isEmpty
        case .foreignWrites: !summary.foreignWrites.isEmpty
        case .schemaAhead, .columnRemoved: summary.schemaObstacle != nil
        case .needsMerge, .olderSchema: summary.schemaObstacle == nil && summary.leafCount > 1
        default: summary.pullObstacle == error
        }
    }

    func json(of path: String) -> JSON {
        .object([
            "store": .string(path), "repository": .string("\(summary.repository)"), "epoch": .int(summary.epoch),
            "author": .string("\(summary.author)"), "head": .optional(summary.head) { .string("\($0)") },
            "commits": .int(summary.commitCount), "tables": .array(summary.tables.map(JSON.string)),
            "leaves": .int(summary.leafCount), "behind": .int(summary.behind), "conflicts": .int(summary.conflicts),
            "foreign_writes": .array(summary.foreignWrites.map(JSON.string)),
            "missing_tables": .array(summary.missingTables.map(JSON.string)),
            "schema_obstacle": .optional(summary.schemaObstacle) { .string(SyncErrorReport(of: $0).message) },
            "pull_obstacle": .optional(summary.pullObstacle) { .string(SyncErrorReport(of: $0).message) },
            "in_sync": .bool(isInSync),
            "remotes": .array(remotes.map { Self.json($0.known, $0.status) }),
            "attention": .array(attention.map(JSON.string)),
        ])
    }

    private static func json(_ known: KnownRemote, _ status: SyncStatus) -> JSON {
        .object([
            "name": .string(known.name), "address": .optional(known.address) { .string("\($0)") },
            "fetched": .bool(status.hasFetched), "ahead": .int(status.ahead), "behind": .int(status.behind),
            "pending": .int(status.pending), "stalled": .int(status.stalled), "stalled_logs": stalledLogs(status),
            "quarantined": quarantined(status),
            "last_error": .optional(status.lastError.map(SyncErrorReport.text(ofKept:)), JSON.string),
            "skew_seconds": .optional(status.skew) { .int($0.components.seconds) },
            "in_sync": .bool(status.isInSync),
            "replicas": SyncReplicaReport.json(status.replicas),
        ])
    }

    static func stalledLogs(_ status: SyncStatus) -> JSON {
        .array(
            status.stalledLogs.map { log in
                .object([
                    "log": .string("\(log.position.author)"), "entry": .int(log.position.sequence),
                    "damaged": .bool(log.isDamaged), "since": .string(HistoryReport.moment(log.since)),
                    "given_up": .bool(log.isGivenUp), "needs_attention": .bool(log.needsAttention),
                ])
            })
    }

    static func quarantined(_ status: SyncStatus) -> JSON {
        .array(
            status.quarantined.sorted { $0.key < $1.key }.map {
                .object(["id": .string("\($0.key)"), "reason": .string($0.value)])
            })
    }

    /// Why the store is not in sync, also where nobody has to look at it yet; nil where it is.
    var obstacle: String? {
        let found = remotes.filter { !$0.status.isInSync }.map { "\($0.known.name): \(Self.state($0.status))" }
        return found.isEmpty ? nil : found.joined(separator: "; ")
    }

    private static func state(_ status: SyncStatus) -> String {
        if status.isInSync { return "in sync" }
        let waiting = status.stalledLogs.first { !$0.needsAttention && !$0.isGivenUp }.map { log in
            " (entry \(log.position.sequence) of log \(log.position.author) or its object has not come yet)"
        }
        let rest = [
            (status.pending, status.pending == 1 ? "waits for a parent" : "wait for a parent"),
            (status.stalled, (status.stalled == 1 ? "log" : "logs") + " cannot be read on" + (waiting ?? "")),
            (status.quarantined.count, "refused"),
        ].filter { $0.0 > 0 }.map { ", \($0.0) \($0.1)" }.joined()
        return "\(status.ahead) to push, \(status.behind) to pull" + rest
            + (status.hasFetched ? "" : ", nothing was fetched yet")
    }

    func lines(of path: String) -> [String] {
        var lines = [
            "repository   \(summary.repository), \(CountText.text(summary.commitCount, "commit"))",
            "tables       \(CountText.list(summary.tables))",
            "head         \(summary.head.map { "\($0)" } ?? "none"), \(CountText.text(summary.behind, "commit")) behind",
        ]
        if remotes.isEmpty { lines.append("remote       none yet") }
        for (known, status) in remotes {
            lines.append("remote       \(known.address.map { "\($0)" } ?? known.name): \(Self.state(status))")
            lines += SyncReplicaReport.lines(status.replicas)
        }
        return lines + attention.map { "attention    \($0)" }
    }
}
