import StorePlatform

/// The sign that a process has the store open: a shared lock on one byte of the lock file while the object lives.
///
/// It is acquired before the first connection is opened and released after the last one is closed. The process that
/// holds the exclusive lease may replace the store's file, as far as users of leases are concerned.
package final class Lease: Sendable {
    private let lock: HeldLock
    /// A reader's row in the table of holders; a writing connection has its own.
    private let holderRow: HolderRow?

    private init(_ lock: HeldLock, _ holderRow: HolderRow?) {
        self.lock = lock
        self.holderRow = holderRow
    }

    /// The outcome of one attempt to acquire a lease.
    package enum Attempt: Sendable {
        /// nil where the process may not even read the lock file. SQLite's own locks still show it then.
        case taken(Lease?)
        /// A process switches the store to a new key, or is about to.
        case busy
    }

    /// Acquires a lease.
    ///
    /// - Parameters:
    ///   - label: The name of a reader in the table of holders, if it may write the lock file; nil for no row.
    ///   - deadline: When to give up; nil waits ``SharingLimits/leaseWait``, as long as a switch to a new key may take.
    ///   - isCancelled: Called while it waits; true ends the wait with `CancellationError`.
    /// - Throws: `StoreError` `storeInUse` at the deadline; `SystemError` where the lock file cannot be used.
    package static func take(
        for paths: StorePaths, label: String?, readonly: Bool, deadline: ContinuousClock.Instant? = nil,
        isCancelled: (() -> Bool)? = nil
    ) throws -> Lease? {
        var polling = Polling(
            first: SharingLimits.firstLeasePause, longest: SharingLimits.longestSharedPause,
            until: deadline ?? .now + SharingLimits.leaseWait, isCancelled: isCancelled)
        while true {
            if case .taken(let lease) = try attempt(for: paths, label: label, readonly: readonly) { return lease }
            guard try polling.next() else { throw StoreError.leaseTimeout(paths) }
        }
    }

    /// Acquires a lease if it is available now.
    package static func attempt(for paths: StorePaths, label: String?, readonly: Bool) throws -> Attempt {
        do {
            return try attemptWithRights(for: paths, label: label, readonly: readonly)
        } catch let error as SystemError where readonly && (error.isPermission || error.isNotFound) {
            return .taken(nil)
        }
    }

    private static func attemptWithRights(for paths: StorePaths, label: String?, readonly: Bool) throws -> Attempt {
        let file = try LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: readonly)
        // Newcomers wait while the intent byte is locked; otherwise its holder would never get the exclusive lease.
        guard try !file.isHeld(.intent, against: .shared), let lock = try file.tryLock(.lease, .shared) else {
            return .busy
        }
        guard readonly, let label else { return .taken(Lease(lock, nil)) }
        // The row only informs others: a reader that may not write the file, or finds no free row, works without.
        let holderRow = try? HolderRow.take(path: paths.lock, label: label, roles: [.lease, .readOnly])
        return .taken(Lease(lock, holderRow))
    }

    /// Releases the lease. A second call does nothing.
    package func release() {
        lock.release()
        holderRow?.release()
    }
}

extension StoreError {
    /// The error of a process that did not get a lease in time.
    ///
    /// Any user who may open the lock file can hold the locks that keep it out, so that the holder need not be a rotation.
    package static func leaseTimeout(_ paths: StorePaths) -> StoreError {
        let file = try? LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: true)
        let isIntended = (try? file?.isHeld(.intent, against: .shared)) ?? nil
        let owner = file?.nameOwner(of: isIntended == true ? .intent : .lease) ?? "Another process"
        return StoreError(
            .storeInUse, what: "The lease of \"\(paths.database)\" could not be acquired in time.",
            why: "\(owner) holds the lock of a switch to a new key.",
            remedy: "Let it finish, end it, or wait longer. If no process is named, repeat it as root. A process that "
                + "dies releases its locks.")
    }
}
