import CipherStore
import PageFormat
import StorePlatform
import StoreSharing

/// How far a replica follows its store.
public struct ReplicationStatus: Sendable {
    public let storeID: StoreID
    /// Everything that was committed up to this time is stored, in milliseconds since 1970; nil without a replica.
    public let until: UInt64?
    /// Whether a process replicates the store now.
    public let isRunning: Bool
    /// Frames of the WAL that are not stored; nil where a new base is needed.
    public let pendingFrames: Int?
    /// The page size in bytes.
    public let pageBytes: Int
    /// When it was read, in milliseconds since 1970.
    public let now: UInt64

    /// For how long the oldest commit may wait that is not stored, in seconds; nil where a new base is needed.
    public var lagSeconds: Double? {
        guard let pendingFrames, let until else { return nil }
        return pendingFrames == 0 ? 0 : Double(now - min(now, until)) / 1000
    }
}

extension BackupRepository {
    /// Compares a replica with its store. It holds the store like a reader, for milliseconds.
    ///
    /// - Throws: As ``StoreReplication/once(isCancelled:)``.
    public func replicationStatus(of path: String) throws -> ReplicationStatus {
        let hold = try WALHold(StorePaths(path)) { false }
        defer { hold.release() }
        let sidecar = try ReplicationSession.sidecar(of: hold.paths).claimed
        var view = WALView(hold.paths, pageBytes: sidecar.settings.pageBytes)
        var polling = Polling.untilSettled()
        var state = try view.state(hold)
        while state == nil, polling.sleep() { state = try view.state(hold) }
        let head = try replicaHead(of: sidecar.storeID)
        let other = try place.lockReplica(of: sidecar.storeID.bytes)
        other?.release()
        return ReplicationStatus(
            storeID: sidecar.storeID, until: head?.until, isRunning: other == nil,
            pendingFrames: try state.flatMap { state in
                // A process that replicates the store knows more about the run of the WAL than its objects say.
                let isKnown = other == nil && head != nil
                return try pending(state, head, hold, epoch: sidecar.epoch) ?? (isKnown ? Int(state.frames) : nil)
            },
            pageBytes: sidecar.settings.pageBytes, now: UInt64(WallClock.millisecondsSince1970))
    }

    private func pending(
        _ state: WALView.State, _ head: ReplicaHead?, _ hold: WALHold, epoch: UInt64
    ) throws -> Int? {
        guard let head, head.epoch == epoch else { return nil }
        if state.salts == head.position.salts, state.frames >= head.position.frame {
            return Int(state.frames - head.position.frame)
        }
        if state.frames == 0 { return try hold.databaseModified < head.until ? 0 : nil }
        guard let salts = state.salts else { return nil }
        return salts.first == head.position.salts.first &+ 1 ? Int(state.frames) : nil
    }
}
