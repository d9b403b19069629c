import CipherDatabase
import Foundation

/// The change of one row, as the history has recorded it.
public struct HistoryChange: Hashable, Sendable {
    /// The event.
    public enum Kind: String, Sendable, Codable {
        /// The row was inserted. If a row had the same key, a `REPLACE` has put this one in its place.
        case inserted
        case updated
        case deleted
        /// Not a row but the whole table: changes may be missing. It comes when its recording began or ended, when the
        /// table was renamed, dropped, created again or its columns were changed, after `VACUUM` where it has no
        /// primary key, and when another program dropped or changed the triggers. Read the table again.
        case reset
    }

    /// The event.
    public let kind: Kind
    /// The table, by the name that it had then.
    public let tableName: String
    /// The primary key by the names of its columns; `rowid` for a table that declares none. Empty for a reset.
    public let key: [String: DatabaseValue]
    /// The key, where it is the rowid.
    public let rowID: Int64?
    /// The columns that an update has changed, where that is recorded.
    public let changedColumns: Set<String>?
    /// The kept values of a deleted row, by column.
    public let formerValues: [String: DatabaseValue]

    init(_ entry: HistoryEntry) {
        kind =
            switch entry.operation {
            case .inserted: .inserted
            case .updated: .updated
            case .deleted, .perhapsDeleted: .deleted
            case .reset: .reset
            }
        tableName = entry.tableName
        key = Dictionary(zip(entry.keyColumns, entry.key), uniquingKeysWith: { first, _ in first })
        rowID = entry.rowID
        changedColumns = entry.columns
        formerValues = entry.former
    }
}

/// Who has written: one open store, pool or queue.
public struct HistoryAuthor: Hashable, Sendable {
    /// `Configuration.label`, or else the name of the process.
    public let label: String
    let identity: Int64
}

/// The changes of one transaction.
public struct HistoryTransaction: Sendable {
    /// The number of its first change. Later transactions have higher numbers.
    public let number: Int64
    /// When it wrote its first change, by the clock of the writer; nil for a writer without this library.
    public let date: Date?
    /// Who wrote it; nil for a writer without this library. Consecutive transactions of several such writers count as
    /// one transaction.
    public let author: HistoryAuthor?
    /// The changes, in their order.
    public let changes: [HistoryChange]
    /// Whether these are its last changes. A transaction that is longer than a page is continued on the next one, with
    /// the same number.
    public let isComplete: Bool
}

/// A part of the history.
public struct HistoryPage: Sendable {
    /// The transactions in the order of their commits. There may be none even where there are more pages.
    public let transactions: [HistoryTransaction]
    /// The place after this page.
    public let token: HistoryToken
    /// Whether there are more pages.
    public let hasMore: Bool
}

extension Database {
    /// Who this connection is in the history.
    public var historyAuthor: HistoryAuthor {
        HistoryAuthor(
            label: configuration.label ?? ProcessInfo.processInfo.processName, identity: historyAuthorIdentity)
    }

    /// A page of the changes after a token.
    ///
    /// Pages that follow each other, each read with the token of the one before, have every change once, in the order
    /// of the commits.
    ///
    /// - Parameters:
    ///   - token: Where the page begins.
    ///   - author: Whose transactions are left out, as this program's own ones.
    ///   - limit: The most changes of a page.
    /// - Throws: `HistoryError` `.notRecorded` where there is no history, `.expired` when changes after
    ///   the token are missing; `DatabaseError`.
    public func history(
        since token: HistoryToken, excluding author: HistoryAuthor? = nil, limit: Int = 1_000
    ) throws -> HistoryPage {
        try isolated(readOnly: true) {
            try requireValid(token)
            let limit = max(1, min(limit, 1_000_000))
            var entries = try historyEntries(after: token.number, limit: limit + 1)
            let next = entries.count > limit ? entries.removeLast() : nil
            // Whole transactions, unless the first one is longer than the page.
            if let next, let end = entries.lastIndex(where: { $0.origin != next.origin }) {
                entries.removeSubrange((end + 1)...)
            }
            guard let first = entries.first, let last = entries.last else {
                return HistoryPage(transactions: [], token: token, hasMore: false)
            }
            let isOpen = next?.origin == last.origin && next != nil
            let numbers = entries.transactionNumbers(first: token.transaction ?? first.number)
            let resolved = try resolvingDeletions(in: entries, isEnd: next == nil)
            return HistoryPage(
                transactions: try transactions(
                    of: resolved, numbers, excluding: author, open: isOpen ? numbers[last.number] : nil),
                token: HistoryToken(
                    history: token.history, number: last.number, fingerprint: last.fingerprint,
                    transaction: isOpen ? numbers[last.number] : nil),
                hasMore: next != nil)
        }
    }

