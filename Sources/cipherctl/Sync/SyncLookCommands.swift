import ChangesetSync
import CipherStore
import StoreTools

/// `sync log STORE`: lists commits.
struct SyncLogCommand: Command {
    static let syntax = CommandSyntax(
        name: "sync log",
        summary: "list the commits under the head, the latest first",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: [SyncLimit.option] + SyncAccess.options,
        examples: ["cipherctl sync log app.db --limit 20 --key-file app.key"])

    private let arguments: ParsedArguments
    private let limit: Int

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        limit = try SyncLimit.value(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.readOnly(arguments, console)
        defer { access.close() }
        let entries = try access.repository.logEntries(limit: limit)
        try console.report(
            json: .object(["store": .string(access.path), "commits": .array(entries.map(Self.json))]),
            lines: entries.isEmpty ? ["no commit yet"] : entries.flatMap(Self.lines))
        return .ok
    }

    private static func json(_ entry: SyncLogEntry) -> JSON {
        .object([
            "commit": .string("\(entry.id)"), "parents": .array(entry.parents.map { .string("\($0)") }),
            "merge": .bool(entry.isMerge), "author": .optional(entry.author) { .string("\($0)") },
            "time": .string(HistoryReport.moment(entry.date)), "pushed": .bool(entry.isPushed),
            "meta": .string(entry.meta),
        ])
    }

    /// The digits of a parent: enough for `--keep` and every other place of a commit.
    private static let shownDigits = 16

    private static func lines(_ entry: SyncLogEntry) -> [String] {
        let who = entry.author.map { "by \("\($0)".prefix(8))" } ?? "merge"
        let meta = entry.meta.isEmpty || entry.meta == "{}" ? "" : "  \(entry.meta)"
        let state = entry.isPushed ? "" : "  not pushed"
        let parents = entry.parents.map { String("\($0)".prefix(shownDigits)) }.joined(separator: ", ")
        return ["\(entry.id)", "  \(HistoryReport.moment(entry.date))  \(who)\(state)\(meta)"]
            + (parents.isEmpty ? [] : ["  \(entry.parents.count == 1 ? "parent" : "parents")  \(parents)"])
    }
}

/// `sync diff STORE COMMIT [COMMIT]`: shows what a commit has changed, or what differs between two.
struct SyncDiffCommand: Command {
    static let syntax = CommandSyntax(
        name: "sync diff",
        summary: "show what a commit has changed, or what differs between two commits",
        operands: [
            OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use"),
            OperandSyntax("COMMIT", "the first digits of its identifier, four at least, or HEAD"),
            OperandSyntax("OTHER", "the second commit: what leads from the first one to it", isOptional: true),
        ],
        options: SyncAccess.options,
        examples: [
            "cipherctl sync diff app.db HEAD --key-file app.key",
            "cipherctl sync diff app.db 3f2a9c HEAD --key-file app.key --json",
        ])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess.readOnly(arguments, console)
        defer { access.close() }
        let commits = try arguments.operands.dropFirst().map(access.repository.commit(named:))
        let changes =
            try commits.count == 1
            ? access.repository.changes(of: commits[0])
            : access.repository.diff(from: commits[0], to: commits[1])
        try console.report(
            json: .object([
                "store": .string(access.path), "commits": .array(commits.map { .string("\($0)") }),
                "changes": .array(changes.map(Self.json)),
            ]),
            lines: changes.isEmpty ? ["nothing differs"] : changes.map(Self.line))
        Console.noteReplacements(
            in: changes.flatMap { Array($0.key.values) + Array($0.old.values) + Array($0.new.values) })
        return .ok
    }

    private static func json(_ change: SyncRowChange) -> JSON {
        .object([
            "table": .string(change.table), "kind": .string(change.kind.rawValue), "key": json(change.key),
            "old": json(change.old), "new": json(change.new),
        ])
    }

    private static func json(_ values: [String: DatabaseValue]) -> JSON {
        .object(values.sorted { $0.key < $1.key }.map { JSON.Member(name: $0.key, value: $0.value.json) })
    }

    private static func line(_ change: SyncRowChange) -> String {
        let start = "\(Help.padded(change.kind.rawValue, to: 9)) \(change.table)  \(SyncValues.text(change.key))"
        guard change.kind == .updated else {
            let values = (change.kind == .inserted ? change.new : change.old).filter { change.key[$0.key] == nil }
            return values.isEmpty ? start : start + "  (\(SyncValues.text(values)))"
        }
        let cells = change.new.sorted { $0.key < $1.key }.filter { change.key[$0.key] == nil }.map { name, value in
            "\(name): \(SyncValues.text(change.old[name] ?? .null)) -> \(SyncValues.text(value))"
        }
        return start + "  " + cells.joined(separator: ", ")
    }
}

