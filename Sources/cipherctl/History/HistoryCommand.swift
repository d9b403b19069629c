import CipherStore
import StoreTools

/// `history STORE`: lists the changes that a store has recorded.
struct HistoryCommand: Command {
    static let syntax = CommandSyntax(
        name: "history",
        summary: "list the changes that a store has recorded: what, when, by whom",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: HistoryArguments.options + [
            OptionSyntax("--limit", value: "N", "the most changes that are listed; 100 unless given"), .json, .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl history app.db --key-file app.key",
            "cipherctl history app.db --table note --limit 20 --key-file app.key",
            "cipherctl history app.db --since \"$TOKEN\" --limit 1000 --json --key-file app.key",
        ],
        notes: [
            "Without --since these are the last changes, with it the first ones after that place. Transactions are in "
                + "the order of their commits. The result ends with the token of the place after it, for --since.",
            "A store records changes after `cipherctl history record`, or after its program has asked for that. Times are "
                + "those of the writers' clocks, in UTC. Changes of programs without this library have neither time nor name.",
        ])

    private let path: String
    private let since: HistoryToken?
    private let tables: Set<String>
    private let limit: Int
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        since = try HistoryArguments.token(arguments)
        tables = HistoryArguments.tables(arguments)
        let text = arguments.value("--limit") ?? "100"
        guard let limit = Int(text), (1...1_000_000).contains(limit) else {
            throw UsageError("--limit is not a number from 1 to 1000000.", hint: "For example: --limit 20")
        }
        self.limit = limit
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store = try StoreOpening.readOnly(path, key, onNotice: console.note)
        defer { try? store.close() }
        // One snapshot: what is written meanwhile comes after the token.
        let list = try store.read { db -> Listing in
            try HistoryArguments.noteUnrecorded(arguments, db, console)
            if let since { return try first(db, after: since) }
            return try last(db)
        }
        try console.report(
            json: .object([
                "store": .string(path), "token": .string("\(list.token)"), "has_more": .bool(list.hasMore),
                "transactions": .array(list.transactions.map { $0.json() }),
            ]),
            lines: list.transactions.flatMap(\.lines) + [
                "\(list.hasMore ? "more follows" : "end"), token \(list.token)"
            ])
        Console.noteReplacements(in: list.transactions.flatMap(\.values))
        return .ok
    }

    private struct Listing {
        var transactions: [HistoryReport] = []
        var token: HistoryToken
        var hasMore = false
    }

    /// The first changes after a place.
    private func first(_ db: Database, after since: HistoryToken) throws -> Listing {
        var list = Listing(token: since)
        var left = limit
        repeat {
            let page = try db.history(since: list.token, limit: min(left, HistoryArguments.pageChanges))
            let shown = page.transactions.map { HistoryReport($0, tables: tables) }.filter { !$0.changes.isEmpty }
            list.transactions += shown
            left -= shown.reduce(0) { $0 + $1.changes.count }
            (list.token, list.hasMore) = (page.token, page.hasMore)
        } while list.hasMore && left > 0
        return list
    }

    /// The last changes: whole transactions, and at least one.
    private func last(_ db: Database) throws -> Listing {
        var list = Listing(
            token: try tables.isEmpty ? db.historyToken(beforeLast: limit) : db.oldestHistoryToken())
        var count = 0
        while true {
            let page = try db.history(since: list.token, limit: HistoryArguments.pageChanges)
            let shown = page.transactions.map { HistoryReport($0, tables: tables) }.filter { !$0.changes.isEmpty }
            list.transactions += shown
            count += shown.reduce(0) { $0 + $1.changes.count }
            list.token = page.token
            while let first = list.transactions.first, list.transactions.count > 1,
                count - first.changes.count >= limit
            {
                count -= first.changes.count
                list.transactions.removeFirst()
            }
            if !page.hasMore { return list }
        }
    }
}