    /// - Parameters:
    ///   - numbers: The number of the transaction of each change.
    ///   - open: The number of the transaction that is continued on the next page.
    private func transactions(
        of entries: [HistoryEntry], _ numbers: [Int64: Int64], excluding excluded: HistoryAuthor?, open: Int64?
    ) throws -> [HistoryTransaction] {
        let authors = try historyAuthors(Set(entries.compactMap(\.author)))
        var transactions: [HistoryTransaction] = []
        for group in entries.chunked(by: { numbers[$0.number] == numbers[$1.number] }) {
            let first = group[0]
            let author = first.author.flatMap { authors[$0] }.map {
                HistoryAuthor(label: $0.label, identity: $0.identity)
            }
            if let excluded, author?.identity == excluded.identity { continue }
            let number = numbers[first.number] ?? first.number
            transactions.append(
                HistoryTransaction(
                    number: number, date: first.seconds.map { Date(timeIntervalSince1970: $0) }, author: author,
                    changes: group.map(HistoryChange.init), isComplete: number != open))
        }
        return transactions
    }
}

extension DatabaseReader {
    /// A page of the changes after a token, of which the last commit is the end: see
    /// `history(since:excluding:limit:)`.
    ///
    /// - Throws: `HistoryError` `.notRecorded` where there is no history, `.expired` when changes after
    ///   the token are missing; `DatabaseError`.
    public func history(
        since token: HistoryToken, excluding author: HistoryAuthor? = nil, limit: Int = 1_000
    ) throws -> HistoryPage {
        try read { try $0.history(since: token, excluding: author, limit: limit) }
    }

    /// The same, without blocking the thread.
    public func history(
        since token: HistoryToken, excluding author: HistoryAuthor? = nil, limit: Int = 1_000
    ) async throws -> HistoryPage {
        try await read { try $0.history(since: token, excluding: author, limit: limit) }
    }
}

extension DatabaseWriter {
    /// Who this store, pool or queue is in the history. It stays the same when its connection is opened again.
    public var historyAuthor: HistoryAuthor { unsafeReentrantWrite { $0.historyAuthor } }
}

extension [HistoryEntry] {
    /// The number of the transaction of each change, by the number of the change.
    fileprivate func transactionNumbers(first: Int64) -> [Int64: Int64] {
        var numbers: [Int64: Int64] = [:]
        var (number, former) = (first, self.first)
        for entry in self {
            if entry.origin != former?.origin { number = entry.number }
            numbers[entry.number] = number
            former = entry
        }
        return numbers
    }

    /// The parts of successive entries that a condition joins.
    fileprivate func chunked(by isSame: (HistoryEntry, HistoryEntry) -> Bool) -> [[HistoryEntry]] {
        var chunks: [[HistoryEntry]] = []
        for entry in self {
            if let last = chunks.last?.last, isSame(last, entry) {
                chunks[chunks.count - 1].append(entry)
            } else {
                chunks.append([entry])
            }
        }
        return chunks
    }
}