/// `sync revert STORE COMMIT`: undoes a commit by another one.
struct SyncRevertCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync revert",
        summary: "make a commit that undoes another one",
        operands: [
            SyncAccess.storeOperand,
            OperandSyntax("COMMIT", "the first digits of its identifier, four at least, or HEAD"),
        ],
        options: [
            OptionSyntax(
                "--keep", value: "PARENT", "of a merge, the parent that stays: the work of the other side is undone"),
            SyncMeta.option,
        ] + SyncAccess.options,
        examples: [
            "cipherctl sync revert app.db 3f2a9c --key-file app.key",
            "cipherctl sync revert app.db HEAD --keep 81d0aa --key-file app.key",
        ],
        notes: [
            "It is refused if a later commit has changed the same rows or refers to them (65), and for a merge without "
                + "--keep (64)."
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
        let commit = try access.repository.commit(named: arguments.operands[1])
        let kept = try arguments.value("--keep").map(access.repository.commit(named:))
        let made = try access.repository.revert(commit, keeping: kept, meta: meta)
        try console.report(
            json: .object([
                "store": .string(access.path), "reverted": .string("\(commit)"),
                "commit": .optional(made) { .string($0.uuid) },
            ]),
            lines: [made.map { "commit \($0.uuid) undoes \(commit)" } ?? "commit \(commit) has changed nothing"])
        return .ok
    }
}

/// `sync conflicts STORE`: lists what merges had to choose between.
struct SyncConflictsCommand: Command {
    var changesFiles: Bool { arguments.has("--clear") }
    static let syntax = CommandSyntax(
        name: "sync conflicts",
        summary: "list what merges had to choose between; exit code 2 when there is any",
        operands: [SyncAccess.storeOperand],
        options: [SyncLimit.option, OptionSyntax("--clear", "forget them, when they were looked at")]
            + SyncAccess.options,
        examples: [
            "cipherctl sync conflicts app.db --key-file app.key",
            "cipherctl sync conflicts app.db --clear --key-file app.key",
        ],
        notes: [
            "Each has the values at the common ancestor, of both sides, and the chosen one. Every device has chosen the "
                + "same. To choose otherwise, write the row in a new commit. With --clear they are printed once more."
        ])

    private let arguments: ParsedArguments
    private let limit: Int

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        limit = try SyncLimit.value(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let clears = arguments.has("--clear")
        let access = try clears ? SyncAccess.writable(arguments, console) : SyncAccess.readOnly(arguments, console)
        defer { access.close() }
        let conflicts = try access.repository.conflicts(limit: limit)
        try console.report(
            json: .object([
                "store": .string(access.path), "conflicts": .array(conflicts.map(Self.json)), "cleared": .bool(clears),
            ]),
            lines: conflicts.isEmpty ? ["no conflict"] : conflicts.map(Self.line))
        Console.noteReplacements(in: conflicts.flatMap { $0.key + $0.base + $0.ours + $0.theirs + $0.chosen })
        if clears { try access.repository.removeConflicts() }
        return conflicts.isEmpty || clears ? .ok : .needsAttention
    }

    private static func json(_ conflict: SyncConflict) -> JSON {
        func list(_ values: [DatabaseValue]) -> JSON { .array(values.map(\.json)) }
        return .object([
            "merge": .string("\(conflict.merge)"), "table": .string(conflict.table), "key": list(conflict.key),
            "column": .optional(conflict.column, JSON.string), "reason": .string(conflict.reason.rawValue),
            "base": list(conflict.base), "ours": list(conflict.ours), "theirs": list(conflict.theirs),
            "chosen": list(conflict.chosen),
        ])
    }

    private static func line(_ conflict: SyncConflict) -> String {
        let column = conflict.column.map { ".\($0)" } ?? ""
        return "\(conflict.table)\(column) \(SyncValues.text(conflict.key)): \(SyncValues.text(conflict.ours)) or "
            + "\(SyncValues.text(conflict.theirs)), chosen \(SyncValues.text(conflict.chosen)) (\(conflict.reason.rawValue))"
    }
}

/// Values of rows for people.
enum SyncValues {
    static func text(_ value: DatabaseValue) -> String {
        if case .string(let text) = value.storage { return "\"\(text)\"" }
        return value.shownText ?? "NULL"
    }

    static func text(_ values: [DatabaseValue]) -> String {
        values.isEmpty ? "no row" : values.map { text($0) }.joined(separator: ", ")
    }

    static func text(_ values: [String: DatabaseValue]) -> String {
        values.sorted { $0.key < $1.key }.map { "\($0.key) \(text($0.value))" }.joined(separator: ", ")
    }
}

/// `--limit`.
enum SyncLimit {
    static let option = OptionSyntax("--limit", value: "N", "the most that are listed; 100 unless given")

    static func value(_ arguments: ParsedArguments) throws(UsageError) -> Int {
        let text = arguments.value(option.name) ?? "100"
        guard let limit = Int(text), (1...1_000_000).contains(limit) else {
            throw UsageError("--limit is not a number from 1 to 1000000.", hint: "For example: --limit 20")
        }
        return limit
    }
}
