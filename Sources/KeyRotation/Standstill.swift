import CipherDatabase
import CipherStore
import StorePlatform

/// A moment in which nobody uses the store: every `SharedStore` of every process has closed its connections and waits, and
/// nobody opens it. Given up by ``end()``.
///
/// It only says so of those who know of leases. ``proveNobodyIsConnected()`` says it of all.
final class Standstill {
    private let request: YieldRequest
    /// A process that is stopped or ended meanwhile keeps all others waiting.
    private let signals: SignalDeferral
    private let lease: HeldLock
    private let opening: HeldLock
    private let database: String
    /// The database that is about to be replaced, with SQLite's bytes locked.
    private var file: LiveFile?
    private var isEnded = false
    /// When the processes were asked.
    let begin: ContinuousClock.Instant
    /// How long they waited; known behind ``end(wasReplaced:)``.
    private(set) var length = Duration.zero

    /// Asks for it, and waits within the deadline.
    ///
    /// - Parameters:
    ///   - insists: Whether long reads and snapshots are ended.
    ///   - budget: How long to wait for newcomers, and then once more for the others.
    /// - Returns: nil when it was not to be had; everybody goes on then.
    static func begin(
        _ paths: StorePaths, insists: Bool, budget: Duration, isCancelled: @escaping () -> Bool
    ) throws -> Standstill? {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        // Before anybody is asked: a newcomer that is opening the store is waited for while all others go on.
        guard
            let opening = try lockFile.tryLock(.opening, .exclusive, until: .now + budget, isCancelled: isCancelled)
        else { return nil }
        let signals = SignalDeferral()
        let begin = ContinuousClock.now
        guard let request = try YieldRequest.ask(paths, insists: insists) else { return nil }
        CrashPoint.reach(.rotationYieldAsked)
        do {
            guard let lease = try request.exclusiveLease(until: begin + budget, isCancelled: isCancelled) else {
                request.end()
                return nil
            }
            CrashPoint.reach(.rotationLeaseTaken)
            return Standstill(paths.database, request, lease, opening, signals, begin)
        } catch {
            request.end()
            throw error
        }
    }

    private init(
        _ database: String, _ request: YieldRequest, _ lease: HeldLock, _ opening: HeldLock,
        _ signals: SignalDeferral, _ begin: ContinuousClock.Instant
    ) {
        self.database = database
        self.request = request
        self.lease = lease
        self.opening = opening
        self.signals = signals
        self.begin = begin
    }

    deinit { end() }

    /// Locks SQLite's own bytes, which every connection of any program would keep from being locked.
    ///
    /// - Returns: False when somebody has the database open.
    func proveNobodyIsConnected() throws -> Bool {
        let found = try LiveFiles.descriptor(of: database)
        guard try found.tryLockSQLiteBytes() else { return false }
        file = found
        return true
    }

    /// Lets connections to the database in again, those of this process: everybody who knows of leases still waits.
    func admitConnections() { try? file?.unlockSQLiteBytes() }

    /// Makes sure that nobody takes the replaced database for the store. The other's name is durable.
    func spoilReplaced() throws { try file?.spoil() }

    /// Whether the path names the file whose bytes are locked.
    func isInPlace() throws -> Bool { try Files.identity(database) == file?.identity }

    /// Lets everybody go on. A second call does nothing.
    ///
    /// - Parameter wasReplaced: Whether another file has the database's place, so that the former one is closed for good.
    func end(wasReplaced: Bool = false) {
        guard !isEnded else { return }
        isEnded = true
        if !wasReplaced { try? file?.unlockSQLiteBytes() }
        lease.release()
        opening.release()
        request.end()
        length = .now - begin
        signals.end()
        // Behind all that: closing the former database frees its room, which takes the longer the larger it was.
        if wasReplaced { file?.giveUp() }
        file = nil
    }
}
