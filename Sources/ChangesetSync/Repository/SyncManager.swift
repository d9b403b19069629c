import CipherDatabase
import Dispatch

/// Exchanges the commits of a repository with one remote.
///
/// ```swift
/// let manager = try SyncManager(repository, folder: "/mnt/shared")
/// try await manager.setup()
/// try await manager.sync()
/// ```
///
/// A call that fails leaves nothing half done, and may be repeated. No call requires an earlier call.
// Safe because: the exchange is used on the queue alone.
public final class SyncManager: @unchecked Sendable {
    public let repository: ChangesetRepository
    /// The name under which the store remembers the remote.
    public let name: String
    private let remote: any ObjectStore
    private let queue = DispatchQueue(label: "ChangesetSync.SyncManager")
    /// It knows the last listing, so that an exchange with nothing new is short.
    private var exchange: Exchange?

    /// - Parameters:
    ///   - path: An existing folder: on a disk, a network share, or one that another program synchronizes.
    ///   - name: The name under which the store remembers the remote; the path if there is none.
    /// - Throws: `DatabaseError`
    public convenience init(_ repository: ChangesetRepository, folder path: String, named name: String? = nil) throws {
        let store = FolderStore(path: path, repository: try repository.store().repository)
        self.init(repository, remote: store, named: name ?? path)
    }

    package init(_ repository: ChangesetRepository, remote: any ObjectStore, named name: String) {
        (self.repository, self.remote, self.name) = (repository, remote, name)
    }

    /// Puts what the remote lacks. It is ``push()`` under the name that programs call first.
    ///
    /// - Throws: As ``push()``.
    public func setup() async throws { try await push() }

    /// Puts what the remote lacks: commits of this store and of others, and the list of members.
    ///
    /// - Returns: The number of commits that were sent.
    /// - Throws: What a call of the remote has thrown; `DatabaseError`.
    @discardableResult
    public func push() async throws -> Int { try await inTurn { try self.exchange(.putting).sentCommits } }

    /// Fetches what is new, and joins nothing: ``ChangesetRepository/pull()`` does.
    ///
    /// - Returns: The number of commits that were received.
    /// - Throws: What a call of the remote has thrown; `DatabaseError`.
    @discardableResult
    public func fetch() async throws -> Int { try await inTurn { try self.exchange(.fetching).receivedCommits } }

    /// Fetches, pulls and pushes.
    ///
    /// - Returns: The new head; nil where it is the same as before.
    /// - Throws: What a call of the remote has thrown; `DatabaseError`.
    @discardableResult
    public func sync() async throws -> Changeset? {
        try await inTurn {
            let failure = try self.exchangeOrFailure(.fetching)
            // Commits that have arrived are joined, whatever failed.
            let head = try self.repository.pull()
            if let failure { throw failure }
            _ = try self.exchange(.both)
            // The remote may have got commits in between.
            return try self.repository.pull() ?? head
        }
    }

    /// Forgets what is known of the remote: the next call reads it from the beginning. No commit is lost by it, and no
    /// fault of a remote needs it.
    ///
    /// - Throws: `DatabaseError`
    public func reset() async throws {
        try await inTurn {
            self.exchange = nil
            try self.repository.forget(remote: self.name)
        }
    }

    // MARK: Turns

    private func exchangeOrFailure(_ direction: Exchange.Direction) throws -> RemoteFailure? {
        do {
            _ = try exchange(direction)
            return nil
        } catch let failure as RemoteFailure {
            return failure
        }
    }

    private func exchange(_ direction: Exchange.Direction) throws -> ExchangeReport {
        try repository.prepare()
        let exchange = try self.exchange ?? Exchange(repository.store(), with: remote, named: name)
        self.exchange = exchange
        let report = try repository.run(exchange, direction)
        if let failure = report.failures.first { throw failure }
        return report
    }

    /// Runs one call after the other, on a thread that may wait.
    private func inTurn<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try body() }) }
        }
    }
}
