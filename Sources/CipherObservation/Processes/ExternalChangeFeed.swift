import CipherDatabase
import Synchronization

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
    private final class CommitObserver: ExternalCommitObserver, Sendable {
        private let continuation: AsyncThrowingStream<Void, any Error>.Continuation
        let region = DatabaseRegion()

        init(_ continuation: AsyncThrowingStream<Void, any Error>.Continuation) { self.continuation = continuation }

        func didCommitExternally() { continuation.yield() }
        func regionMayBeObsolete() {}
        func observationDidFail(_ error: any Error) { continuation.finish(throwing: error) }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidCommit(_ db: Database) {}
        func databaseDidRollback(_ db: Database) {}
    }
}
