import ChangesetSync
import Foundation
import StorePlatform
import Synchronization

/// How fast something goes, and how long the rest will take.
struct TransferRate: Equatable {
    var done = 0
    var bytes = 0

    /// `120 commits/s, 1.5 MB/s, ETA 12 s`; empty in the first moment.
    func text(total: Int?, after seconds: Double) -> String {
        guard seconds >= 0.2, done > 0 else { return "" }
        let rate = Double(done) / seconds
        var parts = [rate >= 10 ? "\(Int(rate)) commits/s" : "\(Self.tenths(rate)) commits/s"]
        parts.append("\(Self.amount(Double(bytes) / seconds))/s")
        if let total, total > done { parts.append("ETA \(Self.duration(Double(total - done) / rate))") }
        return parts.joined(separator: ", ")
    }

    private static func tenths(_ value: Double) -> String {
        let tenths = Int((min(value, 1e12) * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    private static func amount(_ bytes: Double) -> String {
        bytes >= 1e6 ? "\(tenths(bytes / 1e6)) MB" : "\(tenths(bytes / 1e3)) kB"
    }

    private static func duration(_ seconds: Double) -> String {
        let whole = Int(min(seconds, 1e9).rounded(.up))
        return whole < 120 ? "\(whole) s" : "\(whole / 60) min"
    }
}

/// Shows how far an exchange is.
final class SyncProgress: Sendable {
    private let bar: ProgressBar
    private let state = Mutex(State())

    private struct State {
        var title = ""
        var total: Int?
        var rate = TransferRate()
        var start = ContinuousClock.now
    }

    init() { bar = ProgressBar("sync") }

    /// Begins a part: pushing, fetching, merging, pulling.
    func begin(_ title: String, total: Int? = nil) {
        state.withLock { $0 = State(title: title, total: total) }
        bar.show(title)
    }

    func add(commits: Int, bytes: Int) {
        let (state, text) = state.withLock { state in
            state.rate.done += commits
            state.rate.bytes += bytes
            let elapsed = (ContinuousClock.now - state.start) / .seconds(1)
            return (state, state.rate.text(total: state.total, after: elapsed))
        }
        if let total = state.total {
            bar.show(state.rate.done, of: total, detail: "\(state.title) \(state.rate.done) of \(total) \(text)")
        } else {
            bar.show("\(state.title) \(state.rate.done) commits \(text)")
        }
    }

    /// Removes the line.
    func end() { bar.end() }
}

/// Another remote, whose traffic is shown.
final class MeteredRemote: SyncRemote {
    private let base: any SyncRemote
    private let progress: SyncProgress

    init(_ base: any SyncRemote, _ progress: SyncProgress) { (self.base, self.progress) = (base, progress) }

    var name: String { base.name }
    var repository: RepositoryID { base.repository }

    func put(_ objects: [RemoteObject]) async throws -> [PutResult] {
        let results = try await base.put(objects)
        let stored = zip(objects, results).filter { if case .collision = $1 { false } else { true } }
        progress.add(
            commits: stored.count { $0.0.position != nil }, bytes: stored.reduce(0) { $0 + $1.0.bytes.count })
        return results
    }

    func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
        try await base.list(after: cursor, limit: limit)
    }

    func get(_ ids: [ObjectID]) async throws -> [RemoteObject] {
        let objects = try await base.get(ids)
        progress.add(commits: objects.count, bytes: objects.reduce(0) { $0 + $1.bytes.count })
        return objects
    }

    func watch() -> AsyncStream<Void>? { base.watch() }

    var compaction: (any RemoteCompaction)? { base.compaction }
}

/// A remote by its name alone, to ask a store what it knows of it. Nothing is connected.
struct NamedRemote: SyncRemote {
    let name: String
    let repository: RepositoryID

    func put(_ objects: [RemoteObject]) async throws -> [PutResult] { throw notConnected }

    func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage { throw notConnected }

    func get(_ ids: [ObjectID]) async throws -> [RemoteObject] { throw notConnected }

    private var notConnected: RemoteError {
        .unavailable(remote: name, SystemError(call: "connect", path: nil, errorNumber: ENOTCONN))
    }
}
