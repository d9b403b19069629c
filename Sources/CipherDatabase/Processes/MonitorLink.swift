import StorePlatform
import StoreSharing
import Synchronization

/// Connects the monitor of external commits to the present writing connection and its holder row. It outlives the
/// connections of a shared store that yields.
package final class MonitorLink: Sendable {
    /// How an access for the monitor ended.
    package enum Access: Sendable {
        case done
        /// No connection may be used now; the function of ``setMonitor(_:)`` is called when one may be.
        case unavailable
        /// There will be none: the store was replaced, or has a key that this process does not know.
        case failed(any Error)
    }

    /// Runs a block in an access of the writing connection.
    package typealias Run = @Sendable (_ body: (Database) -> Void) -> Access

    /// The files of the database.
    package let paths: StorePaths
    private let suspension: DatabaseSuspension
    private let writeTurn: WriteTurn?
    private let commits = Atomic<Int>(0)
    private let state = Mutex(State())

    private struct State {
        var connection: Run?
        /// The access of a shared store, which comes before that of the connection.
        var store: Run?
        var monitor: (@Sendable () -> Void)?
        /// Whether the end of a suspension is awaited.
        var awaitsResumption = false
    }

    init(paths: StorePaths, suspension: DatabaseSuspension, writeTurn: WriteTurn?) {
        self.paths = paths
        self.suspension = suspension
        self.writeTurn = writeTurn
    }

    // MARK: The connection

    /// Sets how the connection that is open now is accessed.
    func connect(_ run: @escaping Run) {
        state.withLock { $0.connection = run }
        becomeAvailable()
    }

    /// Sets how a shared store accesses its connection, through yields and suspensions.
    package func connectStore(_ run: @escaping Run) { state.withLock { $0.store = run } }

    /// Called when the connection may be used again, or never again.
    package func becomeAvailable() { state.withLock { $0.monitor }?() }

    /// Called after each commit of the connection.
    func countCommit() { commits.add(1, ordering: .relaxed) }

    // MARK: The monitor

    /// The commits of this database's own connection so far.
    package var ownCommits: Int { commits.load(ordering: .relaxed) }

    /// Sets the function that is called when the connection may be used again; nil ends the calls.
    package func setMonitor(_ tell: (@Sendable () -> Void)?) { state.withLock { $0.monitor = tell } }

    /// The holder row that commits wake. The writing connection's row is used, because its own commits never wake it;
    /// without one, a row that the list of holders does not show.
    ///
    /// - Returns: nil where there is no lock file, or where the process may not write it.
    package func holderRow() -> HolderRow? {
        if let row = writeTurn?.holderRow { return row }
        guard Files.exists(paths.lock) else { return nil }
        return try? HolderRow.take(path: paths.lock, label: "", roles: [], isListed: false)
    }

    /// Runs a block on the writing connection, outside of any other access.
    package func access(_ body: (Database) -> Void) -> Access {
        if suspension.isSuspended {
            // Where only a lock was missing that may be free now.
            try? suspension.completeResumption()
            if let loss = suspension.loss { return .failed(loss) }
            if suspension.isSuspended {
                awaitResumption()
                return .unavailable
            }
        }
        guard let run = state.withLock({ $0.store ?? $0.connection }) else { return .unavailable }
        return run(body)
    }

    private func awaitResumption() {
        let isFirst = state.withLock { state in
            defer { state.awaitsResumption = true }
            return !state.awaitsResumption
        }
        guard isFirst else { return }
        _ = suspension.whenResumed { [weak self] in
            self?.state.withLock { $0.awaitsResumption = false }
            self?.becomeAvailable()
        }
    }
}

extension Database {
    /// The link for the monitor of other connections' commits; nil for a database that no other connection can change.
    package var monitorLink: MonitorLink? { writing.link }

    /// The error of a database whose path names another file now, or none; nil where it is in its place.
    package var lossOfFile: StoreError? {
        if isClosed { return nil }
        return handle.hasMoved ? StoreError.moved(path) : gating.wal?.fault(handle, always: false)?.error
    }

    /// Called by SQLite after each commit that has written to the WAL.
    func didCommitToWAL(frames: Int) {
        writing.walFrames = frames
        CrashPoint.reach(.commitUnnoticed)
        writing.link?.countCommit()
        // The effect of the program's C code is unknown.
        writing.writeTurn?.noticeCommit(always: gating.gateRest == .raw)
    }
}
