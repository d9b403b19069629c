import CipherDatabase
import StorePlatform

/// The sign of a process that has the store open: a shared lock on one byte of the lock file, for as long as it lives.
///
/// It is taken before the first connection is opened and given back behind the last one that is closed: whoever has it
/// alone may put another file in the store's place, as far as users of leases go.
final class Lease: Sendable {
    private let lock: HeldLock
    /// The place of a reader in the table of holders; a writing connection has its own.
    private let slot: HolderSlot?

    private init(_ lock: HeldLock, _ slot: HolderSlot?) {
        self.lock = lock
        self.slot = slot
    }

    /// What one try to take a lease came to.
    enum Attempt {
        /// nil where the process may not even read the lock file. SQLite's own locks still tell of it then.
        case taken(Lease?)
        /// Somebody switches the store to a new key, or is about to.
        case busy
    }

    /// Takes a lease.
    ///
    /// - Parameters:
    ///   - label: What others are told of a reader, where it may write the lock file; nil tells nothing.
    ///   - deadline: When to give up; nil waits as long as a switch to a new key may take.
    ///   - isCancelled: Asked while it waits; true ends the wait with `CancellationError`.
    /// - Throws: `StoreError` `storeInUse` at the deadline; `SystemError` where the lock file cannot be used.
    static func take(
        for paths: StorePaths, label: String?, readonly: Bool, deadline: ContinuousClock.Instant? = nil,
        isCancelled: (() -> Bool)? = nil
    ) throws -> Lease? {
        let deadline = deadline ?? .now + Limits.switchWait
        var pause = Limits.firstYieldPause
        while true {
            if case .taken(let lease) = try attempt(for: paths, label: label, readonly: readonly) { return lease }
            if isCancelled?() == true { throw CancellationError() }
            if ContinuousClock.now >= deadline { throw timeout(paths) }
            Pause.sleep(for: pause)
            pause = min(pause * 2, Limits.longestLeasePause)
        }
    }

    /// Takes a lease if it is to be had now.
    static func attempt(for paths: StorePaths, label: String?, readonly: Bool) throws -> Attempt {
        do {
            return try attemptWithRights(for: paths, label: label, readonly: readonly)
        } catch let error as SystemError where readonly && (error.isPermission || error.isNotFound) {
            return .taken(nil)
        }
    }

    private static func attemptWithRights(for paths: StorePaths, label: String?, readonly: Bool) throws -> Attempt {
        let file = try LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: readonly)
        // Newcomers wait for one who asks, or he would never have the lease alone.
        guard try !file.isHeld(.intent, against: .shared), let lock = try file.tryLock(.lease, .shared) else {
            return .busy
        }
        guard readonly, let label else { return .taken(Lease(lock, nil)) }
        // Only for others to see: a reader that may not write the file, or finds no room, goes without.
        let slot = try? HolderSlot.take(path: paths.lock, label: label, roles: [.lease, .readOnly])
        return .taken(Lease(lock, slot))
    }

    private static func timeout(_ paths: StorePaths) -> StoreError {
        let file = try? LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: true)
        return StoreError(
            .storeInUse,
            what: "The lease of \"\(paths.database)\" was not to be had in time.",
            why: "\(file?.nameOwner(of: .intent) ?? "Another process") is switching the store to a new key.",
            remedy: "Let it finish or end it, or wait longer; a process that dies frees its locks.")
    }

    func release() {
        lock.release()
        slot?.release()
    }
}

/// Every bound of this module.
enum Limits {
    /// How long an opening waits for a switch to a new key to end: for its lease, or for who completes the switch.
    static let switchWait = Duration.seconds(30)
    /// How long a process that is to stop waits for its stores to give their locks back.
    static let stopWait = Duration.seconds(2)
    /// How long a shared store waits for SQLite's locks unless its configuration says otherwise, in seconds.
    static let busyWait = 5.0
    /// The first pause of who waits for a lease; it doubles up to the longest one.
    static let firstYieldPause = Duration.microseconds(100)
    /// The longest pause of one who wants the lease alone, and so how late the last one given back may be noticed.
    static let longestYieldPause = Duration.milliseconds(1)
    /// The longest pause of one who wants to share it.
    static let longestLeasePause = Duration.milliseconds(10)
    /// How often those who gave the store up look whether the one who asked still lives.
    static let requestLookTime = Duration.milliseconds(5)
    /// How often a process looks for requests that cannot be woken for them.
    static let requestPollTime = Duration.milliseconds(50)
    /// How often one that is woken looks whether the lock file is still the one at its path.
    static let lockFileLookTime = Duration.seconds(5)
    /// The longest manifest or sidecar of a backup, in bytes.
    static let manifestBytes = 64 * 1024
    /// How long a restoration waits for changes of keys, openings and rotations under way.
    static let restorationWait = Duration.seconds(10)
}
