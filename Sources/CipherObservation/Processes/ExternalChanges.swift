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

/// The commits of others, for one iteration.
final class ExternalChangeFeed: Sendable {
    let token: HistoryToken
    /// An element whenever there may be something new.
    let commits: AsyncThrowingStream<Void, any Error>
    private let writer: any DatabaseWriter
    private let author: HistoryAuthor
    private let suspension: DatabaseSuspension
    private let observer: CommitObserver
    private let closing: ReaderClosing?
    private let closingWait: ReaderClosing.Wait?

    init(_ writer: any DatabaseWriter, since token: HistoryToken?) throws {
        let (commits, continuation) = AsyncThrowingStream.makeStream(
            of: Void.self, throwing: (any Error).self, bufferingPolicy: .bufferingNewest(1))
        let observer = CommitObserver(continuation)
        (self.writer, self.commits, self.observer) = (writer, commits, observer)
        (self.token, author, suspension) = try writer.unsafeReentrantWrite { db in
            try db.requireObservable()
            let token = try token ?? Self.latestToken(db)
            // Before anything is read: what is committed from here on is noticed.
            db.add(transactionObserver: observer)
            return (token, db.historyAuthor, db.suspension)
        }
        closing = writer.closingOfReader
        closingWait = closing?.whenClosed { continuation.finish(throwing: $0) }
    }

    /// Reads at once again what a suspension has interrupted: later, there would be changes before the token.
    private static func latestToken(_ db: Database) throws -> HistoryToken {
        while true {
            let suspensions = db.suspension.count
            do {
                return try db.historyToken()
            } catch let error as DatabaseError where error.isInterruptionError {
                if db.suspension.count == suspensions { throw error }
            }
        }
    }

    /// The changes after a token. A read that a suspension ended is repeated after it.
    func page(since token: HistoryToken) async throws -> HistoryPage {
        while true {
            let suspensions = suspension.count
            do {
                return try await writer.history(since: token, excluding: author)
            } catch let error where suspension.explains(error, since: suspensions) {
                try await suspension.waitUntilResumed(orClosed: closing)
            }
        }
    }

    /// Receives the commits of other connections, and nothing else.
    private final class CommitObserver: ForeignCommitObserver, Sendable {
        private let continuation: AsyncThrowingStream<Void, any Error>.Continuation
        let region = DatabaseRegion()

        init(_ continuation: AsyncThrowingStream<Void, any Error>.Continuation) { self.continuation = continuation }

        func othersDidCommit() { continuation.yield() }
        func regionMayBeObsolete() {}
        func observationDidFail(_ error: any Error) { continuation.finish(throwing: error) }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidCommit(_ db: Database) {}
        func databaseDidRollback(_ db: Database) {}
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
