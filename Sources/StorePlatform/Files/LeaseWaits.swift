import Synchronization

/// The waits for processes that have leases on files of one folder (`fcntl F_SETLEASE`), bounded together: another user may
/// have one on each of many files.
package final class LeaseWaits: Sendable {
    private let left: Mutex<Duration>

    /// - Parameter total: How long all openings may wait. After that each waits for ``PlatformLimits/fileLeasePause``.
    package init(_ total: Duration? = nil) { left = Mutex(total ?? PlatformLimits.fileLeaseWait) }

    /// Opens a file for reading; nil when there is no such name, or when it is not a regular file.
    package func file(_ name: String, in folder: OpenFolder) throws(SystemError) -> OpenFile? {
        let start = ContinuousClock.now
        do throws(SystemError) {
            return try folder.file(name, leaseWait: max(left.withLock { $0 }, PlatformLimits.fileLeasePause))
        } catch {
            if error.isLeased { left.withLock { $0 -= ContinuousClock.now - start } }
            throw error
        }
    }
}
