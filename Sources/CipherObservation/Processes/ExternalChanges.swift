import CipherDatabase
import Synchronization

/// The changes of other processes, and of other objects that have the store open, by one author in sequence.
public struct ExternalChangeSet: Sendable {
    /// The keys of the rows of one table that have changed, each in one of the sets. A key has its values by the names of
    /// its columns: see ``HistoryChange/key``.
    public struct TableChanges: Sendable, Equatable {
        /// Rows that were inserted, or put in the place of others by a `REPLACE`.
        public internal(set) var inserted: Set<[String: DatabaseValue]> = []
        /// Rows that were updated, and those that were deleted and inserted again.
        public internal(set) var updated: Set<[String: DatabaseValue]> = []
        /// Rows that were deleted.
        public internal(set) var deleted: Set<[String: DatabaseValue]> = []
        /// Whether changes may be missing, so that the table must be read again: see ``HistoryChange/Kind/reset``.
        public internal(set) var isReset = false
    }

    /// Who wrote them; nil for writers without this library.
    public let author: HistoryAuthor?
    /// The transactions in the order of their commits, each change for itself.
    public let transactions: [HistoryTransaction]
    /// The sum of their changes, by table.
    public let tables: [String: TableChanges]
}

/// The changes of others as a sequence: see `externalChanges`.
public struct ExternalChanges: AsyncSequence, Sendable {
    public typealias Element = ExternalChangeSet

    let writer: any DatabaseWriter
    let token: HistoryToken?

    public struct AsyncIterator: AsyncIteratorProtocol {
        private let feed: Result<ExternalChangeFeed, any Error>
        private var token: HistoryToken?
        private var ready: ArraySlice<ExternalChangeSet> = []
        private var hasMore = true
        private var isOver = false
        private var commits: AsyncThrowingStream<Void, any Error>.Iterator?

        init(_ changes: ExternalChanges) {
            feed = Result { try ExternalChangeFeed(changes.writer, since: changes.token) }
            if case .success(let feed) = feed {
                token = feed.token
                commits = feed.commits.makeAsyncIterator()
            }
        }

        /// The next changes, after those that were returned before.
        ///
        /// - Throws: `HistoryError` `.notRecorded` where there is no history, `.expired` when changes
        ///   were purged before they were read; `StoreError` `storeMoved` when the store was replaced or removed,
        ///   `storeClosed` when it was closed; `DatabaseError`, of which a closed queue or pool throws `SQLITE_MISUSE`.
        ///   It ends the sequence.
        public mutating func next() async throws -> ExternalChangeSet? {
            do {
                while !isOver && !Task.isCancelled {
                    if let first = ready.popFirst() { return first }
                    let feed = try feed.get()
                    if !hasMore, try await commits?.next() == nil { break }
                    guard let since = token else { break }
                    let page = try await feed.page(since: since)
                    (token, hasMore) = (page.token, page.hasMore)
                    ready = ExternalChangeSet.sets(of: page.transactions)[...]
                }
            } catch is CancellationError {
                // The task that iterates was cancelled: the sequence ends.
            } catch {
                isOver = true
                throw error
            }
            isOver = true
            return nil
        }
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

extension DatabaseWriter {
    /// The next changes of other processes, and of other objects that have the store open, as sets of keys: for
    /// programs that merge changes into objects that they hold.
    ///
    /// ```swift
    /// for try await changes in store.externalChanges {
    ///     for key in changes.tables["player"]?.deleted ?? [] { forget(key) }
    /// }
    /// ```
    ///
    /// The tables must be recorded: see `recordHistory(of:columns:keeping:)`. The changes
    /// come in the order of the commits, each once, also those that were committed while the program did something
    /// else, or while the database was suspended; own changes are left out. The sequence begins when its iterator is
    /// made.
    public var externalChanges: ExternalChanges { ExternalChanges(writer: self, token: nil) }

    /// The same, from a token on.
    public func externalChanges(since token: HistoryToken) -> ExternalChanges {
        ExternalChanges(writer: self, token: token)
    }
}

extension ExternalChangeSet {
    /// - Parameter transactions: Transactions that follow each other.
    static func sets(of transactions: [HistoryTransaction]) -> [ExternalChangeSet] {
        var sets: [ExternalChangeSet] = []
        var rest = transactions[...]
        while let first = rest.first {
            let run = rest.prefix { $0.author == first.author }
            rest = rest.dropFirst(run.count)
            var tables: [String: TableChanges] = [:]
            for change in run.lazy.flatMap(\.changes) {
                tables[change.tableName, default: TableChanges()].add(change)
            }
            sets.append(ExternalChangeSet(author: first.author, transactions: Array(run), tables: tables))
        }
        return sets
    }
}

extension ExternalChangeSet.TableChanges {
    /// Adds a change that came after the others.
    mutating func add(_ change: HistoryChange) {
        let key = change.key
        switch change.kind {
        case .inserted:
            if deleted.remove(key) == nil, !updated.contains(key) { inserted.insert(key) } else { updated.insert(key) }
        case .updated:
            if !inserted.contains(key) { updated.insert(key) }
        case .deleted:
            // Also where it was inserted before: that may have been a REPLACE of a row that others know.
            inserted.remove(key)
            updated.remove(key)
            deleted.insert(key)
        case .reset: isReset = true
        }
    }
}
