import CipherStore
import Foundation

/// A transaction of the history, for people and for programs.
struct HistoryReport {
    private let transaction: HistoryTransaction
    /// The changes that are shown.
    let changes: [HistoryChange]

    /// - Parameter tables: The tables whose changes are shown, in lower case; empty for all.
    init(_ transaction: HistoryTransaction, tables: Set<String>) {
        self.transaction = transaction
        changes = transaction.changes.filter { tables.isEmpty || tables.contains($0.tableName.lowercased()) }
    }

    /// The values of rows that are shown.
    var values: [DatabaseValue] { changes.flatMap { Array($0.key.values) + Array($0.formerValues.values) } }

    var lines: [String] {
        let author = transaction.author.map { "by \"\($0.label)\"" } ?? "by a program without this library"
        let head = [
            transaction.date.map(Self.moment) ?? "at an unknown time", "transaction \(transaction.number)", author,
        ]
        let rest = transaction.isComplete ? [] : ["  (continued)"]
        return [head.joined(separator: "  ")] + changes.map(Self.line) + rest
    }

    /// - Parameter token: The place after the transaction, where that is known.
    func json(token: HistoryToken? = nil) -> JSON {
        let members = JSON.members([
            "transaction": .integer(transaction.number),
            "time": .optional(transaction.date) { .string(Self.moment($0)) },
            "author": .optional(transaction.author) { .string($0.label) },
            "complete": .bool(transaction.isComplete), "changes": .array(changes.map(Self.json)),
        ])
        return .object(members + (token.map { [JSON.Member(name: "token", value: .string("\($0)"))] } ?? []))
    }

    /// A time in UTC, to the millisecond.
    static func moment(_ date: Date) -> String {
        date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }

    private static func line(_ change: HistoryChange) -> String {
        let start = "  \(Help.padded(change.kind.rawValue, to: 9)) \(change.tableName)"
        if change.kind == .reset { return start + ": changes may be missing, read the whole table" }
        let columns = change.changedColumns.map { $0.sorted().joined(separator: ", ") }
        return start + "  " + text(change.key) + (columns.map { "  set: \($0)" } ?? "")
            + (change.formerValues.isEmpty ? "" : "  was: \(text(change.formerValues))")
    }

    private static func text(_ values: [String: DatabaseValue]) -> String {
        values.sorted { $0.key < $1.key }.map { name, value in
            let shown = value.shownText ?? "NULL"
            if case .string = value.storage { return "\(name) \"\(shown)\"" }
            return "\(name) \(shown)"
        }.joined(separator: ", ")
    }

    private static func json(_ change: HistoryChange) -> JSON {
        .object([
            "table": .string(change.tableName), "kind": .string(change.kind.rawValue), "key": json(change.key),
            "columns": .optional(change.changedColumns) { .array($0.sorted().map(JSON.string)) },
            "former": json(change.formerValues),
        ])
    }

    private static func json(_ values: [String: DatabaseValue]) -> JSON {
        .object(values.sorted { $0.key < $1.key }.map { JSON.Member(name: $0.key, value: $0.value.json) })
    }
}

/// The common parts of `history` and `watch`.
enum HistoryArguments {
    /// The most changes that are read at once.
    static let pageChanges = 1_000

    static let options = [
        OptionSyntax(
            "--since", value: "TOKEN", "only the changes after this position, as an earlier run has printed it"),
        OptionSyntax("--table", value: "T", "only changes of this table", isRepeatable: true),
    ]

    /// - Throws: ``UsageError`` for a text that is no token.
    static func token(_ arguments: ParsedArguments) throws(UsageError) -> HistoryToken? {
        guard let text = arguments.value("--since") else { return nil }
        guard let token = HistoryToken(text) else {
            throw UsageError("--since has no token.", hint: "Give a token as history or watch have printed it.")
        }
        return token
    }

    /// The named tables, in lower case as they are compared.
    static func tables(_ arguments: ParsedArguments) -> Set<String> {
        Set(arguments.values("--table").map { $0.lowercased() })
    }

    /// Names the tables whose changes are not recorded: a misspelled name would look like a table that nobody changes.
    static func noteUnrecorded(_ arguments: ParsedArguments, _ db: Database, _ console: Console) throws {
        let names = arguments.values("--table")
        guard !names.isEmpty, let recorded = try db.historyStatus()?.tableNames else { return }
        let known = Set(recorded.map { $0.lowercased() })
        for name in names where !known.contains(name.lowercased()) {
            let list = recorded.isEmpty ? "none are" : "those of \(recorded.joined(separator: ", ")) are"
            console.note("changes of \"\(name)\" are not recorded; \(list)")
        }
    }
}
