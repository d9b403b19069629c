import CipherStore
import ObjectStorage
import PageFormat
import StorePlatform
import StoreSharing

/// Ships the commits of a store to a repository as they happen, so that the store can be restored as it was at any second.
///
/// A base is the whole database at one moment. After it the frames of the WAL follow in segments, encrypted as they are, each
/// commit with its time. No key is needed. Writers never wait for it. Checkpoints go on, and the WAL is reset only after its
/// frames are stored; it may grow up to a bound meanwhile. Docs/Backup.md describes the use, Docs/Formats/Replica.md the
/// objects.
///
/// ```swift
/// let replication = StoreReplication(of: path, to: try BackupRepository(creatingAt: "/backup"))
/// try replication.run { isStopped.load(ordering: .relaxed) }
/// ```
public final class StoreReplication {
    /// How a replica is kept.
    public struct Options: Sendable {
        /// The length of the WAL, in bytes, at which commits that cannot be stored are given up. A new base follows then.
        public var walLimitBytes = 1024 << 20
        /// How often a base is made. A restoration reads the segments since the last base.
        public var baseInterval = Duration.seconds(24 * 3600)

        public init() {}
    }

    /// An event of a replication.
    public enum Event: Sendable {
        /// A base was stored.
        case base(ReplicationBase)
        /// Frames were stored: everything that was committed up to a time, in milliseconds since 1970.
        case shipped(frames: Int, until: UInt64)
        /// Commits since a time, in milliseconds since 1970, are missing until the next base.
        case gap(since: UInt64)
        /// The store is yielded to a switch to a new key.
        case yielded
        /// An error after which it tries again.
        case problem(any Error)
    }

    private let path: String
    private let repository: BackupRepository
    private let options: Options
    private let onEvent: (Event) -> Void
    /// The last object before the store was switched to a new key.
    private var former: ReplicaHead?

    /// - Parameters:
    ///   - path: The database file of a store with a sidecar.
    ///   - repository: Where the replica is kept; it may have backups and other replicas.
    ///   - onEvent: Called on the thread of ``run(onPoll:isCancelled:)``.
    public init(
        of path: String, to repository: BackupRepository, options: Options = Options(),
        onEvent: @escaping (Event) -> Void = { _ in }
    ) {
        self.path = path
        self.repository = repository
        self.options = options
        self.onEvent = onEvent
    }

    /// Ships what is committed, and ends.
    ///
    /// - Throws: `StoreError` `storeInUse` where another process replicates the store to this place, `rotationPending`,
    ///   `saltMissing` for a store without a sidecar, `walDamaged`, `truncated`; `CancellationError`; `SystemError`.
    public func once(isCancelled: @escaping @Sendable () -> Bool = { false }) throws {
        let session = try ReplicationSession(path, repository, isCancelled: isCancelled)
        defer { session.close() }
        do {
            if let base = try session.begin(after: nil) { onEvent(.base(base)) }
            try session.poll()
            try ship(session)
        } catch let gap as ReplicationGap {
            onEvent(.base(try session.makeBase(gapSince: gap.since)))
        }
        try session.markEnd(after: ReplicationLimits.endMilliseconds)
    }

    /// Ships commits within a second, until it is cancelled. Waits and tries again after errors that may pass.
    ///
    /// - Parameters:
    ///   - onPoll: Called at least once a second, as long as it works.
    ///   - isCancelled: Called often; true ends the call after everything is shipped.
    /// - Throws: `StoreError` `alreadyExists` where another process replicates a store of the same identifier; errors that do
    ///   not pass, as of another version of the repository.
    public func run(onPoll: @escaping () -> Void = {}, isCancelled: @escaping @Sendable () -> Bool) throws {
        var retry = ReplicationLimits.firstRetry
        var reported: UInt64?
        while !isCancelled() {
            do {
                try hold(onPoll, isCancelled) { retry = ReplicationLimits.firstRetry }
            } catch let gap as ReplicationGap {
                if gap.since == reported {
                    // The place still fails.
                    wait(retry, onPoll, isCancelled)
                    retry = min(retry * 2, ReplicationLimits.longestRetry)
                } else {
                    onEvent(.gap(since: gap.since))
                    reported = gap.since
                }
            } catch is CancellationError {
                return
            } catch {
                guard Self.isPassing(error) else { throw error }
                onEvent(.problem(error))
                wait(retry, onPoll, isCancelled)
                retry = min(retry * 2, ReplicationLimits.longestRetry)
            }
        }
    }

