import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Waits for changes of files by any program.
///
/// Each file is watched for one change: after it, ``arm(_:)`` must be called again. So a burst of changes costs those
/// who make it nothing after the first.
/// - SeeAlso: <https://man7.org/linux/man-pages/man7/inotify.7.html>
package final class FileWatch: Sendable {
    /// The condition that is waited for.
    package enum Change: Sendable {
        /// The file is written or renamed. Of a file that is open, the removal is not seen.
        case content
        /// It is renamed or removed, or its attributes change.
        case name
    }

    private let events: FileDescriptor
    private let stopReader: FileDescriptor
    private let stopWriter: FileDescriptor

    /// - Returns: nil where the system has no such watch, or no room for another one: Linux allows 128 for each user.
    package init?() {
        #if os(Linux)
            let opened = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
            guard opened >= 0 else { return nil }
            let events = FileDescriptor(owning: opened, path: "inotify")
            var ends: [Int32] = [-1, -1]
            guard cplatform_pipe(&ends) == 0 else { return nil }
            self.events = events
            stopReader = FileDescriptor(owning: ends[0], path: "pipe")
            stopWriter = FileDescriptor(owning: ends[1], path: "pipe")
        #else
            return nil
        #endif
    }

    /// Watches the file that a path names now, until its next change.
    ///
    /// - Returns: False where there is no such file, or where it cannot be watched.
    @discardableResult
    package func arm(_ path: String, for change: Change) -> Bool {
        #if os(Linux)
            // The removal of a file that is open changes its attributes. So does SQLite with those of the WAL, for root.
            let mask =
                UInt32(IN_DELETE_SELF) | UInt32(IN_MOVE_SELF) | UInt32(IN_ONESHOT)
                | (change == .content ? UInt32(IN_MODIFY) : UInt32(IN_ATTRIB))
            return inotify_add_watch(events.number, path, mask) >= 0
        #else
            return false
        #endif
    }

    /// Waits for a change of a file that is watched, without a limit. Changes before the call count.
    ///
    /// - Returns: False after ``stop()``.
    package func wait() -> Bool {
        while true {
            var requests = [
                pollfd(fd: events.number, events: Int16(POLLIN), revents: 0),
                pollfd(fd: stopReader.number, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&requests, 2, -1) > 0 else { continue }
            if requests[1].revents != 0 { return false }
            if drain() { return true }
        }
    }

    /// Forgets the changes that were reported.
    ///
    /// - Returns: Whether there were any.
    private func drain() -> Bool {
        var isAny = false
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = buffer.withUnsafeMutableBytes { try? events.read(into: $0) }
            guard let count, count > 0 else { return isAny }
            isAny = true
        }
    }

    /// Ends ``wait()``, now and later.
    package func stop() { try? stopWriter.write([0]) }
}
