import CipherStore
import ChangesetSync
import StorePlatform
import StoreTools

/// `sync log STORE`: lists commits.
struct SyncLogCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync log",
        summary: "list the joined commits, the latest first",
        operands: [SyncAccess.readOperand], options: [SyncCommit.limit] + SyncAccess.options,
        examples: ["cipherctl sync log app.db --limit 20 --key-file app.key"])

    let arguments: ParsedArguments
    private let limit: Int

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        limit = try SyncCommit.limit(arguments)
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let entries = try access.repository.logEntries(limit: limit)
        let names = Dictionary(uniqueKeysWithValues: try access.repository.members().map { ($0.id, $0.name) })
        try console.report(
            json: .object([
                "store": .string(access.path),
                "commits": .array(entries.map { Self.json($0, names[$0.author] ?? "") }),
            ]),
            lines: entries.isEmpty ? ["no commit yet"] : entries.flatMap { Self.lines($0, names[$0.author] ?? "") })
        return .ok
    }

    private static func json(_ entry: LogEntry, _ name: String) -> JSON {
        .object([
            "commit": .string(entry.changeset.uuid), "parent": .optional(entry.changeset.parent_uuid, JSON.string),
            "member": .string(entry.author), "name": .string(name), "number": .int(Int(clamping: entry.number)),
            "time": .string(HistoryReport.moment(entry.time)), "pushed": .bool(entry.changeset.pushed),
            "forgotten": .bool(entry.changeset.parent_changeset.isEmpty), "meta": .string(entry.changeset.meta),
        ])
    }

    private static func lines(_ entry: LogEntry, _ name: String) -> [String] {
        let who = name.isEmpty ? String(entry.author.prefix(SyncMembersCommand.shownDigits)) : "\"\(name)\""
        let meta = entry.changeset.meta == "{}" ? "" : "  \(entry.changeset.meta)"
        let state = entry.changeset.pushed ? "" : "  not pushed"
        return [
            entry.changeset.uuid, "  \(HistoryReport.moment(entry.time))  \(who) number \(entry.number)\(state)\(meta)",
        ]
    }
}

/// `sync diff STORE COMMIT [OTHER]`: shows what a commit has changed, or what leads from one to another.
struct SyncDiffCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync diff",
        summary: "show what a commit has changed, or what leads from one commit to another",
        operands: [
            SyncAccess.readOperand, SyncCommit.operand,
            OperandSyntax("OTHER", "the second commit: what it had and the first one had not", isOptional: true),
        ],
        options: SyncAccess.options,
        examples: [
            "cipherctl sync diff app.db HEAD --key-file app.key",
            "cipherctl sync diff app.db 3f2a9c HEAD --key-file app.key --json",
        ],
        notes: ["The written values are shown. A commit for which a snapshot stands has none."])

    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let commits = try arguments.operands.dropFirst().map(access.repository.changeset(named:))
        let changes: [ChangesetSync.RowChange]
        if commits.count > 1 {
            changes = try access.repository.diff(from: commits[0].uuid, to: commits[1].uuid)
        } else if commits[0].merge_uuid != nil {
            // A union has what it joined to the head before it.
            changes = try access.repository.diff(from: commits[0].parent_uuid, to: commits[0].uuid)
        } else {
            changes = try access.repository.changes(of: commits[0].uuid)
        }
        try console.report(
            json: .object([
                "store": .string(access.path), "commits": .array(commits.map { .string($0.uuid) }),
                "changes": .array(changes.map(Self.json)),
            ]),
            lines: changes.isEmpty ? ["nothing differs"] : changes.map(Self.line))
        Console.noteReplacements(in: changes.flatMap { $0.key + Array($0.values.values) })
        return .ok
    }

    private static func json(_ change: ChangesetSync.RowChange) -> JSON {
        .object([
            "table": .string(change.table), "kind": .string(change.kind.rawValue),
            "key": .array(change.key.map(\.json)), "values": SyncValues.json(change.values),
            "added": .object(
                change.steps.sorted { $0.key < $1.key }.map { JSON.Member(name: $0.key, value: .int($0.value)) }),
        ])
    }

    private static func line(_ change: ChangesetSync.RowChange) -> String {
        let added = change.steps.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value < 0 ? "" : "+")\($0.value)" }
        let values = (change.values.isEmpty ? [] : [SyncValues.text(change.values)]) + added
        return "\(Help.padded(change.kind.rawValue, to: 9)) \(change.table)  \(SyncValues.text(change.key))"
            + (values.isEmpty ? "" : "  (\(values.joined(separator: ", ")))")
    }
}