    /// Whether an error may pass by itself.
    private static func isPassing(_ error: any Error) -> Bool {
        switch error {
        case let error as any ObjectStoreError: !error.isRefusal
        case let error as StoreError:
            [
                .storeInUse, .rotationPending, .walDamaged, .walMissing, .truncated, .storeMoved, .saltMissing,
                .sidecarDamaged, .databaseMissing, .noSuchStore, .backupDamaged,
            ].contains(error.code)
        case is SystemError: true
        default: false
        }
    }

    private func wait(_ time: Duration, _ onPoll: () -> Void, _ isCancelled: () -> Bool) {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end, !isCancelled() {
            onPoll()
            Pause.sleep(for: ReplicationLimits.yieldPause)
        }
    }

    // MARK: One hold of the store

    /// Holds the store until it must be yielded, or the call is cancelled.
    private func hold(
        _ onPoll: @escaping () -> Void, _ isCancelled: @escaping @Sendable () -> Bool, onSuccess: () -> Void
    ) throws {
        let session = try ReplicationSession(path, repository, onTick: onPoll, isCancelled: isCancelled)
        defer { session.close() }
        if let base = try session.begin(after: former) { onEvent(.base(base)) }
        former = nil
        var failures = ShippingFailures()
        while !isCancelled() {
            onPoll()
            try session.poll()
            if session.isDue, failures.mayTry { try shipOrKeep(session, &failures) }
            if failures.areNone {
                if session.pendingBytes == 0 { onSuccess() }
                try session.maintain()
                try session.markEnd(after: ReplicationLimits.idleMilliseconds)
                if session.needsBase(after: options.baseInterval) { onEvent(.base(try session.makeBase(gapSince: 0))) }
            }
            if session.hold.isAsked { return try yield(session, onPoll, isCancelled) }
            guard session.hold.isInPlace else { return }
            Pause.sleep(for: session.pause)
        }
        try session.poll()
        try ship(session)
        try session.markEnd(after: ReplicationLimits.endMilliseconds)
    }

    private func ship(_ session: ReplicationSession) throws {
        let frames = try session.ship()
        if frames > 0, let head = session.head { onEvent(.shipped(frames: frames, until: head.until)) }
    }

    /// Ships, or keeps the frames in the WAL after an error of the place, up to the bound.
    private func shipOrKeep(_ session: ReplicationSession, _ failures: inout ShippingFailures) throws {
        do {
            try ship(session)
            failures.end()
        } catch let error where Self.isPassing(error) {
            onEvent(.problem(error))
            failures.add()
            if session.walBytes > options.walLimitBytes { throw ReplicationGap(since: session.head?.until ?? 0) }
        }
    }

    /// The errors of a place, one after the other.
    private struct ShippingFailures {
        private var next: ContinuousClock.Instant?
        private var pause = ReplicationLimits.firstRetry

        var areNone: Bool { next == nil }
        var mayTry: Bool { next.map { $0 <= .now } ?? true }

        mutating func add() {
            next = .now + pause
            pause = min(pause * 2, ReplicationLimits.longestRetry)
        }

        mutating func end() { self = ShippingFailures() }
    }

    /// Stores the last commits before a switch to a new key, and releases the store until the switch has ended.
    ///
    /// All users of the store close it first, so nothing is committed after what is stored here. The switch does not wait for a
    /// place that fails.
    private func yield(
        _ session: ReplicationSession, _ onPoll: () -> Void, _ isCancelled: @escaping @Sendable () -> Bool
    ) throws {
        onEvent(.yielded)
        let deadline = ContinuousClock.now + ReplicationLimits.yieldWait
        var isLast = try session.hold.excludeOthers()
        while !isLast, session.hold.isAsked, ContinuousClock.now < deadline {
            try session.poll()
            if session.isDue { try ship(session) }
            Pause.sleep(for: ReplicationLimits.urgentPause)
            isLast = try session.hold.excludeOthers()
        }
        try session.poll()
        try ship(session)
        if isLast { former = session.head }
        session.close()
        while session.hold.isAsked, !isCancelled() {
            onPoll()
            Pause.sleep(for: ReplicationLimits.yieldPause)
        }
    }
}

/// A base that was stored.
public struct ReplicationBase: Sendable {
    public let storeID: StoreID
    /// Bases of a store count from 1.
    public let number: UInt32
    /// The number of pages of the database.
    public let pages: UInt32
    /// The page size in bytes.
    public let pageBytes: Int
    /// Pages that the base before did not have.
    public let newPages: Int
    /// Until when the replica is complete before it, if commits after that are missing: milliseconds since 1970.
    public let gapSince: UInt64?
    /// Its moment, in milliseconds since 1970.
    public let until: UInt64
}
