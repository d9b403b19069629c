import StorePlatform
import StoreSharing

/// The two locks under which the keys of a store change.
///
/// `admin` excludes other changes and rotations. `opening` excludes openers, which may be writing a copy of the sidecar
/// to complete a creation or to update a copy. Both are held for milliseconds; keys are derived before.
struct KeyLocks {
    private let opening: HeldLock
    private let admin: HeldLock

    /// Waits until both are free, and never holds one while it waits for the other.
    ///
    /// - Parameter onWait: Called once with the holder, when another process changes or rotates the keys: that can take
    ///   long.
    /// - Throws: ``StoreError`` `storeInUse` when the wait takes longer than `wait`; `CancellationError`;
    ///   ``SystemError``.
    static func take(
        _ databasePath: String, wait: Duration, isCancelled: (() -> Bool)?, onWait: ((String) -> Void)?
    ) throws -> KeyLocks {
        let file = try LockFile(path: databasePath + "-lock", likeFile: databasePath)
        let deadline = ContinuousClock.now + wait
        var onWait = onWait
        while true {
            let opening = try file.lock(.opening, .exclusive, deadline: deadline, isCancelled: isCancelled)
            if let admin = try file.tryLock(.admin, .exclusive) { return KeyLocks(opening: opening, admin: admin) }
            opening.release()
            onWait?("\(file.nameOwner(of: .admin)) \(LockByte.admin.purpose): waiting until it ends")
            onWait = nil
            try file.lock(.admin, .exclusive, deadline: deadline, isCancelled: isCancelled).release()
        }
    }

    func release() {
        admin.release()
        opening.release()
    }
}