/// `sync conflicts STORE`: lists the rows that are not shown as they were written.
struct SyncConflictsCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync conflicts",
        summary: "list the rows that are not shown as they were written, and why; exit code 2 when there is any",
        operands: [SyncAccess.readOperand], options: [SyncCommit.limit] + SyncAccess.options,
        examples: ["cipherctl sync conflicts app.db --key-file app.key"],
        notes: [
            "They are the same on every device with the same tables. A commit that changes one of the rows settles its "
                + "conflict everywhere: cipherctl sync commit. To write a hidden row, insert a row with its key."
        ])

    let arguments: ParsedArguments
    private let limit: Int

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        limit = try SyncCommit.limit(arguments)
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let all = try access.repository.conflicts()
        let conflicts = all.prefix(limit)
        try console.report(
            json: .object([
                "store": .string(access.path), "count": .int(all.count),
                "conflicts": .array(conflicts.map(Self.json)),
            ]),
            lines: conflicts.isEmpty ? ["no conflict"] : conflicts.map(Self.line))
        Console.noteReplacements(in: conflicts.flatMap { $0.key + Array($0.written.values) })
        return conflicts.isEmpty ? .ok : .needsAttention
    }

    private static func json(_ conflict: SyncConflict) -> JSON {
        .object([
            "table": .string(conflict.table), "key": .array(conflict.key.map(\.json)),
            "reason": .string(conflict.reason.rawValue), "written": SyncValues.json(conflict.written),
            "shown": .optional(conflict.shown, SyncValues.json),
        ])
    }

    private static func line(_ conflict: SyncConflict) -> String {
        let shown = conflict.shown.map { "shown as \(SyncValues.text($0))" } ?? "hidden"
        return
            "\(conflict.table) \(SyncValues.text(conflict.key)): written \(SyncValues.text(conflict.written)), \(shown) "
            + "(\(conflict.reason.meaning))"
    }
}

/// `sync verify STORE`: compares the rows with the commits.
struct SyncVerifyCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync verify",
        summary: "compare the rows with the commits, and print their digest; exit code 2 when a row differs",
        operands: [SyncAccess.readOperand], options: SyncAccess.options,
        examples: ["cipherctl sync verify app.db --key-file app.key"],
        notes: [
            "Devices with equal heads have equal digests. If they differ, one of the stores is damaged, or rows were "
                + "written outside of commits there."
        ])

    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let result = try access.repository.verify()
        try console.report(
            json: .object([
                "store": .string(access.path), "head": .optional(result.head, JSON.string),
                "digest": .string(result.digest),
                "differences": .array(
                    result.differences.map { difference in
                        let (kind, table, key) = difference.parts
                        return .object([
                            "kind": .string(kind), "table": .string(table), "key": .array(key.map(\.json)),
                        ])
                    }),
            ]),
            lines: ["head     \(result.head ?? "none")", "digest   \(result.digest)"]
                + result.differences.map { difference in
                    let (kind, table, key) = difference.parts
                    return "\(kind): \(table) \(SyncValues.text(key))"
                })
        return result.differences.isEmpty ? .ok : .needsAttention
    }
}

extension SyncVerification.Difference {
    fileprivate var parts: (kind: String, table: String, key: [DatabaseValue]) {
        switch self {
        case .unrecorded(let table, let key): ("unrecorded", table, key)
        case .missing(let table, let key): ("missing", table, key)
        case .other(let table, let key): ("other", table, key)
        }
    }
}

/// Values of rows for people and for programs.
enum SyncValues {
    static func text(_ value: DatabaseValue) -> String {
        if case .string(let text) = value.storage { return "\"\(text)\"" }
        return value.shownText ?? "NULL"
    }

    static func text(_ values: [DatabaseValue]) -> String { values.map { text($0) }.joined(separator: ", ") }

    static func text(_ values: [String: DatabaseValue]) -> String {
        values.sorted { $0.key < $1.key }.map { "\($0.key) \(text($0.value))" }.joined(separator: ", ")
    }

    static func json(_ values: [String: DatabaseValue]) -> JSON {
        .object(values.sorted { $0.key < $1.key }.map { JSON.Member(name: $0.key, value: $0.value.json) })
    }
}
