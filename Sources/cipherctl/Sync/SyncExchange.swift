import ChangesetSync
import CipherStore
import StorePlatform

/// Exchanges a store with its remotes. One remote that fails keeps no other one from the exchange.
final class SyncExchange {
    /// The result of one exchange with all remotes.
    struct Round {
        var (fetched, pushed, repaired, snapshots) = (0, 0, 0, 0)
        var hasJoined = false
        /// The remotes that have failed.
        var failures: [(remote: String, error: any Error)] = []

        var hasMoved: Bool { fetched > 0 || pushed > 0 || repaired > 0 || snapshots > 0 || hasJoined }
    }

    private let access: SyncAccess
    private let progress: SyncProgress
    private let remotes: SyncRemotes
    /// An exchange remembers the last listing, so that one with nothing new is short.
    private var exchanges: [String: Exchange] = [:]
    private var revisions: [String: UInt64] = [:]

    /// - Parameter given: The remote of `--remote`; nil for all.
    init(_ access: SyncAccess, given: RemoteAddress?, _ progress: SyncProgress) throws {
        (self.access, self.progress) = (access, progress)
        remotes = try SyncRemotes(access.repository, given: given, progress)
    }

    var names: [String] { remotes.all.map(\.name) }

    /// Fetches, joins and puts. Each remote gets what the others have brought.
    func run() throws -> Round {
        var round = Round()
        for remote in remotes.all { try exchange(remote, .both, "syncing", &round) }
        round.hasJoined = try join()
        // Joining may make commits, and a later remote may have brought some.
        for remote in remotes.all where !round.failures.contains(where: { $0.remote == remote.name }) {
            if try access.repository.revision() != revisions[remote.name] {
                try exchange(remote, .both, "syncing", &round)
            }
        }
        if try join() { round.hasJoined = true }
        return round
    }

    /// Fetches or puts alone, and joins nothing.
    func run(_ direction: Exchange.Direction) throws -> Round {
        var round = Round()
        for remote in remotes.all {
            try exchange(remote, direction, direction == .fetching ? "fetching" : "pushing", &round)
        }
        return round
    }

    /// Puts a snapshot at each remote, and deletes what it covers.
    func compact() throws -> [(remote: String, report: ExchangeReport)] {
        try remotes.all.map { remote in
            progress.begin("making a snapshot")
            defer { progress.end() }
            let report = try failing(remote) { try access.repository.compact(remote.objects, named: remote.name) }
            if let failure = report.failures.first { throw failure }
            return (remote.name, report)
        }
    }

    private func join() throws -> Bool {
        progress.begin("joining")
        defer { progress.end() }
        let hasJoined = try access.repository.join { Interruption.hasArrived }
        try Interruption.shared.check()
        return hasJoined
    }

    private func exchange(
        _ remote: SyncRemotes.Remote, _ direction: Exchange.Direction, _ title: String, _ round: inout Round
    ) throws {
        progress.begin(title)
        defer { progress.end() }
        do {
            let report = try failing(remote) {
                let exchange =
                    try exchanges[remote.name] ?? access.repository.makeExchange(remote.objects, named: remote.name)
                exchanges[remote.name] = exchange
                return try access.repository.perform(exchange, direction)
            }
            round.fetched += report.receivedCommits
            round.pushed += report.sentCommits
            round.repaired += Int(clamping: report.lostCommits)
            round.snapshots += report.receivedSnapshots
            if let failure = report.failures.first { round.failures.append((remote.name, failure)) }
        } catch let error where Self.isOfRemote(error) {
            round.failures.append((remote.name, error))
        }
        try Interruption.shared.check()
        revisions[remote.name] = try access.repository.revision()
    }

    /// Runs a call. A remote that is new to the store and with which nothing was exchanged is forgotten again: it would be a
    /// remote of every later command.
    private func failing<Value>(_ remote: SyncRemotes.Remote, _ body: () throws -> Value) throws -> Value {
        do {
            do {
                try SyncRemotes.requireFolder(remote.address)
            } catch {
                if remote.isKnown { try access.repository.noteFailure(of: "list", at: remote.name) }
                throw error
            }
            return try body()
        } catch {
            // The error of the exchange is the one that matters.
            if !remote.isKnown { _ = try? access.repository.forget(remote: remote.name) }
            throw error
        }
    }

    /// Whether an error is one of a remote: other remotes may work.
    private static func isOfRemote(_ error: any Error) -> Bool {
        error is RemoteFailure || (error as? CommandFailure)?.name == "noDirectory"
            || (error as? CommandFailure)?.name == "notFolder"
            // A link of another user in the path of a folder.
            || (error as? StoreError)?.code == .storeName
    }
}

extension SyncExchange.Round {
    /// - Throws: The error of the first remote that has failed.
    func throwFailure() throws {
        if let first = failures.first { throw first.error }
    }

    var failuresJSON: JSON {
        .array(
            failures.map { failure in
                let report = ErrorReport(failure.error)
                return .object([
                    "remote": .string(failure.remote), "code": .string(report.name), "message": .string(report.message),
                ])
            })
    }
}
